"""The HTTP API answers in OpenAI's shape, and says clearly what it refuses."""

import asyncio
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app import __version__
from app.api import MAX_REQUESTS, api_router
from app.api_request import ApiError, parse_completion_request
from app.prompting import PromptBuilder, PromptMessage
from app.services.views import AnswerOptions, Completion
from lookahead.errors import ContextFullError
from tests.app.scripted_engine import ByteTokenizer
from tests.app.scripted_service import LOADING, ScriptedService

HELLO = [{"role": "user", "content": "Hello"}]
PATIENCE = 30


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService("Paris.")


@pytest.fixture
def client(service: ScriptedService) -> TestClient:
    application = FastAPI()
    application.include_router(api_router(service))
    return TestClient(application)


def ask(client: TestClient, **body: Any) -> Any:
    return client.post("/v1/chat/completions", json={"messages": HELLO} | body)


def test_health_says_whether_the_model_is_ready(
    client: TestClient, service: ScriptedService
) -> None:
    health = client.get("/health").json()
    assert (health["status"], health["ready"]) == ("ready", True)
    assert (health["model"], health["version"]) == ("smollm2-135m", __version__)
    service.state = LOADING
    health = client.get("/health").json()
    assert (health["status"], health["ready"]) == ("loading", False)


def test_an_answer_has_the_shape_of_openai(client: TestClient) -> None:
    answer = ask(client, model="any", temperature=0).json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "smollm2-135m"
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "Paris."
    assert choice["finish_reason"] == "stop"
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    assert answer["usage"] == usage


@pytest.mark.parametrize(("reason", "shown"), [("length", "length"), ("context", "length")])
def test_an_answer_that_was_cut_says_so(
    client: TestClient,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    shown: str,
) -> None:
    complete = service.complete
    monkeypatch.setattr(
        service, "complete", lambda *a, **k: replace(complete(*a, **k), reason=reason)
    )
    assert ask(client).json()["choices"][0]["finish_reason"] == shown


def test_messages_and_options_reach_the_service(
    client: TestClient, service: ScriptedService
) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    filters = {"top_k": 40, "top_p": 0.9, "min_p": 0, "repetition_penalty": 1.1}
    ask(
        client,
        **filters,
        messages=messages,
        stop=["\n", "END"],
        temperature=0.5,
        max_tokens=7,
        seed=3,
        lookahead=False,
    )
    (asked,) = service.completed
    assert asked[0] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "ab"},
    ]
    assert asked[1] == AnswerOptions(False, 0.5, 7, 3, stop=("\n", "END"), **filters)


def test_what_is_not_said_is_left_to_the_model() -> None:
    _, options = parse_completion_request({"messages": HELLO, "stop": None, "top_p": None})
    assert options == AnswerOptions()


@pytest.mark.parametrize(
    ("body", "option", "value"),
    [
        ({"top_k": -1}, "top_k", 0),
        ({"stop": "END"}, "stop", ("END",)),
        ({"stop": []}, "stop", ()),
        ({"stop": ""}, "stop", ()),
    ],
)
def test_other_ways_to_say_it_are_understood(
    body: dict[str, Any], option: str, value: object
) -> None:
    _, options = parse_completion_request({"messages": HELLO, **body})
    assert getattr(options, option) == value


def test_the_answer_says_how_it_was_sampled(client: TestClient) -> None:
    assert ask(client).json()["lookahead"]["sampling"] == {
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
    }


def test_max_completion_tokens_comes_before_its_old_name() -> None:
    body = {"messages": HELLO, "max_tokens": 5, "max_completion_tokens": 9}
    assert parse_completion_request(body)[1].max_new_tokens == 9


def test_values_that_change_nothing_are_taken() -> None:
    neutral = {"stream": False, "n": 1, "stop": None, "top_p": 1.0, "presence_penalty": 0}
    ignored = {"user": "me", "store": False, "response_format": {"type": "text"}}
    asked = parse_completion_request({"messages": HELLO, **neutral, **ignored})
    assert asked == (HELLO, AnswerOptions(top_p=1.0))


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"stream": True}, "stream"),
        ({"stream": "yes"}, "stream"),
        ({"n": 2}, "n"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["a", 3]}, "stop"),
        ({"stop": {"a": 1}}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": "a" * 201}, "stop"),
        ({"stop": "\ud800"}, "stop"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": "1"}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"min_p": -0.1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"tools": [{}]}, "tools"),
        ({"model": 3}, "model"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": "0"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_completion_tokens": True}, "max_completion_tokens"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"lookahead": 1}, "lookahead"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": ["Hello"]}, "messages[0]"),
        ({"messages": [{"content": "Hello"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "1"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content",
        ),
        ({"messages": [*HELLO, {"role": "assistant", "content": "Hi"}]}, "messages"),
    ],
)
def test_a_refusal_names_the_parameter(body: dict[str, Any], parameter: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_completion_request({"messages": HELLO} | body)
    error = refused.value.body["error"]
    assert error["param"] == parameter
    assert error["type"] == "invalid_request_error"
    assert parameter.partition(".")[0].partition("[")[0] in error["message"]


def test_streaming_is_refused_as_not_supported_yet(
    client: TestClient, service: ScriptedService
) -> None:
    refused = ask(client, stream=True)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "unsupported_parameter"
    assert "not supported yet" in refused.json()["error"]["message"]
    assert not service.completed


def test_what_is_not_json_is_refused(client: TestClient) -> None:
    """A form in a chat answer could post as text/plain, without the browser asking first."""
    body = '{"messages": [{"role": "user", "content": "Hello"}]}'
    path = "/v1/chat/completions"
    plain = client.post(path, content=body, headers={"content-type": "text/plain"})
    assert plain.status_code == 415
    json_type = {"content-type": "application/json"}
    assert client.post(path, content="{", headers=json_type).status_code == 400
    assert client.post(path, content="[]", headers=json_type).status_code == 400
    large = b'{"x": "' + b"x" * (9 * 1024 * 1024) + b'"}'
    assert client.post(path, content=large, headers=json_type).status_code == 413
    deep = client.post(path, content=b"[" * 100_000, headers=json_type)
    assert (deep.status_code, "too deeply" in deep.text) == (400, True)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "user", "content": "x" * 150_000}] * 2, "300,000 characters"),
        ([{"role": "user", "content": "x"}] * 1_001, "1,001 messages"),
    ],
)
def test_more_than_any_context_takes_is_refused_before_it_is_read(
    client: TestClient, service: ScriptedService, messages: Any, said: str
) -> None:
    """Megabytes kept the tokenizer, and with it every answer, busy for minutes."""
    refused = ask(client, messages=messages)
    assert refused.status_code == 400
    assert said in refused.json()["error"]["message"]
    assert not service.completed


