"""Toxicity: what counts is whom a word is thrown at."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import GUARDRAILS, Cost, GuardrailPipeline, build_guardrail, finding_of

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
    "You are useless.",
    "Shut up!",
    "I hate you",
    "What is wrong with you?",
    "You stupid clown.",
    "go back to your own country",
]

FOUND = [
    "You are a useless idiot.",
    "you're such a loser",
    "You are a racist bigot",
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
    assert verdict(build_guardrail("toxicity"), text) == "clean"


@pytest.mark.parametrize("text", WARNED)
def test_hostility_is_a_warning(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity"), text) == "warn"


@pytest.mark.parametrize("text", FOUND)
def test_threats_and_hatred_are_found_in_full(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity"), text) == "block"


@pytest.mark.parametrize(
    "text",
    [
        "You are an 1d10t",
        "You are an i d i o t",
        "You are an id\u200biot",
        "Yоu are an idiоt",  # the o is Cyrillic
        "𝐘𝐨𝐮 𝐚𝐫𝐞 𝐚𝐧 𝐢𝐝𝐢𝐨𝐭",
        "YOU’RE AN IDIOT",
        "you are an idioooot",
        "f**k you",
        "k1ll y0urs3lf",
    ],
)
def test_hidden_words_are_found(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity"), text) == "block"


def test_letters_for_signs_are_read_in_short_words_too(verdict) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity"), "I h@te you") == "warn"


MENTIONED = [
    'My boss wrote: "You are a useless idiot." What now?',
    "My boss told me that you are a useless idiot.",
    "What does 'you moron' mean?",
    "Never say things like you are an idiot to a child.",
    "How do I respond when somebody says I hate you?",
    "In my novel the villain shouts you worthless worm at the hero.",
]


@pytest.mark.parametrize("text", MENTIONED)
def test_what_is_quoted_reported_or_told_does_not_count(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity"), text) == "clean"


def test_a_quotation_hides_neither_what_stands_beside_it_nor_itself_alone() -> None:
    said = finding_of(build_guardrail("toxicity"), "You are a useless idiot.").confidence
    for text in ('"You are a useless idiot." Yes, you are a useless idiot.', '"You are a useless idiot."'):
        assert finding_of(build_guardrail("toxicity"), text).confidence == pytest.approx(said)
    assert said > 0.5


THREATS = [
    "I'll hunt you down",
    "I know where you live",
    "you're dead",
    "Pay up or your family gets hurt.",
    "I'm going to stab my neighbour tonight.",
]

NO_THREATS = [
    "this deadline is killing me",
    "I'm going to kill you in Mario Kart tonight!",
    "Somebody texted me I know where you live and I'm scared.",
    'In my story the villain says: "I will hunt you down."',
    "If you're dead tired, go to bed.",
    "I will find you a better price.",
    "I would never hurt you.",
    "You are a useless idiot.",
]


@pytest.mark.parametrize("text", THREATS)
def test_threats_are_a_type_of_their_own(check, text: str) -> None:  # type: ignore[no-untyped-def]
    finding = build_guardrail("toxicity", types=("threats",)).check(check(text))
    assert finding.in_full
    assert finding.reason == "a threat"
    assert finding.data == {"phrases": ["a threat"], "types": ["threats"]}


@pytest.mark.parametrize("text", NO_THREATS)
def test_games_idioms_stories_and_reports_are_no_threats(verdict, text: str) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity", types=("threats",)), text) == "clean"


def test_an_observer_counts_beside_the_lexicon(verdict) -> None:  # type: ignore[no-untyped-def]
    stern = build_guardrail("toxicity", observer="scripted:0.7", observer_warn_above=0.2, observer_block_above=0.6)
    assert stern.cost is Cost.MODEL
    assert build_guardrail("toxicity").cost is Cost.TEXT
    assert verdict(stern, "Hello there.") == "block"
    mild = build_guardrail("toxicity", observer="scripted:0.1", observer_warn_above=0.2, observer_block_above=0.6)
    assert verdict(mild, "Hello there.") == "clean"
    assert verdict(mild, "Shut up!") == "warn"
    assert verdict(mild, "I'll hunt you down") == "block"


def test_a_reason_names_the_kinds_and_not_the_words(check) -> None:  # type: ignore[no-untyped-def]
    finding = build_guardrail("toxicity").check(check("Shut up, I will kill you"))
    assert finding.reason == "a threat, hostility towards the reader"
    assert finding.confidence == pytest.approx(1 - 0.1 * 0.5)
    assert finding.data == {
        "phrases": ["a threat", "hostility towards the reader"],
        "types": ["threats", "hostility"],
    }


def test_words_of_a_user_count_with_their_weight(verdict) -> None:  # type: ignore[no-untyped-def]
    own = build_guardrail("toxicity", words=("Voldemort", "he who (must) not"), word_weight=0.9)
    assert verdict(own, "Let us talk about voldemort.") == "block"
    assert verdict(own, "Let us talk about v0ldem0rt.") == "block"
    assert verdict(own, "It is he who (must) not be named") == "block"
    assert verdict(own, "Voldemorts") == "clean"
    assert verdict(build_guardrail("toxicity", words=("Voldemort",), word_weight=0.5), "Voldemort") == "warn"
    assert verdict(own, "I'm very angry at you!") == "warn"


def test_levels_decide(verdict) -> None:  # type: ignore[no-untyped-def]
    text = "I'm very angry at you!"
    assert verdict(build_guardrail("toxicity", warn_above=0.6), text) == "clean"
    assert verdict(build_guardrail("toxicity", warn_above=0.3, block_above=0.4), text) == "block"
    assert build_guardrail("toxicity", warn_above=0.6) == build_guardrail("toxicity", warn_above=0.6)


def test_a_long_text_is_read_to_its_end(verdict) -> None:  # type: ignore[no-untyped-def]
    filler = "The weather was fine and we went for a walk. " * 2_000
    assert verdict(build_guardrail("toxicity"), filler) == "clean"
    assert verdict(build_guardrail("toxicity"), f"{filler}I will kill you. {filler}") == "block"
    assert verdict(build_guardrail("toxicity"), f"{filler}You are an i d i o t. {filler}") == "block"


def test_a_lone_surrogate_does_not_hide_anything(verdict) -> None:  # type: ignore[no-untyped-def]
    assert verdict(build_guardrail("toxicity"), "\ud800 I will kill you") == "block"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warn_above": 0.9, "block_above": 0.5}, "warn_above 0.9 must be at most block_above 0.5"),
        ({"block_above": 1.5}, "both in "),
        ({"word_weight": 0.0}, "word_weight"),
        ({"words": ("fine", " ")}, "one of words is empty"),
    ],
)
def test_settings_that_can_not_be_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(GuardError, match=message):
        build_guardrail("toxicity", **settings)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'threats'"):
        GUARDRAILS.get("toxicity")(types=("threat",))


def test_in_a_pipeline_it_warns_and_blocks() -> None:
    pipeline = GuardrailPipeline({"guardrails": [{"toxicity": {"words": ["voldemort"]}}]})
    angry = pipeline.check_input("I'm very angry at you!")
    assert not angry.blocked
    assert len(angry.warnings) == 1
    assert pipeline.check_input("I will kill you!").blocked
    assert pipeline.check_output("Voldemort!").blocked
    assert not pipeline.check_input("Was this law racist?").warnings
