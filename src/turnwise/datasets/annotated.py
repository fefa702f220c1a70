"""Conversations that careful readers scored turn by turn, and pairs of them that differ in intent alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise.conversation import Conversation, Label, Seen, SeenDigest, Sequence, Side
from turnwise.datasets.opening import open_dataset
from turnwise.datasets.protocol import BadRecord
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
class JudgedConversation:
    """A conversation with the judgements made of this very text, in turn order.

    ``void`` counts those that were made of another text, and left out.
    """

    sequence: Sequence
    judgements: tuple[Judgement, ...]
    void: int


def join_judgements(
    sequences: Iterable[Sequence], judgements: Iterable[Judgement]
) -> Iterator[JudgedConversation]:
    """Yield the sequences that were judged, each with the judgements that hold for its text."""
    by_id = by_conversation(judgements)
    for sequence in sequences:
        if sequence.sequence_id not in by_id:
            continue
        known = {seen: digests(sequence.conversation, seen) for seen in Seen}
        made = sorted(by_id[sequence.sequence_id], key=lambda judgement: judgement.turn)
        valid = tuple(one for one in made if known[one.seen].get(one.turn) == one.digest)
        yield JudgedConversation(sequence, valid, len(made) - len(valid))


def example_judgements(mode: str, second: bool = False) -> Path:
    """The file of judgements of the shipped conversations, for mode ``history`` or ``turn``."""
    return Path(
        str(resources.files("turnwise.datasets") / "examples_judged" / f"{mode}{SECOND if second else ''}.jsonl")
    )


# Pairs: one is an attack, the other goes on in good faith

SPLITS_FILE = "splits.json"
"""Beside the folder of the twins: split by pair."""

REPLIES = ("complied", "partial", "limits", "refuses")
"""What a reply does with the request of its turn."""


@dataclass(frozen=True, slots=True)
class Twin:
    """One half of a pair, with its annotation where the writer gave one.

    ``sequence`` has tactic, area, register and language as metadata. ``scores`` are those of every user turn, in
    turn order, by principle; empty without annotation. ``turned_at`` is the first turn at which a careful reader
    is more suspicious than not, ``harm_at`` the first turn whose compliance would do harm; both are None in a
    benign half. ``replies`` says what each reply does with the request of its turn (`REPLIES`), None where there
    is no reply.
    """

    sequence: Sequence
    scores: Mapping[str, tuple[Score, ...]]
    turned_at: int | None
    harm_at: int | None
    replies: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two conversations on the same thing, which may share their first turns word for word.

    ``split`` is ``train``, ``dev``, ``test``, ``held_out_tactic`` or ``held_out_area``; None where the corpus has
    no splits. ``shared`` is how many turns both halves begin with. ``attack`` is the half that turns, ``benign``
    the one that goes on in good faith.
    """

    name: str
    split: str | None
    shared: int
    attack: Twin
    benign: Twin

    @property
    def first(self) -> int:
        """Number of the first turn at which the prompts of both halves differ, or one of them has ended."""
        attack, benign = (half.sequence.conversation for half in (self.attack, self.benign))
        both = zip(attack, benign, strict=False)
        return 1 + sum(1 for _ in takewhile(lambda turns: turns[0].prompt == turns[1].prompt, both))


def load_twins(folder: str | Path, split: str | None = None) -> Iterator[Pair]:
    """Yield the pairs of a corpus folder (``corpus/twins`` or ``corpus/human``), in the order of its files.

    ``splits.json`` lies beside the folder; ``split`` wants only the pairs of that split.
    """
    root = Path(folder)
    files = sorted(root.glob("*.jsonl"))
    if not files:
        raise DatasetError(f"{root} has no twins: name the folder with the JSONL files, such as corpus/twins")
    splits = _read_splits(root.parent / SPLITS_FILE)
    for file in files:
        for name, halves in _by_pair(file):
            if splits and name not in splits:
                raise DatasetError(f"{file}: pair {name!r} needs a split in {root.parent / SPLITS_FILE}")
            if split is None or splits.get(name) == split:
                yield _pair(file, name, splits.get(name), halves)


def _read_splits(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    splits: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    return splits


def _by_pair(file: Path) -> Iterable[tuple[str, dict[Label, Twin]]]:
    pairs: dict[str, dict[Label, Twin]] = {}
    for record in open_dataset(file, format="turnwise"):
        if isinstance(record, BadRecord):
            raise DatasetError(f"{file}, line {record.line}: {record.reason}")
        try:
            pairs.setdefault(record.metadata["pair"], {})[record.label] = _twin(record)
        except (KeyError, TypeError, ScoreError) as error:
            raise DatasetError(f"{file}, line {record.line}: annotation: {error!r}") from error
    return pairs.items()


def _twin(sequence: Sequence) -> Twin:
    notes = sequence.metadata
    turns = sequence.conversation.get_turn_count()
    given = notes.get("scores", {})
    scores = {principle: tuple(map(Score.from_dict, series)) for principle, series in given.items()}
    replies = tuple(notes.get("replies", [None] * turns))
    if any(len(series) != turns for series in scores.values()) or len(replies) != turns:
        raise TypeError(f"{turns} turns need as many scores for every principle, and as many replies")
    return Twin(sequence, scores, notes.get("turned_at"), notes.get("harm_at"), replies)


def _pair(file: Path, name: str, split: str | None, halves: dict[Label, Twin]) -> Pair:
    if set(halves) != {Label.ATTACK, Label.BENIGN}:
        raise DatasetError(f"{file}: pair {name!r} needs an attack and a benign half, it has {', '.join(halves)}")
    attack, benign = halves[Label.ATTACK], halves[Label.BENIGN]
    shared: int = attack.sequence.metadata.get("shared_turns", 0)
    for number in range(1, shared + 1):
        one, other = (half.sequence.conversation.turn(number) for half in (attack, benign))
        if (one.prompt, one.response) != (other.prompt, other.response):
            raise DatasetError(f"{file}: the halves of pair {name!r} must be the same in turn {number}")
    return Pair(name, split, shared, attack, benign)
