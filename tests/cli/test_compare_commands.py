"""``turnwise study compare``, ``calibrate`` and ``power``: from a store to a report, a threshold, a number."""

from __future__ import annotations

import html
import json
import random
import shutil
from importlib import resources
from pathlib import Path

import pytest
import yaml

from turnwise.guard import build_guardrail

ROWS = 160
ATTACKS = 60


@pytest.fixture(scope="module")
def store(tmp_path_factory, succeed):
    """Return a store, which no test changes, with three runs of recorded scores.

    Single turns say little, the history more; the whole transcript is there too. Of the history, the last two
    sequences were never scored.
    """
    tmp_path = tmp_path_factory.mktemp("compare")
    generator = random.Random(2)
    lines, scores = [], {"turn": [], "history": [], "transcript": []}
    for number in range(ROWS):
        attack = number < ATTACKS
        name = f"s{number}"
        turns = [{"role": "user", "content": f"turn {turn}"} for turn in range(1, 6)]
        label = "unlabelled" if number == ROWS - 1 else "attack" if attack else "benign"
        lines.append(
            {
                "id": name,
                "label": label,
                "source": "made",
                "turns": turns,
                "metadata": {"group": f"g{number // 2}", "tactic": f"tactic {number % 3}"},
            }
        )
        for context, rows in scores.items():
            for turn in range(1, 6):
                if context == "history" and number >= ROWS - 2:
                    continue
                raised = 0.08 * turn if attack and context != "turn" else 0.0
                F = round(0.5 * generator.random() + raised, 4)
                row = {"sequence_id": name, "turn": turn, "principle": "reciprocity", "T": 1 - F, "I": 0.2, "F": F}
                rows.append(row)
    (tmp_path / "chats.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    path = str(tmp_path / "work.db")
    succeed("import", tmp_path / "chats.jsonl", "--store", path)
    for context, rows in scores.items():
        file = tmp_path / f"{context}.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        arguments = ["--store", path, "--run", context, "--context", context, "--principle", "reciprocity"]
        succeed("evaluate", *arguments, "--observer", f"replay:{file}")
    return path


def compare(cli, store, *arguments):
    return cli(
        "study",
        "compare",
        "--store",
        store,
        "--target-fpr",
        "0.05",
        "--replicates",
        "50",
        "--splits",
        "5",
        *arguments,
    )


@pytest.mark.integration
@pytest.mark.shows("US-2", "FR-007")
def test_the_command_of_the_issue(store, cli, tmp_path):
    out = tmp_path / "out"
    runs = ["--run", "turn", "--run", "history"]
    detectors = ["--detector", "any_turn", "--detector", "cusum", "--detector", "learned"]
    done = compare(cli, store, *runs, *detectors, "--report", out, "--json")
    assert done.code == 0
    assert list(done.json) == ["two_by_two", "between_runs", "detectors", "tests", "warnings"]
    assert {row["name"] for row in done.json["detectors"]} >= {"any_turn@turn", "cusum@history", "learned@history"}
    first = {test["b"]: test for test in done.json["tests"] if test["a"] == "any_turn@turn"}
    assert set(first["learned@history"]) == {
        "a",
        "b",
        "a_alone",
        "b_alone",
        "p",
        "p_holm",
        "conditions_on_threshold",
    }
    assert first["learned@history"]["p_holm"] < 0.05
    for name in ("report.html", "report.md", "results.json", "tables/detectors.tex", "figures/roc.svg"):
        assert (out / name).stat().st_size > 500
    found = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in found["data"]["runs"]] == ["turn", "history"]
    assert found["data"]["unlabelled"] == 1
    row = next(row for row in found["detectors"] if row["name"] == "cusum@history")
    assert row["missing"]["benign"]["count"] + row["missing"]["attacks"]["count"] <= 1


