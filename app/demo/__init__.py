"""The demo's script: what is asked in which chat. The sample document lies beside it.

Data only. Held by `app.services.demonstrating`.
"""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHATS", "DOCUMENT", "PASSAGE", "SEED", "DemoChat", "DemoQuestion"]

DOCUMENT = Path(__file__).parent / "a-garden-for-bees.md"
SEED = 0

# stands in the sample document, word for word
PASSAGE = (
    "In March the males come out first and wait in the sun. A few days later the females come out. "
    "Each female looks for a hollow stem, carries in pollen and nectar, lays an egg on it, and "
    "closes the cell with a wall of mud."
)


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question, and how long its answer may be: it shows what it has to show, and ends."""

    text: str
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class DemoChat:
    """A chat of the demo; its title says that it is one."""

    title: str
    questions: tuple[DemoQuestion, ...]


CHATS = (
    DemoChat(
        "Demo 1: from a document",
        (DemoQuestion("Why are bees important?", 81),),
    ),
    DemoChat(
        "Demo 2: from chats, too",
        (
            DemoQuestion("Why are bees so important?", 81),
            DemoQuestion(f"Add commas to this passage:\n\n{PASSAGE}", 60),
            DemoQuestion("Write it once more.", 60),
            DemoQuestion("What does honey taste like?", 41),
        ),
    ),
)
