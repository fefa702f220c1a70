"""What the model guardrails find, and how often they cry wolf.

Run with ``python benchmarks/guard_models.py --data PATH``. It prints, each rate with its exact 95 % interval:

- prompt_injection: found by phrases, by the observer, by both; false positives on benign prompts;
- harm: the same by the observer; and what either would say of harmless replies;
- toxicity: the lexicon beside VADER (where vaderSentiment is installed) and F of third_party_harm, the latter
  two at the share of false positives that the lexicon has on the training data;
- the time that a check of a 40-token message takes.

``--calibrate`` sets the levels of harm and prompt_injection for the weights in use and prints them as the file
``levels.yaml``; ``--write`` puts them there. They are set on benign prompts that training held out (a quarter of
each source): at most 1 % of the prompts of any source above the level of a warning, at most 0.1 % above that of a
finding in full.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.conversation import Conversation, Side
from turnwise.guard.guardrail import Action, Check, Finding, Guardrail
from turnwise.guard.guardrails import levels as levels_module
from turnwise.guard.guardrails.harm import Harm
from turnwise.guard.guardrails.levels import LEVELS_FILE, shipped_levels
from turnwise.guard.guardrails.prompt_injection import PromptInjection
from turnwise.guard.guardrails.toxicity import Toxicity
from turnwise.observers import Context
from turnwise.observers.local import LocalObserver
from turnwise.observers.local.training.data import Item, read_training_data
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.rates import Rate

TARGETS = {"warn": 0.01, "block": 0.001}
JUDGES = {"harm": "third_party_harm", "prompt_injection": "context_integrity"}
BENIGN = ("arena_real_users", "mtbench101", "openai_moderation")
HATE = {"H", "H2", "HR"}
MESSAGE = (
    "Could you please look at the order that I placed last Tuesday and tell me whether it has been sent already, "
    "because I would like to change the address to which it will be delivered next week?"
)

Texts = Sequence[str]


def main() -> None:
    """Measure, or set the levels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with MANIFEST.json, train and dev")
    parser.add_argument("--calibrate", action="store_true", help="set the levels and print them")
    parser.add_argument("--write", action="store_true", help=f"with --calibrate: write {LEVELS_FILE}")
    given = parser.parse_args()
    observer = LocalObserver()
    if given.calibrate:
        calibrate(given.data, observer, write=given.write)
    else:
        report(given.data, observer)


def falsities(observer: LocalObserver, texts: Texts) -> dict[str, Any]:
    """Return F of each text by itself, by principle."""
    values = observer.score_many([[text] for text in texts], Context.parse("turn"))
    columns = np.array([value[0, 2] for value in values]).reshape(-1, len(PRINCIPLES))
    return {name: columns[:, index] for index, name in enumerate(PRINCIPLES)}


