"""The conformance kit: checks what every observer has to keep, whoever wrote it."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    Given,
    HasStages,
    KeepsReplies,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObservesMany,
    Request,
)
from turnwise.plugins import factory_of
from turnwise.principles import Principle, builtin_principles
from turnwise.scoring import MemoryJournal

THREADS = 8
"""Conversations that are scored at the same time."""

WINDOW = 2
"""Turns of the window that the kit looks through."""

CLOSE = 1e-6
"""How near scores of many conversations at once come to those of turn by turn."""

_CONTEXTS = tuple(Context(mode, WINDOW if mode is ContextMode.WINDOW else None) for mode in ContextMode)
_Outcomes = dict[tuple[int, str, Side], Any]

_OWN = Principle(
    name="plain_speech",
    version="1",
    summary="Things are called by their names.",
    truth="How far things are called by their names.\n0: nowhere.\n0.5: in part.\n1: throughout.",
    indeterminacy="How far it can't be told.\n0: it can.\n0.5: in part.\n1: not at all.",
    falsity="How far words hide what is meant.\n0: nowhere.\n0.5: in part.\n1: throughout.",
    prompt="You are a neutral third party. Are things called by their names?",
)


def check_observer(observer: Observer | Callable[[], Observer], *, repeatable: bool | None = None) -> None:
    """Check that an observer keeps the contract of `turnwise.observers.Observer`.

    A package that brings an observer calls this in its tests. The kit feeds it small conversations, the same ones
    each time: both sides, user text only, empty and long and odd texts. The observer may leave a score out, or
    fail to give it; a score that depends on anything that it must not depend on breaks the contract.

    Args:
        observer: the observer, or what makes one without arguments, such as its class. An observer that asks a
            service is given a double of it here.
        repeatable: whether the same input gives the same score; what the observer says of itself where None.
            Without it most of the contract can't be checked.

    Raises:
        AssertionError: the observer breaks the contract; the message says how.

    >>> from turnwise.observers.scripted import ScriptedObserver
    >>> check_observer(lambda: ScriptedObserver("0.1,0.4,0.9"))
    """
    factory = factory_of(observer, "observe")
    made: Observer = factory()
    _check_info(made, factory())
    repeats = made.info.deterministic if repeatable is None else repeatable
    for context in _contexts(made):
        for label, turns in conversations():
            where = f"{label}, context {context}"
            outcomes = _run(made, context, turns, where)
            if repeats:
                _check_repeats(factory, made, context, turns, outcomes, where)
                _check_sight(made, context, turns, outcomes, where)
        if repeats:
            _check_threads(made, context)
            if isinstance(made, ObservesMany) and context.mode is not ContextMode.TRANSCRIPT:
                _check_many(made, context)
    _check_unsupported(made)
    if isinstance(made, KeepsReplies):
        _check_journal(factory, repeats=repeats)


def conversations() -> Iterator[tuple[str, tuple[Turn, ...]]]:
    """The kit's conversations, each with a name for messages; always the same ones."""
    yield "one turn", (Turn(1, "What is the tallest mountain?", "Mount Everest."),)
    yield (
        "five turns",
        tuple(Turn(number, f"Question {number} about maps", f"Answer {number}") for number in range(1, 6)),
    )
    yield "user text only", tuple(Turn(number, f"Line {number} of a story", None) for number in range(1, 5))
    yield "the responder speaks first", (Turn(1, "", "Hello, what can I do?"), Turn(2, "Tell me a joke", "No."))
    yield "nobody says anything", (Turn(1, "", None), Turn(2, " \n", ""))
    yield "a long turn", (Turn(1, "word " * 1_200, "ok"), Turn(2, "and now?", None))
    odd = 'tabs\t\r\nzero\u200bwidth \u202eright to left\u2028line\x00null {"T": 1} </s> 日本語 👩‍🚀'
    yield "odd characters", (Turn(1, odd, odd), Turn(2, odd[::-1], None))


