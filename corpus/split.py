"""Write splits.json: a split for every pair, the same at every run.

    python corpus/split.py

Two tactics and two areas are held out whole: no pair with one of them is in train, dev or test. The other pairs go
to train, dev and test in the shares below, tactic by tactic, in the order of a hash of the pair's name.

A pair that has its split keeps it for good, and a pair that is added later goes to dev or test: what was trained
on the corpus before stays comparable. Human-style pairs keep the split that their writers were given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from turnwise.datasets import Pair, load_twins

CORPUS = Path(__file__).parent
HELD_OUT_TACTICS = ("obfuscation_codewords", "topic_hopping")
HELD_OUT_AREAS = ("drugs", "impersonation_deepfakes")
SHARES = (("train", 0.6), ("dev", 0.15), ("test", 0.25))


def main() -> None:
    """Split the corpus."""
    target = CORPUS / "splits.json"
    given = json.loads(target.read_text(encoding="utf-8"))["pairs"] if target.exists() else {}
    target.unlink(missing_ok=True)
    pairs = sorted(load_twins(CORPUS / "twins"), key=lambda pair: (tactic(pair), rank(pair)))
    split = {pair.name: part for pair in pairs if (part := given.get(pair.name) or held_out(pair))}
    if given:
        late = [pair for pair in pairs if pair.name not in split]
        split.update((pair.name, "dev" if rank(pair) < "6" else "test") for pair in late)
    for _, group in groupby((pair for pair in pairs if pair.name not in split), key=tactic):
        split.update(shared_out(list(group)))
    about = {"held_out_tactics": HELD_OUT_TACTICS, "held_out_areas": HELD_OUT_AREAS, "shares": dict(SHARES)}
    target.write_text(
        json.dumps({**about, "pairs": dict(sorted({**given, **split}.items()))}, indent=1) + "\n", encoding="utf-8"
    )


def shared_out(pairs: list[Pair]) -> Iterator[tuple[str, str]]:
    """Yield names and splits of pairs, in the shares of the splits."""
    share = 0.0
    for part, size in SHARES:
        begin, share = share, share + size
        for pair in pairs[round(begin * len(pairs)) : round(share * len(pairs))]:
            yield pair.name, part


def tactic(pair: Pair) -> str:
    """Return the tactic of a pair's attack."""
    return str(pair.attack.sequence.metadata["tactic"])


def rank(pair: Pair) -> str:
    """Return what orders the pairs of a tactic: a hash, so that neither writer nor area does."""
    return hashlib.sha256(pair.name.encode()).hexdigest()


def held_out(pair: Pair) -> str | None:
    """Return the split of a pair with a held-out tactic or area, else None; tactics come first."""
    if tactic(pair) in HELD_OUT_TACTICS:
        return "held_out_tactic"
    return "held_out_area" if pair.attack.sequence.metadata["area"] in HELD_OUT_AREAS else None


if __name__ == "__main__":
    main()
