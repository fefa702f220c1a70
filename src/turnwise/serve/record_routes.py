"""The routes to what is kept: conversations with their analysis, people, and sessions."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from fastapi.responses import Response

from turnwise.conversation import Conversation
from turnwise.conversation.turn import ATTEMPTS_KEY, GUARD_KEY
from turnwise.forensics import analyze_conversation_forensics
from turnwise.guard import Forgotten
from turnwise.guard.turn_checks import readable_checks
from turnwise.serve.bodies import ConversationRequest, Id, Problem
from turnwise.serve.check_routes import json_response
from turnwise.serve.service import Service
from turnwise.serve.tenants import Caller, Tenant

ConversationId = Annotated[Id, Path(examples=["chat-7"])]
SessionId = Annotated[str, Path(min_length=1, max_length=256, examples=["user_123"])]

_CHECKS = (GUARD_KEY, ATTEMPTS_KEY)


def record_routes(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1")

    @routes.post("/conversations", status_code=201, tags=["conversations"], summary="Begin a conversation")
    async def begin(request: Annotated[ConversationRequest, Body()], tenant: Caller) -> Response:
        """Begin a conversation with participants, model and rate limit of its own."""
        chat = await service.run(tenant.conversations.begin, request.conversation_id, request.about())
        response = json_response(chat.to_dict(), 201)
        response.headers["Location"] = f"/v1/conversations/{chat.conversation_id}"
        return response

    @routes.get("/conversations", tags=["conversations"], summary="List conversations")
    async def listed(tenant: Caller, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response:
        """Return the conversations that this worker holds, the one used last first; other workers hold others."""
        return json_response(await service.run(_listed, tenant, limit))

    @routes.get("/conversations/{conversation_id}", tags=["conversations"], summary="Read a conversation")
    async def read(tenant: Caller, conversation_id: ConversationId) -> Response:
        """Return a conversation with its turns, redacted where a guardrail redacts.

        Whoever may see reasons and scores gets the checks of each turn as well.
        """
        return json_response(await service.run(_read, tenant, conversation_id))

    @routes.get(
        "/conversations/{conversation_id}/forensics", tags=["conversations"], summary="Analyse a conversation"
    )
    async def forensics(tenant: Caller, conversation_id: ConversationId, texts: bool = False) -> Response:
        """Return timeline, guardrails, trajectory, drift and stance; texts where they are asked for."""
        return json_response(await service.run(_analysed, tenant, conversation_id, texts))

    @routes.delete(
        "/conversations/{conversation_id}",
        tags=["conversations"],
        summary="Forget a conversation",
    )
    async def forget(tenant: Caller, conversation_id: ConversationId) -> Response:
        """Forget a conversation, its session where that is its own, and its texts in the audit; the receipt."""
        return _receipt(await service.run(tenant.conversations.forget, conversation_id), "conversation")

    @routes.delete("/people/{name}", tags=["people"], summary="Forget a person")
    async def forget_person(tenant: Caller, name: SessionId) -> Response:
        """Forget a person: session, conversations, counts, and their texts in the audit; return the receipt."""
        return _receipt(await service.run(tenant.conversations.forget_person, name), "person")

    @routes.get("/sessions/{session_id}", tags=["sessions"], summary="Read a session")
    async def session(tenant: Caller, session_id: SessionId) -> Response:
        """Return whether a session was terminated; to those who may see scores also stance, trust and breaker."""
        return json_response(await service.run(_session, tenant, session_id))

    @routes.post("/sessions/{session_id}/release", tags=["sessions"], summary="Release a session")
    async def release(tenant: Caller, session_id: SessionId) -> Response:
        """Close the circuit breaker of a session, of a terminated one as well; trust and turns stay."""
        return json_response(await service.run(partial(_session, release=True), tenant, session_id))

    @routes.delete("/sessions/{session_id}", status_code=204, tags=["sessions"], summary="Forget a session")
    async def forget_session(tenant: Caller, session_id: SessionId) -> Response:
        """Let a session begin anew, a terminated one as well; its conversations stay."""
        if not await service.run(lambda: tenant.pipeline.session(session_id).reset()):
            raise not_known("session")
        return Response(status_code=204)

    return routes


def not_known(what: str) -> Problem:
    return Problem(404, f"there is no {what} of that name", "not-known")


def _receipt(forgotten: Forgotten | None, what: str) -> Response:
    if forgotten is None:
        raise not_known(what)
    return json_response(forgotten.to_dict())


def _found(tenant: Tenant, conversation_id: str) -> Conversation:
    chat = tenant.conversations.find(conversation_id)
    if chat is None:
        raise not_known("conversation")
    if tenant.pipeline.state_store is not None:
        # What is held may wait to be brought up to date by its next check.
        return tenant.pipeline.find_conversation(conversation_id) or chat
    return chat


def _listed(tenant: Tenant, limit: int) -> dict[str, Any]:
    return {"conversations": [_head(chat) for chat in tenant.conversations.latest(limit)]}


def _head(chat: Conversation) -> dict[str, Any]:
    turns, last = chat.get_turn_count(), chat.last_activity
    checks = readable_checks(chat.turn(turns).checks, turns) if turns else None
    return {
        "conversation_id": chat.conversation_id,
        "initiator": chat.initiator,
        "responder": chat.responder,
        "turns": turns,
        "last_activity": None if last is None else last.isoformat(),
        "last_turn_blocked": checks is not None and checks.blocked,
    }


def _read(tenant: Tenant, conversation_id: str) -> dict[str, Any]:
    found = _found(tenant, conversation_id).to_dict()
    if not tenant.explains:
        for turn in found["turns"]:
            turn["metadata"] = {key: one for key, one in turn["metadata"].items() if key not in _CHECKS}
    return found


def _analysed(tenant: Tenant, conversation_id: str, texts: bool) -> dict[str, Any]:
    chat = _found(tenant, conversation_id)
    tenant.must_explain()
    return analyze_conversation_forensics(chat, texts=texts)


def _session(tenant: Tenant, session_id: str, *, release: bool = False) -> dict[str, Any]:
    session = tenant.pipeline.session(session_id)
    if session.stance is None and not session.persons:
        raise not_known("session")
    if release:
        session.release()
    stance = session.stance
    told = {"session_id": session_id, "terminated": session.terminated}
    if not tenant.explains:
        return told
    persons = {name: {"weight": one.weight, "incidents": one.incidents} for name, one in session.persons.items()}
    return told | {
        "trust": session.trust,
        "breaker": None if session.breaker is None else str(session.breaker),
        "stance": None if stance is None else stance.to_dict(),
        "persons": persons,
    }
