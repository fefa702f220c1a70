"""Recorded scores as an observer: judgements by careful readers, another tool's output, an earlier study."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise.conversation import Seen, SeenDigest, Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    Observation,
    ObservationFailure,
    ObserverInfo,
    Request,
)
from turnwise.scoring import Score

OPERATING_POINTS = "operating_points.json"
"""Beside a file of scores: ``{"points": {context: {detector: threshold}}}``."""

_Key = tuple[str, int, str, Side]
_Word = TypeVar("_Word", bound=StrEnum)
_NEEDS = (
    'a JSONL file of {"sequence_id", "turn", "principle", "T", "I", "F"}, with optional "side" and "reasoning", '
    'or of {"sequence_id", "turn", "side", "scores": {principle: [T, I, F]}, "seen", "digest"}'
)


@dataclass(frozen=True, slots=True)
class _RecordedScore:
    """A recorded score, and what it was read from where the file says so."""

    observation: Observation
    seen: Seen
    digest: str | None


@dataclass(slots=True)
class _ReplayState:
    sequence_id: str
    digest: SeenDigest


class ReplayObserver:
    """Gives the scores that a JSONL file holds; a turn without a line is a gap, not a failure.

    The whole file is read and checked before the first score is given. A score with ``seen`` and ``digest`` holds
    for the very text that was read: where the text has changed, the turn fails with the reason ``text_changed``.
    """

    def __init__(self, argument: str | None = None) -> None:
        if not argument:
            raise ObserverError(f"the replay observer needs {_NEEDS}: write replay:scores.jsonl")
        try:
            path = to_path(argument)
            content = path.read_bytes()
        except OSError as error:
            raise ObserverError(f"can't read recorded scores from {argument}: {error.strerror}") from error
        self._scores = _read(path, content)
        self._sha256 = hashlib.sha256(content).hexdigest()
        self._points = _read_points(path.with_name(OPERATING_POINTS))
        self.parameters: Mapping[str, object] = {"scores_sha256": self._sha256}

    @classmethod
    def describe(cls) -> ObserverInfo:
        """What is known before a file is named."""
        return ObserverInfo(
            name="replay",
            version="1",
            contexts=tuple(ContextMode),
            summary="recorded scores from a file",
            needs=_NEEDS,
        )

    @property
    def info(self) -> ObserverInfo:
        """What is known of it; the version carries the hash of the file."""
        known = self.describe()
        version = f"{known.version}+{self._sha256[:12]}"
        return replace(known, version=version, operating_points=self._points)

    def start(self, conversation_id: str, context: Context) -> _ReplayState:
        """Begin a conversation; recorded scores fit any context mode."""
        return _ReplayState(conversation_id, SeenDigest())

    def observe(
        self, state: _ReplayState, turn: Turn, wanted: Collection[Request]
    ) -> Sequence[Observation | ObservationFailure]:
        """Give the recorded scores of this turn."""
        state.digest = state.digest.after(turn)
        keys = ((state.sequence_id, turn.number, request.principle.name, request.side) for request in wanted)
        return [_given(self._scores[key], state.digest) for key in keys if key in self._scores]


def _given(recorded: _RecordedScore, digest: SeenDigest) -> Observation | ObservationFailure:
    if recorded.digest in (None, digest.of(recorded.seen)):
        return recorded.observation
    return ObservationFailure(
        recorded.observation.principle,
        recorded.observation.side,
        reason="text_changed",
        message="the text is another than the one that was read when this score was recorded",
    )


def _read(path: Path, content: bytes) -> dict[_Key, _RecordedScore]:
    scores: dict[_Key, _RecordedScore] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = list(_parse(read_json(line)))
        except ValueError as error:  # bad JSON or a bad score is a ValueError, as a rule
            raise ObserverError(f"{path}, line {number}: {error}") from error
        for key, recorded in found:
            if key in scores:
                sequence_id, turn, principle, side = key
                raise ObserverError(
                    f"{path}, line {number}: a second score for {sequence_id!r}, turn {turn}, {principle}, {side}"
                )
            scores[key] = recorded
    return scores


def _read_points(path: Path) -> Mapping[str, Mapping[str, float]]:
    if not path.is_file():
        return {}
    try:
        points = read_json(path.read_bytes())["points"]
        return {
            str(context): {str(name): _finite(value) for name, value in detectors.items()}
            for context, detectors in points.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shape = '{"points": {context: {detector: threshold}}}'
        raise ObserverError(f"{path}: operating points must be {shape}, not so here: {error!r}") from error


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"a threshold is a finite number, not {value!r}")
    return number


def _parse(record: Any) -> Iterator[tuple[_Key, _RecordedScore]]:
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    several = "scores" in record
    needed: list[tuple[str, type, str]] = [("sequence_id", str, "text"), ("turn", int, "a whole number")]
    needed.append(("scores", dict, "an object") if several else ("principle", str, "text"))
    for name, kind, said in needed:
        if name not in record:
            raise ValueError(f"field {name!r} is missing")
        if not isinstance(record[name], kind) or isinstance(record[name], bool):
            raise ValueError(f"field {name!r} must be {said}")
    if record["turn"] < 1:
        raise ValueError(f"turns are numbered from 1, not {record['turn']}")
    side = _choice(record, "side", Side.PROMPT)
    seen = _choice(record, "seen", Seen.PROMPTS)
    for name in ("reasoning", "digest"):
        if record.get(name) is not None and not isinstance(record[name], str):
            raise ValueError(f"field {name!r} must be text")
    scores = (
        {name: _triple(name, triple) for name, triple in record["scores"].items()}
        if several
        else {record["principle"]: Score.from_dict(record)}
    )
    for principle, score in scores.items():
        observation = Observation(principle, side, score, reasoning=record.get("reasoning"))
        key = (record["sequence_id"], record["turn"], principle, side)
        yield key, _RecordedScore(observation, seen, record.get("digest"))


def _choice(record: Mapping[str, Any], name: str, default: _Word) -> _Word:
    kind = type(default)
    given = record.get(name, default)
    if given not in tuple(kind):
        raise ValueError(f"{name} must be {' or '.join(map(repr, map(str, kind)))}, not {given!r}")
    return kind(given)


def _triple(principle: str, given: object) -> Score:
    if not isinstance(given, list) or len(given) != 3:
        raise ValueError(f"scores of {principle!r} must be a list [T, I, F]")
    return Score(*given)
