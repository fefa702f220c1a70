"""A finished study in a real browser: its threshold moved, and what moves with it."""

import shutil

import pytest
from explored import explored
from playwright.sync_api import expect
from work_store import HOSTILE, MARKUP, write_study, write_study_files

pytestmark = pytest.mark.integration


@pytest.fixture
def study(let_in, working):
    page = let_in(working, "/study")
    expect(page.get_by_role("heading", name="Study study")).to_be_visible()
    return page


def outcome(page):
    return page.get_by_role("region", name="At this threshold")


def test_recall_false_positives_and_who_changes_sides_move_with_the_threshold(study):
    assert "75.0 %\nrecall [19.4, 99.4]\n3 of 4 attacks flagged" in outcome(study).inner_text()
    study.get_by_role("spinbutton", name="Threshold", exact=True).fill("0.35")
    expect(outcome(study)).to_contain_text("1 for the worse")
    assert "50.0 %\nfalse positives [6.8, 93.2]" in outcome(study).inner_text()
    row = study.get_by_role("row", name="benign-2")
    assert "▲ flagged" in row.inner_text() and "✗ wrong" in row.inner_text()
    assert row.get_by_role("link").get_attribute("href").startswith("/sequence?")
    assert "threshold=0.35" in study.url


def test_the_slider_is_moved_by_keys_and_buttons_lead_from_change_to_change(study):
    slider = study.get_by_label("Threshold, slider").locator("[tabindex]")
    slider.press("End")
    expect(outcome(study)).to_contain_text("0 of 4 attacks flagged")
    study.get_by_role("button", name="as in the study").click()
    expect(outcome(study)).to_contain_text("no conversation changes sides")
    study.get_by_role("button", name="next change ▶").click()
    expect(outcome(study)).to_contain_text("attack-1")
    expect(study.get_by_role("spinbutton", name="Threshold", exact=True)).to_have_value("0.6")


def test_the_slider_is_dragged_and_what_it_comes_to_follows(study):
    slider = study.get_by_label("Threshold, slider")
    box = slider.bounding_box()
    study.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    study.mouse.down()
    for share, flagged in ((0.3, "3 of 4 attacks"), (0.6, "2 of 4 attacks"), (0.95, "1 of 4 attacks")):
        study.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2, steps=8)
        expect(outcome(study)).to_contain_text(flagged)  # while it is held
    study.mouse.up()
    study.wait_for_timeout(500)
    held = float(slider.get_attribute("aria-valuenow"))
    assert 0.8 < held < 0.9
    value = study.get_by_role("spinbutton", name="Threshold", exact=True).input_value()
    assert float(value) == pytest.approx(held, abs=1e-5)
    assert f"threshold={held:.4g}"[:14] in study.url


def test_an_address_leads_to_the_same_threshold(let_in, working):
    page = let_in(working, "/study?study=study&arm=cusum&threshold=0.65")
    expect(outcome(page)).to_contain_text("0 of 4 benign flagged")
    expect(page.get_by_role("spinbutton", name="Threshold", exact=True)).to_have_value("0.65")


def test_tables_are_text_and_figures_are_images_that_run_nothing(study):
    parts = study.get_by_role("region", name="Tables and figures of the study")
    assert MARKUP in parts.inner_text()
    study.get_by_label("Table or figure").click()
    study.get_by_role("option", name="figure: recall").click()
    image = study.get_by_role("img", name="Figure recall of the study")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.naturalWidth") == 90
    assert study.evaluate("window.pwned ?? null") is None


def test_names_and_warnings_of_a_study_are_text(let_in, demo_store, tmp_path):
    shutil.copy(demo_store, tmp_path / "work.db")
    write_study(tmp_path / "study", arm=HOSTILE, source=HOSTILE, warning=HOSTILE)
    with explored("--store", str(tmp_path / "work.db")) as running:
        page = let_in(running, "/study")
        page.get_by_text("1 warnings of the study").click()
        page.get_by_role("button", name="next change ▶").click()
        expect(outcome(page)).to_contain_text("attack-1")
        assert MARKUP in page.locator("#content").inner_text()
        assert page.evaluate("window.pwned ?? null") is None
        assert page.locator("#content script, #content img[src=x]").count() == 0
        page.close()


def test_warnings_of_the_study_stand_before_its_numbers(study):
    study.get_by_text("1 warnings of the study").click()
    expect(study.get_by_text("few groups")).to_be_visible()


def test_what_changes_sides_is_saved_as_csv(study):
    study.get_by_role("button", name="next change ▶").click()
    expect(outcome(study)).to_contain_text("attack-1")
    with study.expect_download() as saved:
        study.get_by_role("button", name="CSV").click()
    heads, row = saved.value.path().read_text().splitlines()
    assert heads == "sequence,label,source,score,flagged,right"
    assert row == "attack-1,attack,made,0.5,false,false"


def test_without_a_study_the_page_says_how_one_is_made(let_in, explorer):
    page = let_in(explorer, "/study")
    expect(page.get_by_text("turnwise study compare --store")).to_be_visible()


def test_many_that_change_sides_come_in_pages(let_in, demo_store, tmp_path):
    shutil.copy(demo_store, tmp_path / "work.db")
    rows = [
        {
            "arm": "peak", "sequence": f"s{number:02}", "source": "made", "label": "benign", "part": "test",
            "score": 0.6 + number / 100, "threshold": 0.5, "fired": True, "turn": 1, "fold": 1,
            "reader_turn": None,
        }
        for number in range(30)
    ]  # fmt: skip
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    table = ("arm,recall\npeak,75\n", "**Detection**\n\n| arm | recall |\n|---|---:|\n")
    write_study_files(tmp_path / "study", rows, {"warnings": [], "chosen": "peak"}, *table, svg)
    with explored("--store", str(tmp_path / "work.db")) as running:
        page = let_in(running, "/study?threshold=2")
        changed = page.get_by_role("region", name="Conversations that change sides").locator("tbody tr")
        expect(changed).to_have_count(25)
        expect(changed.first).to_contain_text("s00")
        page.get_by_role("navigation", name="Pages").get_by_role("button", name="2", exact=True).click()
        expect(changed).to_have_count(5)
        expect(changed.last).to_contain_text("s29")
        page.close()