def test_a_client_that_leaves_while_it_is_sending_is_no_error(service: ScriptedService) -> None:
    """It was logged as a traceback."""
    application = FastAPI()
    application.include_router(api_router(service))
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    events = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return events.pop(0)

    async def send(_: Any) -> None: ...

    asyncio.run(application(scope, receive, send))
    assert not service.completed


@pytest.mark.parametrize("content", ['"\\ud800"', '[{"type": "text", "text": "a\\udc00"}]'])
def test_half_a_surrogate_pair_is_refused(
    client: TestClient, service: ScriptedService, content: str
) -> None:
    """JSON can hold one; no tokenizer takes it, which was an error of the server."""
    refused = client.post(
        "/v1/chat/completions",
        content='{"messages": [{"role": "user", "content": ' + content + "}]}",
        headers={"content-type": "application/json"},
    )
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages[0].content"
    assert not service.completed


def test_a_model_that_is_not_ready_is_a_server_error(
    client: TestClient, service: ScriptedService
) -> None:
    service.state = LOADING
    refused = ask(client)
    assert refused.status_code == 503
    assert refused.json()["error"]["type"] == "server_error"


def too_long_for_the_engine() -> None:
    raise ContextFullError("The prompt has 9,000 tokens; the model takes 8,192.")


def too_long_for_a_prompt() -> None:
    PromptBuilder(ByteTokenizer(), 16).build([PromptMessage("user", "x" * 9_000)])


@pytest.mark.parametrize("refuse", [too_long_for_the_engine, too_long_for_a_prompt])
def test_a_prompt_that_does_not_fit_is_the_callers_error(
    client: TestClient,
    service: ScriptedService,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[[], None],
) -> None:
    monkeypatch.setattr(service, "complete", lambda *_, **__: refuse())
    refused = ask(client)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert "9,0" in refused.json()["error"]["message"]


class SlowService(ScriptedService):
    """Answers when it is told to, as one model with much to do."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.asked = threading.Semaphore(0)
        self.given_up = threading.Semaphore(0)

    def complete(self, *args: Any, is_cancelled: Callable[[], bool]) -> Completion:  # type: ignore[override]
        self.asked.release()
        while not self.may_answer.wait(0.01):
            if is_cancelled():
                self.given_up.release()
                break
        return super().complete(*args)


def asking(service: ScriptedService) -> httpx.AsyncClient:
    application = FastAPI()
    application.include_router(api_router(service))
    transport = httpx.ASGITransport(application)
    return httpx.AsyncClient(transport=transport, base_url="http://server", timeout=PATIENCE)


def test_many_requests_leave_the_page_its_threads_and_the_surplus_is_told_to_come_back() -> None:
    """Forty waiting requests once held all threads: neither /health nor Stop was answered."""
    service = SlowService()

    async def run() -> tuple[list[httpx.Response], httpx.Response]:
        async with asking(service) as client:
            body = {"messages": HELLO}
            requests = [
                asyncio.create_task(client.post("/v1/chat/completions", json=body))
                for _ in range(60)
            ]
            try:
                for _ in range(MAX_REQUESTS):
                    while not service.asked.acquire(blocking=False):
                        await asyncio.sleep(0.01)
                health = await asyncio.wait_for(client.get("/health"), PATIENCE)
                await asyncio.wait_for(to_thread.run_sync(int), PATIENCE)  # as Stop is run
            finally:
                service.may_answer.set()
            return await asyncio.gather(*requests), health

    answers, health = asyncio.run(run())
    assert health.json()["ready"] is True
    assert sorted(answer.status_code for answer in answers) == [200] * MAX_REQUESTS + [503] * (
        60 - MAX_REQUESTS
    )
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert int(refused.headers["retry-after"]) > 0
    assert refused.json()["error"]["type"] == "server_error"
    assert len(service.completed) == MAX_REQUESTS


def test_a_server_that_ends_waits_for_no_answer() -> None:
    service = SlowService()

    async def run() -> None:
        async with asking(service) as client:
            request = asyncio.create_task(
                client.post("/v1/chat/completions", json={"messages": HELLO})
            )
            while not service.asked.acquire(blocking=False):
                await asyncio.sleep(0.01)
            request.cancel()
            await asyncio.wait([request], timeout=PATIENCE)
            assert request.cancelled()
            assert await to_thread.run_sync(service.given_up.acquire, True, PATIENCE)

    asyncio.run(run())
