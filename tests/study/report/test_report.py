"""The report of a study: its numbers, its tables, its figures, its page."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.support.memory import too_little_to_draw
from tests.support.studies import Chat, run_of, study_data, turns_of, with_runs

from turnwise.detectors import build_detector
from turnwise.errors import UsageError
from turnwise.plots.render import browser_library
from turnwise.stats import evaluated, mean_scores, realised_rates, roc_points
from turnwise.study import (
    Settings,
    Study,
    all_tables,
    as_markdown,
    compare_data,
    record,
    summary,
    verdict,
    write_report,
)
from turnwise.study.report import (
    VERDICT_COLUMNS,
    Table,
    all_figures,
    answer,
    as_csv,
    as_latex,
    html_text,
    verdicts_as_parquet,
)

EVIL = '</script><script>alert("x")</script><img src=x onerror=alert(1)> & $5_%'


def make_study(attack_shift: float = 0.3, *, missing: int = 0, second: str = "h", **settings: object) -> Study:
    """Return a small study; a source, a category and some ids are written by somebody who means harm."""
    generator = random.Random(3)
    chats = []
    for number in range(180):
        attack, turns, length = number < 60, {}, generator.randint(3, 6)
        for run in ("t", second):
            shift = attack_shift if attack and run == second else 0.0
            F = [min(1.0, 0.6 * generator.random() + shift) for _ in range(length)]
            turns[run] = turns_of(F, gone=run == second and number < missing)
        name, source = f"{EVIL}{number}" if number % 7 == 0 else f"c{number}", EVIL if number % 2 else "plain"
        chats.append(Chat(name, f"g{number // 2}", attack, turns, source, {"category": f"kind|{number % 4}"}))
    data = study_data(chats, [run_of("t", "turn"), run_of(second, "history")])
    cost, latency = ({one.name: value for one in chats} for value in (0.25, 4.0))
    runs = (dataclasses.replace(run, cost_usd=cost, latency_ms=latency) for run in data.runs)
    data = dataclasses.replace(with_runs(data, *runs), untried=2, unlabelled=1, sha256="ab" * 32)
    given = {
        "runs": ("t", second),
        "detectors": ("cusum:drift=0.4", "f_ema"),
        "target_fpr": 0.05,
        "replicates": 40,
        "splits": 4,
        "seeds": 2,
    }
    return compare_data(data, Settings(**{**given, **settings}))


SMALL = {"splits": 1, "seeds": 1, "replicates": 10}
"""For studies of which only words and tables are looked at."""


@pytest.fixture(scope="module")
def study() -> Study:
    return make_study()


@pytest.fixture(scope="module")
def report(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "out"
    write_report(study, folder)
    return folder


def answers(study: Study) -> list[dict[str, Any]]:
    """Return the rows of the figure that shows the answer."""
    [drawn] = [one for one in all_figures(study) if one.name == "answer"]
    return [row for rows in drawn.spec["datasets"].values() for row in rows if "what" in row]


class Page(HTMLParser):
    """The tags, scripts and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.inside):
            self.text.append(data)


def test_the_short_form_has_exactly_the_fields_that_were_promised(study):
    found = summary(study)
    assert list(found) == ["two_by_two", "between_runs", "detectors", "tests", "warnings"]
    assert {"recall", "gain of context", "gain of trajectory", "says"} < set(found["two_by_two"][0])
    assert {tuple(row) for row in found["detectors"]} == {
        (
            "name",
            "run",
            "context",
            "threshold",
            "recall",
            "recall_ci",
            "fpr",
            "fpr_ci",
            "auc",
            "auc_ci",
            "median_turn",
            "cost_usd",
            "conditions_on_threshold",
        )
    }
    assert {tuple(row) for row in found["tests"]} == {
        ("a", "b", "a_alone", "b_alone", "p", "p_holm", "conditions_on_threshold")
    }
    json.dumps(found, allow_nan=False)
    for row in found["detectors"]:
        assert row["recall_ci"][0] <= row["recall"] <= row["recall_ci"][1]
        assert row["auc_ci"][0] <= row["auc"] <= row["auc_ci"][1]
        assert row["cost_usd"] == 0.25


