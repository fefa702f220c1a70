"""The tenants of a service: whoever has a key, with a pipeline and conversations of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Annotated, Final

from fastapi import Depends, Request

from turnwise.errors import StateError
from turnwise.guard import GuardrailPipeline, MemoryStateStore, Mode
from turnwise.guard.config import Config
from turnwise.integrations.clients.texts import OtherTexts
from turnwise.serve.conversations import HeldConversations
from turnwise.serve.keys import ApiKeys, TenantSettings
from turnwise.serve.metrics import Metrics
from turnwise.serve.problems import Problem
from turnwise.serve.settings import ServeSettings
from turnwise.sessions import StateKind

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
    """Whoever has a key. What is known of a tenant does not exist for others.

    A service without keys has one, without settings. `places` is what this process alone keeps, where there is no
    state store. `chosen` is the mode that an operator chose; `followed`, when the store was last asked for it.
    """

    name: str
    pipeline: GuardrailPipeline
    conversations: HeldConversations
    settings: TenantSettings | None = None
    places: MemoryStateStore = field(default_factory=lambda: MemoryStateStore(limit=100_000))
    chosen: Mode | None = None
    followed: float = -_FOLLOWED
    explain: bool = False
    """Whether the service tells everybody reasons and scores."""
    others: OtherTexts = field(init=False)
    """Checks texts of a proxy that belong to no conversation."""

    def __post_init__(self) -> None:
        self.others = OtherTexts(self.pipeline)

    @property
    def mode(self) -> Mode:
        """How its pipeline is to run."""
        return self.chosen or Mode("on" if self.settings is None else self.settings.mode)

    @property
    def explains(self) -> bool:
        """Whether it is told reasons and scores."""
        own = self.settings
        return self.explain or (own is not None and (own.explain or own.operator))

    def must_explain(self) -> None:
        """Refuse those who may not see reasons and scores."""
        if not self.explains:
            raise Problem(
                403, "this takes the key of a tenant with explain: true, or turnwise serve --explain", "explain"
            )


class Tenants:
    """All tenants of a service, by their names.

    The pipeline of the service is the only one where there are no keys, else the one whose audit and state store
    they share.
    """

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
        """Whether there are several tenants."""
        return len(self.by_name) > 1

    def reload(self, keys: ApiKeys, config: Config | None = None) -> None:
        """Go on with other keys, with the configurations of tenants as they are now, and with one of the service.

        Where one does not fit (`UsageError`), nothing has changed.
        """
        configs = {name: settings.read_config() for name, settings in keys.tenants.items()}
        for own in configs.values():
            if own is not None:
                own.build()
        if config is not None:
            self._pipeline.reload(config)
        shared = self._pipeline.config
        found: dict[str, Tenant] = {}
        for name, settings in keys.tenants.items():
            tenant = self.by_name.get(name)
            if tenant is None:
                pipeline = self._pipeline.for_tenant(name, configs[name], one_person=settings.one_person)
                tenant = self._made(name, pipeline)
            else:
                tenant.pipeline.reload(configs[name] or shared)
            tenant.settings = settings
            found[name] = tenant
            self.follow(tenant)
        gone = [tenant for name, tenant in self.by_name.items() if name not in found]
        self.by_name, self._keys = found, keys
        self._close(gone)

    def operate(self, tenant: Tenant, *, modes: bool = False) -> None:
        """Refuse those who may not operate the service.

        Where tenants are marked as operators, only they may. Where none is, everybody may, but nobody may see or
        change modes (`modes`).
        """
        marked = [one for one in self.by_name.values() if one.settings is None or one.settings.operator]
        if tenant not in marked and (marked or modes):
            raise Problem(403, "this takes the key of a tenant that is marked as operator", "operator")

    def choose(self, name: str, mode: Mode | None) -> Tenant | None:
        """Let a tenant's pipeline run in a mode, in all workers; None is for the mode of its settings.

        Return the tenant, or None for one that is not known.
        """
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
        """Close the pipelines of all tenants."""
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
        held = HeldConversations(pipeline, self._settings.conversations, self._metrics, name)
        return Tenant(name, pipeline, held, explain=self._settings.explain)


async def _tenant_of(request: Request) -> Tenant:
    tenant: Tenant = request.scope[SCOPE]
    return tenant


Caller = Annotated[Tenant, Depends(_tenant_of)]
"""The tenant that a request comes from."""
