"""What a run would take and cost: of an evaluation what it lacks, of a scan a few of its conversations."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from turnwise import conversation
from turnwise.datasets import BadRecord
from turnwise.observers import Context, CostEstimator, Request, TellsAsked, build_cost_estimator, describe_observer
from turnwise.observers.protocol import asked_together
from turnwise.observers.session import asked_of
from turnwise.principles import Principle
from turnwise.runs.parts import Part, meets, read_part
from turnwise.runs.plan import Plan, tasks_of
from turnwise.runs.scanning import ScanPlan
from turnwise.store import Store
from turnwise.store.where import parse_where

_PARTS = 8
"""Parts that the timed conversations come from."""

_CONVERSATIONS = 64
"""Conversations that are timed at most."""

_SECONDS = 10.0
"""Seconds after which no further part is scored for the forecast."""

_OVERHEAD = 0.0005
"""Seconds that reading, judging and writing a conversation takes about; benchmarks/scan.py measures it."""

_Asked = tuple[Sequence[Principle], Sequence[conversation.Turn], int, conversation.Side, Context]
"""What scores of one side rest on: the turns, which of them, and what is asked of it."""


@dataclass(frozen=True, slots=True)
class CostForecast:
    """What a language model would be asked for some scores, and what that would cost.

    Args:
        scores: how many scores.
        calls: requests that would be sent if none has to be sent again.
        cached: requests that are answered by replies that are kept already, or by others of these calls.
        prompt_tokens: tokens to send, about.
        completion_tokens: tokens of the replies, for the usual length.
        cost_usd: what they would cost, in US dollars; None where the model's price is not known.
        most_usd: the same if every reply were as long as it may be.
    """

    scores: int
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    most_usd: float | None


def forecast_evaluation(store: Store, run: str, estimator: CostEstimator, plan: Plan) -> CostForecast:
    """Return what the scores that a run lacks would cost; nothing is sent, and no key is needed.

    Args:
        store: the record.
        run: name of the run; where there is none of that name, everything is missing.
        estimator: what `turnwise.observers.build_cost_estimator` gave.
        plan: what the run is to have.

    Raises:
        UnknownNameError: one of the sequences is not in the store.
    """
    counted: set[tuple[str, int]] = set()

    def is_free(request: tuple[str, int], principles: Sequence[Principle]) -> bool:
        if not estimator.reuses_replies:
            return False
        if request in counted:
            return True
        counted.add(request)
        kept = store.journal.find(*request)
        return kept is not None and estimator.is_readable(kept, principles)

    asked = (
        (_principles(requests), turns, turn, requests[0].side, plan.context)
        for requests, turns, turn, _ in asked_of_run(store, run, plan, together=estimator.together)
    )
    return _cost(estimator, asked, is_free)


def asked_of_run(
    store: Store, run: str, plan: Plan, *, together: bool
) -> Iterator[tuple[list[Request], Sequence[conversation.Turn], int, Context]]:
    """Yield what a language model is to be asked for scores that a run lacks: requests, turns, turn, context."""
    for task in tasks_of(store, run, plan):
        for turn, wanted in task.wanted.items():
            for requests in asked_together(wanted, together=together):
                yield requests, task.turns, turn, plan.context


def _cost(
    estimator: CostEstimator,
    asked: Iterable[_Asked],
    is_free: Callable[[tuple[str, int], Sequence[Principle]], bool] = lambda request, principles: False,
) -> CostForecast:
    scores = calls = cached = prompt_tokens = completion_tokens = 0
    cost = most = 0.0
    for about in asked:
        requests = estimator.requests(*about)
        new = sum(not is_free(request, about[0]) for request in requests)
        scores += len(about[0])
        calls += new
        cached += len(requests) - new
        if new:
            guess = estimator.estimate(*about, new)
            prompt_tokens += guess.prompt_tokens
            completion_tokens += guess.completion_tokens
            cost += guess.cost_usd or 0.0
            most += guess.most_usd or 0.0
    known = estimator.price_as_of is not None
    return CostForecast(
        scores, calls, cached, prompt_tokens, completion_tokens, cost if known else None, most if known else None
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a scan would come to.

    Args:
        files: how many input files there are.
        bytes: their bytes.
        rows: records in them, or of the sample.
        share: share of the rows that could be read and were wanted, of those that were looked at.
        conversations: conversations that would be scored, about.
        timed: conversations that the estimate rests on.
        seconds: seconds that one worker would take, with a second look for the screen alone; None where nothing
            was timed, because the observer is paid for or no conversation was found.
        cost_usd: what a language model would cost, in US dollars; 0 where nothing is paid for, None where the
            price is not known or no conversation was found.
        most_usd: the same if every reply were as long as it may be.
        calls: requests to a language model.
        asked: share of the turns that the judge of a second look would be asked about, and the turns that this
            rests on; None where there is no judge.
    """

    files: int
    bytes: int
    rows: int
    share: float
    conversations: int
    parts: int
    timed: int
    seconds: float | None
    cost_usd: float | None = 0.0
    most_usd: float | None = 0.0
    calls: int = 0
    asked: tuple[float, int] | None = None


