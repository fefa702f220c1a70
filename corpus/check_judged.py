"""What must hold of the judgements: whole, of these very texts, by readers who were kept apart, in agreement."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import krippendorff

from turnwise.datasets import (
    BadRecord,
    Judgement,
    Pair,
    Twin,
    join_judgements,
    judgement_files,
    open_dataset,
    read_judgements,
)
from turnwise.datasets.annotated import SECOND
from turnwise.rates import Rate

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
JUDGED = Path(__file__).parent / "judged"
OWN = ("twin-", "human-", "attack_", "benign_")
"""How the ids of twins, human-style conversations and scenarios begin."""


class Row(NamedTuple):
    """A line of the table."""

    what: str
    figure: str
    limit: str
    good: bool


def halves(pairs: Iterable[Pair]) -> list[tuple[Pair, Twin]]:
    """Return every conversation with its pair."""
    return [(pair, half) for pair in pairs for half in (pair.attack, pair.benign)]


def judgements(twins: Sequence[Pair], human: Sequence[Pair], data: Path | None) -> Iterable[Row]:
    """What readers said: complete, of these very texts, by readers who were kept apart, and in agreement."""
    found = {name: list(read_judgements(path)) for name, path in judgement_files(JUDGED).items()}
    readings = json.loads((JUDGED / "readings.json").read_text(encoding="utf-8"))
    everything = [one for some in found.values() for one in some]
    new = [one for one in everything if not one.reading.startswith("first-")]
    yield Row("turns read beyond the first readings", f"{len(new):,}", "at least 12,000", len(new) >= 12_000)
    for name, some in found.items():
        turns = len({(one.sequence_id, one.turn) for one in some})
        chats = len({one.sequence_id for one in some})
        yield Row(f"  {name}", f"{turns:,} turns of {chats:,} conversations", "no turn twice", turns == len(some))
    unknown = {one.reading for one in everything} - readings.keys()
    yield Row("readings that nothing is known of", str(sorted(unknown) or "none"), "none", not unknown)
    odd = sum(set(one.scores) != set(PRINCIPLES) for one in everything)
    yield Row("turns without one of the principles", str(odd), "none", not odd)
    second = sum(len(some) for name, some in found.items() if name.endswith(SECOND))
    share = second / max(1, len(new) - second)
    yield Row(
        "share of the new readings that a second reader made too", f"{share:.3f}", "at least 0.10", share >= 0.10
    )
    yield from own_texts_read(twins, human, found)
    yield from reader_agreement(found)
    for name in ("reciprocity", "context_integrity"):
        apart = sum(one.scores[name].F >= 0.5 > one.scores["third_party_harm"].F for one in found["history"])
        yield Row(
            f"turns with {name} at 0.5 or above, third-party harm below", str(apart), "at least 150", apart >= 150
        )
    splits = json.loads((JUDGED / "splits.json").read_text(encoding="utf-8"))["splits"]
    wrong = [
        half.sequence.sequence_id
        for pair in (*twins, *human)
        for half in (pair.attack, pair.benign)
        if splits.get(half.sequence.sequence_id) != pair.split
    ]
    yield Row("halves of pairs whose judged split is another", str(wrong or "none")[:60], "none", not wrong)
    if data:
        yield from others_texts_read(data, everything, splits)


def own_texts_read(
    twins: Sequence[Pair], human: Sequence[Pair], found: Mapping[str, Sequence[Judgement]]
) -> Iterable[Row]:
    """Whether every turn of our own pairs was read, as it stands now, and the halves by different readers."""
    for kind, pairs in (("twins", twins), ("human-style pairs", human)):
        sequences = [half.sequence for _, half in halves(pairs)]
        joined = {one.sequence.sequence_id: one for one in join_judgements(sequences, found["history"])}
        unread = [
            s.sequence_id
            for s in sequences
            if s.sequence_id not in joined
            or len(joined[s.sequence_id].judgements) < s.conversation.get_turn_count()
        ]
        yield Row(
            f"{kind}: conversations not read whole", f"{len(unread)} of {len(sequences)}", "none", not unread
        )
        void = sum(one.void for one in joined.values())
        yield Row(f"{kind}: scores of another text", str(void), "none", not void)
        by = {name: {one.reading for one in chat.judgements} for name, chat in joined.items()}
        same = [p.name for p in pairs if by.get(f"{p.name}-attack", set()) & by.get(f"{p.name}-benign", set())]
        same = [name for name in same if not all(r.startswith("first-") for r in by[f"{name}-attack"])]
        yield Row(f"{kind}: pairs whose halves one reader read", str(len(same)), "none", not same)
        for label, side in (("attacks", "attack"), ("benign halves", "benign")):
            peaks = [
                max(j.peak_f for j in one.judgements)
                for name, one in joined.items()
                if name.endswith(side) and one.judgements
            ]
            rate = Rate(sum(peak >= 0.5 for peak in peaks), len(peaks))
            yield Row(f"{kind}: {label} with some F at 0.5 or above, blind readers", str(rate), "", True)


def reader_agreement(found: Mapping[str, Sequence[Judgement]]) -> Iterable[Row]:
    """Agreement of independent readers, over what we wrote and the scenarios."""
    first = {(one.sequence_id, one.turn): one for one in found["history"]}
    both = [
        (first[key], one)
        for one in found.get(f"history{SECOND}", ())
        if (key := (one.sequence_id, one.turn)) in first
    ]
    own = [pair for pair in both if pair[0].sequence_id.startswith(OWN)]
    for what, some in (("twins, scenarios and human-style", own), ("all conversations", both)):
        units = [(a.scores[p].F, b.scores[p].F) for a, b in some for p in PRINCIPLES]
        for where, chosen in (
            ("", units),
            (" where either is 0.25 or above", [u for u in units if max(u) >= 0.25]),
        ):
            alpha = krippendorff.alpha(list(zip(*chosen, strict=True)), level_of_measurement="interval")
            bound = not where and what != "all conversations"
            yield Row(
                f"two readers, F, {what}{where}",
                f"alpha {alpha:.2f}, {len(chosen)} scores",
                "alpha at least 0.80" if bound else "",
                not bound or alpha >= 0.80,
            )


def others_texts_read(data: Path, everything: Sequence[Judgement], splits: Mapping[str, str]) -> Iterable[Row]:
    """Whether scores of other people's texts are of these very texts, and goals stay on one side of a split."""
    by_file: Counter[str] = Counter()
    goals: dict[str, set[str]] = {}
    for path in sorted((*data.glob("train/*.jsonl"), *data.glob("dev/*.jsonl"))):
        for one in join_judgements(
            (r for r in open_dataset(str(path)) if not isinstance(r, BadRecord)), everything
        ):
            by_file["void"] += one.void
            by_file["read"] += len(one.judgements)
            goal = one.sequence.metadata.get("goal")
            if goal and one.sequence.sequence_id in splits:
                goals.setdefault(goal, set()).add(splits[one.sequence.sequence_id])
    yield Row(
        "other people's turns: scores, of another text",
        f"{by_file['read']:,}, {by_file['void']}",
        "0",
        not by_file["void"],
    )
    torn = sum(len(parts) > 1 for parts in goals.values())
    yield Row("goals in more than one split", str(torn), "none", not torn)
