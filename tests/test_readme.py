"""What the README and the page on commands show works."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path

import pytest

import turnwise.datasets
from turnwise.cli import demo_observer, main, run_demo
from turnwise.store import Store

README = Path(__file__).parent.parent / "README.md"
COMMANDS = README.parent / "docs" / "command-line.md"


def test_the_guard_of_the_readme_says_what_stands_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    exec(compile(code, str(README), "exec"), {})
    assert capsys.readouterr().out == said


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", COMMANDS.read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(code, str(COMMANDS), "exec"), {})
    assert "cusum: did not fire" in capsys.readouterr().out


def test_the_study_of_the_readme_says_what_stands_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command, said = re.findall(
        r"```\n(turnwise study .*?)\n```\n\n```text\n(.*?)```", README.read_text("utf-8"), re.DOTALL
    )[0]
    with Store("turnwise-demo.db", create=True) as store:
        run_demo(store, {"reader": demo_observer("reader")})
    with pytest.raises(SystemExit):
        main(shlex.split(command)[1:])
    assert " ".join(capsys.readouterr().out.split("\n\n")[0].split()) == " ".join(said.split())


def test_the_example_line_can_be_imported(tmp_path: Path) -> None:
    from turnwise.conversation import Sequence
    from turnwise.datasets import open_dataset

    (line,) = re.findall(r'^\{"id".*\}$', COMMANDS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / "line.jsonl").write_text(line + "\n", encoding="utf-8")
    (sequence,) = open_dataset(str(tmp_path / "line.jsonl"))
    assert isinstance(sequence, Sequence)
    assert sequence.conversation.turn(1).response == "Hi!"


MAY_NEED_MORE = {
    "study discover": "too few",
    "study tune": "too few",
    "evaluate --store work.db --run gpt": "OPENAI_API_KEY",
}
"""Commands that the few conversations here, or a lack of a key, keep from their end, with what they then say."""


def commands(page: Path) -> list[str]:
    """Return the turnwise commands of a page, in order."""
    blocks = page.read_text(encoding="utf-8").split("```")[1::2]
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("turnwise ")]


def write_chats(folder: Path) -> str:
    """Write the files that the commands read, from the shortest examples, and return the id of a conversation."""
    examples = Path(turnwise.datasets.__file__).parent / "examples.jsonl"
    chats = sorted(
        map(json.loads, examples.read_text(encoding="utf-8").splitlines()), key=lambda one: len(str(one))
    )
    few = [chat for label in ("attack", "benign") for chat in [one for one in chats if one["label"] == label][:3]]
    (folder / "chats.jsonl").write_text("".join(f"{json.dumps(chat)}\n" for chat in few), encoding="utf-8")
    (folder / "chat.json").write_text(json.dumps(few[0]["turns"]), encoding="utf-8")
    return str(few[0]["id"])


@pytest.mark.integration
def test_every_command_runs_as_pasted_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    name = write_chats(tmp_path)
    readme, page = commands(README), commands(COMMANDS)
    assert len(readme) >= 5
    with Store("turnwise-demo.db", create=True) as store:
        run_demo(store, {"reader": demo_observer("reader")})
    assert len(page) >= 20
    for command in dict.fromkeys((*readme, *page)):  # the page goes on in the folder of the README
        monkeypatch.setattr("sys.stdin", io.StringIO("Hello\n"))
        _, *arguments = shlex.split(re.sub(r"\bID\b", name, command), comments=True)
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        err = capsys.readouterr().err
        if leaving.value.code:
            reasons = [reason for start, reason in MAY_NEED_MORE.items() if " ".join(arguments).startswith(start)]
            assert reasons, (command, err)
            assert reasons[0] in err, (command, err)
