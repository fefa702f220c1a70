"""How many functions and files a conversation passes from a file to its verdict, by ``turnwise check`` and stored.

Counted are Python-level functions of turnwise that run once everything is imported; those of the observer are left
out, since each has its own. Run as ``python benchmarks/file_to_verdict.py``.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import turnwise
from turnwise.cli import main

ROOT = str(Path(turnwise.__file__).parent)
OBSERVER = f"{ROOT}/observers/scripted"
CHAT = [
    {"role": role, "content": f"{text}, please?"}
    for number in range(1, 5)
    for role, text in (("user", f"Question {number}"), ("assistant", f"Answer {number}"))
]
SCORED = ("--observer", "scripted:0.1,0.2,0.7,0.9")
JUDGED = ("--detector", "any_turn", "--detector", "cusum")


@dataclass
class Passed:
    """What some commands called.

    Args:
        calls: how often a function of turnwise was called.
        functions: which ones.
    """

    calls: int = 0
    functions: set[CodeType] = field(default_factory=set)

    @property
    def files(self) -> set[str]:
        """The files that these functions are in."""
        return {code.co_filename for code in self.functions}

    def __str__(self) -> str:
        """Return the counts in a line."""
        return f"{len(self.functions)} functions in {len(self.files)} files, {self.calls} calls"


def passed_by(*commands: Sequence[str]) -> Passed:
    """Return what is called by commands that run one after the other in an empty folder."""
    _run(commands)  # imports, and what is read once
    found = Passed()

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_filename.startswith(OBSERVER):
            return
        if not code.co_name.startswith("<"):  # bodies of modules, comprehensions
            found.calls += 1
            found.functions.add(code)

    before = sys.getprofile()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        _run(commands)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found


def check() -> Passed:
    """Return what ``turnwise check FILE`` calls."""
    return passed_by(("check", "chat.json", *SCORED, *JUDGED))


def stored() -> Passed:
    """Return what import, evaluate and detect call together."""
    return passed_by(
        ("import", "chat.jsonl"), ("evaluate", "--run", "r", *SCORED), ("detect", "--run", "r", *JUDGED)
    )


def _run(commands: Sequence[Sequence[str]]) -> None:
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
            line = {"id": "a", "label": "attack", "source": "made", "turns": CHAT}
            Path("chat.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
            for command in commands:
                _call(command)
        finally:
            os.chdir(here)


def _call(command: Sequence[str]) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as told:
        try:
            main(command)
        except SystemExit as leaving:
            if leaving.code:
                raise RuntimeError(f"turnwise {' '.join(command)}: {told.getvalue()}") from None


if __name__ == "__main__":
    for name, found in (("check", check()), ("import, evaluate, detect", stored())):
        print(f"{name}: {found}")
        for file in sorted(found.files) if "--files" in sys.argv else ():
            names = sorted(code.co_qualname for code in found.functions if code.co_filename == file)
            print(f"  {file.removeprefix(ROOT + '/')}: {', '.join(names)}")
