"""How-to pages run as pasted, in order, and print what they say they print."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pages import run

import turnwise.datasets
from turnwise import Store, evaluate, load
from turnwise.store import import_sequences

ROOT = Path(__file__).parents[2]
EXAMPLES = Path(turnwise.datasets.__file__).parent / "examples.jsonl"


@pytest.mark.parametrize("kind", ["principle", "observer", "detector", "guardrail", "loader"])
def test_what_a_user_brings_passes_its_kit_and_is_used(kind, folder):
    run(f"how-to/own-{kind}.md")


def test_a_forensic_report_is_read(folder):
    run("how-to/forensic-report.md")
    assert "<script" not in (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory):
    """A store of the examples that ship, scored in a run called history."""
    file = tmp_path_factory.mktemp("scored") / "work.db"
    with Store(file, create=True) as store:
        import_sequences(store, load(str(EXAMPLES)), where="examples")
        evaluate(store, "history", "local-small")
    return file


@pytest.fixture
def scored(folder, scored_once):
    """That store in the folder of a page."""
    return Path(shutil.copy(scored_once, folder))


def test_a_threshold_is_calibrated(scored):
    with Store(scored) as store:
        store.rename_run("history", "live")
    run("how-to/calibrate.md")


def test_turns_are_judged_by_hand(folder, scored):
    run("how-to/judge-turns.md")
    assert (folder / "people" / "ann").is_dir()


def test_what_to_read_first_is_listed_and_confirmed(scored):
    run("inbox.md")
    with Store(scored) as store:
        stands = {one.sequence_id: one.status for one in store.people.reviews()}
    assert stands["grooming-01"] == "read"


@pytest.mark.integration
def test_the_study_is_reproduced(folder):
    (folder / "corpus").symlink_to(ROOT / "corpus")
    run("how-to/reproduce-the-study.md")
    assert (folder / "out" / "report.html").is_file()
