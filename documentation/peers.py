"""The page of other guards: figures of a record of ``turnwise bench``, and what each guard does."""

from __future__ import annotations

from typing import Any

from documentation.reference import MADE, ROOT, table, words

RECORD = ROOT / "docs/results/bench.json"
"""Made by the command in docs/peers.md."""

NAMES = {
    "turnwise": "turnwise",
    "stinger": "Stinger",
    "llm_guard": "LLM Guard",
    "nemoguardrails": "NeMo Guardrails",
    "openai_guardrails": "OpenAI Guardrails",
    "llamafirewall": "LlamaFirewall",
}


def pages() -> dict[str, str]:
    """Return the page by its path from the repository's root."""
    return {"docs/reference/peers.md": page()}


def page() -> str:
    """Return the page of other guards, table by table."""
    from turnwise.bench import read_record, table_of
    from turnwise.bench.record import notes_of

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
        f"[bench.json](../results/bench.json), made {made['at'][:10]} with turnwise {made['turnwise']}.",
        "",
        "## Measured",
        "",
        *table(found.columns, found.rows),
        found.note,
        "",
        *(f"- {line}" for line in notes_of({"bench": record})),
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