def test_the_record_has_configuration_hashes_seeds_versions_and_splits(study):
    found = json.loads(json.dumps(record(study), allow_nan=False))
    assert found["settings"]["seed"] == 0
    assert found["settings"]["detectors"] == ["cusum:drift=0.4", "f_ema"]
    assert {"turnwise", "code", "python", "numpy", "scipy"} <= set(found["versions"])
    assert found["data"]["sha256"] == "ab" * 32
    assert (found["data"]["untried"], found["data"]["unlabelled"]) == (2, 1)
    assert sorted(name for part in found["folds"][0].values() for name in part) == sorted(
        one.sequence_id for one in study.data.known
    )
    assert found["chosen"] == study.arms[study.chosen].name
    assert found["in_training"][found["chosen"]]["count"] == max(r["count"] for r in found["in_training"].values())
    assert {test["family"] for test in found["final_tests"]} == {"final"}
    assert found["if_missing"] is None
    row = next(row for row in found["detectors"] if row["name"] == found["chosen"])
    assert row["counts"]["caught"] + row["counts"]["missed"] == row["final"]["recall"]["of"]
    assert row["f1"]["ci"][0] <= row["f1"]["value"] <= row["f1"]["ci"][1]
    assert row["recall_at"][1]["reason"].endswith("at least 999 are needed")
    assert row["built"][0]["detector"] in ("cusum", "f_ema")


@pytest.mark.integration
def test_the_same_study_gives_the_same_bytes_in_another_process(report, tmp_path):
    folder = tmp_path / "again"
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_report import make_study\n"
        "from turnwise.study.report import write_report\n"
        f"write_report(make_study(), Path({str(folder)!r}))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    files = sorted(path.relative_to(report) for path in report.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert [str(name) for name in files if (report / name).read_bytes() != (folder / name).read_bytes()] == []
    assert {path.suffix for path in files} == {
        ".html", ".md", ".json", ".parquet", ".csv", ".tex", ".svg", ".pdf"
    }  # fmt: skip


def test_the_page_needs_nothing_else_and_nothing_escapes_into_it(report):
    text = (report / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.tags.count("script") == 3
    assert "img" not in page.tags
    assert page.links == []
    assert EVIL in "".join(page.text)  # shown as text, word for word
    specs = re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL)
    assert set(json.loads(specs[1])) == {figure.stem for figure in (report / "figures").glob("*.svg")}
    assert '<script>alert("x")' not in text


