"""What ``turnwise hook`` runs for each event: it asks a resident helper, and imports next to nothing itself."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from turnwise._version import __version__

MOST: Final = 64 << 20
"""Bytes that an event may have."""

_START_SECONDS, _ANSWER_SECONDS = 20.0, 30.0
_LONGEST: Final = 100
"""Bytes that the path of a socket may have everywhere."""

_OPTIONS: Final = {"--preset": "preset", "--config": "config", "--on-error": "on_error", "--agent": "agent"}
ON_ERROR: Final = ("ask", "allow", "deny")
AGENTS: Final = ("auto", "claude", "codex")

Event = dict[str, Any]


class HookSettings(NamedTuple):
    """How a hook checks, by a preset (``agent`` if none) or a YAML file: the options of ``turnwise hook``."""

    preset: str | None = None
    config: str | None = None
    on_error: str = "ask"
    agent: str = "auto"

    @classmethod
    def read(cls, arguments: Sequence[str]) -> HookSettings | None:
        """Options of a command line; None where there is anything else in it."""
        found: dict[str, str] = {}
        left = [part for one in arguments for part in (one.split("=", 1) if one.startswith("--") else [one])]
        for name, value in zip(left[::2], left[1::2], strict=False):
            if name not in _OPTIONS:
                return None
            found[_OPTIONS[name]] = value
        settings = cls(**found)
        fits = len(left) % 2 == 0 and settings.on_error in ON_ERROR and settings.agent in AGENTS
        return settings if fits and not (settings.preset and settings.config) else None

    @property
    def socket(self) -> Path:
        """Where the helper for these settings listens: another version or configuration has another one."""
        config = ""
        if self.config is not None:
            info = Path(self.config).stat()
            config = f"{Path(self.config).resolve()} {info.st_mtime_ns} {info.st_size}"
        folder = own_folder(_state_root())
        known = f"{sys.executable} {self.preset} {config} {folder}"
        path = folder / f"hook-{__version__}-{crc32(known.encode()):08x}.sock"
        for root in (os.environ.get("TMPDIR", "/tmp"), "/tmp"):
            if len(os.fsencode(path)) > _LONGEST:
                path = own_folder(Path(root) / f"turnwise-{os.getuid()}") / path.name
        return path


def _state_root() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".local" / "state") / "turnwise"


def own_folder(folder: Path | None = None) -> Path:
    """A folder of the user's own, which nobody else may enter; by default that of the conversations."""
    folder = folder or _state_root()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        info = folder.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to somebody else")
        if info.st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def run(settings: HookSettings) -> int:
    """Answer the event on standard input on standard output; the exit code."""
    raw = sys.stdin.buffer.read(MOST + 1)
    try:
        if len(raw) > MOST:
            raise ValueError(f"the event has more than {MOST >> 20} MiB")
        answer = _asked(raw, settings)
        told = json.loads(answer)
        if not isinstance(told, dict) or "error" in told:
            raise ValueError(told.get("error") if isinstance(told, dict) else "no object")
    except (OSError, ValueError, RecursionError) as error:
        return _failed(raw, settings, str(error) or type(error).__name__)
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _failed(raw: bytes, settings: HookSettings, why: str) -> int:
    """Answer as ``on_error`` says; exit code 2 blocks where the event can't even be read."""
    text = f"turnwise could not check this: {why[:300]}"
    try:
        event = json.loads(raw)
        name = str(event["hook_event_name"])
    except (ValueError, KeyError, TypeError, RecursionError):
        sys.stderr.write(text + "\n")
        return 0 if settings.on_error == "allow" else 2
    decision = settings.on_error if name == "PreToolUse" or settings.on_error == "deny" else "allow"
    answer = answer_to(event, decision, text, settings.agent)
    sys.stdout.write(json.dumps(answer if decision != "allow" else {"systemMessage": text}) + "\n")
    return 0


def is_codex(event: Event, agent: str) -> bool:
    """Whether Codex asks: it sends the model with each event, Claude Code with the start of a session alone."""
    return agent == "codex" or (agent == "auto" and ("model" in event or "turn_id" in event))


def answer_to(event: Event, decision: str, reason: str, agent: str = "auto") -> Event:
    """The answer to an event: ``allow`` leaves it to the agent's own permissions, which a hook must not skip."""
    name = event.get("hook_event_name")
    if decision == "allow":
        return {}
    if name == "PreToolUse":
        decision = "deny" if is_codex(event, agent) else decision  # Codex takes no ``ask`` from a hook
        said = {"permissionDecision": decision, "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": name, **said}}
    if name == "PermissionRequest":
        refused = {"behavior": "deny", "message": reason}
        return {} if decision == "ask" else {"hookSpecificOutput": {"hookEventName": name, "decision": refused}}
    return {"decision": "block", "reason": reason}


def _asked(raw: bytes, settings: HookSettings) -> bytes:
    if not hasattr(socket, "AF_UNIX"):
        from turnwise.integrations.hooks import answer_here

        return answer_here(raw, settings)
    place = settings.socket
    try:
        return _exchange(place, raw, settings)
    except (FileNotFoundError, ConnectionError):
        _start(settings)
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            return _exchange(place, raw, settings)
        except (FileNotFoundError, ConnectionError):
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _exchange(place: Path, raw: bytes, settings: HookSettings) -> bytes:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(_ANSWER_SECONDS)
        one.connect(str(place))
        one.sendall(settings.agent.encode() + b"\n" + raw)
        one.shutdown(socket.SHUT_WR)
        parts = []
        while part := one.recv(1 << 16):
            parts.append(part)
    if not parts:
        raise ConnectionError("the helper ended")
    return b"".join(parts)


_STARTED: Final[list[Any]] = []
"""Helpers of this process: one that is forgotten while it runs would be warned of."""


def _start(settings: HookSettings) -> None:
    """Start the helper, which outlives this process; of several that start at once one stays."""
    import subprocess

    command = [sys.executable, "-m", "turnwise.integrations.hooks", settings.preset or "", settings.config or ""]
    away = subprocess.DEVNULL
    _STARTED.append(subprocess.Popen(command, stdin=away, stdout=away, stderr=away, start_new_session=True))