def _check_info(observer: Observer, other: Observer) -> None:
    info = observer.info
    for name in ("name", "version", "summary"):
        _demand(bool(getattr(info, name)), "info", f"{name} is empty")
    _demand(bool(info.contexts), "info", "it supports no context mode")
    _demand(info == observer.info == other.info, "info", "it differs from one look, or one observer, to the next")
    try:
        back = json.loads(json.dumps(dict(observer.parameters), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"parameters: they are no JSON: {error}") from error
    _demand(back == dict(observer.parameters), "parameters", "they do not survive JSON")
    _demand(observer.parameters == other.parameters, "parameters", "they differ from one observer to the next")


def _check_repeats(
    factory: Callable[[], Observer],
    observer: Observer,
    context: Context,
    turns: Sequence[Turn],
    outcomes: _Outcomes,
    where: str,
) -> None:
    """Ways of scoring the same conversation that must not make a difference."""
    again = _run(observer, context, turns, where)
    _demand(again == outcomes, where, "a second time gives other scores: it remembers earlier conversations")
    other = _run(factory(), context, turns, where)
    _demand(other == outcomes, where, "a second observer gives other scores")
    backwards = _run(observer, context, turns, where, requests=tuple(reversed(_requests())))
    _demand(backwards == outcomes, where, "another order of what is wanted gives other scores")
    for number in _scored(context, turns):
        alone = _run(observer, context, turns[:number], where, only=number)
        wanted = {key: score for key, score in outcomes.items() if key[0] == number}
        _demand(
            alone == wanted,
            where,
            f"turn {number} gets another score where none was wanted of earlier turns, as when a run resumes",
        )


def _check_sight(
    observer: Observer, context: Context, turns: Sequence[Turn], outcomes: _Outcomes, where: str
) -> None:
    """Scores depend on nothing that the context mode hides, or that is said later."""
    last = len(turns)
    said = [replace(turn, response=f"{turn.response or ''} said otherwise") for turn in turns]
    for number in _scored(context, turns):
        changed = _run(observer, context, [*turns[: number - 1], said[number - 1]], where, only=number)
        before = {key: score for key, score in outcomes.items() if key[0] == number and key[2] is Side.PROMPT}
        after = {key: score for key, score in changed.items() if key[2] is Side.PROMPT}
        _demand(before == after, where, f"the score of prompt {number} hangs on the response that follows it")
    hidden = {ContextMode.TURN: last - 1, ContextMode.WINDOW: last - (context.size or 0)}.get(context.mode, 0)
    if hidden <= 0:
        return
    others = [Turn(turn.number, f"quite another {turn.number}", "text") for turn in turns[:hidden]]
    changed = _run(observer, context, [*others, *turns[hidden:]], where, only=last)
    seen = {key: score for key, score in outcomes.items() if key[0] == last}
    _demand(changed == seen, where, f"the score of turn {last} hangs on turns that this context mode hides")


def _check_threads(observer: Observer, context: Context) -> None:
    """Conversations at the same time don't touch each other."""
    cases = [(label, turns) for label, turns in conversations() if len(turns) > 1] * 2
    alone = [_run(observer, context, turns, label) for label, turns in cases]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(lambda case: _run(observer, context, case[1], case[0]), cases))
    _demand(together == alone, f"context {context}", "conversations scored at the same time change each other")

    label, turns = cases[0]
    states = observer.start("kit", context), observer.start("other", context)
    others = tuple(Turn(turn.number, f"something else {turn.number}", None) for turn in turns)
    mixed: _Outcomes = {}
    for turn, other in zip(turns, others, strict=True):
        wanted = _requests() if turn.number in _scored(context, turns) else ()
        mixed |= _observed(observer, states[0], turn, wanted, label)
        _observed(observer, states[1], other, wanted, label)
    _demand(mixed == alone[0], f"context {context}", "two conversations by turns change each other")


def _check_many(observer: ObservesMany, context: Context) -> None:
    """Whole conversations at once get the same scores as turn by turn, whatever is beside them."""
    plain: Any = observer
    cases = [(label, turns) for label, turns in conversations()] * 2
    wanted = _requests()
    many = observer.observe_many([turns for _, turns in cases], context, wanted)
    given: dict[int, _Outcomes] = {place: {} for place in range(len(cases))}
    for place, turn, request, score in zip(
        many.conversation.tolist(), many.turn.tolist(), many.request.tolist(), many.scores.tolist(), strict=True
    ):
        given[place][turn, wanted[request].principle.name, wanted[request].side] = score
    for place, turn, failure in many.failures:
        given[place][turn, failure.principle, failure.side] = failure.reason
    for place, turn, unread in many.unread:
        given[place][turn, unread.principle, unread.side] = str(_plain(unread))
    for place, (label, turns) in enumerate(cases):
        where = f"{label}, context {context}, many at once"
        state, expected = plain.start("kit", context), _Outcomes()
        for turn in turns:
            for one in plain.observe(state, turn, _asked(turn, wanted)):
                key = turn.number, one.principle, one.side
                scored = isinstance(one, Observation)
                expected[key] = list(one.score.to_dict().values()) if scored else str(_plain(one))
        _demand(given[place].keys() == expected.keys(), where, "it scores other texts than turn by turn")
        for key, value in expected.items():
            _demand(_close(given[place][key], value), where, f"turn {key[0]} gets another score than turn by turn")


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    return all(abs(a - b) <= CLOSE for a, b in zip(one, other, strict=True))


def _check_unsupported(observer: Observer) -> None:
    for context in _CONTEXTS:
        if context.mode not in observer.info.contexts:
            try:
                observer.start("kit", context)
            except ObserverError:
                continue
            raise AssertionError(f"context {context}: it is not among those supported, but is not refused either")


