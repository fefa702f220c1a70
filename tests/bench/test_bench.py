"""turnwise bench: what a guard is asked, what counts, what is kept, and that the record can be cited."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer

from turnwise.bench import (
    Answer,
    BenchGuard,
    BenchTask,
    Item,
    Options,
    ask_conversation,
    build_guard,
    html_page,
    load_tasks,
    read_record,
    run_bench,
    table_of,
    yardstick,
)
from turnwise.cli import main
from turnwise.conversation import Conversation, Label
from turnwise.datasets import example_judgements
from turnwise.errors import UnknownNameError, UsageError

CORPUS = Path(__file__).parents[2] / "corpus"


def item(name: str, attack: bool, *prompts: str, bad: int | None = None) -> Item:
    return Item(name, attack, Conversation.from_turns([(prompt, "ok") for prompt in prompts]), bad)


def guard(look: Callable[[str], Answer], name: str = "mine") -> BenchGuard:
    """Return a guard of the last prompt alone."""
    return BenchGuard(name, {"kind": "test"}, lambda chat: lambda talk, turn: look(talk.turn(turn).prompt))


def scored(prompt: str) -> Answer:
    """Take the prompt for the score, and flag from 0.5."""
    if prompt == "fail":
        raise ValueError("it broke")
    return Answer(float(prompt) >= 0.5, float(prompt))


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        main(["bench", *map(str, arguments)])
    return int(leaving.value.code or 0), *capsys.readouterr()


def result(record: dict[str, Any], name: str, task: str) -> dict[str, Any]:
    (found,) = (one for one in record["guards"] if one["name"] == name)
    return next(one for one in found["results"] if one["task"] == task)


# What is measured on


def test_the_corpus_is_that_of_the_frozen_yardstick() -> None:
    tasks = load_tasks(CORPUS)
    frozen = yardstick()["tasks"]
    assert [task.name for task in tasks] == list(frozen)
    for task in tasks:
        told = task.to_dict()
        assert {name: told[name] for name in frozen[task.name]} == frozen[task.name]
        assert told["judged_attacks"] == told["attack"]  # the reader names a turn in each


def test_a_changed_corpus_is_refused(tmp_path: Path) -> None:
    for name in ("judged", "splits.json"):
        (tmp_path / name).symlink_to(CORPUS / name)
    (tmp_path / "human").mkdir()
    for file in (CORPUS / "human").glob("*.jsonl"):
        text = file.read_text(encoding="utf-8").replace("grey rug", "green rug")
        (tmp_path / "human" / file.name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="task human is not that of yardstick 1"):
        load_tasks(tmp_path, names=["human"])


def test_what_a_reader_disputes_and_what_has_no_label_is_left_out_and_counted(tmp_path: Path) -> None:
    from turnwise.conversation import Seen, Side
    from turnwise.datasets import Judgement, digests, open_dataset
    from turnwise.scoring import Score

    rows = [
        {"id": name, "label": label, "turns": [{"role": "user", "content": f"{name} {n}"} for n in (1, 2, 3)]}
        for name, label in (("a", "attack"), ("b", "attack"), ("c", "benign"), ("d", "benign"), ("e", None))
    ]
    data, judged = tmp_path / "mine.jsonl", tmp_path / "judged.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    flagged = {"a": 2, "c": 3}
    lines = [
        Judgement(
            chat.sequence_id, turn, Side.PROMPT, Seen.PROMPTS, digest,
            {"reciprocity": Score(0.5, 0.5, 0.8 if flagged.get(chat.sequence_id) == turn else 0.1)}, "r", 1,
        ).to_line()
        for chat in open_dataset(str(data))
        for turn, digest in digests(chat.conversation, Seen.PROMPTS).items()
        if chat.sequence_id in "abc"
    ]  # fmt: skip
    judged.write_text("\n".join(lines))
    (task,) = load_tasks(data=[str(data)], judged=[judged], names=["mine"])
    assert [(one.name, one.attack, one.first_bad) for one in task.items] == [("a", True, 2), ("d", False, None)]
    assert task.left_out == {"no label": 1, "the reader disputes the label": 2}
    (labelled,) = load_tasks(data=[f"other={data}"], names=["other"], file_format={"label": "benign"})
    assert [one.name for one in labelled.items if not one.attack] == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"names": ["twins"]}, "give --corpus PATH"),
        ({"names": ["twin"]}, "unknown task 'twin'"),
        ({"data": ["twins=chats.jsonl"]}, "can't be called twins"),
    ],
)
def test_what_can_not_be_measured_on_says_why(asked: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        load_tasks(**asked)


def test_a_sample_is_the_same_every_time_and_part_of_a_larger_one() -> None:
    few, more = (load_tasks(sample=most)[0] for most in (3, 6))
    assert {one.name for one in few.items} < {one.name for one in more.items}
    assert (few.to_dict()["attack"], more.to_dict()["benign"]) == (3, 6)


# What counts


def test_recall_at_a_rate_of_false_alarms_is_that_of_a_threshold_on_benign_scores() -> None:
    benign = [item(f"b{n}", False, f"{n / 100}") for n in range(39)]
    attacks = [item(f"a{n}", True, "0.1", f"{0.3 + n / 50}") for n in range(10)]  # up to 0.48
    task = BenchTask("t", "", True, (*benign, *attacks))
    found = result(run_bench([guard(scored)], [task]), "mine", "t")
    assert found["recall"]["count"] == found["false_alarms"]["count"] == 0
    at = found["at_false_alarms"]
    assert at["0.01"] is None  # 39 are too few
    assert at["0.05"]["threshold"] == pytest.approx(0.375)  # (1 + 1) / (39 + 1)
    assert at["0.05"]["false_alarms"]["count"] == 1
    assert at["0.05"]["recall"]["count"] == 6  # 0.38 to 0.48
    assert at["0.05"]["recall"]["interval"] == pytest.approx(
        [0.2624, 0.8784], abs=1e-4
    )  # tables of Clopper-Pearson


def test_a_set_without_benign_conversations_takes_those_of_its_kind() -> None:
    attacks = BenchTask("a", "", False, (item("a", True, "0.4"),))
    benign = BenchTask("b", "", False, tuple(item(f"b{n}", False, f"{n / 100}") for n in range(19)))
    own = BenchTask("c", "", True, tuple(item(f"c{n}", False, "0.9") for n in range(40)))
    at = result(run_bench([guard(scored)], [attacks, benign, own]), "mine", "a")["at_false_alarms"]["0.05"]
    assert (at["benign_of"], at["recall"]["count"]) == ("all tasks of its kind", 1)


def test_the_first_flag_is_told_against_the_first_bad_turn() -> None:
    chats = ("0.6", "0"), ("0", "0.6"), ("0", "0", "0", "0.7")
    task = BenchTask("t", "", True, tuple(item(f"a{n}", True, *chat, bad=2) for n, chat in enumerate(chats)))
    first = result(run_bench([guard(scored)], [task]), "mine", "t")["first_flag"]
    assert [first[side]["count"] for side in ("before", "at", "after")] == [1, 1, 1]
    assert (first["median_lag"], first["mean_lag"]) == (0, pytest.approx(1 / 3, abs=1e-4))


def test_a_failure_is_no_score_and_in_no_rate() -> None:
    task = BenchTask(
        "t", "", True, (item("a", True, "0.1", "fail"), item("b", True, "0.9"), item("c", False, "0.2"))
    )
    found = result(run_bench([guard(scored)], [task]), "mine", "t")
    assert (found["recall"]["count"], found["recall"]["of"]) == (1, 1)
    assert (found["failed"]["count"], found["failed"]["of"]) == (1, 3)
    assert found["failures"] == {"ValueError: it broke": 1}


def test_a_guard_that_hangs_fails_and_what_it_runs_is_ended() -> None:
    closed: list[bool] = []
    hangs = replace(guard(lambda prompt: time.sleep(30) or Answer(True)), close=lambda: closed.append(True))
    row = ask_conversation(hangs, item("a", True, "hello"), timeout=0.05)
    assert (row["failure"], row["scores"], closed) == ("no answer within 0.05 s", [], [True])


def test_without_scores_nothing_is_asked_after_the_first_flag() -> None:
    asked: list[str] = []
    told = guard(lambda prompt: asked.append(prompt) or Answer(prompt == "2"))
    row = ask_conversation(told, item("a", True, "1", "2", "3"))
    assert (row["flagged_at"], asked) == (2, ["1", "2"])


def test_a_guard_that_can_not_be_run_is_named_and_the_others_go_on() -> None:
    record = run_bench([build_guard("gone=command:nonesuch"), build_guard("never")], load_tasks(sample=5))
    assert record["guards"][0]["not_run"] == "can't run nonesuch: No such file or directory"
    assert result(record, "never", "examples")["recall"]["count"] == 0


# What is kept


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def look(prompt: str) -> Answer:
        asked.append(prompt)
        return scored(prompt)

    chats = (item("a", True, "0.9"), item("b", False, "fail"), item("c", False, "0.1"))
    run_bench([guard(look)], [BenchTask("t", "", True, chats[:2])], answers=tmp_path)
    (kept,) = tmp_path.glob("*.jsonl")
    kept.write_text(kept.read_text() + '{"key": "cut o')
    record = run_bench([guard(look)], [BenchTask("t", "", True, chats)], answers=tmp_path)
    assert asked == ["0.9", "fail", "0.1"]
    fresh = run_bench([guard(look)], [BenchTask("t", "", True, chats)])
    assert fresh["sha256"] == record["sha256"]
    run_bench([guard(scored)], [BenchTask("t", "", True, chats)], answers=tmp_path, again=True)
    run_bench([guard(look)], [BenchTask("t", "", True, chats)], answers=tmp_path, again=True)
    assert asked[-1] == "fail"


def test_the_same_command_gives_the_same_record_but_for_timing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guards = "never", "always", "keywords", f"reader=replay:{example_judgements('history')}"
    records = []
    for name in ("one.json", "two.json"):
        assert command(capsys, "run", *guards, "--out", tmp_path / name)[0] == 0
        record = read_record(tmp_path / name)
        records.append({key: value for key, value in record.items() if key not in ("ms_a_turn", "made")})
    assert records[0] == records[1]
    assert result(records[0], "reader", "examples")["recall"]["rate"] == 1
    assert result(records[0], "always", "examples")["first_flag"]["before"]["rate"] == 1


def test_records_are_compared_and_a_changed_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    one, two, page = tmp_path / "one.json", tmp_path / "two.json", tmp_path / "page.html"
    command(capsys, "run", "never", "<b>=keywords", "--out", one)
    command(capsys, "run", "never", "--sample", "4", "--out", two)
    code, out, err = command(capsys, "compare", one, two, "--out", page)
    assert code == 0
    assert "never (one)" in out
    assert "never (two)" in out
    assert out.count("examples ") == 2  # other conversations stand apart
    assert read_record(one)["sha256"] in err
    text = page.read_text(encoding="utf-8")
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    one.write_text(one.read_text().replace('"count": 0', '"count": 18', 1))
    assert "was changed, its SHA-256 is of other figures" in command(capsys, "compare", one)[2]
    two.write_text("{}")
    assert "is no record" in command(capsys, "compare", two)[2]


def test_the_table_has_a_row_for_every_guard_under_every_set() -> None:
    record = run_bench(
        [build_guard("never"), guard(scored)], [BenchTask("t", "", True, (item("a", True, "0.9"),))]
    )
    table = table_of({"r": record})
    assert table.columns == ("set", "guard", "recall", "ms a turn", "failed")  # nothing benign, nothing paid
    assert [row[:3] for row in table.rows] == [("t", "never", "0 % [0, 98]"), ("", "mine", "100 % [3, 100]")]
    assert "100 % [3, 100]" in html_page({"r": record})


def test_two_guards_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two guards are called never"):
        run_bench([build_guard("never"), build_guard("never")], load_tasks(sample=1))


# Kinds of guards

LOOK = """
def look(messages):
    last = messages[-1]["content"]
    if last == "odd":
        return "yes"
    return {"flagged": last == "bad", "score": 0.75 if last == "bad" else 0.25, "cost_usd": 0.5, "version": "7"}