def test_runs_and_detectors_have_defaults_and_tables_are_printed(store, cli):
    done = compare(cli, store)
    assert done.code == 0
    assert "Recall at 5 % false positives, by what the observer sees and what decides" in done.out
    assert "Gain of context and gain of trajectory, points of recall" in done.out
    for words in ("any_turn@turn *", "cusum@history", "trust_ema@history", "What this does not show", "p, Holm"):
        assert words in done.out
    assert "warning: " in done.err


def test_two_observers_are_two_runs_of_the_same_context(store, cli, succeed, tmp_path):
    """The second observer confuses half of what the first tells apart."""
    generator = random.Random(3)
    path = tmp_path / "two.db"
    shutil.copyfile(store, path)
    rows = [json.loads(line) for line in Path(store).with_name("history.jsonl").read_text().splitlines()]
    for row in rows:
        row["F"] = round(0.3 * row["F"] + 0.3 * generator.random(), 4)
        row["T"] = 1 - row["F"]
    scores = tmp_path / "dull.jsonl"
    scores.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    arguments = ["--store", path, "--run", "dull", "--context", "history", "--principle", "reciprocity"]
    succeed("evaluate", *arguments, "--observer", f"replay:{scores}")

    asked = ["--run", "dull", "--run", "history", "--detector", "cusum", "--folds", "4"]
    [found] = compare(cli, path, *asked, "--json").json["between_runs"]
    assert (found["detector"], found["a"], found["b"]) == ("cusum", "dull", "history")
    assert found["expected"]["ci"][0] > 0
    assert found["b_alone"] > found["a_alone"]
    assert found["p"] <= found["p_holm"] < 0.05
    assert found["auc"]["ci"][0] > 0
    assert found["auc_p_holm"] < 0.05
    out = tmp_path / "out"
    done = compare(cli, path, *asked, "--report", out)
    shown = " ".join(done.out.split())
    assert "cusum on history against dull. Over 5 splits of the conversations" in shown
    assert "in expectation: history finds more." in shown
    assert "The same detector on two runs" in shown
    assert (out / "report.md").read_text(encoding="utf-8").startswith("# Which run finds more?")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.index("What the observer sees, and what decides") < page.index("The same detector on two runs")
    assert (out / "tables" / "runs.tex").stat().st_size > 500
    [written] = json.loads((out / "results.json").read_text(encoding="utf-8"))["between_runs"]
    assert written["p_holm"] == found["p_holm"]


def test_folds_and_given_thresholds(store, cli):
    folded = compare(cli, store, "--folds", "3", "--json", "--run", "turn", "--run", "history").json
    assert next(row["name"] for row in folded["detectors"]) == "any_turn@turn"
    given = compare(cli, store, "--thresholds", "given", "--json", "--run", "history").json
    assert any("thresholds were given" in warning for warning in given["warnings"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--run", "histori"], "did you mean 'history'"),
        (["--detector", "cusun"], "did you mean 'cusum'"),
        (["--target-fpr", "2"], "target fpr must lie in (0, 1)"),
        (["--target-fpr", "0.001"], "at least 999 are needed"),
        (["--splits", "0"], "splits must be at least 1"),
        (["--thresholds", "given it"], "unknown kind of thresholds"),
        (["--report", "none/out"], "there is no folder none"),
        (["--run", "transcript"], "scored turn by turn"),
    ],
)
def test_bad_input_is_told(arguments, words, store, cli):
    done = cli("study", "compare", "--store", store, "--replicates", "20", *arguments)
    assert done.code == 2
    assert words in done.err


def test_a_store_without_a_run_is_told(cli, tmp_path, chats):
    path = tmp_path / "empty.db"
    assert cli("import", chats, "--store", path).code == 0
    done = cli("study", "compare", "--store", path)
    assert done.code == 2
    assert "no run with context turn or history" in done.err


