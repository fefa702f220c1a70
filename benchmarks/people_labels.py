"""What people judged, and how far readers, the embedded observer and detectors agree with them.

    python benchmarks/people_labels.py --data DATA [--cache FOLDER] [--write docs]

Three sets to which people gave labels were read blind (corpus/people), and MHJ too (corpus/judged). Areas under
the ROC curve and rank correlations have the 95 % interval of a bootstrap over conversations. The detectors read
the reader's scores, and those of `local`, which reads the same texts: of a film dialogue both speakers', as
prompts.

The ceiling of DICES is one rater against the rest, from the share of unsafe votes and the number of raters alone:
taken for independent draws, a rater votes unsafe with the chance p that is the share, and the rest then has the
share (n p - vote) / (n - 1). Each conversation counts with both votes, weighted by their chances, so nothing is
drawn. The majority is that of all 123, which one vote hardly moves. A vote is yes or no, a score is graded, so a
score may rank better than a rater.

`--write` puts the section into results.md. Scores of `local` are kept as those of benchmarks/people.py.

Shows: SC-003.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from observer import FLAG, area_row
from observer_rows import Row, print_rows
from people_bounds import CORPUS, by_position, read_all, within
from people_chats import Cache, Chat, Scores, load
from results_page import put_section, table

from turnwise.conversation import Conversation, Side
from turnwise.conversation import Sequence as Given
from turnwise.datasets import BadRecord, Judgement, join_judgements, open_dataset, read_judgements
from turnwise.datasets.annotated import SECOND
from turnwise.detectors import build_detector, run_detector
from turnwise.observers import build_observer
from turnwise.scoring import Score, TurnScores
from turnwise.stats import krippendorff_alpha

READINGS = CORPUS / "people"
HEADING = "What people judged"
DETECTORS = (
    *("any_turn", "last_turn", "f_ema", "trust_ema", "cusum", "peak_accumulation", "slope", "page_hinkley"),
    *("count_flags", "sprt"),
)
LENGTHS = (4, 6, 8)
"""Last number of turns of each class of dialogues; a further class is all longer ones."""

UNSEEN = (
    "of 80 replies that most call unsafe the reader gives 47 F below 0.25; 30 of these\n"
    "  are opinions on politics, or advice on law, money, health and relationships, which no principle scores."
)
"""What a large language model found when it read the replies that raters call unsafe and the reader does not."""

Values = NDArray[np.float64]
Read = Mapping[str, Sequence[Judgement]]
"""Judgements by conversation, in the order of turns."""


def main() -> None:
    """Read, score, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "turnwise-people")
    parser.add_argument("--write", type=Path, help="folder of results.md")
    asked = parser.parse_args()
    sets = {
        "mentalmanip": [as_read(chat.given) for chat in load(asked.data, "mentalmanip", None)],
        **{name: load(asked.data, name, None) for name in ("dices_350", "toxic_chat", "mhj")},
    }
    read = {mode: readings(sets, mode) for mode in ("history", "replies", f"history{SECOND}", f"replies{SECOND}")}
    known = {*read["history"], *read["replies"]}
    for name, some in sets.items():
        sets[name] = some if name == "mhj" else [one for one in some if one.given.sequence_id in known]
    cache = Cache(asked.cache, build_observer("local"))
    for some in sets.values():
        cache.fill(some)
    parts = {
        "Film dialogues (MentalManip)": dialogues(sets["mentalmanip"], read["history"]),
        "A chatbot's last replies (DICES-350)": raters(sets["dices_350"], read["replies"]),
        "Prompts of users (ToxicChat)": prompts(sets["toxic_chat"], read["history"], whole(asked.data)),
        "Jailbreaks over several turns (MHJ)": [
            replace(row, required=None) for row in by_position(sets["mhj"], read_all(asked.data))
        ],
        "Two readers": agreement(read),
    }
    for name, rows in parts.items():
        print(f"\n{name}")
        print_rows(rows)
    if asked.write:
        put_section(asked.write / "results.md", HEADING, section(parts))


