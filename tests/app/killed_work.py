"""Work on database and Trie that is killed at random instants, and what must be true afterwards.

`python -m tests.app.killed_work KIND FOLDER NUM_KILLS SEED` forks so many children, one after the
other, each of which works on the files that the one before left, tells what it has committed, and
is killed. Ends with an AssertionError where a promise is broken. Run by `test_kills.py`.
"""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from app.services.trie_keeper import TrieKeeper
from lookahead.draft import TokenSource
from storage import (
    DATABASE_NAME,
    Database,
    GenerationRecord,
    NewSequence,
    SegmentCache,
    database,
)
from storage.migrations import MIGRATIONS
from tests.stored import purge_versions, shown_sequence_ids

Told = list[str]
GENERATION = GenerationRecord("end", "model", "strict", "bfloat16", "cpu")
FTS_CHECK = (
    "INSERT INTO document_texts_fts (document_texts_fts, rank) VALUES ('integrity-check', 1)"
)


def tokens_of(number: int, length: int = 400) -> np.ndarray:
    """Token ids that nothing else has."""
    return 1_000 * number + np.arange(length)


def word_of(number: int) -> str:
    return f"zanzibar{number}x"


def open_keeper(db: Database, folder: Path) -> TrieKeeper:
    cache = SegmentCache(folder / "segments.db", db.database_id)
    return TrieKeeper(db, cache, db.tokenizers.ensure("print", "name"))


def add_document(db: Database, number: int) -> int:
    source_id, _ = db.sources.add_document(
        name=f"{number}.txt",
        uri=f"/{number}.txt",
        sha256=str(number),
        text=f"{word_of(number)} " * 300,
        token_ids=tokens_of(number),
        tokenizer_id=db.tokenizers.ensure("print", "name"),
    )
    return source_id


# ------------------------------------------------------------- what is killed: yields what is told


def chat(folder: Path, start: int) -> Iterator[str]:
    """Questions and answers that grow and are finished, with their sequences."""
    with Database(folder) as db:
        tokenizer_id = db.tokenizers.ensure("print", "name")
        db.messages.recover_interrupted()
        conversation = db.conversations.create("Killed")
        parent_id = None
        while True:
            user = db.messages.add_user(conversation.id, parent_id, "question")
            yield f"question {user.id}"
            answer = db.messages.start_answer(conversation.id, user.id, tokenizer_id=tokenizer_id)
            db.messages.save_progress(answer.id, "half", [answer.id])
            db.messages.finish_answer(
                answer.id,
                text="whole",
                token_ids=[answer.id] * 2_000,
                status="complete",
                generation=GENERATION,
                sequence=NewSequence(tokenizer_id, [answer.id] * 2_000),
            )
            yield f"answer {answer.id}"
            parent_id = answer.id


def imports(folder: Path, start: int) -> Iterator[str]:
    """Documents, and now and then one deleted as an import deletes what a file held before."""
    with Database(folder) as db:
        for number in range(start, start + 1_000):
            yield f"document {add_document(db, number)} {number}"
            if number % 5 == 0:
                purge_versions(db, f"/{number}.txt")
                db.sources.erase_deleted_words()


def merge(folder: Path, start: int) -> Iterator[str]:
    """Documents sealed into segments that are merged and cached."""
    with Database(folder) as db:
        keeper = open_keeper(db, folder)
        for number in range(start, start + 1_000):
            yield f"document {add_document(db, number)} {number}"
            keeper.reconcile()
            if number % 3 == 0:
                keeper.trie.seal()
                while keeper.tidy():
                    pass
                keeper.save_anew()


def forget(folder: Path, start: int) -> Iterator[str]:
    """Documents deleted, some brought back, the others purged everywhere."""
    with Database(folder) as db:
        keeper = open_keeper(db, folder)
        db.erasures.finish(lambda _: keeper.save_anew())
        for number in range(start, start + 1_000):
            source_id = add_document(db, number)
            keeper.reconcile()
            keeper.trie.seal()
            keeper.save_anew()
            keeper.hide(db.deletions.hide_documents([source_id]))
            yield f"hidden {source_id} {number}"
            if number % 2:
                keeper.restore(db.deletions.restore("document", [source_id]))
                yield f"document {source_id} {number}"
            else:
                db.deletions.purge(datetime.now(UTC))
                yield f"purged {source_id} {number}"
                assert db.erasures.finish(lambda _: keeper.save_anew())


def migration(folder: Path, start: int) -> Iterator[str]:
    """The upgrade of a file of the first version, with rows."""
    with Database(folder):
        yield "upgraded"
    while True:
        signal.pause()


# --------------------------------------------------------------------------- what must be true then


