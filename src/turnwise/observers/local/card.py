"""The model card, written from the metrics file of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwise.observers.local.attempts import ATTEMPTS

_SOURCES = {
    "train/safemt_1k.jsonl": ("SafeMTData_1K, gradual attacks written by a model", "MIT"),
    "train/hh_harmless_redteam.jsonl": (
        "HH-RLHF red-team chats; a third of the labels are wrong, so only those that a first network suspects",
        "MIT",
    ),
    "train/arena_real_users.jsonl": ("real users of a chat arena, user turns only; assumed benign", "CC-BY-4.0"),
    "train/mtbench101.jsonl": ("MT-Bench-101, multi-turn tasks", "Apache-2.0"),
    "single/train/advbench.jsonl": ("AdvBench, harmful instructions", "MIT"),
    "single/train/catqa.jsonl": ("CatQA, harmful questions by category", "Apache-2.0"),
    "single/train/harmfulqa.jsonl": (
        "HarmfulQA, written by a model; for the vocabulary only, since many of its questions are harmless",
        "Apache-2.0",
    ),
    "single/train/self_reminder_jailbreaks.jsonl": ("jailbreak prompts from the wild", "MIT"),
    "single/train/giskard_injections.jsonl": ("prompt injections", "MIT"),
    "single/train/openai_moderation.jsonl": ("content moderation texts; labels are of content, not intent", "MIT"),
}

CHANGED = "(changed since) "
"""Before what a file is, where the repository now holds another version than the weights were made of."""

_RANKED = "attack above its twin from the split to harm_at"
"""Key of the figures under which pairs are ranked."""

_HEAD = """# Model card: observer `local`

This page is generated from `src/turnwise/observers/local/weights/metrics.json` by `turnwise
observers card local > docs/model-card.md`; a test checks that it is current.

## What it is

A table of token vectors; of every turn the mean of its token vectors and the strongest of a set of learned
phrases of three tokens; and an ensemble of small recurrent networks over the turns, run in numpy. After every
turn it gives T, I and F for `reciprocity`, `context_integrity` and `third_party_harm`. It reads prompts only
and has two context modes: `turn` (this turn alone) and `history` (all turns so far). The two have networks of
their own over the same table, trained on the same conversations with the same loss, turn labels included: what a
single turn can't show, `turn` learns as an average.

- **F**: probability that the principle is being violated at this turn, given what the mode may see;
  calibrated on held-out conversations of the training data, three quarters of whose weight is pairs (twins and
  drills), so to their mix of attacks and harmless talk, not to yours. In `history` mode the logit falls, before
  it is calibrated, by the logarithm of the turns beyond the fifth (threefold turns: 1.1), since a long
  conversation has more occasions for a false alarm.
- **T**: that the turn is in good faith, from outputs of its own. The twins have it annotated. In a gradual
  attack of which no turn is annotated it was taught to fall evenly (not for `context_integrity`), so both T
  and F can be low.
- **I**: how unsure the observer is, from disagreement of the probabilities inside the ensemble, distance from
  the training data, share of word fragments, hidden text and brevity. The weights of disagreement and brevity
  foretell its own errors on held-out turns, the others are set. Neither T nor F is part of it. Its scale is a
  convention: the median held-out turn has 0.2. The annotated I of the twins only checks it.

It is an early version. Take it for a cheap signal over many turns, not for a judge. Most figures of this page
rest on labels of whole conversations, which teach style: against careful readers who score single turns it is near
chance on what people write. [results.md](results.md) has those figures. What is said here of pairs (twins) was
measured on texts whose attack halves were shorter in 70 % of the pairs; results.md ranks the mended ones, from
the split to `harm_at`, balanced by length, beside what length and words alone would do.

## Intended use

Research on trajectories, demonstrations and tests without a key, and as one signal among others in a
guard whose threshold was calibrated on the traffic that it sees. It is not meant to decide alone about
people, to moderate single messages, or for languages other than English.
"""

_FAILURES = """## Known failures

- It was trained on English text, but for a few pairs in ten other languages. What it says of those means
  little.
