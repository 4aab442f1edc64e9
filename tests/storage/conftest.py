"""A fresh database in a folder of its own, and a way to write a whole answer into it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from storage import (
    DATABASE_NAME,
    Database,
    DraftRecord,
    GenerationRecord,
    Message,
    NewSequence,
    StepRecord,
)

STEP = StepRecord(
    index=0,
    width=4,
    rows=16,
    accepted_length=2,
    match_length=5,
    token_ids=(0, 11, 12),
    accepted_nodes=(1, 2),
    draft=DraftRecord(
        token_ids=(7, 0, 11, 9),
        parents=(-1, 0, 1, 0),
        sources=("model", "history", "prompt", "recycled"),
        probabilities=(1.0, 0.1 + 0.2, 1 / 3, 1e-9),
        origins=(None, (41, 7), 19, None),
    ),
    seconds=0.0512345678901234,
    draft_seconds=0.0003,
    text_lengths=(0, 4, 1),
    paused=True,
)
GENERATION = GenerationRecord(
    reason="end",
    model="smollm2-135m",
    mode="strict",
    dtype="bfloat16",
    device="cpu",
    seed=2**64 - 1,
    temperature=0.8,
    top_k=40,
    top_p=0.95,
    min_p=0.05,
    repetition_penalty=1.1,
    prompt_length=30,
    reused_length=10,
    prefilled_length=20,
    num_prefill_chunks=1,
    num_steps=1,
    num_tokens=4,
    num_end_tokens=1,
    num_cut_tokens=2,
    num_drafted_tokens=3,
    num_accepted_tokens=2,
    accepted_by_source={"history": 1, "prompt": 1},
    prefill_seconds=0.25,
    decode_seconds=0.5,
    draft_seconds=0.125,
)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def db(data_dir: Path) -> Iterator[Database]:
    with Database(data_dir) as database:
        yield database


@pytest.fixture
def filled(data_dir: Path) -> Path:
    """The path of a closed database with one chat."""
    with Database(data_dir) as db:
        conversation = db.conversations.create("Kept")
        db.messages.add_user(conversation.id, None, "Keep me")
    return data_dir / DATABASE_NAME


@pytest.fixture
def step() -> StepRecord:
    return STEP


@pytest.fixture
def generation() -> GenerationRecord:
    return GENERATION


Exchange = Callable[..., Message]


@pytest.fixture
def exchange(db: Database) -> Exchange:
    """Writes a question and a finished answer with everything that belongs to it."""

    def write(
        conversation_id: int,
        question: str = "How?",
        answer: str = "So.",
        *,
        parent_id: int | None = None,
        token_ids: Sequence[int] = (5, 6, 7),
    ) -> Message:
        tokenizer_id = db.tokenizers.ensure("tokenizer", "A tokenizer")
        user = db.messages.add_user(conversation_id, parent_id, question)
        started = db.messages.start_answer(conversation_id, user.id, tokenizer_id=tokenizer_id)
        db.messages.finish_answer(
            started.id,
            text=answer,
            token_ids=token_ids,
            status="complete",
            generation=GENERATION,
            steps=[STEP],
            sequence=NewSequence(tokenizer_id, token_ids),
        )
        return db.messages.get(started.id)

    return write
