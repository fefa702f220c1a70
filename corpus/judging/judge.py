"""Have turns judged blind: what to read is dealt out, shown round by round, and scored.

    python corpus/judging/judge.py deal history --work W --name h FILE... [--ids IDS] [--skip JUDGED] [--twice 0.1]
    python corpus/judging/judge.py next h-01 --work W          # what a reader runs first
    python corpus/judging/judge.py score h-01 --work W < scores  # and then after each round
    python corpus/judging/judge.py status --work W
    python corpus/judging/judge.py inspect --work W
    python corpus/judging/judge.py collect --work W --out corpus/judged --reader NAME --kind KIND

README.md beside this file is the protocol. Nothing here makes a score: it shows texts and checks what comes back.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from turnwise.conversation import Seen, Side
from turnwise.conversation import Sequence as Chat
from turnwise.datasets import BadRecord, Judgement, digests, open_dataset, read_judgements
from turnwise.datasets.annotated import MODES, SECOND
from turnwise.scoring import Score

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
GUIDELINE_VERSION = 3
A_ROUND = 40
"""Conversations of which a reader sees the next turn at a time."""

HEAD, TAIL = 900, 450
"""Characters shown of a longer text."""

DECIDED = 25
"""Highest F, in hundredths, from which a reader names the phrase that decided."""


@dataclass
class Item:
    """One turn to be scored, with what the reader may not see: where it comes from."""

    sequence_id: str
    turn: int
    digest: str
    text: str
    scores: list[int] | None = None
    span: list[int] | None = None
    leans_on: int | None = None
    whole: str = ""
    """The scored text."""


@dataclass
class Batch:
    """The work of one reader: rounds of items, in the order in which they are shown."""

    name: str
    mode: str
    second: bool
    rounds: list[list[tuple[str, Item]]] = field(default_factory=list)
    principles: Sequence[str] = PRINCIPLES
    began: str | None = None
    ended: str | None = None

    @property
    def current(self) -> int | None:
        """Index of the first round that is not scored, or None."""
        return next((n for n, items in enumerate(self.rounds) if any(i.scores is None for _, i in items)), None)

    @property
    def items(self) -> list[Item]:
        """All items."""
        return [item for items in self.rounds for _, item in items]

    def save(self, work: Path) -> None:
        """Write the batch to its file, whole or not at all."""
        beside = work / f"{self.name}.part"
        with gzip.open(beside, "wt", encoding="utf-8") as out:
            json.dump(asdict(self), out, ensure_ascii=False)
        beside.replace(work / f"{self.name}.json.gz")

    @classmethod
    def load(cls, work: Path, name: str) -> Batch:
        """Read a batch back."""
        path = work / f"{name}.json.gz"
        if not path.exists():
            raise SystemExit(f"there is no batch {name!r} in {work}; `status` lists those that there are")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            record = json.load(file)
        record["rounds"] = [[(label, Item(**item)) for label, item in items] for items in record["rounds"]]
        return cls(**record)


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    deal_ = commands.add_parser("deal", help="make batches of what is to be read")
    deal_.add_argument("mode", choices=MODES)
    deal_.add_argument("files", nargs="+")
    deal_.add_argument("--name", required=True, help="batches are called NAME-01, NAME-02 and so on")
    deal_.add_argument("--ids", type=Path, help="file of ids, one a line: only these conversations")
    deal_.add_argument("--skip", type=Path, nargs="*", default=[], help="files of judgements: not these again")
    deal_.add_argument("--size", type=int, default=700, help="turns a batch")
    deal_.add_argument("--twice", type=float, default=0.0, help="share of conversations that two readers read")
    deal_.add_argument("--second", action="store_true", help="all of it is a second reading")
    deal_.add_argument("--principles", nargs="+", default=PRINCIPLES, help="what turns are judged against")
    deal_.add_argument("--seed", type=int, default=1)
    for name in ("next", "score"):
        commands.add_parser(name).add_argument("batch")
    for name in ("status", "inspect"):
        commands.add_parser(name)
    collect_ = commands.add_parser("collect", help="write all finished batches as files of judgements")
    collect_.add_argument("--out", type=Path, required=True)
    collect_.add_argument("--reader", required=True, help="who read, such as the name of a model")
    collect_.add_argument("--kind", required=True, help="what kind of reader that is")
    for command in commands.choices.values():
        command.add_argument(
            "--work", type=Path, required=True, help="folder of the batches, outside of the project"
        )
    arguments = parser.parse_args()
    commands_ = {
        "deal": deal, "next": show_next, "score": take_scores,
        "status": status, "inspect": inspect, "collect": collect,
    }  # fmt: skip
    commands_[arguments.command](arguments)


# Dealing


def deal(arguments: argparse.Namespace) -> None:
    """Deal conversations to batches: mixed sources, no two halves of a pair in one batch."""
    rng = random.Random(arguments.seed)
    wanted = set(arguments.ids.read_text(encoding="utf-8").split()) if arguments.ids else None
    done = {(j.sequence_id, j.turn, j.seen, j.digest) for path in arguments.skip for j in read_judgements(path)}
    chats = [chat for chat in read(arguments.files) if wanted is None or chat.sequence_id in wanted]
    if wanted is not None and (missing := wanted - {chat.sequence_id for chat in chats}):
        raise SystemExit(f"{len(missing)} ids are in none of the files, {min(missing)!r} among them")
    side, seen = MODES[arguments.mode]
    work = [(chat, to_read(chat, side, seen, done)) for chat in chats]
    work = [(chat, items) for chat, items in work if items]
    if not work:
        raise SystemExit("nothing is left to be read")
    if taken := sorted(path.name for path in arguments.work.glob(f"{arguments.name}-*.json.gz")):
        raise SystemExit(
            f"{arguments.work} has batches of that name, {taken[0]} among them: choose another --name"
        )
    rng.shuffle(work)
    batches = spread(work, arguments.size)
    again = spread(work[: round(len(work) * arguments.twice)], arguments.size) if arguments.twice else []
    arguments.work.mkdir(parents=True, exist_ok=True)
    number = 0
    for second, dealt in ((arguments.second, batches), (True, again)):
        for one in dealt:
            number += 1
            name = f"{arguments.name}-{number:02d}"
            batch = Batch(name, arguments.mode, second, principles=arguments.principles)
            batch.rounds = isolated(one, rng) if arguments.mode == "turn" else in_order(one)
            batch.save(arguments.work)
            print(
                f"{batch.name}: {len(batch.items)} turns of {len(one)} conversations, {len(batch.rounds)} rounds"
            )


def read(files: Iterable[str]) -> Iterator[Chat]:
    """Yield the conversations of files; a bad record ends it."""
    for file in files:
        for record in open_dataset(file):
            if isinstance(record, BadRecord):
                raise SystemExit(f"{file}, line {record.line}: {record.reason}")
            yield record


def to_read(chat: Chat, side: Side, seen: Seen, done: set[tuple[str, int, Seen, str]]) -> list[Item]:
    """Return the turns of a conversation to be read; none where each was read before."""
    known = digests(chat.conversation, seen)
    items = []
    for turn in chat.conversation:
        text = turn.text(side)
        if not text:
            continue
        before = f"[user] {clipped(turn.prompt)}\n[reply, to be scored] " if side is Side.RESPONSE else ""
        shown = before + clipped(text)
        items.append(Item(chat.sequence_id, turn.number, known[turn.number], shown, whole=text))
    if all((item.sequence_id, item.turn, seen, item.digest) in done for item in items):
        return []
    return items


def clipped(text: str) -> str:
    """Return a text, or the head and tail of a long one."""
    if len(text) <= HEAD + TAIL + 50:
        return text
    return f"{text[:HEAD]} [... {len(text) - HEAD - TAIL} characters ...] {text[-TAIL:]}"


def pair_of(chat: Chat) -> str:
    """Return what two halves of a pair have in common, or the id of the conversation."""
    return str(chat.metadata.get("pair", chat.sequence_id))


def spread(work: Sequence[tuple[Chat, list[Item]]], size: int) -> list[list[list[Item]]]:
    """Deal conversations to as many batches as the turns need, longest first, evenly."""
    turns = sum(len(items) for _, items in work)
    count = max(1, round(turns / size), 2 if len({pair_of(c) for c, _ in work}) < len(work) else 1)
    load = [0] * count
    pairs: list[set[str]] = [set() for _ in range(count)]
    dealt: list[list[list[Item]]] = [[] for _ in range(count)]
    for chat, items in sorted(work, key=lambda one: -len(one[1])):
        free = [n for n in range(count) if pair_of(chat) not in pairs[n]]
        least = min(free, key=lambda n: load[n])
        load[least] += len(items)
        pairs[least].add(pair_of(chat))
        dealt[least].append(items)
    return [one for one in dealt if one]


def in_order(chats: list[list[Item]]) -> list[list[tuple[str, Item]]]:
    """Return rounds of the next turn of each of some conversations, mixed."""
    random.Random(len(chats)).shuffle(chats)
    groups = max(1, round(len(chats) / A_ROUND))
    rounds = []
    for group in range(groups):
        some = chats[group::groups]
        for depth in range(max(map(len, some))):
            rounds.append([(f"{n + 1}.{depth + 1}", c[depth]) for n, c in enumerate(some) if depth < len(c)])
    return rounds


def isolated(chats: list[list[Item]], rng: random.Random) -> list[list[tuple[str, Item]]]:
    """Return rounds of single turns, shuffled, no two of a conversation in one round."""
    lengths = [len(items) for items in chats]
    count = max(*lengths, math.ceil(sum(lengths) / A_ROUND))
    rounds: list[list[Item]] = [[] for _ in range(count)]
    for items in chats:
        room = sorted(range(count), key=lambda n: (len(rounds[n]), rng.random()))
        for place, item in zip(room, rng.sample(items, len(items)), strict=False):
            rounds[place].append(item)
    for items in rounds:
        rng.shuffle(items)
    return [[(f"{n + 1}", item) for n, item in enumerate(items)] for items in rounds if items]


# Reading


def show_next(arguments: argparse.Namespace) -> None:
    """Show the round that is to be scored."""
    batch = Batch.load(arguments.work, arguments.batch)
    if batch.began is None:
        batch.began = now()
        batch.save(arguments.work)
    show(batch)


def show(batch: Batch) -> None:
    """Print the current round of a batch."""
    current = batch.current
    if current is None:
        print(f"This batch is read to its end: {len(batch.items)} turns. Thank you.")
        return
    items = batch.rounds[current]
    print(f"== round {current + 1} of {len(batch.rounds)}, {len(items)} turns")
    if batch.mode != "turn" and all(label.endswith(".1") for label, _ in items):
        print("== new conversations begin; what came before is done with")
    for label, item in items:
        print(f"<{label}> {item.text}")
    print(f"== begin with the line: {mark_of(batch, current)}")
    print(f"== then score each: LABEL then T I F of {', '.join(batch.principles)}, in hundredths, a line each;")
    print(
        f"== with an F of {DECIDED} or more also | the deciding phrase, copied | the earlier turn it leans on or -"
    )


def mark_of(batch: Batch, number: int) -> str:
    """Return the mark of a round, by which its scores are known to be meant for it."""
    return "# " + hashlib.sha256(f"{batch.name} {number}".encode()).hexdigest()[:4]


def take_scores(arguments: argparse.Namespace) -> None:
    """Take the scores of the current round: all of them, or none."""
    batch = Batch.load(arguments.work, arguments.batch)
    current = batch.current
    if current is None:
        raise SystemExit("this batch is read to its end")
    items = dict(batch.rounds[current])
    mark = mark_of(batch, current)
    first, _, rest = sys.stdin.read().strip().partition("\n")
    if first.strip() != mark:
        raise SystemExit(
            "nothing was taken: the first line must be the mark that stands under this round, such as '# 1a2b'; "
            "`next` shows it. It keeps scores of one round from being taken for another."
        )
    given, wrong = parse(rest, items, 3 * len(batch.principles))
    wrong += [f"{label}: no score" for label in items if label not in given]
    if wrong:
        raise SystemExit("nothing was taken:\n" + "\n".join(wrong[:20]))
    for label, (numbers, span, leans_on) in given.items():
        items[label].scores, items[label].span, items[label].leans_on = numbers, span, leans_on
    if batch.current is None:
        batch.ended = now()
    batch.save(arguments.work)
    show(batch)


Given = tuple[list[int], list[int] | None, int | None]
"""The numbers of a turn, where the phrase stands that decided, and the earlier turn that it leans on."""


def parse(text: str, items: Mapping[str, Item], count: int = 9) -> tuple[dict[str, Given], list[str]]:
    """Return what is said of each label, and what is wrong with the others."""
    given: dict[str, Given] = {}
    wrong = []
    for line in filter(str.strip, text.splitlines()):
        numbers, *decided = line.split("|", 1)
        label, *parts = numbers.replace("<", " ").replace(">", " ").split() or [line.strip()]
        if label not in items:
            wrong.append(f"{label}: not a label of this round")
        elif label in given:
            wrong.append(f"{label}: scored twice")
        elif len(parts) != count or not all(part.isdecimal() and int(part) <= 100 for part in parts):
            wrong.append(f"{label}: {count} whole numbers from 0 to 100 are wanted, not {' '.join(parts)!r}")
        else:
            scores = [int(part) for part in parts]
            try:
                span, leans_on = decided_by(items[label], decided[0] if decided else "", max(scores[2::3]))
            except ValueError as error:
                wrong.append(f"{label}: {error}")
            else:
                given[label] = scores, span, leans_on
    return given, wrong


def decided_by(item: Item, told: str, highest: int) -> tuple[list[int] | None, int | None]:
    """Return where the phrase stands that decided, and the earlier turn that it leans on.

    Raises:
        ValueError: it is missing, or stands nowhere in the turn, or there is no such earlier turn.
    """
    phrase, bar, earlier = (part.strip() for part in told.rpartition("|"))
    if not bar:
        phrase, earlier = earlier, "-"
    if not phrase:
        if highest >= DECIDED:
            raise ValueError(f"an F is {highest}: add | the phrase that decided | the earlier turn, or -")
        return None, None
    start = item.whole.find(phrase)
    if start < 0:
        raise ValueError(f"{phrase!r} does not stand in the turn; copy the phrase as it is, without the [...]")
    if earlier not in ("", "-") and not (earlier.isdecimal() and 1 <= int(earlier) < item.turn):
        raise ValueError(f"{earlier!r} is no earlier turn; use a number below {item.turn}, or -")
    return [start, start + len(phrase)], None if earlier in ("", "-") else int(earlier)


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# Looking at what came back


def batches_in(work: Path) -> list[Batch]:
    """Return all batches of a folder."""
    return [Batch.load(work, path.name.removesuffix(".json.gz")) for path in sorted(work.glob("*.json.gz"))]


def status(arguments: argparse.Namespace) -> None:
    """Print how far each batch is."""
    total = read_ = 0
    for batch in batches_in(arguments.work):
        items = batch.items
        done = sum(item.scores is not None for item in items)
        total, read_ = total + len(items), read_ + done
        print(
            f"{batch.name:<14} {batch.mode:<8} {'second' if batch.second else '':<7} {done:>5} of {len(items):>5}"
        )
    print(f"{read_} of {total} turns are read")


def inspect(arguments: argparse.Namespace) -> None:
    """Print for each batch what careless reading would show in: constant rows, copied rows, length, spread."""
    print(
        f"{'batch':<14}{'turns':>6}{'distinct rows':>15}{'most frequent':>15}{'same as the row before':>24}"
        f"{'mean F':>8}{'F>=.5':>7}{'F: three equal at >=.3':>24}{'F with length':>15}"
    )
    for batch in batches_in(arguments.work):
        items = [item for item in batch.items if item.scores]
        if len(items) < 5:
            continue
        rows = [tuple(item.scores or ()) for item in items]
        common = Counter(rows).most_common(1)[0][1] / len(rows)
        repeats = sum(a == b for a, b in pairwise(rows)) / (len(rows) - 1)
        peaks = [max(row[2::3]) / 100 for row in rows]
        flagged = sum(peak >= 0.5 for peak in peaks) / len(peaks)
        high = [row for row in rows if max(row[2::3]) >= 30]
        equal = sum(len(set(row[2::3])) == 1 for row in high) / max(1, len(high))
        lengths = [float(len(item.text)) for item in items]
        tie = statistics.correlation(lengths, peaks) if len(set(peaks)) > 1 else 0.0
        print(
            f"{batch.name:<14}{len(rows):>6}{len(set(rows)) / len(rows):>15.2f}{common:>15.2f}{repeats:>24.2f}"
            f"{statistics.mean(peaks):>8.3f}{flagged:>7.2f}{equal:>24.2f}{tie:>15.2f}"
        )


def collect(arguments: argparse.Namespace) -> None:
    """Add the finished batches to the files of judgements, and say how each was read."""
    register = arguments.out / "readings.json"
    readings: dict[str, Any] = json.loads(register.read_text(encoding="utf-8")) if register.exists() else {}
    lines: dict[str, list[Judgement]] = defaultdict(list)
    for batch in batches_in(arguments.work):
        if batch.current is not None:
            continue
        if known := readings.get(batch.name):
            if known["began"] != batch.began:
                raise SystemExit(f"another batch called {batch.name} was collected before: rename this one")
            continue
        side, seen = MODES[batch.mode]
        file = f"{batch.mode}{SECOND if batch.second else ''}.jsonl"
        for number, items in enumerate(batch.rounds, start=1):
            for _, item in items:
                lines[file].append(
                    Judgement(
                        item.sequence_id,
                        item.turn,
                        side,
                        seen,
                        item.digest,
                        as_scores(item, batch.principles),
                        batch.name,
                        number,
                        None if item.span is None else (item.span[0], item.span[1]),
                        item.leans_on,
                    )
                )
        readings[batch.name] = {
            "mode": batch.mode, "second": batch.second, "reader": arguments.reader, "kind": arguments.kind,
            "guideline": GUIDELINE_VERSION, "began": batch.began, "ended": batch.ended,
            "rounds": len(batch.rounds), "turns": len(batch.items),
            "conversations": len({item.sequence_id for item in batch.items}),
        }  # fmt: skip
    arguments.out.mkdir(parents=True, exist_ok=True)
    for file, added in lines.items():
        path = arguments.out / file
        kept = {(j.sequence_id, j.turn): j for j in read_judgements(path)} if path.exists() else {}
        kept |= {(j.sequence_id, j.turn): j for j in added}
        ordered = [kept[key] for key in sorted(kept)]
        path.write_text("".join(f"{one.to_line()}\n" for one in ordered), encoding="utf-8")
        print(f"{path}: {len(added)} new, {len(ordered)} in all")
    register.write_text(json.dumps(readings, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def as_scores(item: Item, principles: Sequence[str]) -> dict[str, Score]:
    """Return the scores of an item by principle."""
    numbers = [number / 100 for number in item.scores or ()]
    return {name: Score(*numbers[3 * n : 3 * n + 3]) for n, name in enumerate(principles)}


if __name__ == "__main__":
    main()
