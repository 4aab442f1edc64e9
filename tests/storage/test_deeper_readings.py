"""Documents to be read by the model itself: which, and how far."""

import numpy as np

from storage import Database, DeeperReading
from tests.stored import purge_documents


def document(db: Database, name: str, num_tokens: int, tokenizer_id: int) -> int:
    source_id, _ = db.sources.add_document(
        name=name,
        uri=name,
        sha256=name,
        text="x" * num_tokens,
        token_ids=np.zeros(num_tokens, np.int32),
        tokenizer_id=tokenizer_id,
    )
    return source_id


def test_documents_are_read_in_order_and_once(db: Database) -> None:
    tokenizer_id = db.tokenizers.ensure("t", "T")
    first, _, third = (document(db, name, 10, tokenizer_id) for name in "abc")
    readings = db.deeper_readings
    assert readings.next("m", tokenizer_id) is None
    for source_id in (third, first, first):
        readings.want(source_id)
    assert readings.num_tokens_left("m", tokenizer_id) == 20
    reading = readings.next("m", tokenizer_id)
    assert reading == DeeperReading(first, 1, 10, 0)
    assert readings.next("m", tokenizer_id, after=first) == DeeperReading(third, 3, 10, 0)
    assert readings.next("m", tokenizer_id, after=third) is None
    readings.advance(first, "m", 6)
    assert readings.next("m", tokenizer_id) == DeeperReading(first, 1, 10, 6)
    assert readings.num_tokens_left("m", tokenizer_id) == 14
    readings.advance(first, "m", 10)
    assert readings.next("m", tokenizer_id) == DeeperReading(third, 3, 10, 0)
    assert readings.next("other", tokenizer_id) == DeeperReading(first, 1, 10, 0)
    other_tokenizer = db.tokenizers.ensure("u", "U")
    assert readings.next("m", other_tokenizer) is None, "it waits for its tokens"


def test_a_deleted_document_is_read_no_more(db: Database) -> None:
    tokenizer_id = db.tokenizers.ensure("t", "T")
    source_id = document(db, "a", 10, tokenizer_id)
    db.deeper_readings.want(source_id)
    db.deeper_readings.advance(source_id, "m", 5)
    purge_documents(db, source_id)
    assert db.deeper_readings.next("m", tokenizer_id) is None
    db.deeper_readings.advance(source_id, "m", 7)  # it was deleted meanwhile
    db.deeper_readings.want(source_id)
    assert db.deeper_readings.num_tokens_left("m", tokenizer_id) == 0
