"""The details of a step: its whole tree, and the passages its tokens came from."""

import json
import threading
from pathlib import Path

import pytest

from app.panel_presenter import step_details_value
from app.services import AnswerSnapshot, ChatService
from app.services.step_details import _with_one_deleted, _without_roles
from app.services.step_views import PassageView
from lookahead.draft import TokenSource
from storage import ERASED_TOKEN_ID, Database, RecordNotFoundError, StepRecord
from storage.generations import Generations
from storage.sources import Sources
from tests.app.asking import OPTIONS, WAIT, Start, answered, wait_for
from tests.app.panel_values import panel_value
from tests.app.quoting_engine import QuotingEngine
from tests.app.scripted_engine import ScriptedEngine, ScriptedModel

DOCUMENT = "Vorwort: 東京 is large. The valve closes at 4 bar. Never open it by hand. Done."
QUOTE = "The valve closes at 4 bar."


def last_answer(service: ChatService, conversation_id: int) -> int:
    return service.messages(conversation_id)[-1].id


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "manual.md"
    path.write_text(DOCUMENT, encoding="utf-8")
    return path


def quoting_service(start: Start, document: Path, answer: str = QUOTE) -> tuple[ChatService, int]:
    """A service that answered with a quote of a document, and the answer."""
    service = start(QuotingEngine(answer, quoted=DOCUMENT.encode()))
    assert service.import_paths([document]).wait_until_over(WAIT).num_documents == 1
    return service, last_answer(service, answered(service, "When does it close?"))


def emitted(snapshot: AnswerSnapshot, index: int) -> str:
    """What a step added to the answer, which is one character for each token here."""
    lengths = [len(step.token_ids) for step in snapshot.steps]
    start = 1 + sum(lengths[:index])
    return snapshot.text[start : start + lengths[index]]


def test_the_whole_tree_is_told_with_what_was_rejected(start: Start) -> None:
    service = start(ScriptedEngine("Né!", step_length=3))
    details = service.step_details(last_answer(service, answered(service, "x")), 0)
    assert [node.parent for node in details.nodes] == [-1, 0, 1, 0]
    assert [node.is_accepted for node in details.nodes] == [False, True, True, False]
    assert [node.text for node in details.nodes] == ["N", "#195", "é", "(deleted)"], (
        "no Trie has it"
    )
    assert [node.source for node in details.nodes] == ["model", "prompt", "prompt", "history"]
    assert [node.probability for node in details.nodes] == [1.0, 0.5, 0.5, 0.25]
    assert details.bonus_text == "!"
    assert (details.accepted_length, details.width, details.rows) == (2, 4, 16)


def test_a_place_in_this_chat_is_told_as_a_distance(start: Start) -> None:
    engine = ScriptedEngine("abcdef", step_length=3)
    service = start(engine)
    message_id = last_answer(service, answered(service, "x"))
    prompt_length = len(engine.requests[0].prompt_ids)
    for index, position in ((0, prompt_length + 1), (1, prompt_length + 4)):
        nodes = service.step_details(message_id, index).nodes
        assert nodes[1].origin == position - 3, "the engine drafted from position 3"
        panel = panel_value([], service.saved_answer(message_id), service.origin_labels)
        tokens = json.loads(panel["steps"].split("\n")[index + 1])[6]
        assert tokens[0][3] == position - 3


def test_a_document_is_named_with_the_passage_and_its_characters(
    start: Start, document: Path
) -> None:
    service, message_id = quoting_service(start, document)
    snapshot = service.saved_answer(message_id)
    panel = panel_value([], snapshot, service.origin_labels)
    assert list(panel["labels"].values()) == ["manual.md"]
    assert panel["legend"]["document"] > 0
    for index, step in enumerate(snapshot.steps[:-1]):
        details = service.step_details(message_id, index)
        origin = details.passages[0]
        assert (origin.kind, origin.label, origin.uri) == (
            "document",
            "manual.md",
            document.as_uri(),
        )
        assert origin.is_accepted
        assert (origin.num_tokens, origin.run) == (
            step.accepted_length,
            emitted(snapshot, index)[:-1],
        )
        assert origin.character_start is not None
        assert DOCUMENT[origin.character_start : origin.character_end] == origin.run
        assert origin.before + origin.run + origin.after == DOCUMENT
        assert DOCUMENT.encode()[origin.offset :].startswith(origin.run.encode())


