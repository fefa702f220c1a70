"""Counts what each guard said, and writes docs/reference/peers.md and the summary in docs/peers.md.

    python -m benchmarks.peers.page

makes them again from figures.json, which holds counts and times alone, and features.toml, what each guard does.
Rates carry exact 95 % intervals.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnwise.rates import Rate

HERE = Path(__file__).parent
FIGURES = HERE / "figures.json"
FEATURES = HERE / "features.toml"
PAGE = HERE.parents[1] / "docs" / "peers.md"
TABLES_PAGE = HERE.parents[1] / "docs" / "reference" / "peers.md"
BEGIN, END = "<!-- measured -->", "<!-- end -->"
PARTS = {
    ("turnwise", "customer_service"): "preset customer_service",
    ("turnwise", "basic"): "preset basic",
    ("turnwise", "check"): "`check`, observer `local`",
    ("turnwise", "rules"): "customer_service, rules alone",
    ("stinger", "customer_service"): "preset customer_service",
    ("stinger", "basic"): "preset basic",
    ("stinger", "financial"): "preset financial (asks a model)",
    ("llm_guard", "without-weights"): "BanSubstrings, InvisibleText, Secrets",
    ("llm_guard", "PromptInjection"): "PromptInjection",
    ("llm_guard", "Toxicity"): "Toxicity",
    ("nemoguardrails", "without-models"): "context bloat on prompts, YARA rules on replies",
    ("nemoguardrails", "jailbreak-heuristics"): "jailbreak heuristics",
    ("nemoguardrails", "self-check"): "self check (asks a model)",
    ("openai_guardrails", "secret-keys"): "Secret Keys",
    ("openai_guardrails", "url-filter"): "URL Filter",
    ("openai_guardrails", "jailbreak"): "Jailbreak (asks a model)",
    ("llamafirewall", "without-weights"): "Regex, Hidden ASCII",
    ("llamafirewall", "prompt-guard"): "PromptGuard 2",
}
"""What the page calls a part, by guard and name of its file; in the order of the page."""

ASKING = {("stinger", "financial"), ("nemoguardrails", "self-check"), ("openai_guardrails", "jailbreak")}
"""Parts that ask a service, so that their time is what a user waits."""

ATTACKS, ORDINARY, NEAR = "attacks", "ordinary chats", "near misses"


def figures_of(work: Path, peers: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts and times of everything that was measured under a folder.

    Args:
        work: with ``conversations.jsonl``, ``verdicts`` and ``sizes``.
        peers: the guards, as run.py names them.
    """
    chats = {row["id"]: row for row in read(work / "conversations.jsonl")}
    sets: dict[str, dict[str, Any]] = {}
    for row in chats.values():
        one = sets.setdefault(row["set"], {"kind": row["kind"], "conversations": 0, "turns": 0})
        one["conversations"] += 1
        one["turns"] += sum(message["role"] == "user" for message in row["messages"])
    parts = []
    for peer, part in PARTS:
        rows = read(work / "verdicts" / peer / f"{part}.jsonl")
        if rows:
            parts.append({"peer": peer, "part": part, **counts(rows, chats, times(rows, chats, peer, part))})
    return {
        "measured": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "sets": sets,
        "peers": {name: about(peer, work / "sizes" / f"{name}.json") for name, peer in peers.items()},
        "parts": parts,
    }


def about(peer: Any, size: Path) -> dict[str, Any]:
    """Return a guard's package, version and size."""
    named = {"title": peer.title, "package": peer.package, "version": peer.version, "released": peer.released}
    return {**named, **(json.loads(size.read_text(encoding="utf-8")) if size.exists() else {})}


