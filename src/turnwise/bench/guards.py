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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise._version import __version__
from turnwise.conversation import Conversation, Side
from turnwise.errors import TurnwiseError, UnknownNameError, UsageError

_MOST_BYTES = 1 << 20
"""Bytes of an answer."""

_LONGEST = 3_600
"""Seconds after which an endpoint that nobody waits for any more is left."""

KEYWORDS = (
    "ignore previous", "ignore all previous", "your instructions", "system prompt", "jailbreak", "no restrictions",
    "bypass", "bomb", "explosive", "weapon", "poison", "kill", "murder", "suicide", "hack", "malware", "phishing",
    "steal", "counterfeit", "launder", "blackmail", "stalk", "spy on", "without them knowing",
)  # fmt: skip
"""What the guard ``keywords`` looks for in the last prompt: words that anybody would think of first."""

NO_SCORE = "no score of the turn"
"""Why an observer such as recorded readings does not answer."""


class GuardFailedError(TurnwiseError):
    """A guard that gave no answer: an error, or an answer that can't be read. It is never a score."""


class GuardTimeoutError(GuardFailedError):
    """A guard that did not answer in time; what it runs has to be ended."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a guard says of the last prompt.

    Args:
        flagged: whether it flags the conversation at this prompt, as it is configured.
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


@dataclass
class BenchGuard:
    """Anything that flags conversations.

    Args:
        name: what the record calls it.
        description: its kind and settings, JSON values that with the texts decide the answers.
        start: begins a conversation of that id.
        parallel: whether it can be asked about several conversations at a time.
        close: ends what it runs; the next question begins that anew.
    """

    name: str
    description: Mapping[str, Any]
    start: Callable[[str], Ask]
    parallel: bool = False
    close: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Options:
    """Detector and settings of observers (by specification), and interpreters of peers (by kind)."""

    detector: str = "any_turn"
    settings: Callable[[str], Mapping[str, Any]] = lambda spec: {}
    python: Mapping[str, str] = field(default_factory=dict)


def build_guard(spec: str, options: Options | None = None) -> BenchGuard:
    """Build a guard from its specification, ``KIND``, ``KIND:ARGUMENT`` or ``NAME=`` either of them.

    Args:
        spec: ``never``, ``always``, ``keywords`` (or ``keywords:FILE``), ``module:function``,
            ``command:COMMAND``, a URL, ``preset:NAME`` (or a YAML file of the guard), ``nemo:FOLDER``,
            ``openai-guardrails:FILE``, or an observer such as ``local``, ``replay:FILE`` or
            ``llm:openai/gpt-4.1-mini``.
        options: see `Options`.

    Raises:
        UnknownNameError: there is no such guard.
        TurnwiseError: its argument does not fit.
    """
    from turnwise.observers.registry import OBSERVERS

    name, equals, rest = spec.partition("=")
    if not equals or ":" in name:
        name, rest = spec, spec
    kind, _, argument = rest.partition(":")
    if kind in KINDS:
        return KINDS[kind](name, argument, options or Options())
    if kind in ("http", "https"):
        return _of_messages(name, {"kind": "http", "url": rest}, lambda messages: _post(rest, messages), True)
    if kind in OBSERVERS.names():
        return _observer(name, rest, options or Options())
    if argument.isidentifier():
        return _callable(name, kind, argument)
    raise UnknownNameError("guard", kind, (*KINDS, "http", "https", *OBSERVERS.names()))


def _of_messages(
    name: str,
    description: Mapping[str, Any],
    answer: Callable[[list[dict[str, Any]]], object],
    parallel: bool = False,
    close: Callable[[], object] = lambda: None,
) -> BenchGuard:
    """A guard that is given all messages each time and keeps nothing."""

    def ask(conversation: Conversation, turn: int) -> Answer:
        return read_answer(answer(messages_until(conversation, turn)))

    return BenchGuard(name, description, lambda conversation_id: ask, parallel, close)


def messages_until(conversation: Conversation, turn: int) -> list[dict[str, Any]]:
    """Return the messages up to the prompt of a turn, as OpenAI's chat API has them.

    >>> chat = Conversation.from_turns([("Hi", "Hello"), ("Bye", "See you")])
    >>> [message["content"] for message in messages_until(chat, 2)]
    ['Hi', 'Hello', 'Bye']
    """
    messages = conversation.to_messages(until=turn - 1)
    messages.append({"role": "user", "content": conversation.turn(turn).prompt})
    return messages


def read_answer(value: object) -> Answer:
    """Read an answer, true or false or an object with ``flagged``; GuardFailedError for anything else.

    >>> read_answer({"flagged": True, "score": 0.75}).score
    0.75
    """
    if isinstance(value, bool):
        return Answer(value)
    if not isinstance(value, Mapping):
        raise GuardFailedError(f"an answer is true, false or an object with flagged, not {type(value).__name__}")
    if value.get("error") is not None:
        raise GuardFailedError(str(value["error"])[:300])
    if not isinstance(value.get("flagged"), bool):
        raise GuardFailedError("the answer has no flagged that is true or false")
    for name, most in (("score", 1.0), ("cost_usd", math.inf)):
        number = value.get(name)
        fits = isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= most
        if number is not None and not (fits and math.isfinite(number)):
            raise GuardFailedError(f"the answer's {name} is {number!r}, not a number from 0 to {most:g}"[:300])
    version = value.get("version")
    told = None if version is None else str(version)[:200]
    return Answer(value["flagged"], value.get("score"), value.get("cost_usd"), version=told)


def _keywords(name: str, argument: str, options: Options) -> BenchGuard:
    text = _file(argument).decode("utf-8") if argument else "\n".join(KEYWORDS)
    words = [line.strip().casefold() for line in text.splitlines() if line.strip()]

    def look(messages: list[dict[str, Any]]) -> bool:
        said = str(messages[-1]["content"]).casefold()
        return any(word in said for word in words)

    return _of_messages(name, {"kind": "keywords", "sha256": _sha256(text.encode())}, look)


def _callable(name: str, module_name: str, attribute: str) -> BenchGuard:
    spec = f"{module_name}:{attribute}"
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
        function = getattr(module, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"no guard {spec!r}: {error}; name a guard, or module:function") from error
    if not callable(function):
        raise UsageError(f"guard {spec!r} can't be called: name a function, as module:function")
    source = {} if module.__file__ is None else {"sha256": _sha256(Path(module.__file__).read_bytes())}
    return _of_messages(name, {"kind": "python", "function": spec, **source}, function)


# Commands, endpoints, and peers in a process of their own


class _GuardProcess:
    """A process that answers a line of JSON with a line of JSON, for as long as it is asked."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: Any = None
        self.said: IO[bytes] | None = None

    def __call__(self, messages: list[dict[str, Any]]) -> object:
        if self.process is None:
            self.said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.said}
            try:
                self.process = subprocess.Popen(self.command, **pipes)  # type: ignore[call-overload]  # by name
            except OSError as error:
                self.close()
                raise GuardFailedError(f"can't run {self.command[0]}: {error.strerror}") from error
        try:
            self.process.stdin.write(json.dumps({"messages": messages}).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline(_MOST_BYTES)
        except OSError:
            line = b""
        if line:
            return _json(line)
        raise GuardFailedError(f"the command ended with {self.process.wait()}: {self.close()}")

    def close(self) -> str:
        """End the process, and return the last line that it said on standard error."""
        process, said, self.process, self.said = self.process, self.said, None, None
        if process is not None:
            process.kill()
            process.communicate()
        lines = []
        if said is not None:
            said.seek(0)
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            said.close()
        return lines[-1][:300] if lines else "it said nothing"


def _command(name: str, argument: str, options: Options) -> BenchGuard:
    command = shlex.split(argument)
    if not command:
        raise UsageError("a command as a guard is written command:COMMAND, such as command:./guard.py")
    asked = _GuardProcess(command)
    return _of_messages(name, {"kind": "command", "command": argument}, asked, close=asked.close)


def _peer(kind: str) -> Callable[[str, str, Options], BenchGuard]:
    """A guard of another package; it is told by the content of its configuration, not by where that lies."""

    def build(name: str, argument: str, options: Options) -> BenchGuard:
        if not argument:
            raise UsageError(f"{kind} needs its configuration: {kind}:PATH")
        where = to_path(argument)
        files = [one for one in sorted(where.rglob("*")) if one.is_file()] if where.is_dir() else [where]
        content = [[one.relative_to(where).as_posix(), _sha256(_file(one))] for one in files]
        adapter = Path(__file__).with_name("peers.py")
        asked = _GuardProcess([options.python.get(kind, sys.executable), str(adapter), kind, str(where)])
        description = {"kind": kind, "sha256": _sha256(json.dumps(content).encode())}
        return _of_messages(name, description, asked, close=asked.close)

    return build


def _post(url: str, messages: list[dict[str, Any]]) -> object:
    token = os.environ.get("TURNWISE_BENCH_TOKEN")
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps({"messages": messages}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=_LONGEST) as answer:
            return _json(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise GuardFailedError(f"status {error.code}") from error
    except OSError as error:
        raise GuardFailedError(f"can't reach it: {getattr(error, 'reason', error)}") from error


def _json(text: bytes) -> object:
    try:
        return read_json(text)
    except ValueError as error:
        raise GuardFailedError(f"the answer is no JSON: {error}"[:300]) from error


# turnwise's own


def _observer(name: str, spec: str, options: Options) -> BenchGuard:
    """An observer that reads the turns so far; it flags where the detector fires, at its operating point."""
    from turnwise import observers
    from turnwise.detectors import name_detector
    from turnwise.principles import builtin_principles
    from turnwise.scoring import TurnScores

    observer = observers.build_observer(spec, **options.settings(spec))
    info, context = observer.info, observers.Context.parse("history")
    named = name_detector(options.detector, info.operating_points.get(str(context), {}))
    known = [one for one in builtin_principles() if info.principles is None or one.name in info.principles]
    observers.check_supported(info, context, known)
    wanted = [observers.Request(one, Side.PROMPT) for one in known]

    def start(conversation_id: str) -> Ask:
        session = observers.ObserverSession(observer, context, conversation_id)
        state = named.detector.start()

        def ask(conversation: Conversation, number: int) -> Answer:
            turn = conversation.turn(number)
            given = session.observe(turn, wanted).given
            for one in given:
                if isinstance(one, observers.ObservationFailure):
                    raise GuardFailedError(f"{one.reason}: {one.message}"[:300])
            seen = [one for one in given if isinstance(one, observers.Observation)]
            unread = any(isinstance(one, observers.NotRead) for one in given)
            if not given and turn.prompt.strip():
                raise GuardFailedError(NO_SCORE)
            signal = named.detector.update(state, TurnScores(number, {one.principle: one.score for one in seen}))
            costs = [one.cost_usd for one in seen if one.cost_usd is not None]
            score = signal.score if signal.evidence else None
            return Answer(signal.fired, score, sum(costs) if costs else None, unread)

        return ask

    description = {
        "kind": "observer",
        "observer": info.name,
        "version": info.version,
        "parameters": dict(observer.parameters),
        "detector": named.spec,
        "threshold": named.detector.threshold,
    }
    return BenchGuard(name, description, start, parallel=info.workers is observers.Workers.THREADS)


def _preset(name: str, argument: str, options: Options) -> BenchGuard:
    """turnwise's guard in one of its configurations; it flags what it blocks, and has no score."""
    from turnwise.guard import GuardrailPipeline, Outcome
    from turnwise.guard.config import Config, preset_text
    from turnwise.observers import describe_observer

    own = argument.endswith((".yaml", ".yml"))
    content = _file(argument) if own else preset_text(argument).encode()
    pipeline = GuardrailPipeline(Config.read(argument) if own else Config.preset(argument))

    def start(conversation_id: str) -> Ask:
        chat = Conversation.human_ai("user", "model")

        def ask(conversation: Conversation, number: int) -> Answer:
            before = conversation.turn(number - 1).response if number > 1 else None
            if before is not None:
                chat.add_response(before)
            result = pipeline.check_input(conversation.turn(number).prompt, conversation=chat)
            if result.failures or result.rate_limited:
                raise GuardFailedError("rate limited" if result.rate_limited else f"failed: {result.failures[0]}")
            return Answer(result.blocked, unread=result.outcome is Outcome.UNCHECKED)

        return ask

    local = describe_observer("local").version
    description = {"kind": "preset", "sha256": _sha256(content), "turnwise": __version__, "local": local}
    return BenchGuard(name, description, start)


KINDS: Mapping[str, Callable[[str, str, Options], BenchGuard]] = {
    "never": lambda name, argument, options: _of_messages(name, {"kind": "never"}, lambda messages: False),
    "always": lambda name, argument, options: _of_messages(name, {"kind": "always"}, lambda messages: True),
    "keywords": _keywords,
    "command": _command,
    "preset": _preset,
    "nemo": _peer("nemo"),
    "openai-guardrails": _peer("openai-guardrails"),
}
"""What stands before the colon of a specification."""


def _file(path: str | Path) -> bytes:
    try:
        return to_path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


Given = TypeVar("Given")


def within(seconds: float, call: Callable[[], Given]) -> Given:
    """Return what a call gives; GuardFailedError where it raises or takes longer, when it is not waited for."""
    given: list[Given] = []
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
