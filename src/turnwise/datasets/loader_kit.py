"""The conformance kit of loaders: what every loader has to keep, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Sequence as Ordered
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

from turnwise.conversation import Label, Sequence
from turnwise.datasets.generic_formats import to_line
from turnwise.datasets.layout import FileHead, Layout, read_head
from turnwise.datasets.opening import get_loader
from turnwise.datasets.protocol import BadRecord, DatasetInfo, Loader, LoadOptions
from turnwise.errors import DatasetError
from turnwise.plugins import factory_of

_TEXTS = ("name", "title", "source", "licence", "label_meaning", "shape")
_CUTS = 12
"""Places at which the example is cut off, one after the other."""

_ODD_RECORDS: tuple[object, ...] = (None, 7, "text", [], [[]], {}, {"": None}, {"colour": "blue"})
"""What may stand in a file of another format."""

_ODD_LINES = (b"", b"{", b"null", b"7", b'"text"', b"[]", b"{}", b'{"colour": "blue"}', b"\xff\xfe")


def check_loader(loader: Loader | Callable[[], Loader], example: str | Path) -> None:
    """Check that a loader keeps the contract of `turnwise.datasets.Loader`.

    A package that brings a loader calls this in its tests, with a small file of its format in which every record
    is good. The kit reads the file twice, with and without options, damaged and cut off.

    Args:
        loader: the loader, or what makes one without arguments, such as its class.
        example: the file, or a folder where `DatasetInfo.directory` says that the loader reads folders.

    Raises:
        AssertionError: the loader breaks the contract; the message says how.

    >>> line = {"id": "a", "label": "attack", "turns": [{"role": "user", "content": "Hi"}]}
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "chats.jsonl")
    ...     _ = file.write_text(json.dumps(line))
    ...     check_loader(lambda: get_loader("turnwise"), file)
    """
    path = Path(example)
    factory = factory_of(loader, "load")
    one: Loader = factory()
    _check_info(one, factory())
    _check_sniff(one, path)
    read = _load(one, path)
    _check_sequences(read)
    _demand(
        _plain(_load(one, path)) == _plain(read),
        "load",
        "a second time gives other sequences: it remembers earlier files",
    )
    _demand(_plain(_load(factory(), path)) == _plain(read), "load", "a second loader gives other sequences")
    _check_options(one, path, read)
    _check_round_trip(read)
    _check_damage(one, path)
    try:
        _load(one, path.with_name(f"{path.name}.that.is.not.there"))
    except DatasetError:
        return
    raise AssertionError("load: a missing file must raise DatasetError")


def _check_info(one: Loader, other: Loader) -> None:
    missing = [field.name for field in fields(DatasetInfo) if not hasattr(one.info, field.name)]
    _demand(not missing, "info", f"it has no {', '.join(missing)}")
    for name in _TEXTS:
        text = getattr(one.info, name)
        _demand(isinstance(text, str) and bool(text.strip()), "info", f"{name} is empty")
    _demand(one.info == other.info, "info", "it differs from one loader to the next")


def _check_sniff(loader: Loader, path: Path) -> None:
    _demand(loader.sniff(read_head(str(path))) is True, "sniff", f"{path.name} is not told to be of its format")
    for record in _ODD_RECORDS:
        for layout in Layout:
            head = FileHead("other", "other", layout, (record,))
            _demand(loader.sniff(head) is False, "sniff", f"{record!r} is taken for a record of its format")
    _demand(
        loader.sniff(FileHead("other", "other", Layout.LINES, ())) is False, "sniff", "no record is taken for one"
    )


def _check_sequences(read: Ordered[Sequence | BadRecord]) -> None:
    bad = [item for item in read if isinstance(item, BadRecord)]
    _demand(not bad, "load", f"a record of the example is bad: {bad[:1]}")
    good = [item for item in read if isinstance(item, Sequence)]
    _demand(len(good) == len(read), "load", "it yields what is neither Sequence nor BadRecord")
    _demand(bool(good), "load", "it yields no sequence")
    ids = [item.sequence_id for item in good]
    _demand(len(set(ids)) == len(ids), "load", "two sequences have the same id")
    for item in good:
        where = f"sequence {item.sequence_id!r}"
        _demand(bool(item.source), where, "it has no source")
        _demand(item.conversation.conversation_id == item.sequence_id, where, "its conversation has another id")
        _demand(isinstance(item.line, int) and item.line > 0, where, "it has no line")
        try:
            kept = json.loads(json.dumps(dict(item.metadata), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"{where}: its metadata is not JSON: {error}") from error
        _demand(kept == dict(item.metadata), where, "its metadata do not survive JSON")


def _check_options(loader: Loader, path: Path, read: Ordered[Sequence | BadRecord]) -> None:
    """What the user says only fills in: a label where a record has none, and the name of the data set."""
    for label in (Label.ATTACK, Label.BENIGN):
        told = list(loader.load(str(path), LoadOptions(label=label, source="kit")))
        _demand(len(told) == len(read), "options", "a label and a source make records good or bad")
        for before, after in zip(read, told, strict=True):
            if isinstance(before, Sequence) and isinstance(after, Sequence):
                where = f"options, sequence {before.sequence_id!r}"
                _demand(after.label in (before.label, label), where, f"its label is {after.label}, not {label}")
                _demand(
                    after.source in (before.source, "kit"), where, f"its source is {after.source!r}, not 'kit'"
                )
                same = before.conversation.to_messages() == after.conversation.to_messages()
                _demand(same, where, "its texts hang on what the user said")


def _check_round_trip(read: Ordered[Sequence | BadRecord]) -> None:
    """What was read can be written as turnwise JSONL and read back."""
    lines = [to_line(item) for item in read if isinstance(item, Sequence)]
    with TemporaryDirectory() as folder:
        copy = Path(folder, "copy.jsonl")
        copy.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        back = [to_line(item) for item in _load(get_loader("turnwise"), copy) if isinstance(item, Sequence)]
    _demand(back == lines, "to_line", "a sequence that is written and read back is another one")


def _check_damage(loader: Loader, path: Path) -> None:
    """A damaged file gives bad records or a DatasetError, and nothing else."""
    if path.is_dir():
        return
    content = path.read_bytes()
    with TemporaryDirectory() as folder:
        damaged = Path(folder, path.name)
        for cut in range(_CUTS):
            damaged.write_bytes(content[: len(content) * cut // _CUTS])
            _try(loader, damaged, f"cut off after {cut} of {_CUTS} parts")
        for odd in _ODD_LINES:
            damaged.write_bytes(content.rstrip(b"\n") + b"\n" + odd + b"\n")
            _try(loader, damaged, f"followed by the line {odd!r}")
        if read_head(str(path)).layout is Layout.LINES:
            damaged.write_bytes(content.rstrip(b"\n") + b"\n{\n")
            bad = any(isinstance(item, BadRecord) for item in _load(loader, damaged))
            _demand(bad, "damage", "a line that is not JSON is passed over: it must give a BadRecord")


def _try(loader: Loader, path: Path, what: str) -> None:
    try:
        for item in loader.load(str(path), LoadOptions()):
            _demand(isinstance(item, Sequence | BadRecord), what, f"{item!r} is neither Sequence nor BadRecord")
    except DatasetError:
        pass
    except AssertionError:
        raise
    except Exception as error:  # whatever a loader may raise
        raise AssertionError(f"damage: the example {what} raises {type(error).__name__}: {error}") from error


def _load(loader: Loader, path: Path) -> list[Sequence | BadRecord]:
    return list(loader.load(str(path), LoadOptions()))


def _plain(read: Ordered[Sequence | BadRecord]) -> list[object]:
    return [item if isinstance(item, BadRecord) else (item.line, to_line(item)) for item in read]


def _demand(kept: bool, label: str, message: str) -> None:
    """Raise unless a demand is kept; an ``assert`` would vanish under ``python -O``."""
    if not kept:
        raise AssertionError(f"{label}: {message}")
