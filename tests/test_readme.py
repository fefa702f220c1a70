"""What the README shows works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    guard, detect = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    told: list[object] = []
    names = {"call_model": lambda messages: told.append(messages) or "Thank you, noted."}
    exec(compile(guard, str(README), "exec"), names)
    assert told == [[{"role": "user", "content": "My SSN is [SSN]"}]]
    exec(compile(detect, str(README), "exec"), {})
    assert "cusum: did not fire" in capsys.readouterr().out


def test_the_example_line_can_be_imported(tmp_path: Path) -> None:
    from turnwise.conversation import Sequence
    from turnwise.datasets import open_dataset

    (line,) = re.findall(r'^\{"id".*\}$', README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (tmp_path / "line.jsonl").write_text(line + "\n", encoding="utf-8")
    (sequence,) = open_dataset(str(tmp_path / "line.jsonl"))
    assert isinstance(sequence, Sequence)
    assert sequence.conversation.turn(1).response == "Hi!"
