"""A store works in the kernel of a notebook, where DuckDB without ipywidgets refuses to hide its progress bar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KERNEL = """
import sys, types
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["ipywidgets"] = None

import duckdb
try:
    duckdb.connect().execute("SET enable_progress_bar = false")
except duckdb.Error as error:
    assert "ipywidgets" in str(error)
else:
    raise SystemExit("DuckDB does not take this for a kernel: the test shows nothing")

import turnwise
chat = turnwise.Conversation.human_ai("a", "b")
chat.add_prompt("Hello")
with turnwise.Store("s.db", create=True) as store:
    store.add_sequences([turnwise.Sequence("one", turnwise.Label.ATTACK, "test", chat)])
    turnwise.evaluate(store, "r", "scripted:0.9")
    print(len(store.query("peak(F) > 0.5", "r")))
    store.export("out", format="parquet")
"""


def test_questions_and_exports_work_in_a_kernel_without_ipywidgets(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KERNEL], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"
    assert list(tmp_path.glob("out/*.parquet"))
