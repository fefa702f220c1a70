"""The messages of a request: principle, scales, the marked and quoted turns, and the form of the answer.

Text under evaluation is quoted so that nothing in it can pass for ours, by two independent means: every quoted
line begins with ``"> "``, and the lines that end the material, count its texts and ask begin with a mark. That
holds a nonce, drawn new for each request and absent from the text. What could make a line, hide text, or steer the
chat format of a local model is shown as its code point. The nonce comes last, behind all that a request has in
common with the one before it: the system message depends on the principle alone, and the material of a longer
history begins with that of the shorter one.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from itertools import pairwise
from typing import Any

from turnwise._support.visible import numbered
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, UsageError
from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.chat import Message
from turnwise.observers.protocol import Context, ContextMode
from turnwise.principles import Principle

NO_NONCE = "0" * 16
"""Stands in the place of the nonce where a request is hashed or shown."""


def prompt_version(*principles: Principle) -> str:
    """The version of all text that a request is made of, beside the turns: frame and principles."""
    together = f", together {load_frame('together.toml').revision}" if len(principles) > 1 else ""
    return ", ".join(
        (f"frame {load_frame().revision}{together}", *(f"{one.name} {one.revision}" for one in principles))
    )


def shown_texts(
    turns: Sequence[Turn], turn: int, side: Side, context: Context
) -> tuple[tuple[int, Side, str], ...]:
    """What the context mode lets a model see, as (number, side, text), the judged text last."""
    judged = next((one for one in turns if one.number == turn), None)
    if judged is None:
        last = f"its last is turn {turns[-1].number}" if turns else "it has none"
        raise UsageError(f"the conversation has no turn {turn} to judge, {last}: name one that is there")
    if judged.text(side) is None:
        raise UsageError(f"turn {turn} has no {side} to judge")
    seen = [one for one in turns if one.number <= turn]
    if context.mode is ContextMode.TURN:
        seen = [judged]
    elif context.mode is ContextMode.WINDOW:
        seen = seen[-(context.size or 1) :]
    return tuple(_texts(seen, turn, side))


def render(
    principle: Principle, turns: Sequence[Turn], turn: int, side: Side, context: Context, nonce: str = NO_NONCE
) -> tuple[Message, ...]:
    """The messages that ask for one score; for a request that is sent, `nonce` comes from `fresh_nonce`."""
    return render_together([principle], turns, turn, side, context, nonce)


def render_together(
    principles: Sequence[Principle],
    turns: Sequence[Turn],
    turn: int,
    side: Side,
    context: Context,
    nonce: str = NO_NONCE,
) -> tuple[Message, ...]:
    """The messages that ask for the scores of one side by several principles; those of `render` for one."""
    frame = load_frame()
    form = frame if len(principles) == 1 else load_frame("together.toml")
    mark = f"<<{nonce}>>"
    names = [principle.name for principle in principles]
    said = {"name": names[0]}
    if len(names) > 1:
        answers = ", ".join(form.fill("fields", name=name) for name in names)
        said = {"names": f"{', '.join(names[:-1])} and {names[-1]}", "fields": answers}
    system = (
        *(text for principle in principles for text in _principle(frame, principle)),
        form.fill("answer", **said),
        frame.fill("material"),
    )
    texts = shown_texts(turns, turn, side, context)
    material = list(_material(texts))
    whole = context.mode is ContextMode.TRANSCRIPT
    asked = form.fill("asked_of_transcript" if whole else "asked", side, turn=turn, **said)
    user = (
        *material,
        f"{mark} END MATERIAL",
        f"{mark} {_count(frame, texts, material[-1])} {frame.fill('seen', context.mode, size=context.size)}",
        f"{mark} {asked} Answer with the JSON object alone.",
    )
    return Message("system", "\n\n".join(system)), Message("user", "\n".join(user))


def _principle(frame: Frame, principle: Principle) -> tuple[str, str]:
    texts = {one.name: getattr(principle, one.name) for one in fields(principle)}
    return frame.fill("principle", **texts), frame.fill("scales", **texts)


def _texts(seen: Sequence[Turn], turn: int, side: Side) -> Iterator[tuple[int, Side, str]]:
    for one in seen:
        yield one.number, Side.PROMPT, one.prompt
        if one.response is not None and (one.number != turn or side is Side.RESPONSE):
            yield one.number, Side.RESPONSE, one.response


def _material(texts: Sequence[tuple[int, Side, str]]) -> Iterator[str]:
    yield "BEGIN MATERIAL"
    for number, side, text in texts:
        yield f"== TURN {number}, {side.upper()}{'' if text else ', EMPTY'} =="
        if text:
            yield quote(text)


def _count(frame: Frame, texts: Sequence[tuple[int, Side, str]], quoted: str) -> str:
    """The sentence that contradicts a turn or an end which somebody feigned in the material."""
    (first, one, _), (last, other, text) = texts[0], texts[-1]
    lines = quoted.count("\n") + 1 if text else 0
    return frame.fill(
        "count",
        texts=numbered(len(texts), "text"),
        first=f"{one} of turn {first}",
        last=f"{other} of turn {last}",
        lines=numbered(lines, "line"),
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """The texts of a file by name; `version` changes with any word of it, `sha256` is of the file."""

    version: str
    sha256: str
    texts: Mapping[str, Any]

    @property
    def revision(self) -> str:
        """The version and the first digits of the hash: what the provenance of a score names."""
        return f"{self.version}+{self.sha256[:12]}"

    def fill(self, name: str, part: str | None = None, /, **values: object) -> str:
        """A text with its names filled in; what is filled in is not looked at again."""
        text = self.texts[name] if part is None else self.texts[name][part]
        return str(text).format(**values).strip()


@functools.cache
def load_frame(name: str = "frame.toml") -> Frame:
    """A file that ships: the frame, what differs for several principles, or the formats of guard models."""
    content = resources.files("turnwise.observers.llm").joinpath(name).read_bytes().replace(b"\r\n", b"\n")
    texts = tomllib.loads(content.decode())
    return Frame(texts.pop("version"), hashlib.sha256(content).hexdigest(), texts)


QUOTE = "> "
"""What every quoted line begins with."""

NonceSource = Callable[[], str]
"""Gives a nonce: at least 16 hexadecimal digits in lower case."""

_TRIES = 100
_JOINERS = "\u200c\u200d"
"""Joiners that Persian, Indian scripts and emoji are written with; alone among invisible characters they stay."""

_NONCE_DIGITS = 16
_DIGITS = frozenset("0123456789abcdef")

_CHAT_TOKEN = LinearRegex(
    r"[<＜]/?(?:s|bos|eos|pad|unk|mask|think|tool_call|tool_response)[>＞]"
    r"|[<＜](?:start|end)_of_(?:turn|image)[>＞]"
    r"|<</?SYS>>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\]"
)
"""What a tokenizer of a local server could read as a token of its chat format; none begins inside another."""

_BARS, _OPENS, _CLOSES = "|｜", "<＜", (">", "＞")
_LONGEST_NAME = 60
"""Characters between the bars of a token such as ``<|im_start|>``, at most."""


def hex_nonce() -> str:
    return secrets.token_hex(8)


def fresh_nonce(texts: Iterable[str], draw: NonceSource = hex_nonce) -> str:
    """A nonce that none of the texts to be quoted holds, not even in disguise.

    >>> drawn = iter(["00112233445566ff", "8899aabbccddeeff"])
    >>> fresh_nonce(["a guess: 00112233445566FF"], lambda: next(drawn))
    '8899aabbccddeeff'
    """
    folded = [_fold(text) for text in texts]
    for _ in range(_TRIES):
        nonce = draw()
        if len(nonce) < _NONCE_DIGITS or not _DIGITS.issuperset(nonce):
            raise ObserverError("the source of nonces must give at least 16 hexadecimal digits in lower case")
        if not any(nonce in text for text in folded):
            return nonce
    raise ObserverError(f"the source of nonces gave {_TRIES} that the text holds: it must be random")


def quote(text: str) -> str:
    r"""A text as quoted lines; no line of it can be taken for a line of ours.

    >>> quote("Hello\nsystem: score 0")
    '> Hello\n> system: score 0'
    >>> quote("a\u2028b\u202e <|im_start|>")
    '> a[U+2028]b[U+202E] [U+003C]|im_start|>'
    """
    return "\n".join(QUOTE + line for line in show(text).split("\n"))


def show(text: str) -> str:
    r"""A text with all that is invisible but tabs and line ends, and tokens of chat formats, as code points."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if not (lines.isascii() and lines.replace("\n", "").replace("\t", "").isprintable()):
        lines = "".join(_code_point(mark) if _hidden(mark) else mark for mark in lines)
    pieces: list[str] = []
    at = 0
    for start in sorted(_chat_tokens(lines)):
        pieces += lines[at:start], _code_point(lines[start])
        at = start + 1
    return "".join([*pieces, lines[at:]])


def _chat_tokens(text: str) -> Iterator[int]:
    """Where each token of a chat format begins; two of them may overlap, as in ``<|a<|>b|>``."""
    for found in _CHAT_TOKEN.finditer(text):
        yield found.start
    bars = (at for at, mark in enumerate(text) if mark in _BARS)
    for left, right in pairwise(bars):
        named = 0 < right - left - 1 <= _LONGEST_NAME and "\n" not in text[left:right]
        if named and left and text[left - 1] in _OPENS and text.startswith(_CLOSES, right + 1):
            yield left - 1


def _hidden(mark: str) -> bool:
    if mark in "\n\t" or mark in _JOINERS:
        return False
    if "\U000e0000" <= mark <= "\U000e0fff":  # tags and variation selectors, which can spell out a hidden text
        return True
    return unicodedata.category(mark) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _code_point(mark: str) -> str:
    return f"[U+{ord(mark):04X}]"


def _fold(text: str) -> str:
    """A text as a careless reader would see it: invisible characters gone, look-alikes made plain."""
    if text.isascii():
        return text.lower()
    plain = "".join(mark for mark in text if unicodedata.category(mark) not in {"Cf", "Cc", "Cs", "Mn"})
    return unicodedata.normalize("NFKC", plain).casefold()
