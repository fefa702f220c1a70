"""A real PostgreSQL for tests: made in a folder of its own, on a free port of the loopback, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ADMIN = "keeper"
"""Who owns the server, and needs no password."""

_PATIENCE_S = 40.0
_PAUSE_S = 0.02


class PostgresqlServer:
    """One server with its data and settings. It can be killed and started again on the same port."""

    password = "s3cret-word"

    def __init__(self, *, checksums: bool = False, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="turnwise-postgresql-"))
        self._user = _user_without_rights()
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self.data = self.folder / "data"
        self.port = _free_port()
        self._settings = {"fsync": "on", "max_connections": "60", **settings}
        self._schemas = 0
        self._process: subprocess.Popen[bytes] | None = None
        flags = ["--data-checksums"] if checksums else []
        word = self.folder / "password"
        word.write_text(f"{self.password}\n")
        flags += ["--auth-local=reject", "--auth-host=scram-sha-256", f"--username={ADMIN}", f"--pwfile={word}"]
        made = subprocess.run(
            [_program("initdb"), "--pgdata", self.data, "--encoding=UTF8", "--locale=C", "--no-sync", *flags],
            text=True,
            capture_output=True,
            user=self._user,
            cwd=self.folder,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"initdb could not make a PostgreSQL: {made.stderr.strip()}")

    def start(self) -> None:
        """Start it, and return once it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", self.data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.folder,
                start_new_session=True,
            )
        wait_until(self._answers, f"PostgreSQL does not answer; {self.folder / 'log'} says why")

    def kill(self) -> None:
        """End it as a loss of power would: no farewell to anybody, and nothing tidied up."""
        assert self._process is not None
        # The postmaster alone gets the signal: the others notice its end, and go without writing anything.
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None
        wait_until(lambda: not self._in_use(), "the processes of the PostgreSQL that was killed are still there")

    def stop(self) -> None:
        """End it in order, without waiting for clients; what is stopped may be stopped again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def remove(self) -> None:
        """Stop it and delete what it held."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(
        self, database: str = "postgres", *, user: str = ADMIN, password: str | None = None, query: str = ""
    ) -> str:
        """Return the URL of a database, password included."""
        word = self.password if password is None else password
        return f"postgresql://{user}:{word}@127.0.0.1:{self.port}/{database}{query and '?' + query}"

    def ask(self, statement: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement over a connection of its own, and return its rows."""
        return ask_directly(self.url(database), statement, *values)

    def new_schema(self) -> str:
        """Make an empty schema, and return the URL of it."""
        self._schemas += 1
        self.ask(f"CREATE SCHEMA store_{self._schemas}")
        return self.url(query=f"options=-csearch_path%3Dstore_{self._schemas}")

    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended: {(self.folder / 'log').read_text()[-2_000:]}")
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _in_use(self) -> bool:
        """Return whether a process of the server is left: they all have its folder as their working directory."""
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                try:
                    if (process / "cwd").readlink() == self.data:
                        return True
                except OSError:
                    continue
        return False


@contextmanager
def running(*, checksums: bool = False, **settings: str) -> Iterator[PostgresqlServer]:
    """Give a server that runs while the block does."""
    server = PostgresqlServer(checksums=checksums, **settings)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def wait_until(holds: Callable[[], bool], otherwise: str, seconds: float = _PATIENCE_S) -> None:
    """Return once something holds, or fail with a message."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise RuntimeError(otherwise)
        time.sleep(_PAUSE_S)


def _program(name: str) -> str:
    """Return one of the server's programs, of the latest version that is installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which(name) or next(
        (str(path / name) for path in folders[::-1] if (path / name).exists()), None
    )
    if found is None:
        raise RuntimeError(f"these tests need PostgreSQL's {name}, which is not here: apt-get install postgresql")
    return found


def _user_without_rights() -> str | None:
    """Return who may run a server, which refuses the superuser; None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask_directly(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement over a connection of its own, and return its rows."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def held_up(url: str) -> Iterator[None]:
    """Hold the lock of who writes to the store in a schema while the block runs."""
    import psycopg

    with psycopg.connect(url) as connection:
        namespace = "(SELECT oid::int4 FROM pg_namespace WHERE nspname = current_schema())"
        connection.execute(f"SELECT pg_advisory_xact_lock({namespace}, -1)".encode())
        yield
        connection.rollback()
