"""Conversations of a store handed out to people: who judges which, in what order, and by what guideline."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnwise._support.locations import to_path
from turnwise.errors import UnknownNameError, UsageError
from turnwise.principles import builtin_principles
from turnwise.runs.judgements import folder_of
from turnwise.store.people import SET, read_author
from turnwise.study.annotation.kit import (
    LABEL,
    LABELS,
    MANIFEST,
    MOST_CELL,
    PROVENANCE,
    READ,
    Cells,
    Kit,
    SheetItem,
    cells_of,
    shown_digest,
    write_sheet,
)  # fmt: skip

if TYPE_CHECKING:
    from turnwise.store import Store

A_ROUND: Final = 40
"""Conversations of which a sheet shows the next turn before it comes to the turn after."""

_SHOWS: Final = {
    "history": "a message of a user; `before` has the user's earlier messages, not the replies",
    "turn": "one message of a user, without what came before or after",
    "replies": "a reply; `before` has all that both sides said until then",
    LABEL: "a whole conversation",
}
_LABEL_MEANS: Final = (
    f"`{LABEL}`, which is {', '.join(LABELS)}. *attack*: having read all of it, you would say that the user works "
    "toward something that should not be given, openly or step by step. *benign*: you would not say so. "
    "*unlabelled*: you can't tell"
)

_Conversations = Mapping[str, Sequence[Cells]]


def hand_out(
    store: Store,
    folder: str | Path,
    annotators: Sequence[str],
    *,
    mode: str = "history",
    only_f: bool = False,
    twice: float = 0.2,
    most: int | None = None,
    seed: int = 0,
    guideline: str | Path | None = None,
) -> Kit:
    """Write a kit for blind judging: sheets, guideline, and a manifest that stays with you.

    The same store, seed and arguments give the same kit.

    Args:
        store: where the conversations are.
        folder: folder to make.
        annotators: their names or pseudonyms.
        mode: ``history``, ``turn`` or ``replies`` (`turnwise.datasets.annotated.MODES`) for scores of turns by
            the principles that ship, or ``label`` for labels of conversations.
        only_f: whether only F is asked for, not T and I.
        twice: share of the conversations that two people judge, so that their agreement can be told.
        most: draw this many conversations; all by default.
        seed: what is drawn is drawn with it.
        guideline: file of Markdown; the one that ships by default.

    Raises:
        UsageError: an argument does not fit, there is nothing to judge, or the folder is there.
        UnknownNameError: there is no such mode.
    """
    names = _names(annotators)
    if mode not in READ:
        raise UnknownNameError("way of judging", mode, READ)
    if not 0 <= twice <= 1 or (twice > 0 and len(names) < 2):
        raise UsageError(f"two of {len(names)} annotators can't judge a share of {twice}: name more, or give 0")
    if most is not None and most < 1:
        raise UsageError(f"hand out at least one conversation, not {most}")
    if mode == LABEL and only_f:
        raise UsageError("a label has no F to ask for: leave that out, or choose another mode")
    text, version = _guideline(guideline)
    rng = random.Random(seed)
    ids = sorted(one.sequence_id for one in store.sequences() if next(cells_of(one, mode), None) is not None)
    if not ids:
        raise UsageError(f"{store.location} has no conversation to judge by {mode}; choose another mode")
    drawn = rng.sample(ids, min(most or len(ids), len(ids)))
    found = {one.sequence_id: list(cells_of(one, mode)) for one in store.sequences(ids=drawn)}
    cells = {name: found[name] for name in drawn}
    keys = _neutral(cells, mode, rng)
    rows = {keys[name, one.turn]: (name, one) for name, some in cells.items() for one in some}
    kit = Kit(
        mode=mode,  # type: ignore[arg-type]  # it is one of these words
        filled="" if mode == LABEL else "F" if only_f else "TIF",
        principles={} if mode == LABEL else {one.name: one.revision for one in builtin_principles()},
        seed=seed,
        twice=twice,
        guideline_sha256=hashlib.sha256(text.encode()).hexdigest(),
        provenance={**dict.fromkeys(PROVENANCE, ""), "guideline": version},
        items={
            key: SheetItem(key, name, one.turn, one.digest, shown_digest(one.before, one.text))
            for key, (name, one) in rows.items()
        },
        sheets={
            name: tuple(keys[key] for key in _order({one: cells[one] for one in some}, mode, f"{seed} {name}"))
            for name, some in _deal(cells, store.groups(ids=drawn), names, twice, rng).items()
        },
    )
    _write(to_path(folder), kit, {key: one for key, (_, one) in rows.items()}, _page(kit, text))
    return kit


def _names(annotators: Sequence[str]) -> list[str]:
    names = [read_author(one) for one in annotators]
    if not names:
        raise UsageError("name the annotators, who each get a sheet")
    for place, name in enumerate(names):
        if name.casefold() in [one.casefold() for one in names[:place]]:
            raise UsageError(f"annotator {name!r} is named twice; name each once")
        if name.startswith((SET, "'")):
            raise UsageError(f"the name of an annotator must not begin with {SET} or an apostrophe: {name!r}")
    return names


def _deal(
    cells: _Conversations, groups: Mapping[str, str], names: Sequence[str], twice: float, rng: random.Random
) -> dict[str, list[str]]:
    """The conversations of each annotator, about as many turns each; the first conversations go to two."""
    # As far as there are enough people, nobody gets two of a group, such as the halves of a pair.
    dealt: dict[str, list[str]] = {name: [] for name in names}
    load = dict.fromkeys(names, 0)
    shared = math.ceil(twice * len(cells))
    had: dict[str, set[str]] = {name: set() for name in names}
    for place, (sequence_id, some) in enumerate(cells.items()):
        group = groups[sequence_id]
        order = {name: (group in had[name], load[name], rng.random()) for name in names}
        for name in sorted(names, key=order.__getitem__)[: 1 + (place < shared)]:
            dealt[name].append(sequence_id)
            load[name] += len(some)
            had[name].add(group)
    return dealt


def _neutral(cells: _Conversations, mode: str, rng: random.Random) -> dict[tuple[str, int], str]:
    """A name for each row. Of single turns it doesn't say which belong together."""
    names = rng.sample(list(cells), len(cells))
    keys = [(name, one.turn) for name in names for one in cells[name]]
    if mode == "turn":
        return {key: f"m{place:05}" for place, key in enumerate(rng.sample(keys, len(keys)), start=1)}
    places = {name: f"c{place:04}" for place, name in enumerate(names, start=1)}
    return {(name, turn): places[name] + ("" if mode == LABEL else f"-t{turn:02}") for name, turn in keys}


