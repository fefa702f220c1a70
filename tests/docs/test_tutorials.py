"""Tutorials do what they say: in an empty folder, with the installed command, word by word."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from explored import Watched, chromium, explored
from pages import DOCS, follow

from turnwise import Store
from turnwise.conversation import Label
from turnwise.datasets import examples

pytestmark = pytest.mark.integration  # minutes of commands


def test_guard_a_chat(folder):
    follow("tutorials/guard-a-chat.md")


def test_evaluate_your_data(folder):
    follow("tutorials/evaluate-your-data.md")
    with (folder / "verdicts.csv").open() as file:
        fired = {(row["sequence_id"], row["detector"]) for row in csv.DictReader(file) if row["fired"] == "true"}
    assert fired == {("t3", "any_turn"), ("t3", "cusum")}


def test_from_a_pattern_to_a_rule(folder):
    follow("tutorials/from-pattern-to-rule.md")
    with Store("work.db") as store:
        rule = yaml.safe_load(Path("ideas.yaml").read_text())["jump"]["expression"]
        rates = store.query(rule, run="first", source="held").by_label
    attacks, benign = rates[Label.ATTACK], rates[Label.BENIGN]
    assert attacks.of == 9 and attacks.count >= 6, "the rule no longer holds on the half that was put aside"
    assert benign.of == 10 and benign.count <= 2


def test_read_what_matters_first(folder):
    text = (DOCS / "tutorials/read-the-inbox.md").read_text(encoding="utf-8")
    named = {" ".join(found.split()) for found in re.findall(r"\*\*(.+?)\*\*", text, flags=re.DOTALL)}
    met = set()

    def names(words):
        """What the tutorial names in bold is on the page under that name."""
        met.add(words)
        return words

    def figures(words):
        """What it says in bold with figures, which are other ones on some machines."""
        return re.compile(re.sub(r"\d+", r"\\d+", re.escape(names(words))))

    def browse():
        from playwright.sync_api import expect

        expect.set_options(timeout=60_000)
        with explored("--store", "work.db") as running, chromium() as browser:
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            page.set_default_timeout(60_000)
            watched = Watched(page)
            page.goto(running.address)
            top = page.locator(".inbox-top")
            page.get_by_role("heading", name=names("Inbox")).wait_for()
            expect(top).to_contain_text(figures("22 to decide"))
            flagged = int(re.search(r"(\d+) to decide", top.inner_text())[1])
            page.get_by_label(names("Your name")).fill("Ann")
            page.wait_for_function("localStorage.getItem('turnwise-name') === 'Ann'")

            page.get_by_role("heading", name="escalation-01").wait_for()
            page.get_by_role("link", name=names("Whole conversation")).click()
            page.wait_for_url("**/sequence?**")
            page.go_back()
            page.get_by_role("heading", name="escalation-01").wait_for()
            page.get_by_role("button", name=names("Why?")).click()
            page.get_by_role("heading", name="Why").wait_for()
            expect(page.locator(".why")).to_contain_text(re.compile(r"Without turn \d"))
            expect(page.locator(".why")).to_contain_text("Without the words")
            page.get_by_role("button", name=names("Confirm")).first.click()
            expect(top).to_contain_text(names("1 confirmed"))
            expect(page.get_by_role("heading", name="escalation-01")).to_have_count(0)

            words = page.get_by_label(names("Words in the conversation"))
            words.fill("barn")
            expect(page.locator(".inbox-row")).to_have_count(1)
            page.get_by_role("heading", name="benign-refusal-fertiliser").wait_for()
            page.get_by_role("button", name=names("Dismiss")).first.click()
            expect(top).to_contain_text("1 dismissed")
            words.fill("")
            expect(page.locator(".inbox-row")).to_have_count(flagged - 2)

            page.get_by_role("link", name=names("Label"), exact=True).click()
            page.get_by_role("tab", name=names("Label blind")).wait_for()
            page.get_by_role("heading", name=names("Rates so far")).wait_for()
            for done in range(1, flagged + 1):
                turns = page.locator(".turns")
                first = turns.inner_text()
                known = next(chat for chat in examples() if said_in(chat, first))
                page.keyboard.press("1" if known.label == "attack" else "2")
                rate = page.get_by_text(re.compile(rf"Of what is flagged, attacks: \d+ of {done},"))
                rate.wait_for()
                if done == 5:
                    expect(rate).to_contain_text(figures("4 of 5, 80 % [28, 99]"))
            expect(rate).to_contain_text(figures("17 of 22, 77 % [55, 92]"))
            right = int(re.search(r"attacks: (\d+) of", rate.inner_text())[1])
            assert right / flagged >= 2 / 3, "most flags are right"
            page.get_by_text("Nothing is left to label").wait_for()
            assert watched.errors == []
            assert watched.hosts() == {urlsplit(running.url).netloc}
            return "".join(running.log)

    follow("tutorials/read-the-inbox.md", {"turnwise explore --store work.db": browse})
    assert met == named


def said_in(chat, shown):
    """Return whether the words of a chat are what a page shows."""
    plain = " ".join(shown.split())
    return all(" ".join(turn.prompt.split()) in plain for turn in chat.conversation)
