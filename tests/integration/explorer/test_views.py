"""The views in a real browser: what one sees, clicks, types and takes along."""

import csv
import io
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from explored import explored

from turnwise.clock import utc_now
from turnwise.conversation import Conversation, Label, Sequence
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Run, Store

pytestmark = pytest.mark.integration

HOSTILE = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'> \x1b[31m \u202eexe.txt\u2066 {{ 7 * 7 }}"
)


def state(page):
    """Return what the address says."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def until_state(page, name, value):
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.search).get(name) === value", arg=[name, value]
    )


def choose(page, label, option):
    """Choose an option of a field by what it is called."""
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


def saved(page, button):
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_the_overview_tells_what_the_store_holds_and_what_is_flagged(let_in, explorer):
    page = let_in(explorer, "/overview")
    flagged = page.get_by_role("region", name="Flagged by source").first
    flagged.get_by_text("95 % interval").wait_for()
    held = page.get_by_role("region", name="What the store holds").inner_text()
    assert "reader-history" in held and "all 38 scored" in held
    page.locator("[data-chart] svg").wait_for()
    choose(page, "Run", "reader-turn")
    until_state(page, "run", "reader-turn")
    page.locator("[data-chart] svg").wait_for()
    told = page.get_by_role("alert").get_by_text("column 7")
    for _ in range(60):  # what is typed into a page that is drawn anew is lost
        if told.is_visible():
            break
        page.get_by_label("Flagged where", exact=True).fill("slope(")
        page.get_by_label("Flagged where", exact=True).press("Enter")
        page.wait_for_timeout(500)
    assert told.is_visible()


def test_words_of_the_glossary_say_what_they_mean_to_the_pointer_and_to_the_keys(let_in, explorer):
    page = let_in(explorer, "/overview")
    word = page.get_by_text("false-positive rate", exact=True)
    word.hover()
    page.get_by_role("tooltip").get_by_text("share of benign conversations").wait_for()
    page.get_by_role("heading", name="Overview").hover()
    page.get_by_role("tooltip").wait_for(state="detached")
    word.focus()
    page.get_by_role("tooltip").get_by_text("share of benign conversations").wait_for()


def test_the_table_filters_sorts_and_leads_on(let_in, explorer):
    page = let_in(explorer, "/sequences")
    page.get_by_text("38 of 38 sequences").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("ring dish")
    page.get_by_text("1 of 38 sequences").wait_for()
    until_state(page, "words", "ring dish")
    assert page.locator("td mark").inner_text().lower() in ("ring", "dish")
    page.get_by_label("Words in the text").fill("")
    page.get_by_text("38 of 38 sequences").wait_for()
    page.get_by_role("button", name="highest F").click()
    page.locator("th[aria-sort=descending]").wait_for()
    assert state(page)["sort"] == "F"
    name, rows = saved(page, "CSV")
    read = list(csv.reader(io.StringIO(rows.decode())))
    assert name == "sequences.csv" and len(read) == 39
    highest = [float(row[read[0].index("F")]) for row in read[1:]]
    assert highest == sorted(highest, reverse=True)
    page.reload()  # the address holds the state
    page.locator("th[aria-sort=descending]").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Conversation").locator("article").first.wait_for()
    assert state(page)["id"] == read[2][0]


def test_a_sequence_points_from_a_turn_to_all_that_is_known_of_it(let_in, explorer):
    page = let_in(explorer, "/sequence?id=grooming-01&run=reader-history")
    detail = page.get_by_role("region", name="Scores of the chosen turn")
    detail.get_by_role("heading", name="Turn 7").wait_for()  # the flagged one
    assert page.locator("article.is-current").get_attribute("id") == "turn-7"
    page.locator("#turn-2").click()
    detail.get_by_role("heading", name="Turn 2").wait_for()
    until_state(page, "turn", "2")
    page.keyboard.press("j")
    detail.get_by_role("heading", name="Turn 3").wait_for()
    bands = page.get_by_role("region", name="Detectors over turns")
    assert "trust" not in bands.inner_text() and "Simulation" not in detail.inner_text()
    page.get_by_role("switch", name="Simulate a session memory").click()
    bands.get_by_text("hostile").first.click()
    detail.get_by_role("heading", name="Turn 7").wait_for()
    assert "Simulation with default settings: trust 0.749 after 7 turns" in detail.inner_text()
    choose(page, "Beside it", "reader-turn")
    until_state(page, "beside", "reader-turn")
    page.locator("[data-chart] svg").get_by_text("F in reader-turn").wait_for()
    assert saved(page, "SVG")[1].startswith(b"<svg ")
    assert saved(page, "PNG")[1].startswith(b"\x89PNG")
    assert len(list(csv.reader(io.StringIO(saved(page, "CSV")[1].decode())))) == 1 + 9 * 3


def test_what_nothing_flagged_is_shown_without_alarm(let_in, explorer):
    page = let_in(explorer, "/sequence?id=benign-moderator&run=reader-history&simulation=yes")
    page.get_by_text("not flagged by").wait_for()
    page.get_by_role("region", name="Detectors over turns").get_by_text("trust", exact=True).wait_for()
    assert page.locator("#content :is(.bad, .middle, .flag, .flagged)").count() == 0


def test_a_conversation_is_printed_whole_and_highlights_what_was_searched(let_in, explorer):
    page = let_in(explorer, "/sequence?id=grooming-01&run=reader-history&words=bread")
    assert page.locator("article mark").first.inner_text().lower() == "bread"
    page.get_by_role("link", name="print it for a case file").click()
    page.get_by_role("button", name="Print").wait_for()
    page.emulate_media(media="print", color_scheme="dark")
    seen = page.locator("main").inner_text()
    assert "flagged at turn 7" in seen and "Turn 9" in seen and "third_party_harm" in seen
    assert "Overview" not in seen and page.locator("article").count() == 9
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_pattern_is_completed_counted_and_taken_along(let_in, explorer):
    page = let_in(explorer, "/query?run=reader-history")
    area = page.get_by_label("Pattern", exact=True)
    page.get_by_text("evaluated sequences match").wait_for()
    area.fill("")
    area.press_sequentially("peak(recip")
    page.get_by_role("group", name="Completions").get_by_role("button").first.wait_for()
    area.press("Tab")
    area.press_sequentially(") > 0.9")
    assert area.input_value().startswith("peak(reciprocity.")
    until_state(page, "pattern", area.input_value())
    area.fill("slope(F) >")
    page.get_by_role("alert").get_by_text("column").wait_for()
    area.fill("slope(F) > 0.1")
    page.get_by_text("19 of 38 evaluated sequences match").wait_for()
    page.locator("[data-chart] svg").get_by_text("slope(F)").first.wait_for()
    page.get_by_role("region", name="Matches", exact=True).get_by_role("button", name="grooming-02").click()
    until_state(page, "id", "grooming-02")
    copied = page.get_by_role("button", name="Copy as command").get_attribute("data-copy")
    assert copied.startswith("turnwise query 'slope(F) > 0.1' --store")
    assert "pattern:slope(F) > 0.1" in page.get_by_role("button", name="Copy as guard rule").get_attribute(
        "data-copy"
    )


def test_help_and_theme_go_by_key(let_in, explorer):
    page = let_in(explorer, "/sequences")
    page.get_by_text("38 of 38 sequences").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Help and keys").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    page.locator("body.body--dark").wait_for()
    page.reload()
    page.locator("body.body--dark").wait_for()


def test_every_field_and_button_has_a_name_for_screen_readers(let_in, explorer):
    for path in ("/overview", "/sequences", "/sequence?id=grooming-01", "/query"):
        page = let_in(explorer, path)
        page.locator("main .waiting").wait_for(state="detached")
        nameless = page.evaluate(
            "[...document.querySelectorAll('input:not(.hidden), select, textarea, button, svg.graph')]"
            ".filter((one) => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))"
            ".map((one) => one.outerHTML.slice(0, 80))"
        )
        assert nameless == []
        assert page.locator("html").get_attribute("lang") == "en-US"


def test_texts_of_others_are_shown_as_text_everywhere(let_in, tmp_path):
    chat = Conversation()
    chat.add_turn(HOSTILE, response=HOSTILE, metadata={"said": HOSTILE})
    chat.add_turn("and on", response="yes")
    run = Run(HOSTILE, HOSTILE, "1", "history", {"note": HOSTILE}, {}, "test", utc_now())
    with Store(tmp_path / "hostile.db", create=True) as store:
        store.add_sequences(
            [Sequence(HOSTILE, Label.ATTACK, HOSTILE, chat, {"tactic": HOSTILE, HOSTILE: HOSTILE})]
        )
        store.start_run(run)
        provenance = Provenance(HOSTILE, "1", "1", "history", {"note": HOSTILE}, "test")
        store.append(
            Evaluation(EvaluationKey(HOSTILE, HOSTILE, turn, "prompt", HOSTILE), Score(0.1, 0.2, 0.9), provenance,
                       utc_now(), reasoning=HOSTILE, raw_reply=HOSTILE)
            for turn in (1, 2)
        )  # fmt: skip
    with explored("--store", str(tmp_path / "hostile.db")) as running:
        views = {
            "/overview": "Flagged by source",
            "/sequences": "1 of 1 sequences",
            "/query": "evaluated sequences match",
        }
        views["/sequence?" + urlencode({"id": HOSTILE, "turn": 1})] = "what it rests on"
        for path, known in views.items():
            page = let_in(running, path)
            page.get_by_text(known).first.wait_for()
            assert page.evaluate("window.hit") is None
            assert page.evaluate("document.querySelectorAll('#content script, #content img').length") == 0
            seen = page.locator("#content").inner_text()
            assert not any(character in seen for character in "\x1b\u202e\u2066"), path
            assert "<script>window.hit = 1</script>" in seen, path
            page.close()


def test_it_shows_a_run_that_is_going_on(let_in, tmp_path):
    with Store(tmp_path / "live.db", create=True) as store:
        chat = Conversation()
        chat.add_turn("Hello")
        store.add_sequences([Sequence(f"chat-{n}", Label.BENIGN, "live", chat) for n in range(3)])
        store.start_run(Run("first", "scripted:0.1", "1", "history", {}, {}, "test", utc_now()))
        with explored("--store", str(tmp_path / "live.db")) as running:
            page = let_in(running, "/overview")
            held = page.get_by_role("region", name="What the store holds")
            held.get_by_text("first").wait_for()
            provenance = Provenance("scripted:0.1", "1", "1", "history", {}, "test")
            store.append(
                Evaluation(EvaluationKey("first", f"chat-{n}", 1, "prompt", "reciprocity"), Score(0.9, 0.1, 0.1),
                           provenance, utc_now())
                for n in range(3)
            )  # fmt: skip
            held.get_by_text("going on").wait_for()
            page.locator("[data-chart] svg").wait_for()
            page.close()


def test_the_demo_needs_nothing_and_scores_while_one_looks(let_in):
    with explored("--demo") as running:
        page = let_in(running, "/overview")
        held = page.get_by_role("region", name="What the store holds")
        held.get_by_text("reader-history").wait_for()
        held.get_by_text("local-turn").wait_for(timeout=90_000)
        page.close()
