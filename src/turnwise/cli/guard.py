"""``turnwise guard check`` and ``replay``, and what commands of the guard share: a pipeline, results in words."""

from __future__ import annotations

import atexit
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise._support.visible import shown
from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.conversation import Sequence
    from turnwise.datasets import BadRecord
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.guard.config import Config
    from turnwise.guard.results import Detail
    from turnwise.rates import Rate

Preset: TypeAlias = Annotated[
    str | None, typer.Option(help="Configuration that ships, by name; see turnwise list presets.")
]
ConfigFile: TypeAlias = Annotated[
    str | None, typer.Option("--config", help="YAML file of your own, in place of a preset.")
]
Findings: TypeAlias = Annotated[
    bool, typer.Option("--fail-on-findings", help="Exit with 3 if something was blocked or warned of.")
]

DEFAULT_PRESET = "basic"

WIDTH = 80
"""Columns that lines for people take at most."""


def read_config(preset: str | None, config: str | None, observer: str | None = None) -> Config:
    """The configuration of a preset or a file, by default the preset ``basic``.

    An observer replaces that of each guardrail that has one.
    """
    from turnwise.guard.config import Config, with_observer

    if preset is not None and config is not None:
        raise UsageError("--preset and --config name a configuration each: give one of them")
    read = Config.read(config) if config is not None else Config.preset(preset or DEFAULT_PRESET)
    return read if observer is None else with_observer(read, observer)


def open_pipeline(preset: str | None, config: str | None, observer: str | None = None) -> GuardrailPipeline:
    """The pipeline of a configuration, as `read_config` finds it."""
    from turnwise.guard import GuardrailPipeline

    return GuardrailPipeline(read_config(preset, config, observer))


def wrapped(line: str, *, hanging: str = "    ") -> list[str]:
    """A line as lines of at most 80 columns; a word that is longer stays whole.

    >>> wrapped("  blocked by drift: " + "word " * 14)
    ['  blocked by drift: word word word word word word word word word word word word', '    word word']
    """
    return textwrap.wrap(line, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def result_lines(result: PipelineResult) -> list[str]:
    """What came of a check, a line each: the verdict, its reasons, warnings and failures."""
    verdict = "blocked" if result.blocked else "passed with a warning" if result.warnings else "passed"
    about = f"{result.pipeline_type} of {shown(result.tool)}" if result.tool else str(result.pipeline_type)
    lines = [f"{verdict}  ({about}, {1000 * result.seconds:.2f} ms)"]
    told = [f"  blocked by {reason}" for reason in result.reasons]
    told += [f"  warning of {warning}" for warning in result.warnings]
    known = {*result.reasons, *result.warnings}
    told += [f"  let pass, though {one}" for one in (*result.failures, *result.unread) if one not in known]
    lines += [line for one in told for line in wrapped(one)]
    if any(detail.redactions for detail in result.details.values()):
        lines.append(f"  goes on as: {result.text}")
    return lines


def check(
    text: Annotated[str, typer.Argument(help="The text, or - for standard input.", show_default=False)],
    preset: Preset = None,
    config: ConfigFile = None,
    output: Annotated[bool, typer.Option("--output", help="Check it as what a model answered.")] = False,
    tool_call: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check it as the arguments of a call of this tool.")
    ] = None,
    tool_result: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check it as what this tool gave back.")
    ] = None,
    tool_description: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check it as the description of this tool.")
    ] = None,
    document: Annotated[bool, typer.Option("--document", help="Check it as a retrieved document.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Check it as an entry of memory.")] = False,
    fail_on_findings: Findings = False,
    json: options.Json = False,
) -> None:
    """Check one text with a pipeline; the preset basic by default."""
    tools = (tool_call, tool_result, tool_description)
    if output + document + memory + sum(tool is not None for tool in tools) > 1:
        raise UsageError(
            "--output, --tool-call, --tool-result, --tool-description, --document and --memory say what the text "
            "is: give one of them"
        )
    content = _read_text(text)
    with open_pipeline(preset, config) as pipeline:
        if tool_call is not None:
            result = pipeline.check_tool_call(tool_call, content)
        elif tool_result is not None:
            result = pipeline.check_tool_result(content, name=tool_result)
        elif tool_description is not None:
            result = pipeline.check_tool_description(tool_description, content)
        elif document or memory:
            result = pipeline.check_context(content, "memory" if memory else "document")
        else:
            result = pipeline.check_output(content) if output else pipeline.check_input(content)
    if json:
        print_json(result.to_dict())
    else:
        say(*result_lines(result))
        rows = []
        for name, detail in result.details.items():
            action = str(detail.action or "") if detail.found or detail.blocked else ""
            confidence = f"{detail.confidence:.2f}" if detail.confidence else ""
            took = f"{1000 * detail.seconds:.2f}"
            rows.append((name, str(detail.status), action, confidence, took, detail.reason))
        columns = "guardrail", "status", "action", "confidence", "ms", "reason"
        print_table(columns, rows, numeric=("confidence", "ms"))
    if fail_on_findings and (result.blocked or result.warnings):
        raise typer.Exit(3)


