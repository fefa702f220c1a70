"""What an embedded observer makes of what people wrote or judged: the yardstick of claims about people.

    python benchmarks/people.py --data DATA [--observer local:FOLDER] [--cache FOLDER] [--sample N] [--write]

Prints what must hold beside what was measured, then every set, the worst first: rates with exact 95 % intervals by
conversation, areas under the ROC curve with those
of a bootstrap over conversations, and below an area what the number of turns or of words reaches, which understand
nothing. A conversation is flagged where a prompt, read after the prompts before it, has an F at or above the
shipped threshold of `any_turn`; replies are read only where people judged them. Ordinary conversations are taken
for harmless, though a few hold real attempts.

Scores are kept in the cache folder by hash of the text: a run that is stopped goes on where it was, and one with
other weights scores anew, about 20 minutes on one core. `--sample` takes so many conversations of a set and label.
`--write` puts the figures of shipped weights into the ``people.jsonl`` beside them and writes docs/model-card.md.

Shows: SC-002, SC-003.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from observer import area_row, rate_row, write_card
from observer_rows import Row, print_rows
from people_bounds import POOL, bounds, read_all, test_pairs
from people_chats import SIDES, Cache, Chat, load
from scipy.stats import spearmanr

from turnwise.conversation import Side
from turnwise.observers import build_observer
from turnwise.observers.local.weights import PEOPLE_FILE, SHIPPED, read_metrics, shipped
from turnwise.study import needed_benign, threshold_for

WHERE = "by `benchmarks/people.py`"
BOUNDS = f"{WHERE}: what must hold"
FIGURES = ("name", "value", "interval", "counts")
LANGUAGES = {
    **{"en": "English", "zh": "Chinese", "it": "Italian", "ar": "Arabic", "bn": "Bengali", "jv": "Javanese"},
    **{"ko": "Korean", "sw": "Swahili", "th": "Thai", "vi": "Vietnamese"},
}
Meta = Mapping[str, object]


def spoken(language: str, metadata: Meta) -> bool:
    """Return whether something is in a language."""
    return metadata["language"] == language


EVERY: Callable[[Meta], bool] = lambda _: True  # noqa: E731 - it stands in a table of such
PARTS: tuple[tuple[str, str, bool, Callable[[Meta], bool]], ...] = (
    ("counselling between people (AnnoMI)", "annomi", False, EVERY),
    ("real users in English (WildChat)", "wildchat_real_users", False, lambda m: m["lang"] == "en"),
    ("real users in other languages (WildChat)", "wildchat_real_users", False, lambda m: m["lang"] != "en"),
    ("real users of a chat arena", "arena_real_users", False, EVERY),
    ("questions to documents, by people (MTRAG)", "mtrag_un_human", False, EVERY),
    ("customers of six services (MultiDoGO)", "multidogo_customers", False, EVERY),
    ("two people bargain (CaSiNo)", "casino_negotiations", False, EVERY),
    ("tourists and a guide, Chinese (CrossWOZ)", "crosswoz_zh", False, EVERY),
    ("prompts to a search arena", "search_arena", False, EVERY),
    ("long prompts in Russian (WildChat)", "wildchat_ru", False, EVERY),
    ("extractions that players wrote (Tensor Trust)", "tensor_trust", True, lambda m: m["kind"] == "extraction"),
    ("hijackings that players wrote (Tensor Trust)", "tensor_trust", True, lambda m: m["kind"] == "hijacking"),
    *(
        (f"harmful requests in {said} (MultiJail)", "multijail", True, partial(spoken, code))
        for code, said in LANGUAGES.items()
    ),
)
"""Sets of which a rate is all that can be said: what they are, the file, whether a flag is right, which of it."""


def main() -> None:
    """Score, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--observer", default="local", help="local, local-small, or local:path/to/model")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "turnwise-people")
    parser.add_argument("--sample", type=int, help="conversations of each set and label at most; all if not given")
    parser.add_argument(
        "--write", action="store_true", help="put the figures beside the weights and into the card"
    )
    asked = parser.parse_args()
    if asked.write and (asked.observer not in SHIPPED or asked.sample):
        parser.error(f"--write is for the whole sets and shipped weights: {', '.join(SHIPPED)}")
    observer = build_observer(asked.observer)
    cache, sets = Cache(asked.cache, observer), {}
    for name in dict.fromkeys((*(name for _, name, *_ in PARTS), "mhj", "toxic_chat", "xstest", *SIDES)):
        sets[name] = load(asked.data, name, asked.sample)
    sets["attack600"] = load(asked.data, "safemt_attack600", asked.sample)
    sets["wildchat_train"] = load(asked.data, "wildchat_real_users", asked.sample, part="train")
    sets["operations"], sets["pairs"] = (
        test_pairs("operations/pairs"),
        [*test_pairs("twins"), *test_pairs("human")],
    )
    for some in sets.values():
        cache.fill(some)
    cut = observer.info.operating_points["history"]["any_turn"]
    held = bounds(sets, read_all(asked.data), cut)
    print_rows(held)
    found = measure(sets, cut)
    rows = [row for _, group in sorted(found, key=lambda one: -one[0]) for row in group]
    print_rows(rows)
    if asked.write:
        write(shipped(asked.observer), held, rows)


