"""NeMo Guardrails for ``turnwise bench``: the input rails of a configuration folder, asked line by line."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from importlib.metadata import version
from typing import Any

from nemoguardrails import LLMRails, RailsConfig
from nemoguardrails.rails.llm.options import RailStatus, RailType


def main() -> None:
    """Answer the questions on standard input; what the package prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.WARNING)
    rails = LLMRails(RailsConfig.from_path(sys.argv[1]))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    for line in sys.stdin:
        answer: dict[str, Any] = {"version": f"nemoguardrails {version('nemoguardrails')}"}
        try:
            asked = rails.check_async(json.loads(line)["messages"], rail_types=[RailType.INPUT])
            answer["flagged"] = loop.run_until_complete(asked).status == RailStatus.BLOCKED
        except Exception as error:  # noqa: BLE001  # whatever it is, the turn has no answer
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=out, flush=True)  # noqa: T201  # the protocol


if __name__ == "__main__":
    main()
