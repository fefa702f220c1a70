"""``actions``: calls of tools that nobody can take back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, ClassVar, Final, Literal

from turnwise._support.bounded import read_json
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding, On
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.names import as_text
from turnwise.guard.recognisers.shell import Script, ShellCommand, action_table, listed, what_lies_at
from turnwise.linear_regex import LinearRegex

Policy = Literal["allow", "ask", "deny"]

# kinds of actions, each a setting of `Actions`
KINDS: Final = ("destroy", "delete", "run", "upload", "send", "pay")

_DISK = LinearRegex(r"^/dev/(?:sd|hd|nvme|vd|xvd|mmcblk|disk|rdisk|mapper/|md\d)")
_LITERALS = LinearRegex(r"'(?:[^']|'')*'|--[^\n]*|/\*(?s:.*?)\*/")
_SQL = LinearRegex(
    r"(?i)^\s*(?:explain\s+analyze\s+)?(?:(drop)\s+(?:table|database|schema|user|role)\b|(truncate)\s+(?:table\s+)?\w"
    r"|(delete)\s+from\s+[^\s;]+\s*$)"
)
_BOMB = LinearRegex(r"(\w+|:)\s*\(\)\s*\{\s*(\w+|:)\s*\|\s*(\w+|:)\s*&\s*\}")
_LOCAL: Final = ("localhost", "127.", "[::1]", "0.0.0.0", "::1")


@dataclass(frozen=True)
class Actions(Guardrail):
    """Calls of tools that can't be taken back: deleting, paying, sending out, running what was downloaded.

    It reads arguments that are run (``command``, ``script``, ``sql`` and the like, and those of shells) as a
    shell does: through quotes, ``sudo``, ``sh -c``, pipes, encodings and PowerShell. What is only mentioned, in a
    message or a file, is not looked at. Tools for mail, payments and deletions of much are told by their names.

    It does not see through variables with other values than downloads, nor into programs that are called.

    Args:
        destroy: policy for deleting system folders, home folders and disks.
        delete: for deleting what has no copy: tables, git history, uncommitted work, infrastructure, ``rm -rf .``.
        run: for running what was downloaded, or decoded from what can't be read.
        upload: for sending files to another host.
        send: for mail, SMS and the like.
        pay: for payments.
        tools: policy by name of the tool, before all others; the first pattern that fits counts (``mail_*``). With
            ``allow`` its calls are not looked at.

    A policy is ``allow``, ``ask`` or ``deny``. Both others block; the result's ``asks`` says that the user's
    approval is all that is missing.

    Raises:
        GuardError: another policy.

    >>> from turnwise.guard.finding import TextKind
    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Actions(), '{"command": "cd /tmp && sudo rm -rf /*"}', TextKind.TOOL_CALL).reason
    'destroy: system folders'
    >>> finding_of(Actions(), '{"command": "rm -rf ./build"}', TextKind.TOOL_CALL).found
    False
    """

    cost: ClassVar[Cost] = Cost.TEXT
    default_on: ClassVar[On | tuple[On, ...]] = On.TOOL_CALL
    reads: ClassVar[On | tuple[On, ...]] = On.TOOL_CALL
    default_timeout: ClassVar[float | None] = None

    destroy: Policy = "deny"
    delete: Policy = "ask"
    run: Policy = "ask"
    upload: Policy = "ask"
    send: Policy = "ask"
    pay: Policy = "ask"
    tools: Mapping[str, Policy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, policy in [*((kind, getattr(self, kind)) for kind in KINDS), *self.tools.items()]:
            if policy not in ("allow", "ask", "deny"):
                raise GuardError(f"{name} is {policy!r}; use allow, ask or deny")

    def check(self, check: Check) -> Finding:
        if check.tool is None or check.tool.arguments is None:
            return CLEAN
        name = check.tool.name
        own = next((self.tools[glob] for glob in self.tools if fnmatchcase(name, glob)), None)
        if own == "allow":
            return CLEAN
        found = {} if own is None else {("tool", name if len(name) <= 64 else "its name"): own}
        for kind, what in dict.fromkeys(_actions(name, check.tool.arguments.raw)):
            if (policy := getattr(self, kind)) != "allow":
                found[kind, what] = policy
        if not found:
            return CLEAN
        asks = "deny" not in found.values()
        told = [f"{kind}: {what}" for (kind, what), policy in found.items() if asks or policy == "deny"]
        return Finding(
            found=True,
            reason=("needs the user's approval: " if asks else "") + "; ".join(told[:5]),
            confidence=0.9,
            data={"asks": asks, "actions": [{"kind": kind, "what": what} for kind, what in found]},
        )


def _actions(name: str, raw: str) -> Iterator[tuple[str, str]]:
    """Kind and description of what a call does that can't be taken back."""
    words = [word.lower() for word in as_text(name.rpartition("__")[2]).rpartition("\n")[2].split()]
    if words and words[0] not in listed("read"):
        for kind, verbs, objects in _tools():
            if not verbs.isdisjoint(words) and not (objects and objects.isdisjoint(words)):
                yield kind, f"the tool {' '.join(words)[:40]}"
                break
    script = Script()
    for text in _scripts(words, raw, script):
        if _BOMB.search(text) is not None:
            yield "destroy", "a fork bomb"
        script.read(text)
    for what in script.runs:
        yield "run", what
    for command in script.commands:
        yield from _of_command(command)
    for text in _statements(words, raw, script.commands):
        yield from _of_sql(text)


