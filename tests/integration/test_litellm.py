"""A real proxy of LiteLLM in front of a model on the loopback interface, with the guard inside and beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import httpx
import pytest
from litellm_proxy import litellm_proxy
from model_api import CALL, ModelServer, echo
from served import served

from turnwise import Conversation, GuardrailPipeline

pytestmark = pytest.mark.integration

CONFIG = """
name: desk
guardrails:
  - pii: {action: redact, on: all}
  - keywords: {keywords: [acme], action: block, on: all}
  - drift: {observer: "scripted:0.1,0.2,0.95,0.1,0.1,0.1", block_at: 0.9}
"""
DOORS = ("beside", "inside")


class Proxy:
    """The proxy, asked through one of its two guardrails."""

    def __init__(self, url: str, model: ModelServer, client: httpx.Client) -> None:
        self.url, self.model, self.client = url, model, client

    def ask(self, door: str, messages: list[Any], **more: Any) -> httpx.Response:
        body = {"model": "m", "messages": messages, "guardrails": [door], **more}
        return self.client.post(f"{self.url}/v1/chat/completions", json=body)

    def said(self, door: str, messages: list[Any], **more: Any) -> dict[str, Any]:
        response = self.ask(door, messages, **more)
        assert response.status_code == 200, response.text
        message: dict[str, Any] = response.json()["choices"][0]["message"]
        return message


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("litellm")
    guard = folder / "guard.yaml"
    guard.write_text(CONFIG)
    with ModelServer(echo) as model, served("--config", str(guard)) as service:
        modes = ["pre_call", "post_call"]
        beside = {"guardrail": "generic_guardrail_api", "api_base": service.url, "mode": modes}
        own = "turnwise.integrations.litellm.TurnwiseGuardrail"
        inside = {"guardrail": own, "turnwise_config": str(guard), "turnwise_explain": True, "mode": modes}
        params: dict[str, Any] = {
            "model": "hosted_vllm/m",
            "api_base": model.url,
            "api_key": "none",
            "max_retries": 0,
        }
        # Other APIs are translated for the model, which knows chat completions alone.
        params["use_chat_completions_api"] = True
        key = f"sk-{token_hex(32)}"
        config = {
            "general_settings": {"master_key": key},
            "model_list": [{"model_name": "m", "litellm_params": params}],
            "guardrails": [
                {"guardrail_name": "beside", "litellm_params": {**beside, "streaming_end_of_stream_only": True}},
                {"guardrail_name": "inside", "litellm_params": inside},
            ],
        }
        file = folder / "litellm.yaml"
        file.write_text(json.dumps(config))
        with (
            litellm_proxy(file) as url,
            httpx.Client(timeout=60, headers={"Authorization": f"Bearer {key}"}) as client,
        ):
            yield Proxy(url, model, client)


@pytest.fixture(autouse=True)
def fresh(proxy: Proxy) -> None:
    """Let the model echo, and forget what reached it."""
    proxy.model.answer = echo
    proxy.model.requests.clear()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("door", DOORS)
def test_a_blocked_prompt_never_reaches_the_model(proxy: Proxy, door: str) -> None:
    response = proxy.ask(door, [user("Tell me about acme")])
    assert response.status_code == 400
    assert ("keywords" in response.text) is (door == "inside")  # where `turnwise_explain` is set
    assert not proxy.model.requests


@pytest.mark.parametrize("door", DOORS)
def test_a_redacted_prompt_arrives_redacted_and_stays_so(proxy: Proxy, door: str) -> None:
    messages = [user("I am jane@example.com")]
    reply = proxy.said(door, messages)
    assert reply["content"] == "You said: I am [EMAIL]"
    messages += [{"role": "assistant", "content": reply["content"]}, user("Thanks")]
    assert proxy.said(door, messages)["content"] == "You said: Thanks"
    told = [message["content"] for message in proxy.model.requests[-1]["messages"]]
    assert told == ["I am [EMAIL]", "You said: I am [EMAIL]", "Thanks"]


@pytest.mark.parametrize("door", DOORS)
def test_replies_are_redacted_or_blocked(proxy: Proxy, door: str) -> None:
    proxy.model.answer = lambda body: {"role": "assistant", "content": "Ask bob@example.com."}
    assert proxy.said(door, [user("Whom do I ask?")])["content"] == "Ask [EMAIL]."
    proxy.model.answer = lambda body: {"role": "assistant", "content": "Buy acme."}
    response = proxy.ask(door, [user("What do I buy?")])
    assert response.status_code == 400 and "output" in response.text and "Buy" not in response.text


@pytest.mark.parametrize("door", DOORS)
def test_a_drifting_conversation_is_stopped_where_the_library_stops_it(
    proxy: Proxy, door: str, tmp_path: Any
) -> None:
    guard = tmp_path / "guard.yaml"
    guard.write_text(CONFIG)
    library, chat = GuardrailPipeline(guard), Conversation()
    messages: list[Any] = []
    own, stopped = [], []
    for turn in range(1, 6):
        text = f"{door} asks question {turn}"
        checked = library.check_input(text, conversation=chat)
        own.append(checked.blocked)
        if not checked.blocked:
            library.check_output(f"You said: {text}", conversation=chat)
        response = proxy.ask(door, [*messages, user(text)])
        stopped.append(response.status_code == 400)
        if response.status_code == 200:
            messages += [user(text), response.json()["choices"][0]["message"]]
    assert stopped == own == [False, False, True, False, False]
    assert len(proxy.model.requests) == 4


@pytest.mark.parametrize("door", DOORS)
def test_results_of_tools_are_redacted_and_calls_are_checked(proxy: Proxy, door: str) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        done = body["messages"][-1]["role"] == "tool"
        return dict(echo(body)) if done else {"role": "assistant", "content": None, "tool_calls": [CALL]}

    proxy.model.answer = answer
    messages: list[Any] = [user(f"Is it cold, {door}?")]
    called = proxy.said(door, messages)
    assert called["tool_calls"][0]["function"]["name"] == "weather"
    messages += [
        {"role": "assistant", "content": None, "tool_calls": called["tool_calls"]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ask jane@example.com"},
    ]
    assert proxy.said(door, messages)["content"] == "You said: ask [EMAIL]"
    messages[-1]["content"] = "says acme"
    assert proxy.said(door, messages)["content"] == "You said: [tool result withheld]"


def test_a_reply_in_pieces_is_checked_as_it_comes_inside_the_proxy(proxy: Proxy) -> None:
    def shown(text: str) -> str:
        pieces = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        return "".join(
            choice["delta"].get("content") or "" for piece in pieces for choice in piece.get("choices", ())
        )

    proxy.model.answer = lambda body: {"role": "assistant", "content": "Yes. " * 60 + "Ask bob@example.com."}
    response = proxy.ask("inside", [user("Whom?")], stream=True)
    assert shown(response.text) == "Yes. " * 60 + "Ask [EMAIL].", response.text[-3000:]
    proxy.model.answer = lambda body: {"role": "assistant", "content": "Yes. " * 60 + "Buy acme."}
    for door in DOORS:
        response = proxy.ask(door, [user("What?")], stream=True)
        assert "error" in response.text and (door == "beside" or "acme" not in shown(response.text))


def said_by(path: str, text: str, *, stream: bool = False) -> str:
    """Return what a reply of an API says, also one in pieces."""
    bodies = [line[6:] for line in text.splitlines() if line.startswith("data: {")] if stream else [text]
    told = ""
    for body in map(json.loads, bodies):
        delta = body.get("delta", {})
        told += delta if isinstance(delta, str) else delta.get("text", "")
        for item in body.get("output", ()):
            told += "".join(part["text"] for part in item["content"])
        told += "".join(part["text"] for part in body.get("content", ()))
    return told


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_other_apis_are_checked_on_the_way_there_and_back(proxy: Proxy, path: str) -> None:
    key = "input" if path == "/v1/responses" else "messages"

    def ask(text: str, **more: Any) -> httpx.Response:
        body = {"model": "m", "guardrails": ["inside"], "max_tokens": 100, key: [user(text)], **more}
        if key == "input":
            del body["max_tokens"]
        return proxy.client.post(f"{proxy.url}{path}", json=body)

    response = ask("I am ann@example.com")
    assert said_by(path, response.text) == "You said: I am [EMAIL]"
    assert "ann@" not in json.dumps(proxy.model.requests)
    proxy.model.requests.clear()
    system = {"instructions" if key == "input" else "system": "Speak of acme."}
    for refused in (ask("About acme"), ask("Hello", **system)):
        assert refused.status_code == 400 and "keywords" in refused.text and not proxy.model.requests
    for stream in (False, True):
        proxy.model.answer = lambda body: {"role": "assistant", "content": "Ask bob@example.com."}
        response = ask(f"Whom do I ask, {stream}?", stream=stream)
        assert response.status_code == 200 and "bob@" not in response.text, response.text
        assert "Ask [EMAIL]." in said_by(path, response.text, stream=stream), response.text
        proxy.model.answer = lambda body: {"role": "assistant", "content": "Buy acme."}
        response = ask(f"What do I buy, {stream}?", stream=stream)
        assert "was blocked" in response.text and "Buy" not in said_by(path, response.text, stream=stream)


def test_a_conversation_over_the_responses_api_is_stopped_where_the_library_stops_it(proxy: Proxy) -> None:
    items: list[Any] = []
    stopped = []
    for turn in range(1, 5):
        body = {"model": "m", "guardrails": ["inside"], "input": [*items, user(f"responses ask {turn}")]}
        response = proxy.client.post(f"{proxy.url}/v1/responses", json=body)
        stopped.append(response.status_code == 400)
        if not stopped[-1]:
            items = [*body["input"], *response.json()["output"]]
    assert stopped == [False, False, True, False]


def test_conversations_of_two_people_never_meet(proxy: Proxy) -> None:
    for door in DOORS:
        for person in ("ann", "ben"):
            said = [proxy.ask(door, [user("What is a spline?")], user=person).status_code for _ in range(2)]
            assert said == [200, 200]
