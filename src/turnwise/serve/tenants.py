"""The tenants of a service: whoever has a key, with a pipeline and conversations of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from turnwise.conversation import Conversation
from turnwise.errors import ConversationError, StateError
from turnwise.guard import Forgotten, GuardrailPipeline, MemoryStateStore, Mode
from turnwise.guard.config import Config
from turnwise.guard.names import canonical_name
from turnwise.integrations.checking import HeldConversations
from turnwise.integrations.clients.texts import OtherTexts
from turnwise.serve.bodies import Problem
from turnwise.serve.metrics import Metrics
from turnwise.serve.settings import ApiKeys, ServeSettings, TenantSettings
from turnwise.sessions import StateKind


class TenantConversations(HeldConversations):
    """The conversations of a tenant in a worker: a check goes on where the last one stopped, here or elsewhere."""

    def __init__(self, pipeline: GuardrailPipeline, most: int, metrics: Metrics, tenant: str) -> None:
        super().__init__(pipeline, most)
        self._count, self._evicted = metrics.conversations.labels(tenant), metrics.evicted.labels(tenant)

    def find(self, conversation_id: str) -> Conversation | None:
        """A conversation; None where it is not known. `StateError` where the state store can't be read."""
        held = self._holds(conversation_id)
        if not self._stored:
            return held if held is None else self._hold(held)
        found = self._pipeline.find_conversation(conversation_id, held=held)
        if found is None:
            self._let_go(conversation_id, held)
            return None
        return self._hold(found, instead=held)

    def latest(self, most: int) -> list[Conversation]:
        """At most `most` conversations that this worker holds, the one used last first."""
        with self._lock:
            return list(islice(reversed(self._held.values()), most))

    def of(self, conversation_id: str, about: dict[str, Any]) -> Conversation:
        try:
            found = self.find(conversation_id)
        except StateError:  # what is held goes on, or stands in until the store has one of that name
            found = self._holds(conversation_id)
        return found or self._hold(Conversation(conversation_id=conversation_id, **about))

    def begin(self, conversation_id: str | None, about: dict[str, Any]) -> Conversation:
        """Begin a conversation for all workers to find; a name that is taken is a `ConversationError`."""
        if conversation_id is None or self.find(conversation_id) is None:
            begun = Conversation(conversation_id=conversation_id, **about)
            self._pipeline.keep_conversation(begun)
            if self._hold(begun) is begun:
                return begun
        raise ConversationError(f"conversation {conversation_id!r} exists already; choose another id")

    def hold_fork(self, conversation: Conversation | None) -> None:
        """Hold a conversation that was begun by a list of messages with an edited history."""
        if conversation is not None:
            self._hold(conversation)

    def forget(self, conversation_id: str) -> Forgotten | None:
        held = self._holds(conversation_id)
        receipt = self._pipeline.forget_conversation(conversation_id)
        self._let_go(conversation_id, held)
        return receipt if receipt or held is not None else None

    def forget_person(self, name: str) -> Forgotten | None:
        """Forget a person, likewise; see `GuardrailPipeline.forget`."""
        receipt = self._pipeline.forget(name)
        person = canonical_name(name)
        with self._lock:
            held = [
                chat
                for chat in self._held.values()
                if person in map(canonical_name, (chat.initiator, chat.responder))
            ]
        for chat in held:
            self._let_go(chat.conversation_id, chat)
        return receipt if receipt or held else None

    def _let_go(self, name: str, held: Conversation | None) -> None:
        with self._lock:
            if held is not None and self._held.get(name) is held:
                del self._held[name]
            self._note(0)

    def _note(self, evicted: int) -> None:
        self._evicted.inc(evicted)
        self._count.set(len(self._held))


ANYBODY: Final = "anybody"
"""Name of the one tenant of a service without keys."""

SCOPE: Final = "turnwise.tenant"
"""Where the ASGI scope of a request has its tenant."""

MODE: Final[StateKind[Mode]] = StateKind(
    "mode",
    1,
    lambda mode: mode.encode("ascii"),
    lambda data, key, version: Mode(data.decode("ascii")),
    remnant=lambda mode: mode,  # it outlives want of room, and age
)
"""Modes that an operator chose, in the state store of the service; the key is the name of the tenant."""

_FOLLOWED: Final = 0.5
"""Seconds for which the state store is not asked for a mode again."""

_log = logging.getLogger("turnwise.serve")


