"""Calls the hooks of the guardrail as LiteLLM's proxy does, with its classes: run by an interpreter that has it.

Reads lines of JSON with ``calls`` from standard input, and answers each with what came of them: ``passed``, or
``refused``; or with an ``error``.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import traceback
from collections.abc import AsyncIterator, Mapping
from io import BytesIO
from typing import Any

from fastapi import HTTPException
from litellm.exceptions import GuardrailRaisedException
from litellm.proxy._types import UserAPIKeyAuth
from litellm.types.utils import CallTypes

from turnwise import GuardrailPipeline
from turnwise.integrations.litellm import TurnwiseGuardrail

USER = UserAPIKeyAuth(api_key="sk-1", end_user_id="ann")


def built(given: Any) -> Any:
    """Return a value with what stands for objects: ``{"class": path, "of": {...}}`` and ``{"bytes": text}``."""
    if isinstance(given, list):
        return [built(one) for one in given]
    if not isinstance(given, Mapping):
        return given
    if set(given) == {"class", "of"}:
        module, _, name = given["class"].rpartition(".")
        return getattr(importlib.import_module(module), name)(**built(given["of"]))
    if set(given) == {"bytes"}:
        return given["bytes"].encode()
    if set(given) == {"file"}:
        return BytesIO(given["file"].encode())
    return {key: built(value) for key, value in given.items()}


def told(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, bytes):
        return {"bytes": value.decode()}
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


async def call(guardrails: dict[str, TurnwiseGuardrail], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came of a request, of its reply where there is one, or of its reply in pieces."""
    config = json.dumps(given["config"])
    if config not in guardrails:
        pipeline = GuardrailPipeline(given["config"]) if isinstance(given["config"], dict) else None
        preset = None if pipeline else given["config"]
        hooks = given.get("mode", ["pre_call", "post_call"])
        guardrails[config] = TurnwiseGuardrail(
            pipeline,
            turnwise_preset=preset,
            turnwise_trust_system=given.get("trust_system", False),
            guardrail_name="turnwise",
            event_hook=hooks,
            default_on=True,
        )
    guardrail, data = guardrails[config], built(given["data"])
    try:
        if "call_type" in given:
            data = await guardrail.async_pre_call_hook(USER, None, data, given["call_type"])
            if "reply" not in given and "chunks" not in given:
                return {"passed": json.loads(json.dumps(data, default=repr))}
        if "reply" in given:
            reply = built(given["reply"])
            return {"passed": told(await guardrail.async_post_call_success_hook(data, USER, reply) or reply)}

        async def pieces() -> AsyncIterator[Any]:
            for chunk in built(given["chunks"]):
                yield chunk

        stream = guardrail.async_post_call_streaming_iterator_hook(USER, pieces(), data)
        return {"passed": [told(chunk) async for chunk in stream]}
    except HTTPException as error:
        return {"refused": error.detail, "status": error.status_code}
    except GuardrailRaisedException as error:
        return {"refused": {"error": str(error)}, "status": 400}


async def batch(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make calls one after the other, with guardrails of their own."""
    guardrails: dict[str, TurnwiseGuardrail] = {}
    return [await call(guardrails, one) for one in calls]


def main() -> None:
    """Answer lines until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            outcomes = asyncio.run(batch(json.loads(line)["calls"]))
            told: dict[str, Any] = {"call_types": [one.value for one in CallTypes], "outcomes": outcomes}
        except Exception:  # noqa: BLE001 - whatever it is, the test is told
            told = {"error": traceback.format_exc()}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
