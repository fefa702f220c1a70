"""A conversation with all that a run says of it, and two readings side by side, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.detectors import DETECTORS, NamedDetector, Verdict, run_detector
from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer.data.flags import is_detector, rule_judges, rule_of
from turnwise.explorer.data.record import ViewedStore
from turnwise.patterns import match, parse
from turnwise.patterns.series import OtherRun
from turnwise.runs import judges_of
from turnwise.scoring import Evaluation, Failure, Trajectory, TurnScores, Unread
from turnwise.sessions import Outcomes, SessionMemory, Stance, outcomes_of

if TYPE_CHECKING:
    from turnwise.store import Store


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_DETECTORS = 8
"""Detectors that are shown at once."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation with what a run says of it; without a run, the conversation alone."""

    sequence: Sequence
    run: str | None = None
    trajectory: Trajectory | None = None
    failures: tuple[Failure, ...] = ()
    unread: tuple[Unread, ...] = ()
    rule: str = ""
    flag: int | None = None  # the first turn that the rule flags
    verdicts: tuple[Verdict, ...] = ()
    session: tuple[Stance, ...] = ()  # after each turn; empty where it was not asked for or nothing was scored

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Its turns."""
        return tuple(self.sequence.conversation)

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """All of its scores."""
        return () if self.trajectory is None else self.trajectory.evaluations

    @property
    def alarming(self) -> bool:
        """Whether the rule or a detector flags it."""
        return self.flag is not None or any(one.fired for one in self.verdicts)

    @property
    def principles(self) -> list[tuple[str, Side]]:
        """What was scored of it: principles, with the side."""
        return sorted({(one.key.principle, one.key.side) for one in self.evaluations})

    def values(self, principle: str, side: Side, component: str) -> list[tuple[int, float | None]]:
        """The values of a component over all turns; None at a gap."""
        found = {
            one.key.turn: getattr(one.score, component)
            for one in self.evaluations
            if (one.key.principle, one.key.side) == (principle, side)
        }
        return [(turn.number, found.get(turn.number)) for turn in self.turns]

    def unread_at(self, turn: int) -> str | None:
        """What is told of a turn that was not read, such as ``not read: prompt in zh``; None of others."""
        found = dict.fromkeys((one.key.side, one.language) for one in self.unread if one.key.turn == turn)
        return f"not read: {', '.join(f'{side} in {language}' for side, language in found)}" if found else None

    @property
    def outcomes(self) -> Outcomes | None:
        """What became of each turn's request; None where no reply was scored."""
        return None if self.trajectory is None else outcomes_of(self.turns, self.trajectory)

    def at(self, turn: int) -> tuple[tuple[Evaluation, ...], tuple[Failure, ...]]:
        """Scores and failures of a turn."""
        return (
            tuple(one for one in self.evaluations if one.key.turn == turn),
            tuple(one for one in self.failures if one.key.turn == turn),
        )


def read_chat(
    record: ViewedStore, sequence_id: str, run: str | None, rule: str = "", detectors: Ordered[str] = (),
    simulate: bool = False,
) -> Chat:  # fmt: skip
    """A conversation with what a run says of it: by default the run's own rule, and the detectors of `detect`.

    With `simulate`, also what a session memory with default settings would have made of it.
    """
    sequence = record.store.sequence(sequence_id)
    if run is None:
        return Chat(sequence)
    trajectory = record.store.trajectory(run, sequence_id, replies=True)
    failures = record.store.failures(run, ids=[sequence_id], replies=True)
    rule = rule or rule_of(record, run)
    verdicts = _verdicts(record, run, trajectory, detectors)
    return Chat(
        sequence, run, trajectory, failures, record.store.unread(run, ids=[sequence_id]), rule,
        _flag(record, run, trajectory, rule), verdicts, _session(sequence, trajectory) if simulate else (),
    )  # fmt: skip


def _verdicts(
    record: ViewedStore, run: str, trajectory: Trajectory, detectors: Ordered[str]
) -> tuple[Verdict, ...]:
    names = list(dict.fromkeys(detectors))
    if len(names) > MOST_DETECTORS:
        raise UsageError(f"{len(names)} detectors; show at most {MOST_DETECTORS} at once")
    for name in names:
        if not is_detector(name):
            raise UnknownNameError("detector", name, DETECTORS.names())
    return _run(judges_of(record.store, run, names), trajectory)


def _run(named: Ordered[NamedDetector], trajectory: Trajectory) -> tuple[Verdict, ...]:
    found = (run_detector(one.detector, trajectory, one.spec, one.source) for one in named)
    return tuple(found) if trajectory else ()


def _flag(record: ViewedStore, run: str, trajectory: Trajectory, rule: str) -> int | None:
    if is_detector(rule):
        verdicts = _run(rule_judges(record, run, rule), trajectory)
        return min((one.turn for one in verdicts if one.turn is not None), default=None)
    pattern = parse(rule, patterns=record.library())
    runs = {node.run for node in pattern.walk() if isinstance(node, OtherRun)}
    others = {name: record.store.trajectory(name, trajectory.sequence_id) for name in runs}
    return match(pattern, trajectory, others).turn


