"""A model at an endpoint: what is asked, where, at what price; known without a key and without the network."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from typing import Any

from turnwise._support.secret import Secret
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, UsageError
from turnwise.observers.llm.chat import ChatReply, ChatRequest, Message
from turnwise.observers.llm.guard_models import ALTERNATIVES, DERIVED, PRINCIPLE, GuardModel, guard_model
from turnwise.observers.llm.prompt import NO_NONCE, load_frame, prompt_version, render_together
from turnwise.observers.llm.replies import ParsedReply, read_parts
from turnwise.observers.llm.settings import (
    STRUCTURED,
    VERDICT,
    LlmSettings,
    Price,
    Provider,
    prices,
    providers,
    split_spec,
)
from turnwise.observers.protocol import Context, Estimate
from turnwise.principles import Principle
from turnwise.scoring import Reply

TYPICAL_REPLY = 160
"""Tokens that a usual reply has for a score: two or three sentences and three numbers."""

_BYTES_A_TOKEN = 4
_TOKENS_A_MESSAGE = 4

_FIELDS = {"reasoning": "string", "T": "number", "I": "number", "F": "number"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at an endpoint, with the settings that it is asked with; `price` is None where it is not known."""

    provider: Provider
    model: str
    settings: LlmSettings
    price: Price | None
    guard_model: GuardModel | None = None

    @property
    def spec(self) -> str:
        """Specification of the observer, such as ``"llm:openai/gpt-4.1-mini"``."""
        return f"llm:{self.provider.name}/{self.model}"

    @property
    def base_url(self) -> str:
        return self.settings.base_url.rstrip("/") if self.settings.base_url else self.provider.base_url

    @property
    def structured(self) -> str:
        """How JSON is asked for; for a guard model, how its verdict is."""
        return self.settings.structured or (VERDICT[0] if self.guard_model else self.provider.structured)

    @property
    def ways(self) -> Sequence[str]:
        """Ways of asking, from the one that a server may refuse to the one that it can't."""
        return VERDICT if self.guard_model else STRUCTURED

    @property
    def max_tokens(self) -> int:
        most = self.settings.max_tokens
        return min(most, self.guard_model.max_tokens) if self.guard_model else most

    @property
    def parameters(self) -> Mapping[str, object]:
        """All that a score may depend on beside principle and turns; JSON values, kept with every evaluation."""
        return {
            "provider": self.provider.name,
            "model": self.model,
            "base_url": self.base_url,
            "temperature": self.settings.temperature,
            "max_tokens": self.settings.max_tokens,
            "structured": self.structured,
            "extra": dict(self.settings.extra),
            "repeats": self.settings.repeats,
            **self._form,
        }

    @property
    def _form(self) -> Mapping[str, object]:
        model = self.guard_model
        if model is None:
            several = {"together": True, "together_version": load_frame("together.toml").revision}
            return {"frame_version": load_frame().revision, **(several if self.together else {})}
        return {"format": model.name, "format_version": model.revision, "derived": DERIVED}

    def messages(
        self,
        principles: Sequence[Principle],
        turns: Sequence[Turn],
        turn: int,
        side: Side,
        context: Context,
        nonce: str = NO_NONCE,
    ) -> tuple[Message, ...]:
        if self.guard_model:
            return self.guard_model.messages(turns, turn, side, context)
        return render_together(principles, turns, turn, side, context, nonce)

    def reply(
        self,
        answer: ChatReply,
        key: str,
        repeat: int,
        nonce: str,
        structured: str,
        latency_s: float,
        received_at: datetime,
    ) -> Reply:
        """An answer as it is kept, with what it cost."""
        price, cost = self.price, None
        if price is not None and answer.prompt_tokens is not None and answer.completion_tokens is not None:
            cost = price.cost(answer.prompt_tokens, answer.completion_tokens)
        return Reply(
            request_key=key,
            repeat=repeat,
            cost_usd=cost,
            latency_s=latency_s,
            nonce=nonce,
            received_at=received_at,
            structured=structured,
            **asdict(answer),
        )

    def read(self, reply: Reply, names: Sequence[str]) -> list[ParsedReply]:
        """The scores that a reply gives of principles, by their names, or why it gives none."""
        return [self.guard_model.read(reply)] if self.guard_model else read_parts(reply, _prefixes(names))

    def scores(self, principle: Principle) -> bool:
        return self.guard_model is None or principle.name == PRINCIPLE

    def request(
        self, messages: tuple[Message, ...], names: Sequence[str], structured: str | None = None
    ) -> ChatRequest:
        """The request that sends these messages for principles of these names, and asks as `structured` says."""
        structured = structured or self.structured
        parameters: dict[str, object] = {self.provider.token_limit: self.max_tokens}
        if self.settings.temperature is not None:
            parameters["temperature"] = self.settings.temperature
        if structured == "json_schema":
            schema = {"name": "score", "strict": True, "schema": _schema(names)}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif structured == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        elif structured == VERDICT[0]:
            parameters |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if self.guard_model:
            parameters |= self.guard_model.extra[messages[-1].role]
        return ChatRequest(self.model, messages, {**parameters, **self.settings.extra})

    def request_key(
        self, principles: Sequence[Principle], turns: Sequence[Turn], turn: int, side: Side, context: Context
    ) -> str:
        """The hash of URL, parameters, messages without nonce and prompt version: replies are kept by it."""
        names = [principle.name for principle in principles]
        # As it is wanted: a server may make it ask for JSON in a weaker way.
        body = self.request(self.messages(principles, turns, turn, side, context), names).body()
        version = self.guard_model.revision if self.guard_model else prompt_version(*principles)
        whole = {"base_url": self.base_url, "prompt_version": version, "body": body}
        # Lone surrogates, which no UTF-8 has, are escaped like everything beyond ASCII.
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode("ascii")).hexdigest()

    @property
    def price_as_of(self) -> date | None:
        return None if self.price is None else self.price.as_of

    @property
    def reuses_replies(self) -> bool:
        return self.settings.cache

    @property
    def together(self) -> bool:
        return self.settings.together

    def requests(
        self, principles: Sequence[Principle], turns: Sequence[Turn], turn: int, side: Side, context: Context
    ) -> list[tuple[str, int]]:
        """Key and repeat of every request that these scores rest on; none where the model can't give them."""
        if not all(map(self.scores, principles)):
            return []
        key = self.request_key(principles, turns, turn, side, context)
        return [(key, repeat) for repeat in range(1, self.settings.repeats + 1)]

    def is_readable(self, reply: Reply, principles: Sequence[Principle]) -> bool:
        return any(one.score for one in self.read(reply, [principle.name for principle in principles]))

    def estimate(
        self,
        principles: Sequence[Principle],
        turns: Sequence[Turn],
        turn: int,
        side: Side,
        context: Context,
        requests: int | None = None,
    ) -> Estimate:
        """What `requests` of the requests of these scores may cost; all repeats where None."""
        messages = self.messages(principles, turns, turn, side, context)
        count = self.settings.repeats if requests is None else requests
        return estimate(messages, self.price, self.max_tokens, count, len(principles))

    def key(self, environ: Mapping[str, str] = os.environ) -> Secret:
        """The key of the provider; where there is none, an `ObserverError` that names the variable."""
        variable = self.provider.key_variable
        value = environ.get(variable, "").strip() if variable else ""
        if variable and not value and not self.provider.key_optional:
            raise ObserverError(
                f"{self.spec} needs a key: put it into the environment variable {variable}, "
                f"for example with `export {variable}=...`"
            )
        return Secret(value, variable or "no key")


