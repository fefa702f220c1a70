"""Bytes of files that flip, and files that end early: a clear error or the right figures, never anything else."""

from __future__ import annotations

import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from benchmarks.cli_sweep import described, within
from benchmarks.hostile import made_store
from tests.observers.local.conftest import write_weights
from tests.support.found import conversation, make_findings

from turnwise import GuardrailPipeline, guard, score
from turnwise.errors import TurnwiseError
from turnwise.observers import build_observer
from turnwise.store import Store, ask

pytestmark = pytest.mark.integration

CASES = 200


def figures(store: Store) -> dict[str, Any]:
    """Return what can be read of a store, by what it is; what is refused is not there."""
    readers = {
        "counts": store.counts,
        "query": lambda: [one.to_dict() for one in store.query("peak(F) > 0.5")],
        "rates": lambda: store.query("peak(F) > 0.5").rate,
        "sql": lambda: list(ask(store.mirror, "FROM evaluations ORDER BY ALL").rows),
        "trajectories": lambda: [trajectory.evaluations for _, trajectory in store.trajectories(store.only_run())],
        "sequences": lambda: [one.to_dict() for one in store.sequences()],
        "runs": lambda: [replace(run, created_at=None) for run in store.runs()],
    }
    found: dict[str, Any] = {}
    for name, read in readers.items():
        with suppress(TurnwiseError):
            found[name] = read()
    return found


class Kind(ABC):
    """A kind of files: how they are made in an empty folder, and what is read of them."""

    unseen: ClassVar[int] = 0
    """Cases in which something else may be read: none where the files hold digests of what they hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def make(self) -> list[Path]:
        """Make the files, and return those of which bytes change."""

    @abstractmethod
    def read(self) -> dict[str, Any]:
        """Return what is read of the files by name, without what is refused; TurnwiseError where all of it is."""


class Findings(Kind):
    """What a scan wrote."""

    def make(self) -> list[Path]:
        parts = [[conversation(f"{part}-{n}", 0.1 * n, 0.9) for n in range(4)] for part in range(2)]
        made = Path(make_findings(self.folder / "findings", *parts))
        return [made / "manifest.json", *sorted(made.rglob("*.parquet"))]

    def read(self) -> dict[str, Any]:
        with Store(self.folder / "findings") as store:
            store.prepare()
            return figures(store)


class Export(Kind):
    """A store that was exported as Parquet."""

    def make(self) -> list[Path]:
        with Store(made_store(self.folder)) as store:
            store.export(self.folder / "export", format="parquet")
        return sorted((self.folder / "export").iterdir())

    def read(self) -> dict[str, Any]:
        for path in self.folder.glob("into.db*"):
            path.unlink()
        with Store(self.folder / "into.db", create=True) as store:
            store.import_from(self.folder / "export")
            return figures(store)


class Weights(Kind):
    """The weights of an embedded observer."""

    def make(self) -> list[Path]:
        return sorted(write_weights(self.folder / "weights").iterdir())

    def read(self) -> dict[str, Any]:
        observer = build_observer(f"local:{self.folder / 'weights'}")
        return {"scores": score("Trust me, you owe me this.", observer=observer).to_dict()["turns"]}


class Preset(Kind):
    """The settings of a guard, which are text that anybody may write."""

    unseen = CASES

    def make(self) -> list[Path]:
        return [
            Path(shutil.copy(Path(guard.__file__).with_name("presets") / "basic.yaml", self.folder / "mine.yaml"))
        ]

    def read(self) -> dict[str, Any]:
        result = GuardrailPipeline(self.folder / "mine.yaml").check_input("My card is 4111 1111 1111 1111.")
        return {"blocked": result.blocked}


class Record(Kind):
    """A store: SQLite keeps no digests of its pages, so a number may become another one that can be."""

    unseen = CASES // 10

    def make(self) -> list[Path]:
        return [made_store(self.folder)]

    def read(self) -> dict[str, Any]:
        with Store(self.folder / "good.db", busy_seconds=0.1) as store:
            return figures(store)


def damaged(rng: random.Random, content: bytes) -> bytes:
    if rng.random() < 0.2:
        return content[: rng.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def wrong(kind: Kind, files: list[Path]) -> Iterator[str]:
    """Yield a line for each case in which something else than a clear error or the right figures came."""
    before = {path: path.read_bytes() for path in files}
    right = kind.read()
    assert right
    for number in range(CASES):
        rng = random.Random(f"{type(kind).__name__} {number}")
        path = rng.choice(files)
        for one, content in before.items():
            one.write_bytes(content)
        for beside in kind.folder.glob("good.db-*"):
            beside.unlink()
        path.write_bytes(damaged(rng, before[path]))
        try:
            with within(20):
                found = kind.read()
        except TurnwiseError as error:
            if not str(error).strip():
                yield f"case {number}, {path.name}: {type(error).__name__} says nothing"
        except Exception as error:  # noqa: BLE001 - whatever gets out is what is looked for
            yield f"case {number}, {path.name}: {described(error)}"
        else:
            others = [name for name, value in found.items() if value != right[name]]
            if others:
                yield f"case {number}, {path.name}: other {', '.join(others)}"


@pytest.mark.parametrize("kind", [Findings, Export, Weights, Preset, Record])
def test_what_was_damaged_is_refused_or_read_as_it_was(kind: type[Kind], tmp_path: Path) -> None:
    one = kind(tmp_path)
    lines = list(wrong(one, one.make()))
    others = [line for line in lines if ": other " in line]
    assert lines == others
    assert len(others) <= kind.unseen, others
