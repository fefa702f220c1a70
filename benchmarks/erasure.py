"""Erasure at size: 100 people leave a store with 30,000 conversations, and no byte of their texts is left.

python benchmarks/erasure.py            # makes the store in a temporary folder, erases, searches every file
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.explorer import ViewedStore, WordIndex
from turnwise.guard.forgetting import conversations_of, erase
from turnwise.runs import evaluate
from turnwise.store import Store

CONVERSATIONS, PEOPLE, PER_PERSON, TURNS = 30_000, 100, 3, 5


def main() -> int:
    """Make the store, erase, and search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    parser.add_argument("--people", type=int, default=PEOPLE)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "work.db"
        persons = [f"person{n:05}" for n in range(asked.conversations // PER_PERSON)]
        with Store(path, create=True) as store:
            store.add_sequences(_chats(asked.conversations, persons))
            evaluate(store, "run", "scripted:0.2,0.9", jobs=2)
            for n in range(0, asked.conversations, 50):
                store.people.review([f"chat-{n}"], "read", author="reader", note=f"note of {_mark(n)}")
            words = WordIndex(ViewedStore(store))
            words.wait()
            words.close()
            store.query("F >= 0.5", "run")
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        wanted = persons[:: len(persons) // asked.people][: asked.people]
        marks = [_mark(n) for n in range(asked.conversations) if persons[n // PER_PERSON] in set(wanted)]
        files = list(Path(folder).iterdir())
        print(f"{asked.conversations:,} conversations, {size / 1e6:.0f} MB in {len(files)} files")
        print(f"before: {len(_found(Path(folder), marks)):,} of {len(marks):,} marks found")
        began = time.perf_counter()
        with Store(path) as store:
            ids = conversations_of(store, *wanted)
            looked = time.perf_counter() - began
            receipt = erase(store, ids, reason="benchmark")
        seconds = time.perf_counter() - began
        finished = receipt.store is not None and receipt.store.finished
        print(
            f"erased {len(ids):,} conversations of {len(wanted)} people in {seconds:.1f} s; finished: {finished}"
        )
        print(f"  {looked:.1f} s of it to find them")
        left = _found(Path(folder), marks)
        print(f"after: {len(left):,} of {len(marks):,} marks found")
        with Store(path) as store:
            stayed = sum(1 for _ in store.heads())
        print(f"{stayed:,} conversations stay")
        return 1 if left or stayed != asked.conversations - len(ids) else 0


def _mark(number: int) -> str:
    """A word that only one conversation has."""
    return f"quoll{number:05}x"


def _chats(count: int, persons: list[str]) -> Iterator[Sequence]:
    for n in range(count):
        conversation = Conversation.human_ai(persons[n // PER_PERSON], "some-model")
        for turn in range(TURNS):
            conversation.add_prompt(f"Turn {turn} of {_mark(n)}, with some more words so that it is a sentence.")
            conversation.add_response(f"A reply to {_mark(n)}.")
        yield Sequence(f"chat-{n}", Label.UNLABELLED, "made", conversation)


def _found(folder: Path, marks: list[str]) -> list[str]:
    """The marks that stand in any file."""
    contents = [file.read_bytes() for file in folder.iterdir()]
    return [mark for mark in marks if any(mark.encode() in content for content in contents)]


if __name__ == "__main__":
    sys.exit(main())
