"""Principles: what a turn is judged against. Those that ship, those of installed packages, and a user's own.

A principle is a folder with ``prompt.md``, the text that a language model is given, and ``principle.toml``: name,
version, summary, and under ``[meaning]`` truth, indeterminacy and falsity. A package offers one by an entry point
in the group ``turnwise.principles``, under the name of the principle: a `Principle`, the path of the folder, or a
Python package that is the folder. Beside them stands in ``taught-prompt.json`` or ``taught-response.json``, JSON,
what ``turnwise teach`` wrote and the embedded observer scores by: ``about`` says what it was taught from and on,
``head`` has the numbers, and ``sha256`` is the hash of both. Nothing in it is a text of an annotated turn.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from turnwise._support.bounded import read_json
from turnwise.conversation import Side
from turnwise.errors import PluginError, PrincipleError, UnknownNameError
from turnwise.plugins import Registry

SETTINGS_FILE = "principle.toml"
PROMPT_FILE = "prompt.md"

_HEAD_FORMAT = "turnwise-head-1"
_MOST_HEAD_BYTES = 4_000_000
"""Of a file of a taught head; one of the shipped observer takes some 30,000."""

_AGAIN = "teach it again (turnwise teach), or delete the file"

BUILT_IN = ("reciprocity", "context_integrity", "third_party_harm")
"""The principles that turns are judged against where none is named, each a folder beside this file."""

OF_REPLIES = ("user_autonomy",)
"""Principles that ship beside them, about replies alone; they are judged where somebody names them."""

SHIPPED = (*BUILT_IN, *OF_REPLIES)
"""All that ship; a new one is a folder and its name above."""


@dataclass(frozen=True, slots=True)
class Principle:
    """What a turn is judged against.

    Args:
        name: identifier in snake_case, unique in a run; patterns refer to it.
        version: changes whenever settings or text change.
        summary: the principle in a sentence.
        truth: what T means here.
        indeterminacy: what I means here.
        falsity: what F means here.
        prompt: the text that a language model is given, constitutional and neutral.
        heads: what was taught of it, for the sides of a turn for which it was.
    """

    name: str
    version: str
    summary: str
    truth: str
    indeterminacy: str
    falsity: str
    prompt: str
    heads: tuple[HeadFile, ...] = ()

    @property
    def revision(self) -> str:
        """The version and the first digits of `digest`: what the provenance of a score names."""
        return f"{self.version}+{self.digest()[:12]}"

    def digest(self) -> str:
        """Return the SHA-256 of every field but `heads`, as 64 hexadecimal digits.

        The version alone does not promise that two principles are the same: it may not have been changed.
        """
        texts = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "heads"}
        return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()

    def head(self, side: Side) -> HeadFile | None:
        """The taught head for a side; None where there is none."""
        return next((one for one in self.heads if one.side is side), None)


PRINCIPLES: Registry[Principle | ModuleType | str | Path] = Registry(
    "principle", "turnwise.principles", lambda part: isinstance(part, Principle | ModuleType | str | Path)
)
"""The principles of installed packages: entry points in the group ``turnwise.principles``."""


def principle_names() -> tuple[str, ...]:
    """Return the names of the principles that turns are judged against by default, in their fixed order.

    >>> principle_names()
    ('reciprocity', 'context_integrity', 'third_party_harm')
    """
    return BUILT_IN


def builtin_principles() -> tuple[Principle, ...]:
    """Return the principles that turns are judged against by default, in their fixed order."""
    return tuple(map(load_principle, BUILT_IN))


def list_principles() -> tuple[Principle, ...]:
    """Return every principle that has a name: those that ship, then those of installed packages, sorted.

    Raises:
        PluginError: a package offers something that is no principle.
        PrincipleError: a folder that a package offers can't be read.
    """
    installed = (name for name in PRINCIPLES.names() if name not in SHIPPED)
    return (*map(load_principle, SHIPPED), *map(_installed, installed))


def is_named(name: str) -> bool:
    """Return whether a principle that ships, or one of an installed package, has that name."""
    return name in SHIPPED or name in PRINCIPLES.names()


def load_principle(name_or_path: str | Path) -> Principle:
    """Return a principle by its name, or one from a user's own folder.

    Args:
        name_or_path: the name of a principle that ships or that an installed package offers, or a folder with
            ``principle.toml`` and ``prompt.md``. A name wins over a folder of the same name; such a folder is
            reached as ``./name`` or as a `Path`.

    Raises:
        UnknownNameError: neither a known name nor a folder.
        PrincipleError: the folder lacks a file, a file lacks a key, or a value is not what it has to be.
        PluginError: the package that has the name offers something that is no principle.

    >>> load_principle("reciprocity").version
    '1'
    """
    if name_or_path in SHIPPED:
        return _read(resources.files("turnwise.principles").joinpath(str(name_or_path)))
    if isinstance(name_or_path, str) and name_or_path in PRINCIPLES.names():
        return _installed(name_or_path)
    known = (*SHIPPED, *PRINCIPLES.names())
    if name_or_path == "":
        raise UnknownNameError("principle", "", known)
    folder = Path(name_or_path)
    if folder.is_dir():
        return _read(folder)
    if folder.exists():
        raise PrincipleError(f"{folder} is a file; give the folder that holds {SETTINGS_FILE} and {PROMPT_FILE}")
    if isinstance(name_or_path, Path) or folder.name != name_or_path:
        raise PrincipleError(f"no folder {folder}: name a folder with {SETTINGS_FILE} and {PROMPT_FILE}")
    raise UnknownNameError("principle", name_or_path, known)


def _installed(name: str) -> Principle:
    offered = PRINCIPLES.get(name)
    if isinstance(offered, ModuleType):
        found = _read(resources.files(offered))
    elif isinstance(offered, str | Path):
        found = _read(Path(offered))
    else:
        found = offered
    if found.name != name:
        raise PluginError(f"principle {name!r} of a package calls itself {found.name!r}; give it one name")
    return found


def _read(folder: Traversable) -> Principle:
    file = folder.joinpath(SETTINGS_FILE)
    try:
        settings = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as error:
        raise PrincipleError(f"{file} is not valid TOML: {error}") from error
    meaning = settings.get("meaning", {})
    if not isinstance(meaning, dict):
        raise PrincipleError(f"{file}: [meaning] must be a table with truth, indeterminacy and falsity")
    name = _value(file, settings, "name")
    if not _is_snake_case(name):
        raise PrincipleError(f'{file}: name must be in snake_case, such as "third_party_harm", not {name!r}')
    prompt = folder.joinpath(PROMPT_FILE)
    text = _text(prompt).strip()
    if not text:
        raise PrincipleError(f"{prompt} is empty: write the text that a language model is given")
    return Principle(
        name=name,
        version=_value(file, settings, "version"),
        summary=_value(file, settings, "summary"),
        truth=_value(file, meaning, "truth", "meaning."),
        indeterminacy=_value(file, meaning, "indeterminacy", "meaning."),
        falsity=_value(file, meaning, "falsity", "meaning."),
        prompt=text,
        heads=_heads(folder, name),
    )


def _heads(folder: Traversable, name: str) -> tuple[HeadFile, ...]:
    if not isinstance(folder, Path):  # a package in an archive
        return ()
    return tuple(_read_head_file(path, name) for side in Side if (path := _head_path(folder, side)).exists())


def _is_snake_case(name: str) -> bool:
    """Lower-case ASCII letters and digits, in words with single underscores between them."""
    words = name.split("_")
    plain = all(word.isascii() and word.isalnum() and word == word.lower() for word in words)
    return plain and name[:1].isalpha()


def _text(file: Traversable) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise PrincipleError(f"{file} is missing: a principle needs {SETTINGS_FILE} and {PROMPT_FILE}") from None
    except UnicodeDecodeError as error:
        raise PrincipleError(f"{file} is not UTF-8: {error}") from error
    except OSError as error:
        raise PrincipleError(f"{file} can't be read: {error}") from error


def _value(file: Traversable, table: Mapping[str, Any], key: str, prefix: str = "") -> str:
    if key not in table:
        raise PrincipleError(f"{file}: {prefix}{key} is missing; add it, as text in quotes")
    value = table[key]
    if not isinstance(value, str) or not value.strip():
        raise PrincipleError(f"{file}: {prefix}{key} must be a text in quotes that is not empty, not {value!r}")
    return value.strip()


@dataclass(frozen=True, slots=True)
class HeadFile:
    """The file of a taught head.

    Args:
        path: where it is.
        side: the half of a turn that it scores.
        sha256: hash of its content, which changes with every score that could change.
        base: hash of the weights on whose states it was taught.
    """

    path: Path
    side: Side
    sha256: str
    base: str


class HeadContent(NamedTuple):
    """What the file of a taught head holds: how it was taught, and the numbers."""

    file: HeadFile
    about: Mapping[str, Any]
    head: Mapping[str, Any]


def _head_path(folder: Path, side: Side) -> Path:
    return folder / f"taught-{side}.json"


def _read_head_file(path: Path, principle: str) -> HeadFile:
    """What a file says of itself, checked; `PrincipleError` where it is damaged or of another principle."""
    content = read_head(path)
    if content.about.get("principle") != principle:
        raise PrincipleError(
            f"{path} was taught for principle {content.about.get('principle')!r}, not for {principle!r}; {_AGAIN}"
        )
    return content.file


def read_head(path: Path) -> HeadContent:
    """Return what was taught, from a file that `write_head` wrote.

    Args:
        path: the file.

    Raises:
        PrincipleError: it can't be read, or is not as it was written.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_HEAD_BYTES + 1)
        if len(data) > _MOST_HEAD_BYTES:
            raise ValueError(f"it has more than {_MOST_HEAD_BYTES:,} bytes")
        content = read_json(data)
        about, head = content["about"], content["head"]
        if content["format"] != _HEAD_FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {_HEAD_FORMAT!r}")
        digest = _digest(about, head)
        if digest != content["sha256"]:
            raise ValueError("its content does not have the hash that it records: it was altered or cut off")
        file = HeadFile(path, Side(about["side"]), digest, str(about["base"]))
    except OSError as error:
        raise PrincipleError(f"{path} can't be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise PrincipleError(f"{path} is no head that turnwise taught ({error}); {_AGAIN}") from error
    return HeadContent(file, about, head)


def write_head(folder: Path, about: Mapping[str, Any], head: Mapping[str, Any]) -> HeadFile:
    """Write what was taught into the folder of a principle, whole or not at all.

    Args:
        folder: the folder of the principle.
        about: how it was taught: ``principle``, ``side`` and ``base`` at least; JSON values.
        head: the numbers, JSON values.

    Raises:
        PrincipleError: the file can't be written.
    """
    path, digest = _head_path(folder, Side(about["side"])), _digest(about, head)
    content = {"format": _HEAD_FORMAT, "sha256": digest, "about": about, "head": head}
    text = json.dumps(content, indent=1, allow_nan=False)
    beside = path.with_suffix(".part")
    try:
        beside.write_text(f"{text}\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise PrincipleError(f"can't write {path}: {error.strerror or error}") from error
    return HeadFile(path, Side(about["side"]), digest, str(about["base"]))


def _digest(about: object, head: object) -> str:
    return hashlib.sha256(json.dumps([about, head], sort_keys=True).encode()).hexdigest()
