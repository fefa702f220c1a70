"""What the commands of the guard share: the pipeline that options name, and how a result is printed."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise._support.visible import shown
from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.guard.config import Config

Preset: TypeAlias = Annotated[
    str | None, typer.Option(help="Configuration that ships, by name; see turnwise presets list.")
]
ConfigFile: TypeAlias = Annotated[
    str | None, typer.Option("--config", help="YAML file of your own, in place of a preset.")
]
Findings: TypeAlias = Annotated[
    bool, typer.Option("--fail-on-findings", help="Exit with 3 where something was blocked or warned of.")
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


def warned(result: PipelineResult) -> bool:
    """Whether a text was blocked or warned of."""
    return result.blocked or bool(result.warnings)


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


def read_text(text: str) -> str:
    """A text from the command line; for ``-`` what standard input holds."""
    if text != "-":
        return text
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text: {error}") from error


def findings_of(result: PipelineResult) -> list[dict[str, Any]]:
    """What guardrails found, failed at or did not read in a text, as JSON values."""
    return [
        {
            "turn": result.turn_number,
            "side": str(result.pipeline_type),
            **({} if result.call_id is None else {"tool": result.tool, "call_id": result.call_id}),
            "guardrail": name,
            "action": _action(detail),
            "reason": detail["reason"],
        }
        for name, detail in result.details.items()
        if detail.found or detail["status"] in ("failed", "not_read")
    ]


def _action(detail: Mapping[str, Any]) -> str:
    if detail["status"] == "failed":
        return f"failed {detail['path']}"
    if detail["status"] == "not_read" and detail["action"] is None:
        return "not read"
    return str(detail["action"])
