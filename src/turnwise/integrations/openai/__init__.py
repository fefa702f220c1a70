"""A guard around clients of the `openai` package: the same surface, with every chat completion checked."""

from turnwise.integrations.openai.client import GuardedAsyncOpenAI, GuardedOpenAI, guard
from turnwise.integrations.openai.streams import GuardedAsyncStream, GuardedStream

__all__ = ["GuardedAsyncOpenAI", "GuardedAsyncStream", "GuardedOpenAI", "GuardedStream", "guard"]
