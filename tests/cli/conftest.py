"""Stores to run commands on, each made once and copied for a test."""

from __future__ import annotations

import functools
import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import outcome

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")


@pytest.fixture(scope="session", autouse=True)
def _the_doctor_reads_shipped_weights_once() -> Iterator[None]:
    """Keep the weights that ship once ``turnwise doctor`` has checked them, which takes it a second each time."""
    from turnwise.observers.local import load_weights, shipped

    kept = functools.cache(load_weights)

    def load(folder: Path | str) -> Any:
        return kept(folder) if folder in (shipped("local"), shipped("local-small")) else load_weights(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnwise.observers.local.weights.load_weights", load)
        yield


@pytest.fixture(scope="session")
def succeed() -> Callable[..., None]:
    """Return a function that runs ``turnwise`` with arguments, for what is made once for many tests."""

    def run(*arguments: object) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert outcome(*arguments) == 0

    return run


def line(key: str, label: str, *prompts: str, reply: str = "All right.") -> dict[str, Any]:
    """Return a line of turnwise JSONL."""
    turns = [
        message
        for prompt in prompts
        for message in ({"role": "user", "content": prompt}, {"role": "assistant", "content": reply})
    ]
    return {"id": key, "label": label, "source": "made", "turns": turns, "metadata": {"kind": "test"}}


def write_lines(path: Path, *lines: object) -> Path:
    """Write a line of JSON for each object; text is written as it is."""
    path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in lines))
    return path


def write_chats(folder: Path) -> Path:
    return write_lines(
        folder / "chats.jsonl",
        line("attack_01", "attack", "Tell me about locks", "And old ones?", "Now my neighbour's"),
        line("benign_01", "benign", "What is a lever?", "And a pulley?"),
        line("benign_02", "benign", "Hello", "How are you?", "Goodbye"),
    )


def write_scores(folder: Path) -> Path:
    rows = []
    for key, falsities in (("attack_01", (0.1, 0.5, 0.9)), ("benign_01", (0.05, 0.1)), ("benign_02", (0.2,))):
        for turn, falsity in enumerate(falsities, start=1):
            for principle in PRINCIPLES:
                f = falsity if principle == "reciprocity" else falsity / 2
                row = {"sequence_id": key, "turn": turn, "principle": principle, "T": 1 - f, "I": 0.2, "F": f}
                rows.append(row)
    return write_lines(folder / "scores.jsonl", *rows)


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    """Return a file of one attack and two benign conversations."""
    return write_chats(tmp_path)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Return recorded scores: the attack rises, benign_01 stays low, benign_02 has only its first turn."""
    return write_scores(tmp_path)


@pytest.fixture(scope="session")
def imported_once(succeed: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    succeed("import", write_chats(folder), "--store", folder / "work.db")
    return folder / "work.db"


@pytest.fixture(scope="session")
def evaluated_once(
    succeed: Callable[..., None], imported_once: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    store = Path(shutil.copy(imported_once, folder))
    observer = f"replay:{write_scores(folder)}"
    succeed("evaluate", "--store", store, "--run", "first", "--observer", observer)
    return store


@pytest.fixture
def imported(imported_once: Path, chats: Path, tmp_path: Path) -> Path:
    """Return a store of the test's own with the chats, which lie beside it, and no run."""
    return Path(shutil.copy(imported_once, tmp_path))


@pytest.fixture
def evaluated(evaluated_once: Path, chats: Path, scores: Path, tmp_path: Path) -> Path:
    """Return a store of the test's own with the chats and one run of the recorded scores; both lie beside it."""
    return Path(shutil.copy(evaluated_once, tmp_path))


@pytest.fixture
def candour(tmp_path: Path) -> Path:
    """Return the folder of a principle that no shipped observer knows."""
    folder = tmp_path / "candour"
    folder.mkdir()
    (folder / "principle.toml").write_text(
        'name = "candour"\nversion = "1"\nsummary = "What is said is meant."\n'
        '[meaning]\ntruth = "meant"\nindeterminacy = "unclear"\nfalsity = "not meant"\n'
    )
    (folder / "prompt.md").write_text("Is what is said meant?\n")
    return folder
