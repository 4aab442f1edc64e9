"""The message tree, and answers that are saved whole or not at all."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import (
    Database,
    DraftRecord,
    GenerationRecord,
    Message,
    NewSequence,
    RecordExistsError,
    RecordNotFoundError,
    StepRecord,
)


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def count(db: Database, table: str) -> int:
    row = db._connections.row(f"SELECT count(*) AS number FROM {table}")
    assert row is not None
    number: int = row["number"]
    return number


def test_a_chat_reads_from_its_first_message_to_its_last(
    db: Database, exchange: Callable[..., Message]
) -> None:
    conversation = db.conversations.create()
    assert db.messages.list(conversation.id) == []
    first = exchange(conversation.id, "One?", "One.")
    exchange(conversation.id, "Two?", "Two.", parent_id=first.id)
    messages = db.messages.list(conversation.id)
    assert texts(messages) == ["One?", "One.", "Two?", "Two."]
    assert [message.role for message in messages] == ["user", "assistant"] * 2
    assert [message.parent_id for message in messages] == [None, *(m.id for m in messages[:-1])]


def test_a_second_answer_takes_the_place_of_the_first_which_stays_beside_it(
    db: Database, exchange: Callable[..., Message]
) -> None:
    conversation = db.conversations.create()
    first = exchange(conversation.id, "Question", "First answer")
    exchange(conversation.id, "Follow-up", "More", parent_id=first.id)
    assert first.parent_id is not None
    again = db.messages.start_answer(conversation.id, first.parent_id)
    assert [message.id for message in db.messages.list(conversation.id)] == [
        first.parent_id,
        again.id,
    ]
    assert db.messages.get(first.id).parent_id == again.parent_id, "it stays beside the new one"


def test_without_a_remembered_leaf_the_newest_message_is_current(
    db: Database, exchange: Callable[..., Message]
) -> None:
    conversation = db.conversations.create()
    exchange(conversation.id, "Question", "Answer")
    with db._connections.transaction() as connection:
        connection.execute("UPDATE conversations SET current_message_id = NULL")
    assert texts(db.messages.list(conversation.id)) == ["Question", "Answer"]


def test_a_message_needs_a_chat_and_a_parent_in_it(
    db: Database, exchange: Callable[..., Message]
) -> None:
    one, other = db.conversations.create(), db.conversations.create()
    message = exchange(one.id)
    with pytest.raises(RecordNotFoundError, match="Chat 99 does not exist"):
        db.messages.add_user(99, None, "Hello")
    with pytest.raises(RecordNotFoundError, match="has no message"):
        db.messages.add_user(other.id, message.id, "Hello")
    with pytest.raises(RecordNotFoundError):
        db.messages.get(99)
    assert db.messages.list(other.id) == []


def test_an_answer_is_there_while_it_streams(db: Database, data_dir: Path) -> None:
    conversation = db.conversations.create()
    tokenizer_id = db.tokenizers.ensure("f", "name")
    answer = db.messages.start_answer(conversation.id, None, tokenizer_id=tokenizer_id)
    assert (answer.status, answer.text, answer.token_ids) == ("streaming", "", ())
    db.messages.save_progress(answer.id, "Hal", np.array([0, 5], dtype=np.int32))
    db.messages.save_progress(answer.id, "Half an", [0, 5, 49151])
    with Database(data_dir) as other:
        seen = other.messages.get(answer.id)
    assert (seen.status, seen.text, seen.token_ids) == ("streaming", "Half an", (0, 5, 49151))
    assert seen.tokenizer_id == tokenizer_id


def test_a_growing_answer_has_its_steps_each_once_and_can_still_be_finished(
    db: Database, generation: GenerationRecord, step: StepRecord
) -> None:
    conversation = db.conversations.create()
    tokenizer_id = db.tokenizers.ensure("f", "name")
    answer = db.messages.start_answer(conversation.id, None, tokenizer_id=tokenizer_id)
    steps = [replace(step, index=index) for index in range(3)]
    going_on = replace(generation, reason="", num_steps=2)
    db.messages.save_progress(answer.id, "a", [1], generation=going_on, steps=steps[:1])
    db.messages.save_progress(
        answer.id, "ab", [1, 2], generation=going_on, steps=steps[1:2], num_kept_steps=1
    )
    saved = db.generations.for_message(answer.id)
    assert saved is not None
    assert saved.id is not None
    assert (saved.reason, saved.num_steps) == ("", 2)
    assert db.generations.list_steps(saved.id) == steps[:2]
    assert db.generations.for_messages([answer.id, 99]) == {answer.id: saved}
    db.messages.finish_answer(
        answer.id,
        text="abc",
        token_ids=[1, 2, 3],
        status="stopped",
        generation=generation,
        steps=steps,
    )
    ended = db.generations.for_message(answer.id)
    assert ended is not None
    assert ended.id is not None
    assert ended.reason == generation.reason
    assert db.generations.list_steps(ended.id) == steps
    with pytest.raises(RecordExistsError):
        db.messages.finish_answer(answer.id, text="x", token_ids=[], status="stopped")


def test_a_finished_answer_has_all_that_belongs_to_it(
    db: Database, generation: GenerationRecord, step: StepRecord
) -> None:
    conversation = db.conversations.create("A chat")
    tokenizer_id = db.tokenizers.ensure("f", "name")
    answer = db.messages.start_answer(conversation.id, None, tokenizer_id=tokenizer_id)
    steps = [
        step,
        replace(step, index=1, draft=DraftRecord((3,), (-1,), ("model",), (1.0,), (-1,))),
    ]
    sequence_id = db.messages.finish_answer(
        answer.id,
        text="Whole",
        token_ids=[1, 2],
        status="stopped",
        generation=generation,
        steps=steps,
        sequence=NewSequence(tokenizer_id, [9, 1, 2]),
    )
    saved = db.messages.get(answer.id)
    assert (saved.text, saved.token_ids, saved.status) == ("Whole", (1, 2), "stopped")
    record = db.generations.for_message(answer.id)
    assert record is not None
    assert record.id is not None
    assert replace(record, id=None, message_id=None) == generation
    assert db.generations.list_steps(record.id) == steps
    assert sequence_id is not None
    assert db.sequences.token_ids(sequence_id).tolist() == [9, 1, 2]
    origin = db.sequences.origin(sequence_id)
    assert (origin.kind, origin.name) == ("history", "A chat")
    assert (origin.conversation_id, origin.message_id) == (conversation.id, answer.id)


def test_numbers_from_numpy_are_saved_as_numbers(
    db: Database, generation: GenerationRecord, step: StepRecord
) -> None:
    conversation = db.conversations.create()
    answer = db.messages.start_answer(conversation.id, None)
    numpy_step = replace(
        step,
        width=np.int64(4),
        accepted_nodes=tuple(np.array([1, 2])),
        draft=replace(step.draft, origins=(None, tuple(np.array([41, 7])), np.int32(19), None)),
    )
    db.messages.finish_answer(
        answer.id,
        text="",
        token_ids=[],
        status="complete",
        generation=replace(generation, num_tokens=np.int64(4)),
        steps=[numpy_step],
    )
    record = db.generations.for_message(answer.id)
    assert record is not None
    assert record.id is not None
    assert record.num_tokens == generation.num_tokens
    assert db.generations.list_steps(record.id) == [step]


def test_a_failure_says_why_and_leaves_no_history(db: Database) -> None:
    conversation = db.conversations.create()
    answer = db.messages.start_answer(conversation.id, None)
    nothing = db.messages.finish_answer(
        answer.id, text="", token_ids=[], status="failed", error="The model ran out of memory."
    )
    assert nothing is None
    assert db.messages.get(answer.id).error == "The model ran out of memory."
    assert db.generations.for_message(answer.id) is None
    assert count(db, "sequences") == count(db, "sources") == 0


FAILURES: dict[str, dict[str, Any]] = {
    "a step twice": {"num_steps": 2},
    "an unknown tokenizer": {"tokenizer_id": 999},
    "an id beyond int32": {"sequence_ids": [2**31]},
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_in_the_middle_of_an_answer_leaves_nothing_of_it(
    db: Database, generation: GenerationRecord, step: StepRecord, failure: dict[str, Any]
) -> None:
    conversation = db.conversations.create()
    tokenizer_id = failure.get("tokenizer_id", db.tokenizers.ensure("f", "name"))
    answer = db.messages.start_answer(conversation.id, None)
    db.messages.save_progress(answer.id, "Half", [1])
    sequence = NewSequence(tokenizer_id, failure.get("sequence_ids", [1, 2]))
    before = db.messages.get(answer.id), db.conversations.get(conversation.id)
    with pytest.raises(Exception):  # noqa: B017, PT011  which one does not matter here
        db.messages.finish_answer(
            answer.id,
            text="Whole",
            token_ids=[1, 2],
            status="complete",
            generation=generation,
            steps=[step] * failure.get("num_steps", 1),
            sequence=sequence,
        )
    assert (db.messages.get(answer.id), db.conversations.get(conversation.id)) == before
    assert [count(db, table) for table in ("generations", "steps", "sequences", "sources")] == [
        0
    ] * 4
    db.messages.finish_answer(answer.id, text="Whole", token_ids=[1, 2], status="complete")


def test_an_answer_is_finished_once(db: Database, exchange: Callable[..., Message]) -> None:
    conversation = db.conversations.create()
    answer = exchange(conversation.id, "Question", "Answer")
    for message_id in (answer.id, answer.parent_id):
        assert message_id is not None
        with pytest.raises(RecordExistsError):
            db.messages.finish_answer(message_id, text="x", token_ids=[], status="stopped")
        with pytest.raises(RecordNotFoundError):
            db.messages.save_progress(message_id, "x", [])
    assert texts(db.messages.list(conversation.id)) == ["Question", "Answer"]


def test_an_answer_whose_chat_was_deleted_meanwhile_is_told_so(db: Database) -> None:
    conversation = db.conversations.create()
    answer = db.messages.start_answer(conversation.id, None)
    db.conversations.delete(conversation.id)
    with pytest.raises(RecordNotFoundError, match="deleted"):
        db.messages.save_progress(answer.id, "x", [])
    with pytest.raises(RecordNotFoundError, match="deleted"):
        db.messages.finish_answer(answer.id, text="x", token_ids=[1], status="complete")
    assert count(db, "messages") == 0


def test_answers_cut_off_by_the_end_of_the_process_are_recovered_at_start(
    data_dir: Path, exchange: Callable[..., Message], db: Database
) -> None:
    conversation = db.conversations.create()
    exchange(conversation.id)
    answer = db.messages.start_answer(conversation.id, None)
    db.messages.save_progress(answer.id, "Half", [1, 2])
    with Database(data_dir) as next_start:
        assert next_start.messages.recover_interrupted() == 1
        recovered = next_start.messages.get(answer.id)
        assert next_start.messages.recover_interrupted() == 0
    assert (recovered.status, recovered.text, recovered.token_ids) == ("stopped", "Half", (1, 2))


def test_steps_without_a_generation_are_a_mistake(db: Database, step: StepRecord) -> None:
    answer = db.messages.start_answer(db.conversations.create().id, None)
    with pytest.raises(AssertionError):
        db.messages.finish_answer(answer.id, text="", token_ids=[], status="complete", steps=[step])


def test_the_counters_of_all_answers_add_up(db: Database, exchange: Callable[..., Message]) -> None:
    nothing = db.generations.totals()
    assert (nothing.num_answers, nothing.num_tokens, nothing.accepted_by_source) == (0, 0, {})
    chat = db.conversations.create("a").id
    exchange(chat)
    exchange(chat)
    totals = db.generations.totals()
    assert (totals.num_answers, totals.num_tokens, totals.num_steps) == (2, 8, 2)
    assert (totals.num_drafted_tokens, totals.num_accepted_tokens) == (6, 4)
    assert totals.accepted_by_source == {"history": 2, "prompt": 2}


def test_a_question_reads_the_last_message_alone_and_its_prompt_in_one_go(
    db: Database, exchange: Callable[..., Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a chat of thousands of messages, each question read all, and then each by itself."""
    conversation_id = db.conversations.create("Long").id
    assert db.messages.current(conversation_id) is None
    parent_id = None
    for _ in range(20):
        parent_id = exchange(conversation_id, parent_id=parent_id).id
    read = db._connections.rows
    num_rows: list[int] = []

    def watched(*arguments: Any) -> Any:
        rows = read(*arguments)
        num_rows.append(sum("text" in row for row in rows))
        return rows

    monkeypatch.setattr(db._connections, "rows", watched)
    last = db.messages.current(conversation_id)
    assert last is not None
    assert last.id == parent_id
    assert sum(num_rows) == 1
    num_rows.clear()
    before = db.messages.until(db.messages.list(conversation_id)[-2].id)
    assert num_rows[-1] == 39
    assert num_rows[:-1].count(1) == 0
    assert [message.role for message in before] == ["user", "assistant"] * 19 + ["user"]
    with pytest.raises(RecordNotFoundError, match="Message 999"):
        db.messages.until(999)
    with pytest.raises(RecordNotFoundError, match="Chat 999"):
        db.messages.current(999)
    db.deletions.hide_conversation(conversation_id)
    with pytest.raises(RecordNotFoundError):
        db.messages.until(last.id)
    with pytest.raises(RecordNotFoundError):
        db.messages.current(conversation_id)
