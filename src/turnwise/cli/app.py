"""All commands in one application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from turnwise._version import __version__
from turnwise.cli.bench import compare as compare_records
from turnwise.cli.bench import run as run_bench
from turnwise.cli.demo import demo
from turnwise.cli.detect import check, detect
from turnwise.cli.erase import erase, expire, forget, sessions
from turnwise.cli.evaluate import evaluate
from turnwise.cli.guard import approve_tools, chat
from turnwise.cli.guard import check as guard_check
from turnwise.cli.guard_audit import alert, audit, verify
from turnwise.cli.guard_replay import forensics, replay
from turnwise.cli.guard_report import report
from turnwise.cli.import_export import export, import_
from turnwise.cli.judgements import (
    agreement,
    export_judgements,
    hand_out_sheets,
    label,
    list_inbox,
    list_judgements,
    review,
    take_in_sheets,
    turn,
)
from turnwise.cli.list_ import list_
from turnwise.cli.observers import cache, cost, prompt
from turnwise.cli.observers import test as test_observer
from turnwise.cli.output import keep_quiet, say
from turnwise.cli.project import defaults_of, doctor, find_project
from turnwise.cli.query import query
from turnwise.cli.runs import compare_runs, delete_run, list_runs, publish, rename_run, run_trends
from turnwise.cli.scan import scan
from turnwise.cli.serve import explore, hook, mcp, serve
from turnwise.cli.show import show
from turnwise.cli.study import compare, map_, power
from turnwise.cli.study_discover import discover
from turnwise.cli.study_rates import prevalence, second_look, session_rules
from turnwise.cli.study_tune import calibrate, tune
from turnwise.cli.teach import teach

_DEMO = "turnwise-demo.db"
"""The store that ``turnwise demo`` leaves, on which examples run."""


class Told(NamedTuple):
    """A command, and an example of it that runs where the demo ran."""

    command: Callable[..., None]
    example: str


class Below(NamedTuple):
    """A group of commands."""

    about: str
    commands: Mapping[str, Told]


SECTIONS: Mapping[str, Mapping[str, Told | Below]] = {
    "Start": {
        "demo": Told(demo, "turnwise demo"),
        "check": Told(check, "turnwise check chat.json --detector any_turn --detector cusum"),
        "list": Told(list_, "turnwise list detectors cusum"),
        "doctor": Told(doctor, f"turnwise doctor --store {_DEMO}"),
    },
    "Data": {
        "import": Told(import_, "turnwise import chats.jsonl --store work.db"),
        "export": Told(export, f"turnwise export --store {_DEMO} --out exported --format jsonl"),
        "erase": Told(erase, f"turnwise erase grooming-02 --store {_DEMO} --dry-run"),
    },
    "Score": {
        "evaluate": Told(evaluate, f"turnwise evaluate --store {_DEMO} --run small --observer local-small"),
        "scan": Told(scan, "turnwise scan chats.jsonl --observer local-small --out findings"),
        "runs": Below(
            "Runs: list, compare, publish, delete or rename them, and follow their trends.",
            {
                "list": Told(list_runs, f"turnwise runs list --store {_DEMO}"),
                "compare": Told(compare_runs, f"turnwise runs compare reader-turn reader-history --store {_DEMO}"),
                "publish": Told(
                    publish, "turnwise runs publish live --to otel --out scores.jsonl --store traces.db"
                ),
                "trends": Told(run_trends, f"turnwise runs trends --run reader-history --store {_DEMO}"),
                "delete": Told(delete_run, f"turnwise runs delete old --store {_DEMO} --yes"),
                "rename": Told(rename_run, f"turnwise runs rename local-turn alone --store {_DEMO} --yes"),
            },
        ),
        "observers": Below(
            "Observers: measure how good one is as a judge.",
            {"test": Told(test_observer, "turnwise observers test local-small")},
        ),
        "llm": Below(
            "A language model as observer: its cost, its prompts and its stored replies.",
            {
                "cost": Told(cost, f"turnwise llm cost --observer llm:openai/gpt-4.1-mini --store {_DEMO}"),
                "prompt": Told(
                    prompt, f"turnwise llm prompt reciprocity --sequence grooming-01 --turn 7 --store {_DEMO}"
                ),
                "cache": Told(cache, f"turnwise llm cache --store {_DEMO}"),
            },
        ),
        "teach": Told(teach, "turnwise teach courtesy --draft"),
    },
    "Detect and query": {
        "detect": Told(detect, f"turnwise detect --detector cusum --store {_DEMO} --run reader-history"),
        "query": Told(query, f"turnwise query 'slope(reciprocity.F) > 0.1' --store {_DEMO} --run reader-history"),
        "show": Told(show, f"turnwise show grooming-01 --store {_DEMO} --run reader-history"),
        "judgements": Below(
            "Judgements of people: the inbox of flagged conversations, corrected labels, scores of turns.",
            {
                "list": Told(list_judgements, f"turnwise judgements list --store {_DEMO}"),
                "inbox": Told(list_inbox, f"turnwise judgements inbox --store {_DEMO} --run reader-history"),
                "status": Told(review, f"turnwise judgements status grooming-01 read --author Jo --store {_DEMO}"),
                "label": Told(label, f"turnwise judgements label grooming-01 attack --author Jo --store {_DEMO}"),
                "turn": Told(turn, f"turnwise judgements turn grooming-01 7 --author Jo --store {_DEMO}"),
                "agreement": Told(agreement, f"turnwise judgements agreement --store {_DEMO}"),
                "export": Told(export_judgements, f"turnwise judgements export --out judged --store {_DEMO}"),
                "hand-out": Told(
                    hand_out_sheets,
                    "turnwise judgements hand-out --annotator Jo --annotator Sam --most 5 --out sheets "
                    f"--store {_DEMO}",
                ),
                "take-in": Told(
                    take_in_sheets,
                    "turnwise judgements take-in kit --out people --who colleagues --trained 'one hour' --paid no "
                    f"--when 2026-05 --store {_DEMO}",
                ),
            },
        ),
    },
    "Study": {
        "study": Below(
            "Studies of labelled conversations: compare detectors and runs, set thresholds, find patterns.",
            {
                "compare": Told(
                    compare,
                    "turnwise study compare --run reader-turn --run reader-history --folds 5 --target-fpr 0.2 "
                    f"--store {_DEMO}",
                ),
                "power": Told(power, "turnwise study power --stateless 0.3 --temporal 0.5"),
                "tune": Told(
                    tune,
                    f"turnwise study tune --detector hmm --target-fpr 0.2 --run reader-history --store {_DEMO}",
                ),
                "calibrate": Told(
                    calibrate, f"turnwise study calibrate --alpha 0.2 --run reader-history --store {_DEMO}"
                ),
                "discover": Told(discover, "turnwise study discover --run first --store work.db"),
                "prevalence": Told(prevalence, "turnwise study prevalence findings"),
                "second-look": Told(second_look, f"turnwise study second-look --run second_look --store {_DEMO}"),
                "map": Told(map_, "turnwise study map --conversations 50"),
                "session-rules": Told(
                    session_rules, f"turnwise study session-rules --run reader-history --store {_DEMO}"
                ),
            },
        ),
        "bench": Below(
            "Measure any guard turn by turn on the same conversations, the yardstick, and compare the records.",
            {
                "run": Told(run_bench, "turnwise bench run keywords --sample 5 --out keywords.json"),
                "compare": Told(compare_records, "turnwise bench compare keywords.json never.json"),
            },
        ),
    },
    "Guard": {
        "guard": Below(
            "Guardrails: check a text, try a chat, replay recorded conversations, read audits, forget people.",
            {
                "check": Told(guard_check, "turnwise guard check 'My SSN is 123-45-6789'"),
                "approve-tools": Told(approve_tools, "turnwise guard approve-tools tools.json"),
                "chat": Told(chat, "echo 'Hello there' | turnwise guard chat --preset basic"),
                "replay": Told(replay, "turnwise guard replay chats.jsonl --audit shadow.jsonl"),
                "forensics": Told(forensics, "turnwise guard forensics chat.json --preset basic --html chat.html"),
                "audit": Told(audit, "turnwise guard audit audit.jsonl --blocked"),
                "report": Told(report, "turnwise guard report audit.jsonl --alarms 0.01"),
                "alert": Told(alert, "turnwise guard alert audit.jsonl --config alerts.yaml --once"),
                "verify": Told(verify, "turnwise guard verify audit.jsonl"),
                "sessions": Told(sessions, "turnwise guard sessions --state guard.db"),
                "forget": Told(forget, "turnwise guard forget user_123 --state guard.db"),
                "expire": Told(expire, "turnwise guard expire --days 90 --state guard.db"),
            },
        ),
        "mcp": Told(mcp, "turnwise mcp -- python server.py"),
        "hook": Told(hook, "turnwise hook --agent claude < event.json"),
    },
    "Serve and look": {
        "serve": Told(serve, "turnwise serve --preset customer_service"),
        "explore": Told(explore, f"turnwise explore --store {_DEMO}"),
    },
}
"""All commands, by the part of the help in which they stand."""


_BEFORE = "Example: "


class CommandWithExample(TyperCommand):
    """A command whose help ends with its example in one line, as it is to be pasted."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, unwrapped."""
        if self.epilog:
            with formatter.section(_BEFORE.strip(" :")):
                formatter.write(f"  {self.epilog.removeprefix(_BEFORE).strip('`')}\n")


