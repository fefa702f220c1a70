"""Recorded judgements: read, joined to the texts that they were made of, imported as runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Seen, Side
from turnwise.datasets import BadRecord, Judgement, digests, judgement_files, open_dataset, read_judgements
from turnwise.errors import DatasetError
from turnwise.scoring import Score

Cli = Callable[..., Any]
PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")


LINE: dict[str, Any] = {
    "sequence_id": "a", "turn": 1, "side": "prompt", "scores": {"p": [1, 0, 0]},
    "seen": "prompts", "digest": "d", "reading": "r", "round": 1,
}  # fmt: skip


def chats(folder: Path, last: str = "three") -> Path:
    lines = []
    for name in "ab":
        texts = ["one", "two", last if name == "b" else "three"]
        turns = [{"role": "user", "content": f"{text} {name}"} for text in texts]
        lines.append(json.dumps({"id": name, "label": "attack", "source": "s", "turns": turns}))
    path = folder / "chats.jsonl"
    path.write_text("\n".join([*lines, json.dumps({"id": "c", "label": "benign", "turns": turns})]) + "\n")
    return path


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a folder with judgements of two of three conversations, a turn rising in F from the last."""
    folder = tmp_path / "judged"
    folder.mkdir()
    for mode, seen in (("history", Seen.PROMPTS), ("turn", Seen.PROMPT)):
        made = [
            Judgement(
                sequence.sequence_id, turn, Side.PROMPT, seen, digest,
                {name: Score(0.9, 0.1, 0.3 * turn - 0.3) for name in PRINCIPLES}, "r-01", turn,
            )
            for sequence in list(open_dataset(str(chats(tmp_path))))[:2]
            for turn, digest in digests(sequence.conversation, seen).items()
        ]  # fmt: skip
        (folder / f"{mode}.jsonl").write_text("".join(f"{one.to_line()}\n" for one in made))
    return folder


def test_a_judgement_is_read_back_as_it_was_written(judged: Path) -> None:
    made = list(read_judgements(judged / "history.jsonl"))
    assert [(one.sequence_id, one.turn, one.round) for one in made] == [(n, t, t) for n in "ab" for t in (1, 2, 3)]
    assert made[2].peak_f == pytest.approx(0.6)
    assert [one.to_line() for one in made] == (judged / "history.jsonl").read_text().splitlines()


def test_what_is_no_judgement_is_named(judged: Path) -> None:
    with (judged / "turn.jsonl").open("a") as out:
        out.write('{"sequence_id": "a"}\n')
    with pytest.raises(DatasetError, match=r"turn\.jsonl, line 7: not a judgement"):
        list(read_judgements(judged / "turn.jsonl"))
    with pytest.raises(DatasetError, match="can't read judgements"):
        list(read_judgements(judged / "nothing.jsonl"))
    with pytest.raises(DatasetError, match="no judgements in"):
        judgement_files(judged.parent)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**LINE, "scores": [1]}).encode(),
        json.dumps({**LINE, "sequence_id": ["a"]}).encode(),
        json.dumps({**LINE, "scores": {}}).encode(),
        b"[" * 100_000,
        b'"\xff"',
    ],
)
def test_a_bad_line_is_an_error_that_names_it(cli: Cli, judged: Path, tmp_path: Path, line: bytes) -> None:
    (judged / "history.jsonl").write_bytes(b"\n" + line + b"\n")
    told = cli(
        "import", str(tmp_path / "chats.jsonl"), "--judged", str(judged), "--store", str(tmp_path / "work.db")
    )
    assert told.code == 1
    assert "history.jsonl, line 2: not a judgement" in told.err


def test_replies_alone_leave_prompts_unchecked(cli: Cli, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    chat = {"id": "a", "label": "attack", "source": "s", "turns": turns}
    file, folder, store = tmp_path / "chat.jsonl", tmp_path / "read", tmp_path / "work.db"
    file.write_text(json.dumps(chat) + "\n")
    (sequence,) = open_dataset(str(file))
    assert not isinstance(sequence, BadRecord)
    digest = digests(sequence.conversation, Seen.BOTH)[1]
    scores = {name: Score(0.1, 0.1, 0.9) for name in PRINCIPLES}
    folder.mkdir()
    made = Judgement("a", 1, Side.RESPONSE, Seen.BOTH, digest, scores, "r-01", 1)
    (folder / "replies.jsonl").write_text(made.to_line() + "\n")
    assert "run judged-replies: 3 recorded scores" in cli("import", file, "--judged", folder, "--store", store).out
    (found,) = cli("detect", "--store", store, "--detector", "any_turn", "--json").json
    assert (found["fired"], found["reason"]) == (
        None,
        "not checked: the run has no scores that this detector needs",
    )
    (asked,) = cli("detect", "--store", store, "--detector", "pattern:peak(response.F) > 0.5", "--json").json
    assert asked["fired"] is True


def test_judged_conversations_are_imported_with_their_scores_as_runs(
    cli: Cli, judged: Path, tmp_path: Path
) -> None:
    store = tmp_path / "work.db"
    told = json.loads(
        cli("import", str(tmp_path / "chats.jsonl"), "--judged", str(judged), "--store", str(store), "--json").out
    )
    assert (told["imported"], told["skipped"], told["errors"]) == (2, 0, [])
    assert told["judgements"] == [
        {"run": f"judged-{mode}", "evaluations": 18, "failures": 0} for mode in ("history", "turn")
    ]
    found = cli(
        "detect",
        "--store",
        str(store),
        "--run",
        "judged-history",
        "--detector",
        "any_turn:threshold=0.5",
        "--json",
    )
    verdicts = json.loads(found.out)
    assert [(one["fired"], one["turn"]) for one in verdicts] == [(True, 3), (True, 3)]


def test_scores_of_another_text_are_void(cli: Cli, judged: Path, tmp_path: Path) -> None:
    chats(tmp_path, last="other")
    told = cli(
        "import", str(tmp_path / "chats.jsonl"), "--judged", str(judged), "--store", str(tmp_path / "work.db")
    )
    assert "run judged-history: 15 recorded scores, 3 void: the text is not the one that was read" in told.out


def test_a_file_without_a_judged_conversation_is_refused(cli: Cli, judged: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text((tmp_path / "chats.jsonl").read_text().splitlines()[2] + "\n")
    told = cli("import", str(other), "--judged", str(judged), "--store", str(tmp_path / "work.db"))
    assert told.code == 1
    assert "has judgements of other files than" in told.err
