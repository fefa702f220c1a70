"""Guards: what a guard is asked and answers, and how each kind of guard is asked."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from turnwise._support.bounded import read_json
from turnwise._support.paths import to_path
from turnwise._version import __version__
from turnwise.conversation import Conversation, Side
from turnwise.errors import TurnwiseError, UnknownNameError, UsageError

MOST_BYTES = 1 << 20
"""Bytes of an answer."""

_LONGEST = 3_600
"""Seconds after which an endpoint that nobody waits for any more is left."""

KEYWORDS = (
    "ignore previous", "ignore all previous", "ignore your instructions", "system prompt", "jailbreak", "no restrictions",
    "developer mode", "bypass", "bomb", "explosive", "weapon", "poison", "kill", "murder", "suicide", "hack", "malware",
    "phishing", "ransomware", "steal", "counterfeit", "launder", "blackmail", "stalk", "spy on", "without them knowing",
)  # fmt: skip
"""What the guard ``keywords`` looks for: words that anybody would think of first."""


class GuardFailedError(TurnwiseError):
    """A guard that gave no answer: an error, a timeout, or an answer that can't be read. It is never a score."""


class GuardTimeoutError(GuardFailedError):
    """A guard that did not answer in time; what it runs has to be ended."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a guard says of the last message.

    Args:
        flagged: whether it flags the conversation at this message, in its own configuration.
        score: how suspicious it is, higher is more; None where the guard has no score.
        cost_usd: what the answer cost; None where that is not known.
        unread: whether the guard says that it does not read the text's language.
        version: version of the guard, where it tells.
    """

    flagged: bool
    score: float | None = None
    cost_usd: float | None = None
    unread: bool = False
    version: str | None = None


Ask = Callable[[Conversation, int], Answer]
"""Answers for a conversation up to the prompt of a turn; called turn by turn, from the first."""


class Guard(Protocol):
    """Anything that flags conversations."""

    name: str
    description: Mapping[str, Any]
    """Kind and settings as JSON: with the texts they decide the answers."""
    parallel: bool
    """Whether several conversations may be asked about at a time."""

    def start(self, conversation_id: str) -> Ask:
        """Begin a conversation."""

    def close(self) -> None:
        """End what it runs; the next question begins it anew."""


@dataclass
class Stateless:
    """A guard that is given all messages each time."""

    name: str
    description: Mapping[str, Any]
    answer: Callable[[list[dict[str, Any]]], object]
    parallel: bool = False
    close: Callable[[], None] = lambda: None

    def start(self, conversation_id: str) -> Ask:
        """Nothing is kept between turns."""
        return lambda conversation, turn: read_answer(self.answer(messages_until(conversation, turn)))


def messages_until(conversation: Conversation, turn: int) -> list[dict[str, Any]]:
    """Return the messages up to the prompt of a turn, as OpenAI's chat API has them.

    >>> chat = Conversation.from_turns([("Hi", "Hello"), ("Bye", "See you")])
    >>> [message["content"] for message in messages_until(chat, 2)]
    ['Hi', 'Hello', 'Bye']
    """
    messages = conversation.to_messages(until=turn)
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    return messages


def read_answer(value: object) -> Answer:
    """Read an answer: true or false, or ``{"flagged", "score", "cost_usd", "version"}``, all but the first optional.

    Raises:
        GuardFailedError: it is neither, or says ``{"error": why}``.

    >>> read_answer({"flagged": True, "score": 0.75}).score
    0.75
    """
    if isinstance(value, Answer):
        return value
    if isinstance(value, bool):
        return Answer(value)
    if not isinstance(value, Mapping):
        raise GuardFailedError(f"an answer is true, false or an object with flagged, not {type(value).__name__}")
    if value.get("error") is not None:
        raise GuardFailedError(str(value["error"])[:300])
    if not isinstance(value.get("flagged"), bool):
        raise GuardFailedError("the answer has no flagged that is true or false")
    score, cost = (_number(value.get(name), name) for name in ("score", "cost_usd"))
    if score is not None and not 0 <= score <= 1:
        raise GuardFailedError(f"the answer's score is {score}, not in [0, 1]")
    version = value.get("version")
    return Answer(value["flagged"], score, cost, version=None if version is None else str(version)[:200])


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise GuardFailedError(f"the answer's {name} is no finite number")
    return float(value)


@dataclass(frozen=True)
class Options:
    """What some kinds of guards take beside their specification.

    Args:
        detector: what turns an observer's scores into a flag.
        settings: settings of an observer, by its specification.
        python: interpreter of a peer's own environment, by kind (``nemo``, ``openai-guardrails``).
    """

    detector: str = "any_turn"
    settings: Callable[[str], Mapping[str, Any]] = field(default=lambda spec: {})
    python: Mapping[str, str] = field(default_factory=dict)