@pytest.mark.parametrize("change", ["upper(text)", "text || char(10) || text"])
def test_characters_that_may_not_be_the_passage_are_not_named(
    start: Start, document: Path, database: Database, change: str
) -> None:
    """As with a tokenizer that does not give back the very text it was given, or a repetition."""
    service, message_id = quoting_service(start, document)
    with database._connections.transaction() as connection:
        connection.execute(f"UPDATE document_texts SET checksum = NULL, text = {change}")
    origin = service.step_details(message_id, 0).passages[0]
    assert (origin.character_start, origin.character_end) == (None, None)
    assert (origin.run, origin.label) == ("he va", "manual.md")
    assert origin.before.endswith("東京 is large. T")
    assert origin.after.startswith("lve closes at 4 bar.")


def test_a_passage_far_inside_a_document_is_found_without_decoding_what_is_before(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "long.md"
    text = "".join(f"Line {number} of 東京.\n" for number in range(5000)) + DOCUMENT
    path.write_text(text, encoding="utf-8")
    engine = QuotingEngine(QUOTE, quoted=text.encode())
    service = start(engine)
    assert service.import_paths([path]).wait_until_over(WAIT).num_documents == 1
    message_id = last_answer(service, answered(service, "When does it close?"))
    before = engine.model.tokenizer.num_decoded
    (passage,) = service.step_details(message_id, 0).passages
    assert engine.model.tokenizer.num_decoded - before < 3000
    assert passage.character_start == text.index(QUOTE) + 1
    assert text[passage.character_start : passage.character_end] == passage.run


def test_what_is_deleted_in_this_moment_leaves_nothing_of_its_text(
    start: Start, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, message_id = quoting_service(start, document)
    text = Sources.text

    def deleted_meanwhile(sources: Sources, source_id: int) -> str:
        service.delete_document(source_id)
        return text(sources, source_id)

    monkeypatch.setattr(Sources, "text", deleted_meanwhile)
    (passage,) = service.step_details(message_id, 0).passages
    assert passage == PassageView(
        *(passage.sequence_id, passage.offset, passage.num_tokens, "deleted", "deleted since"),
        is_accepted=True,
    )


def test_a_saved_answer_is_read_once_for_the_details_of_all_its_steps(
    start: Start, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, message_id = quoting_service(start, document)
    read: list[int] = []
    list_steps = Generations.list_steps

    def counted(generations: Generations, generation_id: int) -> list[StepRecord]:
        read.append(generation_id)
        return list_steps(generations, generation_id)

    monkeypatch.setattr(Generations, "list_steps", counted)
    for index in range(3):
        service.step_details(message_id, index)
    assert len(read) == 1
    service.delete_conversation(service.saved_answer(message_id).conversation_id)
    with pytest.raises(RecordNotFoundError):
        service.step_details(message_id, 0)


def test_a_chat_is_named_with_its_question_and_the_passage(start: Start) -> None:
    engine = QuotingEngine("The sky is blue today.", source=TokenSource.HISTORY)
    service = start(engine)
    earlier = answered(service, "What colour is it?")
    engine.quoted = b"\x00user\nWhat colour is it?\x00\n\x00assistant\nThe sky is blue today."
    message_id = last_answer(service, answered(service, "And now?"))
    origin = service.step_details(message_id, 0).passages[0]
    assert (origin.kind, origin.label) == ("chat", "What colour is it?")
    assert (origin.conversation_id, origin.message) == (earlier, "What colour is it?")
    assert origin.run == "he sk"
    assert origin.before == "What colour is it?\nT", "who speaks is the template's"
    assert origin.after == "y is blue today."
    assert service.origin_labels([origin.sequence_id]) == {origin.sequence_id: "What colour is it?"}


@pytest.mark.parametrize(
    ("texts", "controls", "expected"),
    [
        (["user", "\n", "Hi", "", "\n", "", "assistant", "\n", "Yes"], {3, 5}, "Hi\nYes"),
        (["", "user", "", "\n\n", "Hi"], {0, 2}, "\n\nHi"),
        (["", "users", "\n", "pay"], {0}, "users\npay"),
        (["the ", "user", "\n"], set(), "the user\n"),
    ],
)
def test_only_the_template_s_words_of_who_speaks_are_left_out(
    texts: list[str], controls: set[int], expected: str
) -> None:
    is_control = [index in controls for index in range(len(texts))]
    assert "".join(_without_roles(texts, is_control, is_start=True)) == expected


def test_deleted_passages_are_told_once() -> None:
    views = [
        PassageView(1, 0, 2, "deleted", "deleted since", is_accepted=True),
        PassageView(2, 5, 1, "document", "manual.md"),
        PassageView(3, 5, 1, "deleted", "deleted since"),
    ]
    assert _with_one_deleted(views) == tuple(views[:2])


def test_what_was_deleted_meanwhile_is_said_to_be(start: Start, document: Path) -> None:
    service, message_id = quoting_service(start, document)
    before = service.step_details(message_id, 0)
    service.delete_document(service.documents()[0].id)
    details = service.step_details(message_id, 0)
    assert [origin.kind for origin in details.passages] == ["deleted"]
    assert details.passages[0].run == ""
    assert details.nodes == before.nodes, "the answer itself stays"
    panel = panel_value([], service.saved_answer(message_id), service.origin_labels)
    assert list(panel["labels"].values()) == ["deleted since"]
    assert "valve" not in json.dumps(step_details_value(details)["passages"])


def test_drafted_tokens_that_were_erased_are_said_to_be(
    start: Start, document: Path, database: Database
) -> None:
    service, message_id = quoting_service(start, document)
    before = service.step_details(message_id, 0).nodes
    [generation] = database.generations.for_messages([message_id]).values()
    assert generation.id is not None
    [draft] = [step.draft for step in database.generations.list_steps(generation.id)[:1]]
    last = len(draft.token_ids) - 1
    assert not before[last].is_accepted
    ids = json.dumps([*draft.token_ids[:-1], ERASED_TOKEN_ID])
    with database._connections.transaction() as connection:
        connection.execute(
            "UPDATE steps SET draft = json_set(draft, '$.token_ids', json(?)) WHERE step_index = 0",
            [ids],
        )
    service.close()
    for fingerprint in (ScriptedModel().tokenizer_fingerprint, "another"):
        again = start(ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint=fingerprint)))
        nodes = again.step_details(message_id, 0).nodes
        assert nodes[last].text == "(deleted)"
        again.close()
        if fingerprint != "another":
            assert nodes[:last] == before[:last]


def test_without_its_tokenizer_the_emitted_text_is_known_and_the_rest_is_ids(
    start: Start, document: Path
) -> None:
    service, message_id = quoting_service(start, document)
    known = service.step_details(message_id, 0)
    service.close()
    other = start(ScriptedEngine(model=ScriptedModel(tokenizer_fingerprint="another")))
    details = other.step_details(message_id, 0)
    accepted = [node.text for node in details.nodes if node.is_accepted]
    assert accepted == [node.text for node in known.nodes if node.is_accepted]
    assert {node.text for node in details.nodes if not node.is_accepted} == {"#84", "#9"}
    assert details.bonus_text == known.bonus_text
    assert details.passages[0].label == "manual.md"
    assert details.passages[0].run == ""


def test_a_running_step_is_told_like_a_saved_one(start: Start) -> None:
    engine = ScriptedEngine("abcdefgh", gate=threading.Semaphore(0), step_length=3)
    service = start(engine)
    job = service.ask(None, "x", OPTIONS)
    engine.go_on()
    wait_for(lambda: len(job.snapshot().steps) == 1)
    running = service.step_details(job.message_id, 0)
    with pytest.raises(RecordNotFoundError, match="no step 1: it has 1"):
        service.step_details(job.message_id, 1)
    engine.go_on(9)
    job.wait_until_over(WAIT)
    saved = service.step_details(job.message_id, 0)
    assert saved == running


def test_an_answer_begun_while_the_model_loads_knows_its_tokenizer(start: Start) -> None:
    engine = ScriptedEngine("abc", loading=threading.Event())
    service = start(engine, is_ready=False)
    job = service.ask(None, "x", OPTIONS)
    assert engine.loading is not None
    engine.loading.set()
    job.wait_until_over(WAIT)
    assert [node.text for node in service.step_details(job.message_id, 0).nodes] == [
        "a",
        "b",
        "(deleted)",
    ]


@pytest.mark.parametrize("step_index", [-1, 6, 10**9])
def test_a_step_that_is_not_there_is_told(start: Start, step_index: int) -> None:
    service = start(ScriptedEngine())
    message_id = last_answer(service, answered(service, "x"))
    with pytest.raises(RecordNotFoundError, match=f"no step {step_index}: it has 6"):
        service.step_details(message_id, step_index)


def test_a_step_at_the_end_of_an_answer_may_have_no_token_of_its_own(
    start: Start, database: Database
) -> None:
    """The last step's own token was the end of the answer, which is not shown."""
    service = start(ScriptedEngine("abc", step_length=3))
    message_id = last_answer(service, answered(service, "x"))
    with database._connections.transaction() as connection:
        connection.execute("UPDATE steps SET accepted_length = 2, accepted_nodes = '[1,2]'")
    details = service.step_details(message_id, 0)
    assert details.bonus_text is None
