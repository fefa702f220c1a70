"""Every error that turnwise raises says what is wrong, where, and what to do; read from the source."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import turnwise
from turnwise import errors

PACKAGE = Path(turnwise.__file__).parent

OWN_MESSAGE = {"UnknownNameError", "OtherLabelError"}
"""Errors that write their message themselves, from parts; tests/test_errors.py reads those."""

CLASSES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.TurnwiseError) and name not in OWN_MESSAGE
}

MOST_FIXED = 400
"""Characters of a message that stand in the source."""

MOST_FORMS = 64
"""Alternatives of one message that are read: each branch of a conditional is one."""

VERBS = (
    "add|annotate|approve|ask|begin|build|check|choose|close|copy|count|create|delete|"
    "download|drop|end|erase|evaluate|export|finish|forget|free|give|go|hand|install|keep|"
    "label|leave|let|load|look|lower|make|measure|mend|move|name|narrow|open|pass|pip|point|put|"
    "python|raise|read|remove|rename|repair|repeat|restore|resume|run|save|say|scan|see|score|"
    "send|set|show|split|start|stop|take|teach|train|try|turn|turnwise|type|unpack|update|"
    "upgrade|use|wait|widen|write"
)
"""What a reader is told to do, at the beginning of a clause; pip, python and turnwise begin a command."""

WANTED = re.compile(
    rf"""
    (?: ^ | [;:,.(]\s | \b(?:or|and|then|first|so|to)\s ) (?:don't\s)? (?:{VERBS}) \b
    | \b must \b | \b needs? \b | \b needed \b | \b such\ as \b | \b one\ of \b | \b either \b
    | \b at\ (?:least|most) \b | , \ not \b | \b known (?:\ are)? : | \b did\ you\ mean \b | \b only \b
    | \b the\ keys\ are \b    | \b goes\ with(?:out)? \b | \b the\ same\ command \b | \b has\ to\ be \b
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""How a message says what is wanted, or what to do."""

ADVICE = re.compile(r"\b(?:use|taken|hint|instead|usage|usage|mismatch)\b|\bunknown\(")
"""An expression that puts in what to do."""

REASON = re.compile(r"\b(?:error|fault|reason|trouble|why|told|text|problem|status)\b|strerror|_errors\(")
"""An expression that puts in the reason that the system, a library or another error gives."""

PLACE = re.compile(
    r"path|file|folder|where|location|place|url|line|host|root|source|target|spec|sheet|server|manifest|batch|pattern"
    r"|\b(?:own|out|argument|card|ledger)\b|command\[0\]",
    re.IGNORECASE,
)
"""An expression that puts in the file, address, line or part that a reason is about."""

BY_NAME = re.compile(r"--[a-z]|/[a-z]+ |\b\w+_\w+|\w\(|\w+://|\b[A-Z]{2,}|\w+=|pip install|^its? ")
"""An option, setting, call, package, URL or format by its name; "it" goes on from what the caller puts before."""

THINGS = (
    "areas|arms|bounds|budget|calibration|chart|conversation|conversations|example|expression|"
    "guard|import|label|message|name|nonces|observer|pattern|person|principles|prompt|recalls|"
    "replies|report|response|review|run|score|scores|script|service|store|stream|study|texts|"
    "threshold|tokens|tool|turn|units"
)
"""What a message without anything put in can be about, where there is one such thing in the call."""

NOT_PLAIN = re.compile(
    r"\b(?:invalid|illegal|not allowed|forbidden|unsupported|please|cannot|unable to|abort|oops|sorry"
    r"|malformed|ill-formed|e\.g\.|i\.e\.|etc|utilize|in order to|successfully)\b|!(?!=)|\s$|^\s",
    re.IGNORECASE,
)
"""Words that say nothing, or that say it in a way that nobody would."""

EXCEPTIONS = {
    "{'; '.join(broken[:3])}; and {len(broken) - 3} more": "lists errors of states, each of which says what to do",
    "a chart can't be drawn: {line[:_SHOWN]}": "the drawing library's own words, with no file to name",
    "{arm.name} can't be fitted in the split of seed {seed}: {error}": "goes on from one that says what to do",
    "{error}{_beyond(len(benign), alpha, confidence, fitted)}": "goes on from one that says what to do",
    "No prompt-only turn exists to add response to": "callers of the conversation API match this text",
    "Content cannot be None": "callers of the pipeline match this text",
}
"""Messages that are right as they are, at most ten, each with the reason."""


@dataclass(frozen=True)
class Message:
    """One form of a message: fixed text, and {expressions} for what is put in while it runs."""

    place: str
    text: str
    names: frozenset[str]
    """Arguments of the function and fields of the class that raise it."""

    @property
    def put_in(self) -> list[str]:
        return re.findall(r"\{([^{}]*)\}", self.text)

    @property
    def fixed(self) -> str:
        return re.sub(r"\{[^{}]*\}", "{}", self.text)


def parse_all() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def texts_by_name(trees: dict[Path, ast.Module]) -> dict[Path, dict[str, str]]:
    """The texts that names at the top of each file stand for, those that it imports from others among them."""
    own: dict[Path, dict[str, str]] = {}
    for path, tree in trees.items():
        found = own[path] = {}
        for node in tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                forms = list(itertools.islice(forms_of(node.value, found), 2))
                if len(forms) == 1 and not forms[0].startswith("{"):
                    found[target.id] = forms[0]
    modules = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in trees}
    known = {path: dict(texts) for path, texts in own.items()}
    for path, tree in trees.items():
        for found_in in ast.walk(tree):
            if isinstance(found_in, ast.ImportFrom) and found_in.module in modules:
                there = own[modules[found_in.module]]
                names = {one.asname or one.name: one.name for one in found_in.names}
                known[path] |= {short: there[name] for short, name in names.items() if name in there}
    return known


def forms_of(node: ast.expr, known: dict[str, str]) -> Iterator[str]:
    """The texts that an expression can be, with {expressions} for what isn't known before it runs."""
    match node:
        case ast.Constant(value=str(text)):
            yield text.replace("{", "(").replace("}", ")")
        case ast.JoinedStr(values=values):
            yield from (
                "".join(parts) for parts in itertools.product(*(list(forms_of(one, known)) for one in values))
            )
        case ast.FormattedValue(value=value):
            yield from forms_of(value, known)
        case ast.IfExp(body=body, orelse=orelse):
            yield from forms_of(body, known)
            yield from forms_of(orelse, known)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (a + b for a in forms_of(left, known) for b in forms_of(right, known))
        case ast.Name(id=name) if name in known:
            yield known[name]
        case _:
            yield "{" + re.sub(r"[{}]", "", ast.unparse(node)) + "}"


class Finder(ast.NodeVisitor):
    """Collects messages, with the names that are in reach where each is made."""

    def __init__(self, path: Path, known: dict[str, str]) -> None:
        self.path, self.known = path, known
        self.names: list[set[str]] = []
        self.found: list[Message] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        fields = {
            one.target.id
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        self.within(node, fields)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.within(node, {one.arg for one in every} - {"self", "cls"})

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def within(self, node: ast.AST, names: set[str]) -> None:
        self.names.append(names)
        self.generic_visit(node)
        self.names.pop()

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called in CLASSES and node.args:
            names = frozenset(itertools.chain.from_iterable(self.names))
            place = f"{self.path.relative_to(PACKAGE)}:{node.lineno}"
            forms = itertools.islice(forms_of(node.args[0], self.known), MOST_FORMS)
            self.found += [Message(place, text, names) for text in forms]
        self.generic_visit(node)


@functools.cache
def messages() -> list[Message]:
    """Every form of every message; one that is passed through whole, such as str(error), is none."""
    trees = parse_all()
    known = texts_by_name(trees)
    found = []
    for path, tree in trees.items():
        finder = Finder(path, known[path])
        finder.visit(tree)
        found += finder.found
    return [one for one in found if not re.fullmatch(r"\{[^{}]*\}", one.text)]


def says_what_and_where(message: Message) -> bool:
    words = set(re.findall(r"\w+", message.fixed))
    of_names = {
        part
        for name in message.names
        for part in (name, *name.strip("_").split("_"), f"{name}s", name.rstrip("s"))
    }
    return bool(message.put_in or BY_NAME.search(message.text) or words & {*THINGS.split("|"), *of_names})


def says_what_to_do(message: Message) -> bool:
    if WANTED.search(message.fixed):
        return True
    if any(ADVICE.search(one) for one in message.put_in):
        return True
    reasons = [one for one in message.put_in if REASON.search(one)]
    return bool(reasons) and any(PLACE.search(one) for one in message.put_in if one not in reasons)


def is_well_formed(message: Message) -> bool:
    fixed = message.fixed.replace("{}", "")
    first = message.text[:1]
    return (
        len(fixed) <= MOST_FIXED
        and not message.text.endswith(".")
        and not NOT_PLAIN.search(message.text.replace("\n", " x"))
        and (not first.isupper() or message.text[:2].isupper() or not message.text[1:2].isalpha())
    )


RULES = {
    "what and where": says_what_and_where,
    "what to do": says_what_to_do,
    "form": is_well_formed,
}


@pytest.mark.parametrize("rule", RULES)
def test_messages(rule: str) -> None:
    wrong = [one for one in messages() if not RULES[rule](one) and one.text not in EXCEPTIONS]
    assert not wrong, "\n".join([f"{len(wrong)} messages:", *(f"{one.place}: {one.text}" for one in wrong)])


def test_messages_are_found() -> None:
    """The reader of the source sees a message that is known by heart, with the constant in it."""
    texts = {one.text for one in messages()}
    assert "the store is closed; open it again" in texts
    assert "{path} was changed or cut off after the export; make the export anew, or restore a copy of it" in texts
    assert len(texts) > 1_000


def test_exceptions() -> None:
    assert len(EXCEPTIONS) <= 10
    fails = {one.text for one in messages() if not all(holds(one) for holds in RULES.values())}
    assert fails == EXCEPTIONS.keys()


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("what and where", "not allowed"),
        ("what and where", "this is wrong, so use another"),
        ("what to do", "{path} is wrong"),
        ("what to do", "{path} has no label"),
        ("what to do", "the label of {path} is not known"),
        ("what to do", "it can't be done: {error}"),
        ("form", "{path} is not there; name another."),
        ("form", "{path} is not there! name another"),
        ("form", "{path} is not there; please name another"),
        ("form", "{path} is invalid; name another"),
        ("form", "The path {path} is not there; name another"),
        ("form", "{path} is not there; name another" + " one" * 100),
    ],
)
def test_rules_refuse(rule: str, text: str) -> None:
    assert not RULES[rule](Message("a.py:1", text, frozenset()))


@pytest.mark.parametrize(
    "text",
    [
        "{path} is not there; name another",
        "can't read {path}: {error.strerror}",
        "--folds must be 0, or at least {LEAST}",
    ],
)
def test_rules_let_pass(text: str) -> None:
    assert all(holds(Message("a.py:1", text, frozenset())) for holds in RULES.values())
