"""What one tab of the page shows.

Knows no service. A tab's own state in gradio; the handlers move it.
"""

from dataclasses import dataclass

__all__ = ["TabView"]


@dataclass(slots=True)
class TabView:
    """What one tab shows. Handlers move it, and a watcher of an earlier place ends.

    Args:
        conversation_id: the open chat; None: a new one.
        num_moves: grows with every move, also to the same place.
        is_panel_open: closed, the panel is told nothing.
        panel_message_id: the answer in the panel; None: the latest of the chat.
    """

    conversation_id: int | None = None
    num_moves: int = 0
    is_panel_open: bool = False
    panel_message_id: int | None = None

    @property
    def place(self) -> tuple[int, int | None]:
        """Where it stands: a watcher ends when this changes."""
        return self.num_moves, self.conversation_id

    def move(self, conversation_id: int | None) -> None:
        """Show another chat, or the same one anew; its latest answer in the panel."""
        self.conversation_id = conversation_id
        self.panel_message_id = None
        self.num_moves += 1

    def follow(self, conversation_id: int) -> None:
        """Show another chat without a move: what is followed goes on there."""
        self.conversation_id = conversation_id
        self.panel_message_id = None
