"""What the panel shows of an answer, and what it should show by the database.

Used by the tests of the app as its users have it.
"""

from dataclasses import dataclass

from playwright.sync_api import Page, expect

from app.looks import look_of
from storage import GenerationRecord, Message, StepRecord
from tests.browser.panel_site import cells, shown_text

__all__ = ["SavedAnswer", "ShownPanel"]


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """The last answer of a chat, as the database has it."""

    message: Message
    generation: GenerationRecord
    steps: list[StepRecord]


@dataclass(frozen=True, slots=True)
class ShownPanel:
    """The whole panel of an answer.

    Args:
        lengths: accepted length of each step. `chips`: steps with a run in the text.
        counts: accepted tokens by look.
    """

    text: str
    lengths: list[str]
    chips: list[int]
    counts: dict[str, int]

    @classmethod
    def read(cls, page: Page, saved: SavedAnswer) -> "ShownPanel":
        """What stands in the page, once all steps do."""
        expect(cells(page)).to_have_count(len(saved.steps))
        counts = page.locator("#panel .legend [data-source] .count")
        chips = page.locator("#panel .run[data-step]")
        return cls(
            shown_text(page),
            cells(page).all_text_contents(),
            chips.evaluate_all("runs => runs.map(run => Number(run.dataset.step))"),
            {
                look: int(count)
                for look, count in counts.evaluate_all(
                    "found => found.map(c => [c.closest('li').dataset.source, c.textContent])"
                )
                if look != "model"
            },
        )

    @classmethod
    def expected(cls, saved: SavedAnswer) -> "ShownPanel":
        """What should stand there."""
        counts = dict.fromkeys(("chat", "history", "document", "recycled"), 0)
        for source, count in saved.generation.accepted_by_source.items():
            counts[look_of(source)] += count
        return cls(
            saved.message.text,
            [str(step.accepted_length) for step in saved.steps],
            [step.index for step in saved.steps if step.accepted_length],
            counts,
        )