def check_documents(folder: Path, told: Told) -> None:
    """Every document told of is whole; none is half there; the Trie is that of the database."""
    with Database(folder) as db:
        rows = db._connections.rows(
            "SELECT sources.id, text IS NOT NULL AS has_text, count(sequences.id) AS num"
            " FROM sources LEFT JOIN document_texts ON document_texts.source_id = sources.id"
            " LEFT JOIN sequences ON sequences.source_id = sources.id GROUP BY sources.id"
        )
        assert all(row["has_text"] and row["num"] == 1 for row in rows), rows
        with db._connections.transaction() as connection:
            connection.execute(FTS_CHECK)
        state: dict[int, tuple[str, int]] = {}
        for line in told:
            kind, source_id, number = line.split()
            state[int(source_id)] = (kind, int(number))
        present = {row["id"] for row in rows}
        for source_id, (kind, number) in state.items():
            if kind == "document" and number % 5:
                assert db.sources.text(source_id).startswith(word_of(number))
            elif kind == "purged":
                assert source_id not in present
        keeper = open_keeper(db, folder)
        assert keeper.trie.sequence_ids - keeper.trie.snapshot.hidden == set(
            shown_sequence_ids(db, keeper.tokenizer_id)
        )
        for sequence_id, _, token_ids in db.sequences.all(keeper.tokenizer_id):
            snapshot = keeper.trie.snapshot
            found = snapshot.candidates(token_ids[:4], 3, snapshot.edges_of(()))
            assert snapshot.locate(int(found.positions[0])).source is TokenSource.DOCUMENT
            located = {snapshot.locate(int(p)).sequence_id for p in found.positions}
            assert sequence_id in located
        assert db.erasures.finish(lambda _: keeper.save_anew())
        gone = [number for kind, number in state.values() if kind == "purged"]
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert not [number for number in gone if word_of(number).encode() in content]
    assert not [n for n in gone if tokens_of(n)[7:10].astype("<i4").tobytes() in content]


def check_chats(folder: Path, told: Told) -> None:
    """Every question and answer told of is there, an answer with all that belongs to it."""
    with Database(folder) as db:
        assert db.messages.recover_interrupted() <= 1
        for line in told:
            kind, message_id = line.split()
            message = db.messages.get(int(message_id))
            assert message.text == ("question" if kind == "question" else "whole")
        for row in db._connections.rows(
            "SELECT id, text, status FROM messages WHERE role <> 'user'"
        ):
            sequence = db.sequences.for_message(row["id"])
            generation = db.generations.for_message(row["id"])
            is_whole = row["status"] == "complete"
            assert row["text"] == "whole" if is_whole else row["text"] in ("", "half")
            assert (sequence is not None) == (generation is not None) == is_whole


def check_upgrade(folder: Path, told: Told) -> None:
    """The rows are there, whichever version the file has; the copy, if there is one, is whole."""
    for copy in (folder / "backups").glob("*.db"):
        shutil.copy(copy, folder / "copy.db")
        assert rows_of_first_version(folder / "copy.db") == 50
    assert rows_of_first_version(folder / DATABASE_NAME) == 50
    with Database(folder) as db:
        assert len(db.conversations.list()) == 50
        assert len(list((folder / "backups").glob("*"))) <= 2


def rows_of_first_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        count: int = connection.execute("SELECT count(*) FROM conversations").fetchone()[0]
        return count


def prepare_upgrade(folder: Path) -> None:
    """A file of the first version with 50 chats, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    latest, database.MIGRATIONS = database.MIGRATIONS, MIGRATIONS[:1]
    with contextlib.suppress(sqlite3.OperationalError):  # the latest stores cannot read it
        Database(folder)
    database.MIGRATIONS = latest
    with closing(sqlite3.connect(folder / DATABASE_NAME)) as connection, connection:
        connection.executemany(
            "INSERT INTO conversations (title, created_at, updated_at) VALUES (?, ?, ?)",
            [("x" * 2_000, "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05+00:00")] * 50,
        )


KINDS: dict[str, tuple[Callable[[Path, int], Iterator[str]], Callable[[Path, Told], None]]] = {
    "chat": (chat, check_chats),
    "import": (imports, check_documents),
    "merge": (merge, check_documents),
    "forget": (forget, check_documents),
    "migration": (migration, check_upgrade),
}


def killed(
    work: Callable[[Path, int], Iterator[str]],
    folder: Path,
    start: int,
    *,
    num_awaited: int,
    delay: float,
) -> Told:
    """What a child told before it was killed, `delay` seconds after the first few things it told.

    So few children are killed before they came to anything, however slow the machine is.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            for line in work(folder, start):
                os.write(writing, f"{line}\n".encode())
        except BaseException as error:  # noqa: BLE001 - a child must not run its parent's code
            os.write(writing, f"failed {error!r}\n".encode())
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = [pipe.readline() for _ in range(num_awaited)]
        time.sleep(delay)  # the instant is what is random
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told += pipe
    told = [line.rstrip("\n") for line in told if line.endswith("\n")]
    assert not [line for line in told if line.startswith("failed")], told[-1:]
    return told


def warm_up(folder: Path) -> None:
    """Load in the parent what is compiled when it is first used: the children inherit it."""
    with Database(folder) as db:
        keeper = open_keeper(db, folder)
        for number in range(4):
            add_document(db, number)
            keeper.reconcile()
            keeper.trie.seal()
            while keeper.trie.merge():
                pass
        keeper.save_anew()
        snapshot = open_keeper(db, folder).trie.snapshot
        snapshot.candidates(tokens_of(1)[:4], 3, snapshot.edges_of(()))
    shutil.rmtree(folder)


def main(kind: str, folder: Path, num_kills: int, seed: int) -> int:
    """Kill so many children; returns how many things they had told."""
    work, check = KINDS[kind]
    warm_up(folder.with_name("warm-up"))
    rng = random.Random(seed)
    told: Told = []
    for index in range(num_kills):
        if kind == "migration":
            prepare_upgrade(folder)
            told = []
        told += killed(
            work,
            folder,
            1_000 * (index + 1),
            num_awaited=0 if kind == "migration" else rng.randrange(4),
            delay=rng.uniform(0, 0.05),
        )
        if kind == "migration":
            check(folder, told)
            continue
        with Database(folder) as db:
            assert db._connections.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        check(folder, told)
    return len(told)


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