"""


def told(spec: str, *prompts: str, options: Options | None = None) -> dict[str, Any]:
    made = build_guard(spec, options)
    try:
        return ask_conversation(made, item("a", True, *prompts), timeout=30)
    finally:
        made.close()


def test_a_function_is_asked_with_the_messages_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_bench_guard.py").write_text(LOOK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    row = told("my_bench_guard:look", "good", "bad")
    assert (row["flagged_at"], row["scores"], row["cost_usd"], row["version"]) == (2, [0.25, 0.75], 1.0, "7")
    assert told("my_bench_guard:look", "odd")["failure"] == (
        "an answer is true, false or an object with flagged, not str"
    )
    with pytest.raises(UsageError, match="no guard 'my_bench_guard:nothing'"):
        build_guard("my_bench_guard:nothing")


def test_a_command_answers_line_by_line_and_its_last_words_are_told(tmp_path: Path) -> None:
    script = tmp_path / "guard.py"
    script.write_text(
        f"import json, sys\n{LOOK}\nfor line in sys.stdin:\n    messages = json.loads(line)['messages']\n"
        "    if messages[-1]['content'] == 'end': sys.exit('no weights here')\n"
        "    print(json.dumps(look(messages)), flush=True)\n"
    )
    spec = f"mine=command:{sys.executable} {script}"
    assert told(spec, "good", "bad")["scores"] == [0.25, 0.75]
    assert told(spec, "good", "end")["failure"] == "the command ended with 1: no weights here"


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ({"flagged": True, "score": 2}, "the answer's score is 2, not a number from 0 to 1"),
        ({"flagged": "yes"}, "the answer has no flagged that is true or false"),
        ({"error": "no key"}, "no key"),
    ],
)
def test_an_answer_that_can_not_be_read_is_a_failure(tmp_path: Path, answer: object, failure: str) -> None:
    script = tmp_path / "guard.py"
    script.write_text(f"input()\nprint({json.dumps(answer)!r})\n")
    assert told(f"command:{sys.executable} {script}", "x")["failure"] == failure


@pytest.fixture
def endpoint() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            last = asked["messages"][-1]["content"]
            body = json.dumps({"flagged": last == "bad", "score": len(asked["messages"]) / 10}).encode()
            self.send_response(500 if last == "break" else 200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/check?a=b"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_asked(endpoint: str) -> None:
    row = told(endpoint, "good", "bad", "break")
    assert (row["scores"], row["flagged_at"], row["failure"]) == ([0.1, 0.3], 2, "status 500")
    assert told(f"mine={endpoint.replace('127.0.0.1', '127.0.0.2')}", "x")["failure"].startswith("can't reach it")


def test_an_observer_flags_at_its_detectors_threshold() -> None:
    made = build_guard("scripted:0.1,0.4,0.6", Options(detector="any_turn:threshold=0.3"))
    row = ask_conversation(made, item("a", True, "x", "y", "z"))
    assert (row["flagged_at"], row["scores"]) == (2, [0.1, 0.4, 0.6])
    assert (made.description["observer"], made.description["threshold"]) == ("scripted", 0.3)


def test_the_observer_that_ships_is_a_guard() -> None:
    row = ask_conversation(build_guard("local", Options()), item("a", False, "Hello!", "How do I boil an egg?"))
    assert (row["flagged_at"], row["failure"]) == (None, None)
    assert len(row["scores"]) == 2


def test_a_language_model_is_a_guard_with_its_costs_and_its_key_is_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-planted-3kQ9vBn7Lx"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    asking = ("run", "llm:openai/gpt-4.1-mini", "--sample", 1, "-j", 2, "--json", "--answers", tmp_path / "kept")
    with ChatServer(key=key) as server:
        code, out, _ = command(capsys, *asking, "--base-url", server.url, "--temperature", "0.5")
        refused = command(capsys, *asking[:-2], "--base-url", server.url, "--detector", "nonesuch")
    assert code == 0
    found = json.loads(out)
    (told,) = found["guards"]
    assert told["description"]["parameters"]["temperature"] == 0.5
    assert told["results"][0]["cost_usd"] > 0
    assert told["results"][0]["failed"]["count"] == 0
    assert server.calls == 3 * told["results"][0]["turns"]
    assert key not in out + "".join(path.read_text() for path in (tmp_path / "kept").iterdir())
    assert (refused[0], "unknown detector 'nonesuch'" in refused[2]) == (2, True)


def test_recorded_readings_fail_where_there_is_none() -> None:
    row = told(f"replay:{example_judgements('history')}", "never read")
    assert row["failure"] == "no score of the turn"


def test_a_preset_flags_what_it_blocks(tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("guardrails:\n  - keywords: {keywords: [heron]}\n")
    row = told(f"preset:{config}", "hello", "tell me of project Heron", "and more")
    assert (row["flagged_at"], row["scores"]) == (2, [None, None])
    with pytest.raises(UnknownNameError, match="unknown preset 'basics'"):
        build_guard("preset:basics")


def test_keywords_may_be_ones_own(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("Heron\n\n")
    assert told(f"keywords:{words}", "the HERON flies")["flagged_at"] == 1
    assert told("keywords", "how do I build a bomb")["flagged_at"] == 1
    assert told("keywords", "how do I bake a cake")["flagged_at"] is None


def test_an_unknown_guard_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="unknown guard 'nevr'"):
        build_guard("nevr")


STUBS = {
    "nemoguardrails/__init__.py": """