def _scripts(words: list[str], raw: str, script: Script) -> Iterator[str]:
    """Arguments of a call that a shell runs; lists of words and code go to the script at once."""
    shell = not listed("script_tools").isdisjoint(words)
    code = not listed("code_tools").isdisjoint(words)
    for key, value, beside in _leaves(raw):
        if isinstance(value, list):
            if (key in listed("script_keys") or shell) and all(isinstance(one, str) for one in value) and value:
                script.read_words(value)
        elif key in listed("script_keys") or shell or not key:
            if isinstance(args := beside.get("args"), list) and key in listed("script_keys"):
                script.read_words([value, *(one for one in args if isinstance(one, str))])
            elif key or shell:
                yield value
            if code or key in ("code", "source", "input"):
                script.read_code(value)


def _leaves(raw: str) -> Iterator[tuple[str, str | list[Any], Mapping[str, Any]]]:
    """Texts and lists in arguments, each with its key and the object that has it; not JSON is one text."""
    try:
        waiting: list[tuple[str, Any, Mapping[str, Any]]] = [("", read_json(raw), {})]
    except ValueError:
        yield "", raw, {}
        return
    while waiting:
        key, value, beside = waiting.pop()
        if isinstance(value, str):
            yield key, value, beside
        elif isinstance(value, dict):
            waiting += [(str(below).lower(), one, value) for below, one in value.items()]
        elif isinstance(value, list):
            yield key, value, beside
            waiting += [(key, one, {}) for one in value if not isinstance(one, str) or len(value) == 1]
            if key in ("commands", "statements"):
                waiting += [(key, one, {}) for one in value if isinstance(one, str)]


