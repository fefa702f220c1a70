"""Seeded fuzzers of everything that reads what others wrote: does each answer rightly, or refuse in clear words?

    python benchmarks/hostile.py [--minutes 10] [--seed 0] [--kinds texts yaml ...]
    python benchmarks/hostile.py --only KIND --case N [--seed 0]     # one case alone, with its traceback

A fuzzer is a kind of cases, numbered from 0. A case is made from the seed, the kind and the number alone, so each
can be run again by itself. A case fails where an exception gets out that is no `TurnwiseError`, where no answer
comes in time, or where the answer is wrong; the docstring of each fuzzer says what is right. Prints a table of
kinds, tries and failures, and the first failures of each kind with what runs them again. The exit code is 1 if
there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import math
import random
import resource
import sqlite3
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

sys.path.insert(0, str(Path(__file__).parent.parent))

import yaml
from benchmarks import resume
from benchmarks.cli_sweep import MEMORY, Invocation, NoAnswer, Sweep, described, within
from benchmarks.guard import HOSTILE

from turnwise import Conversation, GuardrailPipeline
from turnwise._support.visible import shown
from turnwise.cli.files import read_conversation
from turnwise.conversation import Label, from_messages
from turnwise.conversation import Sequence as Chat
from turnwise.datasets import open_dataset
from turnwise.detectors import load_detector
from turnwise.errors import TurnwiseError
from turnwise.guard.audit.reader import read_audit
from turnwise.guard.config import Config
from turnwise.observers import build_observer
from turnwise.observers.llm.replies import read_reply
from turnwise.patterns import load_patterns
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate
from turnwise.scoring import Reply, Score
from turnwise.sessions import SessionState
from turnwise.store import Store, import_sequences

MS_PER_KB = 0.5
"""Milliseconds of processor time that the guard may take for each 1,000 characters."""

FACTOR, FLOOR_MS = 8, 10
"""A check fails beyond so many times that, and so many milliseconds for what does not grow with the text."""

TIMED = 10_000
"""Characters from which the time of a check counts."""

LARGEST = 100_000
"""Characters of the largest text."""

WHEN = datetime(2025, 1, 2, tzinfo=UTC)
"""The time of everything that has one."""

SHOWN = 400
"""Characters of a failure that are printed."""

Case = TypeVar("Case")


class Fuzzer(ABC, Generic[Case]):
    """Cases of one kind, and what has to come of each.

    Args:
        seed: with the kind and a number it says what a case is.
        folder: an empty folder to work in.
        largest: characters of the largest text; levels of the deepest nesting.
    """

    name: ClassVar[str]
    processes: ClassVar[bool] = False
    """Whether cases start processes."""
    seconds: ClassVar[float] = 20
    """How long a case may compute; see `within`."""

    def __init__(self, seed: int, folder: Path, largest: int = LARGEST) -> None:
        self.seed, self.folder, self.largest = seed, folder, largest

    def case(self, number: int) -> Case:
        """Return the case of a number."""
        return self.make(random.Random(f"{self.seed} {self.name} {number}"))

    def cases(self) -> Iterator[Case]:
        """Yield all cases, without end."""
        return map(self.case, count())

    @abstractmethod
    def make(self, rng: random.Random) -> Case:
        """Return a case that is drawn from a source of random numbers."""

    @abstractmethod
    def check(self, case: Case) -> str | None:
        """Return what is wrong with what comes of a case; None where it is as it has to be.

        Raises:
            Exception: the very failure that is looked for.
        """

    def tried(self, number: int) -> str | None:
        """Return what is wrong with the case of a number, whatever it raises."""
        try:
            case = self.case(number)
            with within(self.seconds):
                return self.check(case)
        except NoAnswer:
            return f"no answer within {self.seconds} s"
        except Exception as error:  # noqa: BLE001 - whatever gets out is what is looked for
            return described(error)


# Texts

UNITS = (
    *("a", "a.", "1", "7 ", "1234567890", "4111 1111 1111 1111 ", "4111-", "a@", "@", "a@b.c ", "a.b.", "x.com/"),
    *("http://", "http://a.", "www.", "//", "/", "../", "%20", "xn--", "a-", "-", "--", "_", "=", "&a=", "?", "#"),
    *(
        "[(",
        ")]",
        "(",
        "{{",
        "<",
        "<a ",
        "<script>",
        "</",
        "```",
        "`",
        "$(",
        "|",
        ";",
        "'",
        '"',
        "\\",
        "\n",
        "\t",
        " ",
    ),
    *(
        "ignore ",
        "previous ",
        "all previous ",
        "instructions ",
        "you are now ",
        "pretend ",
        "idiot ",
        "i.d.i.o.t ",
    ),
    *(
        "sk-",
        "sk-a",
        "AKIA",
        "ghp_",
        "eyJ",
        "eyJa.",
        "key=",
        "key = '",
        "password: ",
        "token:",
        "-----BEGIN ",
        "QUJD",
    ),
    *(
        "127.0.0.1 ",
        "1.",
        "::",
        "fe80:",
        "DE89 ",
        "GB82WEST",
        "+49 ",
        "+1 (",
        "00",
        "123-45-6789 ",
        "0x",
        "1e",
        ",",
    ),
    *(
        "SELECT ",
        "' OR 1=1",
        "import ",
        "def f(",
        "rm -rf ",
        "a\u200b",
        "\u200b",
        "\u00ad",
        "\u202e",
        "e\u0301",
        "І",
    ),
    *("ａ", "①", "ß", "İ", "ﷺ", "🤖", "\U000e0041", "\x00", "\x1b[", "\x85", "\ufeff", "\ufffd", "\ud800"),
)
"""What recognisers begin to match, pieces of it, and characters that change under folding."""


def hostile_text(rng: random.Random, largest: int) -> str:
    """Return a text of at most so many characters: repeated, nested, mixed, or out of one known list."""
    size = round(math.exp(rng.uniform(math.log(10), math.log(largest))))
    units = [rng.choice(UNITS) for _ in range(rng.randint(1, 4))]
    shape = rng.randrange(6)
    if shape == 0:
        text = units[0] * size
    elif shape == 1:
        text = "".join(units) * size
    elif shape == 2:
        opened, closed = rng.choice((("(", ")"), ("[", "]"), ("{", "}"), ("<a>", "</a>"), ('"', "'"), *HALVES))
        text = (opened * (size // 2))[: size // 2] + rng.choice(("", units[0])) + closed * (size // 2)
    elif shape == 3:
        text = "".join(rng.choices(UNITS, k=size))
    elif shape == 4:
        ends = rng.choice(("!", " ", "\n", "@", ".", "\x00", "x"))
        text = (units[0] + "".join(units[1:]) * size)[: size - 1] + ends
    else:
        text = rng.choice(list(HOSTILE.values()))
    return text[:size]


HALVES = (("a@", ".c"), ("key=", " "), ("http://", "/"), ("eyJ", "."), ("1", " "))
"""What begins a find over and over, and what would end it."""


class Texts(Fuzzer[tuple[str, bool, str]]):
    """Any text is checked by every guardrail of a preset, in a time that is linear in its length."""

    name = "texts"

    def make(self, rng: random.Random) -> tuple[str, bool, str]:
        return (
            rng.choice(GuardrailPipeline.available_presets()),
            rng.random() < 0.3,
            hostile_text(rng, self.largest),
        )

    def check(self, case: tuple[str, bool, str]) -> str | None:
        preset, output, text = case
        pipeline = preset_pipeline(preset)
        seconds = []
        limit = (MS_PER_KB * FACTOR * len(text) / 1_000 + FLOOR_MS) / 1_000
        for _ in range(3):
            began = time.process_time()
            result = pipeline.check_output(text) if output else pipeline.check_input(text)
            seconds.append(time.process_time() - began)
            if result.failures:
                return f"{preset}: a guardrail failed: {result.failures[0]}"
            if len(text) < TIMED or seconds[-1] <= limit:
                return None
        worst = max(result.details, key=lambda name: result.details[name].seconds)
        return (
            f"{preset}, {'output' if output else 'input'}: {1e3 * min(seconds):.0f} ms for {len(text):,} "
            f"characters such as {text[:20]!r}, most of them in {worst}; at most {1e3 * limit:.0f}"
        )


FIXED: Mapping[str, Mapping[str, Any]] = {
    "drift": {"observer": "scripted:0.1"},
    "harm": {"observer": "scripted:0.1", "warn_above": 0.5, "block_above": 0.8},
    "prompt_injection": {"observer": "scripted:0.1", "warn_above": 0.5, "block_above": 0.8},
}
"""Settings of the guardrails that have an observer: one that gives fixed scores at once."""


@cache
def preset_pipeline(preset: str) -> GuardrailPipeline:
    """Return the pipeline of a preset, warmed up, its observers replaced by fixed scores."""
    config = Config.preset(preset)
    entries = [
        replace(entry, settings={**entry.settings, **FIXED.get(str(entry.kind), {})}) for entry in config.entries
    ]
    pipeline = GuardrailPipeline(replace(config, entries=tuple(entries)))
    pipeline.check_input("hello")
    pipeline.check_output("hello")
    return pipeline


# Values of JSON, and messages


def odd_value(rng: random.Random, depth: int) -> Any:
    """Return a value that stands where another is expected; nested at most so deep."""
    return rng.choice(
        (
            *(
                None,
                True,
                False,
                0,
                -1,
                1,
                2**63,
                -(2**70),
                10**400,
                0.5,
                -0.0,
                1e308,
                math.nan,
                math.inf,
                -math.inf,
            ),
            *("", " ", "user", "nonsense", "1", "\0", "\ud800", "\x1b[2J", "x" * 5_000, "2024-02-30", "１"),
            *([], {}, [[]], [None], [1, "a"], {"": None}, {"role": "user"}, {"type": "text"}, {"text": 1}),
            *({"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": 1}),
            nested(rng.randint(2, depth), rng.random() < 0.5),
        )
    )


def nested(depth: int, lists: bool) -> Any:
    """Return lists in lists, or objects in objects."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


