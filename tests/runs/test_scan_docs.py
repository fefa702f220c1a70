"""The example in Python of docs/scan.md runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_logs import chats, lines

from turnwise.findings import open_findings

PAGE = (Path(__file__).parents[2] / "docs" / "scan.md").read_text(encoding="utf-8")


def test_the_example_in_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_bytes(lines(chats(4)))
    code = PAGE.split("```python\n")[1].split("```")[0]
    # The small observer stands for the default one, which takes longer to load.
    code = code.replace('detector="cusum"', 'detector="cusum", observer="local-small"')
    exec(compile(code, "docs/scan.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.endswith("of 4\n")
    assert open_findings("findings").manifest.complete