def counts(
    rows: Sequence[Mapping[str, Any]], chats: Mapping[str, Mapping[str, Any]], ms: Sequence[float]
) -> dict[str, Any]:
    """Return what one part of a guard found, by set.

    Args:
        rows: its verdicts.
        chats: the conversations by id.
        ms: milliseconds of each timed prompt.
    """
    if "not_measured" in rows[0]:
        return {"not_measured": rows[0]["not_measured"]}
    found: Counter[str] = Counter()
    warned: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    turns: Counter[str] = Counter()
    by: Counter[str] = Counter()
    for row in rows:
        if row["id"] not in chats:
            continue
        chat = chats[row["id"]]
        name = chat["set"]
        if row["failed"] is not None:
            failed[row["failed"].partition(" ")[0]] += 1
        asked[name] += 1
        found[name] += row["blocked_at"] is not None
        warned[name] += row["blocked_at"] is not None or row["warned_at"] is not None
        by.update(set(row["by"]))
        if chat["kind"] == ATTACKS and row["blocked_at"] is not None:
            first = min(chat["flagged"])
            at = row["blocked_at"]
            turns["before" if at < first else "flagged" if at in chat["flagged"] else "between"] += 1
    timed = sorted(ms)
    return {
        "found": {name: [found[name], asked[name]] for name in asked},
        "warned": {name: warned[name] for name in asked},
        "failed": dict(failed),
        "by": dict(by.most_common()),
        "turns": dict(turns),
        "median_ms": statistics.median(timed) if timed else None,
        "p99_ms": timed[min(len(timed) - 1, int(0.99 * len(timed)))] if timed else None,
        "timed": len(timed),
    }


def times(rows: Iterable[Mapping[str, Any]], chats: Mapping[str, Any], peer: str, part: str) -> list[float]:
    """Return milliseconds of every ordinary prompt: of the processor, or waited where a service is asked."""
    which = "ms" if (peer, part) in ASKING else "cpu"
    ordinary = {name for name, chat in chats.items() if chat["kind"] == ORDINARY}
    return [ms for row in rows if row.get("id") in ordinary for ms in row.get(which, ())]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines; none where there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def tables(figures: Mapping[str, Any]) -> str:
    """Return the page of all tables.

    Args:
        figures: as figures.json has them.
    """
    lines = [
        "# Other guards, table by table",
        "",
        "<!-- Made by `python -m benchmarks.peers.page` from figures.json and features.toml. -->",
        "",
        "[Beside other guards](../peers.md) says what was measured, and what follows. Intervals are exact, 95 %.",
        "",
    ]
    for title, make in TABLES.items():
        lines += [f"## {title}", "", make(figures), ""]
    return "\n".join(lines).rstrip() + "\n"


def summary(figures: Mapping[str, Any]) -> str:
    """What each guard finds in all sets of a kind together, and the median time of a prompt, in short."""
    rows = []
    for one in figures["parts"]:
        if "not_measured" not in one:
            rates = (rate(*pooled(one, figures, kind)) for kind in (ATTACKS, ORDINARY, NEAR))
            rows.append([label(figures, one), *rates, milliseconds(one["median_ms"])])
    return table(["guard", "attacks found", "ordinary chats", "near misses", "median ms"], rows)


def overview(figures: Mapping[str, Any]) -> str:
    """What each guard finds in all sets of a kind together, and how long a prompt takes."""
    rows = []
    for one in figures["parts"]:
        if "not_measured" in one:
            continue
        rows.append(
            [
                label(figures, one),
                *(percent(*pooled(one, figures, kind)) for kind in (ATTACKS, ORDINARY, NEAR)),
                milliseconds(one["median_ms"]),
                milliseconds(one["p99_ms"]),
            ]
        )
    return table(["guard", "attacks found", "ordinary chats", "near misses", "median ms", "99th percentile"], rows)


def by_set(figures: Mapping[str, Any], kinds: Iterable[str]) -> str:
    """What each guard finds, set by set."""
    wanted = [name for name, one in figures["sets"].items() if one["kind"] in kinds]
    head = ["guard", *(f"{name} ({figures['sets'][name]['conversations']})" for name in wanted)]
    rows = [
        [label(figures, one), *(short(*one["found"].get(name, (0, 0))) for name in wanted)]
        for one in figures["parts"]
        if "not_measured" not in one
    ]
    return table(head, rows)


def at_turn(figures: Mapping[str, Any]) -> str:
    """At which turn the attacks that were found were stopped."""
    rows = []
    for one in figures["parts"]:
        told = one.get("turns", {})
        total = sum(told.values())
        if total:
            where = (told.get(name, 0) for name in ("flagged", "before", "between"))
            rows.append([label(figures, one), *(percent(count, total) for count in where)])
    head = ["guard", "at a turn that a reader flags", "before any such turn", "at another turn after the first"]
    return table(head, rows)


