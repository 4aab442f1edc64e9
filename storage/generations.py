"""How answers came about: their statistics and their steps.

Knows no engine; the counters carry the engine's names. Written by `messages.py` together with the
answer, read by the app's services.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import fields

import numpy as np
from sqlite_utils import Database as Connection

from storage.connections import Connections, Row
from storage.records import (
    AnswerTotals,
    DraftOrigin,
    DraftRecord,
    GenerationRecord,
    StepRecord,
)
from storage.token_blobs import pack_token_ids, unpack_token_ids

__all__ = ["Generations", "replace_generation"]

GENERATION_COLUMNS = tuple(f.name for f in fields(GenerationRecord) if f.name != "id")


class Generations:
    """The tables `generations` and `steps`."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def for_message(self, message_id: int) -> GenerationRecord | None:
        """How this answer came about; None where that was not recorded."""
        row = self._connections.row("SELECT * FROM generations WHERE message_id = ?", [message_id])
        return None if row is None else generation(row)

    def for_messages(self, message_ids: Collection[int]) -> dict[int, GenerationRecord]:
        """How these answers came about, by message; those of which it is not known are left out."""
        rows = self._connections.rows(
            "SELECT * FROM generations WHERE message_id IN (SELECT value FROM json_each(?))",
            [compact_json([*message_ids])],
        )
        return {row["message_id"]: generation(row) for row in rows}

    def totals(self) -> AnswerTotals:
        """The counters of all answers together."""
        row = self._connections.row(
            "SELECT count(*) AS num_answers, coalesce(sum(num_tokens), 0) AS num_tokens,"
            " coalesce(sum(num_steps), 0) AS num_steps,"
            " coalesce(sum(num_drafted_tokens), 0) AS num_drafted_tokens,"
            " coalesce(sum(num_accepted_tokens), 0) AS num_accepted_tokens FROM generations"
            " WHERE message_id IN (SELECT id FROM shown_messages)"
        )
        assert row is not None, "sums have a row"
        by_source = self._connections.rows(
            "SELECT key, sum(value) AS total FROM generations, json_each(accepted_by_source)"
            " WHERE message_id IN (SELECT id FROM shown_messages) GROUP BY key"
        )
        return AnswerTotals(
            **row, accepted_by_source={found["key"]: found["total"] for found in by_source}
        )

    def list_steps(self, generation_id: int) -> list[StepRecord]:
        """The steps of a generation, in order."""
        rows = self._connections.rows(
            "SELECT * FROM steps WHERE generation_id = ? ORDER BY step_index", [generation_id]
        )
        return [step(row) for row in rows]


def replace_generation(
    connection: Connection,
    message_id: int,
    generation: GenerationRecord,
    steps: Sequence[StepRecord],
    *,
    num_kept_steps: int = 0,
) -> None:
    """Write both within the caller's transaction, in place of what stood there before.

    `num_kept_steps`: of the steps that stood there, the first so many stay; `steps` follow them.
    """
    values = {name: getattr(generation, name) for name in GENERATION_COLUMNS}
    values["message_id"] = message_id
    values["seed"] = None if generation.seed is None else str(generation.seed)
    values["accepted_by_source"] = compact_json(
        {str(source): count for source, count in generation.accepted_by_source.items()}
    )
    connection.execute(
        f"INSERT INTO generations ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
        " ON CONFLICT (message_id) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in values),
        [plain(value) for value in values.values()],
    )
    row = connection.execute("SELECT id FROM generations WHERE message_id = ?", [message_id])
    generation_id: int = row.fetchone()[0]
    connection.execute(
        "DELETE FROM steps WHERE generation_id = ? AND step_index >= ?",
        [generation_id, num_kept_steps],
    )
    connection.conn.executemany(
        "INSERT INTO steps (generation_id, step_index, width, rows, accepted_length, match_length,"
        " token_ids, accepted_nodes, draft, seconds, draft_seconds, text_lengths, paused)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [step_values(generation_id, step) for step in steps],
    )


def step_values(generation_id: int, step: StepRecord) -> tuple[object, ...]:
    """A step as its row."""
    values = (
        generation_id,
        step.index,
        step.width,
        step.rows,
        step.accepted_length,
        step.match_length,
        pack_token_ids(step.token_ids),
        compact_json(step.accepted_nodes),
        compact_json({f.name: getattr(step.draft, f.name) for f in fields(DraftRecord)}),
        step.seconds,
        step.draft_seconds,
        compact_json(step.text_lengths),
        step.paused,
    )
    return tuple(plain(value) for value in values)


def plain(value: object) -> object:
    """A numpy scalar as Python's; SQLite would take it for bytes."""
    return value.item() if isinstance(value, np.generic) else value


def compact_json(value: object) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), default=plain)


def generation(row: Row) -> GenerationRecord:
    """The record of a row."""
    seed = None if row["seed"] is None else int(row["seed"])
    accepted_by_source = json.loads(row["accepted_by_source"])
    return GenerationRecord(**{**row, "seed": seed, "accepted_by_source": accepted_by_source})


def step(row: Row) -> StepRecord:
    """The record of a row."""
    draft = json.loads(row["draft"])
    return StepRecord(
        index=row["step_index"],
        width=row["width"],
        rows=row["rows"],
        accepted_length=row["accepted_length"],
        match_length=row["match_length"],
        token_ids=tuple(unpack_token_ids(row["token_ids"]).tolist()),
        accepted_nodes=tuple(json.loads(row["accepted_nodes"])),
        draft=DraftRecord(
            token_ids=tuple(draft["token_ids"]),
            parents=tuple(draft["parents"]),
            sources=tuple(draft["sources"]),
            probabilities=tuple(draft["probabilities"]),
            origins=tuple(origin(value) for value in draft["origins"]),
        ),
        seconds=row["seconds"],
        draft_seconds=row["draft_seconds"],
        text_lengths=tuple(json.loads(row["text_lengths"] or "[]")),
        paused=bool(row["paused"]),
    )


def origin(value: list[int] | int | None) -> DraftOrigin:
    """A node's origin as JSON has it, as the record has it."""
    return (value[0], value[1]) if isinstance(value, list) else value
