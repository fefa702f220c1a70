"""What a scan would read, take and cost, from a few of its conversations; nothing is written."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from turnwise import conversation
from turnwise.datasets import BadRecord
from turnwise.observers import Context, CostEstimator, Request, build_cost_estimator, describe_observer
from turnwise.observers.many import asked_of
from turnwise.principles import Principle
from turnwise.scan.parts import Part
from turnwise.scan.reading import read_part
from turnwise.scan.setup import Scan
from turnwise.scan.work import facts
from turnwise.store.where import parse_where

_PARTS = 8
"""Parts that the timed conversations come from."""

_CONVERSATIONS = 64
"""Conversations that are timed at most."""

_SECONDS = 10.0
"""Seconds after which no further part is scored for the forecast."""

_OVERHEAD = 0.0005
"""Seconds that reading, judging and writing a conversation takes about; benchmarks/scan.py measures it."""


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
        seconds: seconds that one worker would take; None where nothing was timed, because the observer is paid for
            or no conversation was found.
        cost_usd: what a language model would cost, in US dollars; 0 where nothing is paid for, None where the
            price is not known or no conversation was found.
        most_usd: the same if every reply were as long as it may be.
        calls: requests to a language model.
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


def forecast(prepared: Scan) -> Forecast:
    """Return what a scan that was set up would come to.

    All inputs are gone through once to count. A few conversations, drawn at random with the seed of the scan, are
    scored and timed, or, where an observer is paid for, priced without asking it.

    Args:
        prepared: what `turnwise.scan.set_up` gave.

    Raises:
        TurnwiseError: as for `turnwise.scan.scan`.
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
    known = len(inputs), sum(one.bytes for one in inputs), rows, share, wanted, count, len(taken)
    work = prepared.work
    spec = work.observer if isinstance(work.observer, str) else None
    if spec is not None and describe_observer(spec).costs:
        return _priced(known, build_cost_estimator(spec, **work.settings), prepared, taken)
    return Forecast(*known, seconds=_timed(prepared, taken) * wanted if taken else None)


def _conversations(prepared: Scan, parts: Sequence[Part]) -> tuple[int, list[conversation.Sequence]]:
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
            if not isinstance(item, BadRecord) and (condition is None or condition.holds(facts(item))):
                taken.append(item)
    return looked, taken


def _timed(prepared: Scan, taken: Sequence[conversation.Sequence]) -> float:
    """The seconds that a conversation takes."""
    scorer = prepared.work.open().scorer
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
    known: tuple[int, int, int, float, int, int, int],
    estimator: CostEstimator,
    prepared: Scan,
    taken: Sequence[conversation.Sequence],
) -> Forecast:
    costs, most, calls = [], [], []
    for one in taken:
        guesses = [
            (
                len(estimator.requests(*about)),
                estimator.estimate(*about),
            )
            for about in _asked(prepared, one)
        ]
        calls.append(sum(count for count, _ in guesses))
        costs.append(sum(guess.cost_usd or 0.0 for _, guess in guesses))
        most.append(sum(guess.most_usd or 0.0 for _, guess in guesses))
    wanted = known[4]
    priced = estimator.price_as_of is not None
    return Forecast(
        *known,
        seconds=None,
        cost_usd=fmean(costs) * wanted if priced and costs else None,
        most_usd=fmean(most) * wanted if priced and most else None,
        calls=round(fmean(calls) * wanted) if calls else 0,
    )


def _asked(
    prepared: Scan, one: conversation.Sequence
) -> Iterator[tuple[Principle, list[conversation.Turn], int, conversation.Side, Context]]:
    work = prepared.work
    turns = [conversation.Turn(turn.number, turn.prompt, turn.response) for turn in one.conversation]
    wanted = [Request(principle, side) for side in work.sides for principle in work.principles]
    for turn in turns:
        for request in asked_of(turn, turns, work.context, wanted):
            yield request.principle, turns, turn.number, request.side, work.context
