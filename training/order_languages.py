"""Fit what tells orders to a model from other talk in languages other than English.

    python -m training.order_languages --data PATH [--without-opened]

It learns from ``corpus/orders/languages.jsonl``, from the opened and tuned cases and from prompts of the data
folder, sets its levels on what a model that was fitted without the text says of it, and writes
``order_languages.bin`` and ``order_languages.yaml`` beside the guardrail. With ``--without-opened`` it learns
nothing from the opened cases, tells what the model says of them, and writes nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.model_selection import GroupKFold

from training.orders import (
    CASES,
    FOLDS,
    ORDINARY,
    PAIRS,
    SEED,
    SERVICE,
    Rows,
    Text,
    fit_words,
    level_of,
    rows_of,
    texts_of_others,
)
from training.orders import (
    TUNED as LEARNED,
)
from turnwise.guard import guardrails
from turnwise.guard.recognisers.order_models import BITS
from turnwise.guard.recognisers.order_models import FEWEST_RUNS as FEWEST
from turnwise.guard.recognisers.order_models import run_pieces as pieces

LANGUAGES = PAIRS / "languages.jsonl"
OPENED = CASES / "languages" / "opened.jsonl"
TUNED = CASES / "disguises" / "tuned.jsonl"
KINDS = {**dict.fromkeys(ORDINARY, "ordinary"), "multijail": "harmful", SERVICE: "service"}

OWN = 3.0
"""Weight of a sentence of ours beside 1 for any other text: they are few."""

LEVELS = {
    "warn": {"ordinary": 0.0015, "service": 0.001, "look-alikes": 0.2},
    "block": {"ordinary": 0.0002, "service": 0.0, "look-alikes": 0.006},
}
"""Shares of texts without an order that may be above a level."""

HEAD = (
    "What tells an order to the model against its instructions from other talk in languages other than English;",
    "order_languages.bin has the weights. Written by python -m training.order_languages --data PATH. Shares of",
    "texts above a level when the text, and what says the same in another language, was left out of the fit:",
)


def main() -> None:
    """Fit, set levels and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="data folder with MANIFEST.json")
    parser.add_argument("--without-opened", action="store_true", help="measure on the opened cases; write nothing")
    given = parser.parse_args()
    texts = [*own_texts(), *opened_texts(), *texts_of_others(given.data, KINDS)]
    written, weights = fit(texts, ("service", "opened") if given.without_opened else ("service",))
    print(written)
    if not given.without_opened:
        folder = Path(guardrails.__file__).parent
        (folder / "order_languages.yaml").write_text(written, encoding="utf-8")
        (folder / "order_languages.bin").write_bytes(weights)


def own_texts() -> Iterator[Text]:
    """Yield the sentences of the corpus; those at the same place of each language are left out together."""
    for row in rows_of(LANGUAGES):
        for name, order in (("orders", True), ("others", False)):
            for place, said in enumerate(row[name]):
                yield Text(said, order, "own", f"{name} {place}")


def opened_texts() -> Iterator[Text]:
    """Yield the opened cases, of which those of a language are left out together, and the tuned ones."""
    for row in rows_of(OPENED):
        yield Text(row["text"], row["found"], "opened", row["language"])
    for row in rows_of(TUNED):
        if "language" in row:
            yield Text(row["text"], row["found"], "tuned", row["language"])
    for path in sorted(PAIRS.glob("?.jsonl")):
        yield from (Text(row["text"], False, "english", row["text"]) for row in rows_of(path) if not row["use"])
    for name in LEARNED:
        for row in rows_of(CASES / name / "prompt_injection.jsonl"):
            if not (row["found"] and row["text"].isascii()):  # orders in English are for the other model
                yield Text(row["text"], row["found"], "tuned", row["text"])


def fit(texts: Sequence[Text], unlearned: Sequence[str]) -> tuple[str, bytes]:
    """Return the settings with notes on their rates, and the weights."""
    rows, orders = Rows.of(texts, pieces, BITS, FEWEST), np.array([text.order for text in texts])
    kinds, groups = np.array([text.kind for text in texts]), [text.group for text in texts]
    learned = ~np.isin(kinds, unlearned)
    counts = np.where(np.isin(kinds, ("own", "opened", "tuned")), OWN, 1.0)
    found = np.zeros(len(texts))
    for _, out in GroupKFold(FOLDS, shuffle=True, random_state=SEED).split(groups, groups=groups):
        left = np.isin(np.arange(len(texts)), out)
        model = fit_words(rows, orders, learned & ~left, counts)
        found[left] = rows.strongest(model.decision_function(rows.features))[left]
    some = {
        "orders": (kinds == "own") & orders,
        "look-alikes": (kinds == "own") & ~orders,
        "opened orders": (kinds == "opened") & orders,
        "opened look-alikes": (kinds == "opened") & ~orders,
        **{kind: kinds == kind for kind in ("harmful", "ordinary", "service")},
    }
    notes, levels = [], {}
    for level, shares in LEVELS.items():
        least = max(level_of(found[some[kind]], share) for kind, share in shares.items())
        levels[level] = math.ceil(1_000 / (1 + math.exp(-least))) / 1_000
        above = (f"{told} {(found[of] > least).mean():.2%} of {of.sum():,}" for told, of in some.items())
        notes.append(f"{level}: {', '.join(above)}")
    model = fit_words(rows, orders, learned, counts)
    step = float(np.abs(model.coef_).max() / 127)
    weights = np.round(model.coef_[0] / step).astype(np.int8).tobytes()
    written = [
        *(f"# {line}" for line in (*HEAD, *notes)),
        f"sha256: {hashlib.sha256(weights).hexdigest()}",
        f"model: {json.dumps({'step': round(step, 8), 'offset': round(float(model.intercept_[0]), 4)})}",
        f"levels: {json.dumps(levels)}",
        "",
    ]
    return "\n".join(written), weights


if __name__ == "__main__":
    main()