def calibrate(data: Path, observer: LocalObserver, *, write: bool) -> None:
    """Set the levels on held-out benign prompts and print them."""
    items, _ = read_training_data(data)
    held_out = {
        source: [text for item in items if _is_held_out(item, source) for text in item.texts] for source in BENIGN
    }
    scores = {source: falsities(observer, texts) for source, texts in held_out.items()}
    levels: dict[str, dict[str, float]] = {}
    notes = []
    for name, principle in JUDGES.items():
        levels[name] = {}
        for level, target in TARGETS.items():
            by_source = {source: _level(scores[source][principle], target) for source in BENIGN}
            strictest = max(by_source.values())
            chosen = min(1.0, math.ceil(strictest * 1000) / 1000)
            levels[name][level] = chosen
            every = np.concatenate([scores[source][principle] for source in BENIGN])
            reached = Rate(int((every > chosen).sum()), len(every))
            sources = ", ".join(f"{source} {value:.3f}" for source, value in by_source.items())
            notes.append(f"# {name} {level}: held-out benign above {chosen}: {reached}; by source: {sources}")
    digest = str(observer.parameters["weights_sha256"])
    lines = [
        "# F of the observer local above which guardrails warn and find in full. Written by",
        "# python benchmarks/guard_models.py --data PATH --calibrate --write",
        *notes,
        f"weights_sha256: {digest}",
        "levels:",
        *(f"  {name}: {{warn: {one['warn']}, block: {one['block']}}}" for name, one in levels.items()),
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if write:
        (Path(levels_module.__file__).parent / LEVELS_FILE).write_text(text, encoding="utf-8")


def _is_held_out(item: Item, source: str) -> bool:
    return item.held_out and item.label == "benign" and item.source == source


def _level(scores: Any, target: float) -> float:
    """Return the lowest level that at most a share of the scores is above."""
    ordered = np.sort(scores)[::-1]
    return float(ordered[int(target * len(ordered))])


def report(data: Path, observer: LocalObserver) -> None:
    """Print what the guardrails find and how often they cry wolf."""
    shipped = shipped_levels()
    fitting = shipped["weights_sha256"] == observer.parameters["weights_sha256"]
    print(f"levels: {shipped['levels']}; set for these weights: {'yes' if fitting else 'NO, run --calibrate'}\n")
    benign = benign_prompts(data)
    items, _ = read_training_data(data)
    injection_report(items, benign)
    harm_report(data, items, benign)
    reply_report(data)
    toxicity_report(data, observer, benign)
    speed_report()


def benign_prompts(data: Path) -> dict[str, Texts]:
    """Return the benign prompts of the development sets, of chats the first ones."""
    chats = ("arena_real_users", "mtbench101", "mtrag_un_human", "mt_bench")
    return {
        "XSTest safe": [
            row["text"] for row in _rows(data / "single/dev/xstest.jsonl") if row["label"] == "benign"
        ],
        "Dolly": [row["text"] for row in _rows(data / "single/dev/dolly_subset.jsonl")],
        "moderation benign": [
            row["text"] for row in _rows(data / "single/dev/openai_moderation.jsonl") if row["label"] == "benign"
        ],
        **{f"{name}, first turns": _turns(data / f"dev/{name}.jsonl", "user")[0] for name in chats},
    }


def injection_report(items: Sequence[Item], benign: dict[str, Texts]) -> None:
    """Print what prompt_injection finds."""
    ways = {
        "phrases": PromptInjection(observer=None),
        "observer": PromptInjection(phrases=False),
        "both": PromptInjection(),
    }
    print("prompt_injection                       warned or found                found in full")
    for source in ("giskard_injections", "self_reminder_jailbreaks"):
        for held_out in (False, True):
            texts = [item.texts[0] for item in items if item.source == source and item.held_out >= held_out]
            note = ", held out" if held_out else ""
            for way, guardrail in ways.items():
                _print_rates(f"{source}{note}: {way}", guardrail, texts)
    for name, texts in benign.items():
        for way, guardrail in ways.items():
            _print_rates(f"{name}: {way}", guardrail, texts)
    print()


def harm_report(data: Path, items: Sequence[Item], benign: dict[str, Texts]) -> None:
    """Print what harm finds."""
    guardrail = Harm()
    print("harm                                   warned or found                found in full")
    for source in ("advbench", "catqa"):
        texts = [item.texts[0] for item in items if item.source == source and item.held_out]
        _print_rates(f"{source}, held out", guardrail, texts)
    for name, file in (("XSTest unsafe", "xstest"), ("moderation harmful", "openai_moderation")):
        rows = _rows(data / f"single/dev/{file}.jsonl")
        _print_rates(name, guardrail, [row["text"] for row in rows if row["label"] != "benign"])
    for name, texts in benign.items():
        _print_rates(name, guardrail, texts)
    print()


def reply_report(data: Path) -> None:
    """Print what the guardrails would say of harmless replies."""
    print("replies of harmless chats              warned or found                found in full")
    for source in ("arena_real_users", "mtbench101", "mtrag_un_human"):
        replies = [text for one in _turns(data / f"dev/{source}.jsonl", "assistant") for text in one]
        for name, guardrail in (
            ("harm", Harm()),
            ("prompt_injection", PromptInjection()),
            ("toxicity", Toxicity()),
        ):
            _print_rates(f"{source}: {name}", guardrail, replies)
    print()


def toxicity_report(data: Path, observer: LocalObserver, benign: dict[str, Texts]) -> None:
    """Print the lexicon beside others."""
    guardrail = Toxicity()
    rows = _rows(data / "single/dev/openai_moderation.jsonl")
    train = _rows(data / "single/train/openai_moderation.jsonl")
    harmless = [row["text"] for row in train if row["label"] == "benign"]
    ways: dict[str, Callable[[Texts], Any]] = {
        "lexicon": lambda texts: np.array([guardrail.toxicity(text) for text in texts]),
        "observer F": lambda texts: falsities(observer, texts)["third_party_harm"],
    }
    vader = _vader()
    if vader is not None:
        ways["VADER"] = lambda texts: np.array([vader(text) for text in texts])
    for level in (guardrail.warn_above, guardrail.block_above):
        share = float((ways["lexicon"](harmless) > level).mean())
        print(f"toxicity at {level}: {100 * share:.2f} % of the benign moderation texts of the training data")
        for name, score in ways.items():
            limit = level if name == "lexicon" else _level(score(harmless), share)
            _compare(name, score, limit, rows, benign)
        print()


def _compare(
    name: str,
    score: Callable[[Texts], Any],
    limit: float,
    rows: Sequence[dict[str, Any]],
    benign: dict[str, Texts],
) -> None:
    hate = [row["text"] for row in rows if HATE & set(row["metadata"]["categories"])]
    harmful = [row["text"] for row in rows if row["label"] != "benign"]
    flagged = {kind: int((score(texts) > limit).sum()) for kind, texts in (("hate", hate), ("all", harmful))}
    false = int((score(benign["moderation benign"]) > limit).sum())
    print(f"  {name} above {limit:.3f}")
    print(f"    recall of hate and harassment   {Rate(flagged['hate'], len(hate))}")
    print(f"    recall of everything harmful    {Rate(flagged['all'], len(harmful))}")
    print(f"    precision                       {Rate(flagged['all'], flagged['all'] + false)}")
    for kind, texts in benign.items():
        print(f"    false: {kind:32s}{Rate(int((score(texts) > limit).sum()), len(texts))}")


def speed_report() -> None:
    """Print how long a check of a 40-token message takes, one thread, warm."""
    print("time of a check of a 40-token message  median   99th percentile")
    for name, guardrail in (("harm", Harm()), ("prompt_injection", PromptInjection()), ("toxicity", Toxicity())):
        check = _checker(guardrail)
        for _ in range(200):
            check(MESSAGE)
        seconds = []
        for _ in range(2_000):
            begin = time.perf_counter()
            check(MESSAGE)
            seconds.append(time.perf_counter() - begin)
        print(f"{name:38s} {1e3 * np.median(seconds):.3f} ms {1e3 * np.quantile(seconds, 0.99):.3f} ms")


def _checker(guardrail: Guardrail) -> Callable[[str], Finding]:
    conversation = Conversation.human_ai("u", "m")
    turn = conversation.add_prompt("A text.")
    return lambda text: guardrail.check(Check(text, Side.PROMPT, turn, conversation, "s"))


def _print_rates(name: str, guardrail: Guardrail, texts: Texts) -> None:
    check = _checker(guardrail)
    findings = [check(text) for text in texts]
    found = sum(one.found for one in findings)
    whole = sum(one.found and one.action is not Action.WARN for one in findings)
    print(f"{name:38s} {Rate(found, len(texts))!s:30s} {Rate(whole, len(texts))}")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _turns(path: Path, role: str) -> tuple[list[str], list[str]]:
    """Return the first turns of a role, and its later ones."""
    first, later = [], []
    for row in _rows(path):
        texts = [turn["content"] for turn in row["turns"] if turn["role"] == role and turn["content"].strip()]
        first.extend(texts[:1])
        later.extend(texts[1:])
    return first, later


def _vader() -> Callable[[str], float] | None:
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError:
        return None
    analyzer = SentimentIntensityAnalyzer()
    return lambda text: -float(analyzer.polarity_scores(text)["compound"])


if __name__ == "__main__":
    main()
