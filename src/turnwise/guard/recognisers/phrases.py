"""Weighted phrases from YAML files, all looked for in one pass.

A file holds lists of words, and phrases made with them::

    words:
      drop: [ignore, disregard]
    phrases:
      - name: override of instructions      # told in reasons
        type: override                      # what kind of thing it is; may be left out
        weight: 0.95                        # how sure it makes us, above 0 and at most 1
        patterns:                           # RE2 syntax; case does not matter; {drop} is any of those words
          - '\\b{drop}\\s+(all\\s+)?previous\\s+instructions'
    scripts: []                             # the same, for texts that have characters outside ASCII
    languages: {it: {drop: 'ignora|scorda'}} # words by language, and phrases and mentions made of each one's words
    templates: {phrases: [], mentions: []}
    signs: {demand: ['\\bunless\\b']}         # what says nothing by itself
    together:                               # what signs say that are near each other; see `Mix`
      - {name: a threat, type: threats, weight: 0.9, signs: [demand menace -friendly]}
    mentions: []                            # words behind which a phrase is only spoken of
    quotes: true                            # whether what is quoted is only spoken of
    drafts: ''                              # what asks for a message, whose quotations and reports count
    masked: true                            # whether signs may stand for letters of the words of the file

Source of the syntax: https://github.com/google/re2/wiki/Syntax. RE2 takes time linear in the length of the text,
whatever the text.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Any

from turnwise._support.regex_sets import RegexSet, uncounted
from turnwise.errors import GuardError
from turnwise.guard.recognisers.patterns import filled, marked, read_table
from turnwise.linear_regex import LinearRegex

# Bytes that an automaton may take at most. RE2 calls a text clean when it has too few, hence plenty of them.
_MEMORY = 128 << 20

# Patterns that one automaton looks for. Its states are as many as mixes of half-read patterns: a few small ones
# take a third of the time of a large one on text that keeps them busy.
_AT_ONCE = 64

# the phrase of each pattern, with the whole pattern where a looser one is looked for; and what looks for all
_Set = tuple[Sequence[tuple["Phrase", LinearRegex | None]], Callable[[bytes], Sequence[int]]]

_SIGN = "a sign"  # name of what makes a text worth looking through for signs
_SHORTEST = 3  # letters of a word that digits and signs may stand for letters of, at least


@dataclass(frozen=True, slots=True)
class Phrase:
    """One phrase in its spellings (RE2); `weight` tells how sure it makes us, above 0 and at most 1."""

    name: str
    weight: float
    patterns: tuple[str, ...]
    type: str = ""


class Phrases:
    """Finds which of many phrases are in a text; `scripts` are looked for in texts outside ASCII alone.

    `words` are those that the phrases are made of, in lower case; `together` are phrases that signs come to.

    >>> found = Phrases([Phrase("greeting", 0.5, (r"\\bhello\\b",))])
    >>> [phrase.name for phrase in found.find("Oh, HELLO!")]
    ['greeting']
    """

    def __init__(
        self,
        phrases: Sequence[Phrase],
        words: frozenset[str] = frozenset(),
        *,
        scripts: Sequence[Phrase] = (),
        mentions: Mentions | None = None,
        signs: Signs | None = None,
        together: Sequence[Phrase] = (),
    ) -> None:
        self.words = words
        self._mentions = mentions
        self._signs = signs
        self._together = {phrase.name: phrase for phrase in together}
        first = () if signs is None else (Phrase(_SIGN, 1.0, signs.first),)
        self._sets = _compiled([*phrases, *first])
        # In scripts that need no spaces a part without a limit is nearly always open, and takes more states.
        self._script_sets = _compiled(scripts, str)

    def find(self, text: str) -> tuple[Phrase, ...]:
        """The phrases that are in a text, each once, the weightiest first."""
        # Lone surrogates, which no UTF-8 has, must not keep a text from being read.
        data = text.encode("utf-8", "replace")
        owners = []
        for known, match in self._sets if text.isascii() else (*self._sets, *self._script_sets):
            for index in match(data):
                phrase, exact = known[index]
                if exact is None or any(exact.places(data)):
                    owners.append(phrase)
        if not owners:
            return ()
        if self._signs is not None and any(phrase.name == _SIGN for phrase in owners):
            owners = [phrase for phrase in owners if phrase.name != _SIGN]
            owners += [self._together[name] for name in self._signs.found(text)]
        once: dict[str, Phrase] = {}
        for phrase in owners:
            if phrase.name not in once or phrase.weight > once[phrase.name].weight:
                once[phrase.name] = phrase
        return tuple(sorted(once.values(), key=lambda phrase: (-phrase.weight, phrase.name)))

    def said(self, text: str, known: Container[str] = ()) -> tuple[Phrase, ...]:
        """The phrases that are in a text and not only spoken of; those named in `known` need not be told."""
        if text.isascii():
            data = text.encode()
            for _, match in self._sets:
                if match(data):
                    break
            else:
                return ()
        found = self.find(text)
        if self._mentions is None or all(phrase.name in known for phrase in found):
            return found
        bare = self.without_mentions(text)
        if bare == text:
            return found
        names = {phrase.name for phrase in found}
        return tuple(phrase for phrase in self.find(bare) if phrase.name in names)

    def without_mentions(self, text: str) -> str:
        return text if self._mentions is None else self._mentions.without(text)


def _compiled(phrases: Sequence[Phrase], loosen: Callable[[str], str] = uncounted) -> tuple[_Set, ...]:
    """Sets of all patterns of some phrases, looked for in the form that a function gives them."""
    patterns = [(phrase, pattern) for phrase in phrases for pattern in phrase.patterns]
    return tuple(
        _set_of(patterns[start : start + _AT_ONCE], loosen) for start in range(0, len(patterns), _AT_ONCE)
    )


def _set_of(patterns: Sequence[tuple[Phrase, str]], loosen: Callable[[str], str]) -> _Set:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MEMORY
    several = re2.Set.SearchSet(options)
    known: list[tuple[Phrase, LinearRegex | None]] = []
    for phrase, pattern in patterns:
        try:
            loose = loosen(pattern)
            several.Add(loose)
            known.append((phrase, None if loose == pattern else LinearRegex(f"(?i){pattern}")))
        except re2.error as error:
            raise GuardError(f"phrase {phrase.name!r}: {pattern!r} can't be read ({error}); use RE2") from error
    several.Compile()
    # What gives them is under the library's own method, as in `LinearRegex`.
    return known, several._set.Match


# Signs that say something together: none of them counts by itself

_WINDOW = 320  # characters within which signs belong together
_STEP = 160


@dataclass(frozen=True, slots=True)
class Mix:
    """Signs that have to be near each other, of which `first` is the rarest, and signs that must not be."""

    first: str
    wanted: frozenset[str]
    unless: frozenset[str] = frozenset()

    @classmethod
    def read(cls, line: str) -> Mix:
        """Read a line: names of signs, the rarest first, with a minus those that must not be there.

        >>> sorted(Mix.read("knows menace -friendly").wanted)
        ['knows', 'menace']
        """
        names = line.split()
        unless = frozenset(name[1:] for name in names if name.startswith("-"))
        wanted = [name for name in names if not name.startswith("-")]
        return cls(wanted[0], frozenset(wanted), unless)

    def holds(self, seen: frozenset[str]) -> bool:
        return self.wanted <= seen and self.unless.isdisjoint(seen)


@dataclass(frozen=True)
class Signs:
    """Says what mixes of signs (RE2, case ignored) in a text come to, in time linear in its length."""

    patterns: Mapping[str, Sequence[str]]
    mixes: Mapping[str, Sequence[Mix]]

    @property
    def first(self) -> tuple[str, ...]:
        """Patterns of which a text has one where it has any mix; without counts, so that they cost little."""
        names = dict.fromkeys(mix.first for mixes in self.mixes.values() for mix in mixes)
        return tuple(uncounted(pattern) for name in names for pattern in self.patterns[name])

    @cached_property
    def _set(self) -> RegexSet:
        return RegexSet(self.patterns, ignore_case=True)

    def found(self, text: str) -> set[str]:
        found: set[str] = set()
        for window in windows(text):
            seen = self._set.present(window)
            found.update(name for name, mixes in self.mixes.items() if any(mix.holds(seen) for mix in mixes))
        return found


def windows(text: str) -> Iterator[str]:
    """Overlapping pieces of a text that begin at words; a short text is one.

    >>> [len(window) for window in windows("one two three four " * 20)]
    [320, 214]
    """
    start = 0
    while True:
        end = start + _WINDOW
        yield text[start:end]
        if end >= len(text):
            return
        space = text.find(" ", start + _STEP, end)
        start = space + 1 if space >= 0 else start + _STEP


# What a text only speaks of: quotations, and what stands behind words that forbid, explain or report

_QUOTATION = LinearRegex(
    r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|«[^»\n]{1,400}»|„[^“”\n]{1,400}[“”]|「[^」\n]{1,400}」|『[^』\n]{1,400}』"
    r"|`[^`\n]{1,400}`|(?:^|[\s(\[:,—-])('(?:[^'\n]|\b'\b){2,400}')(?:[^\w']|$)"
)
_SENTENCE_END = LinearRegex(r"[.!?][\"')\]]*(?:\s|$)|\n|[。！？।۔؟]")
_WORDS = LinearRegex(r"\pL+")

_JUDGED = 300  # quotations of a text that are looked at; any more are taken for the text's own words
_FEWEST = 2  # words that stand outside of all quotations at least, where any of them is one
_GAP = " _ "  # what stands for what was taken out: a word that belongs to no phrase


@dataclass(frozen=True)
class Heads:
    """Words (RE2) behind which a text only speaks of something, up to `reach` characters or the sentence's end."""

    patterns: tuple[str, ...]
    reach: int
    reported: bool = False  # what somebody said, which a message that is being drafted does not report

    @cached_property
    def _regex(self) -> LinearRegex:
        return LinearRegex("(?i)" + "|".join(f"(?:{pattern})" for pattern in self.patterns))

    def stretches(self, text: str) -> Iterator[tuple[int, int]]:
        spans = [spans[0] for spans in self._regex.spans(text)]
        if not spans:
            return
        if not self.reach:
            yield from spans
            return
        stops = [stop[0][0] for stop in _SENTENCE_END.spans(text)]
        for start, end in spans:
            index = bisect_left(stops, end)
            yield start, min(stops[index] if index < len(stops) else len(text), end + self.reach)


