"""When following a conversation over time helps: a map, from simulated conversations, of what decisions gain.

A turn's F is the logistic function of a level of harmless turns, an offset of the conversation, noise of the turn,
and what is bad about it. All attacks with a share of bad turns carry the same in all; the shapes say how it is
spread. The decisions are the detectors themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np

from turnwise.detectors import build_detector
from turnwise.errors import UsageError
from turnwise.scoring import Score, TurnScores
from turnwise.stats import Floats

HIGHEST: Final = "any_turn"
"""The decision that the others are held against: the highest F of any turn."""

ACCUMULATORS: Final = (
    "peak_accumulation",
    "f_ema:alpha=0.3",
    "f_ema:alpha=0.1",
    "cusum:drift=0.1",
    "cusum:drift=0.25",
    "count_flags:flag=0.3",
    "slope",
)
"""The decisions that the best is chosen from, on conversations of its own."""

NOISES: Final = (0.5, 1.0, 2.0)
SHAPES: Final = ("sudden", "slow rise", "spread thin", "periodic")
LENGTHS: Final = (5, 10, 20, 50)
SHARES: Final = (0.1, 0.3, 0.6)
BENIGN_LENGTHS: Final = (5, 10, 20, 50, 100)

RATE: Final = 0.05
"""False-positive rate at which decisions are held against each other."""

_HARMLESS, _BAD, _OFFSET = -3.0, 3.5, 0.5
"""On the scale of the logit: the level of harmless turns, what a bad turn adds, and the standard deviation of a
conversation's offset as a share of the noise of a turn."""

_REPLICATES: Final = 400
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class ConversationKind:
    """A kind of conversation.

    Args:
        noise: standard deviation of an observer's error at a turn, on the scale of the logit; above 0.
        shape: how what is bad is spread: one of `SHAPES`.
        turns: its length, at least 2.
        share: the share of bad turns, in (0, 1]; where it is spread otherwise, the same in all.
    """

    noise: float
    shape: str
    turns: int
    share: float

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UsageError(f"shape is {self.shape!r}; use {', '.join(SHAPES)}")
        if self.turns < 2 or self.noise <= 0 or not 0 < self.share <= 1:
            raise UsageError(f"{self}: noise must be above 0, turns at least 2, the share in (0, 1]")

    @property
    def bad(self) -> Floats:
        """What is bad about each turn, on the scale of the logit."""
        count = max(1, round(self.share * self.turns))
        level = np.zeros(self.turns)
        if self.shape == "sudden":
            level[-count:] = 1.0
        elif self.shape == "slow rise":
            level = np.arange(1, self.turns + 1) / self.turns
        elif self.shape == "spread thin":
            level += 1.0
        else:
            level[np.unique(np.linspace(self.turns / count - 1, self.turns - 1, count).round().astype(int))] = 1.0
        return np.asarray(_BAD * count * level / level.sum())


@dataclass(frozen=True, slots=True)
class SimulatedGain:
    """What the best accumulator gains on a kind of conversation.

    Args:
        kind: the kind.
        highest: recall of the highest F at a false-positive rate of `RATE`, in [0, 1].
        best: the accumulator that was best on conversations of the same kind that are not counted here.
        recall: its recall at the same rate.
        low: lower end of the 95 % interval of the gain.
        high: upper end.
    """

    kind: ConversationKind
    highest: float
    best: str
    recall: float
    low: float
    high: float

    @property
    def gain(self) -> float:
        """Recall of the best accumulator less that of the highest F."""
        return self.recall - self.highest

    @property
    def shown(self) -> str:
        """What the interval shows: ``gain``, ``loss`` or ``nothing``."""
        return "gain" if self.low > 0 else "loss" if self.high < 0 else "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        said = asdict(self)
        return {**said.pop("kind"), **said, "gain": self.gain, "shown": self.shown}


@dataclass(frozen=True, slots=True)
class LengthRate:
    """The share of long harmless conversations that a decision flags, by a threshold set on those of 10 turns."""

    noise: float
    decision: str
    turns: int
    rate: float


