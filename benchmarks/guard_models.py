"""What the model guardrails find, and how often they cry wolf.

Run with ``python benchmarks/guard_models.py --data PATH``. It prints, each rate with its exact 95 % interval:

- prompt_injection: found by phrases, by the observer, by both; false positives on benign prompts;
- harm: the same by the observer; and what either would say of harmless replies;
- toxicity: the lexicon beside VADER (where vaderSentiment is installed) and F of third_party_harm, the latter
  two at the share of false positives that the lexicon has on the training data;
- the time that a check of a 40-token message takes.

``--calibrate`` sets the levels of harm and prompt_injection for the weights in use and prints them as the file
``levels.yaml``; ``--write`` puts them there. They are set on prompts and replies of the train part of a service
that nothing is trained on (mtbench101), each without the turns before: at most 1 % of them above the level of a
warning, at most 0.1 % above that of a finding in full, and no level below what the guideline calls odd (F 0.25)
and a clear sign (0.5). What is measured was not trained on either.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from observer_chats import Job, score

from turnwise.conversation import Conversation, Side, Turn
from turnwise.datasets import BadRecord, judgement_files, open_dataset, read_judgements
from turnwise.guard import guardrails
from turnwise.guard.finding import Action, Finding
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.guardrails.harm import Harm
from turnwise.guard.guardrails.prompt_injection import PromptInjection
from turnwise.guard.guardrails.toxicity import Toxicity
from turnwise.guard.scorer import LEVELS_FILE, shipped_levels
from turnwise.observers import Context, Request
from turnwise.observers.local import LocalObserver
from turnwise.principles import builtin_principles
from turnwise.rates import Rate

TARGETS = {"warn": 0.01, "block": 0.001}
LEAST = {"warn": 0.25, "block": 0.5}
"""Levels at least: what the guideline calls odd with an ordinary explanation, and a clear sign."""

JUDGES = {
    "harm": ("third_party_harm", (Side.PROMPT, Side.RESPONSE)),
    "prompt_injection": ("context_integrity", (Side.PROMPT,)),
}
SERVICE = "mtbench101"
SPLITS = Path(__file__).parents[1] / "corpus" / "judged" / "splits.json"
MOST = 300
"""Texts of a source that are checked."""

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
    """Return F of each text as a prompt by itself, by principle."""
    wanted = [Request(one, Side.PROMPT) for one in builtin_principles()]
    state = observer.start("texts", Context.parse("turn"))
    rows = [[one.score.F for one in observer.observe(state, Turn(1, text), wanted)] for text in texts]
    columns = np.array(rows).reshape(-1, len(wanted))
    return {one.principle.name: columns[:, index] for index, one in enumerate(wanted)}


def calibrate(data: Path, observer: LocalObserver, *, write: bool) -> None:
    """Set the levels on the service and print them."""
    chats = [one for one in open_dataset(data / "train" / f"{SERVICE}.jsonl") if not isinstance(one, BadRecord)]
    said = [(one.sequence_id, [(turn.prompt, turn.response) for turn in one.conversation]) for one in chats]
    found = {
        side: score([Job(*one, context="turn", side=side, replies=side is Side.RESPONSE) for one in said], None)
        for side in Side
    }
    lines, notes = [], []
    for name, (principle, sides) in JUDGES.items():
        lines.append(f"  {name}:")
        for side in sides:
            values = np.array([turn[principle].F for chat in found[side] for turn in chat.values()])
            chosen = {}
            for level, target in TARGETS.items():
                chosen[level] = max(LEAST[level], math.ceil(_level(values, target) * 1000) / 1000)
                reached = Rate(int((values > chosen[level]).sum()), len(values))
                notes.append(f"# {name}, {side}, {level}: above {chosen[level]} {reached}")
            lines.append(f"    {side}: {{warn: {chosen['warn']}, block: {chosen['block']}}}")
    text = "\n".join(
        [
            "# F of the observer local above which guardrails warn and find in full, by the side as which a text",
            f"# is read. Set on {SERVICE}, train part, by",
            "# python benchmarks/guard_models.py --data PATH --calibrate --write",
            *notes,
            f"observer: {observer.info.name}",
            f"weights_sha256: {observer.parameters['weights_sha256']}",
            "levels:",
            *lines,
            "",
        ]
    )
    print(text, end="")
    if write:
        (Path(guardrails.__file__).parent / LEVELS_FILE).write_text(text, encoding="utf-8")


def never_trained_on(data: Path, source: str) -> list[dict[str, Any]]:
    """Return the single prompts of a source that training did not see: those of no split, of dev and of test."""
    splits = json.loads(SPLITS.read_text(encoding="utf-8"))["splits"]
    judged = {one.sequence_id for path in judgement_files(SPLITS.parent).values() for one in read_judgements(path)}
    rows = _rows(data / f"single/train/{source}.jsonl")
    return [row for row in rows if row["id"] not in judged or splits.get(row["id"]) != "train"]


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
    injection_report(data, benign)
    harm_report(data, benign)
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
        "Dolly": [row["text"] for row in _rows(data / "single/dev/dolly_subset.jsonl")][:MOST],
        "moderation benign": [
            row["text"] for row in _rows(data / "single/dev/openai_moderation.jsonl") if row["label"] == "benign"
        ],
        **{f"{name}, first turns": _first_prompts(data / f"dev/{name}.jsonl")[:MOST] for name in chats},
    }


def injection_report(data: Path, benign: dict[str, Texts]) -> None:
    """Print what prompt_injection finds."""
    ways = {
        "phrases": PromptInjection(observer=None),
        "observer": PromptInjection(phrases=False),
        "both": PromptInjection(),
    }
    print("prompt_injection                       warned or found                found in full")
    for source in ("giskard_injections", "self_reminder_jailbreaks"):
        texts = [row["text"] for row in never_trained_on(data, source)]
        for way, guardrail in ways.items():
            _print_rates(f"{source}: {way}", guardrail, texts)
    for name, texts in benign.items():
        for way, guardrail in ways.items():
            _print_rates(f"{name}: {way}", guardrail, texts)
    print()


def harm_report(data: Path, benign: dict[str, Texts]) -> None:
    """Print what harm finds."""
    guardrail = Harm()
    print("harm                                   warned or found                found in full")
    for source in ("advbench", "catqa"):
        _print_rates(source, guardrail, [row["text"] for row in never_trained_on(data, source)])
    for name, file in (("XSTest unsafe", "xstest"), ("moderation harmful", "openai_moderation")):
        rows = _rows(data / f"single/dev/{file}.jsonl")
        _print_rates(name, guardrail, [row["text"] for row in rows if row["label"] != "benign"])
    for name, texts in benign.items():
        _print_rates(name, guardrail, texts)
    print()


def reply_report(data: Path) -> None:
    """Print what the guardrails would say of replies: harmless ones, and harmful ones by readers."""
    print("replies                                warned or found                found in full")
    guards = (("harm", Harm()), ("prompt_injection", PromptInjection()), ("toxicity", Toxicity()))
    for source in ("arena_real_users", "mtbench101", "mtrag_un_human"):
        chats = open_dataset(data / f"dev/{source}.jsonl")
        turns = [turn for one in chats if not isinstance(one, BadRecord) for turn in one.conversation]
        replies = [(turn.prompt, turn.response) for turn in turns if turn.response][:MOST]
        for name, guardrail in guards:
            _print_reply_rates(f"{source}: {name}", guardrail, replies)
    readings = list(read_judgements(SPLITS.parent / "replies.jsonl"))
    splits = json.loads(SPLITS.read_text(encoding="utf-8"))["splits"]
    chats = {
        one.sequence_id: one.conversation
        for one in open_dataset(data / "train/hh_harmless_redteam.jsonl")
        if not isinstance(one, BadRecord) and splits.get(one.sequence_id) == "test"
    }
    for carried in (True, False):
        some = [chats[one.sequence_id].turn(one.turn) for one in readings if one.sequence_id in chats
                and (one.scores["third_party_harm"].F >= 0.5) is carried]  # fmt: skip
        pairs = [(turn.prompt, turn.response) for turn in some if turn.response]
        name = "carry harm on" if carried else "do not"
        _print_reply_rates(f"red-team, readers: {name}: harm", Harm(), pairs)
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
        for name, way in ways.items():
            limit = level if name == "lexicon" else _level(way(harmless), share)
            _compare(name, way, limit, rows, benign)
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
        for _ in range(20):
            check(MESSAGE)
        seconds = []
        for _ in range(200):
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
    _print_findings(name, [check(text) for text in texts])


def _print_reply_rates(name: str, guardrail: Guardrail, replies: Sequence[tuple[str, str]]) -> None:
    found = []
    for prompt, reply in replies:
        conversation = Conversation.human_ai("u", "m")
        turn = conversation.add_prompt(prompt)
        found.append(guardrail.check(Check(reply, Side.RESPONSE, turn, conversation, "s")))
    _print_findings(name, found)


def _print_findings(name: str, findings: Sequence[Finding]) -> None:
    found = sum(one.found for one in findings)
    whole = sum(one.found and one.action is not Action.WARN for one in findings)
    print(f"{name:38s} {Rate(found, len(findings))!s:30s} {Rate(whole, len(findings))}")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _first_prompts(path: Path) -> list[str]:
    """Return the first user turn of each conversation."""
    said = (
        (turn["content"] for turn in row["turns"] if turn["role"] == "user" and turn["content"].strip())
        for row in _rows(path)
    )
    return [first for turns in said for first in islice(turns, 1)]


def _vader() -> Callable[[str], float] | None:
    try:
        from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer
    except ImportError:
        return None
    analyzer = SentimentIntensityAnalyzer()
    return lambda text: -float(analyzer.polarity_scores(text)["compound"])


if __name__ == "__main__":
    main()
