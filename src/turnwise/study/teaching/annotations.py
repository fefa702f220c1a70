"""Annotated turns from a file: what was said, and how far it breaks a principle."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from turnwise._support.bounded import read_json
from turnwise._support.table_files import cell
from turnwise.conversation import Conversation, Side
from turnwise.errors import DatasetError, UnknownNameError
from turnwise.store import Store

Talk: TypeAlias = tuple[tuple[Side, str], ...]
"""Who says what, in order; the last text is the one that is judged."""

MOST_TURNS = 5_000
MOST_BYTES = 64 << 20
MOST_TEXTS = 1_000
"""Texts that stand before an annotated one, at most: the observer sees far fewer."""

_TOLD = 5
"""Bad lines that an error lists at most."""

_ANSWERS = {"yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
_SIDES = {"prompt": Side.PROMPT, "response": Side.RESPONSE, "reply": Side.RESPONSE}


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotated turn.

    Args:
        line: where it stands in the file.
        talk: the text, behind what was said before.
        conversation: turns of one are never divided between training and test.
        falsity: how far it breaks the principle, in [0, 1].
        truth: how far it keeps it; None where only yes or no was said.
        doubt: the annotator's I; None likewise.
    """

    line: int
    talk: Talk
    conversation: str
    falsity: float
    truth: float | None = None
    doubt: float | None = None


@dataclass(frozen=True, slots=True)
class Annotations:
    """The annotated turns of a file, for one side; `blank` counts rows that nobody filled in."""

    side: Side
    turns: tuple[Annotation, ...]
    blank: int
    sha256: str


class _LineError(Exception):
    """What is wrong with a line."""


def read_annotations(path: Path, side: Side, store: Store | None = None) -> Annotations:
    """Read annotated turns of one side from CSV or JSONL.

    A row has a ``text``, or ``sequence_id`` and ``turn`` of a store; and ``breaks`` (yes or no), or ``T``, ``I``
    and ``F``. ``before`` is what was said before: a text, or a JSON list of texts, oldest first, by the two sides
    in turn. ``conversation`` groups rows, ``side`` says which half of a turn the text is. Other columns are left
    alone, and rows that nobody filled in are counted.

    Raises:
        DatasetError: a file that can't be read, or has a wrong line; it is refused as a whole, with the lines.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise DatasetError(f"can't read annotations from {path}: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise DatasetError(
            f"{path} has more than {MOST_BYTES >> 20} MB; a few hundred turns are enough to teach from"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DatasetError(f"{path}, line {line}: not UTF-8; save it as CSV UTF-8") from error
    rows = _json_rows(text) if path.suffix.lower() in {".jsonl", ".ndjson", ".json"} else _csv_rows(text)
    found, blank, bad = [], 0, []
    conversations: dict[str, Conversation] = {}
    try:
        for line, row in rows:
            if isinstance(row, str):
                bad.append(f"line {line}: {row}")
            else:
                try:
                    scores = _scores(row)
                    if scores is None:
                        blank += 1
                        continue
                    found.append(_annotation(line, row, side, scores, store, conversations))
                except _LineError as error:
                    bad.append(f"line {line}: {error}")
            if len(found) > MOST_TURNS:
                raise DatasetError(f"{path} has more than {MOST_TURNS:,} annotated turns; give fewer")
    except csv.Error as error:
        raise DatasetError(f"{path} is no CSV: {error}") from error
    if bad:
        more = f"; and {len(bad) - _TOLD} more lines" if len(bad) > _TOLD else ""
        raise DatasetError(f"{path}: mend these lines, {'; '.join(bad[:_TOLD])}{more}")
    _check_alike(path, found)
    return Annotations(side, tuple(found), blank, hashlib.sha256(data).hexdigest())


def talk_of(conversation: Conversation, turn: int, side: Side) -> Talk:
    """What is said in a conversation up to one side of a turn, without blank texts."""
    said = [
        (half, text)
        for one in conversation
        if one.number <= turn
        for half in Side
        if (text := one.text(half)) and text.strip() and (one.number < turn or half is Side.PROMPT or side is half)
    ]
    return tuple(said)


def digest_of(talk: Talk) -> str:
    """Stands for a text with what was said before it."""
    content = json.dumps([[str(side), text] for side, text in talk])
    return f"d{hashlib.sha256(content.encode()).hexdigest()[:15]}"  # no spreadsheet takes it for a number


def _csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Line and columns of each row, or what is wrong with it."""
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    heading = [name.strip() for name in next(reader, [])]
    if twice := [name for name, count in Counter(heading).items() if count > 1 and name]:
        yield 1, f"two columns are called {twice[0]!r}"
        return
    start = reader.line_num
    for cells in reader:
        line, start = start + 1, reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) > len(heading):
            yield line, f"{len(cells)} cells under {len(heading)} headings; put texts with commas in quotes"
        else:
            yield line, {name: cell for name, cell in zip(heading, cells, strict=False) if cell.strip()}


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        try:
            row = read_json(content)
        except ValueError as error:
            yield line, f"no JSON: {error}"
            continue
        if not isinstance(row, dict):
            yield line, "no JSON object"
        else:
            yield line, {name: value for name, value in row.items() if value not in (None, "")}


