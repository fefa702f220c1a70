"""What a pipeline runs by at one moment: a configuration that is built. Another one takes its place as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from turnwise.clock import Clock
from turnwise.conversation import Side
from turnwise.errors import UnknownNameError
from turnwise.guard.audit.record import AuditSink
from turnwise.guard.config import Config
from turnwise.guard.guardrail import TextKind
from turnwise.guard.limits import KeyLimits
from turnwise.guard.step import Step

KINDS: Final[Mapping[str, TextKind]] = {
    Side.PROMPT: TextKind.INPUT,
    Side.RESPONSE: TextKind.OUTPUT,
    TextKind.TOOL_CALL: TextKind.TOOL_CALL,
    TextKind.TOOL_RESULT: TextKind.TOOL_RESULT,
}
"""Kind of text by side of a turn, and by what a tool has to do with it."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A configuration that is built. A check keeps to the one that it began with.

    Args:
        config: the configuration.
        steps: the guardrails in the order in which they run.
        by_side: those that look at prompts, at responses, and at tool calls and results; by the keys of `KINDS`.
        names: names of these.
        by_person: whether a session is all that one person says.
        limits: the rate limits with what they counted.
        audit: where checks are told; None for nowhere.
    """

    config: Config
    steps: tuple[Step, ...]
    by_side: Mapping[str, tuple[Step, ...]]
    names: Mapping[str, tuple[str, ...]]
    by_person: bool
    limits: KeyLimits
    audit: AuditSink | None

    @classmethod
    def of(cls, config: Config, clock: Clock, before: Setup | None = None, audit: AuditSink | None = None) -> Self:
        """Return a configuration, built.

        Args:
            config: the configuration.
            clock: gives the present time, aware.
            before: the one whose place it takes: what its guardrails remember and its limits counted goes on.
            audit: where checks are told; by default what the configuration says.

        Raises:
            GuardError: a guardrail can't be built, or the audit can't be opened.
        """
        steps = config.build()
        counted = before is not None and before.config.rate_limits == config.rate_limits
        limits = before.limits if before is not None and counted else KeyLimits(config.rate_limits, clock)
        if audit is None:
            # Opened last of all that can fail, so that a configuration that is refused leaves nothing open.
            same = before is not None and before.audit is not None and before.config.audit == config.audit
            audit = before.audit if before is not None and same else config.open_audit(clock)
        if before is not None:
            known = {step.name: step.guardrail for step in before.steps}
            for step in steps:
                if type(known.get(step.name)) is type(step.guardrail):
                    step.guardrail.take_over(known[step.name])
            if limits is not before.limits:
                limits.take_over(before.limits)
        return cls.in_order(config, steps, limits, audit)

    @classmethod
    def in_order(cls, config: Config, steps: tuple[Step, ...], limits: KeyLimits, audit: AuditSink | None) -> Self:
        """Return guardrails in the order in which they run."""
        # Cheap ones first: the sort keeps the order of the file among those that cost alike.
        ordered = tuple(sorted(steps, key=lambda step: step.cost))
        by_side = {side: tuple(step for step in ordered if step.looks_at(kind)) for side, kind in KINDS.items()}
        return cls(
            config=config,
            steps=ordered,
            by_side=by_side,
            names={side: tuple(step.name for step in those) for side, those in by_side.items()},
            by_person=config.session_by == "initiator",
            limits=limits,
            audit=audit,
        )

    def switched(self, name: str, *, enabled: bool) -> Self:
        """Return the same with a guardrail that runs, or does not.

        Args:
            name: the guardrail, as results name it.
            enabled: whether it runs.

        Raises:
            UnknownNameError: no guardrail has that name.
        """
        if all(step.name != name for step in self.steps):
            raise UnknownNameError("guardrail", name, [step.name for step in self.steps])
        steps = tuple(replace(step, enabled=enabled) if step.name == name else step for step in self.steps)
        return self.in_order(self.config, steps, self.limits, self.audit)

    def spares(self, step: Step, blocker: Step) -> bool:
        """Tell whether a guardrail is spared a text that one before it has blocked."""
        if self.config.short_circuit == "costly":
            return step.cost > blocker.cost
        return self.config.short_circuit
