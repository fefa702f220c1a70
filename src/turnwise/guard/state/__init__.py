"""State that survives a process: what a pipeline keeps of sessions, conversations and limits."""

from turnwise.guard.state.conversations import FORGOTTEN, STORED
from turnwise.guard.state.kit import check_state_store
from turnwise.guard.state.redis import RedisStateStore
from turnwise.guard.state.settings import StateStatus, open_state_store
from turnwise.guard.state.sqlite import SqliteStateStore
from turnwise.guard.state.stores import TenantStore

__all__ = [
    "FORGOTTEN",
    "STORED",
    "RedisStateStore",
    "SqliteStateStore",
    "StateStatus",
    "TenantStore",
    "check_state_store",
    "open_state_store",
]