def test_a_threshold_with_a_guarantee_detects_from_its_file(store, cli, tmp_path):
    out = tmp_path / "mine.yaml"
    arguments = ["--store", store, "--run", "history", "--detector", "cusum", "--alpha", "0.1", "--out", out]
    told = cli("study", "calibrate", *arguments, "--json").json
    assert told["benign"] == 98
    assert told["flagged_benign"] <= 5
    assert told["upper_bound"] <= 0.1
    assert told["groups"] == 49
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == told["detector"]
    verdicts = cli("detect", "--store", store, "--run", "history", "--detector", out, "--json").json
    assert sum(row["fired"] for row in verdicts if row["label"] == "benign") == told["flagged_benign"]
    shown = cli("study", "calibrate", *arguments)
    assert "at most 10 % of benign conversations are flagged, with 95 % confidence" in shown.out
    assert "98 benign conversations fall into 49 groups" in shown.err


def test_a_fitted_detector_is_calibrated_on_the_other_half(store, cli):
    told = cli(
        "study",
        "calibrate",
        "--store",
        store,
        "--run",
        "history",
        "--detector",
        "learned",
        "--alpha",
        "0.2",
        "--json",
    )
    assert told.json["fitted_on"] + told.json["benign"] + told.json["flagged_attacks"][1] == 158
    assert told.json["detector"]["detector"] == "learned"


def test_too_few_conversations_are_told_with_the_number_needed(store, cli):
    done = cli(
        "study", "calibrate", "--store", store, "--run", "history", "--alpha", "0.01", "--confidence", "0.95"
    )
    assert done.code == 2
    assert "at least 299 are needed" in done.err
    assert "98 can keep 3 % at best" in done.err
    done = cli("study", "calibrate", "--store", store, "--run", "history", "--alpha", "1.5")
    assert done.code == 2
    assert "alpha must lie in (0, 1)" in done.err


def test_power_says_how_many_a_study_needs(cli):
    told = cli("study", "power", "--stateless", "0.3", "--temporal", "0.8", "--json").json
    assert told["benign"] == 299
    assert 10 < told["paired"]["most favourable"] <= told["paired"]["independent"]
    assert told["paired"]["independent"] <= told["paired"]["least favourable"] < 40
    shown = cli("study", "power", "--stateless", "0.3", "--temporal", "0.8")
    assert "299 to set the threshold" in " ".join(shown.out.split())
    assert "count groups" in shown.err


def test_power_says_what_the_attacks_at_hand_can_show(cli):
    few, enough = (
        cli("study", "power", "--stateless", "0.3", "--temporal", "0.8", "--attacks", attacks, "--json").json
        for attacks in (10, 30)
    )
    assert few["power_of_attacks"]["unpaired"] < 0.8 < enough["power_of_attacks"]["unpaired"]
    for dependence, needed in few["paired"].items():
        assert few["power_of_attacks"]["paired"][dependence] < 0.8
        assert (enough["power_of_attacks"]["paired"][dependence] >= 0.8) is (needed <= 30)
    assert (
        cli("study", "power", "--stateless", "0.3", "--temporal", "0.8", "--json").json["power_of_attacks"] is None
    )
    shown = cli("study", "power", "--stateless", "0.3", "--temporal", "0.8", "--attacks", "30")
    assert "probability with 30" in shown.out
    assert "with 30 an arm the probability is" in " ".join(shown.out.split())
    many = cli("study", "power", "--stateless", "0.3", "--temporal", "0.8", "--attacks", "1001", "--json").json
    assert many["power_of_attacks"]["unpaired"] is None
    assert many["power_of_attacks"]["paired"]["least favourable"] > 0.999


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stateless", "0.5", "--temporal", "0.5"], "recalls must differ"),
        (["--stateless", "0.3", "--temporal", "0.5", "--attacks", "0"], "attacks"),
        (["--stateless", "1.5", "--temporal", "0.5"], "must lie in [0, 1]"),
        (["--stateless", "0.3", "--temporal", "0.5", "--confidence", "1"], "confidence must lie in (0, 1)"),
    ],
)
def test_power_that_can_not_be_is_told(arguments, words, cli):
    done = cli("study", "power", *arguments)
    assert done.code == 2
    assert words in done.err


