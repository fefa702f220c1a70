"""Characters that are spelled in words and codes, and texts that are turned around or in a cipher that they name.

Each function in `SPELLINGS` undoes one trick: it takes a text and yields the stretches to replace.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from turnwise.guard.recognisers.text import SPOKEN, Stretch, Undo, digits_of
from turnwise.linear_regex import LinearRegex

# Words for digits and for numbers below a hundred, in the languages in which people spell numbers out


def _values(lines: Sequence[str], first: int) -> Mapping[str, int]:
    """Words in lines that all count from `first`; of a word in several lines the earliest counts."""
    found: dict[str, int] = {}
    for line in lines:
        for value, word in enumerate(line.split(), first):
            plain = unicodedata.normalize("NFD", word).encode("ascii", "ignore").decode() or word
            found.setdefault(word, value)
            found.setdefault(plain, value)
    return found


# words for 0 to 9
DIGITS: Final = _values(
    (
        "zero one two three four five six seven eight nine",
        "oh one two three four fife six seven eight niner",
        "null eins zwei drei vier fünf sechs sieben acht neun",
        "nought ein zwo drei vier fuenf sechs sieben acht neun",
        "cero uno dos tres cuatro cinco seis siete ocho nueve",
        "zéro un deux trois quatre cinq six sept huit neuf",
        "zero uno due tre quattro cinque sei sette otto nove",
        "zero um dois três quatro cinco seis sete oito nove",
        "nul een twee drie vier vijf zes zeven acht negen",
        "零 一 二 三 四 五 六 七 八 九",
        "〇 壹 贰 叁 肆 伍 陆 柒 捌 玖",
    ),
    0,
)

# words for 10 to 19
TEENS: Final = _values(
    (
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
        "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
        "dix onze douze treize quatorze quinze seize",
    ),
    10,
)

# words for 20 to 90, by their first digit
TENS: Final = _values(
    (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    ),
    2,
)

# how often the digit behind such a word is meant
TIMES: Final = {"double": 2, "twice": 2, "doppel": 2, "doble": 2, "triple": 3, "treble": 3}

# Digits and letters in words: "four one one one", "double eight", "Alfa Kilo India"

# the spelling alphabet of the International Civil Aviation Organization
_ALPHABET = (
    "alfa bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike november oscar papa quebec "
    "romeo sierra tango uniform victor whiskey xray yankee zulu"
)

_SAID: Mapping[str, str] = {
    **{name: name[0].upper() for name in [*_ALPHABET.split(), "alpha", "juliet", "x-ray", "whisky"]},
    **{name: str(number) for words in (TEENS, TENS, DIGITS) for name, number in words.items()},
}
_IDEOGRAPHS = "".join(name for name in _SAID if len(name) == 1 and not name.isascii())
_NAME = "|".join(sorted((name for name in _SAID if name.isascii()), key=len, reverse=True))
_ITEM = rf"(?:(?:(?:{'|'.join(TIMES)})[ -])?(?:{_NAME}|[0-9]{{1,4}})|[{_IDEOGRAPHS}]+)"
_BETWEEN = rf"(?:[ \t\r\n,.;:/|_*-]{{1,4}}(?:(?:{'|'.join((*SPOKEN, 'point', 'then'))})[ ,;:-]{{1,2}})?)"
_SAID_ROW = LinearRegex(rf"(?i)\b{_ITEM}(?:{_BETWEEN}{_ITEM}){{3,}}\b|[{_IDEOGRAPHS}]{{8,}}")
_SAID_HINTS = (
    rf"(?i)\b(?:{_NAME})[ \t\r\n,.;:/|_*-]+(?:[0-9]{{1,4}}[ \t\r\n,.;:/|_*-]+)?(?:{_NAME}|{'|'.join(TIMES)})\b",
    f"[{_IDEOGRAPHS}]{{8}}",
)
_TOKEN = LinearRegex(rf"(?i)x-ray|[a-z]+|[0-9]+|[{_IDEOGRAPHS}]")
_FEWEST = 8  # characters that are spelled in a row, at least; few words of a text name more digits by chance


def said_characters(text: str) -> Iterator[Stretch]:
    """Digits and letters that are spelled in words.

    >>> [stretch.text for stretch in said_characters("it is four double one, one 23 forty-five six.")]
    ['411123456']
    """
    for row in _SAID_ROW.finditer(text):
        if any(map(str.isalpha, row[0])):
            shown, end = _said(row[0]), row.end
            comma = row[0].rfind(",")
            if comma > 0 and _in_groups(shown) == shown:  # behind it may be another number
                before = _said(row[0][:comma])
                shown, end = (before, row.start + comma) if _in_groups(before) != before else (shown, end)
            if len(shown) >= _FEWEST:
                yield Stretch(row.start, end, _in_groups(shown))


def _said(row: str) -> str:
    said: list[str] = []
    times = 1
    tens = False
    for token in (found[0].lower() for found in _TOKEN.finditer(row)):
        if token in TIMES:
            times = TIMES[token]
            continue
        form = _SAID.get(token) or (token if token.isdigit() else "")
        if tens and (len(form) != 1 or form == "0"):
            said.append("0")
        if form:
            said.append(form * times)
            tens = token in TENS
            times = 1
    return "".join([*said, "0" * tens])


def _in_groups(shown: str) -> str:
    """A number of as many digits as a card's as cards are written."""
    sizes = {15: (4, 10, 15), 16: (4, 8, 12, 16)}.get(len(shown), ()) if shown.isdigit() else ()
    return " ".join(shown[start:end] for start, end in pairwise((0, *sizes))) or shown


