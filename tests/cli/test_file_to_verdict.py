"""How much code a conversation passes from a file to its verdict: a count, so that it says the same everywhere."""

from __future__ import annotations

import pytest
from benchmarks.file_to_verdict import Passed, check, stored


@pytest.mark.parametrize(("count", "files", "calls"), [(check, 37, 620), (stored, 96, 2_050)])
def test_a_verdict_takes_few_files_and_calls(count, files, calls, monkeypatch):
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    found: Passed = count()
    assert len(found.files) <= files, sorted(found.files)
    assert found.calls <= calls, found
