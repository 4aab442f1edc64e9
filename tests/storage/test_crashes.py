"""A process killed while it writes loses nothing that it had committed, and leaves nothing half."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import storage
from storage import Database

WRITER = """
import sys
from storage import Database, GenerationRecord, NewSequence

db = Database(sys.argv[1])
tokenizer_id = db.tokenizers.ensure("f", "name")
generation = GenerationRecord("end", "model", "strict", "bfloat16", "cpu")
conversation = db.conversations.create("Killed")
parent_id = None
while True:
    user = db.messages.add_user(conversation.id, parent_id, "question")
    answer = db.messages.start_answer(conversation.id, user.id)
    db.messages.save_progress(answer.id, "half", [answer.id])
    db.messages.finish_answer(
        answer.id, text="whole", token_ids=[answer.id] * 2000, status="complete",
        generation=generation, sequence=NewSequence(tokenizer_id, [answer.id] * 2000),
    )
    parent_id = answer.id
    print(answer.id, flush=True)
"""


@pytest.mark.parametrize("num_answers", [1, 7, 40])
def test_a_killed_process_loses_nothing_it_had_committed(data_dir: Path, num_answers: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(storage.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data_dir)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(num_answers)]
        process.kill()
        told += [int(line) for line in process.stdout if line.endswith("\n")]
    with Database(data_dir) as db:
        assert db._connections.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        assert db.messages.recover_interrupted() <= 1
        [conversation] = db.conversations.list()
        messages = db.messages.list(conversation.id)
        answers = [message for message in messages if message.status == "complete"]
        answers = [message for message in answers if message.role == "assistant"]
        assert set(told) <= {message.id for message in answers}
        assert {message.text for message in answers} == {"whole"}
        sequences = [db.sequences.get(i) for i in db.sequences.for_conversation(conversation.id)]
        assert [sequence.message_id for sequence in sequences] == [m.id for m in answers]
        assert all(db.generations.for_message(message.id) for message in answers)
        if messages[-1].status == "stopped":
            assert messages[-1].text in ("", "half")