@dataclass(frozen=True)
class Mentions:
    """Takes out of a text what it only speaks of, in time linear in its length.

    With `quotes` that is what stands in quotation marks, where words stand outside of them too. `drafts` tells
    what asks for a message or hands one over: in such a text quotations and reports are its own words.

    >>> mentions = Mentions((Heads((r"\\bnever say\\b",), 80),), quotes=True)
    >>> mentions.without("Never say shut up. Be kind."), mentions.without('He said "shut up" to me.')
    (' _ . Be kind.', 'He said  _  to me.')
    """

    heads: tuple[Heads, ...] = ()
    quotes: bool = False
    drafts: str = ""

    @cached_property
    def _drafts(self) -> LinearRegex | None:
        return LinearRegex(self.drafts) if self.drafts else None

    def without(self, text: str) -> str:
        drafted = self._drafts is not None and self._drafts.search(text) is not None
        if self.quotes and not drafted:
            text = _cut(text, _quotations(text))
        heads = [heads for heads in self.heads if not (drafted and heads.reported)]
        return _cut(text, sorted(stretch for each in heads for stretch in each.stretches(text)))


def _quotations(text: str) -> list[tuple[int, int]]:
    spans = islice(_QUOTATION.spans(text, overlapping=True), _JUDGED)
    quoted = [single if single[1] > 0 else whole for whole, single in spans]
    if not quoted:
        return quoted
    outside = _WORDS.spans(_cut(text, quoted).replace("_", ""))
    return quoted if all(next(outside, None) for _ in range(_FEWEST)) else []