# Morse

_MORSE_CODES = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. .-.-.- --..-- -....- -..-. ---... .--.-. -...- "
    "..--.-"
)
# International Morse code: Recommendation ITU-R M.1677-1
_MORSE = dict(zip(_MORSE_CODES.split(), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,-/:@=_", strict=True))

_MORSE_HINT = r"[.·•_-]{1,6}(?:[ \n]+(?:[/|] *)?[.·•_-]{1,6}){4}"
_MORSE_ROW = LinearRegex(r"[.·•_-]{1,6}(?:[ \n]+(?:[/|]+[ \n]*)?[.·•_-]{1,6}){4,}")
_MORSE_MARKS = str.maketrans("·•_|\n", "..-/ ")


def morse(text: str) -> Iterator[Stretch]:
    """Rows of Morse code; bars part its words.

    >>> [stretch.text for stretch in morse("so: .... .. / - .... . .-. . ok - - - - - -")]
    ['HI THERE']
    """
    for row in _MORSE_ROW.finditer(text):
        words = [word.split() for word in row[0].translate(_MORSE_MARKS).split("/")]
        codes = {code for word in words for code in word}
        if len(codes) > 1 and codes <= _MORSE.keys():
            said = ["".join(map(_MORSE.__getitem__, word)) for word in words]
            said = ["".join(said)] if all(len(word) < 2 for word in said) else said
            yield Stretch(row.start, row.end, " ".join(map(_in_groups, said)))


# Emphasis inside words and numbers, and strings that are put together

_MARK = r"(?:\*{1,3}|~~|__|`)"
_WRAPPED = r"(?:\*{1,3}[^*\s]{1,40}\*{1,3}|~~[^~\s]{1,40}~~|__?[^_\s]{1,40}__?|`[^`\s]{1,40}`)"
_WRAPPED_ROW = LinearRegex(rf"{_WRAPPED}(?: ?{_WRAPPED}){{2,}}")
_WRAPPED_PART = LinearRegex(_WRAPPED)
_EMPHASIS = (
    rf"{_MARK}[\pL\pN]{{2,40}}{_MARK}[\pL\pN]",
    rf"[\pL\pN]{_MARK}[\pL\pN]{{2,40}}{_MARK}",
    r"[*~_`]{1,3}[0-9]{2,19}[*~_`]{1,3}",
    _WRAPPED_ROW.pattern,
)
_EMPHASISED = LinearRegex("|".join(f"({each})" for each in _EMPHASIS[:-1]))
_MARKED_NUMBER = LinearRegex(r"[0-9]+(?:[*~_`]{1,3}[0-9]+)+")
_STRING = r"""(?:"[^"\n]{0,200}"|'[^'\n]{0,200}')"""
_JOINED = LinearRegex(
    rf"""{_STRING}(?:\s{{0,9}}(?:\+|&|\|\||\.)\s{{0,9}}{_STRING})+|["'][^"'\n]["'](?:, ?["'][^"'\n]["']){{4,}}"""
)
_QUOTED = LinearRegex(_STRING)


def emphasis(text: str) -> Iterator[Stretch]:
    """Marks of emphasis inside words, and around digits.

    >>> [text for text in ("ig**no**re", "**4111** *1111*", "a *b* c") if [*emphasis(text)]]
    ['ig**no**re', '**4111** *1111*']
    """
    behind = 0
    for row in _MARKED_NUMBER.finditer(text):
        digits = digits_of(row[0])
        if _in_groups(digits) != digits:
            yield from _marks(text, behind, row.start)
            yield Stretch(row.start, row.end, _in_groups(digits))
            behind = row.end
    yield from _marks(text, behind, len(text))


def wrapped_parts(text: str) -> Iterator[Stretch]:
    """Marks around each part of a word or a sentence.

    >>> [stretch.text for stretch in wrapped_parts("*ghp_*_LR_`x` or *take* **them** __all__")]
    ['ghp_LRx', 'take them all']
    """
    for row in _WRAPPED_ROW.finditer(text):
        whole = row[0]
        parts, behind = [], 0
        for part in _WRAPPED_PART.finditer(whole):
            mark = part[0][0]
            parts += [whole[behind : part.start], part[0].strip(mark) if mark != "_" else _unwrapped(part[0])]
            behind = part.end
        shown = "".join(parts)
        joined = shown.replace(" ", "")
        yield Stretch(row.start, row.end, _in_groups(joined) if joined.isdigit() else shown)


def _unwrapped(part: str) -> str:
    width = 2 if part.startswith("__") and part.endswith("__") and len(part) > len("____") else 1
    return part[width:-width]


def _marks(text: str, start: int, end: int) -> Iterator[Stretch]:
    behind = start
    for (first, last), *_ in _EMPHASISED.spans(text[start:end], overlapping=True):
        for at in range(max(start + first, behind), start + last):
            if text[at] in "*~_`":
                yield Stretch(at, at + 1, "")
        behind = max(behind, start + last)


def joined_strings(text: str) -> Iterator[Stretch]:
    """Strings that are put together, and lists of characters, without quotation marks.

    >>> [stretch.text for stretch in joined_strings("'ig' + 'nore' is 'a', 'b', 'c', 'd', 'e'")]
    ['ignore', 'abcde']
    """
    for row in _JOINED.finditer(text):
        shown = "".join(string[0][1:-1] for string in _QUOTED.finditer(row[0]))
        yield Stretch(row.start, row.end, _in_groups(shown))


# Signs that are said, and cells of tables

_SAID_SIGNS = {
    "dot": ".", "full stop": ".", "period": ".", "punkt": ".", "punto": ".", "comma": ",", "colon": ":",
    "doppelpunkt": ":", "slash": "/", "dash": "-", "hyphen": "-", "minus": "-", "bindestrich": "-", "guion": "-",
    "tiret": "-", "underscore": "_", "underline": "_", "unterstrich": "_", "equals": "=", "plus": "+", "hash": "#",
    "star": "*", "asterisk": "*", "exclamation mark": "!", "question mark": "?", "dollar": "$", "space": " ",
}  # fmt: skip
_SAID_SIGN = "|".join(_SAID_SIGNS)
_IN_BRACKETS = rf" ?[\[({{<] ?(?:{_SAID_SIGN}) ?[\])}}>] ?"
_CHUNK = r"[^\s()\[\]{}<>]{1,80}"
_SIGN_ROW = LinearRegex(
    rf"(?i){_CHUNK}(?:(?:{_IN_BRACKETS}| (?:{_SAID_SIGN}) ){_CHUNK}| (?:{_SAID_SIGN})[0-9](?:{_CHUNK})?)+"
)
_SIGN_PART = LinearRegex(rf"(?i){_IN_BRACKETS}| (?:{_SAID_SIGN}) | (?:{_SAID_SIGN})\B")
_ONE_IS_ENOUGH = ("underscore", "unterstrich")  # signs that nobody says but between the parts of a name
_SIGN_HINTS = (
    rf"(?i)[\[({{<] ?(?:{_SAID_SIGN}) ?[\])}}>] ?{_CHUNK} ?[\[({{<]",
    rf"(?i) (?:{_SAID_SIGN}) {_CHUNK} (?:{_SAID_SIGN})[ 0-9]",
    rf"(?i) (?:{'|'.join(_ONE_IS_ENOUGH)}) ",
)


def said_signs(text: str) -> Iterator[Stretch]:
    """Signs that are said between words or digits, two in a row at least.

    >>> [stretch.text for stretch in said_signs("sk underscore live underscore x, a (dash) b (dash) c")]
    ['sk_live_x,', 'a-b-c']
    """
    for row in _SIGN_ROW.finditer(text):
        whole = row[0]
        parts, behind = [], 0
        signs = [*_SIGN_PART.finditer(whole)]
        for sign in signs:
            parts += [whole[behind : sign.start], _SAID_SIGNS.get(sign[0].strip(" ()[]{}<>").lower(), " ")]
            behind = sign.end
        parts.append(whole[behind:])
        if len(signs) > 1 or any(name in whole.lower() for name in _ONE_IS_ENOUGH):
            digits = "".join(parts[::2])
            shown = _in_groups(digits) if digits.isdigit() else "".join(parts)
            yield Stretch(row.start, row.end, shown)


_TABLE_HINT = r"\|[ \t]*:?-{3,}:?[ \t]*\|"
_TABLE = LinearRegex(r"(?:(?:^|\n)[ \t]*\|[^\n]*\|[ \t]*){2,}")
_RULE = frozenset("|-: \t")


def table_cells(text: str) -> Iterator[Stretch]:
    """Tables of words as rows of words; cells that are parts of one code without a space.

    >>> [stretch.text for stretch in table_cells("|sk_l|4x7Q|\\n|---|---|\\n|drop|the|\\n|rules|")]
    ['\\nsk_l4x7Q drop the rules']
    """
    for table in _TABLE.finditer(text) if "|--" in text or "| --" in text or "|:-" in text else ():
        rows = [line.strip(" \t|") for line in table[0].split("\n") if not _RULE.issuperset(line)]
        cells = [[cell.strip() for cell in row.split("|")] for row in rows]
        if not any(cell.isdigit() for row in cells for cell in row):
            yield Stretch(table.start, table.end, "\n" + " ".join(map(_joined_cells, cells)))


def _joined_cells(cells: Sequence[str]) -> str:
    mixed = sum(any(map(str.isdigit, cell)) for cell in cells if " " not in cell)
    return ("" if mixed * 2 >= len(cells) > 1 else " ").join(cells)


# Signs between words

_SIGN = r"[\p{So}\x{fe0f}\x{200d}\x{1f3fb}-\x{1f3ff}]+"
_SIGNS = LinearRegex(rf"\pL{{2}}( ?{_SIGN} ?)\pL{{2}}")


def signs_between_words(text: str) -> Iterator[Stretch]:
    """Emoji and other signs that stand between words one by one, twice at least."""
    if not text.isascii():
        spans = [group for _, group in _SIGNS.spans(text, overlapping=True)]
        yield from (Stretch(start, end, " ") for start, end in (spans if len(spans) > 1 else ()))


SPELLINGS: tuple[Undo, ...] = (
    said_characters,
    said_signs,
    morse,
    table_cells,
    wrapped_parts,
    emphasis,
    joined_strings,
    signs_between_words,
)
# what a text has, at least, in which something is spelled or put together; RE2
SPELLED_HINTS = (
    *_SAID_HINTS,
    *_SIGN_HINTS,
    _MORSE_HINT,
    _TABLE_HINT,
    *_EMPHASIS,
    r"""["']\s*[+&|.]{1,2}\s*["']|["'], ?["'][^"'\n]["'], ?["']""",
    rf"\pL{_SIGN} ?\pL|\pL {_SIGN} \pL",
)

# Texts that are turned around

# what is turned around as a whole, for nothing tells where it begins
_BREAKS = LinearRegex(r"[^:\n\"“”«»`<>()\[\]]+")

_FLIPPED = str.maketrans("ɐqɔpǝɟƃɓɥᴉıɾʞlʅɯuodbɹʇnʌʍʎ⅄∀", "abcdefgghiijkllmnopqrtuvwyYA")
_FLIPPED_LETTERS = LinearRegex("[ɐɔǝɟƃɥᴉɾʞɯɹʇʌʍʎ]")
_FEWEST_FLIPPED = 4


def _turned(text: str, form: Callable[[str], str]) -> Iterator[Stretch]:
    for part in _BREAKS.finditer(text):
        yield Stretch(part.start, part.end, f" {' '.join(map(_in_groups, form(part[0]).split()))} ")


# backwards by characters, by the characters of each word, and by words
_TURNS: tuple[Callable[[str], str], ...] = (
    lambda text: text[::-1],
    lambda text: " ".join(word[::-1] for word in text.split()),
    lambda text: " ".join(reversed(text.split())),
)


def _shifted(text: str, by: int) -> str:
    letters = string.ascii_lowercase
    shifted = letters[by:] + letters[:by]
    return text.translate(str.maketrans(letters + letters.upper(), shifted + shifted.upper()))


def _together(text: str) -> Iterator[Stretch]:
    """Spaces in base64 that is written in groups."""
    for row in _GROUPS.finditer(text):
        groups = row[0].split(" ")
        if len(set(map(len, groups[:-1]))) == 1:
            yield Stretch(row.start, row.end, "".join(groups))


_REVERSED = LinearRegex(
    r"(?i)\b(?:revers(?:e|ed|es|ing|al)|backwards?|back ?to ?front|right[ -]to[ -]left|last letters? first|"
    r"last digits? first|from the (?:end|back)|the other way a?round|r[üu]ckw[äa]rts|von hinten|spiegelverkehrt|"
    r"al rev[ée]s|à l'envers|al contrario|mirror(?:ed)?)\b"
)
_SHIFTED = LinearRegex(r"(?i)\brot(?:ate)?[ _-]?([0-9]{1,2})\b|\bcaesar\b(?:[^.\n0-9]{0,40}\b([0-9]{1,2})\b)?")
_IN_GROUPS = LinearRegex(r"(?i)\bbase[ -]?(?:64|32)\b|\bhex(?:adecimal)?\b")
_GROUPS = LinearRegex(r"(?:[A-Za-z0-9+/_-]{4,76} ){2,}[A-Za-z0-9+/_-]{2,76}={0,2}")
_CAESAR = 3
CIPHER_HINTS = tuple(each.pattern for each in (_REVERSED, _SHIFTED, _IN_GROUPS, _FLIPPED_LETTERS))


def ciphers_named(text: str) -> Iterator[Undo]:
    """What undoes the ciphers that a text names, or shows itself to be in.

    >>> [stretch.text for undo in ciphers_named("A in ROT13: uryyb") for stretch in undo("uryyb")]
    [' hello ']
    """
    if _REVERSED.search(text) is not None:
        yield from (partial(_turned, form=form) for form in _TURNS)
    shift = _SHIFTED.search(text)
    if shift is not None:
        by = int(shift[1] or shift[2] or _CAESAR) % 26
        yield from (partial(_turned, form=partial(_shifted, by=each)) for each in sorted({by, 26 - by}))
    if _IN_GROUPS.search(text) is not None:
        yield _together
    if not text.isascii() and len({*_FLIPPED_LETTERS.spans(text)}) >= _FEWEST_FLIPPED:
        yield partial(_turned, form=lambda part: part[::-1].translate(_FLIPPED))
