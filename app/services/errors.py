"""The errors a user of the services can meet. Each message says what happened and what to do.

ServiceError
├── EngineNotReadyError     the model is not loaded, or could not be
├── BusyError               the conversation already has an answer being written
├── NothingToAnswerError    there is no question to answer
├── AnswerFailedError       the engine failed on this answer
├── TrieFileError           a Trie file cannot be written, or is not one
└── ServiceClosedError      the program is closing
"""

__all__ = [
    "AnswerFailedError",
    "BusyError",
    "EngineNotReadyError",
    "NothingToAnswerError",
    "ServiceClosedError",
    "ServiceError",
    "TrieFileError",
]


class ServiceError(Exception):
    """Base of every error that the services raise on purpose."""


class EngineNotReadyError(ServiceError):
    """The model is not loaded, or could not be."""


class BusyError(ServiceError):
    """The conversation already has an answer being written."""


class NothingToAnswerError(ServiceError):
    """There is no question to answer."""


class AnswerFailedError(ServiceError):
    """The engine failed on this answer."""


class TrieFileError(ServiceError):
    """A file of the Trie cannot be written or read, or is not one."""


class ServiceClosedError(ServiceError):
    """The program is closing."""
