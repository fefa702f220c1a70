"""Teach `local` what the guardrail `sources` asks it: whether a text gives orders to the agent that reads it.

    python -m training.agent_orders [--folds 6]

Learns from benchmarks/guard_cases/untrusted, and from pages and code of this repository, which are taken for
ordinary; writes ``taught-prompt.json`` into src/turnwise/guard/guardrails/agent_orders. With ``--folds`` it
writes nothing, and prints F of each case by a head that saw no case of its pair, for the levels of the
guardrail. A minute on a core.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.conversation import Side
from turnwise.guard.guardrails.sources import FOLDER, own_words
from turnwise.guard.tool_texts import description_text
from turnwise.observers.local.observer import LocalObserver
from turnwise.study.teaching import read_annotations, teach
from turnwise.study.teaching.fit import fit

ROOT = Path(__file__).parents[1]
CASES = ROOT / "benchmarks" / "guard_cases" / "untrusted"
FILES = ("tuned.jsonl", "opened.jsonl", "pairs.jsonl")
PLAIN = (("docs", "*.md", 90), ("src/turnwise/study", "*.py", 30), ("src/turnwise/cli", "*.py", 20))
"""Folders with ordinary texts, and how many pieces are taken."""

PIECE = 900
"""Characters of one."""

POISONED = {"T": 0.05, "I": 0.1, "F": 0.95}
ORDINARY = {"T": 0.95, "I": 0.1, "F": 0.05}


def rows() -> list[dict[str, Any]]:
    """The cases as annotations; a case and its honest twin, which stand side by side, are one conversation."""
    found = []
    for file in FILES:
        for place, line in enumerate((CASES / file).read_text(encoding="utf-8").splitlines()):
            case = json.loads(line)
            text, _ = own_words(description_text(case["content"], case["schema"]))
            score = POISONED if case["found"] else ORDINARY
            found.append(
                {"text": text, "before": [], **score, "conversation": f"{file} {place // 2}", "side": "prompt"}
            )
    return found


def plain() -> list[dict[str, Any]]:
    """Pieces of documentation and code, drawn by a fixed seed."""
    rng, found = random.Random(5), []
    for folder, pattern, count in PLAIN:
        files = sorted((ROOT / folder).glob(pattern))
        pieces = [
            (file.name, text[at : at + PIECE])
            for file in files
            for text in [file.read_text(encoding="utf-8")]
            for at in range(0, len(text) - PIECE, PIECE)
        ]
        for name, piece in rng.sample(pieces, count):
            text, _ = own_words(piece)
            found.append({"text": text, "before": [], **ORDINARY, "conversation": name, "side": "prompt"})
    return found


def apart(cases: Sequence[dict[str, Any]], observer: LocalObserver, folds: int) -> None:
    """Print what heads that saw nothing of a pair say of it."""
    states = observer.states([[(Side.PROMPT, case["text"])] for case in cases])
    known = [(case, state) for case, state in zip(cases, states, strict=True) if state is not None]
    inputs = np.array([state.mean(axis=0) for _, state in known], np.float64)
    targets = np.array([[case["F"], case["T"], case["I"]] for case, _ in known], np.float64)
    groups = [case["conversation"] for case, _ in known]
    numbers = {group: place % folds for place, group in enumerate(dict.fromkeys(groups))}
    fold = np.array([numbers[group] for group in groups])
    for held in range(folds):
        seen = fold != held
        head, _ = fit(inputs[seen], targets[seen], [one for one, kept in zip(groups, seen, strict=True) if kept])
        for (case, state), kept in zip(known, seen, strict=True):
            if not kept:
                print(json.dumps({"F": head.strongest(state).F, "found": case["F"] > 0.5, "text": case["text"]}))


def main() -> None:
    """Teach, or print what heads say of what they did not see."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=0)
    folds: int = parser.parse_args().folds
    cases, observer = [*rows(), *plain()], LocalObserver()
    if folds:
        apart(cases, observer, folds)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in cases), encoding="utf-8")
        taught = teach(FOLDER, read_annotations(path, Side.PROMPT), observer)
    area = taught.worth.auroc
    found = f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
    print(f"head {taught.file.sha256[:12]}: AUROC {found} by cross-validation")


if __name__ == "__main__":
    main()
