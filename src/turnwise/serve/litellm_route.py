"""The route that LiteLLM's guardrail ``generic_guardrail_api`` asks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from turnwise._support.bounded import read_json
from turnwise.errors import ConversationError
from turnwise.guard import GuardrailBlocked, Mode, PipelineResult, TextKind
from turnwise.guard.messages.checking import unchecked
from turnwise.guard.messages.sendable import goes_on
from turnwise.integrations.checking import finish
from turnwise.integrations.clients.calls import caller_of_proxy
from turnwise.integrations.clients.texts import UnreadError, last_heard, leaves
from turnwise.serve.bodies import Problem
from turnwise.serve.check_routes import json_response
from turnwise.serve.service import Service
from turnwise.serve.tenants import Caller, Tenant
from turnwise.sessions import StateKind

PATH: Final = "/beta/litellm_basic_guardrail_api"

_SESSION_HEADERS: Final = ("x-litellm-session-id", "x-litellm-trace-id")
"""Headers in which a caller of LiteLLM names a session."""


class GuardrailRequest(BaseModel):
    """What LiteLLM asks. A field that is not known and holds something is refused: nobody would look at it."""

    model_config = ConfigDict(
        extra="allow",
        hide_input_in_errors=True,
        json_schema_extra={
            "examples": [
                {
                    "input_type": "request",
                    "litellm_call_id": "4f1c",
                    "texts": ["I am jane@example.com"],
                    "structured_messages": [{"role": "user", "content": "I am jane@example.com"}],
                    "request_data": {"user_api_key_hash": "88dc"},
                },
                {"input_type": "response", "litellm_call_id": "4f1c", "texts": ["Hello Jane."]},
            ]
        },
    )

    input_type: Literal["request", "response"]
    texts: list[str] | None = Field(None, max_length=100_000, description="texts of the messages, or of the reply")
    structured_messages: list[dict[str, Any]] | None = Field(None, max_length=10_000)
    tool_calls: list[dict[str, Any]] | None = Field(None, max_length=10_000)
    tools: list[dict[str, Any]] | None = Field(None, max_length=10_000)
    images: list[str] | None = Field(None, max_length=10_000)
    litellm_call_id: str | None = Field(None, max_length=1_000, description="the same for a request and its reply")
    litellm_trace_id: str | None = None
    litellm_version: str | None = None
    model: str | None = None
    request_data: dict[str, Any] = Field(default_factory=dict, description="whose API key it is")
    request_headers: dict[str, str] | None = None
    additional_provider_specific_params: dict[str, Any] | None = None


class GuardrailAnswer(BaseModel):
    """What LiteLLM is answered."""

    action: Literal["BLOCKED", "NONE", "GUARDRAIL_INTERVENED"]
    blocked_reason: str | None = None
    texts: Annotated[list[str] | None, Field(description="the texts as they may go on")] = None
    structured_messages: Annotated[list[dict[str, Any]] | None, Field(description="the messages likewise")] = None


_PLACE: Final = StateKind(
    "litellm",
    1,
    lambda place: json.dumps(place).encode("ascii"),
    lambda data, key, version: str(read_json(data.decode("ascii"))),
)
"""Where requests stand, by the id of their call, so that their replies are found to belong there."""


def litellm_routes(service: Service) -> APIRouter:
    """The route; it keeps a request's place until its reply comes, of which LiteLLM tells the texts alone."""
    routes = APIRouter(tags=["litellm"])

    @routes.post(PATH, response_model=GuardrailAnswer, summary="Check a request or reply of LiteLLM")
    async def check(request: Annotated[GuardrailRequest, Body()], tenant: Caller) -> Response:
        """Check what `generic_guardrail_api` of LiteLLM's proxy sends."""
        last = (request.texts or [""])[-1]  # what is before it was checked before
        answer = await service.run(_answer, service, tenant, request, characters=len(last))
        return json_response(answer.model_dump(exclude_none=True))

    return routes


def _answer(service: Service, tenant: Tenant, request: GuardrailRequest) -> GuardrailAnswer:
    """What becomes of a request or a reply; one with something that nobody can read is blocked."""
    try:
        unknown = next((name for name, value in (request.model_extra or {}).items() if value), None)
        if unknown is not None:
            told = f"the field {unknown[:50]!r} is not known"
            raise UnreadError("the call of the guardrail", told, "upgrade turnwise")
        pictures = {"images": [b""] * len(request.images or ())}
        finish(tenant.others.check(leaves(pictures), "check_input"))
        if request.input_type == "response":
            return _reply(service, tenant, request)
        return _request(service, tenant, request)
    except (UnreadError, GuardrailBlocked) as error:
        if tenant.pipeline.mode is not Mode.ON:
            return GuardrailAnswer(action="NONE")
        told = error.brief if isinstance(error, GuardrailBlocked) and not tenant.explains else str(error)
        return GuardrailAnswer(action="BLOCKED", blocked_reason=told)


