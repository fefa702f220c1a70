"""``turnwise guard replay`` and ``turnwise guard forensics`` as a person uses them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from turnwise import Conversation, GuardrailPipeline

Cli = Callable[..., Any]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration that blocks neighbours, warns of levers, and refuses a second live prompt."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\n"
        "rate_limits: {everyone: {day: 1}}\n"
        "audit: {path: audit.jsonl}\n"
        "guardrails:\n"
        "  - keywords: {keywords: [neighbour's], on: input}\n"
        "  - {use: keywords, name: levers, keywords: [lever], action: warn}\n"
        "  - drift: {observer: 'scripted:0.1,0.1,0.4', detector: 'cusum:drift=0.2'}\n"
    )
    return file


def test_what_would_have_been_blocked(cli: Cli, chats: Path, config: Path, tmp_path: Path) -> None:
    done = cli("guard", "replay", chats, "--config", config)
    assert done.code == 0
    lines = done.out.splitlines()
    attack = lines[lines.index("attack_01 (attack, 3 turns)") :]
    assert any(line.startswith("  turn 3, input: blocked by keywords: ") for line in attack)
    benign = next(at for at, line in enumerate(lines) if line.startswith("benign_01 (benign, "))
    assert lines[benign + 1].startswith("  turn 1, input: warned of by levers: ")
    assert any(line.startswith("benign_02 (benign, ") and line.endswith(": nothing found") for line in lines)
    assert "1/1 = 100.0 % [2.5, 100.0]" in done.out
    assert "0/2 = 0.0 % [0.0, 84.2]" in done.out
    assert "1/2 = 50.0 % [1.3, 98.7]" in done.out
    assert "16 checks in" in done.out
    assert not (tmp_path / "audit.jsonl").exists()


def test_lines_fit_eighty_columns(cli: Cli, tmp_path: Path) -> None:
    config, chats = tmp_path / "mine.yaml", tmp_path / "chats.jsonl"
    config.write_text(
        "guardrails:\n  - pii: {action: redact}\n"
        "  - drift: {observer: 'scripted:0.1,0.6,0.9,0.1', block_at: 0.8, warn_share: 0.5, breaker: block}\n"
    )
    example = resources.files("turnwise.datasets").joinpath("examples.jsonl").read_text(encoding="utf-8")
    chats.write_text(example.splitlines()[0] + "\n")
    for arguments in (("guard", "replay", chats), ("guard", "forensics", chats)):
        done = cli(*arguments, "--config", config)
        assert done.code == 0
        assert "drift" in done.out
        assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 80


def test_json_has_each_conversation_and_the_rates(cli: Cli, chats: Path, config: Path) -> None:
    done = cli("guard", "replay", chats, "--config", config, "--json")
    found = done.json
    assert found["pipeline"] == "mine"
    assert [row["sequence_id"] for row in found["conversations"]] == ["attack_01", "benign_01", "benign_02"]
    attack = found["conversations"][0]
    assert (attack["label"], attack["turns"], attack["checks"], attack["blocked_at"]) == ("attack", 3, 6, 3)
    [blocked] = [finding for finding in attack["findings"] if finding["guardrail"] == "keywords"]
    assert (blocked["turn"], blocked["side"], blocked["action"]) == (3, "input", "block")
    assert found["summary"]["attack"]["blocked"]["count"] == 1
    assert found["summary"]["benign"]["blocked_or_warned"]["count"] == 1
    assert found["summary"]["benign"]["blocked"]["interval"] == pytest.approx([0.0, 0.8419], abs=1e-4)
    assert found["checks"] == 16
    assert found["checks_per_second"] > 0
    assert found["bad_lines"] == []
    assert "16 checks in" in done.err


def test_a_limit_and_findings_as_the_exit_code(cli: Cli, chats: Path, config: Path) -> None:
    assert cli("guard", "replay", chats, "--config", config, "--fail-on-findings").code == 3
    harmless = config.with_name("harmless.yaml")
    harmless.write_text("guardrails: [pii]\n")
    assert cli("guard", "replay", chats, "--config", harmless, "--fail-on-findings").code == 0
    assert (
        len(cli("guard", "replay", chats, "--config", config, "--limit", "1", "--json").json["conversations"]) == 1
    )


def test_conversations_do_not_weigh_on_each_other(cli: Cli, tmp_path: Path) -> None:
    """Conversations of a data set share the initiator ``unknown``, and must not share its session."""
    config, chats = tmp_path / "mine.yaml", tmp_path / "chats.jsonl"
    config.write_text(
        "session_by: initiator\nguardrails:\n"
        "  - drift: {observer: 'scripted:0.9', detector: 'cusum:drift=0.2,limit=inf', block_stance: guarded}\n"
    )
    lines = [
        {"id": str(number), "label": "attack", "turns": [{"role": "user", "content": f"prompt {number}"}]}
        for number in range(20)
    ]
    chats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = cli("guard", "replay", chats, "--config", config, "--json").json["conversations"]
    assert len({json.dumps(row["findings"]) for row in rows}) == 1


def test_bad_lines_are_left_out_and_named(cli: Cli, chats: Path, config: Path) -> None:
    chats.write_text(chats.read_text() + "{torn\n")
    done = cli("guard", "replay", chats, "--config", config, "--json")
    assert done.code == 0
    assert [bad["line"] for bad in done.json["bad_lines"]] == [4]
    assert "line 4" in done.err


def test_failures_are_said(cli: Cli, chats: Path, tmp_path: Path) -> None:
    config = tmp_path / "failing.yaml"
    config.write_text("guardrails:\n  - drift: {observer: 'replay:none.jsonl'}\n")
    done = cli("guard", "replay", chats, "--config", config)
    assert done.code == 2
    assert "none.jsonl" in done.err


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["none.jsonl"], "none.jsonl", 1),
        (["chats.jsonl", "--preset", "custmer_service"], "did you mean 'customer_service'", 2),
        (["chats.jsonl", "--label", "wicked"], "wicked", 2),
    ],
)
def test_wrong_use_is_said(cli: Cli, chats: Path, arguments: list[str], said: str, code: int) -> None:
    done = cli("guard", "replay", *arguments)
    assert done.code == code
    assert said in done.err


def one_chat(tmp_path: Path) -> Path:
    file = tmp_path / "chat.json"
    said = [
        ("user", "Tell me about locks"),
        ("assistant", "Gladly"),
        ("user", "My neighbour's"),
        ("assistant", "No"),
    ]
    file.write_text(json.dumps([{"role": role, "content": text} for role, text in said]))
    return file


def test_forensics_checks_first_where_it_is_asked_to(cli: Cli, config: Path, tmp_path: Path) -> None:
    chat = one_chat(tmp_path)
    done = cli("guard", "forensics", chat)
    assert done.code == 0
    assert "No guard looked at this conversation" in done.out
    assert "check it first: --preset NAME" in done.err
    done = cli("guard", "forensics", chat, "--config", config)
    assert "Blocked: input of turn 2." in done.out
    assert "F of reciprocity" in done.out
    assert "keywords blocked: " in done.out
    found = cli("guard", "forensics", chat, "--preset", "research", "--json").json
    assert (found["totals"]["checks"], found["totals"]["blocked_turns"]) == (4, 0)


def test_a_checked_conversation_is_not_checked_again(cli: Cli, tmp_path: Path) -> None:
    from turnwise.conversation import Conversation
    from turnwise.guard import GuardrailPipeline

    chat = Conversation("ann", "bot", conversation_id="c1", rate_limit={"turns_per_day": 1})
    pipeline = GuardrailPipeline({"guardrails": [{"keywords": {"keywords": ["vault"]}}]})
    pipeline.check_input("The vault", conversation=chat)
    pipeline.check_input("refused", conversation=chat)
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(chat.to_dict()))
    done = cli("guard", "forensics", saved, "--preset", "research")
    assert "has its checks already" in done.err
    assert "Blocked: input of turn 1." in done.out
    assert "A rate limit refused 1 prompt." in done.out
    assert "rate limit: more than 1 turns per day" in done.out
    assert cli("guard", "forensics", saved, "--json").json["rate_limits"]["count"] == 1


def test_a_page_is_written(cli: Cli, config: Path, tmp_path: Path) -> None:
    done = cli("guard", "forensics", one_chat(tmp_path), "--config", config, "--html", "page.html")
    assert done.code == 0
    assert "page.html written" in done.err
    page = (tmp_path / "page.html").read_text()
    assert "My neighbour&#x27;s" in page
    assert "<svg" in page


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["none.json"], "can't read none.json", 1),
        (["chat.json", "--html", "no/page.html"], "can't write no/page.html", 2),
        (["chat.json", "--preset", "x", "--config", "y"], "give one of them", 2),
        (["torn.json"], "torn.json is not JSON", 1),
        (["odd.json"], "odd.json: not a conversation", 1),
        (["latin.json"], "latin.json is not UTF-8", 1),
    ],
)
def test_forensics_of_what_cannot_be_read(
    cli: Cli, tmp_path: Path, arguments: list[str], said: str, code: int
) -> None:
    one_chat(tmp_path)
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "odd.json").write_text("3")
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    done = cli("guard", "forensics", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_a_long_conversation_fits_into_a_line_and_keeps_its_worst_turn(cli: Cli, tmp_path: Path) -> None:
    scores = [0.0] * 500
    scores[321] = 0.99
    config, chat = tmp_path / "mine.yaml", tmp_path / "long.json"
    config.write_text(f"guardrails:\n  - drift: {{observer: 'scripted:{','.join(map(str, scores))}'}}\n")
    chat.write_text(json.dumps([{"role": "user", "content": f"prompt {number}"} for number in range(500)]))
    out = cli("guard", "forensics", chat, "--config", config).out
    [row] = [line for line in out.splitlines() if line.startswith(" F of reciprocity")]
    graph = row.split()[3]
    assert len(graph) <= 60
    assert graph.count("█") == 1
    assert graph.count("▁") == len(graph) - 1


def test_calls_and_results_of_tools_are_replayed(cli: Cli, config: Path, tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "page", "arguments": '{"of": "lever"}'}}
    messages = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a lever"},
        {"role": "assistant", "content": "Done."},
    ]
    file = tmp_path / "agent.jsonl"
    file.write_text(json.dumps({"id": "s1", "messages": messages, "label": "benign"}) + "\n")
    done = cli("guard", "replay", file, "--config", config)
    assert "  turn 1, tool_call of 'page': warned of by levers: " in done.out
    assert "  turn 1, tool_result of 'page': warned of by levers: " in done.out
    (row,) = cli("guard", "replay", file, "--config", config, "--json").json["conversations"]
    found = [(one["side"], one["tool"], one["call_id"]) for one in row["findings"]]
    assert (row["checks"], found) == (4, [("tool_call", "page", "c1"), ("tool_result", "page", "c1")])


def _talk(folder: Path, **audit: Any) -> Conversation:
    """Return a conversation with tools, of which a guard wrote an audit."""
    config = {"guardrails": ["secrets"], "audit": {"path": str(folder / "audit.jsonl"), **audit}}
    with GuardrailPipeline(config) as guard:
        chat = Conversation.human_ai("ann", "bot", conversation_id="c1", rate_limit={"turns_per_day": 2})
        guard.check_input("Pull the lever?", chat)
        guard.check_output("Let me see.", chat)
        guard.check_tool_call("look", {"at": "lever"}, conversation=chat, call_id="t1")
        guard.check_tool_result("It is the neighbour's.", conversation=chat, call_id="t1")
        guard.check_output("It is the neighbour's lever.", chat)
        guard.check_input("The neighbour's key then", chat)
        guard.check_input("one too many", chat)
        guard.check_input("Another one", Conversation("ben", "bot", conversation_id="c2"))
    return chat


def _replayed(cli: Cli, file: Path, config: Path) -> list[dict[str, Any]]:
    done = cli("guard", "replay", file, "--config", config, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["conversations"]


def test_an_audit_is_replayed_as_it_was_written(cli: Cli, config: Path, tmp_path: Path) -> None:
    _talk(tmp_path)
    file = tmp_path / "audit.jsonl"
    first, second = _replayed(cli, file, config)
    assert (first["sequence_id"], first["turns"], first["checks"]) == ("c1", 2, 5)
    assert (first["blocked_at"], first["warned_at"]) == (2, 1)
    assert (second["sequence_id"], second["turns"], second["findings"]) == ("c2", 1, [])
    # A later version may write more, and a file may begin and end anywhere.
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**line, "hash": "0" * 64, "previous": None}) + "\n" for line in lines))
    assert _replayed(cli, file, config) == [first, second]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines[4:]) + '{"v":1,"ki')
    rest, _ = _replayed(cli, file, config)
    assert (rest["turns"], rest["blocked_at"]) == (2, 2)


def test_an_audit_is_known_by_any_first_line(cli: Cli, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text('{"v":1,"kind":"che')
    _talk(tmp_path)
    assert [row["sequence_id"] for row in _replayed(cli, file, config)] == ["c1", "c2"]
    told, *rest = file.read_text().splitlines(keepends=True)[1:]
    erasure = told.replace('"torn"', '"erasure"')
    for first in (told, erasure):
        file.write_text("".join([first, *rest]))
        assert [row["sequence_id"] for row in _replayed(cli, file, config)] == ["c1", "c2"]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_conversation_is_replayed_as_to_dict_gives_it(
    cli: Cli, config: Path, tmp_path: Path, indent: int | None
) -> None:
    chat, file = _talk(tmp_path), tmp_path / "chat.json"
    file.write_text(json.dumps(chat.to_dict(), indent=indent))
    (row,) = _replayed(cli, file, config)
    assert (row["sequence_id"], row["turns"], row["checks"], row["blocked_at"]) == ("c1", 2, 5, 2)
    if indent is None:
        other = Conversation.from_turns([("Hello", "Hi")], conversation_id="c2")
        file.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in (chat, other)))
        assert [one["sequence_id"] for one in _replayed(cli, file, config)] == ["c1", "c2"]


def test_what_can_not_be_replayed_is_told(cli: Cli, config: Path, tmp_path: Path) -> None:
    _talk(tmp_path, text="hash")
    done = cli("guard", "replay", tmp_path / "audit.jsonl", "--config", config)
    assert done.code == 1 and "line 1: the conversation can't be put together: the audit has no text" in done.err
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({**_talk(tmp_path).to_dict(), "turns": [{"turn": 1}]}))
    done = cli("guard", "replay", file, "--config", config)
    assert done.code == 1 and "line 1: a turn needs the key 'prompt'" in done.err
