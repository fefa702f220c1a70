"""What a shell script runs: through wrappers, scripts within scripts, pipes and encodings, in linear time."""

from __future__ import annotations

import posixpath
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Final

from turnwise.guard.guardrails.shell_words import INNER, Command, Reader, action_table, listed
from turnwise.linear_regex import LinearRegex

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


def is_download(command: Command, tainted: set[str]) -> bool:
    """Whether a command prints what it fetched."""
    fetched = f"{' '.join(command.words)} {' '.join(command.inner)}"
    return (
        command.name in listed("downloaders")
        or _DOTNET.search(fetched) is not None
        or _names_any(command, tainted)
    )


def _names_any(command: Command, tainted: set[str]) -> bool:
    return bool(tainted) and any(word.lstrip("$").strip("{}") in tainted for word in command.words if "$" in word)


@dataclass(slots=True)
class Script:
    """What a script runs: commands, each without its wrappers, and what of it was fetched or decoded first."""

    commands: list[Command] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def read(self, text: str, depth: int = 0) -> Script:
        """Add the commands of a script, and of scripts within it."""
        if depth > _DEEP:
            return self
        files: set[str] = set()
        tainted: set[str] = set()
        for pipeline in Reader(text).pipelines():
            source: Command | None = None
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

    def _piped(self, source: Command, name: str, depth: int, *, decoded: bool) -> None:
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

    def _run(self, command: Command, depth: int) -> bool:
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
        command = _unwrap(Command(list(words)))
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
            self.commands.append(Command(["rm", "-rf", target[1]]))


def _fetches(script: str) -> bool:
    """Whether a script within a word prints what it fetched."""
    if _DOTNET.search(script) is not None:
        return True
    return any(
        command.words and is_download(command, set())
        for pipeline in Reader(script).pipelines()
        for command in map(_unwrap, pipeline)
    )


def _assign(command: Command, tainted: set[str], *, within: bool) -> None:
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


def _saved(command: Command) -> Iterator[str]:
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


def _argument(command: Command) -> str | None:
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


def _unwrap(command: Command) -> Command:
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


def place_of(path: str) -> str:
    """What lies at a path: ``system``, ``home``, ``kept`` (much that is the user's), or nothing.

    >>> [place_of(path) for path in ("/usr/../*", "~/", "./build", "..")]
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