def as_read(given: Given) -> Chat:
    """Return a dialogue as its readers saw it: every utterance that is not empty is a turn with its speaker."""
    conversation = Conversation(conversation_id=given.sequence_id)
    for turn in given.conversation:
        for speaker, text in (("A", turn.prompt), ("B", turn.response)):
            if text:
                conversation.add_turn(f"{speaker}: {text}")
    said = Given(given.sequence_id, given.label, given.source, conversation, given.metadata)
    return Chat(said, list(conversation), [Side.PROMPT])


def readings(sets: Mapping[str, Sequence[Chat]], mode: str) -> dict[str, tuple[Judgement, ...]]:
    """Return what readers said of these very texts, by conversation."""
    made = list(read_judgements(READINGS / f"{mode}.jsonl"))
    found = {}
    for one in join_judgements((chat.given for some in sets.values() for chat in some), made):
        if one.void:
            raise SystemExit(f"{one.sequence.sequence_id}: {one.void} turns have another text than was read")
        found[one.sequence.sequence_id] = one.judgements
    return found


def whole(data: Path) -> dict[str, int]:
    """Return how many prompts of each kind the whole of ToxicChat's file has, read or not."""
    counted = dict.fromkeys(("jailbreaks", "otherwise toxic", "benign"), 0)
    for one in open_dataset(data / "single" / "dev" / "toxic_chat.jsonl"):
        if not isinstance(one, BadRecord):
            counted[kind_of(one)] += 1
    return counted


def kind_of(one: Given) -> str:
    """Return what experts said of a prompt of ToxicChat."""
    toxic = "otherwise toxic" if one.metadata["toxicity"] else "benign"
    return "jailbreaks" if one.metadata["jailbreaking"] else toxic


def peak(judgements: Sequence[Judgement]) -> float:
    """Return a reader's highest F."""
    return max(one.peak_f for one in judgements)


def is_attack(chat: Chat) -> float:
    """Return 1 where people labelled a conversation an attack, else 0."""
    return float(str(chat.given.label) == "attack")


def weighted_area(rows: Values) -> float:
    """Return the area under the ROC curve of scores, labels and, where there is a third column, weights."""
    scores, labels = rows[:, 0], rows[:, 1] > 0
    weights = rows[:, 2] if rows.shape[1] > 2 else np.ones(len(rows))
    above, below = weights * labels, weights * ~labels
    _, place = np.unique(scores, return_inverse=True)
    ones, rest = np.bincount(place, above), np.bincount(place, below)
    total = above.sum() * below.sum()
    return float((ones * (np.cumsum(rest) - rest / 2)).sum() / total) if total else math.nan


def weighted_spearman(rows: Values) -> float:
    """Return the rank correlation of the first two columns, weighted by a third where there is one."""
    weights = rows[:, 2] if rows.shape[1] > 2 else np.ones(len(rows))
    one, other = (midranks(rows[:, column], weights) for column in (0, 1))
    covariance = np.cov(one, other, aweights=weights, ddof=0)
    spread = math.sqrt(covariance[0, 0] * covariance[1, 1])
    return float(covariance[0, 1] / spread) if spread else math.nan


def midranks(values: Values, weights: Values) -> Values:
    """Return ranks in units of weight, ties at their middle."""
    _, place = np.unique(values, return_inverse=True)
    each = np.bincount(place, weights)
    return (np.cumsum(each) - each / 2)[place]


def scores_of_reader(judgements: Sequence[Judgement]) -> list[TurnScores]:
    """Return a reader's scores turn by turn, as detectors read them."""
    return [TurnScores(one.turn, one.scores) for one in judgements]


def scores_of_local(chat: Chat, scores: Scores) -> list[TurnScores]:
    """Return the scores of `local` turn by turn; a turn that it does not read has none."""
    by_turn = {turn.number: scores.get(f"{chat.sides[0]} {turn.number}", {}) for turn in chat.turns}
    return [
        TurnScores(number, {name: Score(*triple) for name, triple in told.items()})
        for number, told in by_turn.items()
    ]