- It hardly tells intent from words. Between twins, on pairs that it never saw, it ranks attacks somewhat better
  than chance, and at few false alarms it finds almost none of them. Where an attack uses the words of harmless
  talk, expect it to be missed, and harmless talk with the words of an attack to be flagged. Requests whose harm
  lies in the goal alone (rewrite this passage so, continue the story from the bully's view) and long friendly
  set-ups are mostly missed too.
- Harmless talk about crime in the news, propaganda, pain in fiction, or security teaching can raise F.
- Gradual attacks in the training data come from one generator, and those of Attack_600 from its
  relative: recall on them says little about attacks that people write. `context_integrity` learned
  mostly from sentences of our own.
- Labels of the training conversations are weak, one per conversation, except for the pairs and for sentences
  of our own. The held-out figures are on the same kinds of conversations, and our own sentences stand on both
  sides of the split: they flatter.
- I follows where the networks disagree. It does not follow the indeterminacy that annotators of the twins saw.
- F is decided: most turns get a value near 0 or near 1. Few thresholds make much difference between.
- Shipped operating points were set on the few kinds of conversations named above. On other traffic the
  false-positive rate differs, as the table of the development sets shows: calibrate on your own.
- Long conversations are a compromise. Without the length correction two thirds of the chains of 200 benign turns
  were flagged in cross-validation, with it 4 of 100; in return, held-out gradual attacks behind 10 benign turns
  were found in 88 instead of 95 of 100 cases, behind 30 in 61 instead of 96.
- Invisible characters, lookalike and styled letters, letter spacing, leetspeak (where it gives a word of the
  vocabulary) and base64 are undone before scoring; other ciphers and misspelling are not.
"""


def render_card(metrics: Mapping[str, Any]) -> str:
    """Return the model card as Markdown.

    Args:
        metrics: contents of ``metrics.json``; the figures on development sets appear where they were recorded.
    """
    blocks = [_HEAD, _training(metrics), _held_out(metrics)]
    if "ablation" in metrics:
        blocks.append(_ablation(metrics["ablation"]))
    if "twins" in metrics.get("benchmark", {}):
        blocks.append(_twins(metrics["benchmark"]["twins"]))
    if "benchmark" in metrics:
        blocks.append(_benchmark(metrics["benchmark"]))
        blocks.append(_attempts())
    return "\n".join([*blocks, _FAILURES])


def _training(metrics: Mapping[str, Any]) -> str:
    settings = metrics["settings"]
    lines = [
        "## Weights and training data\n",
        f"Weights `{metrics['weights_sha256'][:12]}`, made by turnwise {metrics['code_version']} (code "
        f"`{metrics['code_sha256'][:12]}`) in {metrics['training_seconds']} s on {settings['threads']} cores "
        f"with seed {settings['seed']}: {settings['tokens']:,} tokens of {settings['dimensions']} dimensions, "
        f"{settings['members']} networks of width {settings['width']} a mode, {settings['epochs']} epochs. "
        f"The largest difference between numpy and torch is {metrics['largest_difference_to_torch']:.1e}.\n",
        "The table starts from all-MiniLM-L6-v2 (Apache-2.0): each token sent through it, reduced to its "
        "principal components. The vocabulary is our own.\n",
        "| file | what | licence | SHA-256 |",
        "|---|---|---|---|",
    ]
    for name, digest in metrics["data_sha256"].items():
        what, licence = _source(name)
        if name in metrics.get("changed_since", ()):
            what = f"{CHANGED}{what}"
        lines.append(f"| {name} | {what} | {licence} | `{digest[:12]}` |")
    fitted = ", ".join(f"{kind} {count:,}" for kind, count in metrics["fitted"].items())
    lines.append(
        f"\nConversations fitted, by kind: {fitted}. Those named after no file are composed: benign turns "
        "chained, a harmful end behind a benign start, first turns of gradual attacks as harmless talk, and "
        "sentences of our own (attacks, their harmless twins, sensitive but harmless questions). Of the benign "
        "conversations a quarter was held out, of the rest, and of the pairs, 15 %.\n"
    )
    if any(kind in metrics["fitted"] for kind in ("twin_attack", "drill_attack")):
        lines.append(
            f"Every step of training takes a batch of conversations and {settings['pairs']} pairs, the latter "
            f"with weight {settings['pair_weight']}: annotated F and T of every turn as soft targets, turns "
            "that both halves share with little weight, and a ranking term that asks the attack for a higher F "
            "than its twin. In the batch itself attacks are asked to exceed the worst tenth of the harmless "
            "conversations. A first network, trained without the red-team chats, chooses the "
            f"{settings['red_team']:.0%} of them that it finds most harmful; the shipped one learns from these as "
            "well. What to train on and how was chosen inside the training data: each source of benign "
            "chats left out once, the threshold set on it, and recall measured on held-out attacks; for pairs by "
            "cross-validation over the train split of the twins and the drills. Two choices, more weight for "
            "gradual attacks and fewer harmless openings as counterexamples, were tried because a look at the "
            "development sets showed too few attacks found; cross-validation agreed. A third look moved the start "
            "of the length correction from the fourth turn to the fifth. A fourth, at this recipe, led to the "
            "last two: held-out pairs weigh three times in calibration instead of twice, and I lost a constant; "
            "cross-validation agreed with both. `turnwise train` "
            f"with its defaults and {settings['threads']} thread(s) gives the same weights, byte for byte, with "
            "the same version of torch on a processor of the same kind.\n"
        )
    return "\n".join(lines)


def _source(name: str) -> tuple[str, str]:
    if name.startswith("corpus/drills/"):
        return "drills: pairs and harmless talk, written by us for training only", "Apache-2.0"
    if name.startswith("corpus/twins/"):
        return "twins, written and annotated by us; of these, the train split only", "Apache-2.0"
    if name.startswith("corpus/"):
        return "which pairs are in which split of the twins", "Apache-2.0"
    return _SOURCES.get(name, ("as the manifest says", "as the manifest says"))


def _held_out(metrics: Mapping[str, Any]) -> str:
    lines = [
        "## Held-out part of the training data\n",
        "Labels are weak: the peak of an attack conversation stands for its violation. Those of the held-out "
        "pairs are annotated; F at 0.5 or above counts as a violation. An F on the wrong side of 0.5, or more "
        "than 0.25 off, counts as an error.\n",
        "| mode | principle | turns | violations | AUROC | calibration error | errors | AUROC of I | on pairs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for mode, principles in metrics["calibration"].items():
        for name, row in principles.items():
            lines.append(
                f"| {mode} | {name} | {row['turns']:,} | {row['violations']:,} | {_number(row['auroc'])} | "
                f"{_number(row['ece'])} | {_number(row['errors'])} | {_number(row['i_auroc'])} | "
                f"{_number(row['i_auroc_pairs'])} |"
            )
    lines += ["", "Mean peak F of whole conversations, and of first turns alone:\n"]
    lines += ["| mode | benign | gradual attacks | their first turns |", "|---|---|---|---|"]
    for mode, row in metrics["peak_F"].items():
        lines.append(
            f"| {mode} | {row['benign_mean_F']:.3f} (n {row['benign_conversations']}) "
            f"| {row['attack_mean_F']:.3f} (n {row['attack_conversations']}) "
            f"| {row['attack_mean_F_first_turn']:.3f} |"
        )
    lines += [
        "",
        "Operating points, for at most 1 % of benign conversations flagged on a service that training never saw: "
        "each source of benign chats was left out of training once, and all its conversations scored by the "
        "network that did not know it. The threshold is set on all of these together; beside it those of each "
        f"source alone, and the one on held-out conversations of the sources trained on ({_set_on(metrics)}).\n",
        "| mode | detector | threshold | false positives | 95 % interval | each source left out | trained on |",
        "|---|---|---|---|---|---|---|",
    ]
    for mode, detectors in metrics["operating_points"].items():
        for name, point in detectors.items():
            needed = ", ".join(f"{source} {value:.4f}" for source, value in point["left_out"].items())
            lines.append(
                f"| {mode} | {name} | {point['threshold']:.4f} | {point['false_positives']} of {point['n']} | "
                f"{_interval(point['interval'])} | {needed} | {point['own_threshold']:.4f} |"
            )
    return "\n".join([*lines, ""])


def _set_on(metrics: Mapping[str, Any]) -> str:
    row = next(iter(metrics["peak_F"].values()))
    chats = f"{row['benign_conversations']} of chat arena and MT-Bench-101"
    return f"{chats}, and the benign halves of {row['benign_twins']} twins" if row.get("benign_twins") else chats


def _ablation(figures: Mapping[str, Any]) -> str:
    lines = [
        "## What each part of the data brings\n",
        "Networks of one vocabulary, trained on all or a part of the pairs with everything else the same, each "
        "calibrated by itself. Twins: the dev split; thresholds on its benign halves. Chats and gradual attacks: "
        "held out from training, at the 1 % operating point of `any_turn`.\n",
    ]
    first = next(iter(next(iter(figures.values())).values()))
    rates = [name for name, row in first.items() if isinstance(row, dict) and "rate" in row]
    lines += [f"| trained on | mode | {' | '.join(rates)} | error of F |", f"|---|---|{'---|' * (len(rates) + 1)}"]
    for name in ("without pairs", "without drills", "without twins", "all"):
        for mode, row in figures.get(name, {}).items():
            cells = " | ".join(_rate(row[column]) for column in rates)
            lines.append(f"| {name} | {mode} | {cells} | {_errors(row, 'F')} |")
    lines.append(
        "\nError of F: mean absolute difference from the annotation, in the order of the principles above.\n"
    )
    return "\n".join(lines)


_SPLIT_NAMES = {
    "dev": "dev",
    "test": "test",
    "held_out_tactic": "held-out tactics",
    "held_out_area": "held-out areas",
}


def _twins(figures: Mapping[str, Any]) -> str:
    lines = [
        "## Twins\n",
        "Pairs that begin alike, of which one half turns (`corpus/GUIDELINE.md`). Never trained on. The threshold "
        "is on the peak of F over turns and principles, set on the benign halves of the same split; at 1 % that "
        "is no benign half at all where there are fewer than 100. Attacks count if flagged by the turn `harm_at`. "
        "In the share of attacks above their twin 0.5 is chance; balanced is the mean over pairs whose attack "
        "half is the longer and the shorter one.\n",
    ]
    first = next(iter(figures.values()))["history"]
    rates = [name for name, row in first.items() if isinstance(row, dict) and "rate" in row]
    head = [
        "split",
        "mode",
        "pairs",
        *rates,
        "balanced",
        "error of F",
        "error of T",
        "error of I",
        "mean I, English",
        "mean I, other",
    ]
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for split, modes in figures.items():
        for mode in ("history", "turn"):
            row = modes[mode]
            cells = [
                _SPLIT_NAMES[split],
                mode,
                str(row["pairs"]),
                *(_rate(row[name]) for name in rates),
                _number(row[_RANKED]["balanced"]),
                *(_errors(row, name) for name in "FTI"),
                _number(row["mean I of English turns"]),
                _number(row["mean I of other turns"]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Errors are mean absolute differences from the annotation, for `reciprocity`, `context_integrity` and "
        "`third_party_harm`. At the shipped operating points, attacks flagged by "
        "`harm_at` and benign halves flagged:\n",
    ]
    points = next(iter(figures.values()))["at_operating_points"]
    lines += [f"| split | {' | '.join(points)} |", f"|---|{'---|' * len(points)}"]
    for split, modes in figures.items():
        cells = [
            f"{_rate(row['attacks by harm_at'])}; benign {_rate(row['benign'])}"
            for row in modes["at_operating_points"].values()
        ]
        lines.append(f"| {_SPLIT_NAMES[split]} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _errors(row: Mapping[str, Any], name: str) -> str:
    return " / ".join(f"{value:.3f}" for value in row[f"mean absolute error of {name}"].values())


def _benchmark(figures: Mapping[str, Any]) -> str:
    looks = ", ".join(f"{name} {count}" for name, count in figures["looks"].items())
    lines = [
        "## What must hold, and what was measured\n",
        "By `benchmarks/observer.py`. Thresholds on the peak of F over turns and principles, set for 1 % on one "
        "half of the benign development conversations (by hash of their id); rates on the other half and on sets "
        "never trained on. How often each set was looked at while the observer was made, this table included: "
        f"{looks}.\n",
        "| measure | measured | 95 % interval | at least, or at most | aim | holds |",
        "|---|---|---|---|---|---|",
    ]
    for row in figures["rows"]:
        counts = f" ({row['counts'][0]} of {row['counts'][1]})" if row["counts"] else ""
        interval = _interval(row["interval"]) if row["interval"] else ""
        holds = {True: "yes", False: "**no**", None: ""}[row["holds"]]
        lines.append(
            f"| {row['name']} | {_figure(row['value'])}{counts} | {interval} | {row['required'] or ''} | "
            f"{row['aim'] or ''} | {holds} |"
        )
    lines += ["", "## Development sets\n", "Share flagged at these thresholds, by context mode:\n"]
    modes = figures["at_one_per_cent"]
    lines += [f"| set | {' | '.join(modes)} |", f"|---|{'---|' * len(modes)}"]
    first = next(iter(modes.values()))
    for name in (name for name, row in first.items() if isinstance(row, dict)):
        lines.append(f"| {name} | {' | '.join(_rate(rows[name]) for rows in modes.values())} |")
    points = figures["at_operating_points"]
    lines += ["", "At the shipped operating points:\n"]
    lines += [f"| set | {' | '.join(points)} |", f"|---|{'---|' * len(points)}"]
    first = next(iter(points.values()))
    for name in (name for name, row in first.items() if isinstance(row, dict)):
        lines.append(f"| {name} | {' | '.join(_rate(rows[name]) for rows in points.values())} |")
    return "\n".join([*lines, ""])


def _attempts() -> str:
    lines = [
        "## What was tried\n",
        "On the figures above that are missed, or were before. Measured inside the training data unless it says "
        "otherwise, on what was neither fitted nor used to calibrate: *left-out chats*: each source of benign "
        "chats left out once, the threshold at 1 % of its conversations, recall of held-out attacks, means of the "
        "two; *left-out pairs*: a third of the twins' train split and of the drills.\n",
        "| for | attempt | measured on | before | after | kept | remark |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in ATTEMPTS:
        kept = "yes" if one.kept else "no"
        cells = (", ".join(one.aims), one.what, one.where, one.before, one.after, kept, one.remark)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _figure(value: float | None) -> str:
    if value is None or value == 0:
        return "–" if value is None else "0"
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:,.0f}" if value >= 100 else f"{value:.3f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(bounds: list[float]) -> str:
    return f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"


def _rate(row: Mapping[str, Any]) -> str:
    return f"{row['rate']:.3f} {_interval(row['interval'])}"
