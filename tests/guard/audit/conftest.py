"""What the audit tests share: a clock that stands still, and short ways to check and to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnwise.guard import GuardrailPipeline

NOW = datetime(2025, 6, 7, 8, 9, 10, 123456, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where the audit of a test is, or is to be."""
    return tmp_path / "audit.jsonl"


@pytest.fixture
def make_pipeline(log: Path) -> Callable[..., GuardrailPipeline]:
    """Return a function from settings of the audit to a pipeline that warns of personal data."""

    def make(*, path: object = log, **settings: Any) -> GuardrailPipeline:
        config = {
            "name": "tested",
            "guardrails": [{"pii": {"action": "warn"}}, {"length": {"max_characters": 200}}],
            "audit": {"path": str(path), **settings},
        }
        return GuardrailPipeline(config, clock=lambda: NOW)

    return make


@pytest.fixture
def records(log: Path) -> Callable[[], list[dict[str, Any]]]:
    """Return a function that reads the audit of a test."""
    return lambda: [json.loads(line) for line in log.read_text(encoding="ascii").splitlines()]