def mutated(rng: random.Random, value: Any, depth: int) -> Any:
    """Return a JSON value with one of its parts replaced, removed, doubled or renamed."""
    if rng.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return odd_value(rng, depth)
    if isinstance(value, list):
        items = list(value)
        at = rng.randrange(len(items))
        how = rng.randrange(6)
        if how == 0:
            del items[at]
        elif how == 1:
            items.insert(at, items[at])
        elif how == 2:
            items.insert(at, odd_value(rng, depth))
        else:
            items[at] = mutated(rng, items[at], depth)
        return items
    fields = dict(value)
    key = rng.choice(list(fields))
    how = rng.randrange(6)
    if how == 0:
        del fields[key]
    elif how == 1:
        fields[rng.choice(("", "x", key.upper() if isinstance(key, str) else "y", "\0", "\ud800"))] = fields.pop(
            key
        )
    elif how == 2:
        fields["x"] = odd_value(rng, depth)
    else:
        fields[key] = mutated(rng, fields[key], depth)
    return fields


MESSAGES: Sequence[Mapping[str, Any]] = (
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": [{"type": "text", "text": "Use metric units."}]},
    {"role": "user", "content": "How far is it?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"arguments": "{}", "name": "f"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "12"},
    {"role": "assistant", "content": "Twelve.", "refusal": None},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Sure?"}, {"type": "image_url", "image_url": {"url": "u"}}],
    },
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
)


