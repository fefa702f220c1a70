"""Judged conversations that the reader learns from or is measured on, with their split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.datasets import BadRecord, open_dataset
from turnwise.datasets.judged import (
    MODES,
    SECOND,
    Judgement,
    by_conversation,
    join_judgements,
    judgement_files,
    read_judgements,
)
from turnwise.datasets.twins import load_twins
from turnwise.observers.local.weights import PRINCIPLES

CORPUS = Path(__file__).parents[1] / "corpus"
PROMPTS_ONLY = "user turns only"
PAIRS = ("twins", "human")
TRAIN = "train"

ByConversation = Mapping[str, list[Judgement]]
"""Judgements by the id of their conversation."""

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
    judgements: dict[str, ByConversation] = {}
    hashes: dict[str, str] = {}
    for name, path in judgement_files(CORPUS / "judged").items():
        judgements[name] = by_conversation(read_judgements(path))
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
    for folder in (*(CORPUS / name for name in PAIRS), CORPUS / "drills" / "pairs"):
        for path in sorted(folder.glob("*.jsonl")):
            hashes[f"corpus/{path.relative_to(CORPUS)}"] = _hash(path)
        examples += _pairs(folder, judgements, splits)
    for path in sorted((CORPUS / "drills" / "single").glob("*.jsonl")):
        hashes[f"corpus/{path.relative_to(CORPUS)}"] = _hash(path)
        sequences = list(_sequences(path))
        examples += _examples(sequences, judgements, dict.fromkeys((one.sequence_id for one in sequences), TRAIN))
    recipe = CORPUS / "judged" / "chains.json"
    hashes["corpus/judged/chains.json"] = _hash(recipe)
    examples += _chains(json.loads(recipe.read_text(encoding="utf-8")), examples, judgements)
    return Conversations(tuple(examples), hashes)


def _pairs(folder: Path, judgements: Mapping[str, ByConversation], splits: Mapping[str, str]) -> Iterator[Example]:
    """Yield the judged halves of the pairs of a folder; pairs that have no split serve training alone."""
    if not folder.exists():
        return
    for pair in load_twins(folder):
        halves = (pair.attack.sequence, pair.benign.sequence)
        given = {"pair": pair.name, "first": pair.first, "harm_at": pair.attack.harm_at}
        known = splits if pair.split else dict.fromkeys((half.sequence_id for half in halves), TRAIN)
        for half in halves:
            yield from _examples([half], judgements, known, **given, attack=half is halves[0])


def _chains(
    recipe: Mapping[str, Mapping[str, Any]], examples: Iterable[Example], judgements: Mapping[str, ByConversation]
) -> Iterator[Example]:
    """Yield the long chains, cut where a part does not serve training; each turn was read in its whole chain."""
    known = {one.id: one for one in examples}
    for name, chain in recipe.items():
        if any(part not in known for part in chain["parts"]):
            continue
        said = [(known[part].split, prompt) for part in chain["parts"] for prompt, _ in known[part].turns]
        talk = Conversation.from_messages([{"role": "user", "content": prompt} for _, prompt in said])
        for whole in _examples([Sequence(name, Label.UNLABELLED, "chains", talk)], judgements, {name: TRAIN}):
            start = 0
            for split, run in groupby(split for split, _ in said):
                stop = start + len(list(run))
                history = whole.judged["history"]
                judged = {turn - start: triples for turn, triples in history.items() if start < turn <= stop}
                if split == TRAIN and judged:
                    yield replace(
                        whole,
                        id=f"{name}-{start + 1}",
                        turns=tuple((prompt, None) for _, prompt in said[start:stop]),
                        judged={"history": judged},
                    )
                start = stop


def _examples(
    sequences: Iterable[Sequence],
    judgements: Mapping[str, ByConversation],
    splits: Mapping[str, str],
    *,
    prompts_only: bool = False,
    **given: Any,
) -> Iterator[Example]:
    kept = list(sequences)
    found: dict[str, dict[str, dict[int, list[Triples]]]] = {one.sequence_id: {} for one in kept}
    for name, made in judgements.items():
        mode = name.removesuffix(SECOND)
        asked = (judgement for one in kept for judgement in made.get(one.sequence_id, ()))
        for joined in join_judgements(kept, asked):
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
