"""A server on the examples that ship and a Chromium that looks at it, shared by the tests of all views."""

import pytest
import work_store as work
from explored import Watched, chromium, explored
from playwright.sync_api import expect

from turnwise.cli import demo_observer, run_demo
from turnwise.store import Store

expect.set_options(timeout=30_000)  # on a machine that does other things as well
SIZE = {"width": 1280, "height": 800}


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory):
    """The examples, scored by the recorded reader: runs reader-turn and reader-history."""
    file = tmp_path_factory.mktemp("explorer") / "demo.db"
    with Store(file, create=True) as store:
        run_demo(store, {"reader": demo_observer("reader")})
    return file


@pytest.fixture(scope="session")
def explorer(demo_store):
    with explored("--store", str(demo_store)) as running:
        yield running


@pytest.fixture(scope="session")
def work_store(tmp_path_factory):
    """Twins that two runs scored, what people said of them, the audit of a guard, and a study beside the store."""
    return work.make(tmp_path_factory.mktemp("work") / "work.db")


@pytest.fixture(scope="session")
def working(work_store):
    with explored("--store", str(work_store)) as running:
        yield running


@pytest.fixture(scope="module")  # while it is open an event loop runs, and tests elsewhere begin their own
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def let_in(browser):
    """Return a function that gives a page of a browser that an explorer has let in, and what is watched of it.

    When the test is over, none of the pages may have written an error to the console or asked another host.
    """
    opened = []

    def new(running, path="/", size=SIZE):
        context = browser.new_context(viewport=size)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.watched = Watched(page)
        page.goto(running.address)
        if path != "/":
            page.goto(running.url + path)
        opened.append((context, page, running))
        return page

    yield new
    for context, page, running in opened:
        context.close()
        assert page.watched.errors == []
        assert page.watched.hosts() == {running.url.partition("//")[2]}


@pytest.fixture
def page(let_in, explorer):
    """A page on the overview of the demo store."""
    return let_in(explorer)
