"""An answer cut into decode steps as an engine would make them, for tests of the page.

Every number follows from the text, so that two runs show the same.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from app.services.step_views import NodeView, PassageView, StepDetails
from app.services.views import AnswerNumbers
from storage.records import DraftRecord, StepRecord

__all__ = ["ORIGINS", "ScriptedAnswer", "scripted_answer", "scripted_details"]

SEQUENCES = {"history": 5, "document": 17}
ORIGINS = {5: "How do I service the pump?", 17: "pump-manual.md"}
MAX_ACCEPTED = 15
_SOURCES = ("prompt", "output", "history", "document", "recycled")
_LENGTHS = (0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7, 10, 15)
_TOKENS = re.compile(r"\s?\w{1,8}|\s|[^\w\s]")
_EXCERPT = 60


class ScriptedAnswer:
    """A text and its steps.

    Attributes:
        first: text of the first token, which no step emitted.
        texts: what each step's tokens completed.
    """

    def __init__(self, text: str) -> None:
        random_numbers = random.Random(text)
        tokens = _TOKENS.findall(text)
        assert "".join(tokens) == text
        self.text = text
        self.first = tokens[0] if tokens else ""
        self.texts: list[list[str]] = []
        self.steps: list[StepRecord] = []
        place = 1
        while place < len(tokens):
            accepted = min(random_numbers.choice(_LENGTHS), len(tokens) - place - 1)
            texts = tokens[place : place + accepted + 1]
            self.texts.append(texts)
            self.steps.append(_step(len(self.steps), place, texts, random_numbers))
            place += len(texts)

    def numbers(self, num_steps: int, base: AnswerNumbers) -> AnswerNumbers:
        """The numbers after so many steps."""
        steps = self.steps[:num_steps]
        accepted = sum(step.accepted_length for step in steps)
        num_tokens = 1 + sum(len(step.token_ids) for step in steps)
        sources = Counter(
            step.draft.sources[node] for step in steps for node in step.accepted_nodes
        )
        return replace(
            base,
            num_tokens=num_tokens,
            num_steps=len(steps),
            num_forwards=len(steps) + 1,
            tokens_per_step=(num_tokens - 1) / len(steps) if steps else 0.0,
            num_drafted_tokens=sum(step.width - 1 for step in steps),
            num_accepted_tokens=accepted,
            accepted_by_source=dict(sources),
            prefill_seconds=0.182,
            decode_seconds=sum(step.seconds for step in steps),
            draft_seconds=sum(step.draft_seconds for step in steps),
        )


def _step(
    index: int, place: int, texts: Sequence[str], random_numbers: random.Random
) -> StepRecord:
    """One step: the accepted path, and a rejected branch at some of its nodes."""
    accepted = len(texts) - 1
    source = random_numbers.choice(_SOURCES)
    token_ids, parents, sources = [place - 1], [-1], ["model"]
    probabilities, origins = [1.0], [None]
    path = [0]
    num_drafted = accepted + random_numbers.choice((0, 1, 2, 4))
    for depth in range(num_drafted):
        if random_numbers.random() < 0.15:
            source = random_numbers.choice(_SOURCES)
        path.append(len(token_ids))
        parents.append(len(token_ids) - 1)
        token_ids.append(place + depth)
        sources.append(source)
        probabilities.append(probabilities[-1] * random_numbers.uniform(0.72, 0.99))
        origins.append(_origin(source, place + depth))
    for node in list(path[1:]):
        if random_numbers.random() < 0.25:
            parents.append(parents[node])
            token_ids.append(place + 40 + node)
            sources.append("recycled")
            probabilities.append(probabilities[node] * 0.3)
            origins.append(None)
    return StepRecord(
        index=index,
        width=len(token_ids),
        rows=16 if len(token_ids) <= 16 else 32,
        accepted_length=accepted,
        match_length=random_numbers.randint(1, 9) if num_drafted else 0,
        token_ids=tuple(range(place, place + len(texts))),
        accepted_nodes=tuple(path[1 : accepted + 1]),
        draft=DraftRecord(
            tuple(token_ids),
            tuple(parents),
            tuple(sources),
            tuple(probabilities),
            tuple(origins),  # type: ignore[arg-type]
        ),
        seconds=random_numbers.uniform(0.05, 0.07),
        draft_seconds=random_numbers.uniform(0.0002, 0.0009),
        text_lengths=tuple(len(text) for text in texts),
    )


def _origin(source: str, place: int) -> tuple[int, int] | int | None:
    if source in SEQUENCES:
        return SEQUENCES[source], 800 + place
    return None if source == "recycled" else max(0, place - 20)


@lru_cache(maxsize=64)
def scripted_answer(text: str) -> ScriptedAnswer:
    """The same steps for the same text."""
    return ScriptedAnswer(text)


def scripted_details(message_id: int, text: str, index: int) -> StepDetails:
    """One step with its tree and the passages it was drafted from."""
    answer = scripted_answer(text)
    step = answer.steps[index]
    tokens = [answer.first, *(token for texts in answer.texts for token in texts)]
    draft = step.draft
    nodes = tuple(
        NodeView(
            text=tokens[token_id % len(tokens)],
            parent=parent,
            source=source,
            probability=probability,
            is_accepted=node in step.accepted_nodes,
            origin=origin,
        )
        for node, (token_id, parent, source, probability, origin) in enumerate(
            zip(
                draft.token_ids,
                draft.parents,
                draft.sources,
                draft.probabilities,
                draft.origins,
                strict=True,
            )
        )
    )
    return StepDetails(
        message_id=message_id,
        index=index,
        width=step.width,
        rows=step.rows,
        accepted_length=step.accepted_length,
        match_length=step.match_length,
        seconds=step.seconds,
        draft_seconds=step.draft_seconds,
        bonus_text=answer.texts[index][-1],
        nodes=nodes,
        passages=tuple(_passages(answer, index)),
    )


def _passages(answer: ScriptedAnswer, index: int) -> list[PassageView]:
    step = answer.steps[index]
    before = (answer.first + "".join("".join(texts) for texts in answer.texts[:index]))[-_EXCERPT:]
    after = "".join("".join(texts) for texts in answer.texts[index + 1 :])[:_EXCERPT]
    run = "".join(answer.texts[index][:-1])
    found = {origin for origin in step.draft.origins[1:] if isinstance(origin, tuple)}
    passages = []
    for sequence_id in sorted({sequence_id for sequence_id, _ in found}):
        is_document = sequence_id == SEQUENCES["document"]
        offset = min(offset for owner, offset in found if owner == sequence_id)
        passages.append(
            PassageView(
                sequence_id=sequence_id,
                offset=offset,
                num_tokens=max(1, step.accepted_length),
                kind="document" if is_document else "chat",
                label=ORIGINS[sequence_id],
                uri="file:///notes/pump-manual.md" if is_document else "",
                conversation_id=None if is_document else 1,
                message="" if is_document else "And how often is it serviced?",
                before=before,
                run=run,
                after=after,
                character_start=4 * offset if is_document else None,
                character_end=4 * offset + len(run) if is_document else None,
                is_accepted=step.accepted_length > 0,
            )
        )
    return passages
