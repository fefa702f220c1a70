"""Make what tells an order to the model against its instructions from a mention of one.

    python -m training.orders --data PATH_TO_DATA [--scores FILE]

Reads the pairs of ``corpus/orders``, the tuned cases of ``benchmarks/guard_cases``, and permitted prompts of the
data folder; fits weights of words, and beside them weights of the scores of the observer ``local``; sets levels on
what a model that was fitted without the text says of it; and writes ``orders.bin`` and ``orders.yaml`` beside the
guardrail. ``--scores`` keeps the observer's scores from one run to the next.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from turnwise.conversation import Side, Turn
from turnwise.guard import guardrails
from turnwise.guard.recognisers.order_models import BITS, log_odds
from turnwise.guard.recognisers.order_models import word_pieces as pieces
from turnwise.observers import Context, Observation, Request
from turnwise.observers.local import LocalObserver
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.principles import builtin_principles
from turnwise.scoring import Score

ROOT = Path(__file__).parents[1]
PAIRS = ROOT / "corpus" / "orders"
CASES = ROOT / "benchmarks" / "guard_cases"
TUNED = ("tuning", "opened/first", "opened/second", "near", "near/tuned")
"""Sets of cases that the guardrail may learn from; ``use/tuned.jsonl`` is another."""

USE = CASES / "use" / "tuned.jsonl"
JAILBREAKS = ("self_reminder_jailbreaks", "giskard_injections")
ORDINARY = (
    "arena_real_users",
    "casino_negotiations",
    "crosswoz_zh",
    "multidogo_customers",
    "search_arena",
    "wildchat_real_users",
    "wildchat_ru",
)
HARMFUL = (
    "advbench",
    "catqa",
    "convabuse",
    "dices_990",
    "harmfulqa",
    "hh_harmless_redteam",
    "openai_moderation",
    "safemt_1k",
)
"""Harm or abuse without an order against instructions; learned from, and not counted as ordinary talk."""

SERVICE = "mtbench101"
"""Ordinary talk that nothing is learned from."""

KINDS: Mapping[str, str] = {
    **dict.fromkeys(ORDINARY, "ordinary"),
    **dict.fromkeys(HARMFUL, "harmful"),
    **dict.fromkeys(JAILBREAKS, "jailbreaks"),
    SERVICE: "service",
}

DRAWN = 8_000
"""Prompts of a source that words are learned from."""

SCORED: Mapping[str, int] = {"ordinary": 500, "harmful": 150, "jailbreaks": 500, "service": 500}
"""Those of them that the observer reads, by kind: it takes a hundred times as long."""

SEED = 7
FOLDS, REPEATS = 5, 2
STRENGTH = 30.0
"""Inverse of the penalty on the weights of words (chosen on the tuned cases)."""

OWN = 3.0
"""Weight of a tuned case beside 1 for any other text: they are few."""

Read = Callable[[str], Iterable[NDArray[np.int32]]]

WORDS, WITH_SCORES = "words", "with_scores"
LEVELS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    WORDS: {"warn": {"ordinary": 0.0007, "mentions": 0.015}, "block": {"ordinary": 0.00035, "mentions": 0.0}},
    WITH_SCORES: {
        "warn": {"ordinary": 0.0035, "mentions": 0.065},
        "block": {"ordinary": 0.001, "mentions": 0.014},
    },
}
"""Shares of ordinary talk and of the tuned mentions that may be above a level."""

HEAD = (
    "What tells an order to the model against its instructions from a mention of one; orders.bin has the weights",
    "of words. Written by python -m training.orders --data PATH. Shares of texts above a level when the text was",
    "left out of the fit, means of 2 cross-validations; service is mtbench101:",
)


@dataclass
class Text:
    """A text to learn from or to set levels on."""

    said: str  # the text
    order: bool  # whether it gives such an order
    # ``pairs``, ``cases``, ``use`` or ``mentions`` (the tuned cases of use), ``jailbreaks``, ``harmful``,
    # ``ordinary``, or ``service``, which is not learned from
    kind: str
    group: str  # texts that stay together in cross-validation
    scored: bool = True  # whether the observer is to read it


def main() -> None:
    """Fit, set levels and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="data folder with MANIFEST.json")
    parser.add_argument("--scores", type=Path, help="file that keeps the observer's scores")
    given = parser.parse_args()
    texts = [*own_texts(), *texts_of_others(given.data)]
    observer = LocalObserver()
    scores = scores_of(texts, observer, given.scores)
    fitted = fit(texts, scores)
    written = "\n".join(
        [
            *(f"# {line}" for line in (*HEAD, *fitted["notes"])),
            f"observer: {observer.info.name}",
            f"weights_sha256: {observer.parameters['weights_sha256']}",
            f"sha256: {hashlib.sha256(fitted['weights'].tobytes()).hexdigest()}",
            "model:",
            *(f"  {name}: {json.dumps(value)}" for name, value in fitted["model"].items()),
            "levels:",
            *(f"  {name}: {json.dumps(each)}" for name, each in fitted["levels"].items()),
            "",
        ]
    )
    print(written)
    folder = Path(guardrails.__file__).parent
    (folder / "orders.yaml").write_text(written, encoding="utf-8")
    (folder / "orders.bin").write_bytes(fitted["weights"].tobytes())