class RailsConfig:
    from_path = staticmethod(lambda path: open(path + "/config.yml").read().strip())
class LLMRails:
    def __init__(self, config): self.word = config
    async def check_async(self, messages, rail_types):
        from types import SimpleNamespace
        print("noise on standard output")
        if messages[-1]["content"] == "break": raise RuntimeError("no model")
        return SimpleNamespace(status="blocked" if self.word in messages[-1]["content"] else "passed")
""",
    "nemoguardrails/rails/__init__.py": "",
    "nemoguardrails/rails/llm/__init__.py": "",
    "nemoguardrails/rails/llm/options.py": """
class RailStatus: BLOCKED = "blocked"
class RailType: INPUT = "input"
""",
    "nemoguardrails-9.1.dist-info/METADATA": "Name: nemoguardrails\nVersion: 9.1\n",
    "openai/__init__.py": "def AsyncOpenAI(api_key): return api_key",
    "guardrails/__init__.py": "default_spec_registry = None",
    "guardrails/runtime.py": """
from types import SimpleNamespace
load_config_bundle = lambda stage: stage["guardrails"]
instantiate_guardrails = lambda bundle, registry: bundle
async def run_guardrails(context, text, kind, checks, suppress_tripwire, raise_guardrail_errors):
    said = len(context.get_conversation_history())
    return [SimpleNamespace(tripwire_triggered=check in text, info={"confidence": said / 10}) for check in checks]