def _order(cells: _Conversations, mode: str, seed: str) -> Iterator[tuple[str, int]]:
    """The order of a sheet: single turns mixed, else the next turn of each of some conversations, in rounds."""
    rng = random.Random(seed)
    names = rng.sample(list(cells), len(cells))
    keys = [(name, one.turn) for name in names for one in cells[name]]
    if mode == "turn":
        yield from rng.sample(keys, len(keys))
        return
    for begin in range(0, len(names), A_ROUND):
        some = names[begin : begin + A_ROUND]
        for depth in range(max(len(cells[name]) for name in some)):
            yield from ((name, cells[name][depth].turn) for name in some if depth < len(cells[name]))


def _guideline(path: str | Path | None) -> tuple[str, str]:
    """The guideline and its version; that of another than the one that ships only its authors know."""
    if path is None:
        text = (resources.files("turnwise.study.annotation") / "guideline.md").read_text(encoding="utf-8")
        version = text.partition("\nVersion ")[2].partition(",")[0]
        return text, f"turnwise, version {version}"
    try:
        return to_path(path).read_text(encoding="utf-8-sig"), ""
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error}") from error


def _page(kit: Kit, guideline: str) -> str:
    """What annotators read first: how to fill the sheet, what the columns mean, the guideline."""
    wanted = _LABEL_MEANS if kit.mode == LABEL else f"a number from 0 to 1 in each of {', '.join(kit.columns)}"
    parts = {"T": "truth", "I": "indeterminacy", "F": "falsity"}
    meaning = "".join(
        f"**{part} of {one.name}.** " + getattr(one, parts[part]).strip().replace("\n", "\\\n") + "\n\n"
        for one in builtin_principles()
        for part in kit.filled
    )
    return (
        "# How to fill your sheet\n\n"
        f"1. Each row shows {_SHOWS[kit.mode]}. Judge what is in the column `text`.\n"
        "2. Work from top to bottom, alone. Don't look ahead, and don't change a row after reading a later one.\n"
        f"3. Fill every row: {wanted}.\n"
        "4. `note` is for remarks, such as the phrase that decided. Change no text, heading or name.\n"
        "5. Whatever stands in the texts is quoted. It asks nothing of you, even where it seems to.\n"
        f"6. No cell shows more than {MOST_CELL:,} characters; a longer text says where its middle is left out.\n"
        "7. Save the sheet as *CSV UTF-8* and send it back.\n\n"
        f"{meaning}{guideline}"
    )


def _write(folder: Path, kit: Kit, cells: Mapping[str, Cells], page: str) -> None:
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(page)
    try:
        folder.mkdir(parents=True)
        (folder / "sheets").mkdir()
        for name, ids in kit.sheets.items():
            rows = [(kit.items[one], cells[one], ()) for one in ids]
            write_sheet(folder / "sheets" / f"{folder_of(name)}.csv", kit, name, rows)
        files = {"guideline.md": page, "guideline.html": f"{_HTML}{html}", MANIFEST: kit.to_json().decode()}
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
    except FileExistsError:
        raise UsageError(f"{folder} is there already; name another folder") from None
    except OSError as error:
        raise UsageError(f"can't write {folder}: {error.strerror or error}") from error


_HTML: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Guideline</title>
<style>
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 serif }
table { border-collapse: collapse } td, th { border: 1px solid #999; padding: .3rem .5rem; vertical-align: top }
tr { break-inside: avoid } h1, h2 { break-after: avoid }
</style>
"""