def write(folder: Path, held: Sequence[Row], rows: Sequence[Row]) -> None:
    """Put the figures of shipped weights beside them and into the card; what others measured of them stays."""
    path, head = folder / PEOPLE_FILE, {"weights_sha256": read_metrics(folder)["weights_sha256"]}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else [""]
    kept = [line for line in lines if WHERE not in line] if lines[0] == json.dumps(head) else [json.dumps(head)]
    each = [(BOUNDS, row) for row in held] + [(WHERE, row) for row in rows]
    made = [{"where": where} | {key: row.as_json()[key] for key in FIGURES} for where, row in each]
    path.write_text(
        "\n".join([*kept, *(json.dumps(one, ensure_ascii=False) for one in made)]) + "\n", encoding="utf-8"
    )
    write_card()


def measure(sets: Mapping[str, Sequence[Chat]], cut: float) -> Iterator[tuple[float, list[Row]]]:
    """Yield how wrong it is at the shipped threshold, a share by which sets are ordered, and the rows of a set."""
    for said, name, attack, belongs in PARTS:
        row = flagged(said, (chat for chat in sets[name] if belongs(chat.given.metadata)), attack, cut)
        yield wrong(row, attack), [row]

    pool = [chat for name in POOL for chat in sets[name]]
    said = "jailbreaks over several turns that people wrote (MHJ)"
    group = two_kinds(said, sets["mhj"], f"{len(pool):,} ordinary conversations", pool, cut)
    yield wrong(group[0], attack=True), group

    prompts = {name: list[Chat]() for name in ("benign", "otherwise toxic", "jailbreaks")}
    for chat in sets["toxic_chat"]:
        about = chat.given.metadata
        kind = "jailbreaks" if about["jailbreaking"] else "otherwise toxic" if about["toxicity"] else "benign"
        prompts[kind].append(chat)
    benign = prompts.pop("benign")
    for kind, some in prompts.items():
        said = f"{kind}, single prompts of users, labelled by experts (ToxicChat)"
        group = two_kinds(said, some, f"{len(benign):,} benign prompts", benign, cut)
        yield wrong(group[0], attack=True), group

    for name, said, others in (
        ("dices_350", "last replies unsafe to most of 60 to 120 raters (DICES-350)", "replies safe to most"),
        (
            "mentalmanip",
            "film dialogues in which three people saw manipulation (MentalManip)",
            "dialogues without",
        ),
    ):
        ones, rest = (
            [chat for chat in sets[name] if (str(chat.given.label) == "attack") is yes] for yes in (True, False)
        )
        group = two_kinds(said, ones, others, rest, cut)
        if name == "dices_350":
            shares = [np.array([[chat.peak(), chat.given.metadata["unsafe_share"]]]) for chat in sets[name]]
            group.append(area_row("… Spearman, F and the share of raters", shares, of=correlation))
        yield wrong(group[0], attack=True), group


def flagged(said: str, chats: Iterable[Chat], attack: bool, cut: float) -> Row:
    """Return the share of conversations with an F at or above a threshold."""
    return rate_row(f"{said}: {'found' if attack else 'flagged'}", [chat.peak() >= cut for chat in chats])


def wrong(row: Row, attack: bool) -> float:
    """Return the share of a row's conversations on which the observer is wrong."""
    return 1 - (row.value or 0.0) if attack else row.value or 0.0


def two_kinds(said: str, ones: Sequence[Chat], others_are: str, others: Sequence[Chat], cut: float) -> list[Row]:
    """Return what is found of one kind, what is flagged of another, and how well the peak tells them apart."""
    rows = [flagged(said, ones, True, cut), flagged(f"… {others_are}", others, False, cut)]
    if len(others) >= needed_benign(0.01):
        strict = threshold_for([chat.peak() for chat in others], 0.01)
        rows.append(flagged(f"… at F {strict:.2f}, which 1 % of these reach", ones, True, strict))
    measures: dict[str, Callable[[Chat], float]] = {"AUROC": Chat.peak, "length in words": Chat.words}
    if any(len(chat.turns) > 1 for chat in ones) and ones[0].sides != [Side.RESPONSE]:
        measures["number of turns"] = lambda chat: len(chat.turns)
    for name, of in measures.items():
        each = [
            np.array([[of(chat), float(yes)]]) for yes, some in ((True, ones), (False, others)) for chat in some
        ]
        rows.append(area_row(f"… {name}", each))
    return rows


def correlation(rows: NDArray[np.float64]) -> float:
    """Return Spearman's correlation of two columns."""
    return float(spearmanr(rows[:, 0], rows[:, 1])[0])


if __name__ == "__main__":
    main()
