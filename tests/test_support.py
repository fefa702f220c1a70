"""What all packages stand on: streams taken some items at a time, and which code a result rests on."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import __version__
from turnwise._support import revision
from turnwise._support.batches import batched


@given(st.lists(st.integers(), max_size=60), st.integers(1, 20))
def test_batches_put_together_are_the_stream(items: list[int], size: int) -> None:
    batches = list(batched(items, size))
    assert [item for batch in batches for item in batch] == items
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(1 <= len(batch) <= size for batch in batches)


def test_no_more_is_taken_than_the_batch_needs() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    assert next(batched(numbers(), 3)) == [0, 1, 2]
    assert taken == [0, 1, 2]


def test_what_was_taken_before_an_error_is_not_lost() -> None:
    def numbers() -> Iterator[int]:
        yield from range(5)
        raise OSError("the file breaks off")

    batches = batched(numbers(), 3)
    assert [next(batches), next(batches)] == [[0, 1, 2], [3, 4]]
    with pytest.raises(OSError, match="breaks off"):
        next(batches)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of the module, laid out as in a checkout."""
    package = tmp_path / "checkout" / "src" / "turnwise" / "_support"
    package.mkdir(parents=True)
    return Path(shutil.copy(revision.__file__, package))


@pytest.fixture
def version_of() -> Callable[[Path], str]:
    """Return a function that asks a copy of the module for its code version, as a new process would."""

    def ask(module: Path) -> str:
        spec = importlib.util.spec_from_file_location("copied_revision", module)
        assert spec is not None
        assert spec.loader is not None
        loaded: ModuleType = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        version: str = loaded.code_version()
        return version

    return ask


def git(folder: Path, *arguments: str) -> str:
    # No setting of the user's, such as signed commits, is to matter here.
    settings = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *settings, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_it_begins_with_the_version_and_stays_the_same() -> None:
    version = revision.code_version()
    assert re.fullmatch(re.escape(__version__) + r"(\+g[0-9a-f]{12}(\.dirty)?)?", version)
    assert revision.code_version() == version


def test_outside_a_checkout_it_is_the_version(copied: Path, version_of: Callable[[Path], str]) -> None:
    assert version_of(copied) == __version__


@needs_git
def test_in_a_checkout_it_names_the_revision_and_whether_it_was_changed(
    copied: Path, version_of: Callable[[Path], str]
) -> None:
    checkout = copied.parents[3]
    git(checkout, "init", "--quiet")
    assert version_of(copied) == __version__  # nothing is committed yet
    git(checkout, "add", "src")
    git(checkout, "commit", "--quiet", "--message", "first")
    committed = f"{__version__}+g{git(checkout, 'rev-parse', '--short=12', 'HEAD')}"
    assert version_of(copied) == committed
    # What is not part of the code, or not under version control, does not make it another code.
    (copied.parent / "notes.txt").write_text("untracked")
    (checkout / "README").write_text("elsewhere")
    git(checkout, "add", "README")
    assert version_of(copied) == committed
    copied.write_text(copied.read_text() + "\n")
    assert version_of(copied) == f"{committed}.dirty"


def test_without_git_it_is_the_version(
    copied: Path, version_of: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied.parents[3] / ".git").mkdir()
    monkeypatch.setenv("PATH", "")
    assert version_of(copied) == __version__
