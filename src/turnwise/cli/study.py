"""What the commands of a study share: the extra they need, and an observer to score with again."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.observers import Observer
    from turnwise.study.compare.checks import Rescore


EXTRA = 'python -m pip install "turnwise[study]"'
"""What installs the libraries that a study needs."""

FOR_A_REPORT = ("scipy", "altair", "vl_convert")
"""Packages that a report rests on."""


def require_study(*packages: str) -> None:
    """Check that the statistics library is there, and what else is needed, before any work is done.

    Args:
        packages: further packages that are needed.

    Raises:
        UsageError: one is not installed; the message says the command that does.
    """
    lacking = [package for package in ("scipy", *packages) if not is_installed(package)]
    if lacking:
        raise UsageError(f"a study needs {', '.join(lacking)}: {EXTRA}")


def is_installed(*packages: str) -> bool:
    """Return whether packages can be imported, without importing them."""
    return all(find_spec(package) is not None for package in packages)


def check_file(file: Path | None) -> None:
    """Check that a file can be written, before any work is done for it.

    Raises:
        UsageError: it is a folder, or the folder that it would stand in does not exist.
    """
    if file is None:
        return
    if not file.parent.is_dir():
        raise UsageError(f"can't write {file}: there is no folder {file.parent}")
    if file.is_dir():
        raise UsageError(f"can't write {file}: it is a folder")


def rescorer() -> Rescore:
    """Return what scores a conversation again by the observer that made the run, where it computes its scores."""
    from turnwise.conversation import Conversation
    from turnwise.report import score
    from turnwise.scoring import TurnScores
    from turnwise.store import Run

    observers: dict[str, Observer | None] = {}

    def rescore(run: Run, conversation: Conversation) -> tuple[TurnScores, ...] | None:
        if run.observer not in observers:
            observers[run.observer] = _built_again(run.observer)
        observer = observers[run.observer]
        if observer is None:
            return None
        if observer.info.version != run.observer_version:
            return None
        return score(conversation, observer, context=run.context).turns

    return rescore


def _built_again(spec: str) -> Observer | None:
    """Return an observer that computes its scores from the texts alone; None for any other."""
    from turnwise.errors import TurnwiseError
    from turnwise.observers import Workers, build_observer, describe_observer

    try:
        if describe_observer(spec).workers is Workers.PROCESSES:
            return build_observer(spec)
    except TurnwiseError:
        return None
    return None
