"""Scores that carry over: from a conversation to its translation, and from raters of replies."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from training.examples import TRAIN, Example, Triples
from turnwise.conversation import Sequence as Conversation
from turnwise.observers.local.weights import PRINCIPLES

UNKNOWN = float("nan")
"""A value that nobody gave: nothing is learned of it."""


def translated(path: Path, examples: Iterable[Example]) -> Iterator[Example]:
    """Yield conversations of the corpus in the language that names a file, with the scores of the originals."""
    known = {one.id: one for one in examples}
    for record in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if (original := known.get(record["id"])) is None:
            continue
        if len(record["turns"]) != len(original.turns):
            raise ValueError(f"{path}: {record['id']} has other turns than its original")
        yield replace(
            original,
            id=f"{original.id}-{path.stem}",
            language=path.stem,
            turns=tuple((text, None) for text in record["turns"]),
            judged={"history": original.judged["history"]},
            pair=None,
        )


def same_requests(read: Sequence[Example], requests: Sequence[Conversation]) -> Iterator[Example]:
    """Yield requests in other languages, by the number in their id, with the scores of those read."""
    scores: dict[str, list[Triples]] = defaultdict(list)
    for one in read:
        scores[_number(one.id)].append(one.judged["history"][1])
    done = {one.id for one in read}
    for one in requests:
        told = scores.get(_number(one.sequence_id))
        if one.sequence_id in done or not told:
            continue
        mean = tuple(
            tuple(fmean(values) for values in zip(*triples, strict=True)) for triples in zip(*told, strict=True)
        )
        turns = tuple((turn.prompt, None) for turn in one.conversation)
        language = str(one.metadata["language"])
        yield Example(one.sequence_id, one.source, TRAIN, turns, {"history": {1: mean}}, language=language)


def rated_replies(conversations: Iterable[Conversation]) -> Iterator[Example]:
    """Yield conversations whose last reply many people rated: the share that calls it unsafe is its F."""
    for one in conversations:
        share = float(one.metadata["unsafe_share"])
        rated = {"third_party_harm": (1 - share, UNKNOWN, share)}
        triples = tuple(rated.get(name, (UNKNOWN,) * 3) for name in PRINCIPLES)
        turns = tuple((turn.prompt, turn.response) for turn in one.conversation)
        if turns[-1][1]:
            yield Example(f"{one.sequence_id}-rated", one.source, TRAIN, turns, {"replies": {len(turns): triples}})


def _number(identifier: str) -> str:
    return identifier.split("-")[1]
