"""Judged conversations that the reader learns from or is measured on, with their split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from training.carried import rated_replies, same_requests, translated
from training.examples import TRAIN, Example, Triples
from turnwise.conversation import Label, from_messages
from turnwise.conversation import Sequence as Given
from turnwise.datasets import (
    BadRecord,
    Judgement,
    join_judgements,
    judgement_files,
    load_twins,
    open_dataset,
    read_judgements,
)
from turnwise.datasets.annotated import MODES, SECOND, by_conversation
from turnwise.observers.local.weights import PRINCIPLES

CORPUS = Path(__file__).parents[1] / "corpus"
PROMPTS_ONLY = "user turns only"
PAIRS = ("twins", "human", "drills/pairs", "operations/pairs")
MEASURED_APART = (
    "casino_negotiations", "crosswoz_zh", "dices_990", "multidogo_customers", "multijail", "search_arena",
)  # fmt: skip
"""Sources that are measured on files of their own in ``dev/``: all of ``train/`` serves training."""

PARTED = 0.2
"""Difference of the halves' highest F, by readers, from which they are told apart in training."""

HELD_OUT = ("wildchat_real_users", "wildchat_ru")
"""Source that nothing is trained on, though it may be: real users of a service that the observer never met."""

ByConversation = Mapping[str, list[Judgement]]
"""Judgements by the id of their conversation."""


@dataclass(frozen=True, slots=True)
class Conversations:
    """What was read, and from which files."""

    examples: tuple[Example, ...]  # the judged conversations
    hashes: Mapping[str, str]  # SHA-256 of each file

    def of(self, *splits: str) -> list[Example]:
        """Return the examples of some splits."""
        return [one for one in self.examples if one.split in splits]


def read_conversations(data: Path) -> Conversations:
    """Read every judged conversation of the corpus and of the files that `MANIFEST.json` permits to train on."""
    manifest: dict[str, dict[str, Any]] = json.loads((data / "MANIFEST.json").read_text(encoding="utf-8"))
    splits: dict[str, str] = json.loads((CORPUS / "judged" / "splits.json").read_text(encoding="utf-8"))["splits"]
    judgements: dict[str, ByConversation] = {}
    hashes: dict[str, str] = {}
    for name, path in judgement_files(CORPUS / "judged").items():
        judgements[name] = by_conversation(read_judgements(path))
        hashes[f"corpus/judged/{path.name}"] = _hash(path)
    examples: list[Example] = []
    for name, entry in manifest.items():
        path = data / name
        if not entry["train"] or not name.startswith(("train/", "single/train/")) or path.stem in HELD_OUT:
            continue
        sequences = list(_sequences(path))
        if path.stem in MEASURED_APART:
            splits |= dict.fromkeys((one.sequence_id for one in sequences), TRAIN)
        sequences = [one for one in sequences if one.sequence_id in splits]
        if not sequences:
            continue  # nothing of it was judged
        hashes[name] = _hash(path)
        prompts_only = entry["train"] == PROMPTS_ONLY
        found = list(_examples(sequences, judgements, splits, prompts_only=prompts_only))
        examples += found
        if path.stem == "multijail":
            examples += same_requests(found, sequences)
        if path.stem == "dices_990":
            examples += rated_replies(sequences)
    for folder in (CORPUS / name for name in PAIRS):
        for path in sorted(folder.glob("*.jsonl")):
            hashes[f"corpus/{path.relative_to(CORPUS)}"] = _hash(path)
        examples += _pairs(folder, judgements, splits)
    for path, sequences in _unpaired():
        split = dict.fromkeys((one.sequence_id for one in sequences), TRAIN)
        found = list(_examples(sequences, judgements, split))
        if found:
            hashes[f"corpus/{path.relative_to(CORPUS)}"] = _hash(path)
            examples += found
    for path in sorted((CORPUS / "translations").glob("*.jsonl")):
        hashes[f"corpus/translations/{path.name}"] = _hash(path)
        examples += translated(path, examples)
    recipe = CORPUS / "judged" / "chains.json"
    hashes["corpus/judged/chains.json"] = _hash(recipe)
    examples += _chains(json.loads(recipe.read_text(encoding="utf-8")), examples, judgements)
    return Conversations(tuple(examples), hashes)


def _unpaired() -> Iterator[tuple[Path, list[Given]]]:
    """Yield the files of the corpus whose conversations are no halves of pairs, and these."""
    for name, read in (("drills/single", _sequences), ("drills/replies", _sequences), ("orders", read_orders)):
        for path in sorted((CORPUS / name).glob("*.jsonl")):
            yield path, list(read(path))


def read_orders(path: Path) -> Iterator[Given]:
    """Yield the orders to a model, and the mentions of them, of a file of ``corpus/orders`` as single prompts."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        record = json.loads(line)
        said = from_messages([{"role": "user", "content": record["text"]}])
        label = Label.ATTACK if record["use"] else Label.BENIGN
        yield Given(f"order-{path.stem}-{number}", label, "turnwise_orders", said)


def _pairs(folder: Path, judgements: Mapping[str, ByConversation], splits: Mapping[str, str]) -> Iterator[Example]:
    """Yield the judged halves of the pairs of a folder; pairs that have no split serve training alone."""
    if not folder.exists():
        return
    for pair in load_twins(folder):
        halves = (pair.attack.sequence, pair.benign.sequence)
        first = pair.attack.sequence.metadata.get("same_from", pair.first)
        given = {"pair": pair.name, "first": first, "harm_at": pair.attack.harm_at}
        known = dict.fromkeys((half.sequence_id for half in halves), pair.split or TRAIN)
        found = [
            one
            for half in halves
            for one in _examples([half], judgements, known | splits, **given, attack=half is halves[0])
        ]
        yield from found if _parted(found) else (replace(one, pair=None) for one in found)


def _parted(halves: Sequence[Example]) -> bool:
    """Return whether readers, too, put one half above the other, so that it is worth telling them apart."""
    peaks = {one.attack: _peak(one) for one in halves}
    return len(peaks) == 2 and peaks[True] >= peaks[False] + PARTED


def _peak(one: Example) -> float:
    turns = one.judged.get("history", {})
    return max((triple[2] for n, triples in turns.items() if n >= one.first for triple in triples), default=0.0)


def _chains(
    recipe: Mapping[str, Mapping[str, Any]], examples: Iterable[Example], judgements: Mapping[str, ByConversation]
) -> Iterator[Example]:
    """Yield the long chains, cut where a part does not serve training; each turn was read in its whole chain."""
    known = {one.id: one for one in examples}
    for name, chain in recipe.items():
        if any(part not in known for part in chain["parts"]):
            continue
        said = [(known[part].split, prompt) for part in chain["parts"] for prompt, _ in known[part].turns]
        talk = from_messages([{"role": "user", "content": prompt} for _, prompt in said])
        for whole in _examples([Given(name, Label.UNLABELLED, "chains", talk)], judgements, {name: TRAIN}):
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
    sequences: Iterable[Given],
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


def _sequences(path: Path) -> Iterator[Given]:
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
