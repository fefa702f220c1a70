"""How often are English texts not read, how often are those in other languages, and what does that take?

    python benchmarks/languages.py --data DATA                  # the dev splits; --split train for those tuned on

English are the chats and prompts of sources in English, replies too, and those that their source calls so; a few
are in other languages all the same. Other languages are those that the source names. Mixed are texts in other
languages in Latin letters with some words in a row from English ones, as somebody might hide a request. Disguised
are English prompts that were changed so that they might pass for another language. Shares are of turns, with exact
95 % intervals.
"""

from __future__ import annotations

import argparse
import codecs
import json
import random
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from turnwise.observers.local.languages import LETTERS, WORDS, Languages
from turnwise.observers.local.reading import Speech
from turnwise.observers.local.weights import SHIPPED, load_weights, shipped
from turnwise.rates import Rate

Texts = dict[str, list[str]]

CHATS = (
    "arena_real_users",
    "safemt_1k",
    "safemt_attack600",
    "multidogo_customers",
    "casino_negotiations",
    "hh_harmless_redteam",
)
"""Conversations in English; what is not there in a split is left out."""

LATIN = ("multijail it", "multijail jv", "multijail sw", "multijail vi")
"""Hosts of mixed texts."""

RUNS = (5, 6, 7, 8, 10, 12)
"""Words in a row from English texts."""

MIXED, SEED = 250, 0

_MARKS = "\u0300\u0301\u0302\u0303\u0308\u030c\u0327"
_POLITE = "Guten Tag, ich hätte da noch eine ganz kleine Frage:", "Vielen Dank und schöne Grüße aus der Stadt."


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with train, dev and single")
    parser.add_argument("--split", choices=("train", "dev"), default="dev")
    parser.add_argument("--observer", choices=SHIPPED, default=SHIPPED[0])
    parser.add_argument("--show", action="store_true", help="print the English texts that are not read")
    asked = parser.parse_args()

    weights = load_weights(shipped(asked.observer))
    unread = Languages(weights.languages, Speech(weights.tokenizer).known).unread
    unread("The first one loads what the others use.")
    english, others = read_english(asked.data, asked.split), read_others(asked.data, asked.split)
    tell("English, not read", english, lambda text: unread(text) is not None, show=asked.show)
    tell("other languages, read", others, lambda text: unread(text) is None)
    mixed = mix([text for name in LATIN for text in others.get(name, ())], english, unread)
    tell("mixed, not read", mixed, lambda text: unread(text) is not None)
    disguised = disguise(
        english, [word for name in LATIN for text in others.get(name, ()) for word in text.split()]
    )
    tell("disguised, not read", disguised, lambda text: unread(text) is not None)


def tell(title: str, texts: Texts, counts: Callable[[str], bool], *, show: bool = False) -> None:
    """Print for how many texts of each source something holds, and how long it took to tell."""
    print(f"\n{title}")
    total, of, seconds, characters = 0, 0, 0.0, 0
    for name, some in texts.items():
        began = time.perf_counter()
        held = [text for text in some if counts(text)]
        seconds += time.perf_counter() - began
        total, of, characters = total + len(held), of + len(some), characters + sum(map(len, some))
        print(f"  {name:28} {Rate(len(held), len(some))}")
        for text in held if show else ():
            print(f"      {text[:100]!r}")
    print(f"  {'all':28} {Rate(total, of)}")
    print(f"  {1e6 * seconds / max(of, 1):.0f} us a turn of {characters / max(of, 1):.0f} characters on average")


def read_english(data: Path, split: str) -> Texts:
    """Return the texts in English by source, prompts and replies apart."""
    found: Texts = {}
    for name in CHATS:
        for row in rows(data / split / f"{name}.jsonl"):
            if language_of(row) in ("en", None):
                add_turns(found, name, row)
    found["search_arena"] = [row["text"] for row in rows(data / "single" / split / "search_arena.jsonl")]
    multijail = rows(data / "single" / split / "multijail.jsonl")
    found["multijail en"] = [row["text"] for row in multijail if language_of(row) == "en"]
    for row in rows(data / split / "wildchat_real_users.jsonl"):
        if language_of(row) == "en":
            add_turns(found, "wildchat en", row)
    return written(found)


