"""The demo: the conversations that ship, each turn scored and judged alone, and with the turns so far."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from turnwise.conversation import Label
from turnwise.conversation import Sequence as Chat
from turnwise.datasets import example_judgements, examples, read_judgements
from turnwise.datasets.annotated import peaks_of
from turnwise.detectors import load_detector
from turnwise.observers import ObserverInfo, build_observer, describe_observer
from turnwise.observers.scripted import ScriptedObserver
from turnwise.observers.second_look import SecondLookObserver
from turnwise.principles import builtin_principles
from turnwise.rates import Rate, rates_by_label
from turnwise.runs import Detection, detect, evaluate

if TYPE_CHECKING:
    from turnwise.observers import Observer
    from turnwise.scoring import TurnScores
    from turnwise.store import Store

READER, LOCAL = "reader", "local"
OBSERVERS: Final = (READER, LOCAL)
"""Whose scores the demo shows: those of a reader, recorded, and those of the embedded observer."""

CONTEXTS: Final = ("turn", "history")
"""What an observer sees: each turn alone, or the turns so far."""

DETECTOR: Final = "any_turn"

SECOND_LOOK: Final = "second_look"
"""The run, on the turns so far, in which the reader is asked where the embedded observer points."""

_MOST_JOBS: Final = 4
"""Conversations that are scored at the same time: each takes a processor."""

_UNCHECKED: Final = ("fired", "turn", "score", "threshold", "threshold_source", "reason")
"""What is null where nothing was scored."""


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One observer in one context mode, with the verdicts of the detector by conversation."""

    observer: str
    context: str
    run: str
    found: Mapping[str, Detection]
    turns: Mapping[str, Sequence[TurnScores]]
    threshold: float

    @property
    def rates(self) -> dict[str, Rate]:
        """Share of checked conversations that fired, by label."""
        checked = (found for found in self.found.values() if found.verdict)
        return rates_by_label((str(one.head.label), bool(one.verdict and one.verdict.fired)) for one in checked)

    def peaks(self, sequence_id: str) -> list[float | None]:
        """The highest F over the principles at each turn; None where nothing was evaluated."""
        return [max((score.F for score in turn.scores.values()), default=None) for turn in self.turns[sequence_id]]


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo found; of each observer the run on turns alone stands before the one on the turns so far."""

    sequences: tuple[Chat, ...]
    runs: tuple[DemoRun, ...]
    seconds: float
    second_look: DemoRun | None = None
    asked: Rate | None = None
    """Turns that the reader was asked about there."""

    def telling(self) -> Chat | None:
        """The attack that only its history gives away, most clearly by the first observer; None for none."""
        alone, so_far = self.runs[:2]
        gaps: dict[str, float] = {}
        for name, one in alone.found.items():
            other = so_far.found.get(name)
            if one.head.label != Label.ATTACK or not one.verdict or not other or not other.verdict:
                continue
            before, after = one.verdict.score, other.verdict.score
            if other.verdict.fired and not one.verdict.fired and before is not None and after is not None:
                gaps[name] = after - before
        best = max(gaps, key=lambda name: gaps[name], default=None)
        return next((chat for chat in self.sequences if chat.sequence_id == best), None)

    def second_reader(self, run: DemoRun) -> dict[str, Rate]:
        """The shares that another reader flags at the threshold of a run, by label."""
        peaks = peaks_of(read_judgements(example_judgements(run.context, second=True)))
        flags = ((str(chat.label), peaks[chat.sequence_id] >= run.threshold) for chat in self.sequences)
        return rates_by_label(flags)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; an ``arm`` is an observer in a context mode."""
        told: dict[str, Any] = {"arms": list(map(_plain, self.runs)), "seconds": self.seconds}
        if self.second_look and self.asked:
            asked = {"count": self.asked.count, "of": self.asked.of}
            told["second_look"] = {**_plain(self.second_look), "asked": asked}
        return told

    def screen_and_judge(self) -> tuple[DemoRun, DemoRun] | None:
        """The runs on the turns so far of embedded observer and reader; None where one of them is not there."""
        by_name = {run.observer.partition(":")[0]: run for run in self.runs if run.context == "history"}
        return (by_name[LOCAL], by_name[READER]) if {LOCAL, READER} <= by_name.keys() else None


