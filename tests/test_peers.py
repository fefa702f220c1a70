"""Other guards side by side: what is measured, what is left out, and that the page shows what was counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import measuring, page
from benchmarks.peers.conversations import SETS, belongs, files_of
from benchmarks.peers.measuring import Answer, MissingError, SingleMessages, ask, run
from benchmarks.peers.run import PEERS

from turnwise.datasets import open_dataset

REPOSITORY = Path(__file__).parents[1]


def chat(*said: str, name: str = "one", **more: Any) -> dict[str, Any]:
    """A conversation in which user and assistant take turns."""
    messages = [
        {"role": role, "content": text} for role, text in zip(["user", "assistant"] * 9, said, strict=False)
    ]
    return {"id": name, "messages": messages, **more}


class Counting:
    """Blocks the prompt that says so, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self) -> None:
        self.told.append("begin")

    def check(self, prompt: str) -> Answer:
        self.told.append(prompt)
        if prompt == "fail":
            raise ValueError("with a text of others")
        return Answer(prompt == "block", prompt == "warn", ("words",) if prompt == "block" else ())

    def answered(self, reply: str) -> None:
        self.told.append(f"reply {reply}")


def test_a_conversation_is_fed_turn_by_turn_and_ends_where_it_is_blocked() -> None:
    guard = Counting()
    row = ask(guard, chat("hello", "hi", "warn", "hm", "block", "no", "never read"))
    assert guard.told == ["begin", "hello", "reply hi", "warn", "reply hm", "block"]
    assert (row["blocked_at"], row["warned_at"], row["by"], row["failed"]) == (3, 2, ["words"], None)
    assert len(row["ms"]) == len(row["cpu"]) == 3


def test_a_guard_that_fails_counts_as_failed_and_its_message_is_not_kept() -> None:
    row = ask(Counting(), chat("hello", "hi", "fail"))
    assert row["failed"] == "ValueError at turn 2"
    assert row["blocked_at"] is None
    assert "others" not in json.dumps(row)


def test_replies_can_be_checked_where_the_documentation_of_a_guard_says_so() -> None:
    class Replies(SingleMessages):
        def answered(self, reply: str) -> Answer:  # type: ignore[override]
            return Answer("rm -rf" in reply, by=("rules",))

    row = ask(Replies(lambda prompt: Answer(False)), chat("tidy up", "rm -rf /", "thanks"))
    assert (row["blocked_at"], row["by"], len(row["ms"])) == (1, ["rules"], 1)


def test_a_guard_of_whole_conversations_has_its_time_shared_out_over_the_prompts() -> None:
    class Whole:
        def read(self, messages: Sequence[dict[str, str]]) -> tuple[int | None, tuple[str, ...]]:
            return len(messages), ("cusum",)

    row = ask(Whole(), chat("a", "b", "c"))
    assert (row["blocked_at"], row["by"]) == (3, ["cusum"])
    assert len(row["ms"]) == 2
    assert row["ms"][0] == row["ms"][1]


def test_the_same_command_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    chats = [chat("hello", name=str(number)) for number in range(4)]
    target = tmp_path / "part.jsonl"
    assert run(Counting(), chats[:2], target) == 2
    guard = Counting()
    assert run(guard, chats, target) == 4
    assert guard.told.count("begin") == 2
    assert [row["id"] for row in page.read(target)] == ["0", "1", "2", "3"]


def test_a_part_whose_weights_or_key_are_missing_is_written_down_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gated() -> SingleMessages:
        raise MissingError("needs the weights example/gated")

    (tmp_path / "chats.jsonl").write_text(json.dumps(chat("hello")) + "\n")
    arguments = ["name", "--conversations", str(tmp_path / "chats.jsonl"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", arguments)
    measuring.measure({"words": Counting, "weights": gated})
    (row,) = page.read(tmp_path / "out" / "weights.jsonl")
    assert row == {"not_measured": "needs the weights example/gated"}
    assert len(page.read(tmp_path / "out" / "words.jsonl")) == 1


def test_counts_tell_what_was_found_where_and_at_which_turn() -> None:
    chats = {
        "a": chat("x", name="a", set="tricks", kind=page.ATTACKS, flagged=[2, 4]),
        "b": chat("x", name="b", set="tricks", kind=page.ATTACKS, flagged=[3]),
        "c": chat("x", name="c", set="chats", kind=page.ORDINARY, flagged=None),
    }
    row: dict[str, Any] = {"warned_at": None, "by": [], "failed": None, "ms": [1.0]}
    rows = [
        {**row, "id": "a", "blocked_at": 4, "by": ["drift"]},
        {**row, "id": "b", "blocked_at": 1},
        {**row, "id": "c", "blocked_at": None, "warned_at": 1, "failed": "ValueError at turn 1"},
    ]
    told = page.counts(rows, chats, [3.0, 1.0, 2.0])
    assert told["found"] == {"tricks": [2, 2], "chats": [0, 1]}
    assert told["warned"] == {"tricks": 2, "chats": 1}
    assert told["turns"] == {"flagged": 1, "before": 1}
    assert told["failed"] == {"ValueError": 1}
    assert (told["median_ms"], told["timed"]) == (2.0, 3)


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, Any]]:
    yield json.loads(page.FIGURES.read_text(encoding="utf-8"))


def test_the_page_shows_what_was_counted(figures: dict[str, Any]) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text, figures) == text, "run: python -m benchmarks.peers.page"
    assert page.TABLES_PAGE.read_text(encoding="utf-8") == page.tables(figures), (
        "run: python -m benchmarks.peers.page"
    )


def test_every_guard_and_every_part_is_measured_or_says_why_not(figures: dict[str, Any]) -> None:
    assert {(one["peer"], one["part"]) for one in figures["parts"]} == set(page.PARTS)
    assert {one["peer"] for one in figures["parts"]} == set(PEERS)
    sizes = {name: one["conversations"] for name, one in figures["sets"].items()}
    for one in figures["parts"]:
        if "not_measured" not in one:
            assert {name for name, (_, of) in one["found"].items() if of <= sizes[name]} <= set(sizes)
            told = page.label(figures, one)
            assert ("asked" in told) == (sum(of for _, of in one["found"].values()) < sum(sizes.values()))


def test_no_text_of_a_conversation_is_kept(figures: dict[str, Any]) -> None:
    def longest(value: object) -> int:
        if isinstance(value, dict):
            return max(map(longest, [*value, *value.values()]), default=0)
        if isinstance(value, list):
            return max(map(longest, value), default=0)
        return len(value) if isinstance(value, str) else 0

    assert longest(figures) < 120


def test_no_conversation_of_a_training_split_is_measured(tmp_path: Path) -> None:
    splits = json.loads((REPOSITORY / "corpus" / "judged" / "splits.json").read_text(encoding="utf-8"))["splits"]
    assert not [one.name for one in SETS if "train" in one.splits]
    ours = [one for one in SETS if one.files.startswith("corpus/")]
    for one in ours:
        files = [str(path) for path in files_of(one, tmp_path)]
        taken = [found for path in files for found in open_dataset(path) if belongs(found, one, splits)]
        assert len(taken) >= 84
        assert "train" not in {splits[found.sequence_id] for found in taken}