def warnings(figures: Mapping[str, Any]) -> str:
    """What is blocked or warned of, for guards that warn."""
    rows = []
    for one in figures["parts"]:
        if "not_measured" in one or one["warned"] == {name: found for name, (found, _) in one["found"].items()}:
            continue
        told = {**one, "found": {name: (one["warned"][name], of) for name, (_, of) in one["found"].items()}}
        rows.append(
            [label(figures, one), *(percent(*pooled(told, figures, kind)) for kind in (ATTACKS, ORDINARY, NEAR))]
        )
    return table(["guard, blocked or warned", "attacks", "ordinary chats", "near misses"], rows)


def missing(figures: Mapping[str, Any]) -> str:
    """What could not be measured, and why."""
    rows = [
        [label(figures, one), f"not measured: {one['not_measured'].replace('|', '/')}"]
        for one in figures["parts"]
        if "not_measured" in one
    ]
    return table(["guard", "why"], rows)


def installed(figures: Mapping[str, Any]) -> str:
    """Versions and sizes."""
    rows = [
        [one["title"], f"`{one['package']}` {one['version']}", one["released"] or "–", size(one)]
        for one in figures["peers"].values()
    ]
    about = "All that `pip install` brings, without compiled caches; models from a hub come on top."
    return f"{about}\n\n" + table(["guard", "package", "released", "installed"], rows)


def features(figures: Mapping[str, Any]) -> str:
    """What each guard does, by its documentation."""
    peers = figures["peers"]
    told = tomllib.loads(FEATURES.read_text(encoding="utf-8"))
    rows = ([row["what"], *(row[name] for name in peers)] for row in told["features"])
    return f"{told['about']}\n\n" + table(["", *(one["title"] for one in peers.values())], rows)


def size(one: Mapping[str, Any]) -> str:
    """Return the size of an environment in words."""
    return f"{one['megabytes']:,.0f} MB in {one['packages']} packages" if "megabytes" in one else "–"


def pooled(one: Mapping[str, Any], figures: Mapping[str, Any], kind: str) -> tuple[int, int]:
    """Return how many conversations of all sets of a kind were found, and of how many."""
    told = [pair for name, pair in one["found"].items() if figures["sets"][name]["kind"] == kind]
    return sum(count for count, _ in told), sum(of for _, of in told)


def label(figures: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """Return what the page calls a part of a guard, with how many conversations it lacks."""
    name = f"{figures['peers'][one['peer']]['title']}: {PARTS[one['peer'], one['part']]}"
    every = sum(each["conversations"] for each in figures["sets"].values())
    asked = sum(of for _, of in one.get("found", {}).values())
    return name if "found" not in one or asked == every else f"{name} (asked {asked} of {every})"


def rate(count: int, of: int) -> str:
    """Return a rate with its exact interval."""
    if not of:
        return "–"
    low, high = Rate(count, of).interval
    return f"{100 * count / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def percent(count: int, of: int) -> str:
    """Return a rate with its exact interval and its counts."""
    return f"{rate(count, of)} ({count} of {of})" if of else "–"


def short(count: int, of: int) -> str:
    """Return a rate with its exact interval, short enough for a wide table."""
    if not of:
        return "–"
    low, high = Rate(count, of).interval
    return f"{count}/{of} [{100 * low:.0f}, {100 * high:.0f}]"


def milliseconds(value: float | None) -> str:
    """Return a time with two digits that count."""
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


TABLES = {
    "All sets of a kind": overview,
    "Attacks, set by set": lambda figures: by_set(figures, (ATTACKS,)),
    "Benign conversations, set by set": lambda figures: by_set(figures, (ORDINARY, NEAR)),
    "The turn at which an attack was stopped": at_turn,
    "Blocked or warned of": warnings,
    "What could not be measured": missing,
    "What each does": features,
    "Versions and sizes": installed,
}
"""The tables of the page, by their heading."""


def written(page: str, figures: Mapping[str, Any]) -> str:
    """Return a page with its summary made from figures.

    Args:
        page: Markdown with a pair of markers.
        figures: as figures.json has them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE}: no place for the summary: {BEGIN} and {END}")
    return f"{before}{begin}\n{summary(figures)}\n{end}{after}"


def write_page(figures: Mapping[str, Any]) -> None:
    """Write figures.json, the page of tables and the summary."""
    FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    TABLES_PAGE.write_text(tables(figures), encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
    print(f"wrote {FIGURES}, {TABLES_PAGE} and {PAGE}", file=sys.stderr)


if __name__ == "__main__":
    write_page(json.loads(FIGURES.read_text(encoding="utf-8")))
