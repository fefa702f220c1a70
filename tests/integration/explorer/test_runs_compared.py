"""Runs compared in a real browser: flips, thresholds that are moved, facets, and weeks with drift marked."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from explored import explored
from playwright.sync_api import expect
from work_store import HOSTILE, SHOWN

from turnwise.conversation import Conversation, Label, Sequence, Turn
from turnwise.observers import ScriptedObserver
from turnwise.runs import evaluate
from turnwise.scoring import Score
from turnwise.store import Store

pytestmark = pytest.mark.integration

FIRST = datetime(2026, 1, 5, 12, tzinfo=UTC)
WEEKS, A_WEEK = 8, 40


def falsity(run, name, turn):
    """Run `later` flags ten attacks that run `first` doesn't, and from the fifth week on much of a model."""
    n = int(name[1:])
    drift = 0.35 if run == "later" and n % 2 and n >= 4 * A_WEEK else 0.0
    alone = 0.55 if run == "later" and 10 <= n < 20 and turn == 2 else 0.0
    return min(1.0, (0.8 if n < 10 else 0.0) + drift + alone + (n * 37 % 50) / 150)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    file = tmp_path_factory.mktemp("runs") / "two.db"
    with Store(file, create=True) as store:
        made = []
        for n in range(WEEKS * A_WEEK):
            when = FIRST + timedelta(weeks=n // A_WEEK) if n % 20 else None
            turns = [Turn(1, "hello", timestamp=when), Turn(2, HOSTILE)]
            chat = Conversation.from_turns(turns, conversation_id=f"c{n}")
            label = Label.ATTACK if n < 20 else Label.BENIGN
            model = HOSTILE if n % 2 else "plain"
            made.append(Sequence(f"c{n}", label, "made", chat, {"model": model, "language": "en"}))
        store.add_sequences(made)
        for run in ("first", "later"):

            def script(name, turn, request, run=run):
                return Score(0.5, 0.1, falsity(run, name, turn.number))

            evaluate(store, run, ScriptedObserver(script))
        store.people.correct_label("c10", "benign", "ann")
    return file


@pytest.fixture(scope="module")
def comparing(two_runs):
    with explored("--store", str(two_runs)) as running:
        yield running


def state(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def summary(page):
    return page.get_by_role("status").filter(has_text="flagged by one alone")


def slid(page, name, share):
    """Click on a slider at a share of its width."""
    slider = page.get_by_label(f"Threshold of {name}, slider")
    box = slider.bounding_box()
    slider.click(position={"x": box["width"] * share, "y": box["height"] / 2})


@pytest.fixture
def runs(let_in, comparing):
    page = let_in(comparing, "/runs")
    expect(summary(page)).to_be_visible()
    return page


def flips(page):
    return page.get_by_role("region", name="Flips, the clearest first").locator("tbody tr")


def test_flips_have_turn_and_both_scores_and_lead_to_both_runs_side_by_side(runs, comparing):
    # Ten attacks at their second turn, and what has drifted far enough.
    expected = sum(falsity("later", f"c{n}", 2) >= 0.5 > falsity("first", f"c{n}", 2) for n in range(320))
    expect(summary(runs)).to_contain_text(f"{expected} of 320 conversations that both judged")
    runs.goto(comparing.url + "/runs?label=attack")
    expect(flips(runs)).to_have_count(9)  # one is corrected to benign
    row = flips(runs).filter(has_text="c11")
    cells = row.locator("td").all_inner_texts()
    F = falsity("first", "c11", 2)
    assert cells[1:5] == ["attack", "made", "B", "2"]
    assert cells[7:] == [f"{F:.3f}", f"{F + 0.55:.3f}", "+0.550"]
    row.get_by_role("link").click()
    expect(runs.get_by_text("The same conversation.")).to_be_visible()
    assert state(runs)["run_a"] == "first" and state(runs)["run_b"] == "later"


def test_flips_come_in_pages(let_in, comparing):
    page = let_in(comparing, "/runs?at_a=0.9")
    expect(flips(page)).to_have_count(25)
    first = flips(page).nth(0).inner_text()
    page.get_by_role("button", name="2", exact=True).click()
    expect(flips(page).nth(0)).not_to_contain_text(first)
    page.wait_for_function("location.search.includes('page=2')")
    page.reload()
    expect(flips(page).nth(0)).not_to_contain_text(first.split()[0] + " ")
    expect(page.get_by_role("button", name="2", exact=True)).to_have_attribute("aria-current", "true")


def test_recall_and_false_alarms_move_with_a_threshold_and_so_do_the_flips(runs):
    expect(runs.get_by_text("recall 10/19 = 52.6 % [28.9, 75.6]")).to_be_visible()
    expect(runs.get_by_text("recall 19/19 = 100.0 % [82.4, 100.0]")).to_be_visible()
    runs.get_by_label("Threshold of B", exact=True).fill("1")
    alone = sum(falsity("first", f"c{n}", 2) >= 0.5 and falsity("later", f"c{n}", 2) < 1 for n in range(320))
    expect(summary(runs)).to_contain_text(f"flagged by one alone: {alone} by A, 0 by B")
    expect(runs.get_by_text("one that was chosen here looks better than it is")).to_be_visible()
    assert state(runs)["at_b"] == "1"
    slid(runs, "A", 0.97)
    expect(runs.get_by_text("recall").first).not_to_contain_text("52.6")
    runs.get_by_role("button", name="reset").nth(0).click()
    runs.get_by_role("button", name="reset").nth(1).click()
    expect(runs.get_by_text("recall 10/19")).to_be_visible()
    runs.wait_for_function("!location.search.includes('at_')")


def test_a_threshold_that_a_detector_does_not_take_is_told(runs):
    runs.get_by_label("Threshold of A", exact=True).fill("-1")
    expect(runs.get_by_role("alert")).to_contain_text("any_turn: threshold must be a number in [0, 1]")
    runs.get_by_label("Threshold of A", exact=True).fill("0.5")
    expect(runs.get_by_text("recall 10/19")).to_be_visible()


def test_an_address_leads_to_the_same_threshold(let_in, comparing):
    page = let_in(comparing, "/runs?a=first&b=later&at_a=0.05&at_b=0.05")
    expect(page.get_by_label("Threshold of A", exact=True)).to_have_value("0.05")
    found = sum(
        (falsity("later", f"c{n}", 2) >= 0.05) != (falsity("first", f"c{n}", 2) >= 0.05) for n in range(320)
    )
    expect(summary(page)).to_contain_text(f"{found} of 320")


def test_an_address_that_asks_for_what_there_is_not_is_told(let_in, comparing):
    page = let_in(comparing, "/runs?tab=facets&facet=colour&page=-3&at_a=x")
    expect(page.get_by_role("alert")).to_contain_text("unknown facet 'colour'")
    page = let_in(comparing, "/runs?a=nothing")
    expect(page.get_by_role("alert")).to_contain_text("unknown run 'nothing'")
    expect(page.get_by_text("Nothing is compared.")).to_be_visible()


def test_two_detectors_of_one_run(let_in, comparing):
    page = let_in(comparing, "/runs?a=later&b=later&detector_a=any_turn&detector_b=cusum")
    expect(page.get_by_text("B: later").first).to_contain_text("cusum")
    page.get_by_label("Detector B").fill("no_such_detector")
    page.get_by_label("Detector B").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("no_such_detector")
    page.get_by_label("Detector B").fill("any_turn:threshold=0.9")
    page.get_by_label("Detector B").press("Enter")
    expect(page.get_by_text("B: later").first).to_contain_text("threshold 0.9, given")


def test_a_facet_has_exact_intervals_and_leads_to_its_flips(runs):
    runs.get_by_role("tab", name="By facet").click()
    runs.get_by_label("Facet", exact=True).click()
    runs.get_by_role("option", name="model").click()
    table = runs.get_by_role("region", name="What each flags by facet and label")
    expect(table.locator("tbody tr")).to_have_count(4)
    row = table.locator("tbody tr").filter(has_text="plain").filter(has_text="attack")
    expect(row).to_contain_text("5/9 = 55.6 % [21.2, 86.3]")
    expect(table).to_contain_text(SHOWN)  # a model's name is a text
    assert runs.evaluate("window.pwned ?? null") is None
    row.get_by_role("link").click()
    expect(runs.get_by_text("model: plain")).to_be_visible()
    assert state(runs)["model"] == "plain" and state(runs)["tab"] == "flips"


def test_weeks_mark_drift_and_tell_unknown_times(runs):
    runs.get_by_role("tab", name="By week").click()
    expect(runs.get_by_text("16 conversations have no known time")).to_be_visible()
    table = runs.get_by_role("region", name="What the arm flags week by week")
    expect(runs.locator("[data-chart] svg")).to_be_visible()
    runs.get_by_label("By", exact=True).click()
    runs.get_by_role("option", name="model").click()
    drifted = table.locator("tbody tr").filter(has_text="▲")
    expect(drifted.filter(has_text="script").first).to_contain_text("2026-02-02")
    expect(drifted.filter(has_text="plain")).to_have_count(0)
    runs.get_by_label("Threshold of B", exact=True).fill("1")
    last = table.locator("tbody tr").filter(has_text="script").last
    expect(last).to_contain_text("0/20 = 0.0 %")  # the weeks follow the threshold
    runs.get_by_label("Time", exact=True).click()
    runs.get_by_role("option", name="when it was imported").click()
    expect(runs.get_by_text("nothing was tested")).to_be_visible()


def test_a_file_has_all_flips(runs):
    with runs.expect_download() as download:
        runs.get_by_role("button", name="CSV").click()
    rows = download.value.path().read_text().splitlines()
    assert rows[0].startswith("sequence_id,source,label,model")
    assert len(rows) - 1 == int(summary(runs).inner_text().split()[0])


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits(browser, comparing, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(comparing.address)
    for tab in ("flips", "facets", "weeks"):
        page.goto(f"{comparing.url}/runs?tab={tab}")
        expect(summary(page)).to_be_visible()
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        bad = [
            (one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")
        ]
        assert bad == []
    context.close()


def test_a_store_without_a_run_says_what_to_do(let_in, tmp_path):
    with Store(tmp_path / "empty.db", create=True):
        pass
    with explored("--store", str(tmp_path / "empty.db")) as running:
        page = let_in(running, "/runs")
        expect(page.get_by_text("No run yet: turnwise evaluate")).to_be_visible()
        page.goto("about:blank")  # before the server ends
