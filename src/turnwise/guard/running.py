"""One check: guardrails run over a text and the names that come with it, and what they say is kept."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from time import perf_counter
from typing import Any, Final

from turnwise.conversation import Conversation, Side, ToolCall, Turn
from turnwise.conversation.tool_log import CALLS, RESULTS
from turnwise.conversation.turn import GUARD_KEY
from turnwise.deadline import Deadline, WorkStopped, current_deadline, within
from turnwise.guard.audit.record import AuditEvent, pseudonym
from turnwise.guard.finding import CONTEXT, Action, OnError, Redaction, TextKind
from turnwise.guard.guardrail import Check, ToolText
from turnwise.guard.names import as_text, is_ordinary
from turnwise.guard.rate_limits import CONVERSATION, Refusal, note_refusal
from turnwise.guard.recognisers.earlier_texts import drop_texts
from turnwise.guard.results import Correction, Detail, GuardrailStatus, Outcome, PipelineResult
from turnwise.guard.setup import Mode, Setup
from turnwise.guard.state.conversations import forgotten_at
from turnwise.guard.step import (
    CANCELLED,
    DROPPED,
    FORGED,
    NAMES,
    NOBODY_WAITS,
    STATE,
    TIMED_OUT,
    TOO_LONG,
    UNREAD,
    CheckRun,
    Step,
    done,
    failure,
    redacted,
)
from turnwise.guard.tool_texts import Arguments, note_seen, replace_context
from turnwise.guard.turn_checks import TextCheck, TurnChecks, with_check
from turnwise.sessions import Stance

_LONGEST: Final = 1_000  # characters of a name at most; providers take 64
_HELD: Final = 10_000  # names that are known to be clean, at most


def check_names(
    setup: Setup, check: Check, names: Iterable[str], *, here: bool
) -> Generator[tuple[Step, Check], Detail, dict[str, Detail]]:
    """What guardrails with `Guardrail.reads_names` say of the names of a text; nothing of clean ones."""
    sides = (check.conversation.initiator, check.conversation.responder)
    others = names if check.tool is None else (check.tool.name, *names)
    found: list[Detail | None] = []
    for some, of_side in ((sides, True), (others, False)):
        for name in some:
            if name not in setup.clean_names:
                found.append((yield from _found(setup, check, name, of_side=of_side, here=here)))
    told = sorted(filter(None, found), key=lambda one: (one.blocked, one.warned, one.confidence))
    return {NAMES: told[-1]} if told else {}


def _found(
    setup: Setup, check: Check, name: str, *, of_side: bool, here: bool
) -> Generator[tuple[Step, Check], Detail, Detail | None]:
    """The gravest thing that guardrails say of a name; a clean name is remembered while they stay the same."""
    if len(name) > _LONGEST:
        reason = f"a name of {len(name):,} characters; at most {_LONGEST:,} are read"
        return Detail(GuardrailStatus.EVALUATED, True, True, Action.BLOCK, 1.0, reason)
    gravest = None
    read = Check(as_text(name), Side.PROMPT, check.turn, check.conversation, check.session_id, alone=True)
    for step in () if is_ordinary(name) else setup.steps:
        looks = step.looks_at(TextKind.INPUT) or step.looks_at(TextKind.TOOL_RESULT)
        # Names of the two sides are sent to no model, so nothing has to be redacted there.
        if not (step.enabled and looks and step.guardrail.reads_names) or (of_side and step.guardrail.redacts):
            continue
        detail = step.run(read) if here else (yield step, read)
        if detail.action is None and detail.path is None:
            continue
        # A name can't be replaced without losing what it refers to.
        blocked = detail.blocked or detail.action is Action.REDACT
        action, reason = Action.BLOCK if blocked else detail.action, f"in a name: {step.name}: {detail.reason}"
        if gravest is None or blocked:
            gravest = replace(detail, blocked=blocked, action=action, reason=reason, redactions=(), data=None)
    if gravest is None:
        if len(setup.clean_names) >= _HELD:
            setup.clean_names.clear()
        setup.clean_names.add(name)
    return gravest


RATE_LIMIT = "rate_limit"  # name under which results tell of a rate limit

_SECTIONS: Final = {
    TextKind.TOOL_CALL: CALLS,
    TextKind.TOOL_RESULT: RESULTS,
    **{kind: str(kind) for kind in CONTEXT},
}
"""Where the checks of such texts stand in what is kept of a turn."""

_FORGED_ACTIONS: Final = {OnError.BLOCK: Action.BLOCK, OnError.WARN: Action.WARN, OnError.ALLOW: Action.LOG}

_LOG: Final = logging.getLogger("turnwise.guard")
"""A block is told at the level INFO, a guardrail that failed at WARNING."""

_NOT_ENABLED = Detail(GuardrailStatus.SKIPPED, reason="not enabled")
_UNREAD_LENGTH = Detail(GuardrailStatus.SKIPPED, reason="the text is too long")
_NO_TIME = Detail(GuardrailStatus.SKIPPED, reason="the time of the text was up")
_NOT_WANTED = Detail(GuardrailStatus.SKIPPED, reason="the check was cancelled")
_NOT_KEPT = Detail(GuardrailStatus.SKIPPED, reason="the state store can't be used")
_BROKEN_OFF = Detail(GuardrailStatus.SKIPPED, reason="the response broke off")


def run_check(
    setup: Setup,
    check: Check,
    unread: str,
    start: float,
    *,
    here: bool,
    known: tuple[str, Detail] | None = None,
    trouble: Detail | None = None,
    forged: str = "",
    names: Iterable[str] = (),
) -> CheckRun:
    """Run the guardrails of a text in order: `here`, or by yielding each step to whoever awaits it."""
    content, steps, check.person = check.text, setup.by_kind[check.kind], setup.person
    details: list[Detail] = []
    check.deadline = deadline = Deadline(setup.config.max_seconds, current_deadline())
    extra = yield from _beside(setup, check, unread, forged, names, here=here)
    held = _held(setup, check, trouble, extra)
    blocker: Step | None = None
    try:
        with within(deadline if here else None):  # what is awaited runs in threads, each within it
            for step in steps:
                if not step.enabled:
                    detail = _NOT_ENABLED
                elif held is not None:
                    detail = held
                elif known is not None and known[0] == step.name:
                    detail = known[1]
                elif blocker is not None and setup.spares(step, blocker):
                    detail = Detail(GuardrailStatus.SKIPPED, reason=f"{blocker.name} blocked already")
                else:
                    try:
                        deadline.check()
                        detail = step.run(check) if here else (yield step, check)
                    except WorkStopped as stopped:
                        if stopped.cancelled:
                            raise
                        detail = held = _NO_TIME
                        left = ", ".join(one.name for one in steps[len(details) :] if one.enabled)
                        told = failure(setup.config.on_timeout, f"{stopped.reason}; not checked by {left}")
                        extra[TIMED_OUT] = setup.told(told)
                details.append(detail)
                check.said[step.name] = detail
                check.against |= detail.blocked and detail.found and step.guardrail.counts_against
                if detail.blocked and not detail.asks and blocker is None:
                    blocker = step  # a user who approves must know what the others say
                if detail.redactions:
                    check.text = redacted(check.text, detail)
    except BaseException as ended:
        # Nobody waits for the result any more, but the turn stays and must not pass for clean.
        deadline.cancel(NOBODY_WAITS)
        details += [_NOT_WANTED if step.enabled else _NOT_ENABLED for step in steps[len(details) :]]
        why = ended.reason if isinstance(ended, WorkStopped) else NOBODY_WAITS
        outcome = why if isinstance(why, Outcome) else Outcome.CANCELLED
        extra[CANCELLED] = replace(failure(OnError.BLOCK, why), data={"outcome": str(outcome)})
        result = conclude(setup, check, content, details, extra, start, blocked=True)
        if check.state is not None:
            tell(setup, result, check.session_id, check.conversation)
        raise
    yield from _noted(steps, check, here=here)
    blocked = any(detail.blocked for detail in (*details, *extra.values()))
    return conclude(setup, check, content, details, extra, start, blocked=blocked)


def _noted(steps: Iterable[Step], check: Check, *, here: bool) -> Generator[Any, Any, None]:
    """Let guardrails that remember take note of what all said, before the result says where a session stands."""
    noting = [step for step in steps if step.enabled and step.takes_note]

    def note() -> None:
        for step in noting:
            step.note(check)

    if noting:
        yield from done(note, here=here or check.state is None)


def conclude(
    setup: Setup,
    check: Check,
    content: str,
    details: list[Detail],
    extra: Mapping[str, Detail],
    start: float,
    *,
    blocked: bool,
) -> PipelineResult:
    """Keep what was said of a text with its turn, tell log and audit of it, and return the result."""
    turn, conversation, side, tool = check.turn, check.conversation, check.side, check.tool
    if check.text != content:
        drop_texts(conversation)
    _redact_before(check)
    names = setup.names[check.kind]
    if extra:
        names, details = (*names, *extra), [*details, *extra.values()]
    record = _record(setup, check, names, details, blocked=blocked)
    if tool is not None:
        if check.text != content:
            _replace_tool_text(check, tool, () if TOO_LONG in extra else details)
        elif tool.arguments is not None:
            check.text = tool.arguments.raw
        if tool.digest and not blocked:
            note_seen(conversation, tool.name, tool.digest)
        section = _SECTIONS[tool.kind]
    else:
        section = ""
        if check.text != content:
            conversation.history.replace_text(turn.number, side, check.text)
        if blocked and side is Side.PROMPT:
            conversation.history.withdraw(turn.number)
    change = partial(with_check, turn.number, record, section)
    conversation.history.annotate(
        turn.number, GUARD_KEY, change, release=side if tool is None else (section, tool.call_id)
    )
    result = record.result(conversation.conversation_id, turn.number, check.text, perf_counter() - start)
    _log(result.conversation_id, turn.number, record.pipeline_type, result.details.items())
    if check.state is None:  # with a store it is told once it is kept
        tell(setup, result, check.session_id, conversation)
        tell_corrections(setup, check)
    return result


def _record(
    setup: Setup, check: Check, names: Iterable[str], verdicts: Iterable[Detail], *, blocked: bool
) -> TextCheck:
    tool = check.tool
    return TextCheck(
        pipeline_type=check.kind,
        timestamp=setup.clock(),
        blocked=blocked,
        names=tuple(names),
        verdicts=tuple(verdicts),
        stance=_same_stance(check.stance, check.turn),
        tool=None if tool is None else tool.name,
        call_id=None if tool is None else tool.call_id,
    )


def refused(
    setup: Setup,
    content: str,
    conversation: Conversation,
    refusal: Refusal | None,
    session_id: str,
    seconds: float,
) -> PipelineResult:
    """Note a prompt that a rate limit refused, and return its result."""
    limits = conversation.limits.to_dict() or {}
    own = ", ".join(f"{most} {window.replace('_', ' ')}" for window, most in limits.items())
    reason = refusal.reason if refusal else f"more than {own} in this conversation"
    scope = refusal.scope if refusal else CONVERSATION
    wait = refusal.retry_after if refusal else conversation.limits.wait()
    note_refusal(
        conversation,
        scope=scope,
        reason=reason,
        text_sha256=sha256(content.encode()).hexdigest(),
        now=setup.clock(),
        retry_after=wait,
    )
    result = PipelineResult(
        blocked=True,
        warnings=[],
        reasons=[f"{RATE_LIMIT}: {reason}"],
        details={
            RATE_LIMIT: Detail(GuardrailStatus.EVALUATED, blocked=True, found=True, confidence=1.0, reason=reason)
        },
        pipeline_type=TextKind.INPUT,
        conversation_id=conversation.conversation_id,
        turn_number=None,
        stance=None,
        text=content,
        rate_limited=True,
        seconds=seconds,
        retry_after=wait,
    )
    _log(result.conversation_id, None, TextKind.INPUT, result.details.items())
    tell(setup, result, session_id, conversation)
    return result


def tell(setup: Setup, result: PipelineResult, session_id: str, conversation: Conversation) -> None:
    """Write a check to the audit, where there is one."""
    if setup.audit is not None:
        event = AuditEvent.of(result, session_id, conversation, setup.config.name, setup.clock(), setup.tenant)
        setup.audit.write(event)


def tell_corrections(setup: Setup, check: Check) -> None:
    """Let guardrails go on with what they do after a check, and hear their corrections of it."""
    for begin in check.afterwards:
        begin(partial(_corrected, setup, check.conversation, setup.clock()))


def _corrected(setup: Setup, conversation: Conversation, since: datetime, correction: Correction) -> None:
    forgotten = forgotten_at(setup.forgotten, conversation)
    if forgotten is not None and forgotten >= since:
        return
    if setup.audit is not None:
        event = AuditEvent.of_correction(correction, conversation, setup.config.name, setup.clock(), setup.tenant)
        setup.audit.write(event)
    if setup.on_correction is not None:
        setup.on_correction(correction)


def _log(conversation_id: str, turn: int | None, kind: TextKind, said: Iterable[tuple[str, Detail]]) -> None:
    """Log a line for each guardrail that blocked a text or failed to check it, with nothing of any text."""
    for name, detail in said:
        failed = detail.status is GuardrailStatus.FAILED
        if failed or detail.blocked:
            _LOG.log(
                logging.WARNING if failed else logging.INFO,
                "%s: conversation=%s turn=%s kind=%s guardrail=%s action=%s",
                "failed" if failed else "blocked",
                pseudonym(conversation_id),  # a hash, as the audit writes a private name
                "none" if turn is None else turn,  # a rate limit refused the prompt
                kind,
                name,
                "block" if detail.blocked else detail.action or "allow",
            )


def broken_off(setup: Setup, check: Check, start: float, why: Outcome, trouble: Detail | None = None) -> CheckRun:
    """Record a response that came in pieces and broke off; no guardrail is asked."""
    yield from ()
    details = [_BROKEN_OFF if step.enabled else _NOT_ENABLED for step in setup.by_kind[TextKind.OUTPUT]]
    told = "" if why is Outcome.BROKEN_OFF else f": {why}"
    dropped = failure(OnError.BLOCK, f"the response broke off before its end{told}")
    extra = {DROPPED: replace(dropped, data={"outcome": str(why)})}
    if trouble is not None:
        extra[STATE] = trouble
    return conclude(setup, check, check.text, details, extra, start, blocked=True)


def amended(setup: Setup, result: PipelineResult, check: Check, trouble: Detail) -> PipelineResult:
    """Amend a result, and what its turn keeps of it, after its state could not be kept."""
    trouble = setup.told(trouble)
    details = {**result.details, STATE: trouble}
    blocked = result.blocked or trouble.blocked
    record = _record(setup, check, details, details.values(), blocked=blocked)
    number = check.turn.number
    if blocked and check.side is Side.PROMPT and check.tool is None:
        check.conversation.history.withdraw(number)
    section = "" if check.tool is None else _SECTIONS[check.tool.kind]
    check.conversation.history.annotate(number, GUARD_KEY, partial(with_check, number, record, section))
    _log(result.conversation_id, number, result.pipeline_type, [(STATE, trouble)])
    return result.replaced(blocked=blocked, details=details, warnings=record.warnings, reasons=record.reasons)


def _held(setup: Setup, check: Check, trouble: Detail | None, extra: dict[str, Detail]) -> Detail | None:
    """Why no guardrail is asked about a text, also noted in `extra`; None where they are asked."""
    held, most, length = None, setup.config.max_characters, len(check.text)
    if length > most and setup.mode is not Mode.OFF:
        reason = f"{length:,} characters, at most {most:,} are checked; what is beyond is not kept"
        extra[TOO_LONG] = setup.told(Detail(GuardrailStatus.EVALUATED, True, True, Action.BLOCK, 1.0, reason))
        check.text = check.text[:most] if extra[TOO_LONG].blocked else check.text
        held = _UNREAD_LENGTH
    if trouble is not None:
        extra[STATE] = trouble = setup.told(trouble)
        held = _NOT_KEPT if trouble.blocked else held
    return held


def _beside(
    setup: Setup, check: Check, unread: str, forged: str, names: Iterable[str], *, here: bool
) -> Generator[tuple[Step, Check], Detail, dict[str, Detail]]:
    """What is told beside the guardrails: of names, of what nobody read, and of what the model never said."""
    sides = check.turn.participants
    plain = sides is not None and setup.clean_names.issuperset((sides.initiator, sides.responder))
    extra: dict[str, Detail] = {}
    if names or check.tool is not None or not plain:
        extra = yield from check_names(setup, check, names, here=here)
    if unread:
        extra[UNREAD] = failure(setup.config.on_unread, unread)
    if forged and setup.mode is not Mode.OFF:
        action = _FORGED_ACTIONS[setup.config.on_forged]
        extra[FORGED] = Detail(GuardrailStatus.EVALUATED, action is Action.BLOCK, True, action, 1.0, forged)
    return {name: setup.told(detail) for name, detail in extra.items()}


def _replace_tool_text(check: Check, tool: ToolText, details: Iterable[Detail]) -> None:
    """Write such a text back with what was replaced in it; of a call, the text of the check becomes that."""
    if tool.kind in CONTEXT:
        replace_context(check.turn, tool.call_id, check.text)
        return
    if tool.arguments is not None:
        redactions = [detail.redactions for detail in details if detail.redactions]
        check.text = tool.arguments.redacted(redactions) if redactions else check.text
    number, section = check.turn.number, _SECTIONS[tool.kind]
    check.conversation.tools.replace_text(number, section, tool.call_id, check.text)


def _redact_before(check: Check) -> None:
    """Replace what a check found in texts before its own; a text that changed since is left alone."""
    if not check.redact_before:
        return
    conversation = check.conversation
    places: dict[tuple[int, TextKind, str | None, str], set[Redaction]] = {}
    for part in check.redact_before:
        places.setdefault((part.turn, part.text_kind, part.call_id, part.text), set()).add(part.redaction)
    with conversation.history.lock:
        for (number, kind, call_id, text), found in places.items():
            apart: list[Redaction] = []
            for one in sorted(found, key=lambda one: (one.start, -one.end)):
                if not apart or one.start >= apart[-1].end:
                    apart.append(one)
            instead = redacted(text, Detail(GuardrailStatus.EVALUATED, redactions=tuple(apart)))
            turn = conversation.turn(number)
            before = turn.prompt, turn.response, deepcopy(turn.own_metadata)
            if kind in (TextKind.INPUT, TextKind.OUTPUT):
                side = Side.PROMPT if kind is TextKind.INPUT else Side.RESPONSE
                if turn.text(side) != text:
                    continue
                conversation.history.replace_text(number, side, instead)
            else:
                steps = turn.tool_calls if kind is TextKind.TOOL_CALL else turn.tool_results
                step = next((one for one in steps if one.call_id == call_id), None)
                if isinstance(step, ToolCall):
                    arguments = Arguments(step.arguments)
                    if arguments.text != text:
                        continue
                    instead = arguments.redacted([apart])
                elif step is None or step.content != text:
                    continue
                conversation.tools.replace_text(number, _SECTIONS[kind], step.call_id, instead)
            if check.state is not None and number != check.turn.number:
                check.state.turns.add(number)
                check.state.undo.append(partial(_put_back, turn, *before))


def _put_back(turn: Turn, prompt: str, response: str | None, metadata: dict[str, Any]) -> None:
    """Undo what a check made of an earlier turn, where it is done again."""
    turn.prompt, turn.response = prompt, response
    turn.own_metadata.clear()
    turn.own_metadata.update(metadata)


def _same_stance(stance: Stance | None, turn: Turn) -> Stance | Mapping[str, Any] | None:
    """A stance, or the equal one that the turn keeps already, as the same object."""
    before = turn.checks
    kept = before.input.stance if isinstance(before, TurnChecks) and before.input is not None else None
    return kept if kept == stance else stance
