"""The inbox in a real browser: what is read first, decided by keys and in bulk, taken back, filtered and kept."""

import csv
import io
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from explored import explored

from turnwise.cli import demo_observer, run_demo
from turnwise.runs.inbox import inbox
from turnwise.store import Status, Store

pytestmark = pytest.mark.integration


@pytest.fixture
def store(tmp_path):
    """The examples that ship, scored by the recorded reader; each test decides on its own."""
    file = tmp_path / "inbox.db"
    with Store(file, create=True) as store:
        run_demo(store, {"reader": demo_observer("reader")})
    return file


@pytest.fixture
def running(store):
    with explored("--store", str(store)) as running:
        yield running


def named(let_in, running, path="/?run=reader-history", name="Ann"):
    page = let_in(running, path)
    page.get_by_label("Your name").fill(name)
    page.wait_for_function("name => localStorage.getItem('turnwise-name') === name", arg=name)
    page.locator(".inbox-item").first.wait_for()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    return page


def flagged(store):
    with Store(store) as opened:
        return inbox(opened, "reader-history", limit=None)


def statuses(store):
    with Store(store) as opened:
        return {one.sequence_id: one for one in opened.people.reviews()}


def until(page, get, wanted):
    for _ in range(100):
        if get() == wanted:
            return
        page.wait_for_timeout(100)
    assert get() == wanted


def test_the_first_page_shows_the_most_serious_sentence(running, let_in, store):
    first = flagged(store).items[0]
    page = let_in(running, "/?run=reader-history")
    page.locator(".inbox-detail mark").wait_for()
    detail = page.get_by_role("region", name="Chosen conversation").inner_text()
    assert first.sequence_id in detail and f"turn {first.turn} of {first.turns}" in detail
    assert first.reason in detail and first.detector in detail
    quoted = page.locator(".inbox-detail blockquote").inner_text()
    assert quoted and quoted == page.locator(".inbox-detail mark").inner_text()
    shown = page.locator(".inbox-row").count()
    assert shown == min(25, flagged(store).total)


def test_keys_decide_and_the_next_one_follows(running, let_in, store):
    items = flagged(store).items
    page = named(let_in, running)
    page.keyboard.press("c")
    until(page, lambda: {name: one.status for name, one in statuses(store).items()},
          {items[0].sequence_id: Status.CONFIRMED})  # fmt: skip
    page.get_by_role("heading", name=items[1].sequence_id).wait_for()
    page.keyboard.press("x")
    page.get_by_role("heading", name=items[2].sequence_id).wait_for()
    page.keyboard.press("u")
    page.get_by_role("heading", name=items[3].sequence_id).wait_for()
    page.keyboard.press("k")
    page.get_by_role("heading", name=items[2].sequence_id).wait_for()
    said = {name: str(one.status) for name, one in statuses(store).items()}
    assert said == dict(
        zip([one.sequence_id for one in items], ("confirmed", "dismissed", "unsure"), strict=False)
    )
    assert {one.author for one in statuses(store).values()} == {"Ann"}
    page.keyboard.press("z")
    until(page, lambda: str(statuses(store)[items[2].sequence_id].status), "new")
    page.reload()
    page.locator(".inbox-item").first.wait_for()  # what is decided has left the list
    assert page.locator(".inbox-row").count() == min(25, len(items) - 2)
    page.get_by_role("heading", name=items[2].sequence_id).wait_for()


def test_nothing_is_kept_without_a_name(running, let_in, store):
    page = let_in(running, "/?run=reader-history")
    page.locator(".inbox-item").first.wait_for()
    page.get_by_role("button", name="Dismiss").first.click()
    page.get_by_text("Enter your name first").wait_for()
    assert statuses(store) == {}


def test_a_name_that_is_typed_before_the_browser_told_the_kept_one_stays(running, let_in, store):
    page = let_in(running, "/")
    page.add_init_script("""
        const kept = Storage.prototype.getItem;
        Storage.prototype.getItem = function (key) {
            if (key !== 'turnwise-name') return kept.call(this, key);
            return new Promise(tell => setTimeout(() => { window.told = true; tell(''); }, 1000));
        };
    """)
    page.goto(f"{running.url}/?run=reader-history")
    page.get_by_label("Your name").fill("Ann")
    page.wait_for_function("window.told && localStorage['turnwise-name'] === 'Ann'")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("c")
    first = flagged(store).items[0].sequence_id
    until(page, lambda: {name: one.author for name, one in statuses(store).items()}, {first: "Ann"})


