"""A configuration that is built, by which a pipeline runs until another one takes its place as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from turnwise.clock import Clock, utc_now
from turnwise.errors import UnknownNameError
from turnwise.guard.audit.record import AuditSink
from turnwise.guard.config import Config
from turnwise.guard.finding import TextKind
from turnwise.guard.guardrail import Guardrail
from turnwise.guard.messages.lists import MessageLists
from turnwise.guard.rate_limits import KeyLimits
from turnwise.guard.results import Correction, Detail
from turnwise.guard.state.guard_state import GuardState
from turnwise.guard.state.settings import StateSettings
from turnwise.guard.state.stores import TenantStore
from turnwise.guard.step import Step, logged
from turnwise.sessions import MemoryStateStore, StateStore


class Mode(StrEnum):
    """How a pipeline runs.

    ``on``: as its configuration says. ``log``: guardrails run, and nothing is blocked or replaced; results tell
    what would have been. ``off``: no guardrail runs; results tell each as skipped, and conversations go on.
    """

    ON = "on"
    OFF = "off"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a pipeline was given in place of what the configuration says."""

    audit: AuditSink | None = None  # closed with the pipeline
    store: StateStore | None = None  # stays open
    tenant: str = ""  # keeps its states apart from those of others in the store; empty for nobody's
    shared: Callable[[], Setup] | None = None  # its audit and store serve where the configuration names none
    on_correction: Callable[[Correction], None] | None = None
    person: str = ""  # stands for initiators without a name; empty for nobody

    def for_config(
        self, config: Config, before: Setup | None
    ) -> tuple[Config, AuditSink | None, StateStore | None]:
        """Audit and store as they were given or are shared, and the configuration that goes with them."""
        audit, store = self.audit, self.store
        if self.shared is not None:
            whole = self.shared()
            if config.audit in (None, whole.config.audit):
                config, audit = replace(config, audit=whole.config.audit), whole.audit
            if config.state in (None, whole.config.state):
                config = replace(config, state=whole.config.state)
                store = None if whole.state is None else whole.state.store
        if store is not None and self.tenant:
            known = None if before is None or before.state is None else before.state.store
            # The same object as before, by which the conversations in memory are known.
            same = isinstance(known, TenantStore) and known.whole is store
            store = known if same else TenantStore(store, self.tenant)
        return config, audit, store


