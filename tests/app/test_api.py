"""The HTTP API answers in OpenAI's shape, and says clearly what it refuses."""

import math
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from app import __version__
from app.api import ApiError, api_router, parse_completion_request
from app.services.views import AnswerOptions
from lookahead.errors import ContextFullError
from tests.app.scripted_service import LOADING, ScriptedService

HELLO = [{"role": "user", "content": "Hello"}]


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
    ask(client, messages=messages, temperature=0.5, max_tokens=7, seed=3, lookahead=False)
    (asked,) = service.completed
    assert asked[0] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "ab"},
    ]
    assert asked[1] == AnswerOptions(lookahead=False, temperature=0.5, max_new_tokens=7, seed=3)


def test_what_is_not_said_is_left_to_the_model() -> None:
    _, options = parse_completion_request({"messages": HELLO})
    assert options.temperature is None
    assert options.max_new_tokens == AnswerOptions().max_new_tokens


def test_max_completion_tokens_comes_before_its_old_name() -> None:
    body = {"messages": HELLO, "max_tokens": 5, "max_completion_tokens": 9}
    assert parse_completion_request(body)[1].max_new_tokens == 9


def test_values_that_change_nothing_are_taken() -> None:
    neutral = {"stream": False, "n": 1, "stop": None, "top_p": 1.0, "presence_penalty": 0}
    ignored = {"user": "me", "store": False, "response_format": {"type": "text"}}
    parse_completion_request({"messages": HELLO, **neutral, **ignored})


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"stream": True}, "stream"),
        ({"stream": "yes"}, "stream"),
        ({"n": 2}, "n"),
        ({"stop": ["\n"]}, "stop"),
        ({"top_p": 0.9}, "top_p"),
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


def test_a_model_that_is_not_ready_is_a_server_error(
    client: TestClient, service: ScriptedService
) -> None:
    service.state = LOADING
    refused = ask(client)
    assert refused.status_code == 503
    assert refused.json()["error"]["type"] == "server_error"


def test_a_prompt_that_does_not_fit_is_the_callers_error(
    client: TestClient, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise ContextFullError("The prompt has 9,000 tokens; the model takes 8,192.")

    monkeypatch.setattr(service, "complete", full)
    refused = ask(client)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert "9,000" in refused.json()["error"]["message"]