def _session(sequence: Sequence, trajectory: Trajectory) -> tuple[Stance, ...]:
    """What the session memory makes of each turn; where turns have no time, none passes."""
    if not trajectory:
        return ()
    memory = SessionMemory()
    turns = tuple(sequence.conversation)
    now = turns[0].timestamp or _EPOCH
    state = memory.start("explorer", now)
    found = []
    for turn, scores in zip(turns, trajectory, strict=True):
        now = max(now, turn.timestamp or now)
        state, stance = memory.update(state, scores, now, response=turn.response)
        found.append(stance)
    return tuple(found)


PAIR_KEYS: Final = ("pair", "twin", "goal", "group", "intent")
"""Keys of metadata by which two conversations belong together, the closest first."""

_MOST_PARTNERS: Final = 50


@dataclass(frozen=True, slots=True)
class ComparedConversation:
    """One of the two: a conversation with the scores of a run, turn by turn; without a run, texts alone."""

    sequence_id: str
    label: Label
    source: str
    run: str | None
    observer: str  # with the context that it saw
    turns: tuple[Turn, ...]
    scores: tuple[TurnScores | None, ...]


@dataclass(frozen=True, slots=True)
class ComparedTurn:
    """One turn of both; texts and scores are None where that half is at its end."""

    turn: int
    texts: tuple[Turn | None, Turn | None]
    scores: tuple[TurnScores | None, TurnScores | None]
    same: bool  # prompt and response
    apart: float | None  # largest difference of F over the principles that both were scored on


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two readings beside each other, turn by turn."""

    halves: tuple[ComparedConversation, ComparedConversation]
    rows: tuple[ComparedTurn, ...]
    parts_at: int | None  # first turn at which their texts differ
    differs_at: int | None  # first turn at which F differs by `DIFFERS` or more for some principle

    @property
    def principles(self) -> tuple[str, ...]:
        """Names of the principles that either was scored on, in order."""
        found: dict[str, None] = {}
        for half in self.halves:
            for scores in half.scores:
                found |= dict.fromkeys(() if scores is None else scores.scores)
        return tuple(found)

    def curve(self, half: int, principle: str, component: str = "F") -> list[float | None]:
        """A component of a principle in the half 0 or 1, turn by turn; None where it was not scored."""
        scored = (row.scores[half] for row in self.rows)
        given = (None if one is None else one.scores.get(principle) for one in scored)
        return [None if score is None else getattr(score, component) for score in given]


DIFFERS: Final = 0.1
"""Difference of F from which two scores of a turn are said to differ."""


def lay_beside(store: Store, first: tuple[str, str | None], second: tuple[str, str | None]) -> SideBySide:
    """Two readings beside each other, each a conversation's id and the run of its scores (None: texts alone)."""
    halves = _half(store, *first), _half(store, *second)
    rows = tuple(_rows_of(*halves))
    return SideBySide(
        halves,
        rows,
        next((row.turn for row in rows if not row.same), None),
        next((row.turn for row in rows if row.apart is not None and row.apart >= DIFFERS), None),
    )


def _half(store: Store, sequence_id: str, run: str | None) -> ComparedConversation:
    sequence = store.sequence(sequence_id)
    turns = tuple(sequence.conversation)
    scores: tuple[TurnScores | None, ...] = (None,) * len(turns)
    observer = ""
    if run is not None:
        known = store.run(run)
        observer = f"{known.observer}, {known.context}"
        by_turn = {one.turn: one for one in store.trajectory(run, sequence_id)}
        scores = tuple(by_turn.get(turn.number) for turn in turns)
    return ComparedConversation(sequence_id, sequence.label, sequence.source, run, observer, turns, scores)


def _rows_of(first: ComparedConversation, second: ComparedConversation) -> Iterator[ComparedTurn]:
    both = zip_longest(first.turns, second.turns), zip_longest(first.scores, second.scores)
    for number, (texts, scores) in enumerate(zip(*both, strict=True), start=1):
        one, other = texts
        same = one is not None and other is not None
        same = same and (one.prompt, one.response) == (other.prompt, other.response)
        yield ComparedTurn(number, texts, scores, same, _apart(*scores))


def _apart(one: TurnScores | None, other: TurnScores | None) -> float | None:
    if one is None or other is None:
        return None
    pairs = (one.scores, other.scores), (one.response_scores, other.response_scores)
    found = [abs(a[name].F - b[name].F) for a, b in pairs for name in a.keys() & b.keys()]
    return max(found, default=None)


def partners(store: Store, sequence_id: str) -> list[tuple[str, str]]:
    """The conversations that belong with one, such as its twin, each with why, the closest first."""
    metadata = store.sequence(sequence_id).metadata
    found: dict[str, str] = {}
    for key in PAIR_KEYS:
        value = metadata.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool):
            for name in store.ids_with(key, value, _MOST_PARTNERS):
                found.setdefault(name, key)
    found.pop(sequence_id, None)
    return list(found.items())[:_MOST_PARTNERS]
