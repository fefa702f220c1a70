"""State that survives a process: what a pipeline keeps of sessions, conversations and limits."""

from turnwise.guard.state.kit import check_state_store
from turnwise.guard.state.redis import RedisStateStore
from turnwise.guard.state.settings import StateStatus, open_state_store
from turnwise.guard.state.sqlite import SqliteStateStore

__all__ = ["RedisStateStore", "SqliteStateStore", "StateStatus", "check_state_store", "open_state_store"]
