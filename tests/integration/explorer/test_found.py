"""The findings of a scan in a real browser: looked at, asked and labelled where they are."""

import pytest
from explored import explored
from found import conversation, make_findings
from playwright.sync_api import expect

from turnwise.store import Store

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    parts = (
        [conversation(f"rise-{n}", 0.1, 0.4, 0.6 + n / 100, label="attack") for n in range(9)],
        [conversation(f"flat-{n}", 0.1, 0.2, source="other") for n in range(11)],
    )
    return make_findings(tmp_path_factory.mktemp("found") / "findings", *parts, complete=False)


@pytest.fixture(scope="module")
def exploring(findings):
    with explored("--store", findings) as running:
        yield running


def test_overview_table_query_and_conversation_show_findings(let_in, exploring):
    page = let_in(exploring, "/overview")
    page.get_by_role("heading", name="Flagged by source").wait_for()
    expect(page.get_by_role("region", name="What the store holds")).to_contain_text("scan")
    page = let_in(exploring, "/sequences?words=%22rise+3%22")
    page.get_by_text("1 of 20 sequences").wait_for()
    page = let_in(exploring, "/query?pattern=gradual_drift")
    expect(page.locator("main")).to_contain_text("rise-8")
    page = let_in(exploring, "/sequence?id=rise-3")
    expect(page.locator("main")).to_contain_text("rise-3: what about part 2?")
    page = let_in(exploring, "/guard?tab=audit")
    expect(page.locator("main")).to_contain_text("no audit")


def test_a_label_is_kept_beside_the_findings(let_in, exploring, findings):
    page = let_in(exploring, "/label?id=flat-2")
    page.get_by_label("Your name").fill("dora")
    page.get_by_label("Your name").press("Enter")
    page.get_by_label("The label should be").click()
    page.get_by_role("option", name="benign", exact=True).click()
    page.get_by_role("button", name="Save label").click()
    expect(page.get_by_role("complementary", name="Judgements")).to_contain_text("label benign")
    with Store(findings) as store:
        assert [(one.sequence_id, one.author) for one in store.people.corrections()] == [("flat-2", "dora")]