def _cut(text: str, stretches: Sequence[tuple[int, int]]) -> str:
    """A text with a gap in place of each stretch; they are in order and may overlap."""
    parts: list[str] = []
    at = 0
    for start, end in stretches:
        if start >= at:
            parts += (text[at:start], _GAP)
        at = max(at, end)
    return "".join((*parts, text[at:])) if parts else text


# Files

INJECTION_FILES = ("injection_phrases.yaml",)
LANGUAGE_FILES = ("injection_languages.yaml",)
SOURCE_FILES = ("source_orders.yaml",)
TOXICITY_FILES = (
    "slurs.yaml",
    "toxic_language.yaml",
    "threat_language.yaml",
    "threat_signs.yaml",
    "toxic_languages.yaml",
    "more_languages.yaml",
    "insult_forms.yaml",
)
PHRASE_FILES = (*INJECTION_FILES, *LANGUAGE_FILES, *SOURCE_FILES, *TOXICITY_FILES)  # all that ship


@cache
def load_phrases(files: tuple[str, ...], types: frozenset[str] | None = None) -> Phrases:
    """The phrases, of some `types`, of files of this package, made with words of the files before; read once."""
    lists: dict[str, list[str]] = {}
    known: list[str] = []
    phrases: list[Phrase] = []
    scripts: list[Phrase] = []
    mentions: Mentions | None = None
    signs: dict[str, tuple[str, ...]] = {}
    together: list[Phrase] = []
    mixes: dict[str, list[Mix]] = {}
    for file in files:
        data = read_table(file)
        own = {name: [str(word) for word in words] for name, words in data.get("words", {}).items()}
        for name in data.get("rot13", ()):
            own[name] = [codecs.decode(word, "rot13") for word in own[name]]
        lists.update(own)
        if data.get("masked", True):
            known += [word for words in own.values() for word in words]
        choices = marked({name: f"(?:{'|'.join(words)})" for name, words in lists.items()})
        phrases += _phrases(data.get("phrases", ()), choices, types)
        scripts += _phrases(data.get("scripts", ()), choices, types)
        negations: list[str] = []
        for language in data.get("languages", {}).values():
            parts = {**choices, **_words_of(language)}
            found = [*_of_language(data["templates"]["phrases"], parts)]
            # Words in Latin letters stand without accents there, and are met in texts that are read without them.
            phrases += [phrase for phrase in found if "".join(phrase.patterns).isascii()]
            scripts += [phrase for phrase in found if not "".join(phrase.patterns).isascii()]
            negations += _complete(data["templates"]["mentions"], parts)
        for name, patterns in data.get("signs", {}).items():
            signs[name] = tuple(filled(pattern, choices) for pattern in patterns)
        for entry in data.get("together", ()):
            if types is None or entry["type"] in types:
                together.append(Phrase(entry["name"], float(entry["weight"]), (), entry["type"]))
                mixes[entry["name"]] = [Mix.read(line) for line in entry["signs"]]
        if "mentions" in data or "quotes" in data:
            mentions = _mentions(data, choices, negations)
    words = frozenset(_plain(known))
    made = Signs(signs, mixes) if mixes else None
    return Phrases(phrases, words, scripts=scripts, mentions=mentions, signs=made, together=together)


