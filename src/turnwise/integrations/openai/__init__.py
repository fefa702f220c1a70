"""A guard around clients of the `openai` package: the same surface, with every chat completion checked."""

from turnwise.integrations.clients.streams import GuardedAsyncStream, GuardedStream
from turnwise.integrations.openai.client import GuardedAsyncOpenAI, GuardedOpenAI, guard

__all__ = ["GuardedAsyncOpenAI", "GuardedAsyncStream", "GuardedOpenAI", "GuardedStream", "guard"]