def test_the_name_of_a_run_is_text_in_every_file_too(tmp_path):
    write_report(make_study(second=EVIL, **SMALL), tmp_path / "out")
    page = Page()
    page.feed((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 3
    assert "img" not in page.tags
    assert page.links == []
    for path in (*(tmp_path / "out").rglob("*.svg"), *(tmp_path / "out").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        assert "<script" not in text and "<img" not in text, path.name


def test_the_page_opens_with_the_answer_and_warns_where_a_warning_applies(report, study):
    page = Page()
    page.feed((report / "report.html").read_text(encoding="utf-8"))
    text = " ".join(" ".join(page.text).split())
    order = [" ".join(answer(study).split()), "The answer.", "Result", "Method", "Figure 1.", "Where this comes"]
    first = [text.index(words) for words in order]
    assert first == sorted(first)
    headings = {"everything": ("Result", "Method"), "detection": ("Detection", "When attacks are flagged")}
    html = (report / "report.html").read_text(encoding="utf-8")
    assert {one.about for one in study.cautions} >= set(headings)
    for one in study.cautions:
        assert html.count(html_text(one.text)) == 1
        if one.about in headings:
            begin, end = (html.index(f"<h2>{heading}") for heading in headings[one.about])
            assert begin < html.index(html_text(one.text)) < end, one
    assert "What this does not show" in text


def test_the_answer_is_one_sentence_with_its_figures(study):
    found = answer(study)
    apart = study.two_by_two[0]
    assert found.startswith(("Both gains are shown here", "Only the gain of", "Neither gain is shown here"))
    assert "here, in recall at 5 % false positives: " in found
    assert found.count(" points)") == len(
        [kind for kind in ("gain of context", "gain of trajectory") if apart.first(kind)]
    )
    assert [round(row["value"], 6) for row in answers(study)] == [
        round(100 * gain.by_seed[0].value, 6)
        for kind in ("gain of context", "gain of trajectory")
        if (gain := apart.first(kind))
    ]


def test_without_gains_the_answer_says_what_is_caught(study):
    alone = dataclasses.replace(study, two_by_two=(), between_runs=())
    assert re.match(
        r"Of the attacks at 5 % false positives, any_turn@t catches [\d.]+ % \[.*\] and .* catches .* %.*\]\.$",
        answer(alone),
    )
    assert [row["what"] for row in answers(alone)] == [
        alone.arms[alone.reference].name,
        alone.arms[alone.chosen].name,
    ]


def test_the_verdict_says_what_gained_how_much_and_with_which_p(study):
    text = " ".join(verdict(study))
    name = study.arms[study.chosen].name
    test = study.test_of(name)
    assert test.won
    assert (
        f"{name} alone caught {test.b_alone} and any_turn@t alone {test.a_alone} of {test.pairs} attacks" in text
    )
    assert "That is a gain of +" in text
    assert "by groups" in text
    assert "because it caught most attacks among the training conversations" in text
    assert "Judged at the last turn alone, any_turn@t flags" in text
    assert "Gain of context (highest F, history against the turn alone): " in text
    assert "Gain of trajectory (best accumulator, against the highest F): " in text
    assert "after Holm's correction" in text


def test_without_an_effect_the_verdict_says_so():
    found = make_study(0.0, **SMALL)
    text = " ".join(verdict(found))
    assert "A difference is not shown" in text
    assert "It does not beat any_turn@t" in text


def test_given_thresholds_and_baselines_alone_have_words_of_their_own():
    given = " ".join(verdict(make_study(thresholds="given", **SMALL)))
    assert "at the thresholds that were given" in given
    assert "thresholds were not matched" in given
    alone = " ".join(verdict(make_study(detectors=(), runs=("h",), **SMALL)))
    assert "Nothing but baselines was asked for" in alone


def test_every_table_has_three_forms(report, study):
    for table in all_tables(study):
        rows = list(csv.reader(io.StringIO((report / "tables" / f"{table.name}.csv").read_text(encoding="utf-8"))))
        assert tuple(rows[0]) == table.columns
        assert len(rows) == 1 + len(table.rows)
        latex = (report / "tables" / f"{table.name}.tex").read_text(encoding="utf-8")
        assert latex.count(r"\toprule") == latex.count(r"\midrule") == latex.count(r"\bottomrule") == 1
        body = latex[latex.index(r"\toprule") : latex.index(r"\bottomrule")]
        cells = [len(re.findall(r"(?<!\\)&", line)) for line in body.splitlines() if line.endswith(r"\\")]
        assert set(cells) == {len(table.columns) - 1}
        assert not re.search(r"(?<!\\)[%#$_]", body)
        markdown = as_markdown(table)
        assert "<script" not in markdown
        assert {row.count(" | ") for row in markdown.splitlines() if row.startswith("| ")} == {
            len(table.columns) - 1
        }
    names = {table.name for table in all_tables(study)}
    assert {
        "detectors",
        "tests",
        "final",
        "further",
        "delay",
        "by_source",
        "by_category",
        "by_length",
        "shuffle",
    } <= names
    assert "missing" not in names


@pytest.mark.parametrize(
    "settings", [{"folds": 3, "target_fpr": 0.1}, {"folds": 0}, {"thresholds": "given"}], ids=str
)
def test_verdicts_name_the_fold_whose_threshold_the_report_has(settings, tmp_path):
    study = make_study(detectors=("f_ema", "learned") if "folds" in settings else ("f_ema",), **SMALL, **settings)
    numbers = json.loads(json.dumps(record(study)))
    file = tmp_path / "verdicts.parquet"
    file.write_bytes(verdicts_as_parquet(study))
    rows = duckdb.sql(f"SELECT * FROM '{file}'").fetchall()
    names = list(VERDICT_COLUMNS)
    rows = [dict(zip(names, row, strict=True)) for row in rows]
    assert {row["fold"] for row in rows} == set(range(1, len(numbers["folds"]) + 1))
    for row in rows:
        assert row["sequence"] in numbers["folds"][row["fold"] - 1][row["part"]]
    for arm in numbers["detectors"]:
        mine = [row for row in rows if row["arm"] == arm["name"]]
        thresholds = {row["fold"]: row["threshold"] for row in mine}
        assert thresholds == {
            number: build_detector(built).threshold for number, built in enumerate(arm["built"], start=1)
        }
        tested = [row for row in mine if row["part"] == "test"]
        for row in tested:
            assert row["fired"] is (row["score"] >= row["threshold"])
        for label, counted in (("attack", "caught"), ("benign", "false_alarms")):
            assert sum(row["fired"] for row in tested if row["label"] == label) == arm["counts"][counted]
        table = next(table for table in all_tables(study) if table.name == "detectors")
        cell = next(line[2] for line in table.rows if line[0].removesuffix(" *") == arm["name"])
        ends = dict.fromkeys(f"{pick(thresholds.values()):.4g}" for pick in (min, max))
        assert cell == " to ".join(ends)


def test_verdicts_at_the_last_turn_have_a_table_of_their_own(study):
    table = next(table for table in all_tables(study) if table.name == "final")
    rows = {row[0]: row for row in table.rows}
    assert list(rows) == [arm.name for arm in study.arms]
    test = next(test for test in study.final_tests if test.b == study.arms[study.chosen].name)
    assert rows[test.b][3] == f"{test.a_alone} : {test.b_alone}"
    assert set(rows["first_turn@t"][3:]) == {"–"}
    counts = study.results[study.chosen].final.recall
    assert rows[test.b][1].startswith(f"{100 * counts.count / counts.of:.1f} [")


def test_small_cells_say_so(study):
    found = make_study(small_cell=10, **SMALL)
    table = next(table for table in all_tables(found) if table.name == "by_category")
    assert any("too few (" in cell for row in table.rows for cell in row)
    assert "too few" in as_csv(table)
    assert "too few" in as_latex(table)


def test_missing_conversations_have_bounds():
    found = make_study(missing=50, **SMALL)
    table = next(table for table in all_tables(found) if table.name == "missing")
    assert {row[0].partition("@")[2] for row in table.rows} == {"h"}
    assert "not evaluated" in found.warnings[0]
    text = " ".join(verdict(found))
    gone = found.results[found.chosen].missing.attacks.count
    assert f"Verdicts on {gone} attacks are missing. Had all of them gone against" in text
    assert record(found)["if_missing"]["for_second"]["b_alone"] >= gone


def test_every_figure_of_the_study_is_there(study):
    figures = all_figures(study)
    assert {figure.name for figure in figures} == {
        "answer",
        "recall",
        "roc",
        "survival",
        "courses",
        "single",
        "gain",
        "shuffle",
        "calibration",
    }
    for figure in figures:
        assert figure.spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/v")
        assert figure.title
        assert figure.caption


def test_with_folds_there_is_no_calibration_curve():
    names = {figure.name for figure in all_figures(make_study(folds=3, target_fpr=0.1, **SMALL))}
    assert "calibration" not in names
    assert "roc" in names


def test_curves_agree_with_the_counts(study):
    for result in study.results:
        points = roc_points(result.judged)
        assert points[0] == (0.0, 0.0)
        assert points[-1] == (1.0, 1.0)
        assert points == sorted(points)
        area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))
        assert area == pytest.approx(result.auc.value)
    reference = study.judgements[study.reference]
    benign = [one.score for one in evaluated(reference.judged, attack=False)]
    points = realised_rates(reference.folds[0].benign, benign)
    asked = [point["asked"] for point in points]
    assert asked == sorted(asked)
    at = next(point for point in points if point["asked"] == 0.05)
    fpr = study.results[study.reference].counts.fpr
    assert at["realised"] == pytest.approx(fpr.count / fpr.of)
    rows = mean_scores(study.data.runs[1].examples)
    assert all(row["low"] <= row["mean"] <= row["high"] and row["conversations"] >= 10 for row in rows)


def test_roc_needs_both_labels(study):
    assert roc_points([one for one in study.results[0].judged if one.attack]) == []


def test_offsets_of_a_pdf_point_at_its_objects(report):
    for file in (report / "figures").glob("*.pdf"):
        data = file.read_bytes()
        start = int(re.search(rb"startxref\n(\d+)", data)[1])
        assert data[start:].startswith(b"xref\n")
        offsets = [int(line[:10]) for line in re.findall(rb"\d{10} 00000 n", data[start:])]
        assert len(offsets) > 5
        for number, offset in enumerate(offsets, start=1):
            assert data[offset:].startswith(b"%d 0 obj\n" % number)


def test_a_folder_that_can_not_be_is_told_before_the_work(study, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="it is a file"):
        write_report(study, file)
    with pytest.raises(UsageError, match="there is no folder"):
        write_report(study, tmp_path / "none" / "out")


def test_signed_numbers_stay_in_a_csv_file_and_formulas_do_not():
    rows = (("-1.5 (−2, 3) %", "+3", "-", "-1+A1", "=1", "−1", "plain"),)
    table = Table("t", "t", tuple("abcdefg"), rows)
    (_, row) = csv.reader(io.StringIO(as_csv(table)))
    assert row == ["-1.5 (−2, 3) %", "+3", "-", "'-1+A1", "'=1", "−1", "plain"]


def test_figures_that_can_not_be_drawn_leave_the_rest_of_the_report(study, tmp_path):
    told, figures = [], [figure.name for figure in all_figures(study)]
    browser_library.cache_clear()
    with too_little_to_draw():
        files = write_report(study, tmp_path / "out", tell=told.append)
    assert len(told) == len(figures) + 1
    assert all(
        line.startswith(f"figure {name}: a chart can't be drawn: ") and "\n" not in line
        for name, line in zip(figures, told, strict=False)
    )
    assert {path.parent.name for path in files} == {"out", "tables"}
    page = Page()
    page.feed((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert " ".join(page.text).count("a chart can't be drawn: ") == len(figures)
    assert "script" not in page.tags
    assert "table" in page.tags
