"""``turnwise bench``: measure any guard, turn by turn, and set records beside each other."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.options import PromptSettings
from turnwise.cli.output import note, print_json, print_table, progress, say_paragraphs
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.bench import BenchGuard


@options.grouped
def run(
    guard: Annotated[
        list[str],
        typer.Argument(
            help="What to measure, SPEC or NAME=SPEC: never, always, keywords, module:function, command:COMMAND, "
            "a URL, preset:NAME, nemo:FOLDER, openai-guardrails:FILE, or an observer such as local, replay:FILE "
            "or llm:openai/gpt-4.1-mini.",
            show_default=False,
        ),
    ],
    *,
    corpus: Annotated[
        str | None, typer.Option(help="Folder corpus of the repository: adds the tasks twins and human.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="A data set of your own to measure on, PATH or NAME=PATH; may be given several times."),
    ] = None,
    judged: Annotated[
        list[str] | None,
        typer.Option(help="Judgements of --data turn by turn (JSONL); may be given several times."),
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be given several times.")] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Most attacks, and most benign conversations, of a task.")
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(help="Folder that keeps what guards answered: the same command continues from it."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Ask again what failed in --answers.")] = False,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that an answer may take.")] = 60.0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Conversations at a time, for guards that wait for answers.")
    ] = 1,
    detector: Annotated[
        str, typer.Option(help="Detector that turns an observer's scores into flags.")
    ] = "any_turn",
    python: Annotated[
        list[str] | None,
        typer.Option(help="Interpreter of a peer's own environment, such as nemo=nemo-env/bin/python."),
    ] = None,
    out: Annotated[str | None, typer.Option(help="Write the record to this JSON file.")] = None,
    file_format: options.FileFormat,
    settings: PromptSettings,
    json: options.Json = False,
) -> None:
    """Measure guards turn by turn on the frozen yardstick, and on data sets of your own.

    A guard that can't be run is named with the reason, and the others go on.
    """
    from turnwise.bench import load_tasks, run_bench
    from turnwise.cli.files import check_file, write_text

    if out is not None:
        check_file(out)
    guards = _guards(guard, detector, dict(_pair(one) for one in python or ()), settings)
    tasks = load_tasks(
        corpus, data or (), judged=judged or (), names=task, sample=sample, file_format=file_format.to_dict()
    )
    with progress("conversations") as shown:
        done = {one.name: 0 for one in guards}
        total = len(guards) * len({item.sha256 for each in tasks for item in each.items})

        def tell(name: str, count: int) -> None:
            done[name] = count
            shown(sum(done.values()), total)

        record = run_bench(
            guards, tasks, answers=answers, timeout=timeout, jobs=jobs, again=failed, sample=sample, tell=tell
        )
    if out is not None:
        write_text(out, f"{json_module.dumps(record, indent=1, ensure_ascii=False)}\n")
    if json:
        print_json(record)
    else:
        _print({Path(out).stem if out else "now": record})


def _guards(
    specs: list[str], detector: str, python: Mapping[str, str], settings: PromptSettings
) -> list[BenchGuard]:
    from turnwise.bench import Options, build_guard

    asked: list[str] = []

    def settings_of(spec: str) -> Mapping[str, Any]:
        asked.append(spec)
        return settings.of(spec, None)

    made = [build_guard(spec, Options(detector, settings_of, python)) for spec in specs]
    settings.check(asked)
    return made


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"--python {text!r} is not KIND=PATH, such as nemo=nemo-env/bin/python")
    return name, path


def compare(
    record: Annotated[list[str], typer.Argument(help="Records of turnwise bench run.", show_default=False)],
    out: Annotated[str | None, typer.Option(help="Also write a page to this HTML file.")] = None,
) -> None:
    """Print records side by side; sets whose conversations differ are listed apart."""
    from turnwise.bench import html_page, read_record
    from turnwise.cli.files import check_file, write_text

    if out is not None:
        check_file(out)
    records: dict[str, dict[str, Any]] = {}
    for path in record:
        name = Path(path).stem
        records[path if name in records else name] = read_record(path)
    _print(records)
    if out is not None:
        write_text(out, html_page(records))
        note(f"wrote {out}")


def _print(records: Mapping[str, Mapping[str, Any]]) -> None:
    from turnwise.bench import notes_of, table_of

    table = table_of(records)
    print_table(table.columns, table.rows, numeric=table.columns[2:])
    say_paragraphs(table.note)
    for line in notes_of(records):
        note(line)
