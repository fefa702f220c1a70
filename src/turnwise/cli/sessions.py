"""``turnwise sessions``: the rules of the session memory, and what they do on recorded sessions."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import say

if TYPE_CHECKING:
    from turnwise.sessions.records import SessionRecord

sessions = typer.Typer(
    help="The session memory: its rules, and what they do on recorded sessions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@sessions.command()
def audit(
    file: Annotated[
        str | None,
        typer.Argument(
            help="JSON file of recorded sessions (scenario, label, balances, trust, recorded_trajectory), or - "
            "for standard input; without one, the labelled sequences of a run of the store.",
            show_default=False,
        ),
    ] = None,
    run: options.Run = None,
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Print the table of rules: what each catches and flags falsely, with exact intervals."""
    from turnwise.cli.output import Table, print_json, print_table
    from turnwise.errors import SessionError
    from turnwise.sessions.records import RULES, largest_difference, rate_rules

    records = _read(file) if file is not None else _of_run(store, run)
    try:
        rows = rate_rules(records)
    except SessionError as error:
        raise SessionError(f"{file}: {error}") from error
    difference = largest_difference(records) if file is not None else None
    counts = {label: sum(record.label == label for record in records) for label in ("attack", "benign")}
    if json:
        print_json(
            {
                "records": len(records),
                **counts,
                "trust_difference": difference,
                "rules": [
                    {
                        "rule": row.rule.name,
                        "source": row.rule.source,
                        **{label: _rate(rate) for label, rate in row.rates.items()},
                        "flagged": list(row.flagged),
                    }
                    for row in rows
                ],
            }
        )
        return
    say(f"{len(records)} sessions: {counts['attack']} attack, {counts['benign']} benign")
    if difference is not None:
        turns = sum(len(record.trust) for record in records)
        say(f"trust computed again from strengths: differs by at most {difference:.1e} over {turns} turns")
    table = Table("rule", "attacks caught", "benign flagged", title="With 95 % intervals (Clopper-Pearson)")
    for row in rows:
        mark = "" if row.rule.source == "summary" else " *"
        table.add_row(row.rule.name + mark, str(row.rates["attack"]), str(row.rates["benign"]))
    print_table(table)
    if any(rule.source != "summary" for rule in RULES):
        say("* not in the validation summary's table; see docs/session-memory.md")


@sessions.command()
def presets(json: options.Json = False) -> None:
    """List the presets of the session memory with what they set."""
    from dataclasses import asdict

    from turnwise.cli.output import Table, print_json, print_table
    from turnwise.sessions import presets as all_presets

    if json:
        print_json(
            [
                {"name": info.name, "summary": info.summary, "settings": _plain(asdict(info.settings))}
                for info in all_presets()
            ]
        )
        return
    table = Table("preset", "summary", "settings")
    plain = asdict(all_presets()[0].settings)
    for number, info in enumerate(all_presets()):
        chosen = asdict(info.settings)
        table.add_row(info.name, info.summary, _words(chosen, None if number == 0 else plain))
    print_table(table)


def _read(file: str) -> tuple[SessionRecord, ...]:
    from turnwise._support.bounded import read_json
    from turnwise._support.paths import to_path
    from turnwise.errors import SessionError, TurnwiseError
    from turnwise.sessions.records import read_records

    where = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else to_path(file).read_text(encoding="utf-8-sig")
        return read_records(read_json(text))
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"can't read the records in {where}: {error}") from error
    except json_.JSONDecodeError as error:
        raise SessionError(
            f"{where} is not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except (TurnwiseError, ValueError) as error:
        raise SessionError(f"{where}: {error}") from error


def _of_run(path: str, run: str | None) -> tuple[SessionRecord, ...]:
    from turnwise.cli.options import read_run
    from turnwise.cli.output import note
    from turnwise.errors import SessionError, StoreError
    from turnwise.sessions.records import LABELS, record_of
    from turnwise.store import Store

    try:
        opened = Store(path)
    except StoreError as error:
        raise SessionError(f"{error}; or name a FILE of recorded sessions") from error
    with opened:
        name = read_run(opened, run)
        labelled = [item for item in opened.trajectories(name) if str(item[0].label) in LABELS]
        found = [record_of(head.sequence_id, str(head.label), turns) for head, turns in labelled]
    records = tuple(record for record in found if record is not None)
    if not records:
        raise SessionError(f"run {name!r} has no scores of sequences labelled attack or benign; name a FILE")
    if len(records) < len(found):
        note(f"{len(found) - len(records)} sequences were left out: the run has no scores of them")
    return records


def _rate(rate: Any) -> dict[str, Any]:
    return {"count": rate.count, "of": rate.of, "interval": list(rate.interval)}


def _plain(value: Any) -> Any:
    """Settings as JSON values; times become seconds."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.total_seconds() if hasattr(value, "total_seconds") else value


def _words(chosen: dict[str, Any], plain: dict[str, Any] | None, prefix: str = "") -> str:
    """Settings in a line; beside a plain preset only what differs from it."""
    parts = []
    for key, value in chosen.items():
        if isinstance(value, dict):
            parts.append(_words(value, plain and plain[key], f"{key}."))
        elif plain is None or plain[key] != value:
            shown = f"{value.total_seconds() / 86_400:g}d" if hasattr(value, "total_seconds") else value
            parts.append(f"{prefix}{key}={shown}")
    return ", ".join(part for part in parts if part)
