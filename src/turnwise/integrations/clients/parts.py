"""Clients of APIs whose replies are lists of parts, checked."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from turnwise.errors import GuardError
from turnwise.integrations.clients.calls import afinish, finish, not_guarded, whose
from turnwise.integrations.clients.part_replies import Api, answered, opened
from turnwise.integrations.clients.part_streams import EventSteps
from turnwise.integrations.clients.streams import GuardedAsyncStream, GuardedStream


class _Parts:
    """What both clients of such an API do.

    ``unguarded`` is the part of the client behind the guard; ``free`` names what of it needs no check.
    """

    def __init__(self, unguarded: Any, api: Api, instead: str, free: frozenset[str]) -> None:
        self.unguarded, self._api, self._parsing = unguarded, api, copy(api)
        self._parsing.parsed = True
        self._instead, self._free = instead, free

    def not_guarded(self, name: str) -> GuardError:
        """The error of what would go past the guard."""
        return not_guarded(name, self._instead)

    def __getattr__(self, name: str) -> Any:
        if name not in self._free:
            raise self.not_guarded(name)
        return getattr(self.unguarded, name)


class GuardedParts(_Parts):
    """An API whose replies are lists of parts, checked."""

    def create(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model, as ``create`` of the package does; return a reply, or a `GuardedStream`.

        Args:
            conversation_id: as for `GuardrailPipeline.check_messages`, and so are the next three.
            session_id: the session.
            key: whose rate limits count.
            role: role of that key.
            given: what the package takes.

        Raises:
            GuardrailBlocked: the request or the reply was blocked, and no refusal is set.
            GuardError: something would go past the guard.
        """
        named, given = whose(conversation_id, session_id, key, role), _given(given)
        if not given.get("stream"):
            return finish(answered(self._api, self.unguarded.create, given, named))
        call = finish(opened(self._api, given, named))
        raw = None if call.asked.sent is None else self.unguarded.create(**call.given)
        return GuardedStream(EventSteps(self._api, call), raw)

    def parse(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed, as ``parse`` of the package does; arguments as for `create`."""
        named = whose(conversation_id, session_id, key, role)
        return finish(answered(self._parsing, self.unguarded.parse, _given(given), named))

    def raw_stream(self, made: dict[str, Any], **given: Any) -> Any:
        """A stream as helpers of the package take it: they close its response."""
        made["stream"] = self.create(**given)
        return _Raw(made["stream"])


class GuardedAsyncParts(_Parts):
    """An API whose replies are lists of parts, checked, for async code."""

    async def create(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model; see `GuardedParts.create`. A stream is a `GuardedAsyncStream`."""
        named, given = whose(conversation_id, session_id, key, role), _given(given)
        if not given.get("stream"):
            return await afinish(answered(self._api, self.unguarded.create, given, named))
        call = await afinish(opened(self._api, given, named))
        raw = None if call.asked.sent is None else await self.unguarded.create(**call.given)
        return GuardedAsyncStream(EventSteps(self._api, call), raw)

    async def parse(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed; see `GuardedParts.parse`."""
        named = whose(conversation_id, session_id, key, role)
        return await afinish(answered(self._parsing, self.unguarded.parse, _given(given), named))

    async def raw_stream(self, made: dict[str, Any], **given: Any) -> Any:
        """A stream as helpers of the package take it; see `GuardedParts.raw_stream`."""
        made["stream"] = await self.create(**given)
        return _Raw(made["stream"])


class _Raw:
    """A guarded stream in the place of one of the package, which closes the response of it."""

    def __init__(self, stream: Any) -> None:
        self.response = stream
        self.close = stream.close

    def __iter__(self) -> Any:
        return iter(self.response)

    def __aiter__(self) -> Any:
        return aiter(self.response)


def _given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without those that stand for nothing given."""
    return {name: value for name, value in given.items() if type(value).__name__ not in ("Omit", "NotGiven")}
