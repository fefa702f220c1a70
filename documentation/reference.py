"""Reference pages made from the program: errors, store schema, presets, session rules, the Python interface."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent

MADE = "<!-- Made by `python -m documentation`: change what it is made from. -->"


def pages() -> dict[str, str]:
    """Return the pages by their path from the repository's root."""
    made = {
        "docs/reference/errors.md": errors_page(),
        "docs/reference/presets.md": presets_page(),
        "docs/reference/session-rules.md": session_rules_page(),
        "docs/reference/store-schema.md": schema_page(),
        "docs/reference/python/index.md": python_index(),
    }
    for page in PYTHON:
        made[f"docs/reference/python/{page.file}.md"] = python_page(page)
    return made


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    heads = list(heads)
    lines = [" | ".join(heads), "|".join("---" for _ in heads)]
    lines += [" | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in row) for row in rows]
    return [f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:]), ""]


def words(name: str) -> dict[str, str]:
    """Return a file of words beside this one."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


# Errors


def errors_page() -> str:
    """Return the page of errors: exceptions, exit codes, reasons of failures, problems of the service."""
    from turnwise import errors

    lines = [
        "# Errors and exit codes",
        "",
        MADE,
        "",
        "Every error that turnwise raises on purpose is a `turnwise.TurnwiseError`. Its message says what is",
        "wrong, where (file, line, field), and what to do. Other people's text in it is shortened, and",
        "invisible characters are shown.",
        "",
        "## Exit codes of commands",
        "",
        *table(
            ("code", "meaning"),
            [
                ("0", "all is well"),
                ("1", "an error, or evaluations that failed"),
                ("2", "wrong use: an option, a name, a combination"),
                ("3", "it ran fine and found something; only with `--fail-on-findings`"),
                ("130", "interrupted"),
            ],
        ),
        "## Exceptions",
        "",
        "An error is also caught by the one above that it is indented under.",
        "",
        *table(
            ("exception", "also a", "exit code", "what it means"),
            ((indented(kind), also(kind), exit_code(kind), summary(kind)) for kind in tree(errors.TurnwiseError)),
        ),
        "`turnwise.guard.GuardrailBlocked`, also a `TurnwiseError`, is no fault: integrations raise it where they",
        "were asked to, with the verdict as `result`.",
        "",
        "## Why a score failed",
        "",
        "A failed score has one of these words, never a number. `turnwise runs list` counts failures, `turnwise",
        "evaluate --failed` tries them again. Observers of other packages may add words.",
        "",
        *table(("reason", "meaning"), ((f"`{name}`", text) for name, text in words("failures.toml").items())),
        "## Problems of the service",
        "",
        "`turnwise serve` answers with problem details (RFC 9457) of the type `urn:turnwise:problem:` and the",
        "word. They repeat nothing of the request.",
        "",
        *table(("status", "word", "what it says"), problems()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def tree(kind: type) -> Iterator[type]:
    """Yield an error and all below it, in the order in which they are written."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == kind.__module__:
            yield from tree(below)


def indented(kind: type) -> str:
    """Return the name of an error, further in the further down it is."""
    depth = len([one for one in kind.__mro__ if one.__module__ == kind.__module__]) - 1
    return "&emsp;" * depth + f"`{kind.__name__}`"


def also(kind: type) -> str:
    """Return Python's own errors that catch it as well."""
    own = [one for one in kind.__mro__ if one.__module__ == "builtins"]
    return ", ".join(f"`{one.__name__}`" for one in own if one not in (BaseException, Exception, object))


def exit_code(kind: type) -> str:
    """Return the exit code of a command that ends with it."""
    from turnwise.errors import UsageError

    return "2" if issubclass(kind, UsageError) else "1"


def summary(kind: type) -> str:
    """Return the first sentence of a docstring."""
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def problems() -> list[tuple[str, str, str]]:
    """Return status, word and text of every problem that the service may answer with."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted((ROOT / "src/turnwise/serve").glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Problem":
                status, detail, kind = call.args[:3]
                if isinstance(status, ast.Constant) and isinstance(kind, ast.Constant):
                    found.setdefault((str(status.value), f"`{kind.value}`"), literal(detail))
    found[("404", "`not-found`")] = "there is nothing here; see /openapi.json"
    found[("405", "`method`")] = "this path has other methods"
    found[("409", "`conversation`")] = "there is no such turn, or it has its response"
    found[("503", "`check-timeout`")] = "the check did not end in time; the answer has the way of the text"
    found[("503", "`stopping`")] = "the service stops"
    return [(status, kind, text) for (status, kind), text in sorted(found.items())]


def literal(node: ast.expr) -> str:
    """Return a text as it stands in the code, with an ellipsis for what is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return literal(node.left) + literal(node.right)
    if isinstance(node, ast.IfExp):
        return literal(node.body)
    return "…"


