"""The page: it opens offline, and no text of a conversation can do anything in it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.support.memory import too_little_to_draw

from turnwise import analyze_conversation_forensics
from turnwise.conversation import Conversation
from turnwise.forensics import forensics_page

Talk = Callable[..., Conversation]

ATTACKS = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<svg/onload=alert(1)>",
    "</title><iframe src=javascript:alert(1)>",
    "&lt;script&gt;",
    "<!--",
)


class Tags(HTMLParser):
    """Collects tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    return tags


def page_of(chat: Conversation) -> str:
    return forensics_page(chat, analyze_conversation_forensics(chat))


@pytest.fixture(scope="module")
def page(talk: Talk) -> str:
    """Return a page whose texts are harmless, with all that a page may have."""
    chat = talk(
        [0.1, 0.1, 0.5, 0.6],
        prompts=["first words", "word " * 2000],
        rails=[{"length": {"max_characters": 100, "action": "warn"}}],
    )
    chat.metadata["rate_limit_events"] = {
        "count": 1,
        "latest": [
            {"reason": "more than 1 per minute", "timestamp": "2025-06-07T13:00:00+00:00", "after_turn": 1}
        ],
    }
    return page_of(chat)


def test_no_text_or_name_adds_a_tag_or_an_attribute(talk: Talk, page: str) -> None:
    together = "".join(ATTACKS)
    chat = talk([0.1] * len(ATTACKS), prompts=ATTACKS)
    chat = Conversation.from_dict(
        {
            **chat.to_dict(),
            "conversation_id": together,
            "participants": {"initiator": together, "responder": together},
            "model_info": {attack: attack for attack in ATTACKS},
        }
    )
    for number, attack in enumerate(ATTACKS, start=1):
        checked = chat.turn(number).metadata["guardrail_results"]["input"]
        drift = checked["details"].pop("drift")
        drift["data"]["scores"][attack] = {"T": 0.1, "I": 0.1, "F": 0.1}
        checked["details"][attack] = {**drift, "found": True, "action": "warn", "reason": attack}
        checked["stance"]["rationale"] = attack
    limited = [{"reason": attack, "timestamp": "2025-06-07T13:00:00+00:00"} for attack in ATTACKS]
    chat.metadata["rate_limit_events"] = {"count": len(limited), "latest": limited}
    drawn = page_of(chat)
    harmless, found = read(page), read(drawn)
    assert found.tags <= harmless.tags | {"span", "br"}
    assert found.attributes <= harmless.attributes
    assert "script" not in found.tags
    assert all(attack in found.text for attack in ATTACKS)
    assert together in found.text
    assert drawn.count("<svg") == len(ATTACKS) + 2


def test_the_page_asks_for_nothing_and_forbids_it(page: str) -> None:
    assert "http:" not in page
    assert "https:" not in page
    assert not {"src", "href", "srcset", "data", "action"} & read(page).attributes
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert not re.search(r"url\((?!['\"]?#)", page)


def test_the_page_says_what_was_found_and_draws_it(page: str) -> None:
    text = read(page).text
    for said in ("Conversation c1", "drift began at turn 3", "first words", "Guardrails", "Timeline", "Stance"):
        assert said in text
    assert page.count("<svg") == 3
    assert "began at turn 3" in page.partition("<svg")[2]


def test_a_page_of_what_no_guard_saw() -> None:
    page = page_of(Conversation.from_turns([("Hello", "Hi"), ("Bye", None)], conversation_id="c1"))
    assert "<svg" not in page
    text = read(page).text
    assert "not checked is not clean" in text
    assert "Turn 2" in text
    assert "not known" in text


def test_rate_limits_failures_and_long_texts(page: str) -> None:
    text = read(page).text
    assert "rate limit: more than 1 per minute" in text
    assert "(6000 more characters)" in text
    assert "warning of length" in text


def test_half_a_surrogate_pair_and_null_do_not_break_the_page() -> None:
    page = page_of(Conversation.from_turns([("a\ud800b\0c", None)]))
    assert "a\\ud800b\\0c" in page
    page.encode()


def test_charts_that_can_not_be_drawn_leave_the_rest_of_the_page(talk: Talk) -> None:
    chat = talk([0.1, 0.1, 0.5, 0.6])
    with too_little_to_draw():
        page = page_of(chat)
    assert "<svg" not in page
    text = read(page).text
    assert text.count("a chart can't be drawn: ") == 3
    for said in ("drift began at turn 3", "Trajectory", "Timeline"):
        assert said in text


def test_without_what_draws_charts_there_is_a_table_and_a_note(talk: Talk, tmp_path: Path) -> None:
    import json

    saved, page = tmp_path / "chat.json", tmp_path / "page.html"
    saved.write_text(json.dumps(talk([0.1, 0.9]).to_dict()))
    code = f"""
import importlib.util, json, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("altair", "vl_convert") else found(name, *rest)
from tests.support.memory import too_little_to_draw
from turnwise.conversation import Conversation
from turnwise.forensics import analyze_conversation_forensics, forensics_page
chat = Conversation.from_dict(json.load(open({str(saved)!r})))
open({str(page)!r}, "w").write(forensics_page(chat, analyze_conversation_forensics(chat)))
assert "altair" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    text = read(page.read_text()).text
    assert "turnwise[study]" in text
    assert "0.90" in text
    assert "<svg" not in page.read_text()
