"""What happens on the Trie tab: thin handlers between its component and the chat service.

Knows the service and the presenter, not the layout. `app.trie_tab` wires the methods.
"""

from typing import TYPE_CHECKING, Any

from app.page_errors import RefusedInputError, answers_errors, shows_errors
from app.payloads import checked_numbers, checked_text
from app.services.errors import EngineNotReadyError
from app.trie_presenter import overview_value, path_value

if TYPE_CHECKING:
    from app.services.chat_service import ChatService

__all__ = ["TrieHandlers"]

MAX_TOKEN_ID = 2**31 - 2
MAX_PATH_LENGTH = 64  # of it, as many tokens as drafts look at are used


class TrieHandlers:
    """The events of the tab, bound to the service."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service

    @shows_errors(1)
    def overview(self) -> dict[str, Any]:
        """The numbers of the Trie as it is now."""
        try:
            return overview_value(self._service.trie.overview())
        except EngineNotReadyError as error:
            return overview_value(None, str(error))

    @answers_errors
    def walk(self, payload: object) -> dict[str, Any]:
        """What follows {text, path: token ids behind it}; {error: a sentence} where it fails."""
        text = checked_text(payload, "text")
        path = checked_numbers(payload, "path", MAX_PATH_LENGTH)
        if not all(0 <= token_id <= MAX_TOKEN_ID for token_id in path):
            raise RefusedInputError("There is no such token.")
        return path_value(self._service.trie.walk(text, path))
