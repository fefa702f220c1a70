"""Two conversations, or two runs, side by side in a real browser."""

import pytest
from playwright.sync_api import expect
from work_store import SHOWN

pytestmark = pytest.mark.integration


@pytest.fixture
def twins(let_in, working):
    page = let_in(working, "/compare?a=turns&run_a=early&run_b=early")
    expect(page.get_by_text("differ from turn 2")).to_be_visible()
    return page


def test_twins_stand_beside_each_other_from_where_they_part(twins):
    expect(twins.get_by_label("Conversation").nth(1)).to_have_value("stays")
    rows = twins.get_by_role("region", name="Turn by turn").locator("tbody tr")
    expect(rows).to_have_count(4)
    assert "same" in rows.nth(0).get_attribute("class")
    assert "parts" in rows.nth(1).get_attribute("class")
    cells = rows.nth(1).locator("td")
    assert "How do people hide keys?" in cells.nth(0).inner_text()
    assert "I lost my key." in cells.nth(1).inner_text()
    assert "at its end" in rows.nth(3).locator("td").nth(1).inner_text()
    expect(twins.locator("[data-chart] svg")).to_have_count(1)


def test_hostile_text_is_shown_as_text(twins):
    assert SHOWN in twins.get_by_role("region", name="Turn by turn").inner_text()
    assert twins.evaluate("window.pwned ?? null") is None


def test_two_runs_of_one_conversation_show_where_their_scores_part(twins):
    twins.get_by_label("Conversation").nth(1).fill("turns")
    twins.get_by_label("Conversation").nth(1).press("Enter")
    expect(twins.get_by_text("The same conversation.")).to_be_visible()
    twins.get_by_label("Scores of run").nth(1).click()
    twins.get_by_role("option", name="late").click()
    expect(twins.get_by_text("F differs by 0.1 or more from turn 2 on")).to_be_visible()
    assert "run_b=late" in twins.url and "b=turns" in twins.url


def test_left_and_right_are_exchanged(twins):
    twins.get_by_role("button", name="exchange").click()
    expect(twins.get_by_label("Conversation").nth(0)).to_have_value("stays")
    expect(twins.get_by_label("Conversation").nth(1)).to_have_value("turns")


def test_keys_walk_from_turn_to_turn(twins):
    twins.keyboard.press("j")
    twins.keyboard.press("j")
    expect(twins.locator("tbody tr.is-current th")).to_have_text("2")
    twins.keyboard.press("k")
    expect(twins.locator("tbody tr.is-current th")).to_have_text("1")


def test_a_name_that_is_not_there_is_told(twins):
    twins.get_by_label("Conversation").nth(1).fill("nobody")
    twins.get_by_label("Conversation").nth(1).press("Enter")
    expect(twins.get_by_role("alert")).to_contain_text("unknown sequence 'nobody'")