""",
    "openai_guardrails-9.2.dist-info/METADATA": "Name: openai-guardrails\nVersion: 9.2\n",
}
"""What the adapters use of the peers, as far as it shows that they are asked rightly."""


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in STUBS.items():
        (tmp_path / "stubs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stubs" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stubs"))
    return tmp_path


def test_rails_of_nemo_are_asked_in_a_process_of_their_own(peers: Path) -> None:
    (peers / "rails").mkdir()
    (peers / "rails" / "config.yml").write_text("bad")
    row = told(f"nemo:{peers / 'rails'}", "good", "so bad", options=Options(python={"nemo": sys.executable}))
    assert (row["flagged_at"], row["version"]) == (2, "nemoguardrails 9.1")
    assert told(f"nemo:{peers / 'rails'}", "break")["failure"] == "RuntimeError: no model"


def test_checks_of_openai_guardrails_give_their_highest_confidence(peers: Path) -> None:
    config = peers / "guardrails.json"
    config.write_text(json.dumps({"pre_flight": {"guardrails": ["a"]}, "input": {"guardrails": ["bad"]}}))
    row = told(f"openai-guardrails:{config}", "good", "bad")
    assert (row["flagged_at"], row["scores"], row["version"]) == (2, [0.1, 0.3], "openai-guardrails 9.2")


def test_a_peer_is_told_by_the_content_of_its_configuration(tmp_path: Path) -> None:
    digests = set()
    for folder, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.yml").write_text(text)
        digests.add((text, build_guard(f"nemo:{tmp_path / folder}").description["sha256"]))
    assert len(digests) == 2


def test_labels_are_not_shown_to_a_guard() -> None:
    seen: list[str] = []
    one = next(one for one in load_tasks(sample=1)[0].items if one.attack)
    asked = BenchGuard("g", {}, lambda chat: lambda talk, turn: seen.append(str(talk.metadata)) or Answer(False))
    ask_conversation(asked, one)
    assert not any(str(Label.ATTACK) in text for text in seen)
