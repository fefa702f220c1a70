"""The protocol of readings: no later turn first, halves apart, a round taken whole or not at all."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from turnwise.datasets import join_judgements, open_dataset, read_judgements

TOOL = Path(__file__).parents[2] / "corpus" / "judging" / "judge.py"


class Done(NamedTuple):
    """What a command left behind."""

    refused: bool
    out: str
    err: str


class Judging:
    """The tool on a folder of its own."""

    def __init__(self, main: Callable[[], None], folder: Path, conversations: list[dict[str, Any]]) -> None:
        self.main = main
        self.folder = folder
        self.file = folder / "chats.jsonl"
        self.file.write_text("".join(json.dumps(one) + "\n" for one in conversations), encoding="utf-8")

    def __call__(self, *arguments: str, given: str = "") -> str:
        done = self.run(*arguments, given=given)
        assert not done.refused, done.err
        return done.out

    def run(self, *arguments: str, given: str = "") -> Done:
        """Run a command in this process, as it would be run in one of its own."""
        out, err, refused = io.StringIO(), io.StringIO(), False
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [str(TOOL), *arguments, "--work", str(self.folder / "work")])
            patch.setattr(sys, "stdin", io.StringIO(given))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    self.main()
                except SystemExit as leaving:
                    refused = leaving.code not in (None, 0)
                    err.write(f"{leaving.code}\n")
        return Done(refused, out.getvalue(), err.getvalue())

    def read(self, batch: str, numbers: str = "90 10 2 90 10 2 95 5 0") -> list[str]:
        """Score a batch to its end, and return what was shown, round by round."""
        shown = [self("next", batch)]
        while "read to its end" not in shown[-1]:
            labels = [line.split(">")[0][1:] for line in shown[-1].splitlines() if line.startswith("<")]
            shown.append(self("score", batch, given=mark(shown[-1]) + "".join(f"{x} {numbers}\n" for x in labels)))
        return shown[:-1]


def mark(shown: str) -> str:
    """Return the line that scores of a round begin with."""
    return shown.partition("begin with the line: ")[2].partition("\n")[0] + "\n"


def chat(name: str, *texts: str, pair: str | None = None) -> dict[str, Any]:
    turns = [
        turn
        for text in texts
        for turn in ({"role": "user", "content": text}, {"role": "assistant", "content": f"re {text}"})
    ]
    return {
        "id": name,
        "label": "attack",
        "source": "s",
        "turns": turns,
        "metadata": {"pair": pair} if pair else {},
    }


@pytest.fixture(scope="module")
def tool() -> Callable[[], None]:
    """Return the main function of the tool, which is a script and no module of a package."""
    spec = importlib.util.spec_from_file_location("judge", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "judge", module)  # where its dataclasses look for their module
        spec.loader.exec_module(module)
    main: Callable[[], None] = module.main
    return main


@pytest.fixture
def judging(tool: Callable[[], None], tmp_path: Path) -> Judging:
    chats = [chat(f"p{n}-{half}", f"one {n}{half}", f"two {n}{half}", f"three {n}{half}", pair=f"p{n}")
             for n in range(3) for half in "ab"]  # fmt: skip
    return Judging(tool, tmp_path, chats)


def deal(judging: Judging, mode: str, *further: str) -> list[str]:
    told = judging("deal", mode, str(judging.file), "--name", "x", *further)
    return [line.split(":")[0] for line in told.splitlines()]


def test_a_round_shows_the_next_turn_of_each_conversation_and_no_label(judging: Judging) -> None:
    batches = deal(judging, "history")
    assert len(batches) == 2
    for batch in batches:
        rounds = judging.read(batch)
        assert len(rounds) == 3
        for number, word in enumerate(("one", "two", "three")):
            texts = [line.split("> ", 1)[1] for line in rounds[number].splitlines() if line.startswith("<")]
            assert len(texts) == 3
            assert all(text.startswith(word) for text in texts)
        told = [*rounds, judging("next", batch)]
        assert not any(hidden in shown for shown in told for hidden in ("attack", "p0-", "p1-", "p2-", batch))


def test_halves_of_a_pair_go_to_different_readers(judging: Judging) -> None:
    for batch in deal(judging, "history"):
        (shown, *_) = judging.read(batch)
        pairs = [line.split()[2][0] for line in shown.splitlines() if line.startswith("<")]
        assert sorted(pairs) == ["0", "1", "2"]


def test_single_turns_are_shuffled_and_no_two_of_a_conversation_share_a_round(judging: Judging) -> None:
    seen = []
    for batch in deal(judging, "turn"):
        for shown in judging.read(batch):
            texts = [line.split("> ", 1)[1] for line in shown.splitlines() if line.startswith("<")]
            assert len({text.split()[1] for text in texts}) == len(texts)
            seen += texts
    assert len(seen) == len(set(seen)) == 18


def test_a_reply_is_shown_with_its_prompt(judging: Judging) -> None:
    (batch, *_) = deal(judging, "replies")
    (shown, *_) = judging.read(batch)
    assert "[user] one" in shown
    assert "[reply, to be scored] re one" in shown


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("1.1 90 10 2 90 10 2 95 5 0", "2.1: no score"),
        ("1.1 90 10 2 90 10 2 95 5 101", "9 whole numbers from 0 to 100"),
        ("1.1 90 10 2 90 10 2 95 5", "9 whole numbers from 0 to 100"),
        ("1.1 90 10 2 90 10 2 95 5 -1", "9 whole numbers from 0 to 100"),
        ("9.9 90 10 2 90 10 2 95 5 0", "9.9: not a label of this round"),
    ],
)
def test_a_round_is_taken_whole_or_not_at_all(judging: Judging, given: str, said: str) -> None:
    batch = deal(judging, "history")[0]
    before = judging("next", batch)
    refused = judging.run("score", batch, given=mark(before) + given)
    assert refused.refused
    assert said in refused.err
    assert judging("next", batch) == before


def test_scores_that_were_meant_for_another_round_are_refused(judging: Judging) -> None:
    one, other = deal(judging, "history")
    rows = "".join(f"{n}.1 90 10 2 90 10 2 95 5 0\n" for n in (1, 2, 3))
    refused = judging.run("score", one, given=mark(judging("next", other)) + rows)
    assert refused.refused
    assert "the first line must be the mark" in refused.err
    assert one not in refused.err
    assert "round 2 of" in judging("score", one, given=mark(judging("next", one)) + rows)


def test_what_was_read_is_collected_with_its_digest_and_holds_for_that_text_alone(judging: Judging) -> None:
    for batch in deal(judging, "history", "--twice", "0.5"):
        judging.read(batch)
    out = judging.folder / "judged"
    judging("collect", "--out", str(out), "--reader", "r", "--kind", "k")
    made = list(read_judgements(out / "history.jsonl"))
    assert len(made) == 18
    assert {one.round for one in made} == {1, 2, 3}
    assert len(list(read_judgements(out / "history-second.jsonl"))) == 9
    readings = json.loads((out / "readings.json").read_text(encoding="utf-8"))
    assert {one.reading for one in made} <= readings.keys()
    assert {"reader": "r", "kind": "k", "guideline": 3, "mode": "history"}.items() <= readings[
        made[0].reading
    ].items()

    again = ("collect", "--out", str(out), "--reader", "r", "--kind", "k")
    assert not judging.run(*again).refused
    name = made[0].reading
    (out / "readings.json").write_text(json.dumps({**readings, name: {**readings[name], "began": "2025-01-01"}}))
    assert f"another batch called {name} was collected before" in judging.run(*again).err

    joined = list(join_judgements(open_dataset(str(judging.file)), made))
    assert [(len(one.judgements), one.void) for one in joined] == [(3, 0)] * 6
    changed = judging.file.read_text(encoding="utf-8").replace("two 0a", "too 0a")
    judging.file.write_text(changed, encoding="utf-8")
    joined = list(join_judgements(open_dataset(str(judging.file)), made))
    assert sorted((len(one.judgements), one.void) for one in joined) == [(1, 2), *[(3, 0)] * 5]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("", "an F is 40: add | the phrase that decided"),
        ("| three", "does not stand in the turn"),
        ("| two | 2", "'2' is no earlier turn"),
        ("| two | soon", "'soon' is no earlier turn"),
    ],
)
def test_a_reader_names_the_phrase_that_decided(judging: Judging, told: str, said: str) -> None:
    batch = deal(judging, "history")[0]
    judging(
        "score",
        batch,
        given=mark(judging("next", batch)) + "".join(f"{n}.1 90 10 2 90 10 2 95 5 0\n" for n in (1, 2, 3)),
    )
    shown = judging("next", batch)
    plain = "2.2 90 10 2 90 10 2 95 5 0\n3.2 90 10 2 90 10 2 95 5 0\n"
    refused = judging.run("score", batch, given=f"{mark(shown)}1.2 60 20 40 90 10 2 95 5 0 {told}\n{plain}")
    assert refused.refused
    assert said in refused.err
    judging("score", batch, given=f"{mark(shown)}1.2 60 20 40 90 10 2 95 5 0 | two | 1\n{plain}")
    judging.read(batch)
    out = judging.folder / "judged"
    judging("collect", "--out", str(out), "--reader", "r", "--kind", "k")
    found = [one for one in read_judgements(out / "history.jsonl") if one.span is not None]
    assert [(one.turn, one.span, one.leans_on) for one in found] == [(2, (0, 3), 1)]


def test_what_was_read_before_is_not_dealt_again(judging: Judging) -> None:
    for batch in deal(judging, "history"):
        judging.read(batch)
    out = judging.folder / "judged"
    judging("collect", "--out", str(out), "--reader", "r", "--kind", "k")
    again = ("deal", "history", str(judging.file), "--name", "y", "--skip", str(out / "history.jsonl"))
    assert "nothing is left to be read" in judging.run(*again).err
    changed = judging.file.read_text(encoding="utf-8").replace("two 0a", "too 0a")
    judging.file.write_text(changed, encoding="utf-8")
    assert "y-01: 3 turns of 1 conversations" in judging(*again)


def test_batches_that_are_there_are_not_dealt_over(judging: Judging) -> None:
    deal(judging, "history")
    refused = judging.run("deal", "history", str(judging.file), "--name", "x")
    assert "choose another --name" in refused.err


def test_careless_reading_shows(judging: Judging) -> None:
    for batch in deal(judging, "turn", "--size", "100"):
        judging.read(batch)
    (_, row, *_) = judging("inspect").splitlines()
    distinct, frequent = row.split()[2:4]
    assert float(distinct) < 0.2
    assert float(frequent) == 1.0
