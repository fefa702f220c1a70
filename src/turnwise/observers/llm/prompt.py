"""The messages of a request: principle, scales, the marked and quoted turns, and the form of the answer."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.errors import UsageError
from turnwise.observers.llm.chat import Message
from turnwise.observers.llm.quoting import quote
from turnwise.observers.protocol import Context, ContextMode
from turnwise.principles import Principle

NO_NONCE = "0" * 16
"""Stands in the place of the nonce where a request is hashed or shown."""


def prompt_version(principle: Principle) -> str:
    """Return the version of all text that a request is made of, beside the turns: frame and principle."""
    return f"frame {load_frame().revision}, {principle.name} {principle.revision}"


def shown_texts(
    turns: Sequence[Turn], turn: int, side: Side, context: Context
) -> tuple[tuple[int, Side, str], ...]:
    """Return what the context mode lets a model see, as (number, side, text), the judged text last.

    The prompt side never sees the response of its own turn.

    Args:
        turns: the turns of a conversation, in order; later ones than `turn` are left out.
        turn: number of the turn that is judged.
        side: the half of it that is judged.
        context: what may be seen.

    Raises:
        UsageError: there is no such turn, or the side has not spoken.
    """
    judged = next((one for one in turns if one.number == turn), None)
    if judged is None or judged.text(side) is None:
        raise UsageError(f"no {side} of turn {turn} to judge")
    seen = [one for one in turns if one.number <= turn]
    if context.mode is ContextMode.TURN:
        seen = [judged]
    elif context.mode is ContextMode.WINDOW:
        seen = seen[-(context.size or 1) :]
    return tuple(_texts(seen, turn, side))


def render(
    principle: Principle, turns: Sequence[Turn], turn: int, side: Side, context: Context, nonce: str = NO_NONCE
) -> tuple[Message, ...]:
    """Return the messages that ask for one score.

    Args:
        principle: what the turn is judged against; its name and texts are part of the messages.
        turns: the turns of the conversation, in order; what the context mode hides is left out.
        turn: number of the turn that is judged.
        side: the half of it that is judged.
        context: what may be seen.
        nonce: what marks the material; from `turnwise.observers.llm.fresh_nonce`, for a request that is sent.

    Raises:
        UsageError: there is no such turn, or the side has not spoken.
    """
    frame = load_frame()
    mark = f"<<{nonce}>>"
    name = principle.name
    system = (
        frame.fill("principle", name=name, summary=principle.summary, prompt=principle.prompt),
        frame.fill(
            "scales",
            name=name,
            truth=principle.truth,
            indeterminacy=principle.indeterminacy,
            falsity=principle.falsity,
        ),
        frame.fill("answer"),
        frame.fill("material", mark=mark),  # the nonce comes last: providers discount a beginning that recurs
    )
    whole = context.mode is ContextMode.TRANSCRIPT
    asked = frame.fill("asked_of_transcript" if whole else "asked", side, turn=turn, name=name)
    seen = frame.fill("seen", context.mode, turn=turn, size=context.size)
    user = (
        f"{asked} {seen}",
        "\n".join(_material(shown_texts(turns, turn, side, context), mark, None if whole else (turn, side))),
        f"{asked} Answer with the JSON object alone.",
    )
    return Message("system", "\n\n".join(system)), Message("user", "\n\n".join(user))


def _texts(seen: Sequence[Turn], turn: int, side: Side) -> Iterator[tuple[int, Side, str]]:
    for one in seen:
        yield one.number, Side.PROMPT, one.prompt
        if one.response is not None and (one.number != turn or side is Side.RESPONSE):
            yield one.number, Side.RESPONSE, one.response


def _material(texts: Sequence[tuple[int, Side, str]], mark: str, judged: tuple[int, Side] | None) -> Iterator[str]:
    yield f"{mark} BEGIN MATERIAL"
    for number, side, text in texts:
        head = f"{mark} TURN {number}, {side.upper()}"
        if (number, side) == judged:
            head += ", TO BE JUDGED"
        if text:
            yield head
            yield quote(text)
        else:
            yield f"{head}, EMPTY"
    yield f"{mark} END MATERIAL"


@dataclass(frozen=True, slots=True)
class Frame:
    """The texts of ``frame.toml``.

    Args:
        version: changes with any word of it.
        sha256: hash of the file.
        texts: the texts, by name.
    """

    version: str
    sha256: str
    texts: Mapping[str, Any]

    @property
    def revision(self) -> str:
        """The version and the first digits of the hash: what the provenance of a score names."""
        return f"{self.version}+{self.sha256[:12]}"

    def fill(self, name: str, part: str | None = None, /, **values: object) -> str:
        """Return a text with its names filled in; what is filled in is not looked at again."""
        text = self.texts[name] if part is None else self.texts[name][part]
        return str(text).format(**values).strip()


@functools.cache
def load_frame() -> Frame:
    """Return the frame that ships with turnwise."""
    content = resources.files("turnwise.observers.llm").joinpath("frame.toml").read_bytes().replace(b"\r\n", b"\n")
    texts = tomllib.loads(content.decode())
    return Frame(texts.pop("version"), hashlib.sha256(content).hexdigest(), texts)
