"""What a shell script runs, in linear time: its commands without quotes, through wrappers, pipes and encodings."""

from __future__ import annotations

import posixpath
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Final

from turnwise.guard.recognisers.patterns import read_table
from turnwise.linear_regex import LinearRegex

INNER: Final = "\ue000"  # stands in a word for what a command within it prints
_WINDOWS = LinearRegex(r"^(?:[A-Za-z]:|%|[$]env:)|/$")


def action_table() -> Mapping[str, Any]:
    """What ``actions.yaml`` holds."""
    return read_table("actions.yaml", "turnwise.guard.guardrails")


@cache
def listed(name: str) -> frozenset[str]:
    """The words of a list of ``actions.yaml``."""
    return frozenset(action_table()["words"][name].split())


@dataclass(slots=True)
class ShellCommand:
    """A simple command: its words without quotes, what it writes to, its input, and commands within its words."""

    words: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    stdin: str | None = None
    reads_file: bool = False
    inner: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The program's name, in lower case, without its folder and the version of a language."""
        name = self.words[0].replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe")
        stem = name.rstrip("0123456789.")
        return stem if stem in listed("interpreters") else name

    def has(self, *options: str) -> bool:
        """Whether one of some options is set; a short one also among others, as in ``-rf``."""
        short = [one[1] for one in options if len(one) == 2 and one[0] == "-"]
        for word in self.words[1:]:
            if word.partition("=")[0] in options:
                return True
            together = word[:1] == "-" and word[1:].isalpha()
            if together and any(letter in word for letter in short):
                return True
        return False

    @property
    def operands(self) -> list[str]:
        """The words that are no options."""
        return [word for word in self.words[1:] if not word.startswith("-") or word == "-"]


