"""The demo: the whole path on the examples that ship."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.cli import main

Cli = Callable[..., Any]

WITHOUT_THE_EXTRA = (
    "import sys; sys.modules.update(dict.fromkeys(('scipy', 'altair', 'vl_convert', 'optuna')))\n"
    "from turnwise.cli import main; main()"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a demo that was run once; what it told is beside it, as told.json."""
    path = tmp_path_factory.mktemp("demo") / "turnwise-demo.db"
    told = io.StringIO()
    with contextlib.redirect_stdout(told), pytest.raises(SystemExit) as leaving:
        main(["demo", "--store", str(path), "--json"])
    assert leaving.value.code in (None, 0)
    path.with_name("told.json").write_text(told.getvalue(), encoding="utf-8")
    return path


@pytest.fixture
def demo(store: Path) -> Any:
    return json.loads(store.with_name("told.json").read_text(encoding="utf-8"))


def test_the_demo_compares_both_arms_on_every_example(demo: Any) -> None:
    labels = [conversation["label"] for conversation in demo["conversations"]]
    assert labels.count("attack") >= 12
    assert labels.count("benign") >= 12
    for conversation in demo["conversations"]:
        assert all(0 <= value <= 1 for value in conversation["F"])
        for arm in ("single_turns", "trajectory"):
            verdict = conversation[arm]
            assert verdict["fired"] == (verdict["turn"] is not None)
            assert verdict["turn"] is None or verdict["turn"] <= len(conversation["F"])
    for arm in ("single_turns", "trajectory"):
        for label in ("attack", "benign"):
            rate = demo["summary"][arm][label]
            fired = sum(c[arm]["fired"] for c in demo["conversations"] if c["label"] == label)
            assert (rate["fired"], rate["of"]) == (fired, labels.count(label))
            assert rate["interval"][0] <= fired / labels.count(label) <= rate["interval"][1]


def test_the_demo_ends_with_the_report_of_a_study(demo: Any, store: Path) -> None:
    assert Path(demo["report"]) == store.with_name("turnwise-demo-report") / "report.html"
    assert "Does looking over time help?" in Path(demo["report"]).read_text(encoding="utf-8")
    found = json.loads(Path(demo["report"]).with_name("results.json").read_text(encoding="utf-8"))
    assert (found["reference"], found["chosen"]) == ("any_turn@demo-turn", "cusum@demo-history")
    counts = next(row["counts"] for row in found["detectors"] if row["name"] == found["chosen"])
    for label, name in (("attack", "caught"), ("benign", "false_alarms")):
        assert counts[name] == demo["summary"]["trajectory"][label]["fired"]
    # The embedded observer scored the turns again in another order.
    assert found["checks"]["turns_reordered"]["attacks"]["of"] > 0


def test_without_the_extra_the_demo_runs_to_its_summary_and_says_what_adds_the_report(store: Path) -> None:
    page = store.with_name("turnwise-demo-report") / "report.html"
    page.unlink()
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA, "demo"]
    done = subprocess.run(command, cwd=store.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "95 % intervals" in done.stdout
    assert "turnwise show" in done.stdout
    assert done.stdout.rstrip().endswith('python -m pip install "turnwise[study]"')
    assert not page.exists()


def test_the_demo_keeps_a_store_that_the_other_commands_read(cli: Cli, store: Path) -> None:
    shown = cli("show", "grooming-01", "--store", store, "--run", "demo-history")
    assert shown.code == 0
    assert cli("detect", "--store", store, "--run", "demo-turn").code == 0


def test_the_demo_tells_a_person_what_to_do_next(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    said = cli("demo", "--store", store)
    assert said.code == 0
    assert str(store) in said.out
    command = next(line for line in said.out.splitlines() if line.strip().startswith("turnwise show"))
    assert cli(*command.split()[1:]).code == 0
    told = cli("demo", "--store", store, "--json")
    assert told.json["report"] is None
    assert 'python -m pip install "turnwise[study]"' in told.err


def test_the_demo_refuses_a_store_of_another_observer(cli: Cli, evaluated: Path) -> None:
    taken = cli("evaluate", "--store", evaluated, "--run", "demo-turn", "--observer", "scripted:0.5")
    assert taken.code == 0
    refused = cli("demo", "--store", evaluated)
    assert refused.code == 2
    assert "name another with --store" in refused.err


def test_the_demo_names_what_is_wrong_with_a_store_that_can_not_be(cli: Cli) -> None:
    refused = cli("demo", "--store", "mysql://host/db")
    assert refused.code == 2
    assert "mysql" in refused.err
    assert "another version" not in refused.err
