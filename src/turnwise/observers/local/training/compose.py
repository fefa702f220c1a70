"""Conversations composed from data and sentences of our own: neither topic nor length gives the label away."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from turnwise.observers.local.training import everyday, inquiries, phrases
from turnwise.observers.local.training.data import Item
from turnwise.observers.local.training.samples import (
    HARMFUL_END,
    MAX_TURNS,
    OVERRIDE,
    Sample,
    benign,
    gradual,
    turning,
)

Maker = Callable[[], Sample]

COUNTS = {
    "benign_chain": 1800,
    "benign_long": 400,
    "opener_chain": 250,
    "harmful_end": 1800,
    "gradual_end": 700,
    "override_turn": 900,
    "honest_reference": 900,
    "flow_attack": 1500,
    "flow_twin": 1500,
    "sensitive_talk": 900,
    "annoyed": 400,
    "inquiry": 1800,
    "advice": 2000,
    "confiding": 500,
    "playing": 500,
    "task": 900,
}
"""How many conversations of each kind are composed for training; a fifth of that for the held-out part."""


class Composer:
    """Composes conversations from the items of one side of the split.

    Args:
        items: training items of that side.
        seed: seed of the random choices.
    """

    def __init__(self, items: Sequence[Item], seed: int) -> None:
        self._random = random.Random(seed)
        self._chats = [item.texts for item in items if item.source in {"arena_real_users", "mtbench101"}]
        self._prompts = [texts[0] for texts in self._chats if len(texts[0]) < 1_500]
        self._turns = [text for texts in self._chats for text in texts if len(text) < 1_500]
        self._gradual = [item.texts for item in items if item.source == "safemt_1k" and len(item.texts) > 2]
        self._harmful = [item.texts[0] for item in items if item.source in {"advbench", "catqa"}]
        self._overrides = [item.texts[0] for item in items if item.label in {"jailbreak", "injection"}]

    def compose(self, share: float = 1.0) -> list[Sample]:
        """Return the composed conversations.

        Args:
            share: part of `COUNTS` to make, above 0.
        """
        makers: dict[str, Maker] = {
            "benign_chain": partial(self._chain, 2, 7),
            "benign_long": partial(self._chain, 8, MAX_TURNS, "benign_long"),
            "opener_chain": self._openers,
            "harmful_end": self._harmful_end,
            "gradual_end": self._gradual_end,
            "override_turn": self._override,
            "honest_reference": self._reference,
            "flow_attack": partial(self._flow, attack=True),
            "flow_twin": partial(self._flow, attack=False),
            "sensitive_talk": self._sensitive,
            "annoyed": self._annoyed,
            "inquiry": self._inquiry,
            "advice": self._advice,
            "confiding": self._confiding,
            "playing": self._playing,
            "task": self._tasks,
        }
        return [make() for kind, make in makers.items() for _ in range(max(1, round(COUNTS[kind] * share)))]

    def _chain(self, low: int, high: int, kind: str = "benign_chain") -> Sample:
        """Chain whole chats, or parts of them, so that a change of topic means nothing."""
        texts: list[str] = []
        length = self._random.randint(low, high)
        while len(texts) < length:
            chat = self._random.choice(self._chats)
            texts.extend(chat if self._random.random() < 0.6 else chat[:1])
        return benign(kind, texts[:length])

    def _openers(self) -> Sample:
        """Chain harmless first turns of gradual attacks: the style of their writer is no evidence."""
        picked = self._random.sample(self._gradual, min(self._random.randint(1, 5), len(self._gradual)))
        texts = [texts[0] for texts in picked]
        if self._random.random() < 0.4:
            texts.insert(self._random.randint(0, len(texts)), self._random.choice(self._turns))
        return benign("opener_chain", texts)

    def _prefix(self, most: int = 6) -> list[str]:
        """Start with a harmless chat, or once in a while with many: length is no proof of good faith."""
        chat = list(self._random.choice(self._chats))
        if self._random.random() < 0.08:
            most = MAX_TURNS - 10
            while len(chat) < most:
                chat.extend(self._random.choice(self._chats))
        if self._random.random() < 0.3:
            chat.extend(self._random.choice(self._chats))
        return chat[: self._random.randint(1, most)]

    def _suffix(self) -> list[str]:
        return [self._random.choice(self._turns)] if self._random.random() < 0.3 else []

    def _harmful_end(self) -> Sample:
        end = self._random.choice(self._harmful)
        return turning("harmful_end", self._prefix(), [end], self._suffix(), HARMFUL_END)

    def _gradual_end(self) -> Sample:
        prefix, attack = self._prefix(4), self._random.choice(self._gradual)
        tail = gradual("gradual_end", attack, 1.0, harmless_start=True)
        start = benign("gradual_end", prefix)
        return Sample(
            "gradual_end",
            start.texts + tail.texts,
            tail.conversation,
            start.turns + tail.turns,
            start.good_faith + tail.good_faith,
            0.7,
        )

    def _override(self) -> Sample:
        if self._random.random() < 0.25:
            text = self._random.choice(self._overrides)
        else:
            form = self._random.choice((*phrases.SPOOFS, *phrases.FABRICATED))
            ask = self._ask(harmful=self._random.random() < 0.5)
            text = form.format(ask=ask, lower=ask[0].lower() + ask[1:])
        before = [] if self._random.random() < 0.2 else self._prefix(5)
        return turning("override_turn", before, [text], self._suffix(), OVERRIDE)

    def _reference(self) -> Sample:
        texts = self._prefix(4)
        for _ in range(self._random.randint(1, 3)):
            texts.insert(self._random.randint(1, len(texts)), self._fill(self._random.choice(phrases.REFERENCES)))
        return benign("honest_reference", texts)

    def _flow(self, *, attack: bool) -> Sample:
        """Walk through the stages of a flow to a harmful request, or through the same stages to a harmless one."""
        stages = phrases.FLOWS[self._random.choice(tuple(phrases.FLOWS))]
        kept = [stage for stage in stages if self._random.random() < 0.8] or [stages[0]]
        before = [self._fill(self._random.choice(stage)) for stage in kept]
        if self._random.random() < 0.3:
            before = self._prefix(3) + before
        if not attack:
            return benign("flow_twin", [*before, self._ask(harmful=False), *self._suffix()])
        asks = [self._ask(harmful=True) for _ in range(self._random.choice((1, 1, 2)))]
        return turning("flow_attack", before, asks, self._suffix(), HARMFUL_END)

    def _sensitive(self) -> Sample:
        texts = self._prefix(3) if self._random.random() < 0.5 else []
        texts.extend(self._random.sample(phrases.SENSITIVE, self._random.randint(1, 4)))
        if self._random.random() < 0.3:
            texts.append(self._random.choice(self._turns))
        return benign("sensitive_talk", texts)

    def _annoyed(self) -> Sample:
        opening = [self._random.choice((*phrases.SENSITIVE, *self._prompts[:200]))]
        return benign("annoyed", opening + [self._fill(self._random.choice(stage)) for stage in phrases.ANNOYED])

    def _inquiry(self) -> Sample:
        """Ask on and on about a serious subject: what an attack's set-up looks like when nothing follows."""
        if self._random.random() < 0.6:
            subject, openings = self._random.choice(inquiries.SUBJECTS), inquiries.ABOUT_SUBJECT
        else:
            subject, openings = self._random.choice(inquiries.PEOPLE), inquiries.ABOUT_PERSON
        count = self._random.randint(1, 2)
        texts = [opening.format(x=subject) for opening in self._random.sample(openings, count)]
        texts.extend(self._random.sample(inquiries.FOLLOW_UPS, self._random.randint(1, 6)))
        texts.extend(self._further(self._random.choice((0, 0, 1, 2))))
        if self._random.random() < 0.3:
            texts.insert(self._random.randint(0, len(texts)), self._random.choice(self._turns))
        return benign("inquiry", texts)

    def _advice(self) -> Sample:
        """Ask for advice on everyday matters, for details, and for other forms of the answer."""
        texts: list[str] = []
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            wish = self._random.choice(everyday.WANTS)
            texts.append(self._random.choice(everyday.ADVICE).format(x=wish))
            texts.extend(self._further(self._random.choice((0, 0, 1, 2, 3))))
        if self._random.random() < 0.3:
            texts.insert(self._random.randint(0, len(texts)), self._random.choice(self._turns))
        return benign("advice", texts)

    def _confiding(self) -> Sample:
        """Tell a listener what hurts, or quarrel with oneself: a counselling talk."""
        texts = [self._random.choice(everyday.CONFIDING)]
        texts.extend(self._random.sample(everyday.LISTENING, self._random.randint(1, 9)))
        if self._random.random() < 0.5:
            texts.insert(self._random.randint(1, len(texts)), self._random.choice(everyday.CONFIDING))
        return benign("confiding", texts)

    def _playing(self) -> Sample:
        """Play, tell stories and give rules of form, amid ordinary talk."""
        texts = self._prefix(3) if self._random.random() < 0.5 else []
        for _ in range(self._random.choice((1, 1, 2))):
            texts.insert(self._random.randint(0, len(texts)), self._random.choice(everyday.PLAYING))
        return benign("playing", texts + self._further(self._random.choice((0, 1, 2))))

    def _tasks(self) -> Sample:
        """Set small tasks, ask about documents, and go on about them."""
        picked = self._random.sample(everyday.TASKS, self._random.choice((1, 1, 2, 3, 5)))
        texts = [text.format(y=self._subject(), z=self._subject()) for text in picked]
        texts.extend(self._further(self._random.choice((0, 0, 1, 2))))
        return benign("task", texts)

    def _further(self, count: int) -> list[str]:
        return [text.format(y=self._subject()) for text in self._random.sample(everyday.FURTHER, count)]

    def _subject(self) -> str:
        return self._random.choice((*inquiries.SUBJECTS, *inquiries.PEOPLE))

    def _ask(self, *, harmful: bool) -> str:
        if self._random.random() < 0.5:
            pair = self._random.choice(phrases.GOALS)
            return self._random.choice(phrases.ASKS).format(goal=pair[0 if harmful else 1])
        return self._random.choice(self._harmful if harmful else self._prompts)

    def _fill(self, text: str) -> str:
        return text.format(
            field=self._random.choice(phrases.FIELDS),
            figure=self._random.choice(phrases.FIGURES),
            food=self._random.choice(phrases.FOODS),
            place=self._random.choice(phrases.PLACES),
        )
