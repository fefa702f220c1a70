"""The routes that check: a text, and a reply that grows."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from turnwise._support.bounded import read_json
from turnwise.guard import NO_CONVERSATION, Outcome, OutputStream, PipelineResult
from turnwise.serve.admission import LINES
from turnwise.serve.bodies import Body as FixedBody
from turnwise.serve.bodies import (
    CheckRequest,
    CheckResult,
    Id,
    Name,
    ParticipantsBody,
    Problem,
    StreamRequest,
    StreamShown,
    TurnNumber,
    invalid_body,
)
from turnwise.serve.clients import DisconnectedError
from turnwise.serve.service import Service
from turnwise.serve.tenants import SCOPE, Caller, Tenant

Read = TypeVar("Read", bound=FixedBody)


class StreamStart(FixedBody):
    """The first line of a stream of lines: what the reply belongs to."""

    conversation_id: Id | None = None
    turn_number: TurnNumber | None = None
    session_id: Name | None = None


class StreamPiece(FixedBody):
    """A further line: the next piece, or the end."""

    text: str = ""
    done: bool = False


_OUTCOMES = {"timeout": Outcome.STALLED, "check-timeout": Outcome.TIMED_OUT, "stopping": Outcome.CANCELLED}
"""What becomes of a stream by the problem that ended it."""

_FIELDS = (*CheckRequest.model_fields, *ParticipantsBody.model_fields)

_LINES_SCHEMA: dict[str, Any] = {
    "type": "string",
    "description": "Lines of JSON: first what the reply belongs to, then pieces, then the end. Lines of "
    "StreamShown come back as the pieces come in.",
    "example": '{"conversation_id": "chat-7"}\n{"text": "Write to jane@"}\n{"text": "home.org"}\n{"done": true}\n',
}


class _CheckRoute(APIRoute):
    """Reads its body straight into what the function takes, in half the time that dependencies would take."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            try:
                body = CheckRequest.model_validate_json(await request.body())
            except ValidationError as error:
                found = error.errors(include_input=False, include_url=False, include_context=False)
                raise invalid_body(found, _FIELDS) from None
            response: Response = await self.endpoint(body, request.scope[SCOPE])
            return response

        return handle