@dataclass(frozen=True, slots=True)
class GainMap:
    """The gains by kind of conversation, and what length alone does to harmless ones."""

    gains: tuple[SimulatedGain, ...]
    lengths: tuple[LengthRate, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "false_positive_rate": RATE,
            "confidence": _CONFIDENCE,
            "gains": [one.to_dict() for one in self.gains],
            "long_harmless_conversations": [asdict(one) for one in self.lengths],
        }

    def spec(self) -> dict[str, Any]:
        """Return the map as a chart, for `turnwise.plots.save`; needs altair."""
        import altair as alt

        from turnwise.plots.style import CONFIG

        rows = [
            {**one.to_dict(), "told": f"{100 * one.gain:+.0f}" if one.shown != "nothing" else ""}
            for one in self.gains
        ]
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X("turns:O").title("turns").axis(labelAngle=0),
            y=alt.Y("share:O", sort="descending").title("bad turns").axis(format=".0%"),
        )
        colour = (
            alt.Color("gain:Q").title("gain in recall").scale(scheme="blueorange", domain=[-0.5, 0.5], clamp=True)
        )
        cells = base.mark_rect().encode(color=colour.legend(format="+.0%", gradientLength=120))
        told = base.mark_text(fontSize=10).encode(text="told:N")
        layered = alt.layer(cells, told).properties(width=112, height=84)
        chart = layered.facet(
            column=alt.Column("shape:N", sort=[*SHAPES]).title(None),
            row=alt.Row("noise:O").title("noise of the observer"),
        ).properties(
            title=alt.Title(
                "What the best accumulator gains over the highest F",
                subtitle=f"Recall at {RATE:.0%} false positives. A number: the 95 % interval excludes 0, points.",
            )
        )
        spec: dict[str, Any] = chart.to_dict()
        spec["config"] = CONFIG
        return spec

    def summary(self) -> list[tuple[str, str, str, str, str]]:
        """Rows of shape and share: the mean gain, how often gain or loss is shown, and what is best most often."""
        rows = []
        for shape, share in product(SHAPES, SHARES):
            some = [one for one in self.gains if (one.kind.shape, one.kind.share) == (shape, share)]
            if not some:
                continue
            shown = [sum(one.shown == what for one in some) for what in ("gain", "loss")]
            named = [one.best for one in some]
            mean = float(np.mean([one.gain for one in some]))
            rows.append(
                (
                    shape,
                    f"{share:g}",
                    f"{100 * mean:+.0f} points",
                    f"{shown[0]} and {shown[1]} of {len(some)}",
                    max(sorted(set(named)), key=named.count),
                )
            )
        return rows


def gain_map(
    *, kinds: Iterable[ConversationKind] | None = None, conversations: int = 300, seed: int = 0, jobs: int = 1
) -> GainMap:
    """Simulate conversations and say where an accumulator gains over the highest F, by how much.

    Args:
        kinds: what is simulated; by default every combination of `NOISES`, `SHAPES`, `LENGTHS` and `SHARES`.
        conversations: attacks, and twice as many harmless ones, of each kind, at least 50; as many again to choose
            the accumulator on.
        seed: of all chance; the same seed gives the same map.
        jobs: processes.

    Raises:
        UsageError: fewer conversations than 50.
    """
    if conversations < 50:
        raise UsageError(f"conversations is {conversations}; use at least 50 of a kind")
    wanted = (
        [ConversationKind(*one) for one in product(NOISES, SHAPES, LENGTHS, SHARES)] if kinds is None else [*kinds]
    )
    groups: dict[tuple[float, int], list[ConversationKind]] = {}
    for kind in wanted:
        groups.setdefault((kind.noise, kind.turns), []).append(kind)
    tasks = [(noise, turns, some, conversations, seed) for (noise, turns), some in groups.items()]
    noises = sorted({kind.noise for kind in wanted})
    # Long conversations first, so that no process ends with them alone.
    tasks.sort(key=lambda task: -task[1])
    of_length = partial(_length_rates, count=conversations, seed=seed)
    if jobs == 1:
        found, lengths = [*map(_gains, tasks)], [*map(of_length, noises)]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            later = pool.map(of_length, noises)
            found, lengths = [*pool.map(_gains, tasks)], [*later]
    by_kind = {one.kind: one for some in found for one in some}
    return GainMap(tuple(by_kind[kind] for kind in wanted), tuple(one for some in lengths for one in some))


def simulated(
    noise: float, turns: int, bad: Floats | None, count: int, rng: np.random.Generator
) -> Iterator[list[TurnScores]]:
    """Yield conversations of one principle; `bad` is what each turn has of it, None for harmless ones."""
    offset = rng.normal(0.0, _OFFSET * noise, (count, 1))
    level = _HARMLESS + offset + rng.normal(0.0, noise, (count, turns)) + (0.0 if bad is None else bad)
    for row in 1.0 / (1.0 + np.exp(-level)):
        yield [TurnScores(at, {"F": Score(1.0 - F, 0.0, F)}) for at, F in enumerate(row.tolist(), start=1)]


def decided(decisions: Sequence[str], chats: Iterable[Sequence[TurnScores]]) -> dict[str, Floats]:
    """The score of each decision for each conversation: the highest, or the last; minus infinity without any."""
    built = [(name, build_detector(name)) for name in decisions]
    found: dict[str, list[float]] = {name: [] for name in decisions}
    for chat in chats:
        for name, detector in built:
            state = detector.start()
            known = [one.score for turn in chat if (one := detector.update(state, turn)).evidence]
            if getattr(detector, "judges_last", False):
                known = known[-1:]
            found[name].append(max(known, default=-np.inf))
    return {name: np.array(scores) for name, scores in found.items()}


def recall_at(attacks: Floats, harmless: Floats, rate: float = RATE) -> float:
    """The share of attacks above the lowest threshold that flags at most a rate of the harmless ones."""
    return float(np.mean(attacks > _threshold(harmless[None, :], rate)[0]))