def resolve(argument: str | None, settings: LlmSettings | None = None) -> Endpoint:
    """The model that a specification names behind ``llm:``, without asking for a key or opening a connection.

    >>> resolve("ollama/qwen3:8b").spec
    'llm:ollama/qwen3:8b'
    """
    given = settings or LlmSettings()
    provider, model = split_spec(argument, providers(given.providers_file))
    if given.base_url is not None and given.base_url.rstrip("/") == provider.base_url:
        given = replace(given, base_url=None)  # the provider's own: then the provider's own headers go with it
    price = prices(given.prices_file).find(provider.name, model)
    if given.budget_usd is not None and price is None:
        raise UsageError(
            f"no price is known for {provider.name}/{model}, so a budget can't be kept: leave the budget out, or "
            f'add ["{provider.name}/{model}"] with input, output and as_of to prices.toml'
        )
    return Endpoint(provider, model, given, price, guard_model(given.format) if given.format else None)


def _prefixes(names: Sequence[str]) -> list[str]:
    """What the fields of each principle begin with in a reply; nothing where there is only one."""
    return [f"{name}_" for name in names] if len(names) > 1 else [""]


def _schema(names: Sequence[str]) -> Mapping[str, Any]:
    fields = {f"{prefix}{name}": {"type": kind} for prefix in _prefixes(names) for name, kind in _FIELDS.items()}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def estimate(
    messages: Sequence[Message], price: Price | None, max_tokens: int, repeats: int = 1, scores: int = 1
) -> Estimate:
    """What it may cost to send messages `repeats` times, for some scores at once.

    >>> estimate([Message("user", "a" * 400)], None, 1024).prompt_tokens
    104
    """
    prompt = sum(
        math.ceil(len(message.content.encode("utf-8", "replace")) / _BYTES_A_TOKEN) + _TOKENS_A_MESSAGE
        for message in messages
    )
    reply = min(TYPICAL_REPLY * scores, max_tokens)
    return Estimate(
        prompt_tokens=prompt * repeats,
        completion_tokens=reply * repeats,
        cost_usd=None if price is None else price.cost(prompt, reply) * repeats,
        most_usd=None if price is None else price.cost(prompt, max_tokens) * repeats,
    )
