"""Check the pairs of the corpus and their judgements, print a table; exit with 1 where a limit is missed.

    python corpus/check.py [--data PATH_TO_OTHER_DATA]

Limits hold for the pairs as a whole. With ``--data`` the texts are also compared with other data sets.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import Path

import krippendorff
import numpy as np
from check_judged import PRINCIPLES, Row, halves, judgements
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from tells import FEATURES, WordsOfTheDifference, share_of_fewer

from turnwise.datasets import Pair, Twin, load_twins
from turnwise.datasets.annotated import REPLIES
from turnwise.rates import Rate

CORPUS = Path(__file__).parent
GRADUAL_EXCEPT = "sudden_turn_late"
SPLITS = ("train", "dev", "test")
LEAST_HUMAN = {"train": 250, "test": 80}
MOST_BY_WORDS = 0.65
"""Share of unseen pairs that a bag of words may rank right; one half is chance."""


def main() -> None:
    """Check, print, and leave with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of other data sets to compare the texts with")
    arguments = parser.parse_args()
    twins = list(load_twins(CORPUS / "twins"))
    human = list(load_twins(CORPUS / "human"))
    parts = {
        "twins": [
            *structure(twins),
            *shortcuts(twins),
            *within(twins, "tactic"),
            *repeats(twins),
            *levels(twins),
            *agreement(twins, CORPUS / "second_pass.jsonl"),
            *balance(twins),
        ],
        "human-style pairs": [*human_structure(human), *within(human, "manner"), *repeats(human)],
        "judgements": list(judgements(twins, human, arguments.data)),
    }
    if arguments.data:
        parts["twins"] += foreign(twins, arguments.data)
        parts["human-style pairs"] += foreign(human, arguments.data)
    for name, rows in parts.items():
        print(f"\n{name}")
        for row in rows:
            print(f"{'ok ' if row.good else 'BAD'}  {row.what:<62} {row.figure:<28} {row.limit}")
    print_balance(twins, ("tactic", "area", "speakers", "register", "language"))
    print_balance(human, ("manner", "profile", "register", "language"))
    sys.exit(not all(row.good for rows in parts.values() for row in rows))


def structure(pairs: Sequence[Pair]) -> Iterable[Row]:
    """Counts, and what every pair must have."""
    yield Row("pairs", str(len(pairs)), "at least 300", len(pairs) >= 300)
    exchanges = [half.sequence.conversation.get_turn_count() for _, half in halves(pairs)]
    yield Row(
        "exchanges",
        f"{min(exchanges)} to {max(exchanges)}",
        "3 to 20",
        3 <= min(exchanges) <= max(exchanges) <= 20,
    )
    long = sum(count > 10 for count in exchanges) / len(exchanges)
    yield Row("share of conversations over 10 exchanges", f"{long:.2f}", "about 0.10", 0.07 <= long <= 0.14)
    shared = min(pair.shared for pair in pairs)
    yield Row("exchanges that a pair shares, least", str(shared), "at least 2", shared >= 2)
    other = sum(pair.attack.sequence.metadata["language"] != "en" for pair in pairs)
    yield Row("pairs in other languages than English", str(other), "at least 20", other >= 20)
    wrong = [problem for pair in pairs for problem in inconsistencies(pair)]
    yield Row("inconsistent annotations", wrong[0] if wrong else "none", "none", not wrong)
    known = all(reply in REPLIES for _, half in halves(pairs) for reply in half.replies if reply)
    yield Row("replies marked " + ", ".join(REPLIES), "all" if known else "not all", "all", known)


def inconsistencies(pair: Pair) -> Iterable[str]:
    """Yield what in the annotation of a pair contradicts the guideline."""
    for principle in PRINCIPLES:
        if pair.attack.scores[principle][: pair.shared] != pair.benign.scores[principle][: pair.shared]:
            yield f"{pair.name}: {principle} differs on the shared part"
    turns = pair.attack.sequence.conversation.get_turn_count()
    if turns != pair.benign.sequence.conversation.get_turn_count():
        yield f"{pair.name}: halves of different length"
    turned, harm = pair.attack.turned_at, pair.attack.harm_at
    if turned is None or harm is None or not pair.shared < turned <= harm <= turns:
        yield f"{pair.name}: turned_at {turned}, harm_at {harm}, shared {pair.shared}, turns {turns}"
    elif peak_f(pair.attack)[turned - 1] < 0.5 or max(peak_f(pair.attack)[: turned - 1]) >= 0.5:
        yield f"{pair.name}: F does not reach 0.5 first at turned_at"
    if (pair.benign.turned_at, pair.benign.harm_at) != (None, None):
        yield f"{pair.name}: a benign half that turns"


