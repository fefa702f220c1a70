"""Training samples: the same tokens, windows and places as when the reader reads."""

from __future__ import annotations

import random
from typing import Any

from training.batches import batches
from training.examples import Example, Triples
from training.samples import Sample, Sampler, samples, talk

from turnwise.conversation import Side
from turnwise.observers.local.language_model_reader import Window

LOW: Triples = ((0.9, 0.1, 0.05),) * 3
HIGH: Triples = ((0.1, 0.2, 0.9),) * 3


def example(name: str, turns: int, *, replies: bool = False, **given: object) -> Example:
    said = tuple((f"{name} says {n}" + "!" * 60, "and so it is" if replies else None) for n in range(1, turns + 1))
    judged = {"history": dict.fromkeys(range(1, turns + 1), LOW)}
    if replies:
        judged["replies"] = {turns: HIGH}
    return Example(name, "source", "train", said, judged, **given)  # type: ignore[arg-type]


def remembered(speech: Any, said: str, side: Side) -> list[int]:
    return speech.remembered(speech.encode(said), side)


def epoch(speech: Any, examples: list[Example], seed: int) -> list[Sample]:
    found = Sampler(speech, examples, random.Random(seed)).epoch()
    return [sample for told in found for sample in samples(told, speech)]


def test_a_conversation_is_learned_from_in_just_the_windows_that_reading_it_makes(speech: Any) -> None:
    one = example("long", 30)
    found = list(samples(talk(one), speech))
    assert len(found) > 1
    assert sum(len(sample.texts) for sample in found) == 30
    window, seen = Window(), []
    for prompt, _ in one.turns:
        window = window.after(remembered(speech, prompt, Side.PROMPT), speech.reach)
        seen.append(window.tokens())
    learned = [
        (sample.tokens[: text.parts[-1][1] + speech.tail - 1], text.parts)
        for sample in found
        for text in sample.texts
    ]
    assert [tokens for tokens, _ in learned] == seen
    assert all(len(sample.tokens) <= speech.reach.limit for sample in found)


def test_places_are_those_of_the_text_and_the_mark_of_its_end(speech: Any) -> None:
    one = example("short", 2, replies=True)
    (sample,) = samples(talk(one, with_replies=True), speech)
    assert [text.side for text in sample.texts] == [0, 0, 1]
    end = remembered(speech, "x", Side.PROMPT)[-speech.tail]
    for text, said in zip(sample.texts, (one.turns[0][0], one.turns[1][0], "and so it is"), strict=True):
        side = list(Side)[text.side]
        ids = remembered(speech, said, side)
        ((start, stop),) = text.parts
        assert sample.tokens[start:stop] == ids[speech.head(side) : 1 - speech.tail]
        assert sample.tokens[stop - 1] == end
    assert [text.target for text in sample.texts] == [LOW, LOW, HIGH]


def test_talk_before_it_is_not_learned_from(speech: Any) -> None:
    one = example("behind", 2)
    (sample,) = samples(talk(one, before=["hello", " ", "good day"]), speech)
    (alone,) = samples(talk(one), speech)
    shift = len(sample.tokens) - len(alone.tokens)
    assert sample.tokens[shift:] == alone.tokens
    assert [(text.parts[0][0] - shift, text.parts[-1][1] - shift) for text in sample.texts] == [
        (text.parts[0][0], text.parts[-1][1]) for text in alone.texts
    ]


def test_halves_of_a_pair_are_put_together_alike_and_told_apart_where_they_differ(speech: Any) -> None:
    halves = [example("same", 4, replies=True, pair="p", attack=attack, first=3) for attack in (True, False)]
    others = [example(f"o{n}", 3) for n in range(20)]
    for seed in range(20):
        found = epoch(speech, [*halves, *others], seed)
        one, other = (sample for sample in found if sample.pair == "p")
        assert one.tokens == other.tokens
        prompts = [text for text in one.texts if text.side == 0]
        assert [text.pair for text in prompts] == [None, None, ("p", True), ("p", True)]
        for batch in batches(found, 512, random.Random(seed)):
            assert (one in batch) == (other in batch)


def test_batches_hold_every_sample_once_within_their_bound(speech: Any) -> None:
    all_ = epoch(speech, [example(f"c{n}", n % 7 + 1) for n in range(80)], 1)
    found = batches(all_, 1024, random.Random(2))
    assert sorted(id(one) for some in found for one in some) == sorted(map(id, all_))
    assert all(len(some) == 1 or max(len(one.tokens) for one in some) * len(some) <= 1024 for some in found)