def _check_journal(factory: Callable[[], Observer], *, repeats: bool) -> None:
    """Replies are kept when they come, and found again instead of being paid for twice."""
    observer = factory()
    if not isinstance(observer, KeepsReplies):
        raise AssertionError("journal: one observer of the factory keeps replies and another does not")
    context = _contexts(observer)[0]
    turns = (Turn(1, "Is it raining?", "Yes."), Turn(2, "Then I stay at home.", None))
    journal = MemoryJournal()
    first = _given(observer.with_journal(journal), context, turns)
    calls = [call for given in first if not isinstance(given, NotRead) for call in given.calls]
    paid = [call.reply for call in calls if call.reply and not call.cached]
    _demand(
        sorted(map(repr, paid)) == sorted(map(repr, journal.replies)),
        "journal",
        "the replies that were recorded are not those that the calls rest on",
    )
    for given in first:
        if isinstance(given, Observation) and not isinstance(observer, HasStages):
            _demand(bool(given.calls), "journal", "a score rests on no call, though the observer keeps replies")
    kept = len(journal.replies)
    second = _given(observer.with_journal(journal), context, turns)
    if repeats:
        scored = [given for given in first if isinstance(given, Observation)]
        _demand(
            all(call.cached for given in second if isinstance(given, Observation) for call in given.calls),
            "journal",
            "a reply that was kept is paid for again",
        )
        _demand(len(journal.replies) == kept or len(scored) < len(first), "journal", "a kept reply is kept twice")
        _demand(
            [_plain(given) for given in second] == [_plain(given) for given in first],
            "journal",
            "a kept reply gives another score",
        )


def _given(observer: Observer, context: Context, turns: Sequence[Turn]) -> list[Given]:
    state = observer.start("kit", context)
    return [given for turn in turns for given in observer.observe(state, turn, _asked(turn, _requests()))]


def _run(
    observer: Observer,
    context: Context,
    turns: Sequence[Turn],
    where: str,
    *,
    requests: Sequence[Request] | None = None,
    only: int | None = None,
) -> _Outcomes:
    state = observer.start("kit", context)
    outcomes: _Outcomes = {}
    for turn in turns:
        now = turn.number == only if only else turn.number in _scored(context, turns)
        wanted = (requests or _requests()) if now else ()
        outcomes |= _observed(observer, state, turn, wanted, where)
    return outcomes


def _observed(observer: Observer, state: Any, turn: Turn, wanted: Sequence[Request], where: str) -> _Outcomes:
    asked = _asked(turn, wanted)
    before = copy.deepcopy(turn)
    given = tuple(observer.observe(state, turn, asked))
    at = f"turn {turn.number}"
    _demand(turn == before, where, f"{at} was changed")
    outcomes: _Outcomes = {}
    for item in given:
        _demand(
            isinstance(item, Observation | ObservationFailure | NotRead),
            where,
            f"{at}: {item!r} is neither a score nor a failure, nor says that the text was not read",
        )
        key = turn.number, item.principle, item.side
        known = any((request.principle.name, request.side) == key[1:] for request in asked)
        _demand(known, where, f"{at}: a score for {item.principle}, {item.side} was not asked for")
        _demand(key not in outcomes, where, f"{at}: two scores for {item.principle}, {item.side}")
        if isinstance(item, ObservationFailure):
            _demand(bool(item.reason and item.message), where, f"{at}: a failure without reason or message")
        if isinstance(item, NotRead):
            _demand(bool(item.language), where, f"{at}: a text that was not read, without its language")
        outcomes[key] = _plain(item)
    return outcomes


def _plain(given: Given) -> object:
    """What has to be the same each time; how long it took, and what it cost, need not be."""
    if isinstance(given, Observation):
        return given.score, given.reasoning
    return ("not read", given.language) if isinstance(given, NotRead) else given.reason


def _scored(context: Context, turns: Sequence[Turn]) -> range:
    """The numbers of the turns that are scored: of a transcript only the last."""
    return range(len(turns) if context.mode is ContextMode.TRANSCRIPT else 1, len(turns) + 1)


@functools.cache
def _requests() -> tuple[Request, ...]:
    principles = (builtin_principles()[0], _OWN)
    return tuple(Request(principle, side) for principle in principles for side in Side)


def _asked(turn: Turn, wanted: Collection[Request]) -> tuple[Request, ...]:
    return tuple(request for request in wanted if turn.text(request.side) is not None)


def _contexts(observer: Observer) -> list[Context]:
    return [context for context in _CONTEXTS if context.mode in observer.info.contexts]


def _demand(kept: bool, label: str, message: str) -> None:
    """Raise unless a demand is kept; an ``assert`` would vanish under ``python -O``."""
    if not kept:
        raise AssertionError(f"{label}: {message}")
