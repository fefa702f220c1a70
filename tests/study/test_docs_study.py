"""The commands and the Python of docs/study.md run as pasted, in order, on the examples that ship."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import turnwise.datasets
from turnwise.cli import main

PAGE = (Path(__file__).parent.parent.parent / "docs" / "study.md").read_text(encoding="utf-8")
EXAMPLES = str(Path(turnwise.datasets.__file__).parent / "examples.jsonl")


def test_the_page_runs_as_pasted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    script = re.search(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    first, *commands = script.replace("\\\n", " ").splitlines()
    assert first.startswith("EXAMPLES=")
    written = []
    for command in commands:
        name, *arguments = shlex.split(command.replace("$EXAMPLES", EXAMPLES), comments=True)
        assert name == "turnwise"
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        assert not leaving.value.code, (command, capsys.readouterr().err)
        if "--out" in arguments:
            written.append(arguments[arguments.index("--out") + 1])
    assert sorted(written) == ["to-deploy.yaml", "tuned.yaml"]  # no command overwrites the file of another
    assert (tmp_path / "out" / "report.html").exists()
    python = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    exec(compile(python.partition("write_report(study")[0], "docs/study.md", "exec"), {})
    assert "slope" in capsys.readouterr().out
