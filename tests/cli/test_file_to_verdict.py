"""How much code a conversation passes from a file to its verdict: a count, so that it says the same everywhere."""

from __future__ import annotations

import pytest
from benchmarks.file_to_verdict import Passed, check, stored


@pytest.mark.parametrize(("count", "files"), [(check, 40), (stored, 96)])
def test_a_verdict_takes_few_files(count, files, monkeypatch):
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    found: Passed = count()
    assert len(found.files) <= files, sorted(found.files)
