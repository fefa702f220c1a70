from __future__ import annotations

from collections.abc import Iterator

import pytest
from framework_agents import RAN
from model_api import ModelServer


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A model that says what a test sets, and looked nobody up yet."""
    RAN.clear()
    with ModelServer() as served:
        yield served
