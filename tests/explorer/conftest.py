"""The examples that ship, scored by the recorded reader, as a record that the explorer looks at."""

import pytest

from turnwise.cli import demo_observer, run_demo
from turnwise.explorer import Answers, ViewedStore
from turnwise.store import Store


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory):
    file = tmp_path_factory.mktemp("explorer") / "demo.db"
    with Store(file, create=True) as store:
        run_demo(store, {"reader": demo_observer("reader")})
        yield store


@pytest.fixture(scope="session")
def answers(demo_store):
    with Answers(ViewedStore(demo_store)) as opened:
        yield opened


@pytest.fixture
def record(answers):
    return answers.record
