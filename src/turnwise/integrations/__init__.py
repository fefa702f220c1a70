"""The guard and the detectors in other people's frameworks; each framework needs the extra of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnwise.integrations.checking import ConversationFinder

__all__ = ["ConversationFinder", "MissingExtraError"]


class MissingExtraError(ImportError):
    """A framework is not installed; ``extra`` is the extra of turnwise that brings it."""

    def __init__(self, extra: str, error: ImportError) -> None:
        needed = (error.name or extra).partition(".")[0]
        super().__init__(f"turnwise.integrations.{extra} needs {needed}: pip install 'turnwise[{extra}]'")
        self.name = error.name


def __getattr__(name: str) -> Any:
    if name == "ConversationFinder":  # the client of hooks imports this package, and must start at once
        from turnwise.integrations.checking import ConversationFinder

        return ConversationFinder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