def _request(service: Service, tenant: Tenant, request: GuardrailRequest) -> GuardrailAnswer:
    named, texts, messages = _named(request), request.texts or [], request.structured_messages or []
    beside: dict[str, Any] = {"tools": request.tools or [], "tool_calls": request.tool_calls or []}
    if not (texts or messages or request.images or any(beside.values())):
        do = "use an endpoint of which LiteLLM tells the texts"
        raise UnreadError("the request", "there is no text in it", do)
    heard = last_heard(messages)
    if not messages:
        _check_beside(tenant, beside)
        results = [tenant.pipeline.check_input(text, key=named.get("key")) for text in texts]
        return _joined(service, tenant, results, texts)
    sent = left = deepcopy(messages)
    if heard:
        try:
            result = tenant.pipeline.check_messages(messages[:heard], recognised=True, **named)
        except ConversationError:
            raise Problem(422, "structured_messages are not a list of OpenAI messages", "messages") from None
        service.metrics.tell(result, tenant.name)
        if not goes_on(result):
            return _blocked(result, tenant)
        if request.litellm_call_id is not None and result.place is not None:
            place, store = result.place, tenant.pipeline.state_store or tenant.places
            store.change(_PLACE, _key(request), lambda _: (place, None))
        sent = deepcopy([*tenant.pipeline.sendable(messages[:heard], result), *messages[heard:]])
        views = unchecked(sent, result, tenant.pipeline.conversation_of(result))
        left = [message if view else {} for message, view in zip(sent, views, strict=True)]
    known = {*_texts_of(messages), *_texts_of(sent)}
    _check_beside(tenant, {**beside, "texts": [text for text in texts if text not in known]})
    finish(tenant.others.check(leaves({"structured_messages": left}), "check_tool_result"))
    if sent == messages:
        return GuardrailAnswer(action="NONE")
    # A LiteLLM that takes texts alone refuses the request where there are fewer of them.
    return GuardrailAnswer(action="GUARDRAIL_INTERVENED", texts=_texts_of(sent), structured_messages=sent)


def _check_beside(tenant: Tenant, tree: dict[str, Any]) -> None:
    """Check what is no message; LiteLLM takes back nothing of it."""
    if finish(tenant.others.check(leaves(tree), "check_tool_result")):
        raise UnreadError("tools, or a text that is no message", "nothing can be replaced there", "take it out")


def _texts_of(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts of messages one by one: content that is text, and parts that hold a ``text``."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and isinstance(part.get("text"), str):
                texts.append(part["text"])
    return texts


def _reply(service: Service, tenant: Tenant, request: GuardrailRequest) -> GuardrailAnswer:
    texts, calls = request.texts or [], request.tool_calls or []
    store = tenant.pipeline.state_store or tenant.places
    after = None if request.litellm_call_id is None else store.get(_PLACE, _key(request))
    results: list[PipelineResult] = []
    for index in range(max(len(texts), 1 if calls else 0)):
        message: dict[str, Any] = {"role": "assistant", "content": texts[index] if texts else None}
        if calls and not index:
            message["tool_calls"] = calls
        results.append(tenant.pipeline.check_messages([message], recognised=after is not None, after=after))
    answer = _joined(service, tenant, results, texts)
    parts = [part for result in results for part in (result.parts or (result,))]
    changed = [part for part in parts if part.pipeline_type is TextKind.TOOL_CALL]
    told = [raw.get("function", {}).get("arguments") for raw in calls]
    if answer.action != "BLOCKED" and [part.text for part in changed] != told:
        reason = "a tool call holds what must be replaced, which LiteLLM takes from no guardrail of this kind"
        return GuardrailAnswer(action="BLOCKED", blocked_reason=reason)
    return answer


def _joined(service: Service, tenant: Tenant, results: list[PipelineResult], texts: list[str]) -> GuardrailAnswer:
    for result in results:
        service.metrics.tell(result, tenant.name)
    blocked = next((result for result in results if result.blocked), None)
    if blocked is not None:
        return _blocked(blocked, tenant)
    outputs = [
        part.text
        for result in results
        for part in (result.parts or (result,))
        if part.pipeline_type in (TextKind.INPUT, TextKind.OUTPUT)
    ]
    if outputs == texts or not texts:
        return GuardrailAnswer(action="NONE")
    return GuardrailAnswer(action="GUARDRAIL_INTERVENED", texts=outputs)


def _blocked(result: PipelineResult, tenant: Tenant) -> GuardrailAnswer:
    why = f": {'; '.join(result.reasons)}" if tenant.explains else ""
    reason = f"{result.pipeline_type.replace('_', ' ')} blocked{why}"
    return GuardrailAnswer(action="BLOCKED", blocked_reason=reason)


def _named(request: GuardrailRequest) -> dict[str, Any]:
    api_key, end_user = (request.request_data.get(f"user_api_key_{name}") for name in ("hash", "end_user_id"))
    headers = {name.lower(): value for name, value in (request.request_headers or {}).items()}
    session = next((headers[name] for name in _SESSION_HEADERS if headers.get(name)), None)
    return caller_of_proxy(api_key, end_user, session)


def _key(request: GuardrailRequest) -> str:
    return sha256(str(request.litellm_call_id).encode("utf-8", "surrogatepass")).hexdigest()[:32]
