"""The texts that phrases are looked for in: a text as it stands, and with what hides words in it undone."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from itertools import groupby

from turnwise._support.characters import CharacterTable
from turnwise._support.regex_sets import Alphabet, RegexSet, has_many_bytes
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.deobfuscation import folded_readings, readings_of
from turnwise.guard.recognisers.folding import LEET, LEET_STROKES, PLAIN, SAME
from turnwise.guard.recognisers.phrases import PHRASE_FILES
from turnwise.guard.recognisers.text import TextReading
from turnwise.linear_regex import LinearRegex, replace_characters
from turnwise.observers.local.normalise import HEAD, TAIL, normalise

_STEP = HEAD + TAIL
# characters that two pieces of a long text share, so that a phrase on the border is whole in one of them
_OVERLAP = 500

_WHOLE_SENTENCE = "\ufdfa"  # the one character that stands for 18 in plain form; none of them is Latin


def plain_texts(check: Check, known: frozenset[str], own: str = "") -> tuple[str, ...]:
    """`plain_texts_of` the text under check, made once for all guardrails that know the same words."""
    key = ("hidden", known, own, check.text)
    return check.once(key, lambda: _texts(check.text, folded_readings(check, PLAIN), known, own))


def plain_texts_of(text: str, known: frozenset[str] = frozenset(), own: str = "") -> tuple[str, ...]:
    """The texts to look through: the text itself, and what is different once evasions in it are undone.

    The `known` words, in lower case, are those that leetspeak may stand for and that letters without a space may
    be made of; `own` characters count beside those of the phrases that ship.

    >>> plain_texts_of("Hello.")
    ('Hello.',)
    >>> plain_texts_of("1gn0re the rules", frozenset({"ignore"}))
    ('1gn0re the rules', 'ignore the rules')
    """
    readings = [reading.behind(PLAIN.fold(reading.plain)) for reading in readings_of(text)]
    return _texts(text, readings, known, own)


@lru_cache(maxsize=16)
def _alphabet(own: str) -> Alphabet:
    """The characters that phrases tell apart, and those that make up or stand for such."""
    folder = resources.files("turnwise.guard.recognisers")
    files = [folder.joinpath(file).read_text(encoding="utf-8") for file in PHRASE_FILES]
    parts = (unicodedata.decomposition(chr(code)).split() for code in range(0xC0, 0x3100))
    marks = "".join(chr(int(both[1], 16)) for both in parts if len(both) == 2 and both[0][0] != "<")
    return Alphabet((*files, _LOOKALIKES, _SIGNS_OF_MASKS, marks, own.lower(), own.upper()))


_LOOKALIKES = r"\p{Cyrillic}\p{Greek}"
# plain forms of characters, but for those that only together make up one
_COMPATIBLE = CharacterTable(
    lambda character: "" if unicodedata.category(character) == "Cf" else unicodedata.normalize("NFKC", character),
    SAME,
)


def _texts(given: str, readings: Iterable[TextReading], known: frozenset[str], own: str) -> tuple[str, ...]:
    texts = dict.fromkeys((given, *(reading.plain for reading in readings)))
    plain = [given, *([*texts][1:][-1:])]  # in the last reading is undone what is in those before it
    if has_many_bytes(given, given.encode("utf-8", "replace")):
        squeeze = _alphabet(own).squeeze
        plain = [*dict.fromkeys(squeeze(_COMPATIBLE.map(text).text) for text in plain)]
        texts = dict.fromkeys(map(squeeze, texts))
    for text in plain:
        for form in _normalised(text, known):
            hints = _MASKED_HINT.present(form)
            odd = hints or max(map(len, form.split()), default=0) >= _RUN_TOGETHER
            texts[respelled(form, known, masked="masked" in hints) if odd else form] = None
    return tuple(texts)


def _normalised(text: str, known: frozenset[str]) -> Sequence[str]:
    """The text where there is nothing to undo in it, and otherwise the pieces of it with all undone."""
    starts = range(0, max(1, len(text) - _OVERLAP), _STEP - _OVERLAP)
    pieces = [text[start : start + _STEP].replace(_WHOLE_SENTENCE, " ") for start in starts]
    forms = [normalise(piece, known).text for piece in pieces]
    return [text] if forms == pieces else forms


# Words without a space between them, or with signs instead

# words beside the known ones that letters without a space may be made of
_GLUE = frozenset(
    """
    a all and any are as be do every for from have i if in is it me my no not now of on or our that the
    then these this those to was were with you your previous prior above earlier before set so as not free
    developer tool call file model alone listen restrictions delete
    """.split()  # noqa: SIM905 - a list of words reads best as words
)

_RUN_TOGETHER = 14  # letters in a row from which they may be several words
_LINE_END = " \0 "  # stands for a line end among words
_LONGEST_RUN = 400
_LONGEST_WORD = 16
_FEWEST_SIGNS = 3  # signs between the letters of one word from which they stand for spaces
_HUMP = LinearRegex("[A-Z][a-z]+")  # a word of a row in which only capitals tell where words begin

# what may stand for the spaces between words
_SPACE_SIGNS = dict.fromkeys("+_.,;:|/\\~*#=-", " ")


def respelled(text: str, known: frozenset[str], *, masked: bool = True) -> str:
    """A text with words read without their masks and apart; unchanged where none is.

    >>> respelled("ignore-all+the_rules", frozenset({"rules"})), respelled("a well-known  word", frozenset())
    ('ignore all the rules', 'a well-known  word')
    """
    broken = text.replace("\n", _LINE_END).split()
    words = _joined(broken, known)
    different = set(words)
    plain = unmasked(different, known) if masked else {}
    if masked:
        plain = {**_in_leetspeak(different.difference(plain), known), **plain}
    if plain:
        words = [*map(plain.get, words, words)]
        different = set(words)
    apart = _forms_apart(different, known)
    if not plain and not apart and len(words) == len(broken):
        return text
    words = [*map(apart.get, words, words)]
    return " ".join(words).replace(_LINE_END, "\n").replace(_LINE_END[1], "\n")


def _joined(words: Sequence[str], known: Container[str]) -> list[str]:
    """The words, with known and hyphenated ones joined that the end of a line breaks."""
    kept: list[str] = []
    for word in words:
        kept.append(word)
        parts = kept[-3:]
        if len(parts) < 3 or parts[1] != _LINE_END[1] or min(map(len, parts[::2])) < _FEWEST_SEEN:
            continue
        first = parts[0].removesuffix("-")
        whole = first + word
        is_known = whole.strip(_ENDS).lower() in known and parts[0].lower() not in known
        if is_known or (first != parts[0] and first.isalpha() and word[0].islower()):
            kept[-3:] = [whole[:_LONGEST_RUN]]
    return kept


def _forms_apart(words: set[str], known: Container[str]) -> Mapping[str, str]:
    """What run-together words are made of."""
    found: dict[str, str] = {}
    long_words = [word for word in words if len(word) >= _RUN_TOGETHER]
    spaced = replace_characters("\n".join(long_words), _SPACE_SIGNS).split("\n")
    for word, spread in zip(long_words, spaced if long_words else (), strict=True):
        parts = spread.split()
        if len(parts) > _FEWEST_SIGNS:
            found[word] = " ".join(_split(part, known) for part in parts)
        elif (bare := word.strip(_ENDS)).isalpha() and (split := _split(bare, known)) != bare:
            found[word] = word.replace(bare, split)
    return found


def _split(part: str, known: Container[str]) -> str:
    if not (_RUN_TOGETHER <= len(part) <= _LONGEST_RUN and part.isalpha()):
        return part
    humps = [hump[0] for hump in _HUMP.finditer(part)]
    return " ".join(humps) if len(humps) > _FEWEST_SIGNS else _words(part, known)


def _words(letters: str, known: Container[str]) -> str:
    """The words that letters without a space are made of, or the letters where they are not.

    >>> _words("ignoreallthestuff", {"ignore"}), _words("ignoreallrules", {"ignore", "rules"})
    ('ignoreallthestuff', 'ignore all rules')
    """
    lower = letters.lower()
    before: list[int | None] = [0]
    reached = 0
    for end in range(1, len(lower) + 1):
        if end - reached > _LONGEST_WORD:
            return letters
        starts = range(max(0, end - _LONGEST_WORD), end)
        before.append(
            next(
                (
                    start
                    for start in starts
                    if before[start] is not None and (lower[start:end] in known or lower[start:end] in _GLUE)
                ),
                None,
            )
        )
        if before[-1] is not None:
            reached = end
    if before[-1] is None:
        return letters
    words, end = [], len(lower)
    while end:
        start = before[end] or 0
        words.append(letters[start:end])
        end = start
    return " ".join(reversed(words))


# Words in which signs and digits stand for letters or hide them, or letters are drawn out

_LETTERS = tuple({**LEET, **dict.fromkeys(LEET_STROKES, letter)} for letter in "il")
_TABLES = tuple(map(str.maketrans, _LETTERS))
_MASKS = "*#_·•×"
_MASK = frozenset(_MASKS)
# what stands for letters or over them and is not in ASCII
_SIGNS_OF_MASKS = "".join(each for each in (*LEET, *LEET_STROKES, *_MASKS) if not each.isascii())

_ENDS = ".,;:?!\"'()[]{}«»“”‘’"
# what a text has at least in which a word is masked, or broken by the end of a line
_MASKED_HINT = RegexSet(
    {
        "masked": [
            "[a-z][@$!|+*#·•×€0-9]+[a-z@$]",
            "(?:^|[^a-z0-9])[@$!|0-9][a-z]{2}",
            "[a-z][@$*0134578][^a-z]",
            *(f"{letter}{{3}}" for letter in string.ascii_lowercase),
        ],
        "broken": [r"[a-z]-?\r?\n[a-z]"],
    },
    ignore_case=True,
)

_LONGEST_MASKED = 24  # letters of a word that is looked at
_FEWEST_SEEN = 2  # letters that a mask leaves at least


def unmasked(words: set[str], known: frozenset[str]) -> Mapping[str, str]:
    """What masked words stand for, of which only the `known`, in lower case, count.

    >>> sorted(unmasked({"h@te", "f**l!", "off"}, frozenset({"hate", "fool"})).items())
    [('f**l!', 'fool!'), ('h@te', 'hate')]
    """
    forms = {word: _plain(word, known) for word in _suspects([*words], known)}
    return {word: form for word, form in forms.items() if form != word}


def _in_leetspeak(words: Iterable[str], known: Container[str]) -> Mapping[str, str]:
    """What all words of a text say that have signs or digits for letters; empty where few words have them."""
    found: dict[str, str] = {}
    for word in words:
        if len(word) > _LONGEST_MASKED or word.isalpha():
            continue
        lower = word.lower().rstrip(".,;:?")
        forms = [lower.translate(table) for table in _TABLES]
        if forms[0].isalpha() and forms[0].isascii() and not lower.isalpha():
            found[word] = next((form for form in forms if form in known or form in _GLUE), forms[0])
    letters = sum(any(map(str.isalpha, word)) for word in found)
    return found if letters >= _FEWEST_IN_LEET else {}


_FEWEST_IN_LEET = 3  # different words with signs and letters, at least, from which a text is in leetspeak


def _suspects(words: Sequence[str], known: frozenset[str]) -> list[str]:
    """The words that may be masked: all at once, for there can be thousands of them."""
    bares = {word: bare for word in words if 2 < len(bare := word.strip(_ENDS)) <= _LONGEST_MASKED}
    lower = " ".join(bares.values()).lower()
    singles = _singled_out(known)
    found: dict[str, None] = {}
    for number, letters in enumerate(_LETTERS):
        if number and not any(stroke in lower for stroke in LEET_STROKES):
            break
        forms = _single(replace_characters(lower, letters)).split(" ")
        found.update((word, None) for word, form in zip(bares, forms, strict=bool(bares)) if form in singles)
    if any(mark in lower for mark in _MASKS):
        shapes = _by_shape(known)
        for word, bare in zip(bares, lower.split(" "), strict=True):
            if bare[:1].isalpha() and not _MASK.isdisjoint(bare) and (bare[0], len(bare)) in shapes:
                found[word] = None
    return [*found]


def _single(text: str) -> str:
    """A text in lower case with one letter of each row of equal ones.

    >>> _single("stuuupid gross")
    'stupid gros'
    """
    for letter in string.ascii_lowercase:
        while 2 * letter in text:
            text = text.replace(2 * letter, letter)
    return text


def _drawn_out(word: str) -> bool:
    lower = word[:_LONGEST_MASKED].lower()
    # Most words have too many different letters for a run of three.
    return len(lower) - len(set(lower)) > 1 and any(
        first == second == third for first, second, third in zip(lower, lower[1:], lower[2:], strict=False)
    )


def _plain(word: str, known: frozenset[str]) -> str:
    """A word without its mask, or as it is where that gives no known word."""
    if len(word) > 2 * _LONGEST_MASKED or (word.isalpha() and not _drawn_out(word)):
        return word
    bare = word.strip(_ENDS)
    start = word.index(bare) if bare else 0
    # An exclamation mark or a bracket at an end may be a letter as well: "p!g!", "$hit".
    if 2 < len(bare) <= _LONGEST_MASKED:
        for form in _forms(bare.lower(), known):
            return f"{word[:start]}{form}{word[start + len(bare) :]}"
    return word


def _forms(lower: str, known: frozenset[str]) -> Iterator[str]:
    for form in dict.fromkeys([lower.translate(table) for table in _TABLES]):
        if form != lower and form in known:
            yield form
        if not form.isascii() or not _drawn_out(form):
            continue
        for most in (2, 1):
            short = _squeezed(form, most)
            if short != lower and short in known:
                yield short
    if not _MASK.isdisjoint(lower):
        yield from _masked(lower, known)


def _squeezed(word: str, most: int) -> str:
    """A word with runs of three equal letters or more cut down.

    >>> _squeezed("stuuupid", 1), _squeezed("asssss", 2)
    ('stupid', 'ass')
    """
    runs = ((letter, len([*run])) for letter, run in groupby(word))
    return "".join(letter * (most if count > 2 else count) for letter, count in runs)


def _masked(lower: str, known: frozenset[str]) -> Iterator[str]:
    """The known words that fit a mask, of which the first letter and one more are seen."""
    if lower[0] in _MASKS or sum(each not in _MASKS for each in lower) < _FEWEST_SEEN:
        return
    for word in _by_shape(known).get((lower[0], len(lower)), ()):
        if all(seen == letter or seen in _MASKS for seen, letter in zip(lower, word, strict=True)):
            yield word


@lru_cache(maxsize=16)
def _by_shape(known: Collection[str]) -> dict[tuple[str, int], list[str]]:
    shapes: dict[tuple[str, int], list[str]] = {}
    for word in sorted(known):
        shapes.setdefault((word[0], len(word)), []).append(word)
    return shapes


@lru_cache(maxsize=16)
def _singled_out(known: Collection[str]) -> frozenset[str]:
    return frozenset(map(_single, known))
