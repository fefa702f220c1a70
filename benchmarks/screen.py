"""Would `local-small` do as a screen before `local`, and what are the shipped detectors' rates?

    python benchmarks/screen.py --data DATA --cache FOLDER --seconds 60     # again until all is scored
    python benchmarks/screen.py --data DATA --cache FOLDER --rates FILE     # make after-weights names the file

Both observers score conversations that nothing was trained on: ordinary chats, harmful ones and their
counterparts. A finding is a conversation that a shipped detector flags on scores of `local` at its operating
point. Each screen says which conversations `local` has to read. Its threshold is chosen on one half of the data,
divided by group, so that it keeps .98 of the findings there; its loss and cost are measured on the other half.
The logs are taken to hold 1 % harmful conversations, which weights the two kinds. Cost is the processor time of
both observers beside that of `local` alone; the time of `local` goes by characters.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from observer_chats import ORDINARY, Chat, load

from turnwise.conversation import Side, Turn
from turnwise.detectors import Detector, load_detector, run_detector
from turnwise.observers import OBSERVERS, Context, Request, build_observer
from turnwise.observers.session import observe_conversations
from turnwise.principles import builtin_principles
from turnwise.rates import Rate
from turnwise.scoring import Score, TurnScores

FULL, SMALL = "local", "local-small"
DETECTORS = ("any_turn", "cusum", "slope", "trust_ema")
KEPT, COST = 0.98, 0.25
HARMFUL_SHARE = 0.01
BATCH = 16
PRINCIPLES = tuple(one.name for one in builtin_principles())
RECALL_ON = "turnwise_human_style"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """A conversation with the scores of both observers.

    Args:
        chat: the conversation.
        full: T, I and F of `local`, shape (turns, principles, 3).
        small: those of `local-small`.
        chars: characters that are read of each turn.
    """

    chat: Chat
    full: Floats
    small: Floats
    chars: Floats

    @property
    def ordinary(self) -> bool:
        """Whether it is one of ordinary chats, not of harmful ones and their counterparts."""
        return self.chat.source in ORDINARY

    @property
    def first_half(self) -> bool:
        """Whether it is of the half on which thresholds are chosen."""
        group = self.chat.pair or self.chat.metadata.get("goal") or self.chat.id
        return hashlib.sha256(f"0:{group}".encode()).digest()[0] % 2 == 0


def score(chats: Sequence[Chat], observer: str, folder: Path, seconds: float) -> int:
    """Score what the cache lacks, for so many seconds at most, and return how many are left."""
    known = {one["id"] for one in read(folder, observer)}
    left = sorted((one for one in chats if one.id not in known), key=_order)
    if not left:
        return 0
    built, end = build_observer(observer), time.monotonic() + seconds
    wanted = [Request(principle, Side.PROMPT) for principle in builtin_principles()]
    with (folder / f"{observer}.jsonl").open("a", encoding="utf-8") as file:
        while left and time.monotonic() < end:
            batch, left = left[:BATCH], left[BATCH:]
            turns = [[Turn(n, *texts) for n, texts in enumerate(one.turns, start=1)] for one in batch]
            began = time.process_time()
            found = observe_conversations(built, turns, Context.parse("history"), wanted)
            spent = time.process_time() - began
            scores: list[dict[int, dict[str, list[float]]]] = [{} for _ in batch]
            columns = found.conversation, found.turn, found.request, found.scores
            for place, turn, request, values in zip(*columns, strict=True):
                scores[place].setdefault(int(turn), {})[PRINCIPLES[request]] = list(map(float, values))
            for one, made in zip(batch, scores, strict=True):
                line = {"id": one.id, "seconds": spent / len(batch), "scores": made}
                file.write(json.dumps(line) + "\n")
    return len(left)


def _order(one: Chat) -> tuple[bool, str]:
    """Ordinary chats come first, each kind in random order, so that what was scored so far is a sample of it."""
    return one.source not in ORDINARY, hashlib.sha256(one.id.encode()).hexdigest()


def read(folder: Path, observer: str) -> list[dict[str, Any]]:
    """Return what was scored so far."""
    file = folder / f"{observer}.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def gather(chats: Sequence[Chat], folder: Path) -> list[Scored]:
    """Return the conversations that both observers scored."""
    both = {name: {one["id"]: one["scores"] for one in read(folder, name)} for name in (FULL, SMALL)}
    found = []
    for chat in chats:
        if chat.id in both[FULL] and chat.id in both[SMALL]:
            full, small = (_array(both[name][chat.id], len(chat.turns)) for name in (FULL, SMALL))
            chars = np.array([len(prompt) + len(reply or "") for prompt, reply in chat.turns], dtype=float)
            found.append(Scored(chat, full, small, chars))
    return found


def _array(scores: Mapping[str, Mapping[str, Sequence[float]]], turns: int) -> Floats:
    made = np.zeros((turns, len(PRINCIPLES), 3))
    made[:, :, 0] = 1.0
    for turn, by_principle in scores.items():
        for name, values in by_principle.items():
            made[int(turn) - 1, PRINCIPLES.index(name)] = values
    return made


def flag_turn(scores: Floats, detector: str, observer: str = FULL) -> tuple[int | None, float]:
    """Return the turn at which a shipped detector flags, or None, and its highest score."""
    turns = [
        TurnScores(number, dict(zip(PRINCIPLES, (Score(*map(float, values)) for values in row), strict=True)))
        for number, row in enumerate(scores, start=1)
    ]
    verdict = run_detector(shipped(detector, observer), turns)
    return verdict.turn, verdict.score


@cache
def shipped(detector: str, observer: str) -> Detector:
    """Return a detector at the operating point of an observer."""
    return load_detector(detector, build_info(observer).operating_points["history"])


def build_info(observer: str) -> Any:
    """Return what is known of a shipped observer."""
    return OBSERVERS.get(observer).describe()


# Screens: a number for each conversation, of the small observer's scores. From a threshold on it is read in full.


def peak(one: Scored) -> float:
    """The highest F over turns and principles."""
    return float(one.small[:, :, 2].max())


def mean_of_principles(one: Scored) -> float:
    """The highest mean F of a turn over the principles."""
    return float(one.small[:, :, 2].mean(axis=1).max())


def peak_or_unsure(one: Scored) -> float:
    """The highest F + I / 2: what it can't clear because it does not know counts too."""
    return float((one.small[:, :, 2] + one.small[:, :, 1] / 2).max())


