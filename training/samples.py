"""Conversations as the token sequences that the network is trained on: just what it will have before it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from training.examples import Example, Triples
from turnwise.conversation import Side
from turnwise.observers.local.language_model_reader import Window
from turnwise.observers.local.reading import SIDES, Speech

ALONE = 0.5
"""Share of the turns that were judged alone, in an epoch."""

HARDEST = re.compile(r"^(operation|good|prompt|reply|order|self_reminder_jailbreaks|giskard_injections)-|-rated$")
"""Ids of conversations that every epoch sees."""

BEHIND = 0.08
"""Share of conversations that are put behind harmless ones, so that what went before is not taken for a sign."""

REPLIES = 0.25
"""Share of conversations with replies that keep them; of those with judged replies more."""

JUDGED_REPLIES = 0.5
FILLING = (60, 1_000)
"""Tokens of harmless talk before a conversation that is put behind some, between these."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a sequence that readers scored."""

    side: int  # 0 for a prompt, 1 for a reply
    # where its parts begin and end; the first begins behind the mark of its speaker, the last ends behind the mark
    # of its end
    parts: tuple[tuple[int, int], ...]
    target: Triples  # T, I and F of each principle
    # the pair whose halves are to be told apart here and which half it is of; None for others
    pair: tuple[str, bool] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A sequence of tokens with its scored texts."""

    tokens: list[int]  # ids
    texts: tuple[Text, ...]  # the texts that are learned from, in order
    pair: str | None = None  # the pair that it is a half of; None for others


@dataclass(frozen=True, slots=True)
class Told:
    """A text of a conversation as it is told to the network."""

    side: Side  # who says it
    said: str  # the text; not blank
    target: Triples | None = None  # T, I and F of each principle; None where nothing is learned from it
    pair: tuple[str, bool] | None = None  # as in `Text`


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation as it is told once."""

    texts: tuple[Told, ...]  # its texts, in order
    pair: str | None = None  # the pair that it is a half of; None for others


class Sampler:
    """Chooses what an epoch sees of conversations."""

    def __init__(self, speech: Speech, examples: Sequence[Example], rng: random.Random) -> None:
        self._speech = speech
        self._examples = examples
        self._rng = rng
        self._harmless = [one for one in examples if _peak(one) <= 0.1 and one.pair is None]

    def epoch(self, share: float = 1.0) -> list[Talk]:
        """Return conversations once, prompts alone or with replies, some behind harmless talk.

        A share of them is chosen anew; pairs are chosen together, and what was written for what is hardest,
        `HARDEST`, is always there.
        """
        found: list[Talk] = []
        chosen = {
            one.pair or one.id: HARDEST.search(one.id) is not None or self._rng.random() < share
            for one in self._examples
        }
        examples = [one for one in self._examples if chosen[one.pair or one.id]]
        replies = {one.pair: self._rng.random() < REPLIES for one in examples if one.pair}
        behind = {one.pair: self._before() for one in examples if one.pair}
        for one in examples:
            with_replies = self._with_replies(one) if one.pair is None else replies[one.pair]
            before = self._before() if one.pair is None else behind[one.pair]
            found.append(talk(one, with_replies=with_replies, before=before))
            for number in one.judged.get("turn", {}):
                if self._rng.random() < ALONE:
                    found.append(talk(one, mode="turn", only=number))
        return found

    def _with_replies(self, one: Example) -> bool:
        if one.judged.keys() == {"replies"}:
            return True
        share = JUDGED_REPLIES if "replies" in one.judged else REPLIES
        return self._rng.random() < share and any(reply for _, reply in one.turns)

    def _before(self) -> list[str]:
        """Return prompts of harmless conversations, mostly none."""
        if not self._harmless or self._rng.random() >= BEHIND:
            return []
        said: list[str] = []
        size, wanted = 0, self._rng.randint(*FILLING)
        while size < wanted:
            for prompt, _ in self._rng.choice(self._harmless).turns:
                said.append(prompt)
                size += len(self._speech.remembered(self._speech.encode(prompt), Side.PROMPT))
        return said


def talk(
    one: Example,
    *,
    mode: str = "history",
    only: int | None = None,
    with_replies: bool = False,
    before: Sequence[str] = (),
) -> Talk:
    """Return a conversation as it is told once, behind other prompts where some are given."""
    texts = [Told(Side.PROMPT, prompt) for prompt in before if prompt.strip()]
    prompts, replies = one.judged.get(mode, {}), one.judged.get("replies", {})
    for number, (prompt, reply) in enumerate(one.turns, start=1):
        if only is not None and number != only:
            continue
        if prompt.strip():
            apart = (one.pair, one.attack) if one.pair and number >= one.first and mode == "history" else None
            texts.append(Told(Side.PROMPT, prompt, prompts.get(number), apart))
        if with_replies and reply and reply.strip():
            texts.append(Told(Side.RESPONSE, reply, replies.get(number)))
    return Talk(tuple(texts), one.pair)


def samples(told: Talk, speech: Speech) -> Iterator[Sample]:
    """Yield the samples of a conversation: one for each place of the window, and one for each text that is longer
    than what is remembered of it, which is read whole where it stands.
    """
    window = Window()
    texts: list[Text] = []
    for one in told.texts:
        text = speech.encode(one.said)
        ids, side = speech.remembered(text, one.side), SIDES.index(one.side)
        after = window.after(ids, speech.reach)
        if len(after) < len(window) + len(ids):
            if texts:
                yield Sample(window.tokens(), tuple(texts), told.pair)
            texts = []
        window = after
        if one.target is None:
            continue
        start = len(window) - len(ids)
        whole = speech.whole(text, one.side)
        read = whole or ids
        parts = tuple((start + a, start + b) for a, b in speech.parts(len(read), one.side))
        scored = Text(side, parts, one.target, one.pair)
        if whole:
            yield Sample([*window.tokens()[:start], *read], (scored,))
        else:
            texts.append(scored)
    if texts:
        yield Sample(window.tokens(), tuple(texts), told.pair)


def _peak(one: Example) -> float:
    return max((triple[2] for turns in one.judged.values() for t in turns.values() for triple in t), default=1.0)
