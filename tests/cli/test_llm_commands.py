"""What a person does with a language model as observer: ask the price, run, look, retry, and never see the key."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from chat_server import FATAL_FAULTS, ChatServer

from turnwise.observers import LlmSettings

Cli = Callable[..., Any]

KEY = "sk-planted-9dR2vYk7Pq"
MODEL = "llm:openai/gpt-4.1-mini"
SCORES = 8 * 3
"""Prompts of the chats times principles."""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Return a server that asks for the key."""
    with ChatServer(key=KEY) as running:
        yield running


@pytest.fixture
def store(imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store with the chats and no run; the key is in the environment, and no table of the developer."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return imported


@pytest.fixture
def evaluate(cli: Cli, store: Path, server: ChatServer) -> Callable[..., Any]:
    """Return a function that evaluates the store with a model on the server."""

    def run(*arguments: object, run: str = "gpt") -> Any:
        asking = ("--observer", MODEL, "--base-url", server.url)
        return cli("evaluate", "--store", store, "--run", run, *asking, *arguments)

    return run


def test_a_run_tells_tokens_and_cost(evaluate: Callable[..., Any], server: ChatServer) -> None:
    done = evaluate("-j", 4, "--json")
    assert done.code == 0, done.err
    assert (done.json["evaluations"], done.json["calls"], done.json["cached"]) == (SCORES, SCORES, 0)
    assert done.json["prompt_tokens"] > 1_000
    price = done.json["prompt_tokens"] * 0.40 + done.json["completion_tokens"] * 1.60
    assert done.json["cost_usd"] == pytest.approx(price / 1e6)
    assert server.calls == SCORES
    again = evaluate("-j", 4)
    assert "0 evaluations of 3 sequences" in again.out
    assert server.calls == SCORES


def test_the_summary_for_people_names_calls_and_money(evaluate: Callable[..., Any]) -> None:
    done = evaluate("--repeats", 2, "--principle", "reciprocity")
    assert re.search(
        r"16 calls, 0 of them answered by kept replies; \d+ tokens sent, \d+ received, \$0\.\d{4}", done.out
    )


def test_a_run_is_continued_with_its_own_settings(cli: Cli, evaluate: Callable[..., Any], store: Path) -> None:
    assert evaluate("--repeats", 2, "--temperature", "none", "--principle", "reciprocity").code == 0
    continued = cli("evaluate", "--store", store, "--run", "gpt", "--json")
    assert continued.code == 0, continued.err
    assert (continued.json["evaluations"], continued.json["calls"]) == (16, 32)
    other = cli("evaluate", "--store", store, "--run", "gpt", "--repeats", 3)
    assert other.code == 2
    assert "run 'gpt' was made with repeats 2, not 3" in other.err


def test_runs_add_up_to_their_rows(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    server.plan("range", None, "refusal")
    evaluate("--max-retries", 0)
    cli("evaluate", "--store", store, "--run", "mine", "--observer", "scripted:0.1,0.2")
    listed = cli("runs", "list", "--store", store, "--json")
    gpt, mine = listed.json
    assert (gpt["run"], gpt["sequences"], gpt["evaluations"], gpt["failed"], gpt["failures"]) == (
        ("gpt", 3, SCORES - 2, 2, 2)
    )
    assert gpt["parameters"]["base_url"] == server.url
    assert gpt["observer"] == MODEL
    assert (mine["calls"], mine["cost_usd"]) == (0, None)
    with closing(sqlite3.connect(store)) as rows:
        (total,) = rows.execute(
            "SELECT sum(cost_usd) FROM (SELECT cost_usd FROM evaluations UNION ALL SELECT cost_usd FROM failures)"
        ).fetchone()
        (bought,) = rows.execute("SELECT sum(cost_usd) FROM replies").fetchone()
    assert gpt["cost_usd"] == pytest.approx(total) == pytest.approx(bought)
    table = cli("runs", "list", "--store", store).out
    assert "gpt" in table
    assert "repeats=1" in table
    assert f"${total:.4f}" in table


def test_no_run_is_no_error(cli: Cli, store: Path) -> None:
    assert cli("runs", "list", "--store", store, "--json").json == []
    assert "has no run yet" in cli("runs", "list", "--store", store).err


def test_retry_scores_what_failed_and_nothing_else(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    server.plan(None, "malformed", None, "400", "nan")
    assert evaluate("--max-retries", 0, "--principle", "reciprocity", "--sides", "prompt,response").code == 1
    before = server.calls
    server.plan("declines")
    first = cli("evaluate", "--failed", "--store", store, "--run", "gpt", "-j", 1, "--json")
    assert first.code == 1
    assert "1 evaluations failed; turnwise evaluate --failed --run gpt tries them again" in first.err
    assert (first.json["evaluations"], first.json["failures"]) == (2, 1)
    second = cli("evaluate", "--failed", "--store", store)
    assert second.code == 0
    assert "1 evaluations of 1 sequences" in second.out
    assert server.calls - before == 4
    third = cli("evaluate", "--failed", "--store", store, "--json")
    assert (third.json["evaluations"], third.json["failures"]) == (0, 0)
    assert "no failed evaluations left" in cli("evaluate", "--failed", "--store", store).err
    assert server.calls - before == 4


def test_retry_leaves_gaps_to_evaluate(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    server.plan("empty", "401")
    assert evaluate("--max-retries", 0).code == 1
    done = cli("evaluate", "--failed", "--store", store, "--json")
    assert (done.json["evaluations"], done.json["skipped"]) == (1, 0)
    (run,) = cli("runs", "list", "--store", store, "--json").json
    assert run["evaluations"] == 1


def test_retry_needs_the_folder_of_a_principle_of_ones_own(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer, candour: Path
) -> None:
    server.plan("malformed")
    evaluate("--principle", candour, "--max-retries", 0)
    without = cli("evaluate", "--failed", "--store", store)
    assert without.code == 2
    assert "principle 'candour' does not ship with turnwise: name its folder with --principle" in without.err
    wrong = cli("evaluate", "--failed", "--store", store, "--principle", "reciprocity")
    assert wrong.code == 2
    assert "none of its scores failed" in wrong.err
    assert cli("evaluate", "--failed", "--store", store, "--principle", candour, "--json").json["evaluations"] == 1


def test_cost_is_told_before_it_is_spent(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    asking = ("llm", "cost", "--store", store, "--run", "gpt", "--observer", MODEL, "--base-url", server.url)
    before = cli(*asking, "--json").json
    assert server.calls == 0
    assert (before["scores"], before["calls"], before["cached"]) == (SCORES, SCORES, 0)
    assert 0 < before["cost_usd"] < before["most_usd"]
    assert before["price_as_of"]
    spent = evaluate("--json").json
    assert spent["cost_usd"] == pytest.approx(before["cost_usd"], rel=0.5)
    assert spent["prompt_tokens"] == pytest.approx(before["prompt_tokens"], rel=0.05)
    after = cli(*asking, "--json").json
    assert (after["scores"], after["calls"], after["cost_usd"]) == (0, 0, 0.0)
    # Another run over the same texts is free; each score asked for twice is half paid for.
    other = cli(*asking[:4], "--run", "new", *asking[6:], "--repeats", 2, "--json").json
    assert (other["scores"], other["calls"], other["cached"]) == (SCORES, SCORES, SCORES)
    anew = cli(*asking[:4], "--run", "new", *asking[6:], "--no-cache", "--json").json
    assert (anew["calls"], anew["cached"]) == (SCORES, 0)
    assert re.search(
        r"about \$0\.\d{4}, at most \$0\.\d{4}", cli(*asking[:4], "--run", "new", *asking[6:], "--no-cache").out
    )


def test_cost_needs_neither_key_nor_price(cli: Cli, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    unknown = cli("llm", "cost", "--store", store, "--observer", "llm:openai/nonesuch")
    assert unknown.code == 0
    assert "price unknown" in unknown.out
    assert (
        cli("llm", "cost", "--store", store, "--observer", "llm:openai/nonesuch", "--json").json["cost_usd"]
        is None
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("llm", "cost"), "name the model with --observer"),
        (("llm", "cost", "--observer", "local"), "observer 'local' costs nothing"),
        (("llm", "cost", "--observer", "llm:nobody/x"), "unknown provider 'nobody'"),
        (("evaluate", "--budget", 5), "--budget; known: observer local has cache_bytes"),
        (
            ("evaluate", "--no-cache", "--repeats", 2),
            "--repeats, --no-cache; known: observer local has cache_bytes",
        ),
        (
            ("evaluate", "--observer", MODEL, "--temperature", "hot"),
            "setting temperature of observer llm: input should be a valid number",
        ),
        (("evaluate", "--observer", MODEL, "--temperature", "3"), "temperature must be a number from 0 to 2"),
        (("evaluate", "--observer", MODEL, "--repeats", 0), "repeats must be a whole number, at least 1"),
        (
            ("evaluate", "--observer", "llm:openai/nonesuch", "--budget", 1),
            "no price is known for openai/nonesuch",
        ),
        (("evaluate", "--observer", MODEL, "--base-url", "ftp://x"), "base URL must look like https://host/v1"),
        (("llm", "prompt", "nonesuch", "--sequence", "attack_01", "--turn", 1), "unknown principle 'nonesuch'"),
        (("llm", "prompt", "reciprocity", "--sequence", "nobody", "--turn", 1), "unknown sequence 'nobody'"),
        (
            ("llm", "prompt", "reciprocity", "--sequence", "attack_01", "--turn", 9),
            "--turn 9: attack_01 has only 3 turns",
        ),
        (
            ("llm", "prompt", "reciprocity", "--sequence", "attack_01", "--turn", 1, "--side", "left"),
            "unknown side 'left'",
        ),
        (("evaluate", "--failed"), "has no run yet"),
        (("evaluate", "--observer", MODEL, "--observer-setting", "heat=1"), "unknown setting --observer-s"),
        (("evaluate", "--observer", MODEL, "--observer-setting", "heat"), "'heat' is not name=value"),
        (
            ("evaluate", "--observer", MODEL, "--observer-setting", "extra={"),
            "setting extra of observer llm: no JSON",
        ),
    ],
)
def test_what_can_not_be_is_said_in_a_line(
    cli: Cli, store: Path, arguments: tuple[object, ...], message: str
) -> None:
    done = cli(*arguments, "--store", store)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert message in done.err


def test_prompt_prints_what_is_sent(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    about = ("llm", "prompt", "reciprocity", "--sequence", "attack_01", "--turn", 3, "--store", store)
    shown = cli(*about, "--json").json
    evaluate("--principle", "reciprocity", "--sequence", "attack_01")

    def plain(messages: list[dict[str, str]]) -> str:
        text = json.dumps(messages)
        nonces = set(re.findall(r"<<([0-9a-f]{16,})>>", text))
        assert len(nonces) == 1
        return text.replace(nonces.pop(), "")

    sent = [plain(request["messages"]) for request in server.requests]
    assert plain(shown["messages"]) == sent[2]
    text = cli(*about).out
    assert "--- system ---" in text
    assert "> Now my neighbour's" in text
    alone = cli(*about, "--context", "turn", "--side", "response").out
    assert "> All right." in alone
    assert "> And old ones?" not in alone


def test_the_cache_is_counted_and_forgotten(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    assert cli("llm", "cache", "--store", store, "--json").json == []
    assert "has no replies" in cli("llm", "cache", "--store", store).err
    cost = evaluate("--json").json["cost_usd"]
    (kept,) = cli("llm", "cache", "--store", store, "--json").json
    assert (kept["replies"], kept["reusable"]) == (SCORES, SCORES)
    assert kept["cost_usd"] == pytest.approx(cost)
    assert kept["model"] in cli("llm", "cache", "--store", store).out
    assert evaluate("--json", run="second").json["cached"] == SCORES
    assert server.calls == SCORES
    assert cli("llm", "cache", "--clear", "--store", store, "--json").json == {"forgotten": SCORES}
    assert "0 replies will no longer be reused" in cli("llm", "cache", "--clear", "--store", store).out
    assert evaluate("--json", run="third").json["cached"] == 0
    assert server.calls == 2 * SCORES
    assert cli("show", "attack_01", "--store", store, "--run", "gpt").code == 0


def test_show_tells_how_far_repeats_lie_apart(
    cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
) -> None:
    falsities = iter([0.2, 0.4] * 3)
    server.answer = lambda body: json.dumps({"reasoning": "so", "T": 0.5, "I": 0, "F": next(falsities)})
    evaluate("--repeats", 2, "--sequence", "attack_01", "--principle", "reciprocity")
    shown = cli("show", "attack_01", "--store", store, "--json").json
    assert [turn["scores"]["reciprocity"]["F"] for turn in shown["turns"]] == pytest.approx([0.3] * 3)
    assert [row["F"] for row in shown["spread"]] == pytest.approx([0.1414214] * 3)
    first = shown["spread"][0]
    assert (first["turn"], first["side"], first["principle"], first["calls"]) == (1, "prompt", "reciprocity", 2)
    text = cli("show", "attack_01", "--store", store).out
    assert "Standard deviation over repeated calls" in text
    assert "0.141" in text


def test_several_observers_make_a_panel(cli: Cli, store: Path, server: ChatServer) -> None:
    observers = ("--observer", MODEL, "--observer", "scripted:0.1,0.2,0.3")
    done = cli("evaluate", "--store", store, "--run", "panel", *observers, "--base-url", server.url, "--json")
    assert done.code == 0, done.err
    assert [summary["run"] for summary in done.json] == [f"panel-{MODEL}", "panel-scripted:0.1,0.2,0.3"]
    assert [summary["evaluations"] for summary in done.json] == [SCORES, SCORES]
    assert [summary["calls"] for summary in done.json] == [SCORES, 0]


def test_a_panel_shares_one_budget(cli: Cli, store: Path, server: ChatServer) -> None:
    asking = ("evaluate", "--store", store, "--base-url", server.url, "--no-cache", "--max-tokens", 64)
    whole = cli(*asking, "--observer", MODEL, "--json").json["cost_usd"]
    budget = f"{whole * 1.5:.6f}"
    two = ("--observer", MODEL, "--observer", "llm:openai/gpt-4.1")
    done = cli(*asking, "--run", "panel", *two, "--budget", budget)
    assert done.code == 1
    runs = {run["run"]: run for run in cli("runs", "list", "--store", store, "--json").json}
    assert runs[f"panel-{MODEL}"]["evaluations"] == SCORES
    assert sum(run["cost_usd"] or 0 for name, run in runs.items() if name.startswith("panel")) <= float(budget)


def test_a_budget_ends_a_run_cleanly_and_says_what_is_missing(
    cli: Cli, evaluate: Callable[..., Any], store: Path
) -> None:
    whole = evaluate("--no-cache", "--json", run="whole").json["cost_usd"]
    stopped = evaluate("--no-cache", "--budget", f"{whole / 2:.6f}", "-j", 4)
    assert stopped.code == 1
    (run,) = [run for run in cli("runs", "list", "--store", store, "--json").json if run["run"] == "gpt"]
    assert 0 < run["evaluations"] < SCORES
    assert run["cost_usd"] <= whole / 2
    missing = SCORES - run["evaluations"]
    assert (
        f"what was scored is stored, {missing} evaluations are missing; the same command continues" in stopped.err
    )
    assert "the budget of $" in stopped.err
    rest = evaluate("--no-cache", "--json").json
    assert (rest["evaluations"], rest["skipped"]) == (missing, run["evaluations"])


@pytest.mark.parametrize("fault", FATAL_FAULTS)
def test_what_no_request_would_survive_stops_the_run_at_once(
    evaluate: Callable[..., Any], server: ChatServer, fault: str
) -> None:
    server.plan(None, None, fault)
    stopped = evaluate("-j", 1)
    assert stopped.code == 1
    assert server.calls == 3
    assert f"{SCORES - 2} evaluations are missing" in stopped.err
    assert KEY not in stopped.err


def test_the_key_appears_nowhere(
    cli: Cli,
    evaluate: Callable[..., Any],
    store: Path,
    server: ChatServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The server sends the key back in its errors, and one reply spells it out.
    caplog.set_level(0)
    answer = server.answer
    server.answer = lambda body: answer(body).replace("as the text has it", f"the key is {KEY}")
    server.plan("400", "malformed", "no_usage", "401")
    said = [evaluate("--max-retries", 0), evaluate("--max-retries", 0, "--json")]
    for command in (
        "runs list",
        "show attack_01",
        "llm cache",
        "evaluate --failed",
        "llm cost --run gpt",
        "detect",
    ):
        said += [cli(*command.split(), "--store", store), cli(*command.split(), "--store", store, "--json")]
    assert [one.code for one in said] == [1] + [0] * (len(said) - 1)
    assert not any(KEY in one.out or KEY in one.err for one in said)
    assert KEY not in caplog.text
    assert server.replies > SCORES - 4
    for file in store.parent.glob("work.db*"):
        assert KEY.encode() not in file.read_bytes()
    with closing(sqlite3.connect(store)) as rows:
        assert KEY not in "\n".join(rows.iterdump())
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY} and more")
    refused = evaluate(run="other")
    assert refused.code == 1
    assert KEY not in refused.err


def test_any_setting_can_be_given_by_its_name(evaluate: Callable[..., Any], server: ChatServer) -> None:
    named = ("--observer-setting", "repeats=2", "--observer-setting", 'extra={"seed": 7}')
    done = evaluate(*named, "--observer-setting", "temperature=none", "--principle", "reciprocity", "--json")
    assert done.code == 0, done.err
    assert done.json["calls"] == 16
    assert all(request["seed"] == 7 and "temperature" not in request for request in server.requests)


def test_how_often_is_tried_again_has_one_default(cli: Cli) -> None:
    listed = {row["name"]: row for row in cli("list", "observers", "--json").json}
    assert listed["llm"]["settings"]["max_retries"] == LlmSettings().max_retries == 5
    told = " ".join(cli("evaluate", "--help").out.split())
    assert "max_retries: how often a request is sent again after a passing fault." in told
    assert "Exits with 1 where evaluations failed; with --failed only these are scored again." in told
    assert listed["llm"]["costs"]
    assert listed["local"]["principles"] == ["reciprocity", "context_integrity", "third_party_harm"]


class TestAServerThatRefusesTheStructure:
    def test_is_named_by_evaluate_and_runs(
        self, cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
    ) -> None:
        server.refused = ("json_schema",)
        done = evaluate("--principle", "reciprocity")
        said = "the server did not take the structure json_schema: 8 replies came with json_object"
        assert done.code == 0, done.err
        assert said in done.out
        assert server.calls == 9
        assert f"run gpt: {said}" in cli("runs", "list", "--store", store).out
        (listed,) = cli("runs", "list", "--store", store, "--json").json
        assert listed["structured"] == {"json_object": 8}
        assert listed["parameters"]["structured"] == "json_schema"

    def test_is_in_the_json_and_in_what_a_score_rests_on(
        self, cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
    ) -> None:
        server.refused = ("json_schema",)
        assert evaluate("--principle", "reciprocity", "--json").json["structured"] == {"json_object": 8}
        assert "asked for with json_object" in cli("show", "attack_01", "--why", "--store", store).out

    def test_is_not_mentioned_where_it_takes_the_structure(self, evaluate: Callable[..., Any]) -> None:
        assert "structure" not in evaluate("--principle", "reciprocity").out


class TestTheCommonestFailure:
    def test_is_named_by_evaluate_and_runs_with_an_example(
        self, cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
    ) -> None:
        server.plan("range", "malformed", "refusal")
        said = (
            "commonest failure: malformed, 2 times, such as: the reply's F is not a number from 0 to 1: "
            '{"reasoning": "far too much", "T": 0.1, "I": 0.2, "F": 1.7}'
        )
        done = evaluate("--principle", "reciprocity")
        assert done.code == 1
        assert said in done.out
        assert "run gpt: commonest failure: malformed, 2 times" in cli("runs", "list", "--store", store).out
        (listed,) = cli("runs", "list", "--store", store, "--json").json
        assert (listed["commonest_failure"]["reason"], listed["commonest_failure"]["count"]) == ("malformed", 2)

    def test_is_in_the_json(self, evaluate: Callable[..., Any], server: ChatServer) -> None:
        server.plan("empty")
        done = evaluate("--principle", "reciprocity", "--json")
        assert done.json["commonest_failure"] == {
            "reason": "malformed",
            "count": 1,
            "example": "the reply is empty",
        }
        assert evaluate("--principle", "reciprocity", "--json").json["commonest_failure"] is None

    def test_shows_no_secret_and_steers_no_terminal(
        self, cli: Cli, evaluate: Callable[..., Any], store: Path, server: ChatServer
    ) -> None:
        planted = "AKIA" + "Q7ZP2LM4XN6RT8VW"
        server.answer = lambda body: f"You wrote {planted}.\x1b[2J\nrun gpt: 0 failed"
        said = [
            evaluate("--principle", "reciprocity"),
            evaluate("--principle", "context_integrity", "--json"),
            cli("runs", "list", "--store", store),
            cli("runs", "list", "--store", store, "--json"),
        ]
        for one in said:
            assert "[AWS_KEY]" in one.out
            assert planted not in one.out + one.err
            assert "\x1b" not in one.out + one.err
            assert not [line for line in one.out.splitlines() if line.startswith("run gpt: 0 failed")]