def _of_command(command: ShellCommand) -> Iterator[tuple[str, str]]:
    name, words = command.name, command.words
    removes = name in listed("removers")
    recursive = command.has("-r", "-R", "--recursive", "-Recurse", "-recurse", "/s", "/S") or name == "shred"
    sweeps = name == "find" and ("-delete" in words or "rm" in words)
    if (removes and recursive) or sweeps or (name in ("chmod", "chown", "chgrp") and recursive):
        operands = command.operands[:1] if sweeps else command.operands
        places = {what_lies_at(word) for word in operands if len(word) != 2 or not word[1].isalpha()}
        if "--no-preserve-root" in words or "system" in places:
            yield "destroy", "system folders"
        if "home" in places:
            yield "destroy", "a home folder"
        if "kept" in places and removes:
            yield "delete", "a folder with all that is in it"
    elif name == "mv" and words[-1] == "/dev/null" and {"system", "home"} & {*map(what_lies_at, words[1:])}:
        yield "destroy", "system folders"
    disks = [word.removeprefix("of=") for word in words if name == "dd" and word.startswith("of=")]
    if any(_DISK.search(target) for target in (*disks, *command.targets, *(words[1:] if removes else ()))):
        yield "destroy", "a disk"
    if name == "format" and any(word[1:2] == ":" for word in words[1:]):
        yield "destroy", "formats a disk"
    if name == "git" and "push" in words and any(word[:1] in "+:" for word in command.operands[1:]):
        yield "delete", "git history"
    for kind, what, groups in _commands().get(name.partition(".")[0], ()):
        if _in_order(groups, command):
            yield kind, what
    if _uploads(command):
        yield "upload", "a file to another host"
    if name == "curl" and any(word.startswith(("smtp://", "smtps://")) for word in words):
        yield "send", "mail"


def _in_order(groups: Iterable[str], command: ShellCommand) -> bool:
    """Whether a command has one word of each group, in that order; options anywhere."""
    at, words = 1, [word if word[:1] == "-" else word.lower() for word in command.words]
    for group in groups:
        names = group.split("|")
        options = [one for one in names if one[0] == "-"]
        if options and command.has(*options):
            continue
        found = next((place for place in range(at, len(words)) if words[place] in names), None)
        if found is None:
            return False
        at = found + 1
    return True


def _uploads(command: ShellCommand) -> bool:
    name, words = command.name, command.words
    hosts = [word.partition("://")[2] or word for word in command.operands]
    if any(host.startswith(_LOCAL) for host in hosts):
        return False
    if name == "curl":
        return command.has("-T", "--upload-file") or any(map(_curl_sends, words[1:], [*words[2:], ""]))
    return (
        (name == "wget" and any(word.startswith(("--post-file", "--body-file")) for word in words))
        or (name in ("http", "https", "xh") and any("@" in word and "://" not in word for word in words[1:]))
        or (name in ("irm", "iwr", "invoke-restmethod", "invoke-webrequest") and command.has("-InFile", "-infile"))
        or (name in ("nc", "ncat", "netcat") and command.reads_file)
    )


def _curl_sends(option: str, value: str) -> bool:
    form = option.startswith(("-F", "--form"))
    if not form and not option.startswith(("-d", "--data", "--json")):
        return False
    _, equals, given = option.partition("=")
    if not option.startswith("--"):
        given = option[2:] or value
    elif not equals:
        given = value
    return given.startswith("@") or (form and ("=@" in given or "=<" in given))


@cache
def _commands() -> dict[str, list[tuple[str, str, list[str]]]]:
    """By name of a command: kind, what is told, and groups of words of which it has one each."""
    found: dict[str, list[tuple[str, str, list[str]]]] = {}
    for kind, what, names, *groups in action_table()["commands"]:
        for name in names.split("|"):
            found.setdefault(name, []).append((kind, what, groups))
    return found


@cache
def _tools() -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """Kind, verbs, and other words in the names of tools."""
    return [
        (kind, frozenset(verbs.split()), frozenset(more.split())) for kind, verbs, more in action_table()["tools"]
    ]


def _statements(words: list[str], raw: str, commands: Iterable[ShellCommand]) -> Iterator[str]:
    """Arguments that a database runs."""
    known = not listed("sql_tools").isdisjoint(words)
    for key, value, _ in _leaves(raw):
        if isinstance(value, str) and (key in listed("sql_keys") or known):
            yield value
    for command in commands:
        if command.name in listed("sql_clients"):
            yield from command.words[1:]
            yield command.stdin or ""


def _of_sql(text: str) -> Iterator[tuple[str, str]]:
    for statement in _LITERALS.sub(lambda _: " ", text).split(";"):
        match = _SQL.search(statement)
        if match is not None:
            yield "delete", "a table or database" if match[1] else "all rows of a table"