def peak_f(half: Twin) -> list[float]:
    """Return the highest annotated F over the principles, turn by turn."""
    return [max(scores) for scores in zip(*(tuple(s.F for s in half.scores[p]) for p in PRINCIPLES), strict=True)]


def after_split(pair: Pair, half: Twin) -> list[str]:
    """Return the user messages after the shared part."""
    return [turn.prompt for turn in half.sequence.conversation][pair.shared :]


def shortcuts(pairs: Sequence[Pair]) -> Iterable[Row]:
    """What a model could know without understanding: the words of the first turn, lengths, punctuation."""
    items = halves(pairs)
    label = np.array([half is pair.attack for pair, half in items])
    yield Row("shared part", "equal word for word", "AUC 0.5", True)
    english = [index for index, (pair, _) in enumerate(items) if pair.attack.sequence.metadata["language"] == "en"]
    texts = [after_split(*items[index])[0] for index in english]
    groups = [items[index][0].name for index in english]
    bag = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True), LogisticRegression(C=4.0)
    )
    folds = GroupKFold(10)
    guess = cross_val_predict(bag, texts, label[english], groups=groups, cv=folds, method="predict_proba")[:, 1]
    words = float(roc_auc_score(label[english], guess))
    yield Row("bag of words, first turn after the split, AUC", f"{words:.2f}", "at most 0.70", words <= 0.70)
    for name, feature in SURFACE.items():
        values = [feature(pair, half) for pair, half in items]
        area = float(roc_auc_score(label, values))
        yield Row(f"{name}, AUC", f"{area:.2f}", "0.45 to 0.55", 0.45 <= area <= 0.55)


def within(pairs: Sequence[Pair], kind: str) -> Iterable[Row]:
    """What could tell the halves of one pair apart: how much the user says and how, and which words."""
    for name, feature in FEATURES.items():
        whole = share_of_fewer(pairs, feature)
        yield Row(
            f"attack half has fewer {name}, share of pairs",
            f"{whole.value:.3f}",
            "0.42 to 0.58",
            0.42 <= whole.value <= 0.58,
        )
        odd = []
        for key, group in [*grouped(pairs, kind), *grouped(pairs, "split")]:
            share = share_of_fewer(group, feature)
            if not share.by_chance:
                odd.append(f"{key} {share.value:.2f} of {share.pairs}")
        yield Row(f"  by {kind} and split, beyond chance", ", ".join(odd) or "none", "none", not odd)
    train = [pair for pair in pairs if pair.split == "train"]
    others = [pair for pair in pairs if pair.split != "train"]
    margins = WordsOfTheDifference(train).margins(others)
    right = Rate(sum(margin > 0 for margin in margins), len(others))
    yield Row(
        "words of the difference, unseen pairs ranked right",
        str(right),
        "at most 0.65",
        right.count <= MOST_BY_WORDS * right.of,
    )
    for key, group in grouped(others, "split"):
        names = {pair.name for pair in group}
        part = sum(margin > 0 for margin, pair in zip(margins, others, strict=True) if pair.name in names)
        yield Row(f"  {key}", str(Rate(part, len(group))), "", True)


def human_structure(pairs: Sequence[Pair]) -> Iterable[Row]:
    """Counts of the human-style pairs, and what each must have."""
    for split, least in LEAST_HUMAN.items():
        count = sum(pair.split == split for pair in pairs)
        yield Row(
            f"human-style attacks for {split}, each with its counterpart",
            str(count),
            f"at least {least}",
            count >= least,
        )
    manners = Counter(pair.attack.sequence.metadata["manner"] for pair in pairs)
    yield Row(
        "manners, pairs of the rarest",
        f"{len(manners)}, {min(manners.values())}",
        "12, 15",
        len(manners) >= 12 and min(manners.values()) >= 15,
    )
    uneven = sum(len({has_replies(half) for half in (pair.attack, pair.benign)}) > 1 for pair in pairs)
    yield Row("pairs in which one half alone has replies", str(uneven), "none", not uneven)


