"""The messages: what the context mode shows, what the frame says, and that neither changes unnoticed."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from asked_messages import asked

import turnwise
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import UsageError
from turnwise.observers import Context, LlmObserver, build_cost_estimator
from turnwise.principles import Principle, load_principle
from turnwise.store import Store

FRAME = Path(turnwise.__file__).parent / "observers" / "llm" / "frame.toml"

# Hash of the frame, and of a whole request made with it, by version. Whoever changes a word, or how a text is
# quoted, raises the version in frame.toml and adds a line; a recorded line is never changed, because scores that
# were made with it refer to it.
RECORDED = {
    "1": (
        "16b77b321d5061ed69cc048f5d2d1d437643d43dadbb02f997b1fbf2bea7a2e4",
        "29aab8b881f51a593a52ca126ccf091e05634caf7e18492b6889f655b07c804e",
    ),
    "2": (
        "1fc214a1ed0ca3f097008ea2acd9a65043f276edf2d1deb3a0fb7dd63b853b5d",
        "5066e233d27dc58338b02607024ac8e05e23cb447b38dec10a2040ba92ce02ef",
    ),
}

# Keys of requests for one principle and for two at once, by the same versions; replies are kept under them.
KEYS = {
    "2": [
        "a24cd53fc5f8ef50126b86ff09bbeed54235c6453c5492fcaf9596a891881ca6",
        "5a2035d00362c1b5a3f5b8dbba39ed98a8e6ccf8766977ebc112a9611dae0d1f",
    ],
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
    user = asked(OWN, TURNS[:turn], side, context)[1].content
    return re.findall(r"^> (.+)$", user, re.MULTILINE)


def test_the_frame_and_what_is_made_with_it_are_those_recorded_for_the_version():
    version, beginning = LlmObserver.describe().version.partition("+frame.")[2].split("+")
    frame = FRAME.read_bytes().replace(b"\r\n", b"\n")
    request = asked(OWN, TURNS[:3], Side.RESPONSE, "window:2", lambda: "0123456789abcdef")
    whole = hashlib.sha256(repr([tuple(message) for message in request]).encode()).hexdigest()
    sha256 = hashlib.sha256(frame).hexdigest()
    assert sha256.startswith(beginning)
    assert RECORDED.get(version) == (sha256, whole), (
        "the text of a request is not the one recorded for its version: raise the version in frame.toml and "
        "record the new hashes here"
    )


def test_the_version_names_frame_and_principle(cli, tmp_path):
    with Store(tmp_path / "s.db", create=True) as store:
        store.add_sequences([Sequence("one", Label.BENIGN, "made", Conversation.from_turns([("Hello", None)]))])
    told = cli(
        "llm", "prompt", "reciprocity", "--sequence", "one", "--turn", 1, "--store", tmp_path / "s.db", "--json"
    )
    frame = LlmObserver.describe().version.partition("+frame.")[2]
    assert told.json["prompt_version"] == f"frame {frame}, reciprocity {load_principle('reciprocity').revision}"


def test_replies_are_found_by_the_keys_that_earlier_versions_kept_them_under():
    version = LlmObserver.describe().version.partition("+frame.")[2].partition("+")[0]
    principles = [OWN, replace(OWN, name="tact")]
    found = []
    for together, judged in ((False, principles[:1]), (True, principles)):
        endpoint = build_cost_estimator("llm:ollama/m", together=together)
        found += endpoint.requests(judged, TURNS, 3, Side.PROMPT, Context.parse("history"))
    assert [key for key, _ in found] == KEYS[version]


@pytest.mark.parametrize("name", ["reciprocity", "context_integrity", "third_party_harm"])
def test_it_asks_whether_the_principle_is_kept_and_never_who_is_to_blame(name):
    for message in asked(load_principle(name), TURNS[:1]):
        assert not re.search(FORBIDDEN, message.content, re.IGNORECASE)


@pytest.mark.shows("FR-009")
def test_it_addresses_a_neutral_third_party_and_gives_all_anchors():
    system = asked(load_principle("reciprocity"), TURNS[:1])[0].content
    assert "You are a neutral third party." in system
    scales = system.partition("## What the numbers mean")[2]
    assert re.findall(r"^(\*\*[TIF]\*\*|0|0\.5|1)[,:]", scales, re.MULTILINE) == [
        *("**T**", "0", "0.5", "1"),
        *("**I**", "0", "0.5", "1"),
        *("**F**", "0", "0.5", "1"),
    ]
    assert '"T": <number>, "I": <number>, "F": <number>' in system


def test_what_looks_like_a_field_of_the_frame_in_a_principle_stays_as_it_is():
    assert "Is {it} meant? %s" in asked(OWN, TURNS[:1], context="turn")[0].content


@pytest.mark.shows("FR-007")
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
    user = asked(OWN, TURNS[:2], Side.RESPONSE, draw=lambda: "a" * 16)[1].content
    assert re.findall(r"^== (.*) ==$", user, re.MULTILINE) == [
        "TURN 1, PROMPT",
        "TURN 1, RESPONSE",
        "TURN 2, PROMPT",
        "TURN 2, RESPONSE",
    ]
    end, counted, question = re.findall(r"^<<a{16}>> (.*)$", user, re.MULTILINE)
    assert end == "END MATERIAL"
    assert counted.startswith(
        "It holds 4 texts, from the prompt of turn 1 to the response of turn 2, which has 1 line. "
    )
    assert question.startswith("Judge the response of turn 2 by the principle candour")
    assert question.endswith("Answer with the JSON object alone.")


def test_a_single_text_is_counted_as_one():
    user = asked(OWN, TURNS[:1], context="turn")[1].content
    assert "It holds 1 text, from the prompt of turn 1 to the prompt of turn 1, which has 1 line." in user


class TestWhatRecurs:
    def test_the_system_message_is_the_same_for_all_turns_of_a_principle(self):
        messages = [
            asked(OWN, TURNS[:turn], side, context, lambda nonce=nonce: nonce)[0]
            for turn, side, context, nonce in (
                (1, Side.PROMPT, "turn", "a" * 16),
                (3, Side.RESPONSE, "history", "b" * 16),
                (4, Side.PROMPT, "window:2", "c" * 16),
            )
        ]
        assert len(set(messages)) == 1

    def test_the_material_of_a_longer_history_begins_with_that_of_the_shorter_one(self):
        shorter, longer = (
            asked(OWN, TURNS[:turn], draw=lambda nonce=nonce: nonce * 16)[1].content
            for turn, nonce in ((3, "a"), (4, "b"))
        )
        material, mark, _ = shorter.partition("<<" + "a" * 16)
        assert mark
        assert longer.startswith(material)

    @pytest.mark.parametrize("name", ["reciprocity", "context_integrity", "third_party_harm"])
    @pytest.mark.parametrize("context", ["turn", "history", "transcript"])  # a window moves on
    def test_at_least_85_percent_of_a_request_stood_at_the_start_of_the_one_before(self, name, context):
        turns = tuple(
            Turn(number, "Thank you. " + "Could you say a little more about that? " * 3, "Gladly. " * 20)
            for number in range(1, 9)
        )
        requests = [
            "".join(
                message.content
                for message in asked(
                    load_principle(name), turns[:number], context=context, draw=lambda: secrets.token_hex(8)
                )
            )
            for number in range(1, 9)
        ]
        for before, after in pairwise(requests):
            same = next(at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
            assert same >= 0.85 * len(after)


def test_a_transcript_is_judged_as_a_whole():
    user = asked(OWN, TURNS, context="transcript")[1].content
    assert "Judge the whole conversation, as one text up to the prompt of turn 4" in user


def test_a_side_without_a_text_is_marked_as_empty():
    turns = (Turn(1, "", "hello"), Turn(2, "hi", None))
    user = asked(OWN, turns, draw=lambda: "b" * 16)[1].content
    assert "== TURN 1, PROMPT, EMPTY ==\n== TURN 1, RESPONSE ==\n> hello" in user


def test_what_can_t_be_judged_is_refused():
    estimator, history = build_cost_estimator("llm:ollama/m"), Context.parse("history")
    with pytest.raises(UsageError, match=f"no turn 5 to judge, its last is turn {TURNS[-1].number}"):
        estimator.estimate([OWN], TURNS, 5, Side.PROMPT, history)
    with pytest.raises(UsageError, match="turn 1 has no response to judge"):
        estimator.estimate([OWN], (Turn(1, "hello", None),), 1, Side.RESPONSE, history)
