"""Judged conversations that the reader learns from or is measured on, with their split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.datasets import BadRecord, open_dataset
from turnwise.datasets.judged import MODES, SECOND, Judgement, join_judgements, judgement_files, read_judgements
from turnwise.datasets.twins import load_twins
from turnwise.observers.reader.weights import PRINCIPLES

CORPUS = Path(__file__).parents[1] / "corpus"
PROMPTS_ONLY = "user turns only"
PAIRS = ("twins", "human")

Triples = tuple[tuple[float, float, float], ...]
"""T, I and F of each principle."""


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation with what readers said of its texts.

    Args:
        id: the conversation's id.
        source: the data set.
        split: ``train``, ``dev``, ``test``, ``operating`` or a held-out split of the twins.
        turns: prompt and reply of each turn; replies are None where they may not be used.
        judged: triples by mode (``history``, ``turn``, ``replies``) and turn number; the mean of both readings
            where there are two.
        pair: name of the pair that it is half of; None for others.
        attack: whether it is the attack of its pair, or labelled one.
        first: number of the first turn in which the halves of the pair differ; 1 for others.
        harm_at: first turn of the attack whose compliance would do harm, where the pair says so; the same in
            both halves.
    """

    id: str
    source: str
    split: str
    turns: tuple[tuple[str, str | None], ...]
    judged: Mapping[str, Mapping[int, Triples]]
    pair: str | None = None
    attack: bool = False
    first: int = 1
    harm_at: int | None = None


@dataclass(frozen=True, slots=True)
class Conversations:
    """What was read, and from which files.

    Args:
        examples: the judged conversations.
        hashes: SHA-256 of each file.
    """

    examples: tuple[Example, ...]
    hashes: Mapping[str, str]

    def of(self, *splits: str) -> list[Example]:
        """Return the examples of some splits."""
        return [one for one in self.examples if one.split in splits]


def read_conversations(data: Path) -> Conversations:
    """Read every judged conversation of the permitted files and of the corpus.

    Args:
        data: folder with ``MANIFEST.json``; a file whose ``train`` is false is left out, of one that is ``user
            turns only`` so are the replies.

    Raises:
        ValueError: a file holds a record that can't be read.
    """
    manifest: dict[str, dict[str, Any]] = json.loads((data / "MANIFEST.json").read_text(encoding="utf-8"))
    splits: dict[str, str] = json.loads((CORPUS / "judged" / "splits.json").read_text(encoding="utf-8"))["splits"]
    judgements, hashes = {}, {}
    for name, path in judgement_files(CORPUS / "judged").items():
        judgements[name] = list(read_judgements(path))
        hashes[f"corpus/judged/{path.name}"] = _hash(path)
    examples: list[Example] = []
    for name, entry in manifest.items():
        if not entry["train"] or not name.startswith(("train/", "single/train/")):
            continue
        path = data / name
        if not any(known.startswith(path.stem) for known in splits):
            continue  # nothing of it was judged
        hashes[name] = _hash(path)
        prompts_only = entry["train"] == PROMPTS_ONLY
        sequences = [one for one in _sequences(path) if one.sequence_id in splits]
        examples += _examples(sequences, judgements, splits, prompts_only=prompts_only)
    for folder in PAIRS:
        for path in sorted((CORPUS / folder).glob("*.jsonl")):
            hashes[f"corpus/{folder}/{path.name}"] = _hash(path)
        examples += _pairs(CORPUS / folder, judgements, splits)
    for path in sorted((CORPUS / "drills").glob("*.jsonl")):
        hashes[f"corpus/drills/{path.name}"] = _hash(path)
        examples += _drills(path, judgements)
    return Conversations(tuple(examples), hashes)


def _pairs(
    folder: Path, judgements: Mapping[str, list[Judgement]], splits: Mapping[str, str]
) -> Iterator[Example]:
    for pair in load_twins(folder):
        halves = (pair.attack.sequence, pair.benign.sequence)
        prompts = [[turn.prompt for turn in half.conversation] for half in halves]
        same = next((n for n, (a, b) in enumerate(zip(*prompts, strict=False)) if a != b), min(map(len, prompts)))
        given = {
            "pair": pair.name,
            "first": same + 1,
            "harm_at": pair.attack.harm_at,
        }
        for half in halves:
            yield from _examples([half], judgements, splits, **given, attack=half is halves[0])


def _drills(path: Path, judgements: Mapping[str, list[Judgement]]) -> Iterator[Example]:
    """Yield the judged drills of a file; all of them serve training."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        halves = [name for name in ("attack", "benign") if name in row]
        both = zip(row.get("attack", ()), row["benign"], strict=False)
        same = sum(1 for _ in takewhile(lambda texts: texts[0] == texts[1], both))
        for half in halves:
            talk = Conversation.from_messages([{"role": "user", "content": text} for text in row[half]])
            label = Label.ATTACK if half == "attack" else Label.BENIGN
            sequence = Sequence(f"{row['id']}-{half}", label, "turnwise_drills", talk)
            facts = {"pair": row["id"], "first": same + 1, "harm_at": row["harm_at"]} if len(halves) > 1 else {}
            yield from _examples([sequence], judgements, {sequence.sequence_id: "train"}, **facts)


def _examples(
    sequences: Iterable[Sequence],
    judgements: Mapping[str, list[Judgement]],
    splits: Mapping[str, str],
    *,
    prompts_only: bool = False,
    **given: Any,
) -> Iterator[Example]:
    kept = list(sequences)
    found: dict[str, dict[str, dict[int, list[Triples]]]] = {one.sequence_id: {} for one in kept}
    for name, made in judgements.items():
        mode = name.removesuffix(SECOND)
        for joined in join_judgements(kept, made):
            turns = found[joined.sequence.sequence_id].setdefault(mode, {})
            for one in joined.judgements:
                turns.setdefault(one.turn, []).append(_triples(one))
    for one in kept:
        judged = {
            mode: {turn: _mean(triples) for turn, triples in sorted(found[one.sequence_id][mode].items())}
            for mode in MODES
            if found[one.sequence_id].get(mode)
        }
        if judged:
            turns = tuple((turn.prompt, None if prompts_only else turn.response) for turn in one.conversation)
            facts = {"attack": str(one.label) == "attack", **given}
            yield Example(one.sequence_id, one.source, splits[one.sequence_id], turns, judged, **facts)


def _sequences(path: Path) -> Iterator[Sequence]:
    for one in open_dataset(path):
        if isinstance(one, BadRecord):
            raise ValueError(f"{path}, line {one.line}: {one.reason}")
        yield one


def _triples(one: Judgement) -> Triples:
    return tuple((one.scores[name].T, one.scores[name].I, one.scores[name].F) for name in PRINCIPLES)


def _mean(several: list[Triples]) -> Triples:
    return tuple(
        tuple(sum(values) / len(values) for values in zip(*triples, strict=True))  # type: ignore[misc]
        for triples in zip(*several, strict=True)
    )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
