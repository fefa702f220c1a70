"""A guardrail in its place in a pipeline: when it runs, and what becomes of its findings and failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from math import inf
from threading import Lock
from time import perf_counter
from typing import Any, Final, TypeVar

from turnwise.deadline import Deadline, WorkStopped, within
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, On, OnError, TextKind, kinds_on, milder
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.results import Detail, GuardrailStatus, Path, PipelineResult, as_json
from turnwise.guard.threads import TimedThreads, compute, in_time
from turnwise.guard.turn_checks import DriftData

DEFAULT = "default"  # stands for the timeout that a guardrail has by itself
WAITING_SECONDS = 30.0  # timeout of a guardrail that waits and has none of its own

DROPPED, UNREAD, NAMES, FORGED = "dropped", "unread", "names", "forged"

TOO_LONG, STATE, TIMED_OUT, CANCELLED = "too_long", "state", "timed_out", "cancelled"

RESERVED = (DROPPED, UNREAD, FORGED, NAMES, TOO_LONG, STATE, TIMED_OUT, CANCELLED)
"""Names under which results tell of what no guardrail said, and that no guardrail can have.

A response that broke off; content that no guardrail can read; names that come with a text; what the model never
said; a text that is too long to be checked; a state store that could not be used; a text whose time was up; a
check that nobody waited for any more.
"""

NOBODY_WAITS = "nobody waits for the check any more"  # why a check was cancelled, where nothing else is known
_REASON = 500  # characters of an error's message that a detail keeps

_BRIEF = 500
"""Characters up to which a guardrail that reads no more than the text runs on the event loop: well under a
millisecond."""

Member = TypeVar("Member", bound=StrEnum)

_LOG = logging.getLogger("turnwise.guard")

_MOST_SECONDS = 600.0

_ON_ERROR_BY_ACTION = {
    Action.BLOCK: OnError.BLOCK,
    Action.REDACT: OnError.BLOCK,
    Action.WARN: OnError.WARN,
    Action.LOG: OnError.ALLOW,
}


@dataclass(frozen=True, slots=True)
class Step:
    """A guardrail with the settings that every guardrail has; `Step.of` fills in what is not given.

    One that is not `enabled` is told as skipped, and one that `logs` only tells what it would have done. The other
    fields are as for `Step.of`; its name is unique in its pipeline.

    Raises:
        GuardError: a value out of range; a guardrail that can't redact is asked to; one is to look at texts that
            it can't read; or one that remembers what it checked is asked several times about a text.
    """

    guardrail: Guardrail
    name: str
    enabled: bool
    on: tuple[On, ...]
    action: Action
    on_error: OnError
    timeout: float | None
    stream_every: int | None = None
    logs: bool = False
    _workers: TimedThreads[Finding] = field(default_factory=TimedThreads, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.action is Action.REDACT and not self.guardrail.redacts:
            raise GuardError(f"{self.name}: action is redact, but this guardrail can't; use block, warn or log")
        if self.timeout is not None and not 0.0 < self.timeout <= _MOST_SECONDS:
            raise _no_time(self.name, self.timeout)
        if not self.on:
            raise GuardError(f"{self.name}: on is empty; use one of {', '.join(On)}, or a list of them")
        beyond = kinds_on(self.on) - kinds_on(self.guardrail.reads)
        if beyond:
            raise GuardError(
                f"{self.name}: on names {', '.join(sorted(beyond))}, which this guardrail does not read; use "
                f"{', '.join(sorted(kinds_on(self.guardrail.reads)))}"
            )
        every = self.stream_every
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise GuardError(f"{self.name}: stream_every is {every!r}; use a number of characters from 1, or null")
        if every is not None and self.guardrail.remembers:
            raise GuardError(f"{self.name}: this guardrail is asked once about a text; leave stream_every out")

    @classmethod
    def of(
        cls,
        guardrail: Guardrail,
        name: str,
        *,
        enabled: bool = True,
        on: str | Iterable[str] | None = None,
        action: str | None = None,
        on_error: str | None = None,
        timeout: float | str | None = DEFAULT,
        stream_every: int | None = None,
    ) -> Step:
        """Return a step whose settings that were not given are those of the guardrail.

        Args:
            guardrail: the guardrail.
            name: how results name it; by default its own name.
            enabled: whether it runs.
            on: names of `On`, one or several; None for the guardrail's default.
            action: the strictest action that it may take: ``block``, ``redact``, ``warn`` or ``log``; None for the
                guardrail's default.
            on_error: ``block``, ``warn`` or ``allow``. None for: block where it may block or redact, warn where it
                may warn, allow where it only logs.
            timeout: seconds, above 0 and at most 600, or None for no limit; ``default`` is 10 for your own and
                ``presidio``, 15 for ``openai_moderation``, 30 for language models, and else none.
            stream_every: characters of a response that comes in pieces after which it is asked about all that came
                so far, again and again, at least 1; None for at its end alone.

        Raises:
            GuardError: no guardrail, or a value that can't be.
        """
        if not isinstance(guardrail, Guardrail):
            raise GuardError(
                f"{name}: a guardrail must be a subclass of Guardrail, not {type(guardrail).__name__}"
            )
        strictest = _member(name, "action", Action, action or guardrail.default_action)
        limit = timeout
        if timeout == DEFAULT:
            limit = guardrail.default_timeout
            if limit is None and guardrail.waits:
                limit = WAITING_SECONDS
        if isinstance(limit, bool | str):
            raise _no_time(name, limit)
        return cls(
            guardrail=guardrail,
            name=name,
            enabled=enabled,
            on=_names(name, guardrail.default_on if on is None else on),
            action=strictest,
            on_error=_member(name, "on_error", OnError, on_error or _ON_ERROR_BY_ACTION[strictest]),
            timeout=limit,
            stream_every=stream_every,
        )

    @property
    def cost(self) -> Cost:
        """How costly it is: the cheaper ones run first."""
        rail = self.guardrail
        return Cost.REMOTE if rail.waits and rail.default_timeout is None else rail.cost

    def looks_at(self, kind: TextKind) -> bool:
        """Return whether it looks at texts of that kind."""
        return kind in kinds_on(self.on)

    def run(self, check: Check) -> Detail:
        """Return the guardrail's result; this always ends and returns."""
        start = perf_counter()
        try:
            if self.timeout is None:
                finding = self.guardrail.check(check)
            else:
                finding = self._workers.run(lambda: self._ask(check), self.timeout, check.deadline)
            # Two digits, which is as far as a time can be trusted.
            seconds = float(f"{perf_counter() - start:.1e}")
            clean = _clean_details().get(seconds) if finding is CLEAN else None
            return self._judged(finding, check, seconds) if clean is None else clean
        except (Exception, WorkStopped) as error:  # noqa: BLE001 - a guardrail may raise anything, and the check must go on
            return self._failed_or_stopped(error, check, perf_counter() - start)

    async def arun(self, check: Check) -> Detail:
        """Return the guardrail's result, as `run`, without blocking the event loop."""
        start = perf_counter()
        left = inf if check.deadline is None else check.deadline.left
        acheck = getattr(self.guardrail, "acheck", None)
        try:
            if acheck is not None:
                finding = await in_time(acheck(check), min(left, self.timeout or inf))
            elif self.timeout is not None:
                finding = await self._workers.arun(lambda: self._ask(check), min(left, self.timeout))
            elif self.guardrail.waits:
                finding = await in_time(asyncio.to_thread(self._ask, check), left)
            elif self.cost <= Cost.TEXT and len(check.text) <= _BRIEF:
                finding = self.guardrail.check(check)
            else:
                finding = await compute(lambda: self._ask(check), len(check.text))
            return self._judged(finding, check, float(f"{perf_counter() - start:.1e}"))
        except (Exception, WorkStopped) as error:  # noqa: BLE001 - as in run
            return self._failed_or_stopped(error, check, perf_counter() - start)

    def _ask(self, check: Check) -> Finding:
        """Ask the guardrail in another thread, where it can end early once the check or its own time is over."""
        with within(Deadline(self.timeout, check.deadline)):
            return self.guardrail.check(check)

    def _failed_or_stopped(self, error: BaseException, check: Check, seconds: float) -> Detail:
        """What is told of the guardrail's own failure; raises `WorkStopped` if the check of the text must end."""
        if check.deadline is not None:
            check.deadline.check()
        return self.failed(error, seconds)

    @property
    def takes_note(self) -> bool:
        """Whether the guardrail has a `Guardrail.note` of its own."""
        return type(self.guardrail).note is not Guardrail.note

    def note(self, check: Check) -> None:
        """Let the guardrail take note of all results; the text has its verdict, so a failure is only logged."""
        try:
            self.guardrail.note(check, check.said)
        except Exception as error:  # noqa: BLE001 - as in run
            _LOG.warning("not noted: guardrail=%s error=%s", self.name, type(error).__name__)

    def failed(self, error: BaseException | str, seconds: float = 0.0) -> Detail:
        """Return the result of a check that failed, by ``on_error``."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        detail = failure(self.on_error, reason, seconds)
        return logged(detail) if self.logs else detail

    def _judged(self, finding: object, check: Check, seconds: float) -> Detail:
        if not isinstance(finding, Finding):
            raise GuardError(f"the guardrail returned {type(finding).__name__}, not a Finding")
        check.stance = finding.stance or check.stance
        data = finding.data
        if data is not None and not isinstance(data, DriftData):
            data = as_json(data)
        status = GuardrailStatus.EVALUATED if finding.unread is None else GuardrailStatus.NOT_READ
        if not finding.found:
            confidence = round(float(finding.confidence), 2)
            reason = "" if finding.unread is None else str(finding.reason)
            return Detail(status, confidence=confidence, reason=reason, seconds=seconds, data=data)
        check_redactions(finding, check.text)
        action = self.action
        if finding.action is not None:
            action = milder(action, finding.action)
        if action is Action.REDACT and not finding.redactions:
            action = Action.WARN
        if action is Action.REDACT and not self.logs:
            check.redact_before += finding.earlier
        detail = Detail(
            status=status,
            blocked=action is Action.BLOCK,
            found=True,
            action=action,
            confidence=float(finding.confidence),
            reason=str(finding.reason),
            redactions=finding.redactions if action is Action.REDACT else (),
            seconds=seconds,
            data=data,
        )
        return logged(detail) if self.logs else detail


def failure(on_error: OnError, reason: str, seconds: float = 0.0) -> Detail:
    """What is told of a text, or a part of it, that could not be checked.

    >>> failure(OnError.WARN, "no answer").reason
    'failed: no answer'
    """
    closed = on_error is OnError.BLOCK
    return Detail(
        status=GuardrailStatus.FAILED,
        blocked=closed,
        action=Action.BLOCK if closed else Action.WARN if on_error is OnError.WARN else None,
        reason=f"failed: {' '.join(reason.split())[:_REASON]}",
        seconds=float(f"{seconds:.1e}"),
        path=Path.CLOSED if closed else Path.OPEN,
    )


def logged(detail: Detail) -> Detail:
    """What is told where nothing is blocked or replaced: what would have been done, as its reason.

    >>> logged(failure(OnError.BLOCK, "no answer")).reason
    'would block: failed: no answer'
    """
    if detail.action is None or detail.action is Action.LOG:
        return detail
    reason, path = f"would {detail.action}: {detail.reason}", detail.path and Path.OPEN
    return replace(detail, blocked=False, action=Action.LOG, redactions=(), reason=reason, path=path)


@cache
def _clean_details() -> dict[float, Detail]:
    """Details of clean checks by their seconds, up to 10, so that the many equal ones are one object."""
    times = [float(f"{digits / 10}e{power}") for power in range(-7, 1) for digits in range(10, 100)]
    return {seconds: Detail(GuardrailStatus.EVALUATED, seconds=seconds) for seconds in times}


def check_redactions(finding: Finding, text: str) -> None:
    """Refuse redactions that are out of order, overlap, or go beyond the text."""
    end = 0
    for redaction in finding.redactions:
        if not end <= redaction.start < redaction.end <= len(text):
            raise GuardError(
                f"redaction {redaction.start}:{redaction.end} of a text of {len(text)} characters: redactions "
                "must be in order, must not overlap, and must lie within the text"
            )
        end = redaction.end


def redacted(text: str, detail: Detail) -> str:
    """A text with what a guardrail replaces in it.

    >>> from turnwise.guard.finding import Redaction
    >>> redacted("I am Ann.", Detail(GuardrailStatus.EVALUATED, redactions=(Redaction(5, 8, "name"),)))
    'I am [NAME].'
    """
    parts, end = [], 0
    for redaction in detail.redactions:
        parts += [text[end : redaction.start], redaction.placeholder]
        end = redaction.end
    return "".join([*parts, text[end:]])


def _no_time(name: str, given: object) -> GuardError:
    return GuardError(f"{name}: timeout is {given!r}; use seconds above 0, at most {_MOST_SECONDS:g}, or null")


def _member(name: str, setting: str, kind: type[Member], value: str) -> Member:
    try:
        return kind(value)
    except ValueError:
        raise GuardError(f"{name}: {setting} is {value!r}; use one of {', '.join(kind)}") from None


def _names(name: str, on: str | Iterable[str]) -> tuple[On, ...]:
    given = (on,) if isinstance(on, str) else tuple(on)
    return tuple(_member(name, "on", On, one) for one in given)


CheckRun = Generator[tuple[Step, Check], Detail, PipelineResult]
"""A check under way, which returns the result: one that is awaited yields each step and is sent what it said."""

Value = TypeVar("Value")


def finish(run: Generator[tuple[Step, Check], Detail, Value]) -> Value:
    """Run a check to its end in this thread, and return the result."""
    try:
        next(run)
    except StopIteration as end:
        value: Value = end.value
        return value
    raise GuardError("a check that runs in place has nothing to wait for")


async def afinish(run: Generator[tuple[Step, Check], Detail, Value]) -> Value:
    """Run a check to its end without blocking the event loop, and return the result; see `finish`."""
    check = None
    try:
        step, check = next(run)
        while True:
            try:
                said = await step.arun(check)
            except WorkStopped as stopped:
                step, check = run.throw(stopped)
            else:
                step, check = run.send(said)
    except StopIteration as end:
        value: Value = end.value
        return value
    except BaseException:
        # What still computes in a thread ends at its next step.
        if isinstance(check, Check) and check.deadline is not None:
            check.deadline.cancel(NOBODY_WAITS)
        raise
    finally:
        run.close()


TURN_SECONDS: Final = 60.0  # how long a check waits for another one of its conversation in this process

_POLL_SECONDS: Final = 0.002


def entered(lock: Lock, *, here: bool) -> Generator[Any, Any, bool]:
    """Wait until no other check of a conversation is under way; returns whether the lock was taken in time."""
    if here:
        return lock.acquire(timeout=TURN_SECONDS)
    taken: bool = yield _AwaitableLock(lock), None
    return taken


def done(call: Callable[[], Value], *, here: bool) -> Generator[Any, Any, Value]:
    """Call something here, or yield it to be called elsewhere; returns what the call returns."""
    if here:
        return call()
    value, error = yield _ThreadCall(call), None
    if error is not None:
        raise error
    result: Value = value
    return result


class _AwaitableLock:
    """An awaitable lock, yielded like a step."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    async def arun(self, _: object) -> bool:
        for _ in range(int(TURN_SECONDS / _POLL_SECONDS)):
            if self._lock.acquire(blocking=False):
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False


class _ThreadCall:
    """A call in a thread, so that the event loop does not wait for it, yielded like a step."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    async def arun(self, _: object) -> tuple[object, Exception | None]:
        try:
            return await asyncio.to_thread(self._call), None
        except Exception as error:  # noqa: BLE001 - it is raised where the call belongs
            return None, error