def build_guard(spec: str, options: Options | None = None) -> Guard:
    """Build a guard from its specification, ``KIND``, ``KIND:ARGUMENT`` or ``NAME=`` either of them.

    Args:
        spec: ``never``, ``always``, ``keywords`` (or ``keywords:FILE``), ``module:function``, ``command:COMMAND``, a URL,
            ``preset:NAME`` (or a YAML file of the guard), ``nemo:FOLDER``, ``openai-guardrails:FILE``, or an
            observer such as ``local``, ``replay:FILE`` or ``llm:openai/gpt-4.1-mini``.
        options: see `Options`.

    Raises:
        UnknownNameError: there is no such guard.
        TurnwiseError: its argument does not fit.
    """
    options = options or Options()
    name, equals, rest = spec.partition("=")
    if not equals or not name.translate({ord(each): None for each in "-_. "}).isalnum():
        name, rest = spec, spec
    kind, _, argument = rest.partition(":")
    if kind in ("http", "https"):
        return Stateless(name, {"kind": "http", "url": rest}, lambda messages: _post(rest, messages), True)
    if kind in KINDS:
        return KINDS[kind](name, argument, options)
    from turnwise.observers.registry import OBSERVERS

    if kind in OBSERVERS.names():
        return ObserverGuard(name, rest, options)
    if argument and argument.isidentifier():
        return _callable(name, rest)
    raise UnknownNameError("guard", kind, (*KINDS, "http", "https", *OBSERVERS.names()))


# Trivial guards, and functions


def _never(name: str, argument: str, options: Options) -> Guard:
    return Stateless(name, {"kind": "never"}, lambda messages: False)


def _always(name: str, argument: str, options: Options) -> Guard:
    return Stateless(name, {"kind": "always"}, lambda messages: True)


def _keywords(name: str, argument: str, options: Options) -> Guard:
    text = "\n".join(KEYWORDS) if not argument else _file(argument).decode("utf-8")
    words = [line.strip().casefold() for line in text.splitlines() if line.strip()]

    def look(messages: list[dict[str, Any]]) -> bool:
        said = str(messages[-1]["content"]).casefold()
        return any(word in said for word in words)

    return Stateless(name, {"kind": "keywords", "sha256": _sha256(text.encode())}, look)


def _callable(name: str, spec: str) -> Guard:
    module_name, _, attribute = spec.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"guard {spec!r} can't be had: {error}; name a guard, or module:function") from error
    if not callable(function):
        raise UsageError(f"guard {spec!r} can't be called")
    description = {"kind": "python", "function": spec}
    if module.__file__ is not None:
        description["sha256"] = _sha256(Path(module.__file__).read_bytes())
    return Stateless(name, description, function)


# Commands, endpoints, and peers in a process of their own


class Command:
    """A process that answers a line of JSON with a line of JSON, for as long as it is asked."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self.command, self.environment = command, {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the guard does

    def __call__(self, messages: list[dict[str, Any]]) -> object:
        """Ask about messages."""
        if self.process is None or self.process.poll() is not None:
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self.said,
                    env=self.environment,
                )
            except OSError as error:
                raise GuardFailedError(f"can't run {self.command[0]}: {error.strerror}") from error
        process = self.process
        assert process.stdin is not None and process.stdout is not None  # noqa: S101  # both are pipes
        try:
            process.stdin.write(json.dumps({"messages": messages}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline(MOST_BYTES)
        except OSError:
            line = b""
        if not line:
            raise GuardFailedError(f"the command ended with {process.wait()}: {self._last_line()}")
        return _json(line)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _last_line(self) -> str:
        self.said.seek(0)
        lines = self.said.read()[-2_000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"


def _command(name: str, argument: str, options: Options) -> Guard:
    command = shlex.split(argument)
    if not command:
        raise UsageError("a guard that is a command is written command:COMMAND, such as command:./guard.py")
    asked = Command(command)
    return Stateless(name, {"kind": "command", "command": argument}, asked, close=asked.close)


def _peer(kind: str, module: str) -> Callable[[str, str, Options], Guard]:
    """A guard of another package, by the adapter beside this file, which imports nothing of turnwise."""

    def build(name: str, argument: str, options: Options) -> Guard:
        if not argument:
            raise UsageError(f"{kind} needs its configuration: {kind}:PATH")
        where = to_path(argument)
        files = sorted(where.rglob("*")) if where.is_dir() else [where]
        content = [[str(file.relative_to(where)), _sha256(_file(file))] for file in files if not file.is_dir()]
        adapter = Path(__file__).parent / "adapters" / module
        asked = Command([options.python.get(kind, sys.executable), str(adapter), str(where)])
        description = {"kind": kind, "sha256": _sha256(json.dumps(content).encode())}
        return Stateless(name, description, asked, close=asked.close)

    return build


def _post(url: str, messages: list[dict[str, Any]]) -> object:
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("TURNWISE_BENCH_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps({"messages": messages}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=_LONGEST) as answer:
            return _json(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise GuardFailedError(f"status {error.code}") from error
    except OSError as error:
        raise GuardFailedError(f"can't reach it: {getattr(error, 'reason', error)}") from error


def _json(text: bytes) -> object:
    try:
        return read_json(text)
    except ValueError as error:
        raise GuardFailedError(f"the answer is no JSON: {error}") from error


# turnwise's own


class ObserverGuard:
    """An observer with a detector: it flags where the detector fires, at the observer's operating point."""

    def __init__(self, name: str, spec: str, options: Options) -> None:
        from turnwise.detectors import name_detector
        from turnwise.observers import Context, Request, Workers, build_observer, check_supported
        from turnwise.principles import builtin_principles

        self.name = name
        self._observer = build_observer(spec, **options.settings(spec))
        info = self._observer.info
        self._context = Context.parse("history")
        self._named = name_detector(options.detector, info.operating_points.get("history", {}))
        known = [one for one in builtin_principles() if info.principles is None or one.name in info.principles]
        check_supported(info, self._context, (one.name for one in known))
        self._wanted = [Request(one, Side.PROMPT) for one in known]
        self.parallel = info.workers is Workers.THREADS
        detector = self._named.detector
        self.description = {
            "kind": "observer",
            "observer": info.name,
            "version": info.version,
            "parameters": dict(self._observer.parameters),
            "detector": self._named.spec,
            "threshold": detector.threshold,
        }

    def start(self, conversation_id: str) -> Ask:
        """Begin a conversation."""
        from turnwise.observers import NotRead, Observation, ObservationFailure, ObserverSession
        from turnwise.scoring import TurnScores

        session = ObserverSession(self._observer, self._context, conversation_id)
        detector = self._named.detector
        state = detector.start()

        def ask(conversation: Conversation, number: int) -> Answer:
            turn = conversation.turn(number)
            observed = session.observe(turn, self._wanted)
            failed = [one for one in observed.given if isinstance(one, ObservationFailure)]
            if failed:
                raise GuardFailedError(f"{failed[0].reason}: {failed[0].message}")
            scores = {one.principle: one.score for one in observed.given if isinstance(one, Observation)}
            unread = any(isinstance(one, NotRead) for one in observed.given)
            if not scores and not unread and turn.prompt.strip():
                raise GuardFailedError(NO_SCORE)
            signal = detector.update(state, TurnScores(number, scores))
            costs = [one.cost_usd for one in observed.given if isinstance(one, Observation)]
            known = [cost for cost in costs if cost is not None]
            return Answer(
                signal.fired, signal.score if signal.evidence else None, sum(known) if known else None, unread
            )

        return ask

    def close(self) -> None:
        """Nothing runs."""


