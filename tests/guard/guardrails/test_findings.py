"""What is found in varied texts, word for word; and no text, however long, keeps a guardrail busy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnwise.guard import Guardrail, build_guardrail, finding_of

GUARDRAILS: dict[str, Guardrail] = {
    "code": build_guardrail("code"),
    "pii": build_guardrail("pii"),
    "secrets": build_guardrail("secrets"),
    "toxicity": build_guardrail("toxicity", warn_above=0.01),
}
TEXTS = json.loads(Path(__file__).with_name("findings.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", TEXTS, ids=range(len(TEXTS)))
def test_findings_word_for_word(case: dict[str, Any]) -> None:
    text = case["text"]
    found: dict[str, Any] = {}
    for name, guardrail in GUARDRAILS.items():
        finding = finding_of(guardrail, text)
        if finding.redactions:
            found[name] = [[each.kind, text[each.start : each.end]] for each in finding.redactions]
        elif finding.found:
            found[name] = [finding.reason, pytest.approx(finding.confidence, abs=1e-6)]
    assert found == case["found"]


@pytest.mark.parametrize(
    ("name", "start", "repeated", "found"),
    [
        ("code", "SELECT", " ", "\nrm -rf /x"),
        ("code", "rm -", "r", "\nrm -rf /x"),
        ("code", "function", " ", "\nrm -rf /x"),
        ("code", "printf", " ", "\nrm -rf /x"),
        ("code", "<?php", "?", "?>\nrm -rf /x"),
        ("secrets", "", "PuTTY-User-Key-File-2", " password: hunter22x7"),
        ("secrets", "", "de12 ", " A-K-I-A-Q-Z-7-X-W-2-P-L-M-4-N-B-6-V-C-K"),
        ("pii", "a@", "a.", " jane@example.com"),
        ("pii", "passport ", "passport ", "c01x00t47"),
        ("pii", "", "QQQQQQQQQQQQQ\n", " jane@example.com"),
        ("toxicity", "1a ", "!", " you idiot"),
        ("toxicity", "", "“", " you idiot"),
    ],
)
def test_a_very_long_row_is_read_to_its_end(name: str, start: str, repeated: str, found: str) -> None:
    """Each of these takes minutes or more where the time grows with the square of the length."""
    text = start + repeated * (100_000 // len(repeated)) + found
    finding = finding_of(GUARDRAILS[name], text)
    assert finding.found
    assert not finding.redactions or finding.redactions[-1].end == len(text)
