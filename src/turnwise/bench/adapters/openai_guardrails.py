"""OpenAI Guardrails for ``turnwise bench``: pre-flight and input checks of a configuration, asked line by line.

The score is the highest ``confidence`` that a check gives; a check without one has no score.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from guardrails import default_spec_registry
from guardrails.runtime import instantiate_guardrails, load_config_bundle, run_guardrails
from openai import AsyncOpenAI


@dataclass
class Context:
    """What checks ask: a client, and the conversation so far for those that read it."""

    guardrail_llm: AsyncOpenAI
    conversation: list[dict[str, str]]

    def get_conversation_history(self) -> list[dict[str, str]]:
        """Return the conversation so far."""
        return self.conversation


def main() -> None:
    """Answer the questions on standard input; what the package prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.WARNING)
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    stages = [config[name] for name in ("pre_flight", "input") if name in config] or [config]
    checks = [
        check
        for stage in stages
        for check in instantiate_guardrails(load_config_bundle(stage), registry=default_spec_registry)
    ]
    client = AsyncOpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none"))
    loop = asyncio.new_event_loop()
    for line in sys.stdin:
        messages = json.loads(line)["messages"]
        answer: dict[str, Any] = {"version": f"openai-guardrails {version('openai-guardrails')}"}
        try:
            asked = run_guardrails(
                Context(client, messages),
                messages[-1]["content"],
                "text/plain",
                checks,
                suppress_tripwire=True,
                raise_guardrail_errors=True,
            )
            results = loop.run_until_complete(asked)
            answer["flagged"] = any(one.tripwire_triggered for one in results)
            told = [one.info["confidence"] for one in results if one.info.get("confidence") is not None]
            answer["score"] = max(told, default=None)
        except Exception as error:  # noqa: BLE001  # whatever it is, the turn has no answer
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=out, flush=True)  # noqa: T201  # the protocol


if __name__ == "__main__":
    main()