NO_SCORE = "it has no score of the turn"
"""Why an observer such as recorded readings does not answer."""


class PresetGuard:
    """turnwise's guard in one of its configurations; it flags what it blocks, and has no score."""

    parallel = False

    def __init__(self, name: str, argument: str, options: Options) -> None:
        from turnwise.guard import GuardrailPipeline
        from turnwise.guard.config import Config, preset_names, preset_text
        from turnwise.observers import describe_observer

        if argument in preset_names() or not argument.endswith((".yaml", ".yml")):
            config, text = Config.preset(argument), preset_text(argument).encode()
        else:
            config, text = Config.read(argument), _file(argument)
        self.name = name
        self._pipeline = GuardrailPipeline(config)
        self.description = {
            "kind": "preset",
            "sha256": _sha256(text),
            "turnwise": __version__,
            "local": describe_observer("local").version,
        }

    def start(self, conversation_id: str) -> Ask:
        """Begin a conversation."""
        from turnwise.guard import Outcome

        chat = Conversation.human_ai("user", "model")

        def ask(conversation: Conversation, number: int) -> Answer:
            before = conversation.turn(number - 1).response if number > 1 else None
            if before is not None:
                chat.add_response(before)
            result = self._pipeline.check_input(conversation.turn(number).prompt, conversation=chat)
            if result.failures or result.rate_limited:
                raise GuardFailedError("rate limited" if result.rate_limited else f"failed: {result.failures[0]}")
            return Answer(result.blocked, unread=result.outcome is Outcome.UNCHECKED)

        return ask

    def close(self) -> None:
        """Nothing runs."""


KINDS: Mapping[str, Callable[[str, str, Options], Guard]] = {
    "never": _never,
    "always": _always,
    "keywords": _keywords,
    "command": _command,
    "preset": PresetGuard,
    "nemo": _peer("nemo", "nemo.py"),
    "openai-guardrails": _peer("openai-guardrails", "openai_guardrails.py"),
}


def _file(path: str | Path) -> bytes:
    try:
        return to_path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """Return what a call gives; GuardFailedError where it raises, or takes longer. It is not waited for then."""
    given: list[Answer] = []
    raised: list[Exception] = []

    def run() -> None:
        try:
            given.append(call())
        except Exception as error:  # noqa: BLE001  # a guard is foreign code: what it raises is its failure
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if given:
        return given[0]
    if not raised:
        raise GuardTimeoutError(f"no answer within {seconds:g} s")
    if isinstance(raised[0], GuardFailedError):
        raise raised[0]
    raise GuardFailedError(f"{type(raised[0]).__name__}: {raised[0]}"[:300]) from raised[0]