class Commands(TyperGroup):
    """A group of commands whose summaries are never cut, and each of which takes ``--quiet`` as well."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command with its whole summary, and with the option ``--quiet`` of the application."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            return None
        command = _with_summary(found)
        if not any(one.name == "quiet" for one in command.params):
            quiet = [one for one in ctx.find_root().command.params if one.name == "quiet"]
            command.params = [*command.params, *quiet]
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, those of the application in their sections."""
        if ctx.parent is not None:
            super().format_commands(ctx, formatter)
            return
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.get_command(ctx, name).short_help) for name in names])


def _with_summary(command: Any) -> Any:
    """A command, and those below it, with the first paragraph of their help as their summary."""
    command = copy(command)
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    if isinstance(command, TyperGroup):
        command.commands = {name: _with_summary(below) for name, below in command.commands.items()}
    return command


app = typer.Typer(
    cls=Commands,
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(to: typer.Typer, commands: Mapping[str, Told | Below]) -> None:
    for name, one in commands.items():
        if isinstance(one, Below):
            group = typer.Typer(help=one.about, no_args_is_help=True, rich_markup_mode=None)
            _add(group, one.commands)
            to.add_typer(group, name=name, cls=Commands)
        else:
            to.command(name, cls=CommandWithExample, epilog=f"{_BEFORE}`{one.example}`")(one.command)


for _commands in SECTIONS.values():
    _add(app, _commands)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"turnwise {__version__}")
        raise typer.Exit


def _keep_quiet(wanted: bool) -> None:
    if wanted:
        keep_quiet()


@app.callback()
def turnwise(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            callback=_keep_quiet,
            is_eager=True,
            expose_value=False,
            help="Print errors only: no progress, no notes on standard error.",
        ),
    ] = False,
) -> None:
    """Catch manipulation that unfolds over several turns of a conversation.

    Without a command it says what to do next in this folder. A file turnwise.toml, in the folder or above it, may
    name store, run and observer of a project; turnwise doctor shows which hold.
    """
    if values := find_project().values:
        context.default_map = defaults_of(context.command, values)
    if context.invoked_subcommand is None:
        from turnwise.cli.project import next_steps

        say(*next_steps())
