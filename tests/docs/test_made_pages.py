"""Pages that are made from the program and its tests are current, and say all there is to say."""

from __future__ import annotations

import csv
import doctest
import inspect
import json
import re
import sqlite3
from contextlib import closing
from importlib import import_module

import pytest
from documentation.__main__ import ROOT, current, made

from documentation import reference, settings, specification
from turnwise import Conversation, GuardrailPipeline, errors
from turnwise.explorer import TERMS
from turnwise.observers import FaultKind
from turnwise.store import Store

PAGES = made()


@pytest.mark.parametrize("path", PAGES)
def test_it_is_current(path):
    assert current(path) == PAGES[path], "run python -m documentation"


def test_every_error_is_listed():
    page = PAGES["docs/reference/errors.md"]
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        assert kind.__module__ != errors.__name__ or f"`{name}`" in page


def test_every_reason_that_a_language_model_may_fail_for_is_listed():
    told = set(reference.words("failures.toml"))
    assert {"malformed", "refused", *FaultKind} - {FaultKind.FATAL} <= told  # what is fatal stops the run


def test_every_column_of_the_record_has_its_meaning(tmp_path):
    Store(tmp_path / "work.db", create=True).close()
    with closing(sqlite3.connect(tmp_path / "work.db")) as record:
        tables = [name for (name,) in record.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {table: {row[1] for row in record.execute(f"PRAGMA table_info({table})")} for table in tables}
    told = reference.words("store.toml")
    assert columns.keys() == told.keys() - {"common"}
    for table, names in columns.items():
        assert names <= {*told[table], *told["common"]}, table
        assert set(told[table]) - {"about"} <= names, table


def test_the_glossary_has_every_word_that_the_explorer_explains():
    page = PAGES["docs/glossary.md"]
    assert [word for word, meaning in TERMS.items() if f"| {word} | {meaning} |" not in page] == []


def test_every_field_of_an_event_has_its_meaning(tmp_path):
    pipeline = GuardrailPipeline({"guardrails": ["pii"]}, audit=tmp_path / "audit.jsonl")
    chat = Conversation.human_ai("user_123", "gpt-4")
    pipeline.check_input("I am jane@example.com", conversation=chat)
    pipeline.check_tool_call("weather", "{}", conversation=chat, call_id="call_1")
    pipeline.close()
    events = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text(encoding="utf-8").splitlines()]
    written = {name for event in events for name in event}
    assert len(events) == 2 and {"outcome", "tool", "hash"} <= written
    assert written <= set(reference.words("audit-events.toml"))


def test_every_public_name_stands_on_one_page():
    for page in reference.PYTHON:
        for module in page.modules:
            names = reference.public_names(module)
            assert names, module
            assert all(inspect.getdoc(getattr(import_module(f"turnwise.{module}"), name)) for name in names)


@pytest.mark.parametrize("module", [reference, settings, specification])
def test_examples_of_the_scripts_hold(module):
    assert doctest.testmod(module).failed == 0


def test_rows_of_results_are_those_of_the_tables_beside_the_page():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    shown = re.findall(r"\| ---.*\n((?:\|.*\n)+)\n\[Set by set\]\((.+)\)", page)
    assert {name for _, name in shown} == {f"results/{one.name}" for one in (ROOT / "docs" / "results").iterdir()}
    for rows, name in shown:
        with (ROOT / "docs" / name).open(encoding="utf-8", newline="") as file:
            beside = list(csv.reader(file))
        cells = [[cell.strip(" *") for cell in row.strip("|").split(" | ")] for row in rows.splitlines()]
        assert all(row in beside for row in cells)