def own_texts() -> Iterator[Text]:
    """Yield the pairs and the tuned cases."""
    for path in sorted(PAIRS.glob("?.jsonl")):
        for row in rows_of(path):
            yield Text(row["text"], row["use"], "pairs", f"{path.stem} {row['pair']}")
    for row in rows_of(USE):
        yield Text(row["text"], row["found"], "use" if row["found"] else "mentions", row["text"])
    for name in TUNED:
        for row in rows_of(CASES / name / "prompt_injection.jsonl"):
            yield Text(row["text"], row["found"], "cases", row["text"])


def texts_of_others(data: Path, kinds: Mapping[str, str] = KINDS) -> Iterator[Text]:
    """Yield prompts of the data folder that may be trained on, drawn with a fixed seed."""
    manifest = _json(data / "MANIFEST.json")
    for source, kind in kinds.items():
        name = next(
            (name for name in (f"train/{source}.jsonl", f"single/train/{source}.jsonl") if name in manifest), ""
        )
        if not name or not manifest[name]["train"]:
            raise ValueError(f"{data}: {source} is not among what may be trained on")
        prompts = {text: group for group, text in _prompts(data / name) if text.strip()}
        drawn = random.Random(SEED).sample(sorted(prompts), min(DRAWN, len(prompts)))
        for number, text in enumerate(drawn):
            yield Text(text, kind == "jailbreaks", kind, prompts[text], number < SCORED[kind])


def _prompts(path: Path) -> Iterator[tuple[str, str]]:
    for row in rows_of(path):
        if "turns" in row:
            yield from ((row["id"], turn["content"]) for turn in row["turns"] if turn["role"] == "user")
        else:
            yield row["id"], row["text"]


def scores_of(texts: Sequence[Text], observer: LocalObserver, kept: Path | None) -> NDArray[np.float64]:
    """Return the log-odds of the observer's scores, NaN for a text that it does not read; a file keeps them."""
    key = observer.parameters["weights_sha256"]
    known: dict[str, list[list[float]]] = _json(kept).get(key, {}) if kept and kept.exists() else {}
    state = observer.start("texts", Context.parse("turn"))
    wanted = [Request(one, Side.PROMPT) for one in builtin_principles()]
    rows = []
    for text in texts:
        if not text.scored:
            rows.append([math.nan] * 3 * len(PRINCIPLES))
            continue
        if text.said not in known:
            told = observer.observe(state, Turn(1, text.said), wanted)
            seen = {one.principle: one.score for one in told if isinstance(one, Observation)}
            known[text.said] = [[seen[name].T, seen[name].I, seen[name].F] for name in PRINCIPLES if seen]
        values = [value for score in known[text.said] for value in log_odds(Score(*score))]
        rows.append(values or [math.nan] * 3 * len(PRINCIPLES))
    if kept:
        kept.write_text(json.dumps({key: known}), encoding="utf-8")
    return np.array(rows)


