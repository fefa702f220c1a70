"""What the commands of a study share: the extra they need, and an observer to score with again."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.study.compare.reorder import Rescore


def require_study() -> None:
    """Check that the statistics library is there, before any work is done.

    Raises:
        UsageError: it is not installed; the message says the command that does.
    """
    if find_spec("scipy") is None:
        raise UsageError('a study needs scipy: python -m pip install "turnwise[study]"')


def rescorer() -> Rescore:
    """Return what scores a conversation again by the embedded observer, where that version of it made the run."""
    from turnwise.conversation import Conversation
    from turnwise.evaluate import score_conversation
    from turnwise.observers import Context, build_observer
    from turnwise.principles import builtin_principles
    from turnwise.scoring import TurnScores
    from turnwise.store import Run

    observers = {}

    def rescore(run: Run, conversation: Conversation) -> tuple[TurnScores, ...] | None:
        if run.observer != "local":
            return None
        if "local" not in observers:
            observers["local"] = build_observer("local")
        observer = observers["local"]
        if observer.info.version != run.observer_version:
            return None
        scores, _ = score_conversation(
            observer, conversation, principles=builtin_principles(), context=Context.parse(run.context)
        )
        return scores

    return rescore