def _phrases(
    entries: Iterable[Mapping[str, Any]], choices: dict[str, str], types: frozenset[str] | None
) -> Iterator[Phrase]:
    for entry in entries:
        kind = entry.get("type", "")
        if types is None or kind in types:
            patterns = tuple(filled(pattern, choices) for pattern in entry["patterns"])
            yield Phrase(entry["name"], float(entry["weight"]), patterns, kind)


_MARK = LinearRegex(r"\{[a-z_]+\}")


def _words_of(language: Mapping[str, str]) -> dict[str, str]:
    """The lists of words of a language, as parts of patterns."""
    spaced = {
        name: words.replace(" ?", r"\s*").replace(" ", r"\s+").replace("~", r"[\s\x{200c}]*")
        for name, words in language.items()
    }
    return marked({name: f"(?:{words})" for name, words in spaced.items()})


def _complete(patterns: Iterable[str], choices: dict[str, str]) -> tuple[str, ...]:
    """The patterns for which there are all words."""
    made = (filled(pattern, choices) for pattern in patterns)
    return tuple(pattern for pattern in made if _MARK.search(pattern) is None)


def _of_language(templates: Iterable[Mapping[str, Any]], choices: dict[str, str]) -> Iterator[Phrase]:
    """The phrases of templates for which a language has the words."""
    for entry in templates:
        if patterns := _complete(entry["patterns"], choices):
            yield Phrase(entry["name"], float(entry["weight"]), patterns)


def _mentions(data: Mapping[str, Any], choices: dict[str, str], negations: Sequence[str]) -> Mentions:
    heads = tuple(
        Heads(
            tuple(filled(head, choices) for head in group["heads"]), group["reach"], group.get("reported", False)
        )
        for group in data.get("mentions", ())
    )
    negated = (Heads(tuple(negations), 0),) if negations else ()
    return Mentions((*heads, *negated), data.get("quotes", False), data.get("drafts", ""))


@cache
def shipped_words() -> frozenset[str]:
    """The words of all phrases that ship: with them evasions are undone once for every guardrail."""
    files = (INJECTION_FILES, LANGUAGE_FILES, TOXICITY_FILES)
    return frozenset().union(*(load_phrases(each).words for each in files))


def _plain(words: Iterable[str]) -> Iterator[str]:
    """The words that signs may stand for letters of; of one with an optional last letter both forms."""
    for word in words:
        both = (word[:-2], word[:-1]) if word.endswith("?") else (word.removesuffix("\\w*"),)
        for form in both:
            if form.isascii() and form.isalpha() and len(form) >= _SHORTEST:
                yield form.lower()
