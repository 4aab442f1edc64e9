"""Documents in chats: the switch, the passages that answer a question, and those quoted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import Database, RecordNotFoundError
from storage.passage_text import (
    MAX_PASSAGE_LENGTH,
    content_words,
    likely_spans,
    split_passages,
)
from storage.passages import MAX_TEXT_LENGTH
from tests.storage.conftest import Exchange

GARDEN = (
    "# The garden\n\nA garden for bees needs flowers from early spring to late autumn. "
    "Lavender and thyme are good choices.\n\n"
    "# Water\n\nBees drink from shallow water. A plate with pebbles is enough, "
    "and it must never dry out in summer.\n"
)
KITCHEN = "# The kitchen\n\nKnives are sharpened on a stone.\n\nBread rests for an hour.\n"


def add(db: Database, name: str, text: str) -> int:
    tokenizer_id = db.tokenizers.ensure("fingerprint", "name")
    return db.sources.add_document(
        name=name,
        uri=f"file:///{name}",
        sha256=name,
        text=text,
        token_ids=[1, 2, 3],
        tokenizer_id=tokenizer_id,
    )[0]


def test_the_switch_is_off_until_somebody_turns_it_and_belongs_to_one_chat(db: Database) -> None:
    first, second = db.conversations.create("a").id, db.conversations.create("b").id
    assert not db.passages.are_used(first)
    db.passages.use(first, True)
    assert (db.passages.are_used(first), db.passages.are_used(second)) == (True, False)
    db.passages.use(first, False)
    assert not db.passages.are_used(first)
    for call in (lambda: db.passages.use(99, True), lambda: db.passages.are_used(99)):
        with pytest.raises(RecordNotFoundError):
            call()


def test_a_question_finds_the_passage_that_answers_it(db: Database) -> None:
    garden, kitchen = add(db, "garden.md", GARDEN), add(db, "kitchen.md", KITCHEN)
    (found, *_) = db.passages.find("What do bees drink?")
    assert found.source_id == garden
    assert "shallow water" in found.text
    assert GARDEN[found.start : found.end] == found.text
    (found, *_) = db.passages.find("How is a knife sharpened, on which stones?")
    assert found.source_id == kitchen
    assert db.passages.find("Which planets have rings?") == []
    assert db.passages.find(" ?! ") == []


def test_words_are_found_that_other_rules_write_longer_in_small_letters(db: Database) -> None:
    """As "strasse" the street was not in the index."""
    add(db, "weg.txt", "Die Straße misst sieben Meter, der Fußweg zwei.")
    [passage] = db.passages.find("STRAßE Fußweg")
    assert passage.name == "weg.txt"


def test_query_syntax_in_a_question_is_only_words(db: Database) -> None:
    add(db, "garden.md", GARDEN)
    for question in ('"bees', "bees AND (", "text: bees *", "NEAR(bees water)", "bees' -- ; NOT"):
        assert db.passages.find(question)[0].name == "garden.md"


def test_hidden_and_deleted_documents_are_neither_found_nor_quoted(
    db: Database, exchange: Exchange
) -> None:
    garden, kitchen = add(db, "garden.md", GARDEN), add(db, "kitchen.md", KITCHEN)
    answer = exchange(db.conversations.create("a").id)
    db.passages.save(answer.id, [(kitchen, 0, 13), (garden, 0, 12)])
    quoted = db.passages.quoted([answer.id])[answer.id]
    assert [(p.name, p.text) for p in quoted] == [
        ("kitchen.md", "# The kitchen"),
        ("garden.md", "# The garden"),
    ]
    with db.passages._connections.transaction() as connection:
        connection.execute("UPDATE sources SET deleted_at = 'now' WHERE id = ?", [garden])
    assert [p.name for p in db.passages.quoted([answer.id])[answer.id]] == ["kitchen.md"]
    assert db.passages.find("bees") == []
    with db.passages._connections.transaction() as connection:
        connection.execute("DELETE FROM sources WHERE id = ?", [kitchen])
    assert db.passages.quoted([answer.id]) == {answer.id: ()}


def test_a_long_text_is_searched_where_the_words_are(db: Database) -> None:
    filler = "Nothing of interest stands in this line at all.\n\n" * (MAX_TEXT_LENGTH // 40)
    text = f"{filler}The zebra sleeps beside the quay.\n\n{filler}"
    add(db, "long.txt", text)
    (found,) = db.passages.find("Where does the zebra sleep, at the quay?", limit=1)
    assert "zebra" in found.text
    assert text[found.start : found.end] == found.text


def test_saving_for_an_answer_that_is_gone_is_told(db: Database) -> None:
    with pytest.raises(RecordNotFoundError):
        db.passages.save(7, [(1, 0, 1)])


TEXTS = st.lists(
    st.sampled_from(
        ["word", "\n\n", "\n# Head\n", " ", "\n", ". ", "x" * 1_500, "ü 字 ", "\t\n \n"]
    )
).map("".join)


@given(TEXTS)
def test_passages_hold_everything_once_in_order_and_are_not_too_long(text: str) -> None:
    spans = list(split_passages(text, 0, len(text)))
    assert all(0 < end - start <= 2 * MAX_PASSAGE_LENGTH for start, end in spans)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    kept = [text[start:end] for start, end in spans]
    assert "".join("".join(kept).split()) == "".join(text.split())
    assert all(piece == piece.strip() for piece in kept)


@given(TEXTS, st.sampled_from([["word"], ["x", "head"], ["字"]]))
def test_regions_of_a_long_text_do_not_overlap(text: str, words: list[str]) -> None:
    spans = likely_spans(text * 40, words)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_the_words_of_every_question_are_not_looked_for() -> None:
    assert content_words("What is the Trie, and how does the trie forget?") == ["trie", "forget"]
    assert content_words("What is it?") == ["what", "is", "it"]
