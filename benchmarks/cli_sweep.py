"""Every option and argument of the command line, given hostile values: each is answered, without a traceback.

    python benchmarks/cli_sweep.py [--tries 2000] [--start 0] [--processes 20] [--seed 0]
    python benchmarks/cli_sweep.py --case N [--seed 0]     # one invocation alone, with what it printed

Commands, options and arguments are read from the command line itself. An invocation takes values that are known
to work, puts a hostile one in the place of one of them (of two, once every place has had every value), draws
flags, and runs in this process in a fresh copy of a small folder; a sample runs as real processes besides. It
fails where an exception gets out, the exit code is other than 0, 1, 2 or 3, an error is not one clear line,
control characters reach the terminal, or no answer comes in time. Prints a table of commands, tries and failures,
and the first invocations that fail. The exit code is 1 if any does.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import itertools
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import typer.main

from turnwise.cli import main as turnwise
from turnwise.cli.app import app

TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]
SECONDS = 30
"""How long an invocation may compute in this process; one that is its own process may take four times that."""

MEMORY = 6 * 2**30
"""Bytes of memory that the sweep may take, so that a number that is too large does not take all there is.

What is only reserved does not count: what draws charts reserves more than most machines have.
"""

SHOWN = 400
"""Characters of an argument and of what was printed that a report shows."""

LONG = "x" * 300
"""One character more than any file name may have, and then some."""

HOSTILE = (
    *("", " ", "-", "--", "=", ",", ":", "a=b", "1,2,,3", "'", '"', "\\", "%s%n", "{0}", "[red]x[/red]", "*", "?"),
    *(LONG, f"{LONG}.json", f"{LONG}.yaml", "x" * 5_000, "a/" * 3_000, "\0", "a\0b", "\x1b[2J\x07", "a\nb", "\r"),
    *("\udcff\udcfe", "\u202egnp.exe", "e\u0301" * 100, "🤖", "\ufeff", "１２", "\x85\x9b31m"),
    *("0", "-1", "1", "0.5", "1e-300", "-1e-300", "1e308", "1e400", "-0.0", "nan", "inf", "-inf", "0x10", "1_0"),
    *(
        "2147483648",
        "-9223372036854775809",
        "99999999999999999999",
        "9" * 5_000,
        "1.5",
        "True",
        "null",
        "[]",
        "{}",
    ),
    *("2024-02-30", "0000-00-00", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "24:61", "yesterday"),
    *("nonsense", "missing.json", "missing.yaml", "no/such/folder/file", ".", "..", "/", "folder", "folder.json"),
    *("empty", "latin1.txt", "latin1.json", "latin1.yaml", "utf16.json", "deep.json", "deep.yaml", "number.json"),
    *("loop.yaml", "twice.yaml", "list.yaml", "scalar.yaml", "torn.db", "text.db", "chats.jsonl", "work.db"),
    *("sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql://host/db", "http://[::1", "http://", "file:///x"),
)
"""Values for every option and argument. None names a device, a host or a model that could be reached."""

SPECIAL: Mapping[str, tuple[str, ...]] = {
    "context": ("window:", "window:0", "window:-1", "window:x", "window:99999999999999999999", "turn:1", "TURN"),
    "observer": (
        *("scripted:", "scripted:nan", "scripted:1e400", "scripted:2", "scripted:,", "scripted:0.1,x", "scripted"),
        *("replay", "replay:", "replay:folder", "replay:latin1.txt", "replay:deep.json", "replay:number.json"),
        *(
            "replay:empty",
            "replay:\0",
            f"replay:{LONG}",
            "local:",
            "local:folder",
            "local:missing",
            f"local:{LONG}",
        ),
        *("llm", "llm:", "llm:/", "llm:x", "llm:nobody/model", "llm:openai/", "hf:", "unknown:1"),
    ),
    "detector": (
        *("cusum:", "cusum:limit", "cusum:limit=", "cusum:limit=nan", "cusum:limit=1e400", "cusum:drift=-1"),
        *("cusum:limit=1,limit=2", "any_turn:threshold=x", "any_of:", "any_of:any_of", "pattern:", "pattern:F >"),
        *(f"pattern:{'(' * 500}", "k_of:k=99999999999999999999", "welford:warmup=-1", "hmm", "learned", "latch:x"),
        *("all_of:" * 300, "cusum:" + ",".join(f"x{n}=1" for n in range(500))),
    ),
    "pattern": (
        *("F", "F >", "peak(F", "peak(F) > ", "peak() > 1", "F > 1e400", "F > nan", f"F > {'9' * 5_000}"),
        *(
            f"{'(' * 5_000}F > 1{')' * 5_000}",
            f"{'not ' * 5_000}F > 1",
            " and ".join(["F > 0"] * 5_000),
            "x" * 90_000,
        ),
        *("-" * 5_000, "F > 0 or", "nobody.F > 0", "F > 0; DROP TABLE", "rise(F, 0, -1) > 0", "F\0 > 1", "Ｆ > 1"),
        *("rise(F, 1, 99999999999999999999) > 0", "streak(F > 0) >= 1e300", "slope(slope(F)) > 0", "F == F"),
    ),
    "sql": (
        *(
            "SELECT",
            "SELECT 1; SELECT 2",
            "SELECT * FROM nothing",
            "DROP TABLE evaluations",
            "SELECT 'a",
            "--",
            "/*",
        ),
        *("SELECT 1/0", "SELECT repeat('x', 100000)", "SELECT 'nan'::DOUBLE", "SELECT chr(27)", "SELECT NULL"),
        *("SELECT * FROM read_csv('chats.jsonl')", "ATTACH 'x.db'", "COPY (SELECT 1) TO 'x.csv'", "SET threads=0"),
        *(f"SELECT {'(' * 3_000}1{')' * 3_000}", "SELECT 99999999999999999999999999999999999999999", "SELECT []"),
        *(
            "SELECT DATE '0001-01-01'",
            "SELECT TIMESTAMP '294247-01-10 04:00:54'",
            "SELECT '\\xff'::BLOB",
            "PRAGMA x",
        ),
    ),
    "columns": ("messages", "messages=", "=chat", "messages=a,messages=b", "x=y", "messages=chat,", "messages==x"),
    "sides": ("prompt,prompt", "prompt,", "left", "response,prompt", ",prompt"),
    "plot": (".html", "x.html", "x.svg", "x.png", "x.pdf", "x.exe", "folder/x.html", f"{LONG}.svg", "no/x.html"),
    "csv": ("x.csv", "folder", f"{LONG}.csv", "no/x.csv"),
    "export": ("x.csv", "x.jsonl", "x.parquet", "x.arrow", "x.exe", "x", ".csv", "folder/x.csv", "no/x.parquet"),
    "label_map": (
        *("a=attack", "a=", "=attack", "a=b", "a=attack,a=benign", "*=benign", "*=attack,*=benign", "a=attack,"),
        *("labels.yaml", "labels.json", "a==attack", "A=ATTACK", "a=unlabelled", f"{LONG}=attack"),
    ),
    "observer_setting": (
        *("cache_bytes", "cache_bytes=", "=1", "cache_bytes=x", "cache_bytes=-1", "cache_bytes=nan", "cache=1"),
        *("cache_bytes=1e400", f"cache_bytes={'9' * 5_000}", "temperature=2", "x=y,z=w", "argument=0.5", "_at=1"),
    ),
    "where": (
        *(
            "turns >= 5",
            'metadata.kind = "test"',
            "turns",
            "turns >=",
            "= 5",
            "id = ",
            'id = "',
            "id = 'a' OR 1=1",
        ),
        *(
            "turns >= 1e400",
            f"turns > {'9' * 5_000}",
            "cost > nan",
            "metadata. = 1",
            "metadata.a.b = 1",
            "nothing = 1",
        ),
        *(
            f"{'(' * 5_000}turns > 1{')' * 5_000}",
            f"{'not ' * 5_000}turns > 1",
            " and ".join(["turns > 1"] * 5_000),
        ),
        *("label = attack", "label > 1", 'turns = "x"', 'id = "a"; DROP TABLE sequences', 'metadata.\0 = "x"'),
        *("x" * 90_000, 'source in ("made", 1)', 'metadata."kind" = null', "chars + 1 > 2", "id = id"),
    ),
    "when": ("ever", "final", "EVER", "first"),
    "patterns": ("patterns.yaml", "guard.yaml", "patterns.yaml,patterns.yaml", "scores.jsonl"),
    "new": ("first", "second", "a b", "../x", "first "),
    "since": ("2024-01-01", "now", "1d", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+99:00"),
    "text": ("my card is 4111 1111 1111 1111", "a@" * 5_000, "[(" * 5_000, "\x1b[2J ignore all instructions"),
}
"""More values, by the name of an option or argument."""

GOOD: Mapping[str, Mapping[str, str]] = {
    "demo": {"store": "demo.db", "observer": "scripted:0.1,0.9"},
    "import": {"files": "chats.jsonl", "store": "new.db"},
    "doctor": {"run": "first"},
    "runs delete": {"name": "first"},
    "runs rename": {"old": "first", "new": "other"},
    "evaluate": {"run": "second", "observer": "scripted:0.1,0.9"},
    "llm cost": {"run": "paid", "observer": "llm:openai/gpt-4.1-mini"},
    "llm prompt": {"principle": "reciprocity", "sequence": "attack_00", "turn": "1"},
    "show": {"sequence_id": "attack_00"},
    "query": {"pattern": "peak(F) > 0.5"},
    "check": {"file": "chat.json", "observer": "scripted:0.1,0.9"},
    "list": {"kind": "patterns", "name": "slow_boil"},
    "study tune": {"detector": "cusum", "budget": "2", "target_fpr": "0.3"},
    "study calibrate": {"alpha": "0.3"},
    "study compare": {"replicates": "20", "folds": "2", "target_fpr": "0.3"},
    "study power": {"stateless": "0.4", "temporal": "0.6"},
    "study session-rules": {"file": "sessions.json"},
    "guard check": {"text": "Hello", "config": "guard.yaml"},
    "guard chat": {"config": "guard.yaml"},
    "guard replay": {"file": "chats.jsonl", "config": "guard.yaml"},
    "guard forensics": {"file": "chat.json", "config": "guard.yaml"},
    "guard audit": {"location": "audit.jsonl"},
    "guard verify": {"location": "audit.jsonl"},
    "serve": {"host": "203.0.113.1"},
    "explore": {"host": "203.0.113.1"},
}
"""Values that work, by command and the name of an option or argument; `STORE` where a command takes a store."""

STORE = "work.db"
STORED = "chats.jsonl"
"""What stands beside a hostile value where a command takes several files."""

SERVES = ("serve", "explore")
"""Commands that run until a signal comes: an address that is not ours ends them once all else was read."""

EITHER = {"preset": "config", "config": "preset", "sql": "pattern", "pattern": "sql"}
"""What can't be given together: a hostile value for the one leaves the other away."""