def _read_text(text: str) -> str:
    """A text from the command line; for ``-`` what standard input holds."""
    if text != "-":
        return text
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input must be UTF-8 text: {error}") from error


def approve_tools(
    file: Annotated[
        str, typer.Argument(help="JSON: the tools as MCP, OpenAI or Anthropic list them.", show_default=False)
    ],
    approved: Annotated[
        str, typer.Option(help="The file of digests that the setting approved of sources names.")
    ] = "approved-tools.json",
) -> None:
    """Approve descriptions of tools as they are now, so that the guardrail sources finds later changes."""
    from pathlib import Path

    from turnwise._support.bounded import read_json
    from turnwise.guard import approve_tools as approve

    try:
        data = read_json(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} can't be read: {error}; give a JSON list of tools") from error
    tools = data.get("tools", [data]) if isinstance(data, dict) else data
    if not isinstance(tools, list):
        raise UsageError(f"{file} holds no list of tools; give a list, or an object with tools")
    print_table(("tool", "SHA-256"), approve(tools, approved).items(), title=f"Approved in {approved}")


@options.grouped
def replay(
    file: Annotated[
        str,
        typer.Argument(
            help="An audit, conversations as Conversation.to_dict gives them, or a file in any format that import "
            "reads."
        ),
    ],
    *,
    preset: Preset = None,
    config: ConfigFile = None,
    file_format: options.FileFormat,
    limit: Annotated[
        int | None, typer.Option(min=1, max=options.MOST, help="Most conversations to replay, from the first on.")
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            help="Block nothing (mode log), and write what would have been done to this audit, for guard report.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Processes that check.")] = 1,
    fail_on_findings: Findings = False,
    json: options.Json = False,
) -> None:
    """Put recorded conversations through a pipeline, turn by turn, and say what it would have blocked.

    Calls of tools and what they gave back are checked as well.

    Rate limits and the audit of the configuration are left out: they are for live conversations.
    """
    from turnwise.datasets import BadRecord, open_dataset
    from turnwise.guard.forensics import recorded

    read = read_config(preset, config)
    told = file_format != options.FileFormat()
    records = (None if told else recorded(file)) or open_dataset(file, **file_format.to_dict())
    bad: list[BadRecord] = []

    def good() -> Iterator[Sequence]:
        for record in records:
            if isinstance(record, BadRecord):
                bad.append(record)
            else:
                yield record

    rows: list[dict[str, Any]] = []
    with _replaying(read, audit, jobs) as replayed:
        began = time.perf_counter()
        for row in replayed(islice(good(), limit)):
            rows.append(row)
            if not json:
                # At once: a model reads every turn, so a file of conversations takes minutes.
                say(*_lines(row))
        seconds = time.perf_counter() - began
    checks = sum(row["checks"] for row in rows)
    pace = (
        f"{checks} checks in {seconds:.2f} s: {checks / seconds:,.0f} a second" if checks else "nothing to check"
    )
    if json:
        print_json(
            {
                "pipeline": read.name,
                "conversations": rows,
                "summary": {
                    group: {what: _rate_json(rate) for what, rate in rates.items()}
                    for group, rates in _summary(rows).items()
                },
                "checks": checks,
                "seconds": seconds,
                "checks_per_second": checks / seconds if seconds else None,
                "bad_lines": [{"line": one.line, "reason": one.reason} for one in bad],
            }
        )
        note(pace)
    else:
        _print_summary(rows)
        say(pace)
    for one in bad:
        note(f"{file}, line {one.line}: {one.reason}; left out")
    if (bad and not rows) or any(one.ends for one in bad):
        raise typer.Exit(1)
    if fail_on_findings and any(row["blocked_at"] or row["warned_at"] for row in rows):
        raise typer.Exit(3)


