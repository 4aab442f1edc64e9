"""The errors a user of the engine can meet. Each message says what happened and what to do.

LookaheadError
├── ModelNotFoundError      the name is no folder, no known model, on no hub in reach
├── ModelSetupError         the embedded model could not be fetched, checked or converted
├── UnsupportedModeError    the mode asked for is not possible with this model on this machine
├── ContextFullError        the prompt does not fit into the model's context
├── InvalidRequestError     a value in the request is out of its range
└── BlobFormatError         (blob.py) saved bytes are damaged or of another version
    ├── SegmentFormatError      (segment.py)
    └── SuccessorFormatError    (successors.py)
"""

__all__ = [
    "ContextFullError",
    "InvalidRequestError",
    "LookaheadError",
    "ModelNotFoundError",
    "ModelSetupError",
    "UnsupportedModeError",
]


class LookaheadError(Exception):
    """Base of every error that the engine raises on purpose."""


class ModelNotFoundError(LookaheadError):
    """The model's name is neither a folder, nor a known model, nor on a hub that can be reached."""


class ModelSetupError(LookaheadError):
    """The embedded model could not be fetched, checked or converted."""


class UnsupportedModeError(LookaheadError):
    """The decoding mode asked for is not possible with this model on this machine."""


class ContextFullError(LookaheadError):
    """The prompt leaves no room for an answer in the model's context."""


class InvalidRequestError(LookaheadError):
    """A value in the request is out of its range."""
