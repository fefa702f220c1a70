"""Guardrails by name: those that ship, and those of installed packages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from turnwise.guard.guardrail import Guardrail
from turnwise.plugins import Registry, is_factory, parameters_of

GuardrailFactory = Callable[..., Guardrail]
"""Builds a guardrail from its settings, given by name: its class."""

GUARDRAILS: Registry[GuardrailFactory] = Registry("guardrail", "turnwise.guardrails", is_factory)
for _name, _class in {
    "code": "Code",
    "drift": "Drift",
    "harm": "Harm",
    "keywords": "Keywords",
    "length": "Length",
    "llm": "Llm",
    "openai_moderation": "OpenAIModeration",
    "pii": "Pii",
    "presidio": "Presidio",
    "prompt_injection": "PromptInjection",
    "regex": "Regex",
    "secrets": "Secrets",
    "topics": "Topics",
    "toxicity": "Toxicity",
    "urls": "Urls",
}.items():
    GUARDRAILS.add_lazy(_name, f"turnwise.guard.guardrails.{_name}:{_class}")

guardrail = GUARDRAILS.register
"""Decorator that registers a guardrail's class under a name."""


@dataclass(frozen=True, slots=True)
class GuardrailInfo:
    """What a person should know of a guardrail before using it.

    Args:
        name: name under which it is registered.
        summary: what it is for, in a line.
        settings: default by setting; ``"required"`` where there is none.
    """

    name: str
    summary: str
    settings: Mapping[str, Any]


def guardrail_names() -> tuple[str, ...]:
    """Return the name of every guardrail that can be built, sorted.

    >>> {"drift", "pii", "length"} <= set(guardrail_names())
    True
    """
    return GUARDRAILS.names()


def describe_guardrails() -> tuple[GuardrailInfo, ...]:
    """Return what is to be known of every guardrail, sorted by name.

    Raises:
        PluginError: a plug-in that has a guardrail failed to import.
    """
    rows = []
    for name in GUARDRAILS.names():
        factory = GUARDRAILS.get(name)
        summary = (inspect.getdoc(factory) or "").partition("\n")[0]
        rows.append(GuardrailInfo(name, summary, parameters_of(factory)))
    return tuple(rows)