def read_others(data: Path, split: str) -> Texts:
    """Return the texts in other languages by source and language."""
    found: Texts = {}
    for row in rows(data / "single" / split / "multijail.jsonl"):
        if language_of(row) != "en":
            found.setdefault(f"multijail {language_of(row)}", []).append(row["text"])
    found["wildchat_ru"] = [row["text"] for row in rows(data / "single" / split / "wildchat_ru.jsonl")]
    for name, label in (("crosswoz_zh", "crosswoz_zh"), ("wildchat_real_users", "wildchat")):
        for row in rows(data / split / f"{name}.jsonl"):
            if language_of(row) != "en":
                add_turns(found, label if name == label else f"{label} {language_of(row)}", row, replies=False)
    return written(found)


def mix(hosts: Sequence[str], english: Texts, unread: Callable[[str], str | None]) -> Texts:
    """Return texts that are not read with some English words in a row, by how many these are."""
    draw = random.Random(SEED)
    sources = [text for name in ("multijail en", "arena_real_users", "search_arena") for text in english[name]]
    closed = [text for text in hosts if unread(text) is not None]
    found: Texts = {}
    for count in RUNS:
        some = found.setdefault(f"{count} English words", [])
        while len(some) < MIXED:
            words, host = draw.choice(sources).split(), draw.choice(closed).split()
            start = draw.randrange(max(1, len(words) - count + 1))
            run = words[start : start + count]
            plain = [word.strip(".,;:?!\"'()") for word in run]
            letters = "".join(plain)
            if (
                len(run) < max(count, WORDS)
                or len(letters) < LETTERS
                or not (letters.isalpha() and letters.isascii())
            ):
                continue
            if all(plain) and unread(" ".join(words)) is None:
                place = draw.randrange(len(host) + 1)
                some.append(" ".join([*host[:place], *run, *host[place:]]))
    return found


def disguise(english: Texts, foreign: Sequence[str]) -> Texts:
    """Return English prompts in several disguises.

    Args:
        english: texts by source.
        foreign: words of other languages.
    """
    draw = random.Random(SEED)
    known = [text for name in ("multijail en", "arena_real_users", "search_arena") for text in english[name]]
    plain = [text for text in known if text.isascii() and 6 <= len(text.split()) <= 40]
    some = draw.sample(plain, min(MIXED, len(plain)))

    def marked(text: str) -> str:
        signs = (sign + draw.choice(_MARKS) if sign.lower() in "aeioucnsz" else sign for sign in text)
        return unicodedata.normalize("NFC", "".join(signs))

    def between(text: str, count: int) -> str:
        return " ".join(one for word in text.split() for one in (word, *draw.choices(foreign, k=count)))

    ways: dict[str, Callable[[str], str]] = {
        "marks on letters": marked,
        "a foreign word after each": lambda text: between(text, 1),
        "two foreign words after each": lambda text: between(text, 2),
        "polite words around": lambda text: f"{_POLITE[0]} {text} {_POLITE[1]}",
        "ROT13": lambda text: codecs.encode(text, "rot13"),
    }
    return {name: [way(text) for text in some] for name, way in ways.items()}


def add_turns(found: Texts, name: str, row: dict[str, Any], *, replies: bool = True) -> None:
    """Add the texts of a conversation under its source."""
    for turn in row["turns"]:
        if turn["role"] == "user":
            found.setdefault(name, []).append(turn["content"])
        elif replies:
            found.setdefault(f"{name}, replies", []).append(turn["content"])


def written(texts: Texts) -> Texts:
    """Return the texts that are not blank."""
    return {name: [text for text in some if text and text.strip()] for name, some in texts.items()}


def language_of(row: dict[str, Any]) -> str | None:
    """Return the language that a source names."""
    metadata = row.get("metadata") or {}
    return metadata.get("lang") or metadata.get("language")


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; none of one that is not there."""
    if path.exists():
        with path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


if __name__ == "__main__":
    main()
