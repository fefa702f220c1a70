"""Texts put to a pipeline on the command line, and the presets that there are."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnwise.guard import GuardrailPipeline, guardrail_names

Cli = Callable[..., Any]
Type = Callable[[str], None]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration whose scores are known."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "guardrails:\n"
        "  - pii: {action: redact}\n"
        "  - keywords: {keywords: [vault]}\n"
        "  - drift: {observer: 'scripted:0.1,0.5,0.9', detector: 'cusum:drift=0.2', block_at: 0.8}\n"
    )
    return file


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Return a function that puts lines on standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_text_is_passed_blocked_or_redacted(cli: Cli, config: Path) -> None:
    done = cli("guard", "check", "Hello", "--config", config)
    assert done.code == 0
    assert done.out.startswith("passed  (input, ")
    done = cli("guard", "check", "The vault", "--config", config)
    assert done.code == 0
    assert "blocked by keywords" in done.out
    done = cli("guard", "check", "I am bob@example.com", "--config", config)
    assert "passed with a warning" in done.out
    assert "goes on as: I am [EMAIL]" in done.out
    assert "bob@example.com" not in done.out


def test_json_is_the_result(cli: Cli, config: Path) -> None:
    found = cli("guard", "check", "The vault", "--config", config, "--json").json
    assert (found["blocked"], found["pipeline_type"], found["turn_number"]) == (True, "input", 1)
    assert set(found["details"]) == {"pii", "keywords", "drift"}
    assert cli("guard", "check", "Yes", "--output", "--config", config, "--json").json["pipeline_type"] == "output"


@pytest.mark.parametrize(("text", "code"), [("Hello", 0), ("The vault", 3), ("I am bob@example.com", 3)])
def test_findings_can_be_the_exit_code(cli: Cli, config: Path, text: str, code: int) -> None:
    assert cli("guard", "check", text, "--config", config, "--fail-on-findings").code == code


def test_the_text_may_come_from_standard_input(cli: Cli, config: Path, typed: Type) -> None:
    typed("The\nvault\n")
    assert cli("guard", "check", "-", "--config", config, "--json").json["text"] == "The\nvault"


@pytest.mark.parametrize("preset", ["basic", "customer_service", "research"])
def test_a_preset_checks_what_a_person_says(cli: Cli, preset: str) -> None:
    found = cli("guard", "check", "Where is my order?", "--preset", preset, "--json").json
    assert (found["blocked"], found["failures"]) == (False, [])


def test_basic_is_the_default(cli: Cli) -> None:
    default, basic = (cli("guard", "check", "Hello", *more, "--json").json for more in ([], ["--preset", "basic"]))
    assert list(default["details"]) == list(basic["details"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "basik"], "did you mean 'basic'"),
        (["--preset", "basic", "--config", "x.yaml"], "give one of them"),
        (["--config", "none.yaml"], "none.yaml: the configuration can't be read"),
    ],
)
def test_wrong_use_is_said(cli: Cli, arguments: list[str], said: str) -> None:
    done = cli("guard", "check", "Hello", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_wrong_configuration_names_line_and_key(cli: Cli, config: Path) -> None:
    config.write_text(config.read_text().replace("redact", "redakt"))
    done = cli("guard", "check", "Hello", "--config", config)
    assert done.code == 2
    assert "mine.yaml, line 3, guardrails.1.pii.action" in done.err


def test_control_characters_do_not_reach_the_terminal(cli: Cli, config: Path) -> None:
    done = cli("guard", "check", "bob@example.com \x1b[2J\x07", "--config", config)
    assert "\x1b" not in done.out
    assert "\\x1b[2J" in done.out


def test_a_chat_shows_bars_verdict_and_stance(cli: Cli, config: Path, typed: Type) -> None:
    typed("Hello\n\n/response Hi, I am bob@example.com\nMore\nAnd more\n/quit\nnot read\n")
    done = cli("guard", "chat", "--config", config)
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split("  ")[0] for line in lines if not line.startswith(" ")] == [
        "passed",
        "passed with a warning",
        "passed",
        "blocked",
    ]
    assert "  reciprocity         F ██████████·········· 0.50   T 0.50  I 0.00" in lines
    assert any(line.startswith("  drift") and "1.00 of 0.80" in line for line in lines)
    assert any(line.startswith("  stance              cautious: trust") for line in lines)
    assert "  goes on as: Hi, I am [EMAIL]" in lines
    assert "not read" not in done.out
    assert "pipeline mine: pii, keywords, drift" in done.err


def test_a_chat_in_json_has_a_line_a_check(cli: Cli, config: Path, typed: Type) -> None:
    typed("Hello\nThe vault\n/r Never\n/forensics\n")
    done = cli("guard", "chat", "--config", config, "--json")
    first, second, third, rest = done.out.split("\n", 3)
    assert [json.loads(line)["blocked"] for line in (first, second, third)] == [False, True, False]
    assert json.loads(third)["turn_number"] == 1
    assert json.loads(rest)["blocked_turns"]["input"] == [2]


def test_a_chat_can_be_saved_and_analysed(cli: Cli, config: Path, typed: Type, tmp_path: Path) -> None:
    saved = tmp_path / "chat.json"
    typed(f"Hello\nThe vault\n/forensics\n/save {saved}\n/save {saved}\n/save\n/save no/such/chat.json\n")
    done = cli("guard", "chat", "--config", config)
    assert "Blocked: input of turn 2." in done.out
    assert "chat.json already exists" in done.err
    assert "/save needs the name" in done.err
    assert "can't write no/such/chat.json" in done.err
    assert "Blocked: input of turn 2." in cli("guard", "forensics", saved).out


def test_what_a_chat_cannot_do_is_said_and_it_goes_on(cli: Cli, config: Path, typed: Type) -> None:
    typed("/respons hi\n/help\nHello\n")
    done = cli("guard", "chat", "--config", config)
    assert done.code == 0
    assert "did you mean '/response'" in done.err
    assert done.err.count("/save FILE") == 2
    assert done.out.startswith("passed")


def test_another_observer_for_a_chat(cli: Cli, config: Path, typed: Type, tmp_path: Path) -> None:
    typed("Hello\n")
    done = cli("guard", "chat", "--config", config, "--observer", "scripted:0.25")
    assert "F █████··············· 0.25" in done.out
    without = tmp_path / "without.yaml"
    without.write_text("guardrails: [pii]\n")
    done = cli("guard", "chat", "--config", without, "--observer", "scripted:0.25")
    assert done.code == 2
    assert "no guardrail of this configuration has an observer" in done.err
    assert cli("guard", "chat", "--config", config, "--observer", "locl").code == 2


def test_what_was_skipped_is_said(cli: Cli, config: Path, typed: Type) -> None:
    config.write_text("short_circuit: true\n" + config.read_text())
    typed("The vault\n")
    done = cli("guard", "chat", "--config", config)
    assert "  drift               skipped: keywords blocked already" in done.out.splitlines()


def test_a_pipeline_without_scores_shows_none(cli: Cli, typed: Type, tmp_path: Path) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text("guardrails: [pii]\n")
    typed("Hello\n")
    done = cli("guard", "chat", "--config", plain)
    assert len(done.out.splitlines()) == 1


def test_standard_input_that_is_no_text_is_an_error(
    cli: Cli, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (["guard", "check", "-"], ["guard", "chat"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n"), encoding="utf-8"))
        done = cli(*command, "--config", config)
        assert done.code == 2
        assert "must be UTF-8" in done.err


def test_a_text_may_be_the_arguments_of_a_tool_or_what_it_gave_back(cli: Cli, config: Path) -> None:
    call = cli("guard", "check", '{"place": "\\u0076ault"}', "--tool-call", "map", "--config", config)
    assert call.out.startswith("blocked  (tool_call of 'map', ")
    gave = cli("guard", "check", "the vault", "--tool-result", "map", "--config", config, "--json")
    assert (gave.json["pipeline_type"], gave.json["tool"], gave.json["blocked"]) == ("tool_result", "map", True)
    both = cli("guard", "check", "the vault", "--tool-result", "map", "--output", "--config", config)
    assert both.code == 2
    assert "give one of them" in both.err


def test_a_text_may_be_a_description_a_document_or_memory(cli: Cli, config: Path) -> None:
    for given, kind in (
        (("--tool-description", "map"), "tool_description"),
        (("--document",), "document"),
        (("--memory",), "memory"),
    ):
        gave = cli("guard", "check", "the vault", *given, "--config", config, "--json")
        assert (gave.json["pipeline_type"], gave.json["blocked"]) == (kind, True)


def test_descriptions_are_approved_and_held_to_it(cli: Cli, tmp_path: Path) -> None:
    tools, approved, config = (tmp_path / name for name in ("tools.json", "approved.json", "guard.yaml"))
    tools.write_text('{"tools": [{"name": "map", "description": "Shows a place."}]}')
    done = cli("guard", "approve-tools", tools, "--approved", approved)
    assert done.code == 0
    assert "map" in done.out
    config.write_text("guardrails:\n  - sources: {observer: null, approved: approved.json}\n")
    for text, blocked in (("Shows a place.", False), ("Shows a place, and more.", True)):
        gave = cli("guard", "check", text, "--tool-description", "map", "--config", config, "--json")
        assert gave.json["blocked"] is blocked
    tools.write_text('"none"')
    assert cli("guard", "approve-tools", tools, "--approved", approved).code == 2


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
def test_wrong_use_of_presets_is_said(cli: Cli, arguments: list[str], said: str) -> None:
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