OWN = """rising:
  expression: reciprocity.F > limit and turn > 2
  description: It rises.
  parameters: {limit: 0.6}
"""
NAMED = "pattern:rising(limit=0.7)"
COMBINED = 'k_of:k=1,members=[pattern:expression="rising"; never]'


@pytest.fixture
def own_patterns(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN, encoding="utf-8")
    return path


@pytest.mark.parametrize("spec", [NAMED, COMBINED])
@pytest.mark.parametrize("command", ["detect", "tune", "calibrate", "check"])
def test_a_pattern_of_a_file_works_wherever_a_detector_is_named(cli, store, own_patterns, spec, command, tmp_path):
    if command == "check":
        (tmp_path / "chat.json").write_text('[{"role": "user", "content": "Hello"}]', encoding="utf-8")
        arguments = ["check", tmp_path / "chat.json", "--observer", "scripted:0.1", "--detector", spec]
    else:
        group = [] if command == "detect" else ["study"]
        arguments = [*group, command, "--store", store, "--run", "history", "--detector", spec]
        arguments += {"tune": ["--target-fpr", "0.1"], "calibrate": ["--alpha", "0.1"]}.get(command, [])
    unknown = cli(*arguments)
    assert unknown.code != 0
    assert "rising" in unknown.err
    assert cli(*arguments, "--patterns", own_patterns).code == 0


def test_the_variable_names_the_file_of_patterns_too_and_compare_takes_it(cli, store, own_patterns, monkeypatch):
    monkeypatch.setenv("TURNWISE_PATTERNS", str(own_patterns))
    done = compare(cli, store, "--run", "history", "--detector", NAMED, "--json")
    assert done.code == 0, done.err
    assert f"{NAMED}@history" in [row["name"] for row in done.json["detectors"]]


def test_a_tuned_file_needs_the_file_of_patterns_no_more(cli, store, own_patterns, tmp_path):
    arguments = ["--store", store, "--run", "history", "--detector"]
    tuned = tmp_path / "tuned.yaml"
    done = cli(
        "study", "tune", *arguments, NAMED, "--patterns", own_patterns, "--target-fpr", "0.1", "--out", tuned
    )
    assert done.code == 0, done.err
    assert yaml.safe_load(tuned.read_text(encoding="utf-8"))["expression"] == "reciprocity.F > 0.7 and turn > 2"
    assert cli("detect", *arguments, tuned).code == 0


def test_a_rule_of_the_guard_takes_a_file_of_patterns(own_patterns):

    assert (
        build_guardrail("drift", detector="pattern:rising", patterns=str(own_patterns), block_at=0.0).detector
        == "pattern:rising"
    )


def test_the_report_tells_why_conversations_were_flagged(cli, succeed, tmp_path):
    with resources.as_file(resources.files("turnwise.datasets") / "examples.jsonl") as path:
        succeed("import", path, "--store", tmp_path / "own.db")
    observer = "--observer", "local-small"
    for context in ("turn", "history"):
        succeed("evaluate", "--store", tmp_path / "own.db", "--run", context, "--context", context, *observer)
    settings = ["--store", tmp_path / "own.db", "--target-fpr", "0.2", "--folds", "3", "--detector", "any_turn"]
    settings += ["--replicates", "20", "--seeds", "1"]
    alone = cli("study", "compare", *settings, "--why")
    assert (alone.code, alone.err) == (2, "error: --why goes into a report: name its folder with --report\n")
    succeed("study", "compare", *settings, "--why", "--report", tmp_path / "out")
    told = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["why_flagged"]
    assert 2 <= len(told) <= 10
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for one in told:
        assert one["sentences"] and all(html.escape(sentence) in page for sentence in one["sentences"])
    assert sum(any("Without " in sentence for sentence in one["sentences"]) for one in told) >= len(told) // 2