def _scores(row: Mapping[str, Any]) -> tuple[float, float | None, float | None] | None:
    """F, T and I of a row; None where nobody filled it in."""
    given = [name for name in ("T", "I", "F") if name in row]
    if "breaks" in row:
        if given:
            raise _LineError("it has breaks and T, I or F: give one of them")
        answer = row["breaks"]
        word = str(int(answer)) if isinstance(answer, bool) else str(answer).strip().lower()
        if word not in _ANSWERS:
            raise _LineError(f"breaks is {str(answer)[:40]!r}, not yes or no; leave it empty to skip the turn")
        return _ANSWERS[word], None, None
    if not given:
        return None
    if len(given) < 3:
        raise _LineError(f"it has {' and '.join(given)} alone: T, I and F go together, or use breaks")
    values = []
    for name in ("F", "T", "I"):
        try:
            value = float(row[name])
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if isinstance(row[name], bool) or not 0 <= value <= 1:
            raise _LineError(f"{name} is {str(row[name])[:40]!r}, not a number from 0 to 1")
        values.append(value)
    return values[0], values[1], values[2]


def _annotation(
    line: int,
    row: Mapping[str, Any],
    side: Side,
    scores: tuple[float, float | None, float | None],
    store: Store | None,
    conversations: dict[str, Conversation],
) -> Annotation:
    named = str(row.get("side", side)).strip().lower()
    if named not in _SIDES:
        raise _LineError(f"side is {named[:40]!r}, not prompt or reply")
    if _SIDES[named] is not side:
        raise _LineError(
            f"it annotates a {named}, and this teaches {side}s: --side {_SIDES[named]} teaches the other side"
        )
    if "sequence_id" in row:
        name = _plain(str(row["sequence_id"]))
        talk = _stored(row, name, side, store, conversations)
        conversation = str(row.get("conversation", name))
    else:
        talk = _before(row.get("before"), side)
        talk = (*talk, (side, _text(row, "text")))
        conversation = str(row.get("conversation", f"line {line}"))
    for _, text in talk:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _LineError(f"a text is no Unicode: {error.reason}") from error
    return Annotation(line, talk, conversation, *scores)


def _plain(name: str) -> str:
    """An id as it was before it became a cell that no spreadsheet takes for a formula."""
    return name[1:] if name.startswith("'") and cell(name[1:]) == name else name


def _text(row: Mapping[str, Any], name: str) -> str:
    text = row.get(name)
    if text is None:
        raise _LineError(f"no {name}: a row has text, or sequence_id and turn")
    if not isinstance(text, str) or not text.strip():
        raise _LineError(f"{name} is no text")
    return text


def _before(value: Any, side: Side) -> Talk:
    """What was said before, the latest by the other side."""
    if value is None:
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = read_json(value)
        except ValueError as error:
            raise _LineError(f"before is no JSON list of texts: {error}") from error
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _LineError("before is neither a text nor a list of texts")
    if len(texts) > MOST_TEXTS:
        raise _LineError(f"before has {len(texts)} texts; {MOST_TEXTS} is the most")
    other = Side.PROMPT if side is Side.RESPONSE else Side.RESPONSE
    speakers = ((other, side)[place % 2] for place in range(len(texts)))
    said = [(speaker, text) for speaker, text in zip(speakers, reversed(texts), strict=True) if text.strip()]
    return tuple(reversed(said))


def _stored(
    row: Mapping[str, Any], name: str, side: Side, store: Store | None, conversations: dict[str, Conversation]
) -> Talk:
    if store is None:
        raise _LineError("it names a turn of a store: give the store with --store")
    turn = str(row.get("turn", "")).strip()
    if not (turn.isascii() and turn.isdecimal() and 1 <= len(turn) < 10):
        raise _LineError(f"turn is {turn[:40]!r}, not the number of a turn of {name[:80]!r}")
    if name not in conversations:
        try:
            conversations[name] = store.sequence(name).conversation
        except UnknownNameError as error:
            raise _LineError(
                f"{store.location} has no sequence {name[:80]!r}: these are annotations of another store"
            ) from error
    number = int(turn)
    said = next((one.text(side) for one in conversations[name] if one.number == number), None)
    if not said or not said.strip():
        raise _LineError(f"turn {number} of {name[:80]!r} has no {side} in {store.location}")
    talk = talk_of(conversations[name], number, side)
    digest, text = row.get("digest"), row.get("text")
    other = (
        str(digest).strip() != digest_of(talk)
        if digest is not None
        else text is not None and str(text).split() != said.split()
    )
    if other:
        raise _LineError(
            f"turn {number} of {name[:80]!r} in {store.location} is not the text that was annotated: these are "
            "annotations of another store, or the text was changed"
        )
    return talk


def _check_alike(path: Path, turns: Iterable[Annotation]) -> None:
    """Refuse one text in two conversations: it would be in training and test at once."""
    known: dict[Talk, Annotation] = {}
    pairs = []
    for one in turns:
        first = known.setdefault(one.talk, one)
        if first.conversation != one.conversation:
            pairs.append(f"{first.line} and {one.line}")
    if pairs:
        raise DatasetError(
            f"{path}: {len(pairs)} turns, with what was said before, are there twice in different conversations "
            f"(lines {'; '.join(pairs[:_TOLD])}): they would be in training and test at once. Delete one of each, "
            "or give both the same conversation"
        )