def dialogues(chats: Sequence[Chat], read: Read) -> list[Row]:
    """How reader, `local` and detectors rank film dialogues, against what three people agreed on."""
    both = {
        "reader": [scores_of_reader(read[chat.given.sequence_id]) for chat in chats],
        "local": [scores_of_local(chat, chat.scores["history"]) for chat in chats],
    }
    labels = [is_attack(chat) for chat in chats]
    rows = []
    for who, turns in both.items():
        for name in DETECTORS:
            detector = build_detector(name)
            scores = [run_detector(detector, one).score for one in turns]
            each = [
                np.array([[-math.inf if score is None else score, label, len(chat.turns)]])
                for chat, score, label in zip(chats, scores, labels, strict=True)
            ]
            rows.append(area_row(f"{who}, {name}: AUROC", [one[:, :2] for one in each], of=weighted_area))
            if name == "any_turn":
                rows.append(area_row(f"{who}, among like numbers of turns", each, of=within(2, LENGTHS)))
    baselines: Mapping[str, Callable[[Chat], float]] = {"turns": lambda chat: len(chat.turns), "words": Chat.words}
    for name, of in baselines.items():
        each = [np.array([[of(chat), label]]) for chat, label in zip(chats, labels, strict=True)]
        rows.append(area_row(f"number of {name}: AUROC", each, of=weighted_area))
    return rows


def raters(chats: Sequence[Chat], read: Read) -> list[Row]:
    """How the F of the last reply ranks, against the majority of raters and their share; beside one rater."""
    graded: Mapping[str, Callable[[Chat], float]] = {
        "reader": lambda chat: read[chat.given.sequence_id][-1].peak_f,
        "local": lambda chat: chat.f["history"].get(f"response {len(chat.turns)}", 0.0),
    }
    rows = []
    for who, of in graded.items():
        shares = [np.array([[of(chat), float(chat.given.metadata["unsafe_share"])]]) for chat in chats]
        majority = [np.array([[of(chat), is_attack(chat)]]) for chat in chats]
        rows.append(area_row(f"{who}: AUROC, majority", majority, of=weighted_area))
        rows.append(area_row(f"{who}: Spearman, share of raters", shares, of=weighted_spearman))
    one = [one_against_the_rest(chat) for chat in chats]
    by_majority = [
        np.column_stack((votes[:, 0], np.full(2, is_attack(chat)), votes[:, 2]))
        for chat, votes in zip(chats, one, strict=True)
    ]
    rows.append(area_row("one rater: AUROC, majority", by_majority, of=weighted_area))
    rows.append(area_row("one rater: Spearman, share of the rest", one, of=weighted_spearman))
    return rows


def one_against_the_rest(chat: Chat) -> Values:
    """Return a vote, the share of the other raters and the chance of that vote, for both votes."""
    share, raters = float(chat.given.metadata["unsafe_share"]), int(chat.given.metadata["raters"])
    return np.array(
        [[vote, (raters * share - vote) / (raters - 1), share if vote else 1 - share] for vote in (0.0, 1.0)]
    )


def prompts(chats: Sequence[Chat], read: Read, all_of: Mapping[str, int]) -> list[Row]:
    """How prompts of users are ranked, against experts; weighted to the whole set."""
    by_kind: dict[str, list[Chat]] = {kind: [] for kind in all_of}
    for chat in chats:
        by_kind[kind_of(chat.given)].append(chat)
    weights = {kind: all_of[kind] / len(some) for kind, some in by_kind.items()}
    graded: Mapping[str, Callable[[Chat], float]] = {
        "reader": lambda chat: peak(read[chat.given.sequence_id]),
        "local": Chat.peak,
    }
    rows = []
    for who, of in graded.items():
        for kinds in (("jailbreaks",), ("otherwise toxic",), ("jailbreaks", "otherwise toxic")):
            each = [
                np.array([[of(chat), float(kind != "benign"), weights[kind]]])
                for kind in (*kinds, "benign")
                for chat in by_kind[kind]
            ]
            rows.append(area_row(f"{who}: AUROC, {' and '.join(kinds)}", each, of=weighted_area))
    return rows


