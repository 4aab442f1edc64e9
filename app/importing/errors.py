"""What can stand against taking a file in.

UnreadableError         the file is not taken in; the message is the reason, for people
ReadingCancelledError   reading was given up because nobody wants it any more
"""

__all__ = ["ReadingCancelledError", "UnreadableError", "explain_failure"]


class UnreadableError(Exception):
    """A file cannot be taken in. The message is the reason, in a few words for people."""


class ReadingCancelledError(Exception):
    """Reading was broken off on request."""


def explain_failure(error: OSError | RuntimeError | ValueError) -> str:
    """The reason against a file or folder that the system would not give."""
    match error:
        case FileNotFoundError():
            return "there is no such file or folder"
        case PermissionError():
            return "no permission to read it"
        case RecursionError():
            return "its folders lie too deep inside each other"
        case OSError() if error.strerror:
            return f"cannot be read ({error.strerror})"
        case _:
            return "cannot be read"
