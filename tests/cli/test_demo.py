"""The demo: the whole path on the examples that ship."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.observers.local.conftest import write_weights

from turnwise.cli import demo_observer, main, run_demo
from turnwise.datasets import example_judgements, examples, join_judgements, read_judgements
from turnwise.runs import evaluate
from turnwise.store import Store

Cli = Callable[..., Any]

WITHOUT_THE_EXTRA = (
    "import sys; sys.modules.update(dict.fromkeys(('scipy', 'altair', 'vl_convert', 'optuna')))\n"
    "from turnwise.cli import main; main()"
)


@dataclass(frozen=True)
class Shown:
    """A demo that was run once, with its report, and once more as JSON, in a process without what draws one.

    Its embedded observer has small weights that never learned anything, which take a tenth of the time.
    """

    store: Path
    local: str
    text: str
    told: Any


def run(*arguments: str) -> tuple[str, str]:
    """Run the demo; return what it printed and what it noted."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as leaving:
        main(["demo", *arguments])
    assert leaving.value.code in (None, 0)
    return out.getvalue(), err.getvalue()


def without_the_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo in a process that lacks what draws a report."""
    command = [sys.executable, "-c", WITHOUT_THE_EXTRA, "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("demo")
    store, local = folder / "turnwise-demo.db", f"local:{write_weights(folder / 'weights')}"
    arguments = ("--store", str(store), "--observer", "reader", "--observer", local)
    text, _ = run(*arguments, "--report")
    told = without_the_extra(*arguments, "--json")
    assert (told.returncode, told.stderr) == (0, "")
    return Shown(store, local, text, json.loads(told.stdout))


@pytest.fixture
def store(shown: Shown) -> Path:
    return shown.store


@pytest.fixture
def demo(shown: Shown) -> Any:
    return shown.told


def arm(demo: Any, observer: str, context: str) -> Any:
    return next(a for a in demo["arms"] if (a["observer"], a["context"]) == (observer, context))


@pytest.mark.shows("FR-007")
def test_the_demo_shows_a_recorded_reader_and_the_embedded_observer_both_ways(shown: Shown) -> None:
    runs = [f"{observer}-{context}" for observer in ("reader", shown.local) for context in ("turn", "history")]
    assert [a["run"] for a in shown.told["arms"]] == runs
    for one in shown.told["arms"]:
        labels = [conversation["label"] for conversation in one["conversations"]]
        assert min(labels.count("attack"), labels.count("benign")) >= 12
        for conversation in one["conversations"]:
            values = [value for value in conversation["F"] if value is not None]  # None: not read
            assert all(0 <= value <= 1 for value in values)
            assert conversation["fired"] == (conversation["turn"] is not None)
            assert conversation["turn"] is None or conversation["turn"] <= len(conversation["F"])
            assert conversation["fired"] == any(value >= one["threshold"] for value in values)
        for label in ("attack", "benign"):
            rate = one["summary"][label]
            fired = sum(c["fired"] for c in one["conversations"] if c["label"] == label)
            assert (rate["fired"], rate["of"]) == (fired, labels.count(label))
            assert rate["interval"][0] <= fired / labels.count(label) <= rate["interval"][1]


def test_the_recorded_reader_sees_more_with_the_turns_so_far_and_hardly_flags_the_benign(demo: Any) -> None:
    alone, so_far = (arm(demo, "reader", context)["summary"] for context in ("turn", "history"))
    assert so_far["attack"]["fired"] > alone["attack"]["fired"]
    assert so_far["benign"]["fired"] <= 1


def test_thresholds_come_from_other_conversations(demo: Any) -> None:
    beside = json.loads(
        example_judgements("history").with_name("operating_points.json").read_text(encoding="utf-8")
    )
    for context in ("turn", "history"):
        assert arm(demo, "reader", context)["threshold"] == beside["points"][context]["any_turn"]
    assert "arena_real_users" in beside["about"]


@pytest.mark.parametrize("mode", ["history", "turn"])
def test_every_turn_of_the_examples_was_read_by_two_readers(mode: str) -> None:
    turns = sum(sequence.conversation.get_turn_count() for sequence in examples())
    readings = []
    for second in (False, True):
        made = list(read_judgements(example_judgements(mode, second=second)))
        joined = list(join_judgements(examples(), made))
        assert sum(len(one.judgements) for one in joined) == turns
        readings.append({one.reading for one in made})
    assert not readings[0] & readings[1]


def test_one_observer_can_be_asked_for(cli: Cli, tmp_path: Path) -> None:
    asked = cli("demo", "--store", tmp_path / "one.db", "--observer", "scripted:0.5", "--json")
    assert asked.code == 0
    assert [a["run"] for a in asked.json["arms"]] == ["scripted:0.5-turn", "scripted:0.5-history"]


def test_an_observer_that_is_none_is_named_and_leaves_no_store(cli: Cli, tmp_path: Path) -> None:
    refused = cli("demo", "--store", tmp_path / "none.db", "--observer", "nonsense")
    assert refused.code == 2
    assert "unknown observer 'nonsense'" in refused.err
    assert "remove the file" not in refused.err
    assert not (tmp_path / "none.db").exists()


def test_conversations_that_an_observer_says_nothing_of_are_not_checked(cli: Cli, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    lines = example_judgements("history").read_text(encoding="utf-8").splitlines()
    few.write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")
    asked = ("--observer", "reader", "--observer", f"replay:{few}")
    told = cli("demo", "--store", tmp_path / "few.db", *asked)
    assert told.code == 0
    assert "“?” is not checked" in " ".join(told.out.split())
    assert any(line.split()[-1] == "?" for line in told.out.splitlines() if line.startswith(" grooming-02"))
    arms = cli("demo", "--store", tmp_path / "few.db", *asked, "--json").json["arms"]
    assert [len(a["conversations"]) for a in arms] == [38, 38, 1, 1]


def test_the_demo_ends_with_the_report_of_a_study(shown: Shown, demo: Any, store: Path) -> None:
    report = store.with_name("turnwise-demo-report") / "report.html"
    assert shown.text.endswith(f"with tables and figures: {report}\n")
    assert "What finds more: reading the history, or watching over time?" in report.read_text(encoding="utf-8")
    found = json.loads(report.with_name("results.json").read_text(encoding="utf-8"))
    assert found["reference"] == "any_turn@reader-turn"
    runs = {row["run"] for row in found["detectors"]}
    assert runs == {"reader-turn", "reader-history"}
    row = next(row for row in found["detectors"] if row["name"] == "any_turn@reader-history")
    assert row["counts"]["caught"] == arm(demo, "reader", "history")["summary"]["attack"]["fired"]


def test_a_second_look_of_the_reader_is_shown_beside_both(shown: Shown) -> None:
    told = shown.told["second_look"]
    assert 0 < told["asked"]["count"] <= told["asked"]["of"] == 231
    reader = {one["sequence_id"]: one["F"] for one in arm(shown.told, "reader", "history")["conversations"]}
    local = {one["sequence_id"]: one["F"] for one in arm(shown.told, shown.local, "history")["conversations"]}
    asked = 0
    for one in told["conversations"]:
        for F, ours, theirs in zip(one["F"], local[one["sequence_id"]], reader[one["sequence_id"]], strict=True):
            assert F in (ours, theirs)
            asked += F == theirs != ours
    assert asked <= told["asked"]["count"]
    assert "A second look" in shown.text


def test_a_report_needs_the_extra_and_the_demo_does_not(shown: Shown, tmp_path: Path) -> None:
    assert shown.told["report"] is None
    refused = without_the_extra("--store", str(tmp_path / "none.db"), "--observer", "reader", "--report")
    assert refused.returncode == 2
    assert not list(tmp_path.iterdir())
    assert 'python -m pip install "turnwise[study]"' in refused.stderr


def test_the_conversation_that_turns_is_shown_before_all_others_are_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown
) -> None:
    scored: list[int] = []

    def counted(store: Store, run: str, *rest: Any, ids: Any, **more: Any) -> Any:
        scored.append(len(ids))
        return evaluate(store, run, *rest, ids=ids, **more)

    def tell(chat: Any, runs: Any) -> None:
        told.append((chat.sequence_id, [run.peaks(chat.sequence_id) for run in runs], list(scored)))

    told: list[Any] = []
    monkeypatch.setattr("turnwise.cli.demo_run.evaluate", counted)
    with Store(tmp_path / "demo.db", create=True) as store:
        observers = {name: demo_observer(name) for name in ("reader", "scripted:0.5")}
        done = run_demo(store, observers, tell)
    assert [run.peaks(told[0][0]) for run in done.runs] == told[0][1]
    assert told[0][2] == [38, 38, 1, 1]
    assert f"How {told[0][0]} turns" in shown.text.partition("Attacks")[0]


def test_the_demo_keeps_a_store_that_the_other_commands_read(cli: Cli, shown: Shown) -> None:
    assert cli("show", "grooming-01", "--store", shown.store, "--run", "reader-history").code == 0
    assert cli("detect", "--store", shown.store, "--run", f"{shown.local}-turn").code == 0


def test_the_demo_ends_with_three_commands_that_run(cli: Cli, shown: Shown) -> None:
    assert str(shown.store) in shown.text
    commands = [line.strip() for line in shown.text.splitlines() if line.startswith("  turnwise ")]
    assert [command.split()[1] for command in commands] == ["show", "query", "detect"]
    for command in commands:
        assert cli(*shlex.split(command)[1:]).code == 0, command


def test_no_table_of_the_demo_is_wider_than_80_columns(cli: Cli, shown: Shown, tmp_path: Path) -> None:
    few = cli("demo", "--store", tmp_path / "few.db", "--observer", "reader", "--observer", "scripted:0.5")
    for text in (shown.text, few.out):
        told = ("  turnwise ", "A study ", "Your own: ", str(shown.store), str(tmp_path))
        lines = [line.rstrip() for line in text.splitlines() if not line.startswith(told)]
        assert len(lines) > 60
        # A name of an observer may be longer than a line, where it is not in a table.
        assert [line for line in lines if len(line) > 80 and shown.local not in line] == []


def test_the_demo_refuses_a_store_of_another_observer(cli: Cli, evaluated: Path) -> None:
    taken = cli("evaluate", "--store", evaluated, "--run", "reader-turn", "--observer", "scripted:0.5")
    assert taken.code == 0
    refused = cli("demo", "--store", evaluated)
    assert refused.code == 2
    assert "name another with --store" in refused.err


def test_the_demo_names_what_is_wrong_with_a_store_that_can_not_be(cli: Cli) -> None:
    refused = cli("demo", "--store", "mysql://host/db", "--observer", "reader")
    assert refused.code == 2
    assert "mysql" in refused.err
    assert "another version" not in refused.err