@dataclass
class Rows:
    """The pieces of all texts."""

    features: csr_matrix  # what is in each piece, each with the same weight; their squares add up to 1
    owners: NDArray[np.int64]  # the text that each is of

    @classmethod
    def of(cls, texts: Iterable[Text], read: Read = pieces, bits: int = BITS, fewest: int = 1) -> Rows:
        """Return the pieces of texts; one that holds less than `fewest` weighs like one that holds so many."""
        found = [(number, piece) for number, text in enumerate(texts) for piece in read(text.said)]
        bounds = np.cumsum([0, *(len(piece) for _, piece in found)])
        values = np.concatenate([np.full(len(piece), max(fewest, len(piece)) ** -0.5) for _, piece in found])
        places = np.concatenate([piece for _, piece in found])
        features = csr_matrix((values, places, bounds), shape=(len(found), 1 << bits))
        return cls(features, np.array([number for number, _ in found]))

    def strongest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the highest value of the pieces of each text."""
        return np.maximum.reduceat(values, np.flatnonzero(np.diff(self.owners, prepend=-1)))


def fit_words(
    rows: Rows, orders: NDArray[np.bool_], learned: NDArray[np.bool_], weights: NDArray[np.float64]
) -> LogisticRegression:
    """Fit weights of words on some texts.

    In a long text that gives an order, one piece does: at first the first, then the one that the first fit says.
    """
    mine, order = learned[rows.owners], orders[rows.owners]
    taken = mine & (~order | (np.diff(rows.owners, prepend=-1) > 0))
    for last in (False, True):
        model = LogisticRegression(
            C=STRENGTH, solver="liblinear", dual=True, tol=1e-3, max_iter=300, random_state=SEED
        )
        model.fit(rows.features[taken], order[taken], weights[rows.owners][taken])
        if not last:
            values = model.decision_function(rows.features)
            taken = mine & (~order | (values >= rows.strongest(values)[rows.owners]))
    return model


def fit(texts: Sequence[Text], scores: NDArray[np.float64]) -> dict[str, Any]:
    """Return the weights of words, the numbers of the model, its levels, and notes on their rates."""
    rows, orders = Rows.of(texts), np.array([text.order for text in texts])
    kinds, scored = np.array([text.kind for text in texts]), ~np.isnan(scores[:, 0])
    learned = kinds != "service"
    counts = np.where(np.isin(kinds, ("cases", "use", "mentions")), OWN, 1.0)
    groups = [text.group for text in texts]

    def joined(by_words: NDArray[np.float64], taken: NDArray[np.bool_]) -> LogisticRegression:
        beside = np.column_stack((by_words, scores))[taken & scored]
        return LogisticRegression(C=1.0, max_iter=1_000).fit(beside, orders[taken & scored])

    values: dict[str, list[NDArray[np.float64]]] = {WORDS: [], WITH_SCORES: []}
    for repeat in range(REPEATS):
        splits = GroupKFold(FOLDS, shuffle=True, random_state=SEED + repeat).split(groups, groups=groups)
        outs = [np.isin(np.arange(len(texts)), out) for _, out in splits]
        by_words, both_ways = np.zeros((2, len(texts)))
        for out in outs:
            model = fit_words(rows, orders, learned & ~out, counts)
            by_words[out] = rows.strongest(model.decision_function(rows.features))[out]
        beside = np.column_stack((by_words, np.nan_to_num(scores)))
        for out in outs:
            both_ways[out] = joined(by_words, learned & ~out).decision_function(beside)[out]
        values[WORDS].append(by_words)
        values[WITH_SCORES].append(both_ways)
    notes, levels = [], {}
    for name, wanted in LEVELS.items():
        found, known = np.array(values[name]), scored | (name == WORDS)
        levels[name] = {}
        for level, shares in wanted.items():
            least = max(level_of(found[:, known & (kinds == kind)], share) for kind, share in shares.items())
            levels[name][level] = math.ceil(1_000 / (1 + math.exp(-least))) / 1_000
            above = [
                f"{told} {(found[:, known & some] > least).mean():.1%} of {(known & some).sum():,}"
                for told, some in {
                    "use": kinds == "use",
                    "mentions": kinds == "mentions",
                    "pairs' orders": (kinds == "pairs") & orders,
                    "pairs' mentions": (kinds == "pairs") & ~orders,
                    "ordinary": kinds == "ordinary",
                    "service": kinds == "service",
                }.items()
            ]
            notes.append(f"{name}, {level}: {', '.join(above)}")
    words, both = fit_words(rows, orders, learned, counts), joined(values[WORDS][0], learned)
    step = float(np.abs(words.coef_).max() / 127)
    weights = np.round(words.coef_[0] / step).astype(np.int8)
    of_scores = both.coef_[0][1:].reshape(len(PRINCIPLES), 3).round(4).tolist()
    model = {
        "step": round(step, 8),
        "offset": round(float(words.intercept_[0]), 4),
        "words": round(float(both.coef_[0][0]), 4),
        "scores": dict(zip(PRINCIPLES, of_scores, strict=True)),
        "scores_offset": round(float(both.intercept_[0]), 4),
    }
    return {"weights": weights, "model": model, "levels": levels, "notes": notes}


def level_of(values: NDArray[np.float64], share: float) -> float:
    """Return the lowest level that at most a share of the values is above."""
    return float(np.sort(values, axis=None)[::-1][int(share * values.size)])


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
