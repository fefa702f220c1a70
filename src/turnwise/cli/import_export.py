"""``turnwise import`` and ``export``: conversations and whole stores into the store, and the store as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, say
from turnwise.cli.scan import QUIET, receive_at, refuse_files
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise import conversation
    from turnwise.datasets import BadRecord
    from turnwise.store import OtherLabel

_SHOWN = 20
"""Errors that are listed for people; --json lists all."""

_LABELS_SHOWN = 8
"""Unknown labels, and conversations with another label, that are listed for people."""


@dataclass(slots=True)
class _File:
    """What came of one file."""

    name: str
    imported: int = 0
    skipped: int = 0  # sequences that were there already
    relabelled: tuple[OtherLabel, ...] = ()  # those of them that got the label of the file
    other_labels: tuple[OtherLabel, ...] = ()  # those of them that kept another one
    errors: tuple[BadRecord, ...] = ()
    unknown_labels: Counter[str] = field(default_factory=Counter)
    error: str | None = None  # why it could not be read at all

    @property
    def broken(self) -> bool:
        """Whether it could not be read to its end."""
        return any(error.ends for error in self.errors)

    @property
    def failed(self) -> bool:
        """Whether it was not read to its end, or gave nothing since all of its lines are bad."""
        return self.error is not None or self.broken or bool(self.errors and not (self.imported or self.skipped))

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.name,
            "imported": self.imported,
            "skipped": self.skipped,
            "relabelled": len(self.relabelled),
            "other_labels": len(self.other_labels),
            "bad": len(self.errors),
            "whole": not self.broken,
            "unknown_labels": dict(self.unknown_labels),
            "error": self.error,
        }


@options.grouped
def import_(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Files of conversations, hf:org/name, or turnwise:examples: those that ship.",
            show_default=False,
        ),
    ] = None,
    *,
    store: options.Store = options.DEFAULT_STORE,
    file_format: options.FileFormat,
    relabel: Annotated[
        bool,
        typer.Option(
            "--relabel", help="Give conversations that are stored already, turn for turn, the label of the file."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first bad line; store nothing after it.")
    ] = False,
    judged: Annotated[
        Path | None,
        typer.Option(
            help="Folder of judgements, such as corpus/judged: import only conversations that were judged, and "
            "record their scores as runs judged-history, judged-turn and the like."
        ),
    ] = None,
    from_store: Annotated[
        str | None,
        typer.Option(
            help="Instead of files: the folder of turnwise export, or another store. Everything in it is added, "
            "scores and journal too, or, where something clashes, nothing.",
            metavar="FOLDER_OR_STORE",
        ),
    ] = None,
    listen: options.Listen = None,
    quiet: options.Quiet = QUIET,
    json: options.Json = False,
) -> None:
    """Read conversations into the store; bad lines are skipped and listed.

    Of several files, those that can't be read are named and the others imported; the exit code is then 1.
    """
    if listen is not None or from_store is not None:
        of_files = {
            "FILE": files,
            **{f"--{name.replace('_', '-')}": value for name, value in file_format.to_dict().items()},
            "--relabel": relabel,
            "--strict": strict,
            "--judged": judged,
        }
        given = [name for name, value in of_files.items() if value]
        if from_store is not None:
            _import_store(store, from_store, [*given, *(["--listen"] if listen else [])], json)
        else:
            refuse_files(given)
            _receive(str(listen), store, quiet)
        return
    if not files:
        raise UsageError("name a file of conversations, or an export or a store with --from-store")
    from turnwise.datasets import BadRecord, get_loader, open_dataset, unknown_label
    from turnwise.errors import DatasetError
    from turnwise.runs import judged_ids, record_judgements
    from turnwise.store import Store, import_sequences

    if file_format.format is not None:
        get_loader(file_format.format)  # a wrong name is wrong of all files
    known = {} if judged is None else judged_ids(judged)
    wanted = None if judged is None else frozenset().union(*known.values())
    taken: list[str] = []
    done = [_File(name) for name in dict.fromkeys(files)]

    def chosen(file: _File) -> Iterator[conversation.Sequence | BadRecord]:
        for record in open_dataset(file.name, **file_format.to_dict()):
            if not isinstance(record, BadRecord):
                if wanted is not None and record.sequence_id not in wanted:
                    continue
                taken.append(record.sequence_id)
                unknown = unknown_label(record)
                if unknown is not None:
                    file.unknown_labels[unknown] += 1
            yield record

    with Store(store, create=True) as opened:
        for file in done:
            try:
                result = import_sequences(opened, chosen(file), where=file.name, strict=strict, relabel=relabel)
            except (DatasetError, UsageError) as error:
                if strict or len(done) == 1:
                    raise
                file.error = str(error)
            else:
                file.imported, file.skipped, file.errors = result.imported, result.skipped, result.errors
                file.relabelled, file.other_labels = result.relabelled, result.other_labels
        if judged is not None and not taken:
            raise DatasetError(f"{judged} has judgements of other files than {', '.join(files)}: name those")
        runs = [] if judged is None else record_judgements(opened, judged, taken, known)
        _tell(done, runs, store, judged=judged is not None, relabel=relabel, json=json)
        if any(file.failed for file in done):
            raise typer.Exit(1)


def _tell(done: list[_File], runs: Sequence[Any], store: str, *, judged: bool, relabel: bool, json: bool) -> None:
    """Say what came of the files, and which runs hold what was read of them."""
    if json:
        made = [{"run": run.run, "evaluations": run.evaluations, "failures": run.failures} for run in runs]
        print_json({**_as_json(done), **({"judgements": made} if judged else {})})
        return
    _print(done, store, relabel)
    for run in runs:
        void = f", {run.failures} void: the text is not the one that was read" if run.failures else ""
        say(f"run {run.run}: {run.evaluations} recorded scores{void}")
    _note_errors(done)


def _import_store(store: str, source: str, of_files: list[str], json: bool) -> None:
    """Import an export or a store; `of_files` are options that only files of conversations can have."""
    from turnwise.store import Store

    if of_files:
        raise UsageError(f"leave out {', '.join(of_files)}: --from-store takes no files")
    with Store(store, create=True) as opened:
        merged = opened.import_from(source)
    if json:
        print_json(merged.to_dict())
        return
    added = [f"{rows} {table.replace('_', ' ')}" for table, rows in merged.added.items() if rows]
    say(f"imported {', '.join(added) or 'nothing new'} from {source} into {store}")
    if already := sum(merged.already.values()):
        say(f"{already} rows were there already")


def _as_json(files: list[_File]) -> dict[str, Any]:
    return {
        "imported": sum(file.imported for file in files),
        "skipped": sum(file.skipped for file in files),
        "relabelled": _shown_labels([one for file in files for one in file.relabelled]),
        "other_labels": _shown_labels([one for file in files for one in file.other_labels]),
        "unknown_labels": dict(sum((file.unknown_labels for file in files), Counter())),
        "errors": [
            {"file": file.name, "line": error.line, "reason": error.reason}
            for file in files
            for error in file.errors
        ],
        "files": [file.to_dict() for file in files],
    }


def _shown_labels(changes: list[OtherLabel]) -> list[dict[str, str]]:
    return [{"sequence_id": one.sequence_id, "stored": one.stored, "given": one.given} for one in changes]


def _print(files: list[_File], store: str, relabel: bool) -> None:
    for file in files if len(files) > 1 else ():
        if file.error is not None:
            say(f"{file.name}: not imported")
            continue
        bad = f", {len(file.errors)} bad lines" if file.errors else ""
        changed = f", {_changed(file.relabelled)}" if relabel else ""
        say(f"{file.name}: imported {file.imported}, skipped {file.skipped} already stored{changed}{bad}")
    imported, skipped = sum(file.imported for file in files), sum(file.skipped for file in files)
    changed = f", {_changed([one for file in files for one in file.relabelled])}" if relabel else ""
    say(f"imported {imported}, skipped {skipped} already stored{changed}, into {store}")


def _changed(changes: Sequence[OtherLabel]) -> str:
    """How many labels were changed, and how many of them from which to which."""
    kinds = Counter(f"{one.stored} to {one.given}" for one in changes)
    of_kind = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    labels = "1 label" if len(changes) == 1 else f"{len(changes)} labels"
    return f"changed {labels}" + (f" ({of_kind})" if kinds else "")


def _note_errors(files: list[_File]) -> None:
    """Say what was left out, and which labels are not known."""
    errors = [(file.name, error) for file in files for error in file.errors]
    for name, error in errors[:_SHOWN]:
        note(f"{name}, line {error.line}: {error.reason}")
    if len(errors) > _SHOWN:
        note(f"and {len(errors) - _SHOWN} more; --json lists all")
    if errors:
        note(f"{len(errors)} bad lines were left out")
    for file in files:
        if file.broken:
            before = f"{file.imported + file.skipped} conversations before that are kept"
            note(f"error: {file.name} breaks off: {before}, what may have followed is lost; get the file again")
    unknown: Counter[str] = sum((file.unknown_labels for file in files), Counter())
    if unknown:
        most = unknown.most_common(_LABELS_SHOWN)
        shown = ", ".join(f"{word!r} ({count})" for word, count in most)
        others = f" and {len(unknown) - len(most)} others" if len(unknown) > len(most) else ""
        note(
            f"{unknown.total()} conversations have an unknown label and were imported without one: "
            f"{shown}{others}; say what they mean with --label-map {most[0][0]}=benign (or =attack) and --relabel"
        )
    kept = [one for file in files for one in file.other_labels]
    if kept:
        named = ", ".join(
            f"{one.sequence_id} ({one.stored}, in the file {one.given})" for one in kept[:_LABELS_SHOWN]
        )
        others = f" and {len(kept) - _LABELS_SHOWN} others" if len(kept) > _LABELS_SHOWN else ""
        note(
            f"{len(kept)} conversations are stored with another label than in the file, and keep it: {named}"
            f"{others}; --relabel takes the labels of the file"
        )
    for file in files:
        if file.error is not None:
            note(f"error: {file.error}")
    failed = sum(file.failed for file in files)
    if failed and len(files) > 1:
        note(f"{failed} of {len(files)} files could not be imported, or not to their end")


def export(
    out: Annotated[str, typer.Option(help="Folder to make; one that is there must be empty.", show_default=False)],
    format: Annotated[
        str,
        typer.Option(
            help="parquet or jsonl, of which turnwise import --from-store makes an equal store; csv for "
            "spreadsheets; arangodb for arangoimport."
        ),
    ] = "parquet",
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run and what it scored; may be given several times."),
    ] = None,
    where: options.Where = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Write all of the store to files: sequences, runs, scores, failures, replies and audits of guards.

    The files show the store as it was at one moment, whoever writes to it meanwhile. The folder is there once all
    of it is written.
    """
    from turnwise.store import Store

    def progress(table: str, rows: int) -> None:
        note(f"{table.replace('_', ' ')}: {rows}")

    with Store(store) as opened:
        done = opened.export(out, format=format, runs=runs or None, where=where, progress=progress)
    if json:
        print_json(done.to_dict())
    else:
        say(f"exported {sum(done.rows.values())} rows from {store} to {out}")
    for sentence in done.not_carried:
        note(sentence)
    corrected = sum(rows for name, rows in done.rows.items() if name.startswith("corrections."))
    if corrected:
        note(
            "labels of sequences are those that were imported; what people say of them stands beside them, in "
            f"{corrected} rows of corrections"
        )


def _receive(listen: str, store: str, quiet: float) -> None:
    from turnwise.operations import keep_storing
    from turnwise.store import Store

    if "://" in store:
        raise UsageError("--listen needs a store in a file, beside which it keeps what it received")
    with Store(store, create=True) as opened:
        receive_at(listen, opened.location, partial(keep_storing, opened, quiet))
