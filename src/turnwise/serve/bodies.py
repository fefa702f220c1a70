"""What requests, responses and problems hold; pydantic models check requests, and describe all in the OpenAPI."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException
from starlette.responses import Response

from turnwise.errors import nearest
from turnwise.guard import Outcome

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_:@~+=-][A-Za-z0-9_.:@~+=-]{0,255}$", max_length=256)]
"""Name of a conversation or session: what stands in an URL as it is."""

Name = Annotated[str, Field(min_length=1, max_length=256)]
Kind = Literal["human", "bot", "agent", "ai_model", "unknown"]
TurnNumber = Annotated[int, Field(ge=1, le=1_000_000_000)]

_MOST_TEXT = 64 << 20
_MOST_MESSAGES = 10_000


class Body(BaseModel):
    """A body of a request: other fields than those that are named are refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ParticipantsBody(Body):
    """Who talks with whom."""

    initiator: Name | None = Field(None, description="name of the side that prompts")
    responder: Name | None = Field(None, description="name of the side that answers")
    initiator_type: Kind | None = None
    responder_type: Kind | None = None

    def about(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


Side: TypeAlias = Literal["input", "output", "tool_call", "tool_result", "tool_description", "document", "memory"]

_ANSWERS = ("output", "tool_call", "tool_result")
"""Sides that may name the turn that they belong to."""


class CheckRequest(Body):
    """A text, or a list of messages whose last one is checked."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "My card is 4111 1111 1111 1111.", "conversation_id": "chat-7"},
                {"text": "You're welcome.", "side": "output", "conversation_id": "chat-7", "turn_number": 1},
                {"text": '{"city": "Oslo"}', "side": "tool_call", "tool": "weather", "conversation_id": "chat-7"},
                {"messages": [{"role": "user", "content": "Is it cold in Oslo?"}], "conversation_id": "chat-8"},
            ]
        }
    )

    text: str | None = Field(None, max_length=_MOST_TEXT, description="the text; of a tool call its arguments")
    messages: list[dict[str, Any]] | None = Field(
        None, min_length=1, max_length=_MOST_MESSAGES, description="OpenAI messages; the last one is checked"
    )
    side: Side = Field("input", description="what the text is")
    conversation_id: Id | None = Field(
        None,
        description="the conversation that it continues, begun where it is not known; without it the text "
        "stands by itself",
    )
    participants: ParticipantsBody | None = Field(None, description="of a conversation that is begun here")
    participant: Name | None = Field(
        None,
        description="who says it, where several prompt: the turn is theirs, and the session where sessions go by "
        "initiator; the responder's name makes it output",
    )
    turn_number: TurnNumber | None = Field(None, description="the turn; not for input")
    tool: Name | None = Field(None, description="name of the tool; of a document or memory where it comes from")
    parameters: dict[str, Any] | None = Field(None, description="schema of a tool_description")
    call_id: Name | None = Field(None, description="id of the call of the tool")
    session_id: Name | None = Field(None, description="the session; by default as the configuration says")
    key: Name | None = Field(None, description="whose rate limits count")
    role: Name | None = Field(None, description="role of that key")
    metadata: dict[str, Any] | None = Field(None, description="joins the metadata of the turn")

    @property
    def characters(self) -> int:
        """About how many characters are checked."""
        if self.messages is None:
            return len(self.text or "")
        # In a conversation with a name only what is new in the list is checked.
        read = self.messages if self.conversation_id is None else self.messages[-1:]
        return sum(len(str(message.get("content", ""))) for message in read)

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        if (self.text is None) == (self.messages is None):
            raise ValueError("give text or messages, one of them")
        if self.messages is not None:
            alone = ("turn_number", "tool", "call_id", "parameters")
            if any(getattr(self, name) is not None for name in alone) or "side" in self.model_fields_set:
                raise ValueError("messages carry turn, tool and side themselves; leave those out")
            if self.participants is not None and self.conversation_id is None:
                raise ValueError("participants of messages need conversation_id")
            return self
        if self.side in ("tool_call", "tool_description") and self.tool is None:
            raise ValueError(f"a {self.side} needs tool, the name of the tool")
        if self.turn_number is not None and (self.side not in _ANSWERS or self.conversation_id is None):
            raise ValueError(f"turn_number needs conversation_id, and a side of {', '.join(_ANSWERS)}")
        if self.tool is not None and self.side in ("input", "output"):
            raise ValueError("tool is of a side other than input and output")
        if self.call_id is not None and self.side not in ("tool_call", "tool_result"):
            raise ValueError("call_id is of side tool_call or tool_result")
        if self.parameters is not None and self.side != "tool_description":
            raise ValueError("parameters are of side tool_description")
        if (self.key or self.role) is not None and self.side != "input":
            raise ValueError("key and role count prompts: they are of side input")
        if (self.metadata or self.participant) is not None and self.side not in ("input", "output"):
            raise ValueError("metadata and participant are of side input or output")
        return self


class StreamRequest(Body):
    """A reply so far. Each request has all of it; the last one says ``done``, and is what is recorded."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "We wrote to jane@exam", "conversation_id": "chat-7"},
                {"text": "We wrote to jane@example.com.", "conversation_id": "chat-7", "done": True},
            ]
        }
    )

    text: str = Field(max_length=_MOST_TEXT, description="all of the reply that has come so far")
    done: bool = Field(False, description="whether it is whole")
    conversation_id: Id | None = None
    turn_number: TurnNumber | None = None
    session_id: Name | None = None


