"""What people wrote or judged, scored by an embedded observer; scores are kept by hash of the text."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import turnwise.observers.local
from turnwise.conversation import Sequence as Conversation
from turnwise.conversation import Side, Turn
from turnwise.datasets import BadRecord, open_dataset
from turnwise.observers import Context, Observer, Request
from turnwise.observers.session import observe_conversations
from turnwise.principles import builtin_principles

BATCH = 16
SIDES = {"dices_350": [Side.RESPONSE], "mentalmanip": [Side.PROMPT, Side.RESPONSE]}
"""Whose words count, where it isn't the prompts alone."""

Scores = dict[str, dict[str, list[float]]]


@dataclass(slots=True)
class Chat:
    """A conversation, or a prompt by itself, with the scores of each text by context, side and turn.

    Args:
        given: the conversation as its file has it.
        turns: what is read of it.
        sides: whose words are scored.
        scores: T, I and F of each text by principle; the keys are a context and, such as, ``prompt 1``.
        f: its highest F, with the same keys.
    """

    given: Conversation
    turns: list[Turn]
    sides: list[Side]
    scores: dict[str, Scores] = field(default_factory=dict)
    f: dict[str, dict[str, float]] = field(default_factory=dict)

    def peak(self) -> float:
        """Return the highest F; of the last reply alone where replies alone count."""
        if self.sides == [Side.RESPONSE]:
            return self.f["history"].get(f"response {len(self.turns)}", 0.0)
        return max(self.f["history"].values(), default=0.0)

    def words(self) -> float:
        """Return how many words count."""
        turns = self.turns[-1:] if self.sides == [Side.RESPONSE] else self.turns
        return sum(len((turn.text(side) or "").split()) for turn in turns for side in self.sides)


class Cache:
    """Scores of an observer by hash of what it was given, in a file; other weights or code have another file."""

    def __init__(self, folder: Path, observer: Observer) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        code = sorted(Path(turnwise.observers.local.__file__).parent.glob("*.py"))
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in code if file.name != "card.py"))
        version = f"{observer.info.name}-{observer.info.version}-{digest.hexdigest()[:12]}"
        self._file, self._observer = folder / f"scores-{version}.jsonl", observer
        self._known: dict[str, Scores] = {}
        for line in self._file.read_text(encoding="utf-8").splitlines() if self._file.exists() else ():
            if line.endswith("}}"):  # else it was cut off, or is empty
                self._known |= json.loads(line)

    def fill(self, chats: Sequence[Chat], context: str = "history") -> None:
        """Give conversations their scores, and score those that are not known yet."""
        keys = [self._key(chat, context) for chat in chats]
        left = [(key, chat) for key, chat in zip(keys, chats, strict=True) if key not in self._known]
        left.sort(key=lambda one: one[1].words())
        for start in range(0, len(left), BATCH):
            print(f"{len(left) - start} to score  ", end="\r", file=sys.stderr, flush=True)
            batch = left[start : start + BATCH]
            made = self._scored([chat for _, chat in batch], context)
            scored = dict(zip((key for key, _ in batch), made, strict=True))
            with self._file.open("a", encoding="utf-8") as file:
                file.writelines("\n" + json.dumps({key: scores}) for key, scores in scored.items())
            self._known |= scored
        for key, chat in zip(keys, chats, strict=True):
            chat.scores[context] = self._known[key]
            highest = {text: max(f for _, _, f in by.values()) for text, by in self._known[key].items()}
            chat.f[context] = highest

    def _key(self, chat: Chat, context: str) -> str:
        said = [context, chat.sides, [[turn.prompt, turn.response] for turn in chat.turns]]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def _scored(self, chats: Sequence[Chat], context: str) -> list[Scores]:
        wanted = [Request(principle, side) for side in chats[0].sides for principle in builtin_principles()]
        turns = [chat.turns for chat in chats]
        given = observe_conversations(self._observer, turns, Context.parse(context), wanted)
        if given.failures:
            raise SystemExit(f"not scored: {given.failures[0]}")
        found: list[Scores] = [{} for _ in chats]
        columns = given.conversation, given.turn, given.request, given.scores
        for place, turn, request, score in zip(*columns, strict=True):
            asked = wanted[request]
            told = found[place].setdefault(f"{asked.side} {turn}", {})
            told[asked.principle.name] = [round(float(value), 6) for value in score]
        return found


def load(data: Path, name: str, most: int | None, part: str = "dev") -> list[Chat]:
    """Return the conversations of a set, of each label at most so many; replies only where they count."""
    (path,) = (file for folder in (part, f"single/{part}") if (file := data / folder / f"{name}.jsonl").exists())
    sides, by_label = SIDES.get(name, [Side.PROMPT]), dict[str, list[Chat]]()
    for one in open_dataset(path):
        if isinstance(one, BadRecord):
            raise SystemExit(f"{path}: {one}")
        reply = Side.RESPONSE in sides
        turns = [Turn(turn.number, turn.prompt, turn.response if reply else None) for turn in one.conversation]
        label = f"{one.label} {one.metadata.get('jailbreaking')}"
        by_label.setdefault(label, []).append(Chat(one, turns, sides))
    return [
        chat
        for some in by_label.values()
        for chat in random.Random(0).sample(some, min(len(some), most or len(some)))
    ]