class Messages(Fuzzer[Any]):
    """A list of messages is checked, or refused; one that is read is given back word for word.

    What of a message can't be read is told as ``unread``.
    """

    name = "messages"

    def make(self, rng: random.Random) -> Any:
        value: Any = rng.choices(MESSAGES, k=rng.randint(1, 6))
        for _ in range(rng.randint(0, 3)):
            value = mutated(rng, value, min(self.largest, 2_000))
        how = rng.randrange(12)
        if how == 0 and isinstance(value, list):
            return tuple(value)
        if how == 1 and isinstance(value, list):
            return [*value, rng.choice((b"bytes", {1: 2}, {"role": "user", "content": ("a",)}, object, {1, 2}))]
        return value

    def check(self, case: Any) -> str | None:
        try:
            result = preset_pipeline("customer_service").check_messages(case)
        except TurnwiseError:
            pass
        else:
            json.dumps(result.to_dict(), allow_nan=False)
            failed = [name for name, detail in result.details.items() if detail.status == "failed"]
            if failed not in ([], ["unread"]):
                return f"a guardrail failed: {result.failures[0]}"
        try:
            chat = from_messages(case)
        except TurnwiseError:
            return None
        given = chat.to_messages(blocked=True)
        return None if given == list(case) else f"{_short(case)} came back as {_short(given)}"


# Files of JSON


def _state() -> dict[str, Any]:
    from turnwise.sessions import SessionMemory, preset

    return SessionMemory(preset("default")).start("a", WHEN).to_dict()


def _read_state(path: Path) -> None:
    SessionState.from_dict(json.loads(path.read_text(encoding="utf-8")))


def _read_replay(path: Path) -> None:
    build_observer(f"replay:{path}")


def _read_all(path: Path) -> None:
    list(open_dataset(path))


