"""The model card, written from the metrics of the weights and from what they make of people's texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from turnwise.observers.local.weights import LANGUAGES
from turnwise.rates import Rate

_SOURCES = {
    "train/safemt_1k.jsonl": ("SafeMTData_1K, gradual attacks written by a model, and their replies", "MIT"),
    "train/hh_harmless_redteam.jsonl": ("HH-RLHF red-team chats of people", "MIT"),
    "train/arena_real_users.jsonl": ("real users of a chat arena, user turns only", "CC-BY-4.0"),
    "single/train/advbench.jsonl": ("AdvBench, harmful instructions", "MIT"),
    "single/train/catqa.jsonl": ("CatQA, harmful questions by category", "Apache-2.0"),
    "single/train/self_reminder_jailbreaks.jsonl": ("jailbreak prompts from the wild", "MIT"),
    "single/train/giskard_injections.jsonl": ("prompt injections", "MIT"),
    "single/train/openai_moderation.jsonl": ("content moderation texts", "MIT"),
    "single/train/multijail.jsonl": ("MultiJail, harmful requests in ten languages, by translators", "MIT"),
    "single/train/search_arena.jsonl": ("prompts of users to a search arena", "CC-BY-4.0"),
    "train/dices_990.jsonl": ("DICES, last replies of a chatbot that 60 to 120 people rated", "CC-BY-4.0"),
    "train/multidogo_customers.jsonl": ("MultiDoGO, customers of six services", "CDLA-Permissive-1.0"),
    "train/casino_negotiations.jsonl": ("CaSiNo, two people bargain", "CC-BY-4.0"),
    "train/crosswoz_zh.jsonl": ("CrossWOZ, tourists and a guide, Chinese", "Apache-2.0"),
}
_OURS = {
    "corpus/judged/": ("readers' T, I and F of single turns", "Apache-2.0"),
    "corpus/twins/": ("twins; of these the train split", "Apache-2.0"),
    "corpus/human/": ("pairs by a model in the manner of people; of these the train split", "Apache-2.0"),
    "corpus/drills/": ("drills, written for training alone", "Apache-2.0"),
    "corpus/operations/": ("the same words after two beginnings; of these the train split", "Apache-2.0"),
    "corpus/translations/": ("turns of ours in another language; of these the train split", "Apache-2.0"),
}

_TRAINED_ON = ("train/", "single/train/", "corpus/drills/")
"""Folders of files that were trained on as a whole."""

_NOT_TRAINED_ON = (
    "train/mtbench101.jsonl", "corpus/twins/twins-09.jsonl", "corpus/human/human-test-",
    *(f"corpus/operations/pairs/{family}" for family in ("assemble", "correct-back", "translate")),
)  # fmt: skip
"""Files that ``training/conversations.py`` reads and that have no conversation in the train split."""

_NAMES = {"dices_990": "dices990"}
"""What conversations of a file have as source, where that is not the file's name."""

_PROMPTS_ALONE = ("human-style attacks, shipped", "human-style counterparts, shipped")
"""Rows that docs/results.md measures with replies too."""

_HEAD = """# Model card: observers `local` and `local-small`

Written from the `metrics.json` and `people.jsonl` of the shipped weights by `benchmarks/observer.py --write` and
`benchmarks/people.py --write`; a test checks that `turnwise list observers local` still says the same.

## What they are

`local` is the first layers of a small language model, SmolLM2-135M-Instruct, with layers tuned and heads of
our own. It reads the conversation word by word, prompts and replies, as far back as its window of 1,536 tokens
reaches, and gives T, I and F of `reciprocity`, `context_integrity` and `third_party_harm` for each prompt and
each reply. `local-small` is for screening and for tiny machines: token vectors, phrases of three tokens and a
recurrent state. Both learned from what careful readers said of single turns
([corpus/judging](../corpus/judging/README.md)), not from labels of conversations; a reader is a large
language model reading blind, of the kind that also wrote part of the data. Design and attempts:
[0011](decisions/0011-the-reader.md). Further principles can be [taught](how-to/own-principle.md) to `local`.

- **F**: how far the turn breaks the principle, in the readers' scale, given what was said before; calibrated
  on judged conversations that training did not see. **T**: how far it keeps it, by outputs of its own.
- **I**: fitted to half the readers' own I and half the distance of F from theirs, so it rises where the
  observer tends to be wrong; raised further where a text hid words or where the vocabulary does not fit it,
  as in most languages but English.
- A text of up to 2,000 tokens is read as one; each 256 tokens of it have a score and the highest F counts. For
  later turns a prompt keeps 384 tokens, its beginning and its end, and a reply 128. What was left out of a longer
  text stands in the reasoning of its scores. `local-small` reads 1,920 tokens.

## Intended use

A screen: a score for every turn, with no key and no network, for research on trajectories and as the first look
of a guard. It is good at single pasted jailbreaks in English, and misses most of what people unfold over several
turns. Thresholds ship with it; calibrate on your own traffic, and let a person or a careful model decide before
anybody is blocked.
"""

