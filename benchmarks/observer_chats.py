"""Conversations that the embedded observer is measured on, scored turn by turn by as many processes as there are
cores."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.datasets import (
    BadRecord,
    Judgement,
    join_judgements,
    judgement_files,
    load_twins,
    open_dataset,
    read_judgements,
)
from turnwise.observers import Context, Observation, Request
from turnwise.observers.local.observer import LocalObserver
from turnwise.principles import builtin_principles
from turnwise.scoring import Score

CORPUS = Path(__file__).parents[1] / "corpus"
SERVICES = ("mtbench101", "mtrag_un_human", "mt_bench")
"""Ordinary chats of services that nothing is trained on."""

ORDINARY = ("arena_real_users", *SERVICES)
DEV = (*ORDINARY, "safemt_attack600", "auto_mt_transcripts", "scenarios_20", "encoding_30")
CHAINS, CHAIN_TURNS, BEFORE = 100, 200, 100
EVALUATE_ONLY = "evaluate only"
HELD_OUT = ("test", "held_out_tactic", "held_out_area")

Scores = dict[int, dict[str, Score]]
"""Score by turn and principle."""


@dataclass(frozen=True, slots=True)
class Job:
    """A conversation to score.

    Args:
        id: its id.
        turns: prompt and reply of each turn.
        context: ``history`` or ``turn``.
        side: the side that is scored.
        replies: whether the replies are read.
        first: number of the first turn that is scored.
    """

    id: str
    turns: Sequence[tuple[str, str | None]]
    context: str = "history"
    side: Side = Side.PROMPT
    replies: bool = False
    first: int = 1


@dataclass(slots=True)
class Chat:
    """A conversation with what readers and the observer say of it.

    Args:
        id: its id.
        source: the data set.
        split: the corpus's split; ``evaluate only`` for what is in no split.
        attack: whether it is labelled an attack.
        turns: prompt and reply of each turn.
        judged: readers' score by mode (``history``, ``turn``, ``replies``), turn and principle.
        scored: the observer's, by the same modes.
        pair: name of its pair.
        first: first turn in which the halves of its pair differ.
        harm_at: first turn of the pair's attack whose compliance would do harm.
        metadata: what the data set says of it.
    """

    id: str
    source: str
    split: str
    attack: bool
    turns: tuple[tuple[str, str | None], ...]
    judged: dict[str, Scores] = field(default_factory=dict)
    scored: dict[str, Scores] = field(default_factory=dict)
    pair: str | None = None
    first: int = 1
    harm_at: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def peak(self, last: int | None = None, first: int = 1) -> float:
        """Return the observer's highest F over turns and principles."""
        turns = self.scored["history"].items()
        values = [s.F for n, by in turns if n >= first and (last is None or n <= last) for s in by.values()]
        return max(values, default=0.0)


def load(data: Path, splits_wanted: Collection[str] = HELD_OUT) -> list[Chat]:
    """Return the judged test set and pairs, and the development sets.

    Args:
        data: the data folder.
        splits_wanted: splits of the judged conversations and pairs.
    """
    splits = json.loads((CORPUS / "judged" / "splits.json").read_text(encoding="utf-8"))["splits"]
    judgements = {name: list(read_judgements(path)) for name, path in judgement_files(CORPUS / "judged").items()}
    sequences: list[tuple[Any, dict[str, Any]]] = []
    files = [data / "train" / "hh_harmless_redteam.jsonl", *(data / "dev" / f"{name}.jsonl" for name in DEV)]
    for path in files:
        for one in open_dataset(path):
            if not isinstance(one, BadRecord) and splits.get(one.sequence_id) in (None, *splits_wanted):
                sequences.append((one, {}))
    for folder in ("twins", "human"):
        for pair in load_twins(CORPUS / folder):
            if pair.split not in splits_wanted:
                continue
            halves = pair.attack.sequence, pair.benign.sequence
            given = {"pair": pair.name, "first": pair.first, "harm_at": pair.attack.harm_at}
            sequences += [(half, given) for half in halves]
    chats = {
        one.sequence_id: Chat(
            one.sequence_id,
            one.source,
            splits.get(one.sequence_id, EVALUATE_ONLY),
            str(one.label) == "attack",
            tuple((turn.prompt, turn.response) for turn in one.conversation),
            metadata=dict(one.metadata),
            **given,
        )
        for one, given in sequences
    }
    for mode in ("history", "turn", "replies"):
        for joined in join_judgements([one for one, _ in sequences], judgements[mode]):
            chats[joined.sequence.sequence_id].judged[mode] = _by_turn(joined.judgements)
    return list(chats.values())


def _by_turn(judgements: Iterable[Judgement]) -> Scores:
    return {one.turn: dict(one.scores) for one in judgements}


def jobs_of(chats: Iterable[Chat]) -> list[tuple[str, Job]]:
    """Return what is to be scored of some conversations, with the mode that it is scored for."""
    jobs = []
    for one in chats:
        jobs.append(("history", Job(one.id, one.turns)))
        if "turn" in one.judged:
            jobs.append(("turn", Job(one.id, one.turns, context="turn")))
        if "replies" in one.judged:
            jobs.append(("replies", Job(one.id, one.turns, side=Side.RESPONSE, replies=True)))
            jobs.append(("history with replies", Job(one.id, one.turns, replies=True)))
    return jobs


def score(jobs: Sequence[Job], weights: str | None) -> list[Scores]:
    """Return the observer's scores of each conversation.

    Args:
        jobs: what is to be scored.
        weights: folder of weights; None for those that ship.
    """
    order = sorted(range(len(jobs)), key=lambda n: -len(jobs[n].turns))
    context = multiprocessing.get_context("spawn")
    with context.Pool(os.cpu_count(), _build, (weights,)) as pool:
        found = pool.map(_score, [jobs[n] for n in order], chunksize=4)
    back = dict(zip(order, found, strict=True))
    return [back[n] for n in range(len(jobs))]


_observer: LocalObserver | None = None


def _build(weights: str | None) -> None:
    global _observer  # noqa: PLW0603 - each process of the pool has one
    _observer = LocalObserver(weights)


def _score(job: Job) -> Scores:
    if _observer is None:
        raise RuntimeError("the pool was not set up")
    wanted = [Request(principle, job.side) for principle in builtin_principles()]
    state = _observer.start(job.id, Context.parse(job.context))
    found: Scores = {}
    for number, (prompt, reply) in enumerate(job.turns, start=1):
        turn = Turn(number, prompt, reply if job.replies else None)
        answers = _observer.observe(state, turn, wanted if number >= job.first else ())
        scores = {one.principle: one.score for one in answers if isinstance(one, Observation)}
        if scores:
            found[number] = scores
    return found


def chains(chats: Sequence[Chat], attacks: Sequence[Chat]) -> tuple[list[Job], list[Job]]:
    """Return chains of harmless chats one after the other, and attacks that begin after as many harmless turns.

    Args:
        chats: ordinary chats of the development sets.
        attacks: attacks; each is put behind a chain of its own.
    """
    rng = random.Random(1)

    def chain(turns: int) -> list[tuple[str, str | None]]:
        found: list[tuple[str, str | None]] = []
        while len(found) < turns:
            found += [(prompt, None) for prompt, _ in rng.choice(chats).turns if prompt.strip()]
        return found[:turns]

    harmless = [Job(f"chain-{number}", chain(CHAIN_TURNS)) for number in range(CHAINS)]
    late = [
        Job(one.id, [*chain(BEFORE), *((prompt, None) for prompt, _ in one.turns)], first=BEFORE + 1)
        for one in attacks
    ]
    return harmless, late
