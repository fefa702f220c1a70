"""How many function calls a check takes: a count, so that it says the same on every machine."""

from __future__ import annotations

import sys

from benchmarks.guard_calls import GUARD, calls_of_a_check

MOST_IN_ALL = 148 if sys.version_info < (3, 12) else 147
"""Calls of Python functions in a check with preset customer_service, those of the observer left out.

Comprehensions are calls before Python 3.12."""

MOST_OF_THE_PIPELINE = 19
"""Those in the pipeline itself: the guard without its guardrails, its recognisers and what asks observers."""

MOST_OF_THE_GUARDRAILS = 36
"""Those of the guardrails with their recognisers; half of them are of ``drift``, which looks at no text."""


def test_a_plain_prompt_takes_few_function_calls() -> None:
    calls = calls_of_a_check("customer_service")
    by_part = dict(calls.python.most_common())
    assert calls.total <= MOST_IN_ALL, by_part
    assert calls.python[GUARD] <= MOST_OF_THE_PIPELINE, by_part
    assert calls.python["guard/guardrails"] + calls.python["guard/recognisers"] <= MOST_OF_THE_GUARDRAILS, by_part