def has_replies(half: Twin) -> bool:
    """Return whether anything is answered in a conversation."""
    return any(turn.response is not None for turn in half.sequence.conversation)


def grouped(pairs: Sequence[Pair], key: str) -> list[tuple[str, list[Pair]]]:
    """Return pairs by their split, or by something that their attack says of itself."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        name = pair.split if key == "split" else pair.attack.sequence.metadata[key]
        groups.setdefault(str(name), []).append(pair)
    return sorted(groups.items())


def _replies(pair: Pair, half: Twin) -> list[str]:
    return [turn.response or "" for turn in half.sequence.conversation][pair.shared :]


def _marks(marks: str) -> Callable[[Pair, Twin], float]:
    return lambda pair, half: sum(text.count(mark) for text in after_split(pair, half) for mark in marks)


SURFACE: dict[str, Callable[[Pair, Twin], float]] = {
    "number of turns": lambda pair, half: half.sequence.conversation.get_turn_count(),
    "characters of the user after the split": lambda pair, half: sum(map(len, after_split(pair, half))),
    "length of the first turn after the split": lambda pair, half: len(after_split(pair, half)[0]),
    "length of the last user turn": lambda pair, half: len(after_split(pair, half)[-1]),
    "characters of the replies after the split": lambda pair, half: sum(map(len, _replies(pair, half))),
    "replies that are there": lambda pair, half: sum(map(bool, _replies(pair, half))),
    "question marks": _marks("?"),
    "exclamation marks": _marks("!"),
    "commas": _marks(","),
    "full stops": _marks("."),
    "quotation marks": _marks("\"“”'’"),
    "colons, dashes and brackets": _marks(":;-–—()[]"),
}
"""Features of the surface that must not tell the halves apart."""


def grams(texts: Iterable[str], size: int) -> set[tuple[str, ...]]:
    """Return the runs of `size` words in texts."""
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    return {tuple(run[start : start + size]) for run in words for start in range(len(run) - size + 1)}


def own_texts(pair: Pair) -> list[str]:
    """Return all messages of a pair, shared ones once."""
    texts = []
    for half in (pair.attack, pair.benign):
        for turn in half.sequence.conversation:
            texts += [turn.prompt, turn.response or ""]
    return list(dict.fromkeys(texts))


def repeats(pairs: Sequence[Pair]) -> Iterable[Row]:
    """Near-duplicates and templates."""
    tails = {
        pair.name: grams([text for half in (pair.attack, pair.benign) for text in after_split(pair, half)], 6)
        for pair in pairs
    }
    worst = max(
        (
            (len(a & b) / len(a | b), one, other)
            for (one, a), (other, b) in combinations(tails.items(), 2)
            if a and b
        ),
        default=(0.0, "", ""),
    )
    yield Row(
        "nearest two pairs, 6-gram Jaccard",
        f"{worst[0]:.3f} ({worst[1]}, {worst[2]})",
        "below 0.5",
        worst[0] < 0.5,
    )
    counts = Counter(run for pair in pairs for run in grams(own_texts(pair), 8))
    run, most = max(counts.items(), key=lambda item: (item[1], item[0]))
    share = most / len(pairs)
    yield Row(
        "most frequent 8-gram, share of pairs", f"{share:.3f} ({' '.join(run)})", "at most 0.01", share <= 0.01
    )
    openings = Counter(
        " ".join(pair.attack.sequence.conversation.turn(1).prompt.lower().split()[:4]) for pair in pairs
    )
    opening, most = openings.most_common(1)[0]
    yield Row(
        "most frequent opening of four words",
        f"{most} ({opening})",
        "at most 1 %",
        most <= max(1, len(pairs) // 100),
    )


def levels(pairs: Sequence[Pair]) -> Iterable[Row]:
    """Averages of the highest F over the principles."""
    benign = statistics.mean(f for pair in pairs for f in peak_f(pair.benign)[pair.shared :])
    harm = statistics.mean(f for pair in pairs for f in peak_f(pair.attack)[(pair.attack.harm_at or 1) - 1 :])
    yield Row("mean F, benign half after the split", f"{benign:.3f}", "at most 0.15", benign <= 0.15)
    yield Row("mean F, attack from harm_at on", f"{harm:.3f}", "at least 0.60", harm >= 0.60)
    gradual = [pair for pair in pairs if pair.attack.sequence.metadata["tactic"] != GRADUAL_EXCEPT]
    between = [f for pair in gradual for f in peak_f(pair.attack)[pair.shared : (pair.attack.harm_at or 1) - 1]]
    before = statistics.mean(f for pair in gradual for f in peak_f(pair.attack)[: pair.shared])
    middle = statistics.mean(between)
    figure = f"{before:.3f} < {middle:.3f} < {harm:.3f}"
    yield Row("mean F, gradual tactics: shared, between, from harm_at", figure, "rising", before < middle < harm)


def agreement(pairs: Sequence[Pair], path: Path) -> Iterable[Row]:
    """Agreement of a second annotation, blind to the first."""
    if not path.exists():
        yield Row("second annotation", "not there", "80 conversations", False)
        return
    first = {half.sequence.sequence_id: half.scores for _, half in halves(pairs)}
    second = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    yield Row("conversations annotated twice", str(len(second)), "at least 80", len(second) >= 80)
    for principle in PRINCIPLES:
        for component in "TIF":
            one, other = [], []
            for record in second:
                one += [getattr(score, component) for score in first[record["id"]][principle]]
                other += [score[component] for score in record["scores"][principle]]
            alpha = krippendorff.alpha([one, other], level_of_measurement="interval")
            gap = statistics.mean(abs(a - b) for a, b in zip(one, other, strict=True))
            figure = f"alpha {alpha:.2f}, mean difference {gap:.3f}"
            bound = component == "F"
            yield Row(
                f"agreement, {principle} {component}",
                figure,
                "alpha at least 0.70" if bound else "",
                not bound or alpha >= 0.70,
            )


def balance(pairs: Sequence[Pair]) -> Iterable[Row]:
    """Whether every split holds what it must."""
    tactics = {pair.attack.sequence.metadata["tactic"] for pair in pairs}
    held = {pair.attack.sequence.metadata["tactic"] for pair in pairs if pair.split == "held_out_tactic"}
    cells = Counter((pair.attack.sequence.metadata["tactic"], pair.split) for pair in pairs)
    empty = [f"{tactic} in {split}" for tactic in tactics - held for split in SPLITS if not cells[tactic, split]]
    yield Row("tactic by split, empty cells", ", ".join(empty) or "none", "none", not empty)
    seen = {pair.attack.sequence.metadata["tactic"] for pair in pairs if pair.split in SPLITS}
    areas_out = {pair.attack.sequence.metadata["area"] for pair in pairs if pair.split == "held_out_area"}
    areas_in = {pair.attack.sequence.metadata["area"] for pair in pairs if pair.split in SPLITS}
    clean = bool(held) and bool(areas_out) and not (held & seen) and not (areas_out & areas_in)
    figure = f"{', '.join(sorted(held | areas_out))}"
    yield Row("tactics and areas held out", figure, "in no other split", clean)


def foreign(pairs: Sequence[Pair], data: Path) -> Iterable[Row]:
    """Whether a run of ten words stands in another data set too."""
    own = {run: pair.name for pair in pairs for run in grams(own_texts(pair), 10)}
    found: dict[str, str] = {}
    for path in sorted(data.rglob("*.jsonl")):
        for line in path.open(encoding="utf-8"):
            record = json.loads(line)
            texts = [turn["content"] for turn in record.get("turns", [])] or [str(record.get("text", ""))]
            for run in grams(texts, 10) & own.keys():
                found[own[run]] = f"{path.name}: {' '.join(run)}"
    yield Row("pairs that share ten words in a row with other data", str(found or "none")[:90], "none", not found)


def print_balance(pairs: Sequence[Pair], keys: Iterable[str]) -> None:
    """Print how the pairs are spread."""
    for key in keys:
        table = Counter((pair.attack.sequence.metadata[key], pair.split) for pair in pairs)
        splits = sorted({split for _, split in table}, key=str)
        print(f"\n{key:<28}" + "".join(f"{split!s:>17}" for split in splits))
        for value in sorted({value for value, _ in table}):
            print(f"{value:<28}" + "".join(f"{table[value, split]:>17}" for split in splits))


if __name__ == "__main__":
    main()