def forecast_scan(prepared: ScanPlan) -> Forecast:
    """Return what a scan would come to; nothing is written.

    All inputs are gone through once to count. A few conversations, drawn at random with the seed of the scan, are
    scored and timed, or, where an observer is paid for, priced without asking it.

    Args:
        prepared: what `turnwise.runs.plan_scan` gave.

    Raises:
        TurnwiseError: as for `plan_scan` and `ScanPlan.run`.
    """
    parts, _ = prepared.parts()
    rows = count = 0
    held: list[Part] = []
    drawn = random.Random(prepared.seed)
    for count, part in enumerate(parts, start=1):
        rows += len(part.chosen) if part.chosen is not None else part.rows
        place = count - 1 if count <= _PARTS else drawn.randrange(count)  # Algorithm R (Vitter 1985)
        if place < _PARTS:
            held[place : place + 1] = [part]
    looked, taken = _conversations(prepared, held)
    share = len(taken) / looked if looked else 0.0
    wanted = round(rows * share)
    inputs = prepared.manifest.inputs
    size = sum(one.bytes for one in inputs)
    found = Forecast(len(inputs), size, rows, share, wanted, count, timed=len(taken), seconds=None)
    work = prepared.work
    spec = work.observer if isinstance(work.observer, str) else None
    if spec is not None and describe_observer(spec).costs:
        return _priced(found, build_cost_estimator(spec, **work.settings), prepared, taken)
    return replace(found, seconds=_timed(prepared, taken) * wanted) if taken else found


def _conversations(prepared: ScanPlan, parts: Sequence[Part]) -> tuple[int, list[conversation.Sequence]]:
    """How many records were looked at, and the wanted conversations among them."""
    condition = None if prepared.work.where is None else parse_where(prepared.work.where)
    looked = 0
    taken: list[conversation.Sequence] = []
    drawn = random.Random(prepared.seed)
    most = max((part.rows for part in parts), default=1)
    for part in parts:
        there = sorted(part.chosen) if part.chosen is not None else range(part.rows)
        wanted = min(len(there), -(-part.rows * _CONVERSATIONS // (_PARTS * most)))
        some = replace(part, chosen=frozenset(drawn.sample(there, wanted)))
        for _, _, item in read_part(some, prepared.work.reading):
            looked += 1
            if not isinstance(item, BadRecord) and meets(condition, item):
                taken.append(item)
    return looked, taken


def _timed(prepared: ScanPlan, taken: Sequence[conversation.Sequence]) -> float:
    scorer = prepared.work.scorer()
    scorer.score(taken[:1])  # what is loaded at the first use is not counted
    began = time.monotonic()
    seconds, scored = 0.0, 0
    for at in range(0, len(taken), _CONVERSATIONS // _PARTS):
        some = taken[at : at + _CONVERSATIONS // _PARTS]
        scorer.score(some)
        scored += len(some)
        seconds = time.monotonic() - began
        if seconds > _SECONDS:
            break
    return seconds / scored + _OVERHEAD


def _priced(
    found: Forecast, estimator: CostEstimator, prepared: ScanPlan, taken: Sequence[conversation.Sequence]
) -> Forecast:
    screens = estimator if isinstance(estimator, TellsAsked) else None
    chats = [
        [conversation.Turn(turn.number, turn.prompt, turn.response) for turn in one.conversation] for one in taken
    ]
    if screens is not None:  # it takes a while: those that are looked at should not all be of the first parts
        random.Random(prepared.seed).shuffle(chats)
    costs: list[CostForecast] = []
    asked = turns = 0
    began = time.monotonic()
    for chat in chats:
        if screens is not None:
            if costs and time.monotonic() - began > _SECONDS:
                break
            asked += len(screens.asked(chat, prepared.work.context))
            turns += len(chat)
            if not costs:
                began = time.monotonic()  # what is loaded at the first use is not counted
        costs.append(_cost(estimator, _asked(prepared, chat, together=estimator.together)))
    pace = (time.monotonic() - began) / max(1, len(costs) - 1) + _OVERHEAD
    wanted = found.conversations
    priced = bool(costs) and estimator.price_as_of is not None
    return replace(
        found,
        timed=len(costs),
        seconds=pace * wanted if screens is not None and costs else None,
        cost_usd=fmean(one.cost_usd or 0.0 for one in costs) * wanted if priced else None,
        most_usd=fmean(one.most_usd or 0.0 for one in costs) * wanted if priced else None,
        calls=round(fmean(one.calls for one in costs) * wanted) if costs else 0,
        asked=(asked / turns, turns) if turns else None,
    )


def _principles(requests: Sequence[Request]) -> list[Principle]:
    return [request.principle for request in requests]


def _asked(prepared: ScanPlan, turns: Sequence[conversation.Turn], *, together: bool) -> Iterator[_Asked]:
    work = prepared.work
    wanted = [Request(principle, side) for side in work.sides for principle in work.principles]
    for turn in turns:
        asked = asked_of(turn, turns, work.context, wanted)
        for requests in asked_together(asked, together=together):
            yield _principles(requests), turns, turn.number, requests[0].side, work.context
