"""What an observer does not read: a state of its own in runs, stores, reports and studies, and never a number."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnwise
from turnwise.conversation import Label, Sequence, Side, Turn
from turnwise.errors import UsageError
from turnwise.observers import NotRead, ObservationFailure, Request, ScriptedObserver
from turnwise.principles import Principle
from turnwise.runs import detect, evaluate
from turnwise.scoring import NOT_READ, Score
from turnwise.store import Store
from turnwise.study.compare import load_study_data

Principles = tuple[Principle, ...]


def reader(fails: bool = False) -> ScriptedObserver:
    """Return an observer that reads no text with ``zh`` or ``ru`` in it, and may fail at those with ``bad``."""

    def script(conversation_id: str, turn: Turn, request: Request) -> Any:
        text, about = turn.text(request.side) or "", (request.principle.name, request.side)
        for language in ("zh", "ru"):
            if language in text:
                return NotRead(*about, language)
        if fails and "bad" in text:
            return ObservationFailure(*about, "server", "it is down")
        return Score(0.9, 0.0, 0.1)

    return ScriptedObserver(script)


@pytest.fixture
def filled(store: Store, make_sequence: Callable[..., Sequence]) -> Iterator[Store]:
    store.add_sequences(
        [
            make_sequence("mixed", ("hello", None), ("zh", None), ("bad", None)),
            make_sequence("foreign", ("ru", None), ("zh", None), label=Label.BENIGN),
            make_sequence("plain", ("hello", None), label=Label.BENIGN),
        ]
    )
    yield store


def test_it_is_counted_by_language_and_neither_failed_nor_tried_again(
    filled: Store, principles: Principles
) -> None:
    first = evaluate(filled, "r", reader(), principles=principles)
    assert (first.evaluations, first.failures, first.gaps, first.skipped) == (6, 0, 0, 0)
    assert first.unread == {"zh": 4, "ru": 2} and first.commonest_failure is None
    again = evaluate(filled, "r", reader(), principles=principles)
    assert (again.evaluations, again.failures, again.skipped, again.unread) == (0, 0, 12, {})

    assert filled.failures("r") == () and filled.failed("r") == set()
    told = [(one.key.sequence_id, one.key.turn, one.language) for one in filled.unread("r", ids=["foreign"])]
    assert sorted(set(told)) == [("foreign", 1, "ru"), ("foreign", 2, "zh")] and len(told) == 4
    assert len(filled.unread("r", turns=range(1, 2))) == 2
    tally = filled.tally("r")
    assert (tally.evaluations, tally.failed, tally.failures, tally.unread) == (6, 0, 0, {"zh": 4, "ru": 2})
    assert filled.counts() | {"failures": 0, "unread": 6} == filled.counts()
    assert not filled.trajectory("r", "foreign")


def test_failures_beside_it_are_counted_apart_and_tried_again(filled: Store, principles: Principles) -> None:
    first = evaluate(filled, "r", reader(fails=True), principles=principles)
    assert (first.evaluations, first.failures, sum(first.unread.values())) == (4, 2, 6)
    assert first.commonest_failure is not None and first.commonest_failure.reason == "server"
    assert {key.turn for key in filled.failed("r")} == {3}
    again = evaluate(filled, "r", reader(), principles=principles)
    assert (again.evaluations, again.failures, again.skipped, again.unread) == (2, 0, 10, {})
    assert (filled.tally("r").failed, filled.tally("r").failures) == (0, 2)


def test_what_failed_and_then_is_not_read_is_settled(filled: Store, principles: Principles) -> None:
    failing = ScriptedObserver(
        lambda _, turn, one: ObservationFailure(one.principle.name, one.side, "server", "down")
    )
    evaluate(filled, "r", failing, principles=principles, ids=["foreign"])
    assert len(filled.failed("r")) == 4
    other = ScriptedObserver(lambda _, turn, one: NotRead(one.principle.name, one.side, "zh"))
    other._script.__name__ = failing._script.__name__  # the same run
    evaluate(filled, "r", other, principles=principles, ids=["foreign"])
    assert filled.failed("r") == set() and filled.tally("r").unread == {"zh": 4}


def test_two_processes_that_tell_the_same_count_it_once(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", reader(), principles=principles)
    filled.append(filled.unread("r"))
    assert len(filled.unread("r")) == 6 and filled.tally("r").unread == {"zh": 4, "ru": 2}


def test_a_run_of_it_alone_is_there_and_can_be_deleted(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", reader(), principles=principles, ids=["foreign"])
    with pytest.raises(UsageError, match="another --run"):
        evaluate(filled, "r", "scripted:0.1", principles=principles)
    filled.delete_run("r")
    assert filled.counts()["unread"] == 0


def test_a_store_that_lies_about_it_is_no_harm(filled: Store, principles: Principles, path: Path) -> None:
    evaluate(filled, "r", reader(), principles=principles)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE failures SET message = ? WHERE turn = 2", ("x\x1b[2J\n" * 500,))
    tally = filled.tally("r")
    assert sum(tally.unread.values()) == 6
    told = turnwise.scoring.unread_in_words(tally.unread)
    assert "\x1b" not in told and "\n" not in told and len(told) < 400


def test_it_goes_with_an_export_and_comes_back(filled: Store, principles: Principles, tmp_path: Path) -> None:
    evaluate(filled, "r", reader(), principles=principles)
    filled.export(tmp_path / "out", format="jsonl")
    lines = (tmp_path / "out" / "failures.jsonl").read_text().splitlines()
    assert len(lines) == 6 and all(f'"{NOT_READ}"' in line for line in lines)
    with Store(tmp_path / "other.db", create=True) as other:
        other.import_from(tmp_path / "out")
        assert other.tally("r").unread == {"zh": 4, "ru": 2} and other.failures("r") == ()


def test_detectors_skip_it_and_say_so(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", reader(), principles=principles)
    found = {one.head.sequence_id: one for one in detect(filled, "r", ["any_turn"])}
    assert found["foreign"].verdict is None and found["foreign"].unread == 2
    mixed = found["mixed"]
    assert mixed.verdict is not None and not mixed.verdict.fired and (mixed.unread, mixed.missing) == (1, 1)
    assert found["plain"].unread == 0


def test_a_study_knows_the_conversations(filled: Store, principles: Principles) -> None:
    evaluate(filled, "r", reader(), principles=principles)
    data = load_study_data(filled, ["r"])
    (run,) = data.runs
    assert run.unread == {"mixed", "foreign"} and not run.failed and data.untried == 0


def test_a_report_names_the_text_once(principles: Principles) -> None:
    report = turnwise.check(
        [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hi"},
            {"role": "user", "content": "zh"},
        ],
        reader(),
        ["any_turn"],
        principles=principles,
    )
    assert [str(one) for one in report.unread] == ["not read: turn 2, prompt: its language is zh"]
    assert report.failures == () and report.scored and not report.fired
    assert report.to_dict()["unread"] == [{"turn": 2, "side": "prompt", "language": "zh"}]
    assert "1 texts not read" in repr(report) and "its language is zh" in report._repr_html_()
    nothing = turnwise.score("zh", reader(), principles=principles)
    assert not nothing.scored and nothing.unread[0].side is Side.PROMPT
