"""``llm:provider/model``: a language model as observer.

`observer` asks through `calls` (kept replies, retries) for what an `endpoint` asks for: a `prompt`, or the format
of `guard_models`. `settings` also has the tables of providers and prices; `replies` reads what came. `chat` says
what a client is, `openai_client` is one, `faults` are its errors, `limits` its budget and pace. `batches` sends
many requests as one.
"""

from turnwise.observers.llm.batches import Batch, BatchDone
from turnwise.observers.llm.chat import ChatClient, ChatReply, ChatRequest, Message, ScriptedClient
from turnwise.observers.llm.endpoint import Endpoint, estimate, resolve
from turnwise.observers.llm.faults import ChatError, FaultKind
from turnwise.observers.llm.observer import LastingLlmObserver, LlmObserver, LlmState
from turnwise.observers.llm.prompt import fresh_nonce, prompt_version, render
from turnwise.observers.llm.settings import INLINE, LlmSettings, Price, PriceTable, Provider, prices, providers

__all__ = [
    "INLINE",
    "Batch",
    "BatchDone",
    "ChatClient",
    "ChatError",
    "ChatReply",
    "ChatRequest",
    "Endpoint",
    "FaultKind",
    "LastingLlmObserver",
    "LlmObserver",
    "LlmSettings",
    "LlmState",
    "Message",
    "Price",
    "PriceTable",
    "Provider",
    "ScriptedClient",
    "estimate",
    "fresh_nonce",
    "prices",
    "prompt_version",
    "providers",
    "render",
    "resolve",
]