class ShellReader:
    """Reads the pipelines of a script.

    >>> [[command.words for command in one] for one in ShellReader("a 'b c' | d; e").pipelines()]
    [[['a', 'b c'], ['d']], [['e']]]
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ready: list[list[ShellCommand]] = []
        self._pipeline: list[ShellCommand] = []
        self._command = ShellCommand()
        self._word: list[str] | None = None
        self._redirect = ""
        self._heredocs: list[tuple[ShellCommand, str]] = []

    def pipelines(self) -> Iterator[list[ShellCommand]]:
        """The commands that pipes join together."""
        while self._at < len(self._text):
            char = self._text[self._at]
            handler = self._handlers.get(char)
            if handler is not None:
                handler(self)
            elif char != "#" or self._word is not None:
                self._piece(char)
            else:
                self._at = self._next("\n", self._at)
                continue
            self._at += 1
            if self._ready:
                yield from self._ready
                self._ready.clear()
        self._end_command()
        if self._pipeline:
            yield self._pipeline

    def _following(self, count: int = 1) -> str:
        return self._text[self._at + 1 : self._at + 1 + count]

    def _next(self, char: str, at: int) -> int:
        found = self._text.find(char, at)
        return len(self._text) if found < 0 else found

    def _end_word(self) -> None:
        if self._word is None:
            return
        whole, command = "".join(self._word), self._command
        if not self._redirect:
            command.words.append(whole)
        elif self._redirect == "<<<":
            command.stdin = whole
        elif self._redirect == "<<":
            self._heredocs.append((command, whole))
        elif self._redirect[0] == ">":
            command.targets.append(whole)
        else:
            command.reads_file = True
        self._redirect, self._word = "", None

    def _end_command(self) -> None:
        self._end_word()
        command = self._command
        if command.words or command.targets or command.inner:
            self._pipeline.append(command)
            self._command = ShellCommand()

    def _separator(self) -> None:
        self._end_command()
        char = self._text[self._at]
        if char == "|" and self._following() != "|":
            self._at += self._following() == "&"
            return
        if self._pipeline:
            self._ready.append(self._pipeline)
            self._pipeline = []
        if char == "\n" and self._heredocs:
            for command, mark in self._heredocs:
                command.stdin = self._heredoc(mark)
            self._heredocs.clear()

    def _heredoc(self, mark: str) -> str:
        """The lines up to one that is only a mark."""
        lines: list[str] = []
        while self._at + 1 < len(self._text):
            end = self._next("\n", self._at + 1)
            line, self._at = self._text[self._at + 1 : end], end
            if line.strip() == mark:
                break
            lines.append(line)
        return "\n".join(lines)

    def _angle(self) -> None:
        """A redirection, or a command whose output stands for a file."""
        if self._word is not None and "".join(self._word).isdigit():
            self._word = None
        self._end_word()
        if self._following() == "(":
            self._at += 1
            self._word = [self._substitution()]
            return
        char = self._text[self._at]
        self._redirect = char
        while len(self._redirect) < 3 and self._following() == char:
            self._redirect += char
            self._at += 1
        if self._following() in ("&", "-", "|"):
            self._at += 1

    def _parenthesis(self) -> None:
        """A group of commands; behind a word a call of PowerShell, or a function."""
        if self._command.words or self._word is not None:
            self._word = [*(self._word or ()), self._substitution()]

    def _substitution(self) -> str:
        """Take the command within parentheses, the first of which is here."""
        start, depth = self._at + 1, 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\":
                self._at += 1
            elif char == "'":
                self._at = self._next("'", self._at + 1)
            elif char in "()":
                depth += 1 if char == "(" else -1
                if not depth:
                    break
            self._at += 1
        inner = self._text[start : self._at]
        if inner:
            self._command.inner.append(inner)
        return INNER if inner else ""

    def _piece(self, char: str) -> None:
        """Add what begins here to a word."""
        self._word = word = [] if self._word is None else self._word
        if char == "\\":
            self._backslash(word)
        elif char == "'":
            end = self._next("'", self._at + 1)
            word.append(self._text[self._at + 1 : end])
            self._at = end
        elif char == '"':
            self._quoted(word)
        elif char == "`":
            end = self._next("`", self._at + 1)
            self._command.inner.append(self._text[self._at + 1 : end])
            word.append(INNER)
            self._at = end
        elif char == "$" and self._following() == "(":
            self._at += 1
            word.append(self._substitution())
        elif char != "$" or self._following() not in ("'", '"'):
            word.append(char)

    def _backslash(self, word: list[str]) -> None:
        """An escape, or a folder of Windows."""
        if word and _WINDOWS.search("".join(word[:5]) + word[-1][-1:]) is not None:
            word.append("/")
            return
        self._at += 1
        if self._text[self._at : self._at + 1] != "\n":
            word.append(self._text[self._at : self._at + 1])

    def _quoted(self, word: list[str]) -> None:
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if char in "`$":
                self._piece(char)
            elif char != "\\":
                word.append(char)
            elif self._following() in ('"', "\\", "$", "`", "\n"):
                self._at += 1
                word.append(self._text[self._at])
            else:
                word.append("/" if word and word[-1] in (":", "/") else "\\")
            self._at += 1

    _handlers: ClassVar[Mapping[str, Callable[[ShellReader], None]]] = {
        **dict.fromkeys(" \t\r", _end_word),
        **dict.fromkeys(";&\n|)", _separator),
        **dict.fromkeys("<>", _angle),
        "(": _parenthesis,
    }


# What the commands do

_DEEP: Final = 6  # scripts within scripts that are followed
_ASSIGNED = LinearRegex(r"^[$]?[A-Za-z_]\w*\+?=")
_DOTNET = LinearRegex(r"(?i)downloadstring|downloaddata|net\.webclient|invoke-webrequest|invoke-restmethod")
_CALLED = LinearRegex(
    r"(?:os\.system|popen|subprocess\.\w+|exec(?:Sync|File|FileSync)?|spawn(?:Sync)?|shell_exec|system|passthru)"
    r"\s*\(\s*(?:[rfb]*(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|\[([^\[\]\n]*)\])"
)
_REMOVED = LinearRegex(r"(?:shutil\.rmtree|rmSync|rm_rf|remove_dir_all|rimraf)\s*\(?\s*[rf]?[\"']([^\"'\n]*)[\"']")
_POSITIONAL: Final = {"timeout": 1, "chroot": 1}


@cache
def _runners() -> frozenset[str]:
    return listed("shells") | listed("interpreters") | listed("evaluators")


@cache
def _wrappers() -> dict[str, str]:
    """Commands that run another one, with their short options that take a value."""
    table = dict(action_table()["wrappers"])
    return {**dict.fromkeys(table.pop("others").split(), ""), **table}


def is_download(command: ShellCommand, tainted: set[str]) -> bool:
    """Whether a command prints what it fetched."""
    fetched = f"{' '.join(command.words)} {' '.join(command.inner)}"
    return (
        command.name in listed("downloaders")
        or _DOTNET.search(fetched) is not None
        or _names_any(command, tainted)
    )


def _names_any(command: ShellCommand, tainted: set[str]) -> bool:
    return bool(tainted) and any(word.lstrip("$").strip("{}") in tainted for word in command.words if "$" in word)


@dataclass(slots=True)
class Script:
    """What a script runs: commands, each without its wrappers, and what of it was fetched or decoded first."""

    commands: list[ShellCommand] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def read(self, text: str, depth: int = 0) -> Script:
        """Add the commands of a script, and of scripts within it."""
        if depth > _DEEP:
            return self
        files: set[str] = set()
        tainted: set[str] = set()
        for pipeline in ShellReader(text).pipelines():
            source: ShellCommand | None = None
            fetched = decoded = False
            for command in pipeline:
                for inner in command.inner:
                    self.read(inner, depth + 1)
                within = any(map(_fetches, command.inner))
                _assign(command, tainted, within=within)
                if not _unwrap(command).words:
                    continue
                self.commands.append(command)
                name, words = command.name, command.words
                if words[0] in files or (name in _runners() and not files.isdisjoint(words[1:])):
                    self.runs.append("a file that was downloaded")
                if name in _runners() and (within or _names_any(command, tainted)):
                    self.runs.append("what was downloaded")
                reads_program = self._run(command, depth)
                if reads_program and fetched:
                    self.runs.append("what was downloaded")
                elif reads_program and source is not None:
                    self._piped(source, name, depth, decoded=decoded)
                if is_download(command, tainted):
                    fetched = True
                    files.update(_saved(command))
                decoded = decoded or name in listed("decoders")
                source = source or command
        return self

    def _piped(self, source: ShellCommand, name: str, depth: int, *, decoded: bool) -> None:
        """Follow what a shell or an interpreter reads from a pipe that does not begin with a download."""
        program: str | None = None
        if source.name in ("echo", "printf") and source.operands:
            program = _decoded(source.operands[-1]) if decoded else " ".join(source.operands)
        if program is not None and name in listed("interpreters"):
            self.read_code(program, depth)
        elif program is not None:
            self.read(program, depth + 1)
        elif decoded:
            self.runs.append("what was decoded")

    def _run(self, command: ShellCommand, depth: int) -> bool:
        """Follow the script that a command is given; returns whether it reads a program from its input."""
        name, words = command.name, command.words
        if name == "find":
            at = next((at for at, word in enumerate(words) if word in ("-exec", "-execdir", "-ok")), len(words))
            if command.operands:
                self.read_words([command.operands[0] if word == "{}" else word for word in words[at + 1 :]], depth)
            return False
        if name not in _runners():
            return False
        script = _argument(command)
        if script is not None and name in listed("interpreters"):
            self.read_code(script, depth)
        elif script is not None:
            self.read(script, depth + 1)
        elif command.stdin is not None:
            self.read(command.stdin, depth + 1)
        given = script is not None or command.stdin is not None or command.has("-m")
        return not given and (command.operands in ([], ["-"]) or command.has("-s"))

    def read_words(self, words: list[str], depth: int = 0) -> None:
        """Add a command that is given as a list of words."""
        command = _unwrap(ShellCommand(list(words)))
        if command.words and depth <= _DEEP:
            self.commands.append(command)
            self._run(command, depth + 1)

    def read_code(self, code: str, depth: int = 0) -> None:
        """Add the commands that code of a programming language runs by calls such as ``os.system``."""
        if depth > _DEEP:
            return
        for call in _CALLED.finditer(code):
            if call[1]:
                self.read(call[1][1:-1].replace('\\"', '"').replace("\\'", "'"), depth + 1)
            else:
                self.read_words([word.strip(" '\"\t") for word in call[2].split(",")], depth)
        for target in _REMOVED.finditer(code):
            self.commands.append(ShellCommand(["rm", "-rf", target[1]]))


def _fetches(script: str) -> bool:
    """Whether a script within a word prints what it fetched."""
    if _DOTNET.search(script) is not None:
        return True
    return any(
        command.words and is_download(command, set())
        for pipeline in ShellReader(script).pipelines()
        for command in map(_unwrap, pipeline)
    )


def _assign(command: ShellCommand, tainted: set[str], *, within: bool) -> None:
    """Drop assignments before a command, and note variables that hold what was fetched."""
    words, count = command.words, 0
    while count < len(words) and (match := _ASSIGNED.search(words[count], at_start=True)) is not None:
        if within:
            tainted.add(match[0].strip("$+="))
        count += 1
    del words[:count]
    if len(words) > 2 and words[0][:1] == "$" and words[1] == "=":
        name = words[0][1:]
        del words[:2]
        if within or is_download(command, tainted):
            tainted.add(name)


def _saved(command: ShellCommand) -> Iterator[str]:
    """Names of the files that a download writes, as they may be run."""
    names, wget = [*command.targets], command.name == "wget"
    for option, value in pairwise(command.words):
        short = option[:1] == "-" and option[1:2] != "-" and option[-1] == ("O" if wget else "o")
        if short or option.lower() in ("--output", "--output-document", "-outfile"):
            names.append(value)
    if wget or command.has("-O", "--remote-name"):
        names += [word.partition("?")[0].rpartition("/")[2] for word in command.operands if "/" in word]
    for name in names:
        bare = name.removeprefix("./")
        if bare not in ("", "-") and "://" not in bare:
            yield from (name, bare, f"./{bare}")


def _decoded(text: str, encoding: str = "utf-8") -> str | None:
    try:
        return b64decode(text, validate=True).decode(encoding)
    except ValueError:
        try:
            return bytes.fromhex(text).decode(encoding)
        except ValueError:
            return None


def _argument(command: ShellCommand) -> str | None:
    """The script that a shell or an interpreter is given as an argument; None where there is none."""
    name, words, script = command.name, command.words, None
    if name in listed("evaluators"):
        script = " ".join(words[1:]) if name not in ("source", ".") else ""
        return script if script.strip(f" {INNER}") else None
    for at, word in enumerate(words[1:], start=2):
        low, rest = word.lower(), words[at:]
        if name in ("cmd", "powershell", "pwsh") and low in ("/c", "/k", "-c", "-command"):
            script = " ".join(rest)
        elif name in ("powershell", "pwsh"):
            if len(low) > 1 and "-encodedcommand".startswith(low) and rest:
                script = _decoded(rest[0], "utf-16-le")
        elif name in listed("interpreters"):
            script = rest[0] if low in ("-c", "-e", "-r", "--eval") and rest else None
        elif low[:1] == "-" and low[1:2] != "-" and "c" in low and rest:
            script = rest[0]
        if script is not None or not word.startswith(("-", "/")):
            break
    if script is None and name in ("powershell", "pwsh") and (operands := command.operands):
        return None if operands[0].endswith(".ps1") else " ".join(operands)
    return script


def _unwrap(command: ShellCommand) -> ShellCommand:
    """Take away what only runs the rest: reserved words, ``sudo``, ``env A=b``, ``timeout 5`` and the like."""
    words, at = command.words, 0
    while at < len(words):
        name = words[at].rpartition("/")[2].lower()
        if words[at] in listed("reserved") or (at and _ASSIGNED.search(words[at], at_start=True) is not None):
            at += 1
        elif name in _wrappers() and at + 1 < len(words):
            valued, at = _wrappers()[name], at + 1
            while at < len(words) and words[at].startswith("-"):
                option, at = words[at], at + 1
                if len(option) == 2 and option[1] in valued:
                    at += 1
            at += _POSITIONAL.get(name, 0)
        elif name == "su" and "-c" in words[at:-1]:
            words[at:] = ["sh", "-c", words[words.index("-c", at) + 1]]
        else:
            break
    del words[:at]
    return command


# Places that a deletion must not reach


def what_lies_at(path: str) -> str:
    """What lies at a path: ``system``, ``home``, ``kept`` (much that is the user's), or nothing.

    >>> [what_lies_at(path) for path in ("/usr/../*", "~/", "./build", "..")]
    ['system', 'home', '', 'kept']
    """
    path = path.replace("\\", "/").strip()
    if not path:
        return ""
    for home in listed("home"):
        if path == home or path.startswith(f"{home}/"):
            below = posixpath.normpath(f"/{path[len(home) :]}").lower().removesuffix("/*").strip("/*")
            return "home" if not below else "kept" if below in listed("kept") else ""
    if path[0] == "~" and "/" not in path.rstrip("/*"):  # the home of somebody
        return "home"
    drive = path[1:2] == ":" and path[:1].isalpha()
    path = path[2:] or "/" if drive else path
    norm = posixpath.normpath(path).replace("//", "/")
    trimmed = norm.rstrip("*").rstrip("/") or "/" if norm.startswith("/") else norm
    parts = trimmed.split("/")
    if trimmed.lower() in listed("system"):
        return "system"
    if len(parts) == 3 and parts[1].lower() in ("home", "users"):
        return "home"
    ours = norm in ("*", ".*", ".git") or norm.endswith("/.git") or not norm.strip("./")
    return "kept" if ours else ""
