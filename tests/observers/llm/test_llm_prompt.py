"""The messages: what the context mode shows, what the frame says, and that neither changes unnoticed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import UsageError
from turnwise.observers import Context
from turnwise.observers.llm import LlmObserver, prompt_version, render
from turnwise.observers.llm.prompt import load_frame
from turnwise.principles import Principle, load_principle

# Hash of the frame, and of a whole request made with it, by version. Whoever changes a word, or how a text is
# quoted, raises the version in frame.toml and adds a line; a recorded line is never changed, because scores that
# were made with it refer to it.
RECORDED = {
    "1": (
        "16b77b321d5061ed69cc048f5d2d1d437643d43dadbb02f997b1fbf2bea7a2e4",
        "29aab8b881f51a593a52ca126ccf091e05634caf7e18492b6889f655b07c804e",
    )
}

FORBIDDEN = r"attack|adversar|jailbreak|malicious|manipulat|red.?team"
OWN = Principle("candour", "1", "What is said is meant.", "T text", "I text", "F text", "Is {it} meant? %s")
TURNS = (
    Turn(1, "first prompt", "first response"),
    Turn(2, "second prompt", "second response"),
    Turn(3, "third prompt", "third response"),
    Turn(4, "fourth prompt", "fourth response"),
)


def shown(context: str, turn: int, side: Side = Side.PROMPT) -> list[str]:
    user = render(OWN, TURNS, turn, side, Context.parse(context))[1].content
    return re.findall(r"^> (.+)$", user, re.MULTILINE)


def test_the_frame_and_what_is_made_with_it_are_those_recorded_for_the_version():
    frame = load_frame()
    request = render(OWN, TURNS, 3, Side.RESPONSE, Context.parse("window:2"), "0123456789abcdef")
    whole = hashlib.sha256(repr([tuple(message) for message in request]).encode()).hexdigest()
    assert RECORDED.get(frame.version) == (frame.sha256, whole), (
        "the text of a request is not the one recorded for its version: raise the version in frame.toml and "
        "record the new hashes here"
    )


def test_the_version_names_frame_and_principle_and_changes_with_both():
    version = prompt_version(OWN)
    assert version == f"frame {load_frame().revision}, candour {OWN.revision}"
    assert prompt_version(replace(OWN, falsity="other")) != version
    assert load_frame().revision in LlmObserver.describe().version


@pytest.mark.parametrize("name", ["reciprocity", "context_integrity", "third_party_harm"])
def test_it_asks_whether_the_principle_is_kept_and_never_who_is_to_blame(name):
    for message in render(load_principle(name), TURNS, 1, Side.PROMPT, Context.parse("turn")):
        assert not re.search(FORBIDDEN, message.content, re.IGNORECASE)


def test_it_addresses_a_neutral_third_party_and_gives_all_anchors():
    system = render(load_principle("reciprocity"), TURNS, 1, Side.PROMPT, Context.parse("turn"))[0].content
    assert "You are a neutral third party." in system
    scales = system.partition("## What the numbers mean")[2]
    assert re.findall(r"^(\*\*[TIF]\*\*|0|0\.5|1)[,:]", scales, re.MULTILINE) == [
        *("**T**", "0", "0.5", "1"),
        *("**I**", "0", "0.5", "1"),
        *("**F**", "0", "0.5", "1"),
    ]
    assert '"T": <number>, "I": <number>, "F": <number>' in system


def test_what_looks_like_a_field_of_the_frame_in_a_principle_stays_as_it_is():
    assert "Is {it} meant? %s" in render(OWN, TURNS, 1, Side.PROMPT, Context.parse("turn"))[0].content


@pytest.mark.parametrize(
    ("context", "turn", "side", "texts"),
    [
        ("turn", 3, Side.PROMPT, ["third prompt"]),
        ("turn", 3, Side.RESPONSE, ["third prompt", "third response"]),
        ("window:1", 3, Side.PROMPT, ["third prompt"]),
        ("window:2", 3, Side.PROMPT, ["second prompt", "second response", "third prompt"]),
        ("window:9", 2, Side.PROMPT, ["first prompt", "first response", "second prompt"]),
        ("history", 1, Side.PROMPT, ["first prompt"]),
        (
            "history",
            3,
            Side.PROMPT,
            ["first prompt", "first response", "second prompt", "second response", "third prompt"],
        ),
        ("history", 2, Side.RESPONSE, ["first prompt", "first response", "second prompt", "second response"]),
        (
            "transcript",
            4,
            Side.RESPONSE,
            [f"{nth} {side}" for nth in ("first", "second", "third", "fourth") for side in ("prompt", "response")],
        ),
    ],
)
def test_the_context_mode_decides_what_is_shown(context, turn, side, texts):
    assert shown(context, turn, side) == texts


def test_the_prompt_side_never_shows_the_response_that_follows():
    for context in ("turn", "window:3", "history", "transcript"):
        assert "fourth response" not in shown(context, 4)
        assert "fourth response" in shown(context, 4, Side.RESPONSE)


def test_turns_are_numbered_and_the_judged_one_is_named():
    user = render(OWN, TURNS, 2, Side.RESPONSE, Context.parse("history"), "a" * 16)[1].content
    heads = re.findall(r"^<<a{16}>> (.*)$", user, re.MULTILINE)
    assert heads == [
        "BEGIN MATERIAL",
        "TURN 1, PROMPT",
        "TURN 1, RESPONSE",
        "TURN 2, PROMPT",
        "TURN 2, RESPONSE, TO BE JUDGED",
        "END MATERIAL",
    ]
    assert user.startswith("Judge the response of turn 2 by the principle candour")
    assert user.endswith("Answer with the JSON object alone.")


def test_a_transcript_is_judged_as_a_whole():
    user = render(OWN, TURNS, 4, Side.PROMPT, Context.parse("transcript"))[1].content
    assert "Judge the whole conversation" in user
    assert "TO BE JUDGED" not in user


def test_a_side_without_a_text_is_marked_as_empty():
    turns = (Turn(1, "", "hello"), Turn(2, "hi", None))
    user = render(OWN, turns, 2, Side.PROMPT, Context.parse("history"), "b" * 16)[1].content
    assert f"<<{'b' * 16}>> TURN 1, PROMPT, EMPTY\n<<{'b' * 16}>> TURN 1, RESPONSE\n> hello" in user


def test_what_can_t_be_judged_is_refused():
    with pytest.raises(UsageError, match="no prompt of turn 5 to judge"):
        render(OWN, TURNS, 5, Side.PROMPT, Context.parse("history"))
    with pytest.raises(UsageError, match="no response of turn 1 to judge"):
        render(OWN, (Turn(1, "hello", None),), 1, Side.RESPONSE, Context.parse("history"))