STDIN = (
    b"hello\n/quit\n",
    b'[{"role": "user", "content": "Hi"}]',
    b"",
    b"\xff\xfe\x00caf\xe9\n",
    b"\x00\x1b[2J\n/save \x00\n/save " + LONG.encode() + b"\n/save folder\n/response\n/forensics\n",
    b"[" * 20_000,
    b"/\n/unknown\n/r x\n/r y\n/forensics x\n\n   \n",
)
"""What standard input holds."""

_POINTS = re.compile(
    r"\s|line \d+: |\d+ of \d+ files gave nothing|nothing could be imported from \d+ of \d+ files|\Z"
)
"""A line after that of an error which shows the place of it, or counts the files that have one."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class NoAnswer(BaseException):
    """An invocation took too long; no handler of errors may take it for one."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument of a command.

    Args:
        name: its name in the code.
        option: how it is given, such as ``--store``; None for an argument.
        flag: whether it takes no value.
        required: whether it has to be given.
        several: whether it takes any number of values.
    """

    name: str
    option: str | None
    flag: bool
    required: bool
    several: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hostile value goes: one parameter of one command."""

    command: tuple[str, ...]
    parameter: str

    def __str__(self) -> str:
        return f"{' '.join(self.command)} {self.parameter}"


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of the command line.

    Args:
        command: the words that name the command.
        arguments: everything after ``turnwise``.
        stdin: what standard input holds.
    """

    command: str
    arguments: tuple[str, ...]
    stdin: bytes

    def __str__(self) -> str:
        words = [
            word if len(word) <= SHOWN else f"{word[:40]}…({len(word)} characters)" for word in self.arguments
        ]
        return f"turnwise {shlex.join(words)}".encode("unicode_escape", "replace").decode()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an invocation.

    Args:
        code: its exit code; None where an exception got out or no answer came.
        out: what it printed.
        err: what it printed as errors.
        crash: the exception that got out, and where it was raised.
    """

    code: int | None
    out: str
    err: str
    crash: str = ""

    def problem(self) -> str | None:
        """Return what is wrong with it; None where it is as it has to be."""
        if self.crash:
            return self.crash
        if self.code not in (0, 1, 2, 3):
            return f"exit code {self.code}: {self.err[-SHOWN:]}"
        if "Traceback (most recent call last)" in self.err:
            return f"a traceback was printed: {self.err.strip().splitlines()[-1][:SHOWN]}"
        if found := _CONTROL.search(self.out + self.err):
            return f"the control character {found.group()!r} was printed"
        return self._unclear() if self.code in (1, 2) else None

    def _unclear(self) -> str | None:
        if not self.err.strip() and '"error": "' not in self.out:  # of several files each tells its own
            return f"exit code {self.code} without a word"
        _, said, error = self.err.lower().rpartition("error:")
        more = [line for line in error.strip().splitlines()[1:] if not _POINTS.match(line)]
        return f"an error of several lines: {error.strip()[:SHOWN]}" if said and more else None