def detector_score(detector: str) -> Callable[[Scored], float]:
    """The highest score of a detector over the small observer's scores."""
    return lambda one: flag_turn(one.small, detector, SMALL)[1]


FEATURES = (
    "peak F of each principle", "mean F", "last F", "peak I", "lowest T", "rise of F", "log turns",
    "log characters",
)  # fmt: skip


def features(one: Scored) -> list[float]:
    """What the logistic model sees, fixed before any threshold was looked at: `FEATURES`."""
    f, i, t = one.small[:, :, 2], one.small[:, :, 1], one.small[:, :, 0]
    highest = f.max(axis=1)
    return [
        *f.max(axis=0),
        highest.mean(),
        highest[-1],
        i.max(),
        t.min(),
        highest.max() - highest[0],
        math.log(len(f)),
        math.log1p(one.chars.sum()),
    ]


class Logistic:
    """A logistic model of being a finding, fitted on the first half; there, each fifth is scored by the others."""

    def __init__(self, some: Sequence[Scored], findings: Sequence[bool]) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        def fitted(keep: NDArray[np.bool_]) -> Any:
            model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=2000))
            return model.fit(x[keep], y[keep], logisticregression__sample_weight=weights[keep])

        x, y = np.array([features(one) for one in some]), np.array(findings)
        weights = _weights(some)
        weights = weights / weights.mean()
        fold = np.array([int(hashlib.sha256(one.chat.id.encode()).hexdigest(), 16) % 5 for one in some])
        self._model = fitted(np.ones(len(some), dtype=bool))
        self._known: dict[str, float] = {}
        for number in range(5):
            model, left_out = fitted(fold != number), fold == number
            for one, value in zip(np.flatnonzero(left_out), model.decision_function(x[left_out]), strict=True):
                self._known[some[one].chat.id] = float(value)

    def __call__(self, one: Scored) -> float:
        """Return the log odds."""
        known = self._known.get(one.chat.id)
        return known if known is not None else float(self._model.decision_function([features(one)])[0])


