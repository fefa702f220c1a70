"""A shell script as pipelines of simple commands, without quotes; each character is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, ClassVar, Final

from turnwise.linear_regex import LinearRegex

INNER: Final = "\ue000"  # stands in a word for what a command within it prints
_WINDOWS = LinearRegex(r"^(?:[A-Za-z]:|%|[$]env:)|/$")


@cache
def action_table() -> Mapping[str, Any]:
    """What ``actions.yaml`` holds."""
    import yaml

    text = resources.files("turnwise.guard.guardrails").joinpath("actions.yaml").read_text(encoding="utf-8")
    table: Mapping[str, Any] = yaml.safe_load(text)
    return table


@cache
def listed(name: str) -> frozenset[str]:
    """The words of a list of ``actions.yaml``."""
    return frozenset(action_table()["words"][name].split())


@dataclass(slots=True)
class Command:
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


class Reader:
    """Reads the pipelines of a script.

    >>> [[command.words for command in one] for one in Reader("a 'b c' | d; e").pipelines()]
    [[['a', 'b c'], ['d']], [['e']]]
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ready: list[list[Command]] = []
        self._pipeline: list[Command] = []
        self._command = Command()
        self._word: list[str] | None = None
        self._redirect = ""
        self._heredocs: list[tuple[Command, str]] = []

    def pipelines(self) -> Iterator[list[Command]]:
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
            self._command = Command()

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

    _handlers: ClassVar[Mapping[str, Callable[[Reader], None]]] = {
        **dict.fromkeys(" \t\r", _end_word),
        **dict.fromkeys(";&\n|)", _separator),
        **dict.fromkeys("<>", _angle),
        "(": _parenthesis,
    }
