"""Settings that hold for all tests."""

from __future__ import annotations

import functools
import gc
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import settings
from postgresql_server import PostgresqlServer, running

settings.register_profile("turnwise", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("turnwise")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep modules and collected tests out of every later search for garbage: a fifth of the time of all tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests of servers, frameworks and browsers unread where nobody wants them: they need more packages."""
    others = Path(__file__).with_name("integration")
    return True if config.option.markexpr == "not integration" and collection_path == others else None


def pytest_unconfigure() -> None:
    """Let the end of the interpreter clear away what was kept out."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _no_file_of_certificates() -> Iterator[None]:
    """Spare the clients a large file that each would read: requests of tests stay on the loopback, without TLS."""
    with pytest.MonkeyPatch.context() as patch:
        if "TURNWISE_LIVE_BASE_URL" not in os.environ:
            patch.delenv("SSL_CERT_FILE", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _the_users_cache_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep indexes of findings that tests make out of the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _processes_share_what_they_compile(pytestconfig: pytest.Config) -> Iterator[None]:
    """Where Python may write no bytecode beside the sources, let processes of tests keep it in pytest's cache."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode and (cache := getattr(pytestconfig, "cache", None)):
            patch.setenv("PYTHONPYCACHEPREFIX", str(cache.mkdir("bytecode")))
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _output_is_as_wide_as_that_of_a_file() -> Iterator[None]:
    """Forget how wide a terminal is said to be: the workers of pytest-xdist are told a width, a file has none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once() -> Iterator[None]:
    """Keep what typer makes of the command line: making it anew takes longer than most commands that tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def _shipped_weights_are_read_once() -> Iterator[None]:
    """Keep the weights that ship once they were read: unpacking takes up to a second, and nothing changes them."""
    # Not above: workers of pytest-xdist measure coverage only once this file was read.
    from turnwise.observers.local import load_weights, observer, shipped

    kept = functools.cache(load_weights)

    def load(folder: Path | str) -> Any:
        return kept(folder) if folder in (shipped("local"), shipped("local-small")) else load_weights(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observer, "load_weights", load)
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """Return a real PostgreSQL, shared by all tests that want one; where it is not installed, they fail."""
    with running(fsync="off", full_page_writes="off") as server:
        yield server


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Done]


def outcome(*arguments: object) -> int:
    """Run ``turnwise`` with arguments and return its exit code."""
    from turnwise.cli import main

    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    code = leaving.value.code
    return code if isinstance(code, int) else 0 if code is None else 1


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run ``turnwise`` with arguments in an empty folder; checks that no traceback was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)

    def run(*arguments: object) -> Done:
        code = outcome(*arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Done(code, out, err)

    return run
