"""What one tab of the page shows.

Knows no service. A tab's own state in gradio; the handlers move it.
"""

import threading
from dataclasses import dataclass, field

__all__ = ["TabView"]

_MOVING = threading.Lock()  # of all tabs, since gradio copies the state of one


@dataclass(slots=True)
class TabView:
    """What one tab shows. Handlers move it, and a watcher of an earlier place ends.

    Args:
        conversation_id: the open chat; None: a new one.
        num_moves: grows with every move, also to the same place.
        wants_documents: whether the next new chat is to use documents.
        is_panel_open: closed, the panel is told nothing.
        panel_message_id: the answer in the panel, chosen or held by its selected step; None: the
            latest of the chat.
        follows_demo: whether it goes where the demo goes.
        num_wakes: grows when the tab comes into sight and when it goes out of it.
        is_in_sight: whether the tab was in sight when it last told.
        missed: names of what it watched when it went out of sight, to be watched again.
    """

    conversation_id: int | None = None
    num_moves: int = 0
    wants_documents: bool = False
    is_panel_open: bool = False
    panel_message_id: int | None = None
    follows_demo: bool = False
    num_wakes: int = 0
    is_in_sight: bool = True
    missed: set[str] = field(default_factory=set)

    @property
    def place(self) -> tuple[int, int | None]:
        """Where it stands: a watcher ends when this changes."""
        return self.num_moves, self.conversation_id

    @property
    def panel_place(self) -> tuple[tuple[int, int | None], bool, int | None]:
        """What its panel shows: a value made for another one is too late."""
        return self.place, self.is_panel_open, self.panel_message_id

    def move(self, conversation_id: int | None, *, follows_demo: bool = False) -> None:
        """Show another chat, or the same one anew; its latest answer in the panel."""
        with _MOVING:
            if conversation_id != self.conversation_id:
                self.wants_documents = False
            self.conversation_id = conversation_id
            self.panel_message_id = None
            self.follows_demo = follows_demo
            self.num_moves += 1

    def come_into_sight(self) -> None:
        """A watcher of the time before ends."""
        with _MOVING:
            self.num_wakes += 1
            self.is_in_sight = True

    def go_out_of_sight(self) -> None:
        """What watches for the tab's own sake ends."""
        with _MOVING:
            self.num_wakes += 1
            self.is_in_sight = False

    def note_act(self) -> None:
        """Whoever acts in the tab looks at it, though leaving may have been told last.

        Nothing that watches ends by this.
        """
        with _MOVING:
            self.is_in_sight = True

    def takes_up(self, name: str) -> bool:
        """The tab came into sight: whether it has missed something of this since it left."""
        self.is_in_sight = True
        has_missed = name in self.missed
        self.missed.discard(name)
        return has_missed

    def follow(self, conversation_id: int, num_moves: int) -> bool:
        """Show another chat without a move: what is followed goes on there.

        An answer that somebody chose in the panel stays. False, and nothing is done, where the tab
        moved since there were `num_moves`.
        """
        with _MOVING:
            if self.num_moves != num_moves:
                return False
            self.conversation_id = conversation_id
            self.follows_demo = True
            return True