# Store


def schema_page() -> str:
    """Return the page of the record's tables."""
    from turnwise.store.schema import MIGRATIONS, metadata

    told = tomllib.loads((HERE / "store.toml").read_text(encoding="utf-8"))
    lines = [
        "# Store schema",
        "",
        MADE,
        "",
        "The tables of the record, in SQLite and in PostgreSQL. [SQL](../sql.md) has examples of questions to",
        "them and the narrower tables that `turnwise query --sql` asks; [the",
        "record](../architecture.md#the-record) says how they are written. `T`, `I` and `F` need quotes in",
        "PostgreSQL. Times are text in ISO 8601 in SQLite and `timestamptz` in PostgreSQL. Reading with other",
        "programs is welcome; writing is not, since a value that can't be makes a store damaged.",
        "",
        "```",
        *(inspect.getdoc(importlib.import_module("turnwise.store.schema")) or "").split("\n\n", 1)[1].splitlines(),
        "```",
        "",
    ]
    for one in metadata.tables.values():
        lines += [f"## {one.name}", "", told[one.name]["about"], ""]
        rows = []
        for column in one.columns:
            meaning = told[one.name].get(column.name) or told["common"][column.name]
            keys = ["primary key"] * column.primary_key + ["unique"] * bool(column.unique)
            keys += [f"of `{key.column.table.name}.{key.column.name}`" for key in column.foreign_keys]
            null = "" if column.nullable else "no"
            rows.append((f"`{column.name}`", kind_of(column), null, ", ".join(keys), meaning))
        lines += table(("column", "type", "may be null", "key", "meaning"), rows)
    lines += [
        "## Versions",
        "",
        "An older store is brought up to date when it is opened; a later one is refused.",
        "",
        *table(("version", "added"), ((str(one.version), one.name) for one in MIGRATIONS)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def kind_of(column: object) -> str:
    """Return the kind of a column's values in a word."""
    name = type(getattr(column, "type", None)).__name__.lower()
    known = {"string": "text", "utctime": "time", "float": "number", "integer": "whole number", "json": "JSON"}
    return known.get(name, name)


# Presets


def presets_page() -> str:
    """Return the page of the guard's presets, each with its YAML."""
    from turnwise.guard.config import preset_names, preset_summary, preset_text

    lines = [
        "# Presets",
        "",
        MADE,
        "",
        "Configurations of the guard that ship. `GuardrailPipeline.from_preset(NAME)` builds one; `turnwise",
        "list presets NAME --out mine.yaml` writes one to change. Settings: of [each",
        "guardrail](guardrails.md), of [the pipeline](settings.md#pipeline). The files below have what",
        "the table says as their `description`.",
        "",
        *table(
            ("preset", "what it is for"), ((f"[`{one}`](#{one})", preset_summary(one)) for one in preset_names())
        ),
    ]
    for one in preset_names():
        yaml = [line for line in preset_text(one).rstrip().splitlines() if not line.startswith("description: ")]
        lines += [f"## {one}", "", "```yaml", *yaml, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


# Session rules

RECORDED_SESSIONS = ROOT / "tests" / "sessions" / "session_memory_20.json"


def session_rules_page() -> str:
    """Return the page of what the rules of the session memory do on the recorded sessions."""
    from turnwise.sessions.recorded_sessions import largest_difference, rate_rules, read_records

    records = read_records(json.loads(RECORDED_SESSIONS.read_text(encoding="utf-8")))
    rows = []
    for row in rate_rules(records):
        name = row.rule.name + (" *" if row.rule.source != "summary" else "")
        rows.append((name, str(row.rates["attack"]), str(row.rates["benign"])))
    lines = [
        "# Session rules on recorded sessions",
        "",
        MADE,
        "",
        "What each rule of the [session memory](../session-memory.md#the-20-recorded-sessions) does on ten",
        "attacks and ten benign sessions of three turns, on which its limits were chosen; exact 95 % intervals",
        "(Clopper and Pearson). Trust computed again differs from the record by at most",
        f"{largest_difference(records):.1e}. For sessions of your own: `turnwise study session-rules FILE`.",
        "",
        *table(("rule", "attacks caught", "benign flagged"), rows),
        "\\* not in the table of the validation summary that has the sessions.",
    ]
    return "\n".join(lines).rstrip() + "\n"


# Python


class PythonPage(NamedTuple):
    """A page of the Python interface, with the public names of some modules in order."""

    file: str
    title: str
    about: str
    modules: tuple[str, ...]


PYTHON = (
    PythonPage(
        "conversation", "Conversations", "Turns, conversations, sequences, and their formats.", ("conversation",)
    ),
    PythonPage("scoring", "Scores", "T, I and F, evaluations, failures and trajectories.", ("scoring",)),
    PythonPage("patterns", "Patterns", "The [pattern language](../../patterns.md) as Python.", ("patterns",)),
    PythonPage("detectors", "Detectors", "They read scores turn by turn and give signals.", ("detectors",)),
    PythonPage(
        "sessions", "Sessions", "State that outlives a conversation, and the stores that keep it.", ("sessions",)
    ),
    PythonPage("principles", "Principles", "What a turn is judged against.", ("principles",)),
    PythonPage("datasets", "Data sets", "Loaders of conversations.", ("datasets",)),
    PythonPage("observers", "Observers", "They score turns.", ("observers",)),
    PythonPage("store", "Store", "The record.", ("store",)),
    PythonPage(
        "runs",
        "Runs",
        "Scores and verdicts: of one conversation, of a store, and of [logs of any size](../../scan.md).",
        ("runs", "front_door", "findings"),
    ),
    PythonPage("guard", "Guard", "Guardrails around a live model, audit and forensics.", ("guard", "forensics")),
    PythonPage(
        "study",
        "Study",
        "Comparisons with their statistics, and prevalence. Needs the extra `study`.",
        ("study", "study.compare", "study.report", "study.discovery", "study.prevalence", "study.annotation"),
    ),
    PythonPage("bench", "Bench", "Any guard measured by turn ([how](../../bench.md)).", ("bench",)),
    PythonPage(
        "plots",
        "Charts and rates",
        "Trajectories as SVG, PNG, PDF and HTML; rates with their intervals.",
        ("plots", "rates"),
    ),
    PythonPage("serve", "Service", "The guard [over HTTP](../../serve.md). Needs the extra `serve`.", ("serve",)),
    PythonPage(
        "errors", "Errors", "Every error that is raised on purpose ([what they mean](../errors.md)).", ("errors",)
    ),
)


def python_index() -> str:
    """Return the page of the names that `import turnwise` offers."""
    import turnwise

    where = {page_module: page.file for page in PYTHON for page_module in page.modules}
    rows = []
    for name in turnwise.__all__:
        item = getattr(turnwise, name)
        if name.startswith("__"):
            continue
        module = item.__module__.removeprefix("turnwise.")
        page = next(file for key, file in where.items() if module == key or module.startswith(f"{key}."))
        rows.append((f"[`turnwise.{name}`]({page}.md)", summary(item)))
    lines = [
        "# Python",
        "",
        MADE,
        "",
        "`import turnwise` offers what most programs need, the packages below the rest. Importing is cheap: heavy",
        "parts load when they are used.",
        "",
        *table(("name", "what it is"), rows),
        "## Packages",
        "",
        *table(
            ("package", "what is there"),
            ((f"[`turnwise.{page.modules[0]}`]({page.file}.md)", page.about) for page in PYTHON),
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def python_page(page: PythonPage) -> str:
    """Return a page that mkdocstrings fills from docstrings: one directive for each public name."""
    lines = [f"# {page.title}", "", MADE, "", page.about, ""]
    for module in page.modules:
        if len(page.modules) > 1:
            lines += [f"## turnwise.{module}", ""]
        options = ["    options: {heading_level: 3}"] if len(page.modules) > 1 else []  # 2 unless said otherwise
        for name in public_names(module):
            lines += [f"::: turnwise.{module}.{name}", *options, ""]
    return "\n".join(lines).rstrip() + "\n"


def public_names(module: str) -> list[str]:
    """Return the names that a module offers, classes and functions alone, in their order."""
    found = importlib.import_module(f"turnwise.{module}")
    names = getattr(found, "__all__", None)
    if names is None:
        names = [
            name
            for name, item in vars(found).items()
            if not name.startswith("_") and getattr(item, "__module__", None) == found.__name__
        ]
    items = {name: getattr(found, name) for name in names}
    return [name for name, item in items.items() if inspect.isroutine(item) or inspect.isclass(item)]
