"""The page of other guards: figures of a record of ``turnwise bench``, and what each guard does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from documentation.reference import MADE, ROOT, table, words

RECORD = ROOT / "docs/reference/peers.json"
"""Made by the command in peers.toml."""

NAMES = {
    "turnwise": "turnwise",
    "stinger": "Stinger",
    "llm_guard": "LLM Guard",
    "nemoguardrails": "NeMo Guardrails",
    "openai_guardrails": "OpenAI Guardrails",
    "llamafirewall": "LlamaFirewall",
}


SHORT = "docs/peers.md"
BEGIN, END = "<!-- Made by `python -m documentation` from docs/reference/peers.json -->", "<!-- end -->"
OURS = (
    ("twins", "recall", "twins: found"),
    ("twins", "false_alarms", "their benign halves: flagged"),
    ("human", "recall", "in the manner of people: found"),
    ("human", "false_alarms", "their counterparts: flagged"),
)
OTHERS = (
    ("mhj", "recall", "MHJ: found"),
    ("toxic_chat", "recall", "ToxicChat: found"),
    ("toxic_chat", "false_alarms", "its benign prompts: flagged"),
    ("xstest", "recall", "XSTest, unsafe: found"),
    ("xstest", "false_alarms", "XSTest, safe: flagged"),
    ("safemt_attack600", "recall", "Attack_600: found"),
    ("arena_real_users", "false_alarms", "chat arena: flagged"),
    ("wildchat_real_users", "false_alarms", "WildChat: flagged"),
)


def pages() -> dict[str, str]:
    """Return the pages by their path from the repository's root."""
    before, _, rest = (ROOT / SHORT).read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    made = ["", "", "Sets of our own hand:", "", *short(OURS), "Sets of others:", "", *short(OTHERS)]
    return {"docs/reference/peers.md": page(), SHORT: before + BEGIN + "\n".join(made) + END + after}


def short(columns: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return a table with a row for each guard: a rate of each set that is named."""
    from turnwise.bench import read_record
    from turnwise.bench.record import percent

    rows = []
    for guard in read_record(RECORD)["guards"]:
        told = {result["task"]: result for result in guard["results"]}
        rows.append((guard["name"], *(percent(told[task][rate]) for task, rate, _ in columns)))
    return table(("guard", *(heading for _, _, heading in columns)), rows)


def page() -> str:
    """Return the page of other guards, table by table."""
    from turnwise.bench import notes_of, read_record, table_of

    record = read_record(RECORD)
    told: Any = words("peers.toml")
    found = table_of({"bench": record})
    made = record["made"]
    lines = [
        "# Other guards, table by table",
        "",
        MADE,
        "",
        "[Beside other guards](../peers.md) says what was measured, and what follows. The record is",
        f"[peers.json](peers.json), made {made['at'][:10]} with turnwise {made['turnwise']}.",
        "",
        "## Measured",
        "",
        *table(found.columns, found.rows),
        found.note,
        "",
        *(f"- {line}" for line in notes_of({"bench": record})),
        "",
        "```",
        *told["command"].strip().splitlines(),
        "```",
        "",
        told["setup"],
        "",
        "## What could not be measured",
        "",
        *table(("guard", "why"), told["not_run"]),
        "## What each does",
        "",
        told["about"].strip(),
        "",
        *table(("", *NAMES.values()), ([one["what"], *(one[name] for name in NAMES)] for one in told["features"])),
        "## Versions and sizes",
        "",
        "All that `pip install` brings, without compiled caches; models from a hub come on top.",
        "",
        *table(("guard", "package", "released", "installed"), told["versions"]),
    ]
    return "\n".join(lines).rstrip() + "\n"
