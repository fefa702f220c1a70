"""What guarded clients of model packages have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from turnwise.integrations.clients.calls import Guarding, not_guarded


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
