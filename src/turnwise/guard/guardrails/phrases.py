"""Weighted phrases from a YAML file, all looked for in one pass.

A file holds lists of words, and phrases made with them::

    words:
      drop: [ignore, disregard]
    phrases:
      - name: override of instructions      # told in reasons
        weight: 0.95                        # how sure it makes us, above 0 and at most 1
        patterns:                           # RE2 syntax; case does not matter; {drop} is any of those words
          - '\\b{drop}\\s+(all\\s+)?previous\\s+instructions'

Source of the syntax: https://github.com/google/re2/wiki/Syntax. RE2 takes time linear in the length of the text,
whatever the text.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from turnwise.errors import GuardError

_MEMORY = 64 << 20
"""Bytes that the automaton may take at most. RE2 calls a text clean when it has too few, hence plenty of them."""

INJECTION_FILE = "injection_phrases.yaml"
TOXICITY_FILE = "toxic_language.yaml"

_SHORTEST = 4
"""Letters of a word that leetspeak may stand for, at least."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """One phrase in its spellings.

    Args:
        name: what it is, as reasons tell it.
        weight: how sure it makes us, above 0 and at most 1.
        patterns: its spellings, in RE2 syntax.
    """

    name: str
    weight: float
    patterns: tuple[str, ...]


class Phrases:
    """Finds which of many phrases are in a text.

    Args:
        phrases: the phrases.
        words: words that the phrases are made of, lower case; kept for whoever undoes evasions.

    Raises:
        GuardError: a pattern that RE2 can't read.

    >>> found = Phrases([Phrase("greeting", 0.5, (r"\\bhello\\b",))])
    >>> [phrase.name for phrase in found.find("Oh, HELLO!")]
    ['greeting']
    """

    def __init__(self, phrases: Sequence[Phrase], words: frozenset[str] = frozenset()) -> None:
        import re2

        self.words = words
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.max_mem = _MEMORY
        self._set = re2.Set.SearchSet(options)
        self._owners: list[Phrase] = []
        for phrase in phrases:
            for pattern in phrase.patterns:
                try:
                    self._set.Add(pattern)
                except re2.error as error:
                    raise GuardError(f"phrase {phrase.name!r}: {pattern!r} can't be read: {error}") from error
                self._owners.append(phrase)
        self._set.Compile()
        self._match = self._set._set.Match  # under the library's own method, as in `LinearRegex`

    def find(self, text: str) -> tuple[Phrase, ...]:
        """Return the phrases that are in a text, each once, the weightiest first."""
        # Lone surrogates, which no UTF-8 has, must not keep a text from being read.
        found = self._match(text.encode("utf-8", "replace"))
        if not found:
            return ()
        once = {self._owners[index].name: self._owners[index] for index in found}
        return tuple(sorted(once.values(), key=lambda phrase: (-phrase.weight, phrase.name)))


@cache
def load_phrases(file: str) -> Phrases:
    """Return the phrases of a file of this package; read once.

    Args:
        file: its name.
    """
    import yaml

    text = resources.files("turnwise.guard.guardrails").joinpath(file).read_text(encoding="utf-8")
    data: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    lists = {name: [str(word) for word in words] for name, words in data["words"].items()}
    for name in data.get("rot13", ()):
        lists[name] = [codecs.decode(word, "rot13") for word in lists[name]]
    choices = {f"{{{name}}}": f"(?:{'|'.join(words)})" for name, words in lists.items()}
    phrases = [
        Phrase(entry["name"], float(entry["weight"]), tuple(_filled(one, choices) for one in entry["patterns"]))
        for entry in data["phrases"]
    ]
    return Phrases(phrases, frozenset(_plain(word for words in lists.values() for word in words)))


@cache
def shipped_words() -> frozenset[str]:
    """Return the words of all phrases that ship: with them evasions are undone once for every guardrail."""
    return load_phrases(INJECTION_FILE).words | load_phrases(TOXICITY_FILE).words


def _plain(words: Iterable[str]) -> Iterator[str]:
    """Yield the words that leetspeak may stand for; of one with an optional last letter both forms."""
    for word in words:
        both = (word[:-2], word[:-1]) if word.endswith("?") else (word,)
        yield from (form for form in both if form.isalpha() and len(form) >= _SHORTEST)


def _filled(pattern: str, choices: Mapping[str, str]) -> str:
    """Return a pattern with the choices put in; a choice may hold others that were named before it."""
    for mark, choice in reversed(list(choices.items())):
        pattern = pattern.replace(mark, choice)
    return pattern
