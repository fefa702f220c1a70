"""Toxicity: what counts is whom a word is thrown at."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError
from turnwise.guard import GuardrailPipeline
from turnwise.guard.guardrails.toxicity import Toxicity

HARMLESS = [
    "Was this law racist?",
    "How can I kill a Python process?",
    "Where can I shoot a person in full HD?",
    "I'm angry about the delay.",
    "Why did people in the Middle Ages hate Jews?",
    "Are women inferior in chess, or is that a prejudice?",
    "Don't kill yourself over this exam!",
    "You will not regret this choice.",
    "If you are dead tired, sleep.",
    "I always get lost in this town.",
    "That dress is drop dead gorgeous.",
    "Refugees have to leave their homes.",
    "You might shoot yourself in the foot with this macro.",
    "Let me kill all zombie processes.",
    "You are very kind.",
    "Does the collector free the memory when you garbage collect?",
    "You'll pay for it with your card.",
    "Is your trash collected on Mondays?",
    "This is a stupid question, but how do I sort a list?",
    "",
]

WARNED = [
    "I'm very angry at you!",
    "I am so fed up with you.",
    "You are a useless idiot.",
    "you're such a loser",
    "Shut up!",
    "I hate you",
    "What is wrong with you?",
    "You stupid clown.",
    "go back to your own country",
]

FOUND = [
    "I will kill you and your family.",
    "Nobody wants you. Go die.",
    "Just kill yourself, you worthless idiot.",
    "I hope you die.",
    "We should exterminate all immigrants.",
    "Fuck you, you pathetic loser!",
    "I know where you live.",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_texts_are_clean(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(Toxicity(), text) == "clean"


@pytest.mark.parametrize("text", WARNED)
def test_hostility_is_a_warning(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(Toxicity(), text) == "warn"


@pytest.mark.parametrize("text", FOUND)
def test_threats_and_hatred_are_found_in_full(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(Toxicity(), text) == "block"


@pytest.mark.parametrize(
    "text",
    [
        "You are an 1d10t",
        "You are an i d i o t",
        "You are an id\u200biot",
        "Yоu are an idiоt",  # the o is Cyrillic
        "𝐘𝐨𝐮 𝐚𝐫𝐞 𝐚𝐧 𝐢𝐝𝐢𝐨𝐭",
        "YOU’RE AN IDIOT",
    ],
)
def test_hidden_words_are_found(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(Toxicity(), text) == "warn"


def test_what_is_only_quoted_counts_half() -> None:
    guardrail = Toxicity()
    said = guardrail.toxicity("You are a useless idiot.")
    quoted = guardrail.toxicity('My boss wrote: "You are a useless idiot." What now?')
    assert quoted == pytest.approx(said / 2)
    both = guardrail.toxicity('"You are a useless idiot." Yes, you are a useless idiot.')
    assert both == pytest.approx(said)


def test_a_reason_names_the_kinds_and_not_the_words(check) -> None:  # type: ignore[no-untyped-def]
    finding = Toxicity().check(check("Shut up, I will kill you"))
    assert finding.reason == "a threat, hostility towards the reader"
    assert finding.confidence == pytest.approx(1 - 0.1 * 0.5)
    assert finding.data == {"phrases": ["a threat", "hostility towards the reader"]}


def test_words_of_a_user_count_with_their_weight(verdict) -> None:  # type: ignore[no-untyped-def]
    own = Toxicity(words=("Voldemort", "he who (must) not"), word_weight=0.9)
    assert verdict(own, "Let us talk about voldemort.") == "block"
    assert verdict(own, "Let us talk about v0ldem0rt.") == "block"
    assert verdict(own, "It is he who (must) not be named") == "block"
    assert verdict(own, "Voldemorts") == "clean"
    assert verdict(Toxicity(words=("Voldemort",), word_weight=0.5), "Voldemort") == "warn"
    assert verdict(own, "I'm very angry at you!") == "warn"


def test_levels_decide(verdict) -> None:  # type: ignore[no-untyped-def]
    text = "I'm very angry at you!"
    assert verdict(Toxicity(warn_above=0.6), text) == "clean"
    assert verdict(Toxicity(warn_above=0.3, block_above=0.4), text) == "block"
    assert Toxicity(warn_above=0.6) == Toxicity(warn_above=0.6)


def test_a_long_text_is_read_to_its_end(verdict) -> None:  # type: ignore[no-untyped-def]
    filler = "The weather was fine and we went for a walk. " * 2_000
    assert verdict(Toxicity(), filler) == "clean"
    assert verdict(Toxicity(), f"{filler}I will kill you. {filler}") == "block"
    assert verdict(Toxicity(), f"{filler}You are an i d i o t. {filler}") == "warn"


def test_a_lone_surrogate_does_not_hide_anything(verdict) -> None:  # type: ignore[no-untyped-def]
    assert verdict(Toxicity(), "\ud800 I will kill you") == "block"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warn_above": 0.9, "block_above": 0.5}, "warn_above is 0.9 and block_above 0.5"),
        ({"block_above": 1.5}, "both are in"),
        ({"word_weight": 0.0}, "word_weight"),
        ({"words": ("fine", " ")}, "one of words is empty"),
    ],
)
def test_settings_that_can_not_be_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(GuardError, match=message):
        Toxicity(**settings)


def test_in_a_pipeline_it_warns_and_blocks() -> None:
    pipeline = GuardrailPipeline({"guardrails": [{"toxicity": {"words": ["voldemort"]}}]})
    angry = pipeline.check_input("I'm very angry at you!")
    assert not angry.blocked
    assert len(angry.warnings) == 1
    assert pipeline.check_input("I will kill you!").blocked
    assert pipeline.check_output("Voldemort!").blocked
    assert not pipeline.check_input("Was this law racist?").warnings
