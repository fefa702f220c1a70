"""Guarded clients of model packages, and the parts of them that ask a model, sync and async."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar, Final, Self

from turnwise.errors import GuardError, UsageError
from turnwise.guard import GuardrailPipeline
from turnwise.integrations.checking import Steps, afinish, finish
from turnwise.integrations.clients.calls import Guarding
from turnwise.integrations.clients.streams import GuardedAsyncStream, GuardedStream, PieceSteps

Streamed = tuple[PieceSteps, Mapping[str, Any] | None]
"""What checks a reply in pieces, and what the client is given; None where nothing is asked."""


def not_guarded(what: str, instead: str) -> GuardError:
    """The error of a part of the surface that would go past the guard."""
    return GuardError(f"{what} is not guarded: use {instead}, or the client itself, as .unguarded")


class GuardedClient:
    """What guarded clients do: pass on what asks no model for text, and refuse what is ``past_the_guard``."""

    past_the_guard: ClassVar[frozenset[str]]
    instead: ClassVar[str]

    def __init__(self, client: Any, guarding: Guarding) -> None:
        self.unguarded = client
        """The client behind the guard."""
        self._guarding = guarding

    def __getattr__(self, name: str) -> Any:
        if name in self.past_the_guard:
            raise not_guarded(name, self.instead)
        return getattr(self.unguarded, name)

    def __repr__(self) -> str:
        return f"guard({type(self.unguarded).__name__})"

    def with_options(self, **options: Any) -> Self:
        """Return the same with other options of the client."""
        return type(self)(self.unguarded.with_options(**options), self._guarding)

    copy = with_options


def guarded(
    package: str,
    kinds: Mapping[str, type[GuardedClient]],
    client: Any,
    pipeline: GuardrailPipeline,
    refusal: str | None,
) -> Any:
    """Put a client of a package behind a guard; ``kinds`` are the guarded classes by the names of its own."""
    try:
        module = import_module(package)
    except ImportError as error:
        raise UsageError(f"{package} is not installed: pip install 'turnwise[{package}]'") from error
    for name, kind in kinds.items():
        if isinstance(client, getattr(module, name)):
            return kind(client, Guarding(pipeline, refusal))
    classes = " or ".join(f"{package}.{name}" for name in kinds)
    raise GuardError(f"{type(client).__name__} is no client of {package}; give {classes}")


class SyncClient(GuardedClient):
    """A guarded client as a context manager."""

    def __enter__(self) -> Self:
        self.unguarded.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.unguarded.__exit__(*error)


class AsyncClient(GuardedClient):
    """A guarded client as an async context manager."""

    async def __aenter__(self) -> Self:
        await self.unguarded.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.unguarded.__aexit__(*error)


class Resource(ABC):
    """A part of a client that asks a model, such as ``chat.completions``; ``free`` names what needs no check."""

    path: ClassVar[str] = ""
    instead: ClassVar[str]
    free: ClassVar[frozenset[str]]

    def __init__(self, unguarded: Any, guarding: Guarding) -> None:
        self.unguarded, self._guarding = unguarded, guarding

    def __getattr__(self, name: str) -> Any:
        if name not in self.free:
            raise not_guarded(f"{self.path}{name}", self.instead)
        return getattr(self.unguarded, name)

    @abstractmethod
    def _answered(
        self, create: Callable[..., Any], given: dict[str, Any], named: dict[str, Any], *, parsed: bool
    ) -> Steps[Any]:
        """Check a request, ask the model with ``create``, and check its reply."""

    @abstractmethod
    def _streamed(self, given: dict[str, Any], named: dict[str, Any]) -> Steps[Streamed]:
        """Check a request whose reply is to come in pieces."""


class SyncResource(Resource):
    """A part of a sync client."""

    def create(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model, as ``create`` of the package does; return its reply, or a `GuardedStream`.

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
        named, given = _whose(conversation_id, session_id, key, role), _without_omitted(given)
        if not given.get("stream"):
            return finish(self._answered(self.unguarded.create, given, named, parsed=False))
        reply, sent = finish(self._streamed(given, named))
        return GuardedStream(reply, None if sent is None else self.unguarded.create(**sent))

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
        named = _whose(conversation_id, session_id, key, role)
        return finish(self._answered(self.unguarded.parse, _without_omitted(given), named, parsed=True))


class AsyncResource(Resource):
    """A part of an async client."""

    async def create(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model; see `SyncResource.create`. A stream is a `GuardedAsyncStream`."""
        named, given = _whose(conversation_id, session_id, key, role), _without_omitted(given)
        if not given.get("stream"):
            return await afinish(self._answered(self.unguarded.create, given, named, parsed=False))
        reply, sent = await afinish(self._streamed(given, named))
        return GuardedAsyncStream(reply, None if sent is None else await self.unguarded.create(**sent))

    async def parse(
        self,
        *,
        conversation_id: str | None = None,
        session_id: str | None = None,
        key: str | None = None,
        role: str | None = None,
        **given: Any,
    ) -> Any:
        """Ask the model for what can be parsed; see `SyncResource.parse`."""
        named = _whose(conversation_id, session_id, key, role)
        return await afinish(self._answered(self.unguarded.parse, _without_omitted(given), named, parsed=True))


class HelperStream:
    """A stream of a package's helper, sync or async; ``enter`` gives both, None for what is not asked."""

    def __init__(self, enter: Callable[[], Any]) -> None:
        self._enter = enter
        self._manager: Any = None
        self._stream: Any = None

    def __enter__(self) -> Any:
        self._manager, self._stream = self._enter()
        return self._stream

    def __exit__(self, *error: Any) -> None:
        self._stream.close()
        if self._manager is not None:
            self._manager.__exit__(*error)

    async def __aenter__(self) -> Any:
        self._manager, self._stream = await self._enter()
        return self._stream

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.close()
        if self._manager is not None:
            await self._manager.__aexit__(*error)


_OURS: Final = ("conversation_id", "session_id", "key", "role")
"""Arguments that say whose conversation a request belongs to."""


def named_in(given: dict[str, Any]) -> dict[str, Any]:
    """Take our own arguments out of those of a call."""
    return {name: value for name in _OURS if (value := given.pop(name, None)) is not None}


def _whose(*values: str | None) -> dict[str, Any]:
    return {name: value for name, value in zip(_OURS, values, strict=True) if value is not None}


def _without_omitted(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if type(value).__name__ not in ("Omit", "NotGiven")}