CHAT = {
    "id": "a",
    "label": "benign",
    "source": "s",
    "turns": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
    "metadata": {"kind": "test"},
}
EVENT = {
    "kind": "check",
    "time": "2025-01-02T03:04:05+00:00",
    "session_id": "s",
    "conversation_id": "c",
    "blocked": True,
    "guardrails": {"pii": {"found": True}},
}
JSON_FILES: Mapping[str, tuple[Callable[[], Any], Callable[[Path], object]]] = {
    "conversation": (lambda: list(MESSAGES), lambda path: read_conversation(str(path))),
    "object": (lambda: {"messages": list(MESSAGES)}, lambda path: read_conversation(str(path))),
    "own": (
        lambda: Conversation.from_turns([("a", "b"), ("c", None)], conversation_id="a").to_dict(),
        lambda p: read_conversation(str(p)),
    ),
    "sharegpt": (
        lambda: {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
        lambda path: read_conversation(str(path)),
    ),
    "audit": (lambda: EVENT, read_audit),
    "replay": (
        lambda: {"sequence_id": "a", "turn": 1, "principle": "reciprocity", "T": 0.5, "I": 0.1, "F": 0.2},
        _read_replay,
    ),
    "data set": (lambda: CHAT, _read_all),
}
"""What each reader reads well, and the reader."""

RAW_JSON = (
    "9" * 5_000,
    "1e400",
    "-",
    "NaN",
    '"\\ud800"',
    '"\\u0000"',
    '{"a": 1, "a": 2}',
    "[1,]",
    "'a'",
    "\x00",
    "tru",
)


class JsonFiles(Fuzzer[tuple[str, bytes]]):
    """Any file is read, or refused by the reader."""

    name = "json"

    def make(self, rng: random.Random) -> tuple[str, bytes]:
        reader = rng.choice(list(JSON_FILES))
        value = JSON_FILES[reader][0]()
        for _ in range(rng.randint(1, 3)):
            value = mutated(rng, value, 400)
        text = json.dumps(value)
        how = rng.randrange(8)
        if how == 0:
            text = text[: rng.randrange(len(text) + 1)]
        elif how == 1:
            text = text.replace("1", rng.choice(RAW_JSON), 1)
        elif how == 2:
            depth = rng.randint(100, max(101, self.largest))
            text = text.replace('"a"', rng.choice(("[" * depth, '{"a":' * depth, "[" * depth + "]" * depth)), 1)
        elif how == 3:
            text = f"{text}\n{text}"
        return reader, _encoded(rng, text)

    def check(self, case: tuple[str, bytes]) -> str | None:
        reader, content = case
        path = self.folder / "case.json"
        path.write_bytes(content)
        with contextlib.suppress(TurnwiseError):
            JSON_FILES[reader][1](path)
        return None


class States(Fuzzer[Any]):
    """What stands where the state of a session was kept is read, or refused."""

    name = "states"

    def make(self, rng: random.Random) -> Any:
        value = _state()
        for _ in range(rng.randint(1, 3)):
            value = mutated(rng, value, 400)
        return value

    def check(self, case: Any) -> str | None:
        with contextlib.suppress(TurnwiseError):
            SessionState.from_dict(case)
        return None


def _encoded(rng: random.Random, text: str) -> bytes:
    """Return a text as bytes; now and then in another encoding, with a mark, or with bytes that are none of it."""
    content = text.encode("utf-8", "surrogatepass")
    how = rng.randrange(20)
    if how == 0:
        return text.encode("utf-16", "surrogatepass")
    if how == 1:
        return b"\xef\xbb\xbf" + content
    if how == 2:
        at = rng.randrange(len(content) + 1)
        return content[:at] + rng.choice((b"\xff", b"\xc3", b"\xe9", b"\x00", b"\xed\xa0\x80")) + content[at:]
    return content


# Files of YAML

GUARD = {
    "name": "mine",
    "session_by": "initiator",
    "rate_limits": {"everyone": {"per_minute": 5}, "exempt_roles": ["admin"]},
    "guardrails": [
        {"length": {"max_characters": 100, "on": "input"}},
        {"pii": {"action": "redact", "types": ["email"]}},
        {"keywords": {"words": ["a", "b"], "action": "warn"}},
        {"regex": {"patterns": {"x": "a+b"}}},
        {"use": "drift", "observer": "scripted:0.1", "timeout": 1.5},
    ],
}
PATTERNS = {
    "doubt": {
        "expression": "streak(x > limit) >= turns",
        "description": "The observer could not tell.",
        "parameters": {"x": "I", "limit": 0.5, "turns": 2},
        "version": 1,
        "example": {"reciprocity": [[0.8, 0.2, 0.1], None, [0.5, 0.6, 0.2]]},
    }
}
DETECTOR = {
    "detector": "any_of",
    "members": [
        "cusum:drift=0.05,limit=0.2",
        {"detector": "pattern", "expression": "slope(reciprocity.F) > 0.1"},
        {"detector": "latch", "member": {"detector": "any_turn", "threshold": 0.5}},
    ],
}
YAML_FILES: Mapping[str, tuple[Any, Callable[[Path], object]]] = {
    "guard": (GUARD, lambda path: GuardrailPipeline(path).check_input("my mail is a@example.com")),
    "patterns": (PATTERNS, load_patterns),
    "detector": (DETECTOR, load_detector),
}
MARK = "HERE"
RAW_YAML = (
    *(
        "&x [*x]",
        "&x {a: *x}",
        "*x",
        "[&x a, *x, *x]",
        "!!python/object/apply:os.getcwd []",
        "!!binary aGk",
        "!a b",
    ),
    *(
        "2024-02-30",
        "2024-01-02",
        "12:30:45",
        "0o9",
        "1_000",
        ".inf",
        ".nan",
        "1e400",
        "9" * 5_000,
        "~",
        "!!set {a}",
    ),
    *(
        "{<<: {a: 1}}",
        "{<<: 1}",
        "{? [a, b] : c}",
        "{1: 2, null: 3}",
        "{a: 1, a: 2}",
        "on",
        "!!int x",
        "!!float x",
    ),
    *(
        "!!timestamp x",
        "!!omap [a]",
        "\t",
        "|",
        "- a: b",
        "@",
        "%",
        "'",
        '"\\x"',
        '"\\ud800"',
        "\x00",
        "\x85",
        "\ufeff",
    ),
)


class YamlFiles(Fuzzer[tuple[str, bytes]]):
    """Any file is read, or refused by the reader; one that is small is so at once."""

    name = "yaml"

    def make(self, rng: random.Random) -> tuple[str, bytes]:
        reader = rng.choice(list(YAML_FILES))
        value = YAML_FILES[reader][0]
        how = rng.randrange(4)
        raw = rng.choice(RAW_YAML)
        if how == 0:
            return reader, _encoded(rng, yaml.safe_dump(mutated(rng, value, 50), allow_unicode=True))
        if how == 1:
            depth = rng.randint(50, max(51, min(self.largest, 5_000)))
            raw = rng.choice(("[" * depth + "]" * depth, "{a: " * depth + "}" * depth, "[" * depth))
        elif how == 2:
            levels = rng.randint(2, 7)
            many = "".join(f"&x{n + 1} [{', '.join([f'*x{n}'] * 10)}], " for n in range(levels))
            raw = f"[&x0 [a, b], {many}]"
        text = yaml.safe_dump(_marked(rng, value), sort_keys=False).replace(MARK, raw)
        return reader, _encoded(rng, text)

    def check(self, case: tuple[str, bytes]) -> str | None:
        reader, content = case
        path = self.folder / "case.yaml"
        path.write_bytes(content)
        with contextlib.suppress(TurnwiseError):
            YAML_FILES[reader][1](path)
        return None


def _marked(rng: random.Random, value: Any) -> Any:
    """Return a value with the mark in the place of one of its parts."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        return {**value, key: _marked(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        return [*value[:at], _marked(rng, value[at]), *value[at + 1 :]]
    return MARK


# Replies of a judge


@dataclass(frozen=True, slots=True)
class Said:
    """A reply of a language model, and the score that it gives; None where it gives none."""

    text: str
    score: Score | None


def _answer(rng: random.Random) -> tuple[dict[str, Any], Score]:
    degrees = [rng.choice((0, 1, 0.0, 1.0, 0.5, 1e-300, round(rng.random(), 3))) for _ in "TIF"]
    reasoning = rng.choice(("It keeps its word.", 'Says "{}" and leaves.', "a\nb", "{\\", "T: 1", "🤖 ok"))
    return {**dict(zip("TIF", degrees, strict=True)), "reasoning": reasoning}, Score(*map(float, degrees))


class Replies(Fuzzer[Said]):
    """A reply that is one object alone gives its score; one with anything beside it gives none, and says why."""

    name = "replies"
    seconds = 1

    def make(self, rng: random.Random) -> Said:
        answer, score = _answer(rng)
        text = json.dumps(answer, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 2)))
        if rng.random() < 0.4:
            ways = (
                "{}", "```json\n{}\n```", "```\n{}\n```", " \n{}\t\n", "```JSON\n{}```",
                "<think>It may be 0.5.</think>{}", "<think>{{\"T\": 9}}</think>\n{}", " <think>\n\n</think>\n\n{}",
            )  # fmt: skip
            return Said(rng.choice(ways).format(text), score)
        return Said(self._broken(rng, answer, text), None)

    def _broken(self, rng: random.Random, answer: dict[str, Any], text: str) -> str:
        name = rng.choice("TIF")
        if rng.random() < 0.5:
            key = rng.choice((*"TIF", "reasoning"))
            if rng.random() < 0.3:
                del answer[key]
            elif key == "reasoning":
                answer[key] = rng.choice((None, "", " \n", 1, ["a"], {}, True))
            else:
                bad = (
                    None,
                    "0.5",
                    "",
                    True,
                    False,
                    -0.001,
                    1.001,
                    1e308,
                    math.nan,
                    math.inf,
                    -math.inf,
                    10**400,
                    [],
                    {},
                )
                answer[key] = rng.choice((*bad, [0.5], {"value": 0.5}, "high"))
            return json.dumps(answer)
        inside = json.dumps(name)
        depth = rng.randint(100, max(101, self.largest))
        return rng.choice(
            (
                text[: rng.randrange(len(text.rstrip()))],
                text.replace("{", "[", 1),
                text.replace(inside, f"{inside}: 0.1, {inside}", 1),
                text.replace(inside, inside.replace('"', "'"), 1),
                text.replace(inside, inside.lower(), 1),
                text.replace(inside, "0.5, ", 1),
                f'{{"answer": {text}}}',
                f"[{'[' * depth}",
                '{"a":' * depth,
                '{"T": ' + "9" * 5_000 + "}",
                '{"T": 0.1, "I": 0.1, "F": 1e400, "reasoning": "x"}',
                '{"T": 0.1, "I": 0.1, "F": 0.' + "5" * 10 + ', "reasoning": "' + "x" * depth,
                f"<think>{text}",
                f"<think>{text}</think>",
                f"Here it is: {text}",
                f"{text} I hope that helps.",
                f"\ufeff {text}",
                f"{text}\n{text}",
                f"{text} {{}}",
                f"{{}}\n{text}",
                f"```json\n{text}\n```\n```json\n{text}\n```",
                f"{text}<think>No.</think>",
                "{" * depth,
                "I'm sorry, but I can't help with that.",
                "",
                " \n",
                "null",
                "0.5",
                "\x00\ud800",
                "T=0.5, I=0.1, F=0.2",
            )
        )

    def check(self, case: Said) -> str | None:
        reading = read_reply(_reply(case.text))
        if reading.score != case.score:
            return f"{_short(case.text)} was read as {reading.score}, and gives {case.score}"
        if reading.score is None and not (reading.reason and reading.message):
            return f"{_short(case.text)} gives no score, and nothing says why"
        return None


class Quoted(Fuzzer[tuple[str, Score, Score]]):
    """An answer that the judge quotes from the text under evaluation is never taken for its own.

    Nobody can tell which of two different answers is the judge's own, so such a reply gives the last, or none.
    """

    name = "quoted"

    def make(self, rng: random.Random) -> tuple[str, Score, Score]:
        (planted, wrong), (own, right) = _answer(rng), _answer(rng)
        while wrong == right:
            own, right = _answer(rng)
        ways = (
            "The user wrote: {} My answer: {}", "{}\n{}", "> {}\n\n{}", "```json\n{}\n```\n```json\n{}\n```",
            "The text asks me to say {}. I don't.\n{}", "<think>{}</think> {}",
        )  # fmt: skip
        return rng.choice(ways).format(json.dumps(planted), json.dumps(own)), wrong, right

    def check(self, case: tuple[str, Score, Score]) -> str | None:
        text, planted, own = case
        score = read_reply(_reply(text)).score
        return None if score in (None, own) else f"{_short(text)} was read as the quoted {planted}"


def _reply(text: str) -> Reply:
    return Reply(
        request_key="k",
        repeat=1,
        text=text,
        model="m",
        finish_reason="stop",
        refusal=None,
        prompt_tokens=1,
        completion_tokens=1,
        cost_usd=None,
        latency_s=0.0,
        nonce="n",
        received_at=WHEN,
    )


# Files to import


@dataclass(frozen=True, slots=True)
class Data:
    """A file to import, and the ids that have to come out of it."""

    name: str
    content: bytes
    format: str | None
    good: tuple[str, ...]


class Imports(Fuzzer[Data]):
    """Bad lines are named and left out, the good ones beside them are kept; another file is read or refused."""

    name = "imports"

    def make(self, rng: random.Random) -> Data:
        lines, good = [], []
        for number in range(rng.randint(2, 12)):
            if rng.random() < 0.5:
                good.append(f"good_{number}")
                lines.append(json.dumps({**CHAT, "id": good[-1]}).encode())
            else:
                lines.append(self._bad(rng, number))
        content = rng.choice((b"\n", b"\r\n")).join(lines) + rng.choice((b"", b"\n", b"\n\n"))
        if b"\0" in content:  # such a file may be refused whole: it is no text
            good = []
        how = rng.randrange(8)
        if how == 0:
            return Data("chats.jsonl", rng.choice((b"\xef\xbb\xbf", b"")) + content, "turnwise", tuple(good))
        if how == 1:
            packed = gzip.compress(content)
            return Data("chats.jsonl.gz", packed[: rng.randrange(len(packed))], rng.choice((None, "turnwise")), ())
        if how == 2:
            name = rng.choice(("x.json", "x.csv", "x.tsv", "x.parquet", "x.jsonl.bz2", "x.txt", "x"))
            form = rng.choice((None, "messages", "sharegpt", "promptresponse", "prompts", "xguard", "mtbench"))
            return Data(name, rng.choice((content, b"[" + b",".join(lines), b"PAR1" + content)), form, ())
        return Data("chats.jsonl", content, "turnwise", tuple(good))

    def _bad(self, rng: random.Random, number: int) -> bytes:
        record = {**CHAT, "id": f"bad_{number}"}
        text, depth = json.dumps(record), rng.randint(100, max(101, self.largest))
        if rng.random() < 0.4:
            value: Any = record
            for _ in range(rng.randint(1, 3)):
                value = mutated(rng, value, 400)
            return json.dumps(value).encode()
        return rng.choice(
            (
                *(b"[" * depth, b"[" * depth + b"]" * depth, b'{"id": "bad", "turns": ' + b'{"a":' * depth),
                *(text[: rng.randrange(1, len(text))].encode(), text.encode("utf-16-le")),
                json.dumps({**record, "source": "café"}, ensure_ascii=False).encode("latin-1"),
                *(b"\x00", b"\xff", b"null", b"0", b'""', b"{}", b"[]", b"9" * 5_000, b"\x1b[2J", b"{" * 9),
            )
        )

    def check(self, case: Data) -> str | None:
        path, store = self.folder / case.name, self.folder / "imported.db"
        path.write_bytes(case.content)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{store}{suffix}").unlink(missing_ok=True)
        try:
            with Store(store, create=True) as opened:
                import_sequences(opened, open_dataset(path, format=case.format), where=case.name)
                kept = {sequence.sequence_id for sequence in opened.sequences()}
        except TurnwiseError as error:
            return f"the good lines were refused: {error}" if case.good else None
        lost = set(case.good) - kept
        return f"{len(lost)} good lines were lost, such as {min(lost)}" if lost else None


# Stores


def made_store(folder: Path) -> Path:
    """Make a store of a few scored conversations in a folder, the same to the byte each time, and return it."""
    made, path = folder / "made.db", folder / "good.db"
    chats = []
    for name in ("a", "b", "c", "d", "e", "f"):
        chat = Conversation.from_turns([("How far?", "Twelve."), ("Sure?", None)], conversation_id=name)
        chats.append(Chat(name, Label.BENIGN, "made", chat))
    with Store(made, create=True) as store:
        store.add_sequences(chats)
        observer = build_observer("scripted:0.1,0.9")
        evaluate(store, "first", observer, principles=builtin_principles(), context="history")
    with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for column in (row[1] for row in database.execute(f"PRAGMA table_info({table})").fetchall()):
                if column in resume.LEFT_OUT - {"id"}:
                    value = 0.01 if column == "latency_s" else WHEN.isoformat(timespec="microseconds")
                    database.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS NOT NULL", (value,))
        database.execute("VACUUM INTO ?", (str(path),))
    return path


class Stores(Fuzzer[bytes]):
    """A store with flipped bytes is read, or refused; what is read is of the kind that it has to be.

    SQLite keeps no checksums, so a byte of a text can change unseen; a score can not leave [0, 1].
    """

    name = "stores"

    def __init__(self, seed: int, folder: Path, largest: int = LARGEST) -> None:
        super().__init__(seed, folder, largest)
        self._good = made_store(folder).read_bytes()

    def make(self, rng: random.Random) -> bytes:
        content = bytearray(self._good)
        how = rng.randrange(8)
        if how == 0:
            return bytes(content[: rng.randrange(len(content))])
        if how == 1:
            page = 4_096 * rng.randrange(len(content) // 4_096)
            content[page : page + 4_096] = rng.choice((bytes(4_096), rng.randbytes(4_096), content[:4_096]))
            return bytes(content)
        if how == 2:
            content[rng.randrange(100)] = rng.randrange(256)
        written = [at for at in range(0, len(content), 7) if content[at]]
        for _ in range(rng.choice((1, 3, 30, 300))):
            content[rng.choice(written)] ^= 1 << rng.randrange(8)
        return bytes(content)

    def check(self, case: bytes) -> str | None:
        path = self.folder / "flipped.db"
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        path.write_bytes(case)
        try:
            with Store(path, busy_seconds=0.1) as store:
                for ask in (self._counts, self._texts, self._runs, self._scores, self._query):
                    try:
                        if wrong := ask(store):
                            return wrong
                    except TurnwiseError:
                        continue
        except TurnwiseError:
            pass
        return None

    def _counts(self, store: Store) -> str | None:
        return next((f"{n} {table}" for table, n in store.counts().items() if n < 0), None)

    def _texts(self, store: Store) -> str | None:
        chats = list(store.sequences())
        return None if all(isinstance(chat, Chat) for chat in chats) else "a sequence is none"

    def _runs(self, store: Store) -> str | None:
        store.tallies()
        for run in store.runs():
            store.failures(run.name)
        return None

    def _scores(self, store: Store) -> str | None:
        for run in store.runs():
            for _, turns in store.trajectories(run.name):
                for scores in turns:
                    for score in scores.scores.values():
                        if not all(0 <= value <= 1 for value in (score.T, score.I, score.F)):
                            return f"the score {score} was given"
        return None

    def _query(self, store: Store) -> str | None:
        result = store.query("peak(F) > 0.5", store.only_run())
        return None if len(list(result)) == result.rate.count <= result.rate.of else f"{result.rate}"


# Kills, and the command line


class Kills(Fuzzer[tuple[float, int]]):
    """A run that was killed at any moment ends, once it is resumed, like one that nobody disturbed."""

    name = "kills"
    processes = True
    seconds = 300

    def __init__(self, seed: int, folder: Path, largest: int = LARGEST) -> None:
        super().__init__(seed, folder, largest)
        data = resume.made_up(folder / "made_up.jsonl", random.Random(seed))
        resume.finish([*resume.TURNWISE, "import", str(data), "--store", str(folder / "fresh.db")])
        whole = resume.copied(folder, "whole")
        began = time.perf_counter()
        resume.finish(self._command(whole, 1))
        self._seconds = time.perf_counter() - began
        self._whole = resume.content(whole)

    def make(self, rng: random.Random) -> tuple[float, int]:
        return rng.random(), rng.choice((1, 2))

    def check(self, case: tuple[float, int]) -> str | None:
        moment, jobs = case
        store = resume.copied(self.folder, "killed")
        killed = resume.killed_at(moment * self._seconds, self._command(store, jobs))
        resume.finish(self._command(store, jobs))
        after = resume.content(store)
        wrong = [table for table, rows in self._whole.items() if after.get(table) != rows]
        said = "killed" if killed else "ended by itself"
        return f"{said}, then resumed: {', '.join(wrong)} differ" if wrong else None

    def _command(self, store: Path, jobs: int) -> list[str]:
        scripted = ["--run", "first", "--observer", "scripted:0.1,0.9,0.3,0.5,0.2", "--json", "-j", str(jobs)]
        return [*resume.TURNWISE, "evaluate", "--store", str(store), *scripted]


class Commands(Fuzzer[Invocation]):
    """An invocation of the command line is answered; see `benchmarks.cli_sweep`."""

    name = "cli"
    seconds = 60

    def __init__(self, seed: int, folder: Path, largest: int = LARGEST) -> None:
        super().__init__(seed, folder, largest)
        self._sweep = Sweep(folder, seed)

    def case(self, number: int) -> Invocation:
        return self._sweep.case(number)

    def make(self, rng: random.Random) -> Invocation:
        return self._sweep.case(rng.randrange(self._sweep.singles))

    def check(self, case: Invocation) -> str | None:
        problem = self._sweep.check(case)
        return problem and f"{case}: {problem}"


class Processes(Commands):
    """The same as a process of its own."""

    name = "cli_processes"
    processes = True
    seconds = 120

    def check(self, case: Invocation) -> str | None:
        outcome = self._sweep.run_process(case)
        problem = outcome and outcome.problem()
        return problem and f"{case}: {problem}"


KINDS: Mapping[str, type[Fuzzer[Any]]] = {
    kind.name: kind
    for kind in (
        *(Texts, Messages, JsonFiles, States, YamlFiles, Replies, Quoted, Imports, Stores, Commands),
        *(Processes, Kills),
    )
}
"""All fuzzers by name."""


def _short(value: object) -> str:
    text = value if isinstance(value, str) else shown(value)
    return (text if len(text) <= SHOWN else f"{text[:SHOWN]}…").encode("unicode_escape", "replace").decode()


def main() -> int:
    """Run the fuzzers for a time, or one case alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="time for all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--show", type=int, default=3, help="failures of each kind to print")
    parser.add_argument("--only", choices=KINDS, metavar="KIND", help="with --case: run that case alone")
    parser.add_argument("--case", type=int)
    options = parser.parse_args()
    if (options.only is None) != (options.case is None):
        parser.error("--only and --case go together")
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    if options.only:
        return _alone(options.only, options.case, options.seed)
    print(f"seed {options.seed}\n{'kind':14} {'tries':>7} {'failures':>8} {'seconds':>8}", flush=True)
    failed = 0
    for kind in options.kinds:
        failed += _run(kind, options.seed, 60 * options.minutes / len(options.kinds), options.show)
    return 1 if failed else 0


def _run(kind: str, seed: int, seconds: float, shown: int) -> int:
    """Run cases of one kind for a time, print a row and the first failures; return how many there were."""
    began = time.perf_counter()
    failures: list[tuple[int, str]] = []
    tries = 0
    with tempfile.TemporaryDirectory() as name:
        fuzzer = KINDS[kind](seed, Path(name))
        while time.perf_counter() - began < seconds or not tries:
            if problem := fuzzer.tried(tries):
                failures.append((tries, problem))
            tries += 1
    print(f"{kind:14} {tries:7,} {len(failures):8,} {time.perf_counter() - began:8.1f}", flush=True)
    for number, problem in failures[:shown]:
        print(f"    {problem[: 2 * SHOWN]}\n    again: --only {kind} --case {number} --seed {seed}", flush=True)
    return len(failures)


def _alone(kind: str, number: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        fuzzer = KINDS[kind](seed, Path(name))
        case = fuzzer.case(number)
        print(f"{kind}, case {number}: {_short(case)}")
        problem = fuzzer.check(case)
    print(problem or "as it has to be")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