def run_demo(
    store: Store,
    observers: Mapping[str, Mapping[str, Observer]],
    tell: Callable[[Chat, Sequence[DemoRun]], None] | None = None,
) -> Demo:
    """Score the conversations that ship, where the store lacks scores, and judge them.

    `tell` is given one that turns, with the runs over it, as soon as the first observer has shown which. A store
    with the demo of another version is a `UsageError`.
    """
    began = time.perf_counter()
    sequences = tuple(examples())
    store.add_sequences(sequences)
    ids = [sequence.sequence_id for sequence in sequences]

    def score(name: str, scorers: Mapping[str, Observer], ids: Sequence[str]) -> None:
        jobs = min(os.cpu_count() or 1, _MOST_JOBS)
        for context, scorer in scorers.items():
            run = f"{name}-{context}"
            evaluate(store, run, scorer, principles=builtin_principles(), context=context, ids=ids, jobs=jobs)

    def judged(names: Iterable[str], ids: Sequence[str]) -> tuple[DemoRun, ...]:
        return tuple(_judged(store, name, context, ids) for name in names for context in CONTEXTS)

    first, *others = observers
    score(first, observers[first], ids)
    telling = Demo(sequences, judged([first], ids), 0.0).telling()
    if tell is not None and telling is not None:
        for name in others:
            score(name, observers[name], [telling.sequence_id])
        tell(telling, judged(observers, [telling.sequence_id]))
    for name in others:
        score(name, observers[name], ids)
    runs = judged(observers, ids)
    second_look = asked = None
    embedded = next((name for name in observers if name.partition(":")[0] == LOCAL), None)
    if embedded is not None and READER in observers:
        screen = _RecordedObserver(store, f"{embedded}-history", embedded)
        both = SecondLookObserver((screen, observers[READER]["history"]))
        evaluate(store, SECOND_LOOK, both, principles=builtin_principles(), context="history", ids=ids)
        second_look = _judged(store, SECOND_LOOK, "history", ids, run=SECOND_LOOK)
        turns = [
            len({one.key.turn for one in found.evaluations})
            for _, found in store.trajectories(f"{SECOND_LOOK}.judge")
        ]
        asked = Rate(sum(turns), sum(sequence.conversation.get_turn_count() for sequence in sequences))
    return Demo(sequences, runs, time.perf_counter() - began, second_look, asked)


class _RecordedObserver(ScriptedObserver):
    """The embedded observer, whose scores a run of the store holds already."""

    def __init__(self, store: Store, run: str, spec: str) -> None:
        self._run, self.spec = store.run(run), spec
        scores = {
            (e.key.sequence_id, e.key.turn, e.key.principle): e.score
            for _, trajectory in store.trajectories(run)
            for e in trajectory.evaluations
        }
        super().__init__(lambda name, turn, asked: scores.get((name, turn.number, asked.principle.name)))
        self.parameters = self._run.parameters

    @property
    def info(self) -> ObserverInfo:
        """That of the observer that made the scores."""
        known = describe_observer(LOCAL)
        return replace(known, version=self._run.observer_version, operating_points={})


def demo_observer(name: str) -> dict[str, Observer]:
    """The observer of each context mode: recorded judgements for ``reader``, else the one that is specified."""
    if name == READER:
        return {context: build_observer(f"replay:{example_judgements(context)}") for context in CONTEXTS}
    return dict.fromkeys(CONTEXTS, build_observer(name))


def _judged(store: Store, name: str, context: str, ids: Sequence[str], run: str | None = None) -> DemoRun:
    run = run or f"{name}-{context}"
    return DemoRun(
        observer=name,
        context=context,
        run=run,
        found={found.head.sequence_id: found for found in detect(store, run, [DETECTOR], ids=ids)},
        turns={head.sequence_id: list(turns) for head, turns in store.trajectories(run, ids=ids)},
        threshold=load_detector(DETECTOR, store.run(run).operating_points).threshold,
    )


def _plain(run: DemoRun) -> dict[str, Any]:
    rates = run.rates.items()
    return {
        "observer": run.observer,
        "context": run.context,
        "run": run.run,
        "threshold": run.threshold,
        "summary": {
            label: {"fired": rate.count, "of": rate.of, "interval": list(rate.interval)} for label, rate in rates
        },
        "conversations": [
            {
                "sequence_id": name,
                "label": str(found.head.label),
                **dict.fromkeys(_UNCHECKED),
                **(found.verdict.to_dict() if found.verdict else {"detector": found.detector}),
                "F": run.peaks(name),
            }
            for name, found in run.found.items()
        ],
    }