def agreement(read: Mapping[str, Read]) -> list[Row]:
    """How far two readers agree on what was read twice: alpha of F, and ranks of the highest F."""
    rows = []
    for name, mode, belongs in (
        ("MentalManip", "history", "mentalmanip"),
        ("ToxicChat", "history", "toxic_chat"),
        ("DICES-350", "replies", "dices350"),
    ):
        first = {(one.sequence_id, one.turn): one for some in read[mode].values() for one in some}
        twice = [
            (first[one.sequence_id, one.turn], one)
            for some in read[f"{mode}{SECOND}"].values()
            for one in some
            if one.sequence_id.startswith(belongs)
        ]
        ratings = [[a.scores[name].F, b.scores[name].F] for a, b in twice for name in a.scores]
        groups = [a.sequence_id for a, _ in twice for _ in a.scores]
        alpha = krippendorff_alpha(ratings, np.random.default_rng(1), groups)
        said = f"{name}: alpha of F, {len(twice)} turns read twice"
        rows.append(Row(said, alpha.value, (alpha.low, alpha.high), None, None))
        by_conversation: dict[str, list[tuple[float, float]]] = {}
        for a, b in twice:
            by_conversation.setdefault(a.sequence_id, []).append((a.peak_f, b.peak_f))
        each = [np.array(pairs) for pairs in by_conversation.values()]
        rows.append(area_row(f"{name}: Spearman, highest F", each, of=weighted_spearman))
        above = sum(len({p >= FLAG for p in pair}) == 1 for pairs in by_conversation.values() for pair in pairs)
        rows.append(
            Row(f"{name}: same side of F {FLAG}", above / len(twice), None, None, None, (above, len(twice)))
        )
    return rows


def cell(row: Row) -> str:
    """Return a figure with its interval, as the tables of a page have it."""
    value = f"{row.value:.2f}" if row.value is not None else "–"
    return f"{value} [{row.interval[0]:.2f}, {row.interval[1]:.2f}]" if row.interval else value


def told(name: str, cells: Mapping[str, str]) -> str:
    """Return a figure that understands nothing, or one rater's, with what it is."""
    return f"{name.partition(':')[0]} {cells[name]}"


def section(parts: Mapping[str, Iterable[Row]]) -> str:
    """Return the section of results.md."""
    films, dices, toxic, mhj, twice = ({row.name: cell(row) for row in rows} for rows in parts.values())
    ranked = [films[f"reader, {name}: AUROC"][:4] for name in DETECTORS]
    same, every, number, number_same, _ = mhj.values()
    alphas = [f"{said.split(':')[0]} {value}" for said, value in twice.items() if "alpha" in said]
    shown = (
        ("Film dialogues, 200 (MentalManip): AUROC", films, "{}, any_turn: AUROC", "number of turns: AUROC"),
        ("… among like numbers of turns", films, "{}, among like numbers of turns", ""),
        *(("… " + name, films, f"{{}}, {name}: AUROC", "") for name in ("f_ema", "cusum", "peak_accumulation")),
        ("A chatbot's replies, 350 (DICES): AUROC", dices, "{}: AUROC, majority", "one rater: AUROC, majority"),
        ("… Spearman", dices, "{}: Spearman, share of raters", "one rater: Spearman, share of the rest"),
        ("Users' jailbreaks, 113 (ToxicChat): AUROC", toxic, "{}: AUROC, jailbreaks", ""),
        ("… otherwise toxic, 150", toxic, "{}: AUROC, otherwise toxic", ""),
        ("… both, weighted to the whole set", toxic, "{}: AUROC, jailbreaks and otherwise toxic", ""),
    )
    rows = [
        (said, *(cells[named.format(who)] for who in ("reader", "local")), beside and told(beside, cells))
        for said, cells, named, beside in shown
    ]
    rows += [
        ("Jailbreaks' turns, 795 (MHJ), against the reader: AUROC", "", every, f"number of the turn {number}"),
        ("… at like positions", "", same, f"number of the turn {number_same}"),
    ]
    head = ("set: measure", "reader", "`local`", "beside")
    return f"""Labels are people's, but in MHJ; the reader is a large language model reading blind. Intervals: 95 %
by bootstrap of conversations. Made by `python benchmarks/people_labels.py --data DATA --write docs`.

{table(head, rows)}

- MentalManip (three people agreed): the number of turns alone ranks as well; among like numbers a reader still
  ranks. Ten detectors over the reader's scores: {min(ranked)} to {max(ranked)}.
- DICES (123 raters a reply): {UNSEEN}
- One rater against the rest: independent votes of the recorded share. A vote is yes or no, F is graded.
- ToxicChat (experts): 350 benign prompts stand for 2,417.
- Two readers, alpha of F: {"; ".join(alphas)}."""


if __name__ == "__main__":
    main()
