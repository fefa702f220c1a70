"""A run that was killed and run again is the run that was never disturbed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence
from turnwise.store import Store

SEQUENCES, TURNS = 40, 5
BATCH = 16
"""Sequences that a computing worker takes at once: what is told as one step of progress."""

EVALUATE = """
import sys
from turnwise.conversation import Side
from turnwise.runs import evaluate
from turnwise.principles import Principle
from turnwise.store import Store

path, jobs = sys.argv[1], int(sys.argv[2])
principles = [Principle(name, "1", "s", "t", "i", "f", "judge it") for name in ("p", "q", "r")]
with Store(path) as store:
    summary = evaluate(
        store, "run", "probe:x", principles=principles, sides=(Side.PROMPT, Side.RESPONSE), jobs=jobs,
        progress=lambda reached: print(reached.done, flush=True),
    )
    print(summary.evaluations, summary.skipped)
"""

Content = Callable[[Path], dict[str, list[tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def run(probe_site: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that evaluates a store in a process of its own, with what else is to be set for it."""

    places = os.pathsep.join(filter(None, [str(probe_site), os.environ.get("PYTHONPATH")]))

    def start(path: Path, jobs: int = 1, **settings: str) -> subprocess.CompletedProcess[str]:
        # The end of its output comes once every process that holds it has ended: a worker that outlived the
        # process that started it would make this time out.
        return subprocess.run(
            [sys.executable, "-c", EVALUATE, str(path), str(jobs)],
            env={**os.environ, "PYTHONPATH": places, **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, make_sequence: Callable[..., Sequence]) -> Path:
    """Return a store with many sequences in it and no run; no test changes it."""
    path = tmp_path_factory.mktemp("imported") / "work.db"
    with Store(path, create=True) as store:
        store.add_sequences(
            make_sequence(
                f"s{number:02}",
                *((f"{number} says {turn}", None if turn == TURNS else "a reply") for turn in range(1, 1 + TURNS)),
                label=Label.ATTACK if number % 2 else Label.BENIGN,
            )
            for number in range(SEQUENCES)
        )
    return path


@pytest.fixture(scope="module")
def expected(
    run: Callable[..., subprocess.CompletedProcess[str]],
    imported: Path,
    content: Content,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[tuple[Any, ...]]]:
    """Return what is in the store after a run that nobody disturbs."""
    whole = Path(shutil.copy(imported, tmp_path_factory.mktemp("whole")))
    undisturbed = run(whole)
    assert (undisturbed.returncode, undisturbed.stderr) == (0, "")
    return content(whole)


@pytest.mark.parametrize(
    ("jobs", "kill"),
    [
        # In the first batch; right behind the second, while it is being written; near the end; with workers.
        pytest.param(1, "main:7", id="early"),
        pytest.param(1, f"main:{2 * BATCH * TURNS + 1}", id="while writing", marks=pytest.mark.integration),
        pytest.param(1, f"main:{SEQUENCES * TURNS - 3}", id="late", marks=pytest.mark.integration),
        pytest.param(2, f"main:{BATCH * TURNS + 20}", id="two workers", marks=pytest.mark.integration),
    ],
)
def test_a_killed_run_is_completed_by_the_same_command(
    run: Callable[..., subprocess.CompletedProcess[str]],
    imported: Path,
    expected: dict[str, list[tuple[Any, ...]]],
    content: Content,
    tmp_path: Path,
    jobs: int,
    kill: str,
) -> None:
    broken = Path(shutil.copy(imported, tmp_path))
    assert len(expected["evaluations"]) > SEQUENCES * TURNS * 5
    assert len(expected["failures"]) > 10

    killed = run(broken, jobs, PROBE_KILL=kill)
    assert killed.returncode == -signal.SIGKILL
    told = max(map(int, killed.stdout.split()), default=0)
    stored = content(broken)["evaluations"]
    scored = {row[1] for row in stored}
    # What was told to be done is stored; nothing is stored of a sequence by halves.
    assert told <= len(scored) < SEQUENCES
    assert stored == [row for row in expected["evaluations"] if row[1] in scored]

    completed = run(broken, jobs)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.split()[-2:] == [str(len(expected["evaluations"]) - len(stored)), str(len(stored))]
    assert content(broken) == expected
