"""Guards of other packages as commands of ``turnwise bench``: a line of JSON in, a line of JSON out.

    turnwise bench run 'semfire=command:semfire-env/bin/python examples/bench/peers.py semfire'

It runs in an environment that has the package, and needs nothing of turnwise. A guard of your own looks like
one of these functions: it takes the messages so far, and says whether the last one is flagged and, if it can,
a score.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

Messages = list[dict[str, str]]
Ask = Callable[[Messages], dict[str, Any]]


def semfire() -> Ask:
    """SemFire: rules on the last message and the messages before it; a score is the highest of its detectors'."""
    from semantic_firewall import SemanticFirewall

    class Keeping(SemanticFirewall):
        def analyze_conversation(self, *given: Any) -> dict[str, Any]:
            self.found = super().analyze_conversation(*given)
            return self.found

    firewall = Keeping()

    def ask(messages: Messages) -> dict[str, Any]:
        *before, last = [message["content"] for message in messages]
        flagged = firewall.is_manipulative(last, before)
        names = ("rule_based_probability", "echo_chamber_probability", "probability", "score")
        scores = [each.get(name) for each in firewall.found.values() for name in names]
        return {
            "flagged": flagged,
            "score": max((one for one in scores if one is not None and 0 <= one <= 1), default=0),
        }

    return ask


def llm_injection_guard() -> Ask:
    """llm-injection-guard: patterns on each prompt, and the risk of the session that they add up to."""
    from llm_injection_guard import InjectionDetectedError, SessionScanner

    def ask(messages: Messages) -> dict[str, Any]:
        session, flagged, risk = SessionScanner(), False, 0.0
        for message in messages:
            if message["role"] == "user":
                try:
                    found = session.scan(message["content"], session_id="one")
                    flagged, risk = found.is_injection, found.risk_score
                except InjectionDetectedError:
                    flagged = True
        return {"flagged": flagged, "score": min(1.0, max(risk, session.session_risk("one")) / 100)}

    return ask


def llm_guard() -> Ask:
    """LLM Guard: what runs without weights, on each prompt alone; a score is the highest risk."""
    from llm_guard import scan_prompt
    from llm_guard.input_scanners import BanSubstrings, InvisibleText, Secrets
    from llm_guard.input_scanners.ban_substrings import PROMPT_STOP_SUBSTRINGS

    scanners = [BanSubstrings(PROMPT_STOP_SUBSTRINGS), InvisibleText(), Secrets()]

    def ask(messages: Messages) -> dict[str, Any]:
        _, valid, risks = scan_prompt(scanners, messages[-1]["content"])
        return {"flagged": not all(valid.values()), "score": min(1.0, max([0.0, *risks.values()]))}

    return ask


PEERS = {"semfire": semfire, "llm-injection-guard": llm_injection_guard, "llm-guard": llm_guard}


def main() -> None:
    """Answer the questions on standard input; what packages print goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    logging.disable(logging.ERROR)
    name = sys.argv[1]
    ask = PEERS[name]()
    for line in sys.stdin:
        try:
            answer = ask(json.loads(line)["messages"])
        except Exception as error:  # noqa: BLE001  # whatever it is, the turn has no answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({**answer, "version": f"{name} {version(name)}"}), file=out, flush=True)


if __name__ == "__main__":
    main()
