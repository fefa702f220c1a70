"""``turnwise list presets`` and ``guardrails`` as a person uses them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnwise.guard import GuardrailPipeline, guardrail_names

Cli = Callable[..., Any]


def test_every_preset_is_listed_with_what_it_is_for(cli: Cli) -> None:
    done = cli("list", "presets")
    rows = cli("list", "presets", "--json").json
    assert [row["name"] for row in rows] == list(GuardrailPipeline.available_presets())
    assert len(rows) >= 8
    for row in rows:
        assert row["name"] in done.out
        assert len(row["summary"]) > 20


def test_show_prints_yaml_and_json(cli: Cli) -> None:
    text = cli("list", "presets", "basic").out
    assert yaml.safe_load(text)["guardrails"]
    found = cli("list", "presets", "basic", "--json").json
    assert (found["name"], bool(found["guardrails"])) == ("basic", True)


def test_a_copy_loads_and_is_not_written_over(cli: Cli, tmp_path: Path) -> None:
    done = cli("list", "presets", "basic", "--out", "mine.yaml")
    assert done.code == 0
    assert "--config mine.yaml" in done.out
    mine = tmp_path / "mine.yaml"
    assert mine.read_text() == cli("list", "presets", "basic").out
    assert cli("guard", "check", "Hello", "--config", mine).code == 0
    mine.write_text("my own work\n")
    done = cli("list", "presets", "basic", "--out", "mine.yaml")
    assert done.code == 2
    assert "mine.yaml already exists; give another name, or --force" in done.err
    assert mine.read_text() == "my own work\n"
    assert cli("list", "presets", "basic", "--out", "mine.yaml", "--force", "--json").json["name"] == "basic"
    assert mine.read_text() != "my own work\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["basik"], "did you mean 'basic'"),
        (["basik", "--out", "x.yaml"], "did you mean 'basic'"),
        (["basic", "--out", "no/x.yaml"], "can't write no/x.yaml"),
        (["--out", "x.yaml"], "give its name after presets"),
    ],
)
def test_wrong_use_is_said(cli: Cli, arguments: list[str], said: str) -> None:
    done = cli("list", "presets", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_every_guardrail_is_listed_with_its_settings(cli: Cli) -> None:
    rows = {row["name"]: row for row in cli("list", "guardrails", "--json").json}
    assert set(rows) >= set(guardrail_names())
    assert rows["pii"]["settings"]["regions"] == ["US"]
    assert rows["drift"]["settings"]["detector"] == "any_turn"
    assert all(row["summary"] for row in rows.values())
    done = cli("list", "guardrails")
    assert done.code == 0
    assert "secrets" in done.out


def test_importing_the_commands_loads_nothing_heavy() -> None:
    code = (
        "import turnwise.cli.app, turnwise.cli.guard, turnwise.cli.list_, sys\n"
        "heavy = 'turnwise.guard', 'turnwise.store', 'pydantic', 're2', 'numpy', 'phonenumbers', 'rich', 'yaml'\n"
        "print(*(name for name in heavy if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