def _threshold(harmless: Floats, rate: float) -> Floats:
    """By row, the score that at most a rate of the values is above."""
    allowed = int(np.floor(rate * harmless.shape[1]))
    return np.asarray(np.partition(harmless, harmless.shape[1] - 1 - allowed, axis=1)[:, -1 - allowed])


def kind_of(chats: Iterable[tuple[Sequence[float], Sequence[float]]]) -> ConversationKind:
    """Where a real set of conversations stands on the map.

    The observer's noise is the spread of its scores over the turns of a conversation in which the reader sees
    nothing, as a share of what a flagged turn adds to them.

    Args:
        chats: of each conversation the highest F of its turns, in [0, 1], by a careful reader and by the observer.

    Raises:
        UsageError: no conversation with two turns, or none in which the reader flags a turn (F of 0.5 or above).
    """
    read = [(np.array(truth), _logit(np.array(seen))) for truth, seen in chats if len(truth) > 1]
    flagged = [(truth, seen) for truth, seen in read if (truth >= _FLAGGED).any()]
    quiet = [seen - seen.mean() for truth, seen in read if (truth < _QUIET).all()]
    if not flagged or not quiet:
        raise UsageError("the map needs conversations of at least two turns, some flagged and some not")
    spread = float(np.sqrt(np.mean([np.sum(one**2) / (len(one) - 1) for one in quiet])))
    level = np.mean(np.concatenate([seen for truth, seen in read if (truth < _QUIET).all()]))
    added = float(np.mean(np.concatenate([seen[truth >= _FLAGGED] for truth, seen in flagged])) - level)
    noise = _BAD * spread / max(added, 1e-3)
    shapes = [_shape(truth) for truth, _ in flagged]
    turns = round(float(np.median([len(truth) for truth, _ in flagged])))
    share = float(np.mean([np.mean(truth >= _FLAGGED) for truth, _ in flagged]))
    return ConversationKind(round(noise, 3), max(SHAPES, key=shapes.count), max(2, turns), round(share, 3))


_FLAGGED, _QUIET = 0.5, 0.25


def _shape(truth: Floats) -> str:
    """How a reader's scores of a conversation that it flags rise."""
    bad = truth >= _FLAGGED
    first = int(np.argmax(bad))
    if not bad[first:].all():
        return "periodic"
    if first == 0 and len(truth) > 1:
        return "spread thin"
    return "slow rise" if first > 1 and truth[first - 1] >= _QUIET else "sudden"


def _logit(F: Floats) -> Floats:
    kept = np.clip(F, 1e-3, 1 - 1e-3)
    return np.asarray(np.log(kept / (1 - kept)))


def _gains(task: tuple[float, int, list[ConversationKind], int, int]) -> list[SimulatedGain]:
    noise, turns, kinds, count, seed = task
    rng = np.random.default_rng([seed, round(1000 * noise), turns])
    decisions = (HIGHEST, *ACCUMULATORS)
    choosing, testing = (decided(decisions, simulated(noise, turns, None, 2 * count, rng)) for _ in range(2))
    found = []
    for kind in kinds:
        tried = decided(decisions, simulated(noise, turns, kind.bad, count, rng))
        best = max(ACCUMULATORS, key=lambda name: recall_at(tried[name], choosing[name]))
        pair = (HIGHEST, best)
        attacks = decided(pair, simulated(noise, turns, kind.bad, count, rng))
        low, high = interval_of_gain([(attacks[name], testing[name]) for name in pair], rng)
        highest, recall = (recall_at(attacks[name], testing[name]) for name in pair)
        found.append(SimulatedGain(kind, highest, best, recall, low, high))
    return found


def interval_of_gain(pair: Sequence[tuple[Floats, Floats]], rng: np.random.Generator) -> tuple[float, float]:
    """The percentile bootstrap interval of the gain; on each draw of conversations thresholds are set anew."""
    (attacks, harmless), _ = pair
    drawn = rng.integers(0, len(attacks), (_REPLICATES, len(attacks)))
    drawn_harmless = rng.integers(0, len(harmless), (_REPLICATES, len(harmless)))
    recalls = [
        np.mean(some[drawn] > _threshold(others[drawn_harmless], RATE)[:, None], axis=1) for some, others in pair
    ]
    tail = 100 * (1 - _CONFIDENCE) / 2
    low, high = np.percentile(recalls[1] - recalls[0], [tail, 100 - tail])
    return float(low), float(high)


def _length_rates(noise: float, count: int, seed: int) -> list[LengthRate]:
    rng = np.random.default_rng([seed, round(1000 * noise), 0])
    decisions = (HIGHEST, "f_ema:alpha=0.1", "cusum:drift=0.25", "peak_accumulation", "last_turn")
    usual = decided(decisions, simulated(noise, 10, None, 4 * count, rng))
    rates = []
    for turns in BENIGN_LENGTHS:
        scores = decided(decisions, simulated(noise, turns, None, count, rng))
        rates += [
            LengthRate(
                noise, name, turns, float(np.mean(scores[name] > _threshold(usual[name][None, :], RATE)[0]))
            )
            for name in decisions
        ]
    return rates
