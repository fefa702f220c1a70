"""Settings that hold for all tests."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import pytest
import typer.main
from hypothesis import settings

settings.register_profile("turnwise", deadline=None, derandomize=True)
settings.load_profile("turnwise")


@pytest.fixture(scope="session", autouse=True)
def _no_file_of_certificates() -> Iterator[None]:
    """Spare the clients a large file that each would read: requests of tests stay on the loopback, without TLS."""
    with pytest.MonkeyPatch.context() as patch:
        if "TURNWISE_LIVE_BASE_URL" not in os.environ:
            patch.delenv("SSL_CERT_FILE", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once() -> Iterator[None]:
    """Keep what typer makes of the command line: making it anew takes longer than most commands that tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield
