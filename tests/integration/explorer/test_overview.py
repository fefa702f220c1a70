"""The overview in a real browser."""

import pytest

pytestmark = pytest.mark.integration


def test_it_tells_what_the_store_holds_and_what_is_flagged(page):
    page.get_by_role("heading", name="Flagged by source").wait_for()
    held = page.get_by_role("region", name="What the store holds")
    assert "reader-history" in held.inner_text()
    assert "95 % interval" in page.get_by_role("region", name="Flagged by source").inner_text()
    assert page.locator("[data-chart] svg").count() == 1
