"""Recorded judgements: scores of single turns by careful readers, each with a digest of what was read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise.conversation import Conversation, Seen, SeenDigest, Sequence, Side
from turnwise.errors import DatasetError, ScoreError
from turnwise.scoring import Score, from_triples, to_triples

MODES: Mapping[str, tuple[Side, Seen]] = {
    "history": (Side.PROMPT, Seen.PROMPTS),
    "turn": (Side.PROMPT, Seen.PROMPT),
    "replies": (Side.RESPONSE, Seen.BOTH),
}
"""Ways of reading: which half of a turn is scored, and what the reader sees; each has a file of its name."""

SECOND = "-second"
"""What follows in the name of a file of second readings, by other readers."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one reader said of one turn.

    ``turn`` and ``round`` count from 1. ``digest`` is that of just what the reader saw (`SeenDigest`). ``reading``
    is a key of ``readings.json``. ``span`` is the phrase that decided the scores, as start and end in characters
    of the scored text; None where nothing decided them or the reading did not ask. ``leans_on`` is the number of
    the earlier turn without which the phrase would be harmless.
    """

    sequence_id: str
    turn: int
    side: Side
    seen: Seen
    digest: str
    scores: Mapping[str, Score]
    reading: str
    round: int
    span: tuple[int, int] | None = None
    leans_on: int | None = None

    @property
    def peak_f(self) -> float:
        """Highest F over the principles."""
        return max(score.F for score in self.scores.values())

    def to_line(self) -> str:
        """The line of a file of judgements, which `replay` reads too."""
        record: dict[str, Any] = {
            "sequence_id": self.sequence_id,
            "turn": self.turn,
            "side": str(self.side),
            "scores": to_triples(self.scores),
            "seen": str(self.seen),
            "digest": self.digest,
            "reading": self.reading,
            "round": self.round,
        }
        if self.span is not None:
            record["span"] = list(self.span)
        if self.leans_on is not None:
            record["leans_on"] = self.leans_on
        return json.dumps(record, ensure_ascii=False)


def judgement_files(folder: str | Path) -> dict[str, Path]:
    """Return the files of judgements in a folder by name, such as ``history`` or ``turn-second``."""
    names = [f"{mode}{which}" for mode in MODES for which in ("", SECOND)]
    found = {name: path for name in names if (path := Path(folder) / f"{name}.jsonl").is_file()}
    if not found:
        raise DatasetError(
            f"no judgements in {folder}: name a folder with history.jsonl or turn.jsonl, such as corpus/judged"
        )
    return found


def read_judgements(path: str | Path) -> Iterator[Judgement]:
    """Yield the judgements of a JSONL file in order; a DatasetError names file and line."""
    try:
        lines = to_path(path).read_bytes().splitlines()
    except OSError as error:
        raise DatasetError(f"can't read judgements from {path}: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _judgement(read_json(line))
        except (ValueError, KeyError, TypeError, AttributeError, ScoreError) as error:
            raise DatasetError(f"{path}, line {number}: not a judgement: {error!r}") from error


def _judgement(record: Mapping[str, Any]) -> Judgement:
    for name, kind in (("sequence_id", str), ("turn", int), ("digest", str), ("reading", str), ("round", int)):
        if not isinstance(record[name], kind):
            raise TypeError(f"field {name!r} must be {'text' if kind is str else 'a whole number'}")
    if not record["scores"]:
        raise ValueError("no scores")
    return Judgement(
        sequence_id=record["sequence_id"],
        turn=record["turn"],
        side=Side(record["side"]),
        seen=Seen(record["seen"]),
        digest=record["digest"],
        scores=from_triples(record["scores"]),
        reading=record["reading"],
        round=record["round"],
        span=_span(record.get("span")),
        leans_on=None if record.get("leans_on") is None else int(record["leans_on"]),
    )


def _span(value: object) -> tuple[int, int] | None:
    if value is None:
        return None
    start, end = map(int, value)  # type: ignore[call-overload]  # what is no pair of numbers raises, as it should
    if not 0 <= start < end:
        raise ValueError(f"span is {start} to {end}: it has to begin before it ends")
    return start, end


def peaks_of(judgements: Iterable[Judgement]) -> dict[str, float]:
    """The highest F of each conversation over its judged turns, by id."""
    peaks: dict[str, float] = {}
    for one in judgements:
        peaks[one.sequence_id] = max(one.peak_f, peaks.get(one.sequence_id, 0.0))
    return peaks


def by_conversation(judgements: Iterable[Judgement]) -> dict[str, list[Judgement]]:
    """Group judgements by the id of their conversation, in their order."""
    found: dict[str, list[Judgement]] = {}
    for one in judgements:
        found.setdefault(one.sequence_id, []).append(one)
    return found


def digests(conversation: Conversation, seen: Seen) -> dict[int, str]:
    """The digest of what a reader has seen at each turn, by turn number."""
    running = SeenDigest()
    found = {}
    for turn in conversation:
        running = running.after(turn)
        found[turn.number] = running.of(seen)
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """A conversation with the judgements made of this very text, in turn order.

    ``void`` counts those that were made of another text, and left out.
    """

    sequence: Sequence
    judgements: tuple[Judgement, ...]
    void: int


def join_judgements(sequences: Iterable[Sequence], judgements: Iterable[Judgement]) -> Iterator[Judged]:
    """Yield the sequences that were judged, each with the judgements that hold for its text."""
    by_id = by_conversation(judgements)
    for sequence in sequences:
        if sequence.sequence_id not in by_id:
            continue
        known = {seen: digests(sequence.conversation, seen) for seen in Seen}
        made = sorted(by_id[sequence.sequence_id], key=lambda judgement: judgement.turn)
        valid = tuple(one for one in made if known[one.seen].get(one.turn) == one.digest)
        yield Judged(sequence, valid, len(made) - len(valid))


def example_judgements(mode: str, second: bool = False) -> Path:
    """The file of judgements of the shipped conversations, for mode ``history`` or ``turn``."""
    return Path(
        str(resources.files("turnwise.datasets") / "examples_judged" / f"{mode}{SECOND if second else ''}.jsonl")
    )