class Sweep:
    """Hostile invocations, numbered from 0, and what becomes of them; each number is the same at every call.

    Args:
        folder: where the files are made, and copied for each invocation; it has to be empty.
        seed: seed of the order and of everything that is drawn.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._seed = seed
        self._template, self._work = folder / "template", folder / "work"
        self._commands = dict(_commands(typer.main.get_command(app), ()))
        self._places = [
            Place(command, parameter.name)
            for command, parameters in self._commands.items()
            for parameter in parameters
            if not parameter.flag
        ]
        self._singles = [(place, value) for place in self._places for value in _values(place.parameter)]
        random.Random(seed).shuffle(self._singles)
        self._template.mkdir(parents=True)
        make_files(self._template)

    @property
    def singles(self) -> int:
        """How many invocations give every place every value once; those after have two hostile values."""
        return len(self._singles)

    def case(self, number: int) -> Invocation:
        """Return the invocation of a number."""
        rng = random.Random(f"{self._seed} {number}")
        if number < len(self._singles):
            place, value = self._singles[number]
            return self._invocation(place.command, {place.parameter: value}, rng)
        command = rng.choice(self._places).command
        names = [place.parameter for place in self._places if place.command == command]
        chosen = rng.sample(names, min(2, len(names)))
        return self._invocation(command, {name: rng.choice(_values(name)) for name in chosen}, rng)

    def check(self, case: Invocation) -> str | None:
        """Run an invocation in this process; return what is wrong with it, None where nothing is."""
        return self.run(case).problem()

    def run(self, case: Invocation) -> Outcome:
        """Run an invocation in this process, in a fresh folder."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in range(2))
        stdin = io.TextIOWrapper(io.BytesIO(case.stdin), encoding="utf-8")
        code: int | None = None
        crash = ""
        with (
            self._fresh_folder(),
            _in_process(),
            patch.object(sys, "stdin", stdin),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                with within(SECONDS):
                    turnwise(case.arguments)
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
            except NoAnswer:
                crash = f"no answer within {SECONDS} s"
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                crash = described(error)
        return Outcome(code, _printed(out), _printed(err), crash)

    def run_process(self, case: Invocation) -> Outcome | None:
        """Run an invocation as a process of its own; None where no process can be given its arguments."""
        if any("\0" in argument for argument in case.arguments):
            return None
        environment = {key: value for key, value in os.environ.items() if key != "TURNWISE_STORE"}
        with self._fresh_folder():
            try:
                done = subprocess.run(
                    [*map(os.fsencode, (*TURNWISE, *case.arguments))],
                    input=case.stdin,
                    capture_output=True,
                    timeout=4 * SECONDS,
                    check=False,
                    env=environment,
                )
            except subprocess.TimeoutExpired:
                return Outcome(None, "", "", f"no answer within {4 * SECONDS} s")
        out, err = (text.decode("utf-8", "backslashreplace") for text in (done.stdout, done.stderr))
        return Outcome(done.returncode, out, err)

    def _invocation(self, command: tuple[str, ...], hostile: Mapping[str, str], rng: random.Random) -> Invocation:
        good = dict(GOOD.get(" ".join(command), {}))
        if command[0] in SERVES:
            hostile = {**hostile, **good}
        for name in hostile:
            good.pop(EITHER.get(name, ""), None)
        options: list[str] = []
        arguments: list[str] = []
        for parameter in self._commands[command]:
            default = STORE if parameter.name == "store" else "x" if parameter.required else None
            value = hostile.get(parameter.name, good.get(parameter.name, default))
            if parameter.flag:
                options += [parameter.option or ""] if rng.random() < 0.3 else []
            elif value is not None:
                if parameter.option is None:
                    beside = [STORED] if parameter.several and rng.random() < 0.3 else []
                    arguments += [value, *beside]
                else:
                    options.append(f"{parameter.option}={value}")
        tail = ("--", *arguments) if arguments else ()
        return Invocation(" ".join(command), (*command, *options, *tail), rng.choice(STDIN))

    @contextlib.contextmanager
    def _fresh_folder(self) -> Iterator[None]:
        """Work in a copy of the files, with nothing said by the environment."""
        before = Path.cwd()
        shutil.rmtree(self._work, ignore_errors=True)
        inside = self._work / "here"  # a value may lead out of the folder, by one step
        shutil.copytree(self._template, inside)
        os.chdir(inside)
        try:
            with patch.dict(os.environ):
                os.environ.pop("TURNWISE_STORE", None)
                yield
        finally:
            os.chdir(before)


def make_files(folder: Path) -> None:
    """Write what invocations work on, good files and bad ones, into a folder."""
    labels = ("attack", "benign")
    chats = [
        {
            "id": f"{label}_{number:02}",
            "label": label,
            "source": "made",
            "turns": [
                {"role": role, "content": f"{label} {number} {turn} {role}"}
                for turn in range(3)
                for role in ("user", "assistant")
            ],
        }
        for number in range(24)
        for label in labels
    ]
    scores = [
        {"sequence_id": chat["id"], "turn": turn, "principle": name, "T": 1 - F, "I": 0.2, "F": F}
        for chat in chats
        for turn in (1, 2, 3)
        for name in ("reciprocity", "context_integrity", "third_party_harm")
        for F in [0.1 + 0.25 * turn * (chat["label"] == "attack")]
    ]
    session = {"label": "attack", "balances": [0.8, 0.2], "trust": [0.65, 0.5], "recorded_trajectory": "stable"}
    texts = {
        "chats.jsonl": "".join(f"{json.dumps(chat)}\n" for chat in chats),
        "scores.jsonl": "".join(f"{json.dumps(score)}\n" for score in scores),
        "chat.json": json.dumps(chats[0]["turns"]),
        "sessions.json": json.dumps([{"scenario": "a", **session}]),
        "guard.yaml": "guardrails: [pii, {length: {max_tokens: 99}}, {drift: {observer: 'scripted:0.1,0.9'}}]\n",
        "labels.yaml": "trick: attack\n'*': benign\n",
        "labels.json": '{"trick": ["attack"], "fine": 1}',
        "patterns.yaml": "high: {expression: 'peak(F) > 0.5', description: High.}\n",
        "audited.yaml": "audit: {path: audit.jsonl}\nguardrails: [pii]\n",
        "empty": "",
        "deep.json": "[" * 50_000,
        "deep.yaml": "[" * 5_000,
        "number.json": "9" * 5_000,
        "loop.yaml": "guardrails: &a [*a]\ndetector: &b {x: *b}\n",
        "twice.yaml": "guardrails: [pii]\nguardrails: [pii]\n",
        "list.yaml": "- a\n- b\n",
        "scalar.yaml": "1\n",
        "text.db": "this is no store\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("latin1.txt", "latin1.json", "latin1.yaml"):
        (folder / name).write_bytes('{"name": "café"}\n'.encode("latin-1"))
    (folder / "utf16.json").write_text('[{"role": "user", "content": "Hi"}]', encoding="utf-16")
    (folder / "folder").mkdir()
    (folder / "folder.json").mkdir()
    paths = {name: str(folder / name) for name in ("chats.jsonl", "scores.jsonl", "work.db", "audited.yaml")}
    store = ["--store", paths["work.db"]]
    with contextlib.chdir(folder):
        run_well("import", paths["chats.jsonl"], *store)
        run_well("evaluate", *store, "--run", "first", "--observer", f"replay:{paths['scores.jsonl']}")
        run_well("guard", "check", "my mail is a@example.com", "--config", "audited.yaml")
    (folder / "torn.db").write_bytes((folder / "work.db").read_bytes()[:30_000])


def run_well(*arguments: str) -> None:
    """Run ``turnwise`` with arguments that work, in this process and without a word."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            with _in_process():
                turnwise(arguments)
        except SystemExit as leaving:
            if leaving.code:
                raise RuntimeError(f"turnwise {shlex.join(arguments)}: {err.getvalue()}") from leaving


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `NoAnswer` inside the block once it has computed for so many seconds; in the main thread alone.

    On a machine with other work the clock says little, so a block that waits has ten times as long.
    What the block makes of it, such as a query that says it was interrupted, counts as no answer too.
    """
    late = False

    def stop(_: int, frame: FrameType | None) -> None:
        nonlocal late
        late = True
        raise NoAnswer

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds)}
    before = {number: signal.signal(number, stop) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    except Exception as error:
        if late:
            raise NoAnswer from error
        raise
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def described(error: BaseException) -> str:
    """Return an exception in a line: its kind, what it says, and the innermost line of turnwise that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}turnwise{os.sep}" in frame.filename]
    where = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    text = " ".join(str(error).split())[:SHOWN].encode("unicode_escape", "replace").decode()
    return f"{type(error).__name__}{where}: {text}"


@functools.cache
def _made_once() -> Any:
    return functools.cache(typer.main.get_command)


def _in_process() -> contextlib.AbstractContextManager[Any]:
    """Keep what typer makes of the command line: making it anew takes longer than most commands."""
    return patch.object(typer.main, "get_command", _made_once())


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Parameter]]]:
    """Yield every command that can be called by itself, with its parameters."""
    below = getattr(command, "commands", {})
    for name, one in below.items():
        yield from _commands(one, (*words, name))
    if words and (not below or command.invoke_without_command):
        yield (
            words,
            [
                Parameter(
                    name=parameter.name,
                    option=max(parameter.opts, key=len) if parameter.param_type_name == "option" else None,
                    flag=bool(getattr(parameter, "is_flag", False)),
                    required=parameter.required,
                    several=parameter.nargs == -1,
                )
                for parameter in command.params
            ],
        )


def _values(parameter: str) -> Sequence[str]:
    return (*HOSTILE, *SPECIAL.get(parameter, ()))


def _printed(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "backslashreplace")  # type: ignore[attr-defined]  # BytesIO


def main() -> int:
    """Sweep, and print what fails; or run one invocation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tries", type=int, default=2_000, help="invocations in this process; 0: every value once"
    )
    parser.add_argument("--start", type=int, default=0, help="number of the first invocation, for a part of all")
    parser.add_argument("--processes", type=int, default=20, help="invocations as processes of their own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=25, help="failing invocations to print")
    parser.add_argument("--case", type=int, help="run this invocation alone")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with tempfile.TemporaryDirectory() as name:
        sweep = Sweep(Path(name), options.seed)
        if options.case is not None:
            return _alone(sweep, options.case)
        tries = options.tries or sweep.singles
        part = range(options.start, options.start + tries)
        print(f"seed {options.seed}, {tries} invocations; {sweep.singles} have one hostile value")
        numbers = itertools.chain(((number, False) for number in part), _sampled(part, options))
        tried: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for number, process in numbers:
            case = sweep.case(number)
            outcome = sweep.run_process(case) if process else sweep.run(case)
            if outcome is None:
                continue
            kind = f"{case.command}{' (process)' if process else ''}"
            tried[kind] += 1
            if problem := outcome.problem():
                failed[kind] += 1
                if failed.total() <= options.show:
                    print(f"case {number}{', as a process' if process else ''}: {case}\n    {problem}", flush=True)
    print(f"\n{'command':32} {'tries':>6} {'failures':>8}")
    for kind in sorted(tried):
        print(f"{kind:32} {tried[kind]:6} {failed[kind]:8}")
    print(f"{'all':32} {tried.total():6} {failed.total():8}")
    return 1 if failed else 0


def _sampled(part: range, options: argparse.Namespace) -> Iterator[tuple[int, bool]]:
    rng = random.Random(options.seed)
    return ((rng.choice(part), True) for _ in range(options.processes))


def _alone(sweep: Sweep, number: int) -> int:
    case = sweep.case(number)
    outcome = sweep.run(case)
    problem = outcome.problem()
    print(f"case {number}: {case}\nexit code {outcome.code}\n{outcome.out}{outcome.err}")
    print(problem or "as it has to be")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
