"""The conformance kit: every guardrail that ships passes it, and it finds what a guardrail must not do."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from chat_server import ChatServer
from guard_rails import Contains, Waits
from moderation_server import ModerationServer

from turnwise.guard import (
    GUARDRAILS,
    Check,
    Finding,
    Guardrail,
    Redaction,
    build_guardrail,
    check_guardrail,
    guardrail_names,
)

SETTINGS: dict[str, dict[str, Any]] = {
    "actions": {},
    "code": {},
    "data_flow": {},
    "drift": {"observer": "scripted:0.1,0.2", "warn_share": 0.5, "block_at": 0.9},
    "harm": {"observer": "local-small", "warn_above": 0.5, "block_above": 0.8},
    "keywords": {"keywords": ["parcel", "Köln"]},
    "length": {"max_characters": 1_000, "min_characters": 1},
    "pii": {},
    "probing": {},
    "prompt_injection": {"observer": "local-small", "warn_above": 0.5, "block_above": 0.8},
    "regex": {"patterns": {"number": "[0-9]{4}"}},
    "secrets": {},
    "sources": {"observer": None},
    "topics": {"deny": {"parcels": ["parcel*"]}},
    "toxicity": {},
    "urls": {"ip_addresses": True},
}
"""Settings of the guardrails that ship and need nobody else."""

ELSEWHERE = {"llm", "openai_moderation", "presidio"}
"""Those that ask a server or need a package of their own."""


def test_every_guardrail_that_ships_is_here() -> None:
    shipped = {name for name in guardrail_names() if GUARDRAILS.get(name).__module__.startswith("turnwise.")}
    assert shipped == SETTINGS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", SETTINGS)
def test_guardrails_that_ship_keep_the_contract(name: str) -> None:
    check_guardrail(build_guardrail(name, **SETTINGS[name]))


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")


@pytest.fixture
def servers(key: None) -> Iterator[dict[str, dict[str, Any]]]:
    score = json.dumps({"reasoning": "calm", "T": 0.9, "I": 0.1, "F": 0.1})
    with ChatServer(lambda body: score) as chat, ModerationServer() as moderation:
        model = {"observer": "llm:openai/gpt-4.1-mini", "base_url": chat.url, "principles": ["third_party_harm"]}
        yield {"llm": model, "openai_moderation": {"base_url": moderation.url}}


@pytest.mark.parametrize("name", ["llm", "openai_moderation"])
def test_guardrails_that_ask_a_server_keep_the_contract(name: str, servers: dict[str, dict[str, Any]]) -> None:
    check_guardrail(build_guardrail(name, **servers[name]))


@pytest.mark.skipif(importlib.util.find_spec("presidio_analyzer") is None, reason="needs turnwise[presidio]")
def test_presidio_keeps_the_contract() -> None:
    check_guardrail(build_guardrail("presidio", model="none"))


def test_guardrails_of_a_user_keep_it() -> None:
    check_guardrail(Contains("parcel"))
    check_guardrail(Waits("parcel"))


@dataclass(frozen=True)
class Careless(Guardrail):
    """Breaks one part of the contract."""

    redacts: ClassVar[bool] = True
    default_timeout: ClassVar[float | None] = None

    does: Callable[[Check], Any]

    def check(self, check: Check) -> Finding:
        return self.does(check)


class Forgets(Guardrail):
    """Does not keep its setting."""

    default_timeout: ClassVar[float | None] = None

    def __init__(self, word: str = "bad") -> None:
        self._word = word

    def check(self, check: Check) -> Finding:
        return Finding(self._word in check.text, "found")


class Counts(Guardrail):
    """Remembers what is not kept with the conversation."""

    default_timeout: ClassVar[float | None] = None

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def check(self, check: Check) -> Finding:
        seen = self._seen[check.session_id] = self._seen.get(check.session_id, 0) + 1
        return Finding(seen > 2, "too many")


class Differs(Waits):
    """Says something else where it is awaited."""

    async def acheck(self, check: Check) -> Finding:
        return Finding(found=True, reason="always")


class CannotRedact(Guardrail):
    """Redacts, though its class says that it does not."""

    def check(self, check: Check) -> Finding:
        return Finding(bool(check.text), "x", redactions=(Redaction(0, 1, "x"),) if check.text else ())


def changes_the_turn(check: Check) -> Finding:
    check.turn.metadata["mine"] = True
    return Finding(found=False)


def changes_the_text(check: Check) -> Finding:
    check.text = check.text.strip() + "."
    return Finding(found=False)


def raises_on_empty(check: Check) -> Finding:
    return Finding(bool(check.text[0]), "found")


def redacts_too_much(check: Check) -> Finding:
    return Finding(found=True, reason="x", redactions=(Redaction(0, 10**6, "x"),))


def another_each_time() -> Callable[[Check], Finding]:
    numbers = itertools.count()
    return lambda check: Finding(next(numbers) % 7 == 0, "found")


@pytest.mark.parametrize(
    ("guardrail", "told"),
    [
        (Careless(changes_the_turn), "changed the conversation"),
        (Careless(changes_the_text), "changed the check"),
        (Careless(raises_on_empty), "the text '', prompt: IndexError"),
        (Careless(lambda check: "found"), "returned str, not a Finding"),
        (Careless(redacts_too_much), "redaction 0:1000000"),
        (Careless(lambda check: Finding(False, data={"set": {1}})), "data holds a set"),
        (Careless(another_each_time()), "it differs"),
        (Forgets(), "the setting 'word' can't be read back"),
        (Counts(), "a conversation that comes back from JSON"),
        (Differs(), "acheck differs"),
        (CannotRedact(), "redacts = False"),
    ],
)
def test_a_guardrail_that_breaks_the_contract_is_told_how(guardrail: Guardrail, told: str) -> None:
    with pytest.raises(AssertionError) as error:
        check_guardrail(guardrail)
    assert told in str(error.value)
