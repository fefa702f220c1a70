"""``turnwise study session-rules``: what the rules of the session memory do on recorded sessions."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnwise.cli import options
from turnwise.cli.output import note, print_json, print_table, say
from turnwise.cli.stores import read_run
from turnwise.errors import SessionError, StoreError, TurnwiseError

if TYPE_CHECKING:
    from turnwise.sessions.recorded_sessions import SessionRecord


def session_rules(
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
    """Rate the rules of the session memory: what each catches and flags falsely, with exact intervals."""
    from turnwise.sessions.recorded_sessions import RULES, largest_difference, rate_rules

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
    table = []
    for row in rows:
        mark = "" if row.rule.source == "summary" else " *"
        table.append((row.rule.name + mark, str(row.rates["attack"]), str(row.rates["benign"])))
    columns = "rule", "attacks caught", "benign flagged"
    print_table(columns, table, title="With 95 % intervals (Clopper-Pearson)")
    if any(rule.source != "summary" for rule in RULES):
        say("* not in the validation summary's table; see docs/reference/session-rules.md")


def _read(file: str) -> tuple[SessionRecord, ...]:
    from turnwise._support.bounded import read_json
    from turnwise._support.locations import to_path
    from turnwise.sessions.recorded_sessions import read_records

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
    from turnwise.sessions.recorded_sessions import LABELS, record_of
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