@dataclass(eq=False, slots=True)
class Tenant:
    """Whoever has a key; a service without keys has one tenant, without settings."""

    name: str
    pipeline: GuardrailPipeline
    conversations: TenantConversations
    settings: TenantSettings | None = None
    places: MemoryStateStore = field(default_factory=lambda: MemoryStateStore(limit=100_000))
    """For a pipeline without a state store."""
    chosen: Mode | None = None  # by an operator
    followed: float = -_FOLLOWED  # when the store was last asked for that
    explain: bool = False  # to everybody
    others: OtherTexts = field(init=False)
    """Checks texts of a proxy that belong to no conversation."""

    def __post_init__(self) -> None:
        self.others = OtherTexts(self.pipeline)

    @property
    def mode(self) -> Mode:
        return self.chosen or Mode("on" if self.settings is None else self.settings.mode)

    @property
    def explains(self) -> bool:
        """Whether it is told reasons and scores."""
        own = self.settings
        return self.explain or (own is not None and (own.explain or own.operator))

    def must_explain(self) -> None:
        if not self.explains:
            raise Problem(
                403, "this takes the key of a tenant with explain: true, or turnwise serve --explain", "explain"
            )


class Tenants:
    """All tenants of a service, by their names; they share audit and state store of the service's pipeline."""

    def __init__(self, pipeline: GuardrailPipeline, settings: ServeSettings, metrics: Metrics) -> None:
        self._pipeline = pipeline
        self._settings = settings
        self._metrics = metrics
        self._keys: ApiKeys | None = None
        self.by_name: dict[str, Tenant] = {}
        if settings.keys is None:
            self.by_name[ANYBODY] = self._made(ANYBODY, pipeline)
        else:
            self.reload(settings.keys)

    def of_key(self, key: str) -> Tenant | None:
        """The tenant that has a key, empty for none; None for one that opens nothing."""
        name = ANYBODY if self._keys is None else self._keys.name_of(key)
        return None if name is None else self.by_name.get(name)

    def several(self) -> bool:
        return len(self.by_name) > 1

    def reload(self, keys: ApiKeys, config: Config | None = None) -> None:
        """Go on with other keys and configurations as they are now; where one does not fit, nothing changes."""
        configs = {name: settings.read_config() for name, settings in keys.tenants.items()}
        for own in configs.values():
            if own is not None:
                own.build()
        if config is not None:
            self._pipeline.reload(config)
        found: dict[str, Tenant] = {}
        for name, settings in keys.tenants.items():
            tenant = self.by_name.get(name)
            if tenant is None:
                pipeline = self._pipeline.for_tenant(name, configs[name], one_person=settings.one_person)
                tenant = self._made(name, pipeline)
            else:
                tenant.pipeline.reload(configs[name] or self._pipeline.config)
            tenant.settings = settings
            found[name] = tenant
            self.follow(tenant)
        gone = [tenant for name, tenant in self.by_name.items() if name not in found]
        self.by_name, self._keys = found, keys
        self._close(gone)

    def operate(self, tenant: Tenant, *, modes: bool = False) -> None:
        """Refuse those who may not operate the service; where no tenant is an operator, all may but for modes."""
        marked = [one for one in self.by_name.values() if one.settings is None or one.settings.operator]
        if tenant not in marked and (marked or modes):
            raise Problem(403, "this takes the key of a tenant that is marked as operator", "operator")

    def choose(self, name: str, mode: Mode | None) -> Tenant | None:
        """Let a tenant run in a mode, or in that of its settings, in all workers; None where it is not known."""
        tenant, store = self.by_name.get(name), self._pipeline.state_store
        if tenant is None:
            return None
        if store is not None and mode is not None:
            store.change(MODE, name, lambda _: (mode, None))
        elif store is not None:
            store.remove(MODE, name)
        tenant.chosen, tenant.followed = mode, monotonic()
        self._apply(tenant)
        return tenant

    def follow(self, tenant: Tenant) -> None:
        """Let a tenant's pipeline run in the mode that an operator chose, maybe through another worker."""
        store = self._pipeline.state_store
        if store is not None and monotonic() - tenant.followed >= _FOLLOWED:
            tenant.followed = monotonic()
            try:
                tenant.chosen = store.get(MODE, tenant.name)
            except StateError as error:
                _log.warning("the mode of %s is not known, and stays %s: %s", tenant.name, tenant.mode, error)
        self._apply(tenant)

    def close(self) -> None:
        self._close(self.by_name.values())

    def _close(self, tenants: Iterable[Tenant]) -> None:
        for tenant in tenants:
            if tenant.pipeline is not self._pipeline:
                tenant.pipeline.close()

    def _apply(self, tenant: Tenant) -> None:
        if tenant.pipeline.mode is not tenant.mode:
            tenant.pipeline.set_mode(tenant.mode)
            _log.warning("the pipeline of %s is %s", tenant.name, tenant.mode)

    def _made(self, name: str, pipeline: GuardrailPipeline) -> Tenant:
        held = TenantConversations(pipeline, self._settings.conversations, self._metrics, name)
        return Tenant(name, pipeline, held, explain=self._settings.explain)


async def _tenant_of(request: Request) -> Tenant:
    tenant: Tenant = request.scope[SCOPE]
    return tenant


Caller = Annotated[Tenant, Depends(_tenant_of)]
"""The tenant that a request comes from."""