def test_all_that_a_filter_shows_is_decided_at_once_and_taken_back(running, let_in, store):
    items = flagged(store).items
    source = items[0].source
    wanted = {one.sequence_id for one in items if one.source == source}
    page = named(let_in, running, f"/?run=reader-history&source={source}")
    page.get_by_role("checkbox", name=f"All {len(wanted)}").click()
    page.get_by_role("button", name=f"Dismiss {len(wanted)}").click()
    until(page, lambda: {name for name, one in statuses(store).items() if one.status is Status.DISMISSED}, wanted)
    page.get_by_role("button", name="Undo").click()
    until(page, lambda: {one.status for one in statuses(store).values()}, {Status.NEW})


def test_somebody_is_assigned_and_a_note_is_kept(running, let_in, store):
    first = flagged(store).items[0].sequence_id
    page = named(let_in, running)
    page.keyboard.press("a")
    page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Assigned to'")
    page.keyboard.type("Ben")
    page.keyboard.press("Enter")
    until(page, lambda: first in statuses(store) and statuses(store)[first].assignee, "Ben")
    page.get_by_label("Note", exact=True).fill("<b>call her back</b>")
    page.get_by_role("button", name="Save").click()
    until(page, lambda: statuses(store)[first].note, "<b>call her back</b>")
    page.goto(f"{running.url}/?run=reader-history&assignee=Ben")
    page.locator(".inbox-item").first.wait_for()
    assert page.locator(".inbox-row").count() == 1 and page.locator(".inbox-detail b b").count() == 0


def test_the_page_says_that_somebody_else_was_faster(running, let_in, store):
    first = flagged(store).items[0].sequence_id
    page = named(let_in, running)
    with Store(store) as opened:
        opened.people.review([first], "confirmed", author="Ben")
    page.keyboard.press("x")
    page.get_by_text("Ben had said confirmed").wait_for()
    assert statuses(store)[first].status is Status.DISMISSED


def test_a_view_is_kept_for_all_and_found_again(running, let_in, store):
    page = named(let_in, running, "/?run=reader-history&status=all&principle=reciprocity")
    page.get_by_role("button", name="Views").click()
    page.get_by_text("Save this view").click()
    page.get_by_label("Name", exact=True).fill("about balance")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    until(page, lambda: Path(f"{store}-views.json").exists(), True)
    other = let_in(running, "/")
    other.get_by_role("button", name="Views").click()
    other.get_by_text("about balance").click()
    other.wait_for_url("**principle=reciprocity**")
    state = {name: values[0] for name, values in parse_qs(urlsplit(other.url).query).items()}
    assert state == {"run": "reader-history", "status": "all", "principle": "reciprocity"}


def test_what_the_page_lists_is_what_the_library_gives(running, let_in, store):
    page = let_in(running, "/?run=reader-history&status=all")
    page.locator(".inbox-item").first.wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert [row["sequence_id"] for row in rows] == [one.sequence_id for one in flagged(store).items]


def test_words_and_a_wrong_rule_are_told(running, let_in, store):
    page = let_in(running, "/?run=reader-history&words=nobodysaysthis")
    page.get_by_text("No flagged conversation fits these filters").wait_for()
    page = let_in(running, "/?run=reader-history&detectors=slope(")
    page.get_by_role("alert").wait_for()


@pytest.fixture
def nothing(tmp_path):
    with Store(tmp_path / "empty.db", create=True):
        pass
    with explored("--store", str(tmp_path / "empty.db")) as running:
        yield running


def test_an_empty_store_says_what_to_do(nothing, let_in):
    page = let_in(nothing)
    page.get_by_text("The store has no conversation yet").wait_for()
    page.get_by_text("turnwise import FILE").wait_for()
