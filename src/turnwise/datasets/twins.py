"""Pairs of conversations that differ in intent alone: one is an attack, the other goes on in good faith."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from turnwise.conversation import Label, Sequence
from turnwise.datasets.opening import open_dataset
from turnwise.datasets.protocol import BadRecord
from turnwise.errors import DatasetError, ScoreError
from turnwise.scoring import Score

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
