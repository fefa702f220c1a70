"""Pages run in a folder of their own; what they register is forgotten afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.datasets import DATASETS
from turnwise.detectors import DETECTORS
from turnwise.guard import GUARDRAILS
from turnwise.observers import OBSERVERS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to run a page in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    monkeypatch.delenv("TURNWISE_PATTERNS", raising=False)
    for registry in (DATASETS, DETECTORS, GUARDRAILS, OBSERVERS):
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
