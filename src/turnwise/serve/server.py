"""Processes and sockets: one worker in this process, or several under a supervisor that replaces dead ones."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import logging
import os
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from turnwise._support.process_memory import keep_no_freed_arrays
from turnwise.errors import UsageError
from turnwise.serve.settings import ConfigSource, ServeSettings

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from turnwise.serve.connections import EndingServer

_HANGUP: int | None = getattr(signal, "SIGHUP", None)
_QUICK_DEATH = 5.0
"""Seconds after whose passing a worker that ends counts as one that ran."""

_CLOSE_SECONDS = 0.5
"""Seconds that checks which were cancelled have to end, and to be told the audit."""

_ORPHAN_SECONDS = 1.5
"""Seconds after which a worker is gone whose supervisor was killed."""

_PAUSE = 1.0
"""Seconds before a worker that died at once is begun again."""

_ATTACH_FILTER: Final = 26
"""Linux's SO_ATTACH_FILTER, which Python gives no name."""

_DROP: Final = struct.pack("HBBI", 6, 0, 0, 0)
"""A packet filter of one instruction: keep nothing."""

_log = logging.getLogger("turnwise.serve")


@dataclass(frozen=True, slots=True)
class Listening:
    """What a server listens on (port 0 is a free one), bounds of each worker, and how it ends."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    connections: int = 4_096
    header_seconds: float = 10.0
    grace_seconds: float = 30.0


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    source: ConfigSource, settings: ServeSettings, listening: Listening, told: Callable[[str], None]
) -> None:
    """Serve until a signal ends it; `told` is given a line once it serves. SIGHUP reads the configuration anew."""
    if settings.keys is None and not is_loopback(listening.host):
        raise UsageError(
            f"{listening.host} is reached from other machines: give API keys with --keys FILE or in "
            "TURNWISE_API_KEYS, or listen on 127.0.0.1"
        )
    _raise_file_limit()
    config = source.read()
    with (
        contextlib.closing(_listen(listening)) as opened,
        tempfile.TemporaryDirectory(prefix="turnwise-") as folder,
    ):
        host, port = opened.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        line = f"turnwise serves {config.name} on http://{shown}:{port}"
        if listening.workers == 1:
            ended = work(source, settings, listening, opened, lambda: told(line))
        else:
            if config.state is None:
                # Workers that knew nothing of each other would give verdicts on half a conversation.
                source = replace(source, state=str(Path(folder) / "state.db"))
                _log.warning("workers share a state file that ends with the service; --state FILE keeps it")
            source.check()
            counted = Path(folder, "metrics")
            counted.mkdir()
            settings = replace(settings, metrics_folder=str(counted))
            line = f"{line} with {listening.workers} workers"
            Supervisor(source, settings, listening, opened, lambda: told(line)).run()
            ended = True
    if not ended:
        os._exit(0)


def work(
    source: ConfigSource,
    settings: ServeSettings,
    listening: Listening,
    opened: socket.socket,
    serves: Callable[[], None],
) -> bool:
    """Serve in this process until a signal ends it; return whether all that ran in threads has ended."""
    logging.basicConfig(format=LOG_FORMAT, level=logging.WARNING)
    keep_no_freed_arrays()
    if settings.metrics_folder is not None:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = settings.metrics_folder
    import uvicorn

    from turnwise.guard import GuardrailPipeline
    from turnwise.serve.app import create_app
    from turnwise.serve.connections import EndingServer, bounded

    supervisor = parent_process()
    if supervisor is not None and _HANGUP is not None:
        settings = replace(settings, reloaded=partial(os.kill, os.getppid(), _HANGUP))
    settings = replace(settings, read_config=source.read, read_keys=source.read_keys)
    with GuardrailPipeline(source.read()) as pipeline:
        app = create_app(pipeline, settings)
        service = app.state.service
        server = EndingServer(
            uvicorn.Config(
                app,
                http=bounded(listening.header_seconds, listening.connections),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=75,
                backlog=2_048,
            ),
            service,
            opened,
            listening.grace_seconds,
            serves,
            # A supervisor turns away for all its workers, since one alone may end and be replaced.
            partial(turn_away, opened) if supervisor is None else lambda: None,
        )
        for ending in (signal.SIGTERM, signal.SIGINT):
            # The server raises a signal that ended it once more when all is done: that is no reason to die of it.
            signal.signal(ending, lambda *_: setattr(server, "should_exit", True))
        if supervisor is not None:
            Thread(target=_end_with, args=(supervisor, server), daemon=True).start()
        try:
            server.run()
        finally:
            ended: bool = service.close(_CLOSE_SECONDS)
    return ended


def _work_for_supervisor(
    ready: Connection, source: ConfigSource, settings: ServeSettings, listening: Listening, opened: socket.socket
) -> None:
    if not work(source, settings, listening, opened, partial(ready.send_bytes, b"serves")):
        os._exit(0)  # a check that asks for no deadline would hold the process up


def _end_with(supervisor: BaseProcess, server: EndingServer) -> None:
    supervisor.join()
    server.grace_seconds = min(server.grace_seconds, _ORPHAN_SECONDS / 4)
    server.should_exit = True
    time.sleep(_ORPHAN_SECONDS)
    os._exit(1)


class Supervisor:
    """Keeps as many workers as are wanted. They share one socket: no connection is lost with one of them."""

    def __init__(
        self,
        source: ConfigSource,
        settings: ServeSettings,
        listening: Listening,
        opened: socket.socket,
        serves: Callable[[], None],
    ) -> None:
        self._given = (source, settings, listening, opened)
        self._serves = serves
        self._workers: dict[SpawnProcess, float] = {}
        self._ending = False

    def run(self) -> None:
        listening = self._given[2]
        reader, writer = socket.socketpair()
        ready, self._ready = get_context("spawn").Pipe(duplex=False)
        with reader, writer, ready, self._ready:
            for one in (reader, writer):
                one.setblocking(False)
            signal.set_wakeup_fd(writer.fileno())
            for ending in (signal.SIGTERM, signal.SIGINT):
                signal.signal(ending, self._end)
            if _HANGUP is not None:
                signal.signal(_HANGUP, self._hang_up)
            told: list[Any] = [ready]
            try:
                while not self._ending:
                    while len(self._workers) < listening.workers and not self._ending:
                        self._begin()
                    ended = wait([reader, *told, *(worker.sentinel for worker in self._workers)])
                    if reader in ended:
                        reader.recv(4_096)
                    if ready in ended:
                        told.clear()
                        self._serves()
                    self._replace_dead()
            finally:
                signal.set_wakeup_fd(-1)
                self._end_all(listening.grace_seconds)

    def _begin(self) -> None:
        worker = get_context("spawn").Process(target=_work_for_supervisor, args=(self._ready, *self._given))
        worker.start()
        self._workers[worker] = time.monotonic()

    def _replace_dead(self) -> None:
        for worker, began in list(self._workers.items()):
            if worker.is_alive():
                continue
            worker.join()
            del self._workers[worker]
            self._mark_dead(worker)
            if not self._ending:
                _log.error("worker %s ended with %s; another one begins", worker.pid, worker.exitcode)
                if time.monotonic() - began < _QUICK_DEATH:
                    time.sleep(_PAUSE)

    def _mark_dead(self, worker: SpawnProcess) -> None:
        folder = self._given[1].metrics_folder
        for file in Path(folder or ".").glob(f"gauge_live*_{worker.pid}.db") if folder else ():
            file.unlink(missing_ok=True)

    def _end_all(self, grace_seconds: float) -> None:
        turn_away(self._given[3])
        self._given[3].close()  # the last worker that listens accepts who has connected by then
        for worker in self._workers:
            worker.terminate()
        until = time.monotonic() + grace_seconds + 5.0
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()

    def _end(self, *_: int | FrameType | None) -> None:
        self._ending = True

    def _hang_up(self, *_: int | FrameType | None) -> None:
        for worker in self._workers:
            if worker.pid is not None and worker.is_alive():
                os.kill(worker.pid, signal.SIGHUP)


def _listen(listening: Listening) -> socket.socket:
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((listening.host, listening.port))
        opened.listen(2_048)
        opened.set_inheritable(True)
    except OSError as error:
        opened.close()
        raise UsageError(f"{listening.host}:{listening.port} can't be listened on: {error}") from error
    return opened


def turn_away(opened: socket.socket) -> None:
    """Let nobody connect any more, with whatever process listens on the socket; on Linux alone."""
    # Who comes between the last accept and the closing would be reset; what is dropped is tried again a second on.
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_DROP, len(_DROP))
        with contextlib.suppress(OSError):  # a sandbox without filters
            opened.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


def _raise_file_limit() -> None:
    """Let this process have as many connections open as the system allows, up to 65,536."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