@contextmanager
def _replaying(
    config: Config, audit: str | None, jobs: int
) -> Iterator[Callable[[Iterable[Sequence]], Iterator[dict[str, Any]]]]:
    """What says of conversations, in order, what a pipeline does; each of several processes has one of its own."""
    from turnwise.guard.forensics import replay_pipeline

    if jobs == 1:
        with closing(replay_pipeline(config, audit)) as pipeline:
            yield partial(map, partial(_row, pipeline))
    else:
        with ProcessPoolExecutor(jobs, get_context("spawn"), _open_replay, (config, audit)) as pool:
            yield partial(pool.map, _replayed, chunksize=4)


_REPLAYING: list[GuardrailPipeline] = []
"""The pipeline of a process that replays for another one."""


def _open_replay(config: Config, audit: str | None) -> None:
    from turnwise.guard.forensics import replay_pipeline

    _REPLAYING.append(replay_pipeline(config, audit))
    atexit.register(_REPLAYING[-1].close)


def _replayed(sequence: Sequence) -> dict[str, Any]:
    return _row(_REPLAYING[-1], sequence)


def _row(pipeline: GuardrailPipeline, sequence: Sequence) -> dict[str, Any]:
    from turnwise.guard.forensics import check_again

    _, results = check_again(pipeline, sequence.conversation, session_id=sequence.sequence_id)
    blocked = [result.turn_number for result in results if result.blocked]
    warned = [result.turn_number for result in results if result.warnings]
    return {
        "sequence_id": sequence.sequence_id,
        "label": str(sequence.label),
        "turns": sequence.conversation.get_turn_count(),
        "checks": len(results),
        "blocked_at": blocked[0] if blocked else None,
        "warned_at": warned[0] if warned else None,
        "failures": sum(len(result.failures) for result in results),
        "unread": sum(len(result.unread) for result in results),
        "findings": [finding for result in results for finding in _findings_of(result)],
    }


def _findings_of(result: PipelineResult) -> list[dict[str, Any]]:
    """What guardrails found, failed at or did not read in a text, as JSON values."""
    return [
        {
            "turn": result.turn_number,
            "side": str(result.pipeline_type),
            **({} if result.call_id is None else {"tool": result.tool, "call_id": result.call_id}),
            "guardrail": name,
            "action": _action(detail),
            "reason": detail.reason,
        }
        for name, detail in result.details.items()
        if detail.found or detail.status in ("failed", "not_read")
    ]


def _action(detail: Detail) -> str:
    if detail.status == "failed":
        return f"failed {detail.path}"
    if detail.status == "not_read" and detail.action is None:
        return "not read"
    return str(detail.action)


def _summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Rate]]:
    """By label the share of conversations in which something was blocked, and blocked or warned of."""
    from turnwise.rates import Rate

    found = {}
    for group in ("attack", "benign", "unlabelled"):
        some = [row for row in rows if row["label"] == group]
        if some:
            found[group] = {
                "blocked": Rate(sum(row["blocked_at"] is not None for row in some), len(some)),
                "blocked_or_warned": Rate(
                    sum(row["blocked_at"] is not None or row["warned_at"] is not None for row in some), len(some)
                ),
            }
    return found


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"count": rate.count, "of": rate.of, "interval": list(rate.interval)}


_DONE = {"block": "blocked", "redact": "redacted", "warn": "warned of", "log": "logged"}


def _lines(row: dict[str, Any]) -> list[str]:
    clean = "" if row["findings"] else ": nothing found"
    lines = [f"{row['sequence_id']} ({row['label']}, {row['turns']} turns){clean}"]
    for one in row["findings"]:
        done = _DONE.get(one["action"], one["action"])
        side = f"{one['side']} of {shown(one['tool'])}" if one.get("tool") else one["side"]
        what = f"  turn {one['turn']}, {side}: {done} by {one['guardrail']}: {one['reason']}"
        lines += wrapped(what, hanging=" " * 6)
    return lines


def _print_summary(rows: list[dict[str, Any]]) -> None:
    summary = ((group, *map(str, rates.values())) for group, rates in _summary(rows).items())
    columns = "label", "blocked", "blocked or warned of"
    print_table(columns, summary, title="Conversations, with 95 % intervals")
    failures = sum(row["failures"] for row in rows)
    if failures:
        note(f"{failures} checks of guardrails failed; not checked is not clean")
    unread = sum(row["unread"] for row in rows)
    if unread:
        note(f"{unread} checks of guardrails met a language that they do not read; not checked is not clean")
