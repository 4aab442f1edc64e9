"""What was asked for reaches the engine, what was used is recorded, and stop texts end a chat."""

from types import SimpleNamespace
from typing import Any

from app.services import AnswerOptions
from app.services.chat_prompt import _with_text
from storage import Database
from tests.app.asking import WAIT, Start
from tests.app.scripted_engine import ByteTokenizer, ScriptedEngine, ScriptedModel

ASKED = AnswerOptions(
    *(True, 0.7, 64, 9), top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1, stop=(" is",)
)


def test_every_setting_reaches_the_engine_and_the_record(start: Start, database: Database) -> None:
    engine = ScriptedEngine()
    answer = start(engine).ask(None, "Where?", ASKED).wait_until_over(WAIT)
    sampling = engine.requests[0].sampling
    settings = {name: getattr(ASKED, name) for name in sampling.settings}
    assert (sampling.settings, sampling.seed) == (settings, 9)
    record = database.generations.for_message(answer.message_id)
    assert record is not None
    assert (record.seed, record.reason) == (9, "stop")
    assert {name: getattr(record, name) for name in settings} == settings
    assert answer.numbers is not None
    assert {name: getattr(answer.numbers, name) for name in settings} == settings


def test_what_is_not_asked_for_is_the_models_own(start: Start) -> None:
    said = SimpleNamespace(do_sample=True, temperature=0.6, top_p=0.95, top_k=None)
    engine = ScriptedEngine(model=ScriptedModel(hf_model=SimpleNamespace(generation_config=said)))
    service = start(engine)
    for options in (AnswerOptions(), AnswerOptions(top_p=1.0), AnswerOptions(temperature=0.0)):
        service.ask(None, "Where?", options).wait_until_over(WAIT)
    used = [request.sampling for request in engine.requests]
    assert [(one.temperature, one.top_p) for one in used] == [(0.6, 0.95), (0.6, 1.0), (0.0, 0.95)]


def test_an_answer_ends_before_its_stop_text_and_the_next_turn_goes_on_from_there(
    start: Start, database: Database
) -> None:
    engine = ScriptedEngine("Paris. The end", step_length=5)
    service = start(engine)
    options = AnswerOptions(stop=("The",))
    answer = service.ask(None, "Where?", options).wait_until_over(WAIT)
    assert (answer.status, answer.text) == ("complete", "Paris. ")
    assert sum(length for step in answer.steps for length in step.text_lengths) + 1 == 7
    saved = database.messages.get(answer.message_id)
    assert (saved.text, bytes(saved.token_ids)) == ("Paris. ", b"Paris. ")
    service.ask(answer.conversation_id, "And?", options).wait_until_over(WAIT)
    assert bytes(i for i in engine.requests[1].prompt_ids if i < 256).count(b"Paris. ") == 1


def test_words_of_an_answer_that_no_token_holds_are_read_in_the_next_turn() -> None:
    """A stop text that begins within a token leaves the beginning of it to the text alone."""
    bench: Any = SimpleNamespace(model=SimpleNamespace(tokenizer=ByteTokenizer()))
    for ids, text, expected in (
        (b"It is ", "It is Par", b"It is Par"),
        (b"", "Written by another model", b"Written by another model"),
        (b"It is", "It is", b"It is"),
        (b"It \xe2\x82", "It ", b"It \xe2\x82"),
    ):
        assert bytes(_with_text(tuple(ids), text, bench)) == expected


def test_both_arms_of_a_comparison_have_every_setting(start: Start) -> None:
    engine = ScriptedEngine()
    service = start(engine)
    job = service.compare("Where?", ASKED)
    assert job.wait_until_over(WAIT).status == "complete"
    assert len({request.sampling for request in engine.requests}) == 1
    assert engine.requests[0].sampling.top_k == 40
    assert all(request.stop is not None for request in engine.requests)
    assert engine.requests[0].stop is not engine.requests[1].stop