@dataclass(frozen=True, slots=True)
class Setup:
    """A configuration that is built. A check keeps to the one that it began with."""

    config: Config
    steps: tuple[Step, ...]  # in the order in which they run
    by_kind: Mapping[TextKind, tuple[Step, ...]]  # those that look at each kind of text
    names: Mapping[str, tuple[str, ...]]
    by_person: bool  # a session is all that one person says
    limits: KeyLimits
    audit: AuditSink | None
    clock: Clock
    own_clock: bool  # conversations go by another clock than the system's
    state: GuardState | None
    lists: MessageLists | None  # None where a state store keeps no conversations
    opened: tuple[AuditSink | StateStore, ...]  # what the pipeline closes in the end
    forgotten: StateStore  # what was forgotten, by hash
    tenant: str = ""
    mode: Mode = Mode.ON
    limited: bool = False  # rate limits of keys count prompts
    person: str = ""
    on_correction: Callable[[Correction], None] | None = None
    clean_names: set[str] = field(default_factory=set, init=False, compare=False)
    """Names in which these guardrails found nothing."""

    @classmethod
    def of(cls, config: Config, clock: Clock, given: Overrides, before: Setup | None = None) -> Self:
        """Build a configuration; what the guardrails of `before` remember and its limits counted goes on."""
        steps = tuple(replace(step, guardrail=step.guardrail.placed(step.name, clock)) for step in config.build())
        counted = before is not None and before.config.rate_limits == config.rate_limits
        limits = before.limits if before is not None and counted else KeyLimits(config.rate_limits, clock)
        # Opened last of all that can fail, so that a configuration that is refused leaves nothing open.
        config, audit, store = given.for_config(config, before)
        lent = audit is not None and given.shared is not None
        opened: list[AuditSink | StateStore] = []
        with ExitStack() as refused:
            if store is None and config.state is not None:
                kept = None if before is None or before.config.state != config.state else before.state
                with config.lines.errors_at(("state",)):
                    store = config.state.open(clock) if kept is None else kept.store
                if store is not None and kept is None and given.tenant:
                    store = TenantStore(store, given.tenant)
                if store is not None:
                    opened.append(store)
                    if kept is None:
                        refused.callback(store.close)
            if audit is None and config.audit is not None:
                known_audit = None if before is None or before.config.audit != config.audit else before.audit
                with config.lines.errors_at(("audit",)):
                    audit = config.audit.open(clock) if known_audit is None else known_audit
            if audit is not None and not lent:
                opened.append(audit)
            refused.pop_all()
        if before is not None:
            known = {step.name: step.guardrail for step in before.steps}
            for step in steps:
                if type(known.get(step.name)) is type(step.guardrail):
                    step.guardrail.take_over(known[step.name])
            if limits is not before.limits:
                limits.take_over(before.limits)
        rails = {step.name: step.guardrail for step in steps}
        parking = {name: rail for name, rail in rails.items() if type(rail).park is not Guardrail.park}
        state = None
        if store is not None:
            earlier = None if before is None else before.state
            state = GuardState(store, config.state or StateSettings(), parking, config.rate_limits, clock, earlier)
            lists = state.lists
        else:
            lists = None if before is None or before.state is not None else before.lists
            lists = lists or MessageLists(MemoryStateStore())
        mode = Mode.ON if before is None else before.mode
        return cls(
            config=config,
            **_in_order(steps, mode),
            by_person=config.session_by == "initiator",
            limits=limits,
            audit=audit,
            clock=clock,
            own_clock=clock is not utc_now,
            state=state,
            lists=lists,
            opened=tuple(opened),
            forgotten=_forgotten(store, before),
            tenant=given.tenant,
            mode=mode,
            limited=limits.active and mode is Mode.ON,
            person=given.person,
            on_correction=given.on_correction,
        )

    def switched(self, name: str, *, enabled: bool) -> Self:
        """The same with a guardrail switched on or off."""
        if all(step.name != name for step in self.steps):
            raise UnknownNameError("guardrail", name, [step.name for step in self.steps])
        steps = tuple(replace(step, enabled=enabled) if step.name == name else step for step in self.steps)
        return replace(self, **_in_order(steps, self.mode))

    def in_mode(self, mode: Mode) -> Self:
        """The same in another mode."""
        return replace(
            self, mode=mode, limited=self.limits.active and mode is Mode.ON, **_in_order(self.steps, mode)
        )

    def told(self, detail: Detail) -> Detail:
        """A detail that is no guardrail's, as the mode has it."""
        return detail if self.mode is Mode.ON else logged(detail)

    def spares(self, step: Step, blocker: Step) -> bool:
        """Whether a guardrail is spared a text that one before it has blocked."""
        if self.config.short_circuit == "costly":
            return step.cost > blocker.cost
        return self.config.short_circuit


def _forgotten(store: StateStore | None, before: Setup | None) -> StateStore:
    if store is not None:
        return store
    return MemoryStateStore() if before is None or before.state is not None else before.forgotten


def _in_order(steps: tuple[Step, ...], mode: Mode) -> dict[str, Any]:
    """Guardrails in the order in which they run, and by what they look at as they run in a mode."""
    # Cheap ones first: the sort keeps the order of the file among those that cost alike.
    ordered = tuple(sorted(steps, key=lambda step: step.cost))
    running = ordered
    if mode is not Mode.ON:
        off = mode is Mode.OFF
        running = tuple(replace(step, enabled=step.enabled and not off, logs=not off) for step in ordered)
    by_kind = {kind: tuple(step for step in running if step.looks_at(kind)) for kind in TextKind}
    names = {kind: tuple(step.name for step in those) for kind, those in by_kind.items()}
    return {"steps": ordered, "by_kind": by_kind, "names": names}