def check_routes(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["checks"])

    async def check(request: Annotated[CheckRequest, Body()], tenant: Caller) -> Response:
        """Check a prompt, a response, a call or a result of a tool, or the last of a list of messages.

        With `conversation_id` it continues a conversation, which is begun where it is not known.
        """
        told = await service.run(_checked, service, tenant, request, characters=request.characters)
        return Response(told, media_type="application/json")

    routes.add_api_route(
        "/check",
        check,
        methods=["POST"],
        response_model=CheckResult,
        summary="Check a text",
        route_class_override=_CheckRoute,
    )

    @routes.post(
        "/check/stream",
        response_model=StreamShown,
        summary="Check a reply that grows",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": StreamRequest.model_json_schema()},
                    LINES: {"schema": _LINES_SCHEMA},
                },
            }
        },
    )
    async def check_stream(request: Request, tenant: Caller) -> Response:
        """Say what may be shown of a reply while it comes, and give the verdict at its end.

        As JSON each request has all that came so far, and only the one that says `done` is recorded. As lines
        (`application/x-ndjson`) one request has the whole reply, piece by piece, and so has its response.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == LINES:
            lines = _BodyLines(request)
            start = _read(StreamStart, await lines.next())
            stream = await service.run(_opened, tenant, start)
            return _LinesResponse(_shown(service, tenant, stream, lines))
        whole = _read(StreamRequest, await request.body())
        return json_response(await service.run(_grown, service, tenant, whole, characters=len(whole.text)))

    return routes


def json_response(value: Any, status: int = 200) -> Response:
    return Response(_json(value), status, media_type="application/json")


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _told(tenant: Tenant, result: PipelineResult) -> dict[str, Any]:
    """A verdict, as far as the caller may see it."""
    return result.to_dict() if tenant.explains else result.without_reasons()


def _read(body: type[Read], line: bytes) -> Read:
    try:
        return body.model_validate(read_json(line.decode("utf-8")))
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        raise invalid_body(found, StreamRequest.model_fields) from None
    except (ValueError, RecursionError):
        told = "the body is no valid JSON; send JSON objects, a line each in a stream"
        raise Problem(400, told, "json") from None


def _checked(service: Service, tenant: Tenant, request: CheckRequest) -> str:
    return _json(_told(tenant, service.check(tenant, request)))


def _opened(tenant: Tenant, start: StreamStart | StreamRequest) -> OutputStream:
    name = start.conversation_id
    chat = NO_CONVERSATION if name is None else tenant.conversations.of(name, {})
    return tenant.pipeline.stream_output(chat, turn_number=start.turn_number, session_id=start.session_id)


def _grown(service: Service, tenant: Tenant, request: StreamRequest) -> dict[str, Any]:
    """What may be shown of a reply so far; only the whole one is checked in its conversation."""
    if not request.done:
        trial = tenant.pipeline.stream_output()
        shown = trial.feed(request.text)
        if not trial.blocked:
            return {"show": shown, "blocked": False, "result": None}
    stream = _opened(tenant, request)
    shown = stream.feed(request.text)
    result = stream.end()
    service.metrics.tell(result, tenant.name)
    return {"show": shown + stream.rest, "blocked": result.blocked, "result": _told(tenant, result)}


async def _shown(
    service: Service, tenant: Tenant, stream: OutputStream, lines: _BodyLines
) -> AsyncGenerator[str, None]:
    """Yield lines with what may be shown of a reply; one whose pieces end before it does is dropped."""
    why, came = Outcome.DISCONNECTED, 0
    try:
        while not stream.blocked:
            piece = _read(StreamPiece, await lines.next())
            if piece.text:
                came += len(piece.text)
                show = await service.run(stream.feed, piece.text, characters=len(piece.text))
                if show and not stream.blocked:
                    yield _line(show, None)
            if piece.done:
                break
        result = await service.run(stream.end, characters=came)
        service.metrics.tell(result, tenant.name)
        yield _line(stream.rest, _told(tenant, result))
    except Problem as problem:
        why = _OUTCOMES.get(problem.kind, Outcome.BROKEN_OFF)
        yield json.dumps({"problem": json.loads(bytes(problem.response().body))}) + "\n"
    finally:
        # A client that is gone ends what is awaited here, so nobody waits for this.
        if stream.result is None:
            service.later("short", _ended, service, tenant, stream, why)


def _ended(service: Service, tenant: Tenant, stream: OutputStream, why: Outcome) -> None:
    if stream.result is None:
        stream.drop(why)
        if stream.result is not None:
            service.metrics.tell(stream.result, tenant.name)


def _line(show: str, result: dict[str, Any] | None) -> str:
    return _json({"show": show, "blocked": result is not None and result["blocked"], "result": result}) + "\n"


class _LinesResponse(Response):
    """Sends lines as they are made, and leaves the request's body to whoever makes them."""

    media_type = LINES

    def __init__(self, lines: AsyncGenerator[str, None]) -> None:
        super().__init__()
        self._lines = lines
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._lines) as lines:
            async for line in lines:
                await send({"type": "http.response.body", "body": line.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _BodyLines:
    """The lines of a body, as they come."""

    def __init__(self, request: Request) -> None:
        self._parts = request.stream()
        self._waiting: list[bytes] = []
        self._begun = b""

    async def next(self) -> bytes:
        while not self._waiting:
            try:
                part = await anext(self._parts)
            except ClientDisconnect:
                raise DisconnectedError from None
            except StopAsyncIteration:
                if not self._begun:
                    raise Problem(400, "the stream ended without a line that says done", "broken-off") from None
                self._waiting, self._begun = [self._begun], b""
                continue
            *whole, self._begun = (self._begun + part).split(b"\n")
            self._waiting += reversed([line for line in whole if line.strip()])
        return self._waiting.pop()
