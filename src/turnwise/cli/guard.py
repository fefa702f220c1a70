"""``turnwise guard check``, ``chat`` and ``approve-tools``: texts put to a pipeline, and results in words."""

from __future__ import annotations

import json as json_
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise._support.visible import shown
from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.errors import TurnwiseError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from turnwise.conversation import Conversation
    from turnwise.guard import GuardrailPipeline, PipelineResult
    from turnwise.guard.config import Config


DEFAULT_PRESET = "basic"

WIDTH = 80
"""Columns that lines for people take at most."""


def read_config(preset: str | None, config: str | None, observer: str | None = None) -> Config:
    """The configuration of a preset (by default basic) or a file; an observer replaces that of its guardrails."""
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
    preset: options.Preset = None,
    config: options.ConfigFile = None,
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
    fail_on_findings: options.BlockedOrWarned = False,
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
            action = detail.action if detail.found or detail.blocked else ""
            confidence = f"{detail.confidence:.2f}" if detail.confidence else ""
            took = f"{1000 * detail.seconds:.2f}"
            rows.append((name, detail.status, action, confidence, took, detail.reason))
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


HELP = """Type a message, and see what the guard makes of it. Commands:
  /response TEXT   what the other side answers; /r for short
  /forensics       the analysis of the conversation so far
  /save FILE       the conversation with its checks, as JSON
  /help            this
  /quit            end; so do Ctrl-D and Ctrl-C"""

_BAR = 20
"""Characters of a bar."""


def chat(
    preset: options.Preset = None,
    config: options.ConfigFile = None,
    observer: options.ObserverName = None,
    json: options.Json = False,
) -> None:
    """Type messages and see scores, verdict and stance after each; nothing goes to a model.

    With --json, print a line of JSON for every check.
    """
    from turnwise.conversation import Conversation

    conversation = Conversation("you", "other")
    with open_pipeline(preset, config, observer) as pipeline:
        if not json:
            note(f"pipeline {pipeline.config.name}: {', '.join(step.name for step in pipeline.steps)}\n{HELP}")
        loop = _Loop(pipeline, conversation, json)
        for line in _lines():
            if not loop.take(line):
                break


class _Loop:
    """Does what each line says."""

    def __init__(self, pipeline: GuardrailPipeline, conversation: Conversation, json: bool) -> None:
        self._pipeline = pipeline
        self._conversation = conversation
        self._json = json
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/response": self._response,
            "/r": self._response,
            "/forensics": self._forensics,
            "/save": self._save,
            "/help": lambda _: note(HELP),
        }

    def take(self, line: str) -> bool:
        """Do what a line says; return whether to go on."""
        if not line.strip():
            return True
        name, _, rest = line.strip().partition(" ")
        if name == "/quit":
            return False
        try:
            if not name.startswith("/"):
                self._tell(self._pipeline.check_input(line, conversation=self._conversation))
            elif name in self._commands:
                self._commands[name](rest.strip())
            else:
                raise UnknownNameError("command", name, [*self._commands, "/quit"])
        except TurnwiseError as error:
            note(f"error: {error}")
        return True

    def _response(self, text: str) -> None:
        self._tell(self._pipeline.check_output(text, conversation=self._conversation))

    def _forensics(self, _: str) -> None:
        from turnwise.cli.guard_replay import print_analysis
        from turnwise.forensics import analyze_conversation_forensics

        analysis = analyze_conversation_forensics(self._conversation)
        if self._json:
            print_json(analysis)
        else:
            print_analysis(analysis)

    def _save(self, name: str) -> None:
        from turnwise.cli.files import writing

        if not name:
            raise UsageError("/save needs the name of a file")
        with writing(name, taken="give another name", home=True) as file:
            json_.dump(self._conversation.to_dict(), file, indent=1)
        note(f"{name} written; turnwise guard forensics {name} reads it")

    def _tell(self, result: PipelineResult) -> None:
        if self._json:
            print_json(result.to_dict(), indent=None)
            return
        lines = result_lines(result)
        for name, detail in result.details.items():
            lines += score_lines(name, detail.data)
            if detail.status == "skipped":
                lines.append(f"  {name:<19} skipped: {detail.reason}")
        if result.stance is not None:
            stance = f"{result.stance.mode}: {result.stance.rationale}"
            lines += wrapped(f"  {'stance':<19} {stance}", hanging=" " * 22)
        say(*lines)


def score_lines(name: str, data: Any) -> list[str]:
    """The bars of what a guardrail scored: F by principle, and the detector's score; none where it did not.

    >>> for line in score_lines("drift", {"scores": {"reciprocity": {"T": 0.5, "I": 0.25, "F": 0.5}}}):
    ...     print(line)
      reciprocity         F ██████████·········· 0.50   T 0.50  I 0.25
    """
    if not isinstance(data, Mapping):
        return []
    scores = data.get("scores")
    lines = []
    for principle, score in scores.items() if isinstance(scores, Mapping) else ():
        bar = _bar(score["F"])
        lines.append(f"  {principle:<19} F {bar} {score['F']:.2f}   T {score['T']:.2f}  I {score['I']:.2f}")
    score, limit = data.get("score"), data.get("threshold")
    if isinstance(score, float) and isinstance(limit, float) and "detector" in data:
        share = score / limit if limit > 0 else 1.0
        lines.append(f"  {name:<19}   {_bar(share)} {score:.2f} of {limit:.2f}   {data['detector']}")
    return lines


def _bar(share: float) -> str:
    full = round(_BAR * min(1.0, max(0.0, share)))
    return "█" * full + "·" * (_BAR - full)


def _lines() -> Iterator[str]:
    """Yield lines until there are no more: typed, with history and editing, or from a pipe."""
    typed = sys.stdin.isatty()
    if typed:
        try:
            import readline  # noqa: F401 - importing it gives `input` its history and editing
        except ImportError:
            note("this Python has no readline: lines can't be edited")
    while True:
        try:
            line = input("> ") if typed else sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            note("")
            return
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input must be UTF-8 text: {error}") from error
        if not line and not typed:
            return
        yield line.removesuffix("\n")
