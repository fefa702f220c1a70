"""Check operations and translations, print a table; exit with 1 where something is wrong.

python corpus/check_operations.py
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from check_judged import Row
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from turnwise.datasets import Judgement, Pair, join_judgements, load_twins, read_judgements

CORPUS = Path(__file__).parent
FLAG = 0.5
LEAST_TURNS = 400
"""Turns of each language's translations."""


def main() -> None:
    """Check, print, and leave with 1 where something is wrong."""
    read = list(read_judgements(CORPUS / "judged" / "history.jsonl"))
    rows = [*operations(list(load_twins(CORPUS / "operations" / "pairs")), read), *translations(read)]
    for row in rows:
        print(f"{'ok ' if row.good else 'BAD'}  {row.what:<62} {row.figure:<28} {row.limit}")
    sys.exit(not all(row.good for row in rows))


def prompts(pair: Pair) -> tuple[list[str], list[str]]:
    """Return the prompts of the attack and of the benign half."""
    attack, benign = ([t.prompt for t in one.sequence.conversation] for one in (pair.attack, pair.benign))
    return attack, benign


def operations(pairs: Sequence[Pair], read: Sequence[Judgement]) -> Iterable[Row]:
    """Same words after two beginnings: whole, read, and told apart by nothing but what was said."""
    families = Counter(str(pair.attack.sequence.metadata["family"]) for pair in pairs)
    yield Row("pairs", f"{len(pairs)} of {len(families)} families", "at least 12 families", len(families) >= 12)
    tested = sum(pair.split == "test" for pair in pairs)
    yield Row("pairs kept for testing", f"{tested}", "at least a third", 3 * tested >= len(pairs))
    whole = defaultdict(set)
    for pair in pairs:
        whole[str(pair.attack.sequence.metadata["family"])].add(pair.split)
    unseen = sorted(name for name, splits in whole.items() if splits == {"test"})
    yield Row("families kept for testing", ", ".join(unseen), "at least 3", len(unseen) >= 3)
    wrong = [pair.name for pair in pairs if not alike(pair)]
    yield Row("pairs whose later turns differ", str(wrong or "none")[:28], "none", not wrong)
    starts = [[" ".join(half[: start(pair) - 1]) for half in prompts(pair)] for pair in pairs]
    longer = statistics.mean(len(a.split()) > len(b.split()) for a, b in starts)
    yield Row("attack begins with more words", f"{longer:.2f}", "0.30 to 0.70", 0.30 <= longer <= 0.70)
    told = told_by_words(starts)
    yield Row("beginnings told apart by single words, AUC", f"{told:.2f}", "", True)
    halves = [half.sequence for pair in pairs for half in (pair.attack, pair.benign)]
    joined = {one.sequence.sequence_id: one for one in join_judgements(halves, read)}
    void = sum(one.void for one in joined.values())
    unread = [
        one.sequence_id for one in halves
        if one.sequence_id not in joined
        or len(joined[one.sequence_id].judgements) < one.conversation.get_turn_count()
    ]  # fmt: skip
    yield Row("conversations not read whole; scores of another text", f"{len(unread)}; {void}", "none", not unread)
    yield from flagged(pairs, {(one.sequence_id, one.turn): one.peak_f for one in read})


def flagged(pairs: Sequence[Pair], read: Mapping[tuple[str, int], float]) -> Iterable[Row]:
    """What readers flag of the later turns, which both halves have in the same words."""
    for kind in ("attack", "benign"):
        peaks = [
            read[half.sequence.sequence_id, turn]
            for pair in pairs
            for half in ((pair.attack if kind == "attack" else pair.benign),)
            for turn in range(start(pair), half.sequence.conversation.get_turn_count() + 1)
            if (half.sequence.sequence_id, turn) in read
        ]
        share = statistics.mean(peak >= FLAG for peak in peaks)
        yield Row(
            f"later turns after a {kind}'s beginning that a reader flags",
            f"{share:.2f} of {len(peaks):,}",
            "",
            True,
        )
    both = [
        read.get((f"{pair.name}-attack", turn), 0.0) >= FLAG > read.get((f"{pair.name}-benign", turn), 1.0)
        for pair in pairs
        for turn in range(start(pair), pair.attack.sequence.conversation.get_turn_count() + 1)
    ]
    yield Row(
        "later turns on which readers part",
        f"{sum(both):,} of {len(both):,}",
        "at least 60 %",
        sum(both) >= 0.6 * len(both),
    )


def start(pair: Pair) -> int:
    """Return the number of the first turn that both halves have in the same words."""
    return int(pair.attack.sequence.metadata["same_from"])


def alike(pair: Pair) -> bool:
    """Return whether the halves have the same words from that turn on, and other ones before it."""
    attack, benign = prompts(pair)
    cut = start(pair) - 1
    return attack[cut:] == benign[cut:] and attack[:cut] != benign[:cut] and len(attack) - cut >= 2


def told_by_words(starts: Sequence[Sequence[str]]) -> float:
    """Return how well a bag of words tells beginnings of attacks from others, pairs kept together."""
    texts = [text for both in starts for text in both]
    labels = [1, 0] * len(starts)
    groups = [number for number in range(len(starts)) for _ in range(2)]
    model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(C=4.0, max_iter=1000))
    found = cross_val_predict(model, texts, labels, groups=groups, cv=GroupKFold(5), method="decision_function")
    return float(roc_auc_score(labels, found))


def translations(read: Sequence[Judgement]) -> Iterable[Row]:
    """As many turns as the originals have, which were read."""
    turns = Counter(one.sequence_id for one in read)
    for path in sorted((CORPUS / "translations").glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        count = sum(len(one["turns"]) for one in records)
        wrong = [one["id"] for one in records if turns[one["id"]] != len(one["turns"])]
        yield Row(
            f"translations, {path.stem}",
            f"{count} turns, {len(wrong)} wrong",
            f"at least {LEAST_TURNS}",
            count >= LEAST_TURNS and not wrong,
        )


if __name__ == "__main__":
    main()
