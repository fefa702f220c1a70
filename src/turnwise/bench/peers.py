"""Other guards' side of ``turnwise bench``: run as a file in an environment that has the peer, without turnwise.

``python peers.py nemo FOLDER`` or ``python peers.py openai-guardrails FILE`` answers each line of JSON with one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Ask = Callable[[list[dict[str, str]]], Coroutine[Any, Any, dict[str, Any]]]


def nemo(path: str) -> Ask:
    """The input rails of a configuration of NeMo Guardrails; a rail blocks or not, and has no score."""
    from nemoguardrails import LLMRails, RailsConfig
    from nemoguardrails.rails.llm.options import RailStatus, RailType

    rails = LLMRails(RailsConfig.from_path(path))

    async def ask(messages: list[dict[str, str]]) -> dict[str, Any]:
        result = await rails.check_async(messages, rail_types=[RailType.INPUT])
        return {"flagged": result.status == RailStatus.BLOCKED}

    return ask


def openai_guardrails(path: str) -> Ask:
    """Pre-flight and input checks of a configuration of OpenAI Guardrails; the score is the highest confidence."""
    from guardrails import default_spec_registry
    from guardrails.runtime import instantiate_guardrails, load_config_bundle, run_guardrails
    from openai import AsyncOpenAI

    config = json.loads(Path(path).read_text(encoding="utf-8"))
    stages = [config[name] for name in ("pre_flight", "input") if name in config] or [config]
    bundles = [instantiate_guardrails(load_config_bundle(one), registry=default_spec_registry) for one in stages]
    checks = [check for bundle in bundles for check in bundle]
    client = AsyncOpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none"))

    async def ask(messages: list[dict[str, str]]) -> dict[str, Any]:
        context = SimpleNamespace(guardrail_llm=client, get_conversation_history=lambda: messages)
        last = messages[-1]["content"]
        how = {"suppress_tripwire": True, "raise_guardrail_errors": True}
        results = await run_guardrails(context, last, "text/plain", checks, **how)
        told = [one.info["confidence"] for one in results if one.info.get("confidence") is not None]
        return {"flagged": any(one.tripwire_triggered for one in results), "score": max(told, default=None)}

    return ask


PEERS = {"nemo": ("nemoguardrails", nemo), "openai-guardrails": ("openai-guardrails", openai_guardrails)}


def main() -> None:
    """Answer the questions on standard input; what the package prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.WARNING)
    os.environ.setdefault("DO_NOT_TRACK", "1")  # else NeMo Guardrails reports its use
    package, build = PEERS[sys.argv[1]]
    told = {"version": f"{package} {version(package)}"}
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    ask = build(sys.argv[2])
    for line in sys.stdin:
        try:
            answer = loop.run_until_complete(ask(json.loads(line)["messages"]))
        except Exception as error:  # noqa: BLE001  # whatever it is, the turn has no answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer | told), file=out, flush=True)  # the protocol


if __name__ == "__main__":
    main()
