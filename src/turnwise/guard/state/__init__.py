"""State that survives: what a pipeline keeps of sessions, conversations and limits."""

from turnwise.guard.state.conformance import check_state_store
from turnwise.guard.state.sqlite import SqliteStateStore

__all__ = ["SqliteStateStore", "check_state_store"]
