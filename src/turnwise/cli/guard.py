"""``turnwise guard``: a pipeline on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.guard_audit import audit
from turnwise.cli.guard_chat import chat
from turnwise.cli.guard_forget import expire, forget
from turnwise.cli.guard_options import ConfigFile, Findings, Preset
from turnwise.cli.guard_replay import replay
from turnwise.cli.guard_sessions import sessions
from turnwise.cli.output import say
from turnwise.errors import UsageError

guard = typer.Typer(
    help="Guardrails: check a text, chat under guard, replay recorded conversations, ask the audit, forget.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@guard.command()
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
    fail_on_findings: Findings = False,
    json: options.Json = False,
) -> None:
    """Check one text with a pipeline; the preset basic by default."""
    from turnwise.cli.guard_options import open_pipeline, read_text, result_lines, warned
    from turnwise.cli.output import Table, print_json, print_table

    if output + (tool_call is not None) + (tool_result is not None) > 1:
        raise UsageError("--output, --tool-call and --tool-result say what the text is: give one of them")
    content = read_text(text)
    with open_pipeline(preset, config) as pipeline:
        if tool_call is not None:
            result = pipeline.check_tool_call(tool_call, content)
        elif tool_result is not None:
            result = pipeline.check_tool_result(content, name=tool_result)
        else:
            result = pipeline.check_output(content) if output else pipeline.check_input(content)
    if json:
        print_json(result.to_dict())
    else:
        say(*result_lines(result))
        table = Table("guardrail", "status", "action", "confidence", "ms", "reason", numeric=("confidence", "ms"))
        for name, detail in result.details.items():
            action = str(detail.action or "") if detail.found or detail.blocked else ""
            confidence = f"{detail.confidence:.2f}" if detail.confidence else ""
            took = f"{1000 * detail.seconds:.2f}"
            table.add_row(name, str(detail.status), action, confidence, took, detail.reason)
        print_table(table)
    if fail_on_findings and warned(result):
        raise typer.Exit(3)


guard.command()(chat)
guard.command()(replay)
guard.command()(forget)
guard.command()(expire)
guard.add_typer(audit, name="audit")
guard.add_typer(sessions, name="sessions")
