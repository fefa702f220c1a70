"""The embedded observers: a small language model that reads conversations, and a smaller network for screening."""

from turnwise.observers.local.observer import LocalObserver, LocalSmallObserver, ReaderState

__all__ = ["LocalObserver", "LocalSmallObserver", "ReaderState"]