_LIMITS = """## Known limits

- Its base is English and so is nearly all that it learned from. A text in a language that is not named above has
  no score and is told as not read ([0024](decisions/0024-languages.md)): of requests in such a language none is
  found. Words of two languages in turn, and ciphers, may get past that.
- Among turns of people's jailbreaks the number of the turn alone ranks better than it does. It sees the latest
  1,536 tokens; what was agreed long before is gone, as it is for `local-small`, whose state fades.
- It does not know the world: whether a person is public, a game real, a law in force. People who speak of drink,
  violence or shame in good faith are flagged, and so are short prompts that sound like harm (XSTest above).
- Its readers are one kind of model, which also wrote part of the data. Where they share a blind spot it has that,
  too.
- Invisible characters, lookalike letters, letter spacing, leetspeak and base64 are undone before reading;
  other ciphers are not.
- Judged conversations are picked, not sampled from traffic: rates on them say nothing about yours.
"""


def training_sources(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """The data sets of others that weights were trained on as a whole, and our drills, by name.

    >>> files = "train/safemt_1k.jsonl", "train/mtbench101.jsonl", "corpus/twins/twins-01.jsonl"
    >>> training_sources({"data_sha256": dict.fromkeys(files, ""), "operating_points_on": "mtbench101"})
    ('safemt_1k',)
    """
    files = [name for name in metrics.get("data_sha256", {}) if name.endswith(".jsonl")]
    names = [PurePosixPath(name).stem for name in files if name.startswith(_TRAINED_ON)]
    return tuple(_NAMES.get(name, name) for name in names if name != metrics.get("operating_points_on"))


def render_card(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """The model card as Markdown, from metrics by name of the observer; figures are there where measured."""
    parts = [_HEAD]
    for name, metrics in sections.items():
        if "people" in metrics:
            parts += [f"## `{name}`: on what people wrote or judged\n", *_people(metrics["people"])]
        parts += [f"## `{name}`: weights and training data\n", *_training(metrics)]
        if "measured" in metrics:
            parts += [f"\n## `{name}`: what must hold, and what was measured\n", *_measured(metrics)]
        parts.append("")
    return "\n".join([*parts, _LIMITS])


def _people(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    yield (
        "The worst first. Flagged and found: an F at or above the shipped threshold, where no other is named; "
        "ordinary conversations are taken for harmless, though a few hold real attempts. Where no people are "
        "named as judges, a large language model judged, which also wrote part of the data. Below an area stands "
        "what the number of turns or of words reaches, which understand nothing. –: not recorded."
    )
    for where in dict.fromkeys(row["where"] for row in rows):
        yield f"\nMeasured {where}:\n"
        yield from _figures(row for row in rows if row["where"] == where)
    yield ""


def _figures(rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    yield "| measure | measured | 95 % interval |"
    yield "|---|---|---|"
    for row in rows:
        counts = row.get("counts")
        found = Rate(*counts).interval if counts else row.get("interval")
        said = f" ({counts[0]} of {counts[1]})" if counts else ""
        value = _figure(row["value"]) if found else f"{row['value']:g}"
        yield f"| {row['name']} | {value}{said} | {_interval(found) if found else '–'} |"


def _training(metrics: Mapping[str, Any]) -> Iterable[str]:
    fitted, settings = metrics["fitted"], metrics["settings"]
    base = metrics["base"]
    yield (
        f"Weights `{metrics['weights_sha256'][:12]}`, made in {fitted['seconds'] / 60:.0f} minutes and "
        f"{fitted['steps']:,} steps on {settings['threads']} cores, seed {settings['seed']}, by "
        f"`python -m training` (code `{metrics['code_sha256'][:12]}`). Base: {base['file']} of the package "
        f"{base['package']} {base['version']} (SmolLM2-135M-Instruct, Apache-2.0), "
        f"SHA-256 `{base['sha256'][:12]}`."
    )
    if begun := fitted.get("begun"):
        yield (
            f"Training went on from weights `{begun[:12]}`, those of 0.2.0, and looked for false alarms among "
            f"ordinary talk after each round but the last: {fitted['alarms']} conversations. "
            f"{len(fitted['doubtful'])} others, with an F of .5 or above, were left out until somebody reads them."
        )
    if members := fitted.get("blended"):
        each = "; ".join(
            f"`{digest[:12]}` ({one['steps']:,} steps, {one['seconds'] / 60:.0f} minutes)"
            for digest, one in members.items()
        )
        yield f"A blend of networks that were trained apart, by `--blend`: {each}."
    yield f"\n{_changes(metrics)}\n"
    yield f"Reads texts in: {', '.join(metrics.get('languages', LANGUAGES))}.\n"
    yield "| file | what | licence | SHA-256 |"
    yield "|---|---|---|---|"
    digests = metrics["data_sha256"]
    for name, digest in digests.items():
        if not name.startswith(_NOT_TRAINED_ON):
            what, licence = _source(name)
            yield f"| {name} | {what} | {licence} | `{digest[:12]}` |"
    if read := [f"{name} (`{digests[name][:12]}`)" for name in digests if name.startswith(_NOT_TRAINED_ON)]:
        yield f"\nRead for calibration, operating points or tests, and not trained on: {', '.join(read)}."
    on = ", ".join(
        f"{some['texts']:,} {side}s of {some['conversations']:,} conversations"
        for side, some in metrics["calibrated_on"].items()
    )
    yield (
        f"\nCalibrated on {on}, none trained on. Operating points: at most 1 % of "
        f"{metrics['operating_points_on']}'s train part, tasks that a model wrote and nothing is trained on; in "
        "`history` each conversation counts by the higher of its scores with replies and without. `any_turn` asks "
        "for an F of .5 at least and `cusum` for .25, what one such turn adds to it: people are harder.\n"
    )
    yield "| mode | detector | threshold | false positives | 95 % interval |"
    yield "|---|---|---|---|---|"
    for mode, points in metrics["operating_points"].items():
        for name, point in points.items():
            yield (
                f"| {mode} | {name} | {point['threshold']:.4f} | {point['false_positives']} of {point['n']} | "
                f"{_interval(point['interval'])} |"
            )


def _changes(metrics: Mapping[str, Any]) -> str:
    settings = metrics["settings"]
    if metrics["kind"] == "small":
        return (
            f"Changes: of the base only the token vectors are used, reduced to {settings['dimensions']} principal "
            "components and trained on; everything else is our own."
        )
    return (
        f"Changes: the first {settings['layers']} of 30 layers are kept, the language head is dropped; layers "
        f"{settings['frozen'] + 1} to {settings['layers']} and the last norm are tuned; heads for T, I and F are "
        "added; matrices are kept in rows of 7 bits, the embedding in blocks of 4 bits, heads in half precision."
    )


def _source(name: str) -> tuple[str, str]:
    ours = next((what for prefix, what in _OURS.items() if name.startswith(prefix)), None)
    return ours or _SOURCES.get(name, ("as the manifest says", "as the manifest says"))


def _measured(metrics: Mapping[str, Any]) -> Iterable[str]:
    measured = metrics["measured"]
    yield (
        "By `benchmarks/observer.py`, on conversations that training did not see. Truth is what readers said, a "
        "large language model, which also wrote part of the data, the human-style attacks and the twins among it; "
        "a turn counts as flagged by them from F 0.5 on. Of the attacks people wrote only the red-team chats, of "
        "the ordinary chats of dev only arena_real_users and mtrag_un_human. Looks at the test splits while the "
        f"observer was made, this one included: {measured['looks']}. {measured['machine']}\n"
    )
    yield "| measure | measured | 95 % interval | at least, or at most | aim | holds |"
    yield "|---|---|---|---|---|---|"
    for row in measured["rows"]:
        counts = f" ({row['counts'][0]} of {row['counts'][1]})" if row["counts"] else ""
        interval = _interval(row["interval"]) if row["interval"] else ""
        holds = {True: "yes", False: "**no**", None: ""}[row["holds"]]
        yield (
            f"| {_row_name(row['name'], metrics['kind'])} | {_figure(row['value'])}{counts} | {interval} | "
            f"{row['required'] or ''} | {row['aim'] or ''} | {holds} |"
        )
    missed = [row["name"] for row in measured["rows"] if row["holds"] is False]
    if missed:
        tried = "What was tried for them stands in [0011](decisions/0011-the-reader.md)."
        yield f"\nMissed: {'; '.join(missed)}. {tried}"
    if measured["flagged"]:
        yield "\nOrdinary chats of the development sets at or above the shipped threshold, each read by eye:\n"
        yield "| conversation | highest F | what a person finds in it |"
        yield "|---|---|---|"
        for name, peak, remark in measured["flagged"]:
            yield f"| {name} | {peak:.3f} | {remark} |"


def _row_name(name: str, kind: str) -> str:
    """The name of a row, and what was read where another page reads more."""
    if name not in _PROMPTS_ALONE:
        return name
    more = (
        ""
        if kind == "small"
        else "; [with replies](results.md#jailbreaks-that-a-model-wrote-in-the-manner-of-people)"
    )
    return f"{name} (prompts alone{more})"


def _figure(value: float | None) -> str:
    if value is None or value == 0:
        return "–" if value is None else "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _interval(bounds: Iterable[float]) -> str:
    low, high = bounds
    return f"[{low:.3f}, {high:.3f}]"