class ConversationRequest(Body):
    """A conversation to begin."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "conversation_id": "chat-7",
                    "participants": {"initiator": "user_123", "responder": "gpt-4", "initiator_type": "human"},
                }
            ]
        }
    )

    conversation_id: Id | None = Field(None, description="its name; by default one is made up")
    participants: ParticipantsBody | None = None
    rate_limit: dict[Literal["turns_per_minute", "turns_per_hour", "turns_per_day"], TurnNumber] | None = Field(
        None, description="prompts that it may have"
    )
    model_info: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None

    def about(self) -> dict[str, Any]:
        about = {} if self.participants is None else self.participants.about()
        rest = {"rate_limit": self.rate_limit, "model_info": self.model_info, "metadata": self.metadata}
        return about | {name: value for name, value in rest.items() if value is not None}


class ModeRequest(Body):
    """How the pipeline of a tenant is to run."""

    mode: Literal["on", "off", "log"] | None = Field(description="null for what the file of keys says")


class CheckResult(BaseModel):
    """The verdict on a text; the fields of `turnwise.guard.PipelineResult`.

    Reasons, warnings, details, stance and languages are empty unless the caller may see them (`explain`).
    """

    blocked: bool = Field(description="whether the text must be stopped")
    warnings: list[str]
    reasons: list[str]
    failures: list[str] = Field(description="guardrails that could not check the text")
    unread: list[str] = Field(description="guardrails whose observer does not read the language of the text")
    outcome: Outcome = Field(description="what came of it: the verdict, or why there is none")
    details: dict[str, dict[str, Any]] = Field(description="by guardrail")
    pipeline_type: Side
    conversation_id: str
    turn_number: int | None
    stance: dict[str, Any] | None
    text: str = Field(description="the text as it may go on, redacted where a guardrail redacts")
    rate_limited: bool
    retry_after: float | None
    seconds: float
    tool: str | None
    call_id: str | None
    parts: list[CheckResult]
    place: str | None = Field(description="names the place after the last of messages")
    recorded: bool = Field(description="whether the same messages were checked before, and this is the record")


class StreamShown(BaseModel):
    """What may be shown of a reply that grows."""

    show: str = Field(description="all of it that may be shown so far; of a stream of lines, what is new")
    blocked: bool = Field(description="whether the reply was stopped")
    result: CheckResult | None = Field(None, description="the verdict, at the end")


class ProblemBody(BaseModel):
    """What went wrong: problem details as in RFC 9457. Nothing of the request is part of it."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None
    path: Literal["open", "closed"] | None = Field(None, description="the way of a text that was not checked")


MEDIA_TYPE: Final = "application/problem+json"

_MOST_ERRORS = 20
"""Places of a body that one problem names at most."""

_LIKENESS = 0.5
"""How alike an unknown field is to the one that it is taken for; names of fields are few and differ much."""


class Problem(HTTPException):
    """A request that is refused, in words of our own: nothing of it is told; `path` is the way of its text."""

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str,
        *,
        retry_after: float | None = None,
        errors: Iterable[Mapping[str, str]] = (),
        path: str | None = None,
    ) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
        if status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, detail, headers)
        self.kind = kind
        self.errors = list(errors)[:_MOST_ERRORS]
        self.path = path

    def response(self) -> Response:
        body: dict[str, Any] = {
            "type": f"urn:turnwise:problem:{self.kind}",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = self.errors
        if self.path is not None:
            body["path"] = self.path
        return Response(json.dumps(body), self.status_code, self.headers, MEDIA_TYPE)


def invalid_body(errors: Iterable[Mapping[str, Any]], known: Iterable[str]) -> Problem:
    """The problem of a body that does not fit, from what pydantic found; `known` are all names of fields."""
    names, told = set(known), []
    for error in errors:
        # Other names are the request's own, which a problem does not repeat.
        place = [part for part in error["loc"] if isinstance(part, int) or part in names]
        if error["type"] == "json_invalid":
            return Problem(400, "the body is no valid JSON; send one JSON object", "json")
        detail = str(error["msg"]).removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            near = nearest(str(error["loc"][-1]), names, likeness=_LIKENESS)
            meant = "; see /openapi.json" if near is None else f": did you mean {near}?"
            detail = f"a field that is not known{meant}"
        told.append({"pointer": "".join(f"/{part}" for part in place), "detail": detail})
    first = told[0]
    return Problem(422, f"{first['pointer'][1:] or 'the body'}: {first['detail']}", "body", errors=told)
