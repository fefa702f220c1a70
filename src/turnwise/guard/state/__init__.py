"""State that survives a process: what a pipeline keeps of sessions, conversations and limits."""

from turnwise.guard.state.conformance import check_state_store
from turnwise.guard.state.redis import RedisStateStore
from turnwise.guard.state.settings import open_state_store
from turnwise.guard.state.sqlite import SqliteStateStore
from turnwise.guard.state.status import StateStatus

__all__ = ["RedisStateStore", "SqliteStateStore", "StateStatus", "check_state_store", "open_state_store"]