def _weights(some: Sequence[Scored]) -> Floats:
    """Return what each conversation counts, so that `HARMFUL_SHARE` of all is harmful."""
    ordinary = np.array([one.ordinary for one in some])
    return np.where(ordinary, (1 - HARMFUL_SHARE) / ordinary.sum(), HARMFUL_SHARE / (~ordinary).sum())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a screen does on some conversations.

    Args:
        kept: share of the findings that it keeps, as logs hold them.
        cost: processor time of both observers beside that of `local` alone.
        harmful: findings among harmful sets and their counterparts that it keeps.
        ordinary: findings among ordinary chats that it keeps.
    """

    kept: float
    cost: float
    harmful: Rate
    ordinary: Rate


class Trial:
    """One detector's findings in some conversations, and what screens make of them.

    Args:
        some: the conversations.
        turns: the turn of each finding's flag, None where there is none.
        own: processor time of the small observer beside that of `local`, over all conversations.
    """

    def __init__(self, some: Sequence[Scored], turns: Sequence[int | None], own: float) -> None:
        self.some, self.own = some, own
        self.found = np.array([turn is not None for turn in turns])
        self.turns = np.array([turn or 0 for turn in turns])
        self.weights = _weights(some)
        self.ordinary = np.array([one.ordinary for one in some])
        self.chars = np.array([one.chars.sum() for one in some])

    def outcome(self, sent: NDArray[np.bool_], chars: Floats | None = None) -> Outcome:
        """Return what comes of it where some conversations are read in full, or so many characters of each."""
        read_chars = np.where(sent, self.chars, 0.0) if chars is None else chars
        kept = self.found & sent
        whole = (self.weights * self.found).sum()
        groups = [
            Rate(int((kept & which).sum()), int((self.found & which).sum()))
            for which in (~self.ordinary, self.ordinary)
        ]
        return Outcome(
            float((self.weights * kept).sum() / whole) if whole else math.nan,
            self.own + float((self.weights * read_chars).sum() / (self.weights * self.chars).sum()),
            *groups,
        )

    def threshold(self, values: Floats) -> float:
        """Return the highest threshold at which `KEPT` of the findings are kept."""
        order = np.argsort(-values[self.found], kind="stable")
        gained = np.cumsum(self.weights[self.found][order])
        place = int(np.searchsorted(gained, KEPT * gained[-1] - 1e-12))
        return float(values[self.found][order][place])

    def threshold_at_cost(self, values: Floats) -> float:
        """Return the lowest threshold at which the cost stays at `COST`."""
        order = np.argsort(-values, kind="stable")
        spent = self.own + np.cumsum((self.weights * self.chars)[order]) / (self.weights * self.chars).sum()
        falling, last = values[order], int((spent <= COST).sum()) - 1
        while 0 <= last < len(falling) - 1 and falling[last] == falling[last + 1]:
            last -= 1  # those of the same value are sent together
        return float(falling[last]) if last >= 0 else math.inf


def early_stop(some: Sequence[Scored], threshold: float, turns: NDArray[Any]) -> tuple[NDArray[np.bool_], Floats]:
    """Read from the start to the last turn at which the small observer's F reaches a threshold, and no further.

    Returns whether the finding is kept, and the characters that are read: what came before a turn has to be read
    to score it.
    """
    ends = []
    for one in some:
        over = np.flatnonzero(one.small[:, :, 2].max(axis=1) >= threshold)
        ends.append(int(over[-1]) + 1 if len(over) else 0)
    last = np.array(ends)
    chars = np.array([one.chars[:end].sum() for one, end in zip(some, ends, strict=True)])
    return (turns > 0) & (turns <= last), chars


def report(some: Sequence[Scored], own: float) -> None:
    """Print what each screen keeps and costs, by detector."""
    first, second = ([one for one in some if one.first_half is half] for half in (True, False))
    print(f"{len(some)} conversations, {len(first)} to choose on and {len(second)} to measure on; "
          f"{sum(one.ordinary for one in some)} ordinary; the small one costs {own:.3f} of local")  # fmt: skip
    for detector in DETECTORS[:2]:
        chosen, held = (
            Trial(part, [flag_turn(one.full, detector)[0] for one in part], own) for part in (first, second)
        )
        screens: dict[str, Callable[[Scored], float]] = {
            "peak F": peak,
            "peak of the principles' mean F": mean_of_principles,
            "peak F + I / 2": peak_or_unsure,
            **{f"{name} over it": detector_score(name) for name in ("cusum", "trust_ema", "slope")},
            "logistic model": Logistic(first, list(chosen.found)),
        }
        ordinary = [int((part.found & part.ordinary).sum()) for part in (chosen, held)]
        print(
            f"\n{detector}: findings {chosen.found.sum()} and {held.found.sum()}, "
            f"of ordinary chats {ordinary[0]} and {ordinary[1]}"
        )
        print(
            "| screen | threshold for | kept | harmful sets | ordinary chats | cost |\n|---|---|---|---|---|---|"
        )
        for name, screen in screens.items():
            values, others = (np.array([screen(one) for one in part]) for part in (first, second))
            for aim, at in (
                (f"{KEPT} kept", chosen.threshold(values)),
                (f"{COST} of the cost", chosen.threshold_at_cost(values)),
            ):
                _print(name, aim, held.outcome(others >= at))
        for aim, at in _stops(first, chosen):
            kept, chars = early_stop(second, at, held.turns)
            _print("up to the last turn with F", aim, held.outcome(kept, chars))


def _stops(some: Sequence[Scored], trial: Trial) -> Iterable[tuple[str, float]]:
    """Return the thresholds of early stopping that keep, and that cost, what is wanted, chosen on some."""
    grid = sorted({float(value) for one in some for value in one.small[:, :, 2].max(axis=1)}, reverse=True)[::20]
    outcomes = [(at, trial.outcome(*early_stop(some, at, trial.turns))) for at in grid]
    yield f"{KEPT} kept", next((at for at, made in outcomes if made.kept >= KEPT), 0.0)
    yield f"{COST} of the cost", min((at for at, made in outcomes if made.cost <= COST), default=1.0)


def _print(name: str, aim: str, made: Outcome) -> None:
    print(f"| {name} | {aim} | {made.kept:.3f} | {made.harmful} | {made.ordinary} | {made.cost:.2f} |")


def small_cost(chats: Sequence[Chat], folder: Path) -> float:
    """Return the processor time of the small observer beside that of `local`, on the same ordinary chats."""
    ordinary = {one.id for one in chats if one.source in ORDINARY}
    times = {
        name: {one["id"]: one["seconds"] for one in read(folder, name) if one["seconds"] and one["id"] in ordinary}
        for name in (FULL, SMALL)
    }
    both = times[FULL].keys() & times[SMALL].keys()
    if not both:
        raise SystemExit("no ordinary chat was timed with both observers yet: score on, with --seconds")
    return sum(times[SMALL][one] for one in both) / sum(times[FULL][one] for one in both)


def rates(some: Sequence[Scored]) -> dict[str, Any]:
    """Return recall and false positives of the shipped detectors, as `turnwise.study.prevalence` reads them."""
    attacks = [one for one in some if one.chat.source == RECALL_ON and one.chat.attack]
    ordinary = [one for one in some if one.ordinary]
    made: dict[str, Any] = {
        "recall_on": "attacks that a model wrote; of people's fewer are found",
        "false_positives_on": f"ordinary chats of {len(ORDINARY)} sets, most of them written for benchmarks",
        "observers": {},
    }
    for name, scores in ((FULL, "full"), (SMALL, "small")):
        info = build_info(name)
        rows = {}
        for detector in DETECTORS:
            flagged = [
                [flag_turn(getattr(one, scores), detector, name)[0] is not None for one in part]
                for part in (attacks, ordinary)
            ]
            rows[detector] = {
                "threshold": info.operating_points["history"][detector],
                "recall": [sum(flagged[0]), len(flagged[0])],
                "false_positives": [sum(flagged[1]), len(flagged[1])],
                "by_service": {
                    source: [
                        sum(
                            flag
                            for flag, one in zip(flagged[1], ordinary, strict=True)
                            if one.chat.source == source
                        ),
                        sum(one.chat.source == source for one in ordinary),
                    ]
                    for source in ORDINARY
                },
            }
        made["observers"][info.version] = {"observer": name, "context": "history", "detectors": rows}
    return made


def main() -> None:
    """Score what is missing; say what screens do; write the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the scores; made")
    parser.add_argument("--seconds", type=float, default=0.0, help="seconds to score in")
    parser.add_argument("--rates", type=Path, help="file to write the detectors' rates to")
    given = parser.parse_args()
    given.cache.mkdir(exist_ok=True)
    chats = load(given.data)
    for observer in (SMALL, FULL):
        left = score(chats, observer, given.cache, given.seconds) if given.seconds else 0
        if left:
            print(f"{observer}: {left} conversations left")
    if given.seconds:
        return
    some = gather(chats, given.cache)
    if given.rates:
        given.rates.write_text(json.dumps(rates(some), indent=1) + "\n", encoding="utf-8")
        return
    report(some, small_cost(chats, given.cache))


if __name__ == "__main__":
    main()
