"""Characters that pass for others: letters of other scripts, signs for letters; and hosts that do so."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from turnwise.guard.recognisers.folding import Folding, plain_character
from turnwise.guard.recognisers.hosts import Host

# fmt: off
PASS_FOR = {
    "a": "аαɑ", "b": "ьƅ", "c": "сϲ", "d": "ԁɗđ", "e": "еεҽ", "f": "ſ", "g": "ɡց", "h": "һħ", "i": "іιıɩ",
    "j": "ј", "k": "кκ", "l": "ӏł", "m": "м", "n": "ոηп", "o": "оοօø", "p": "рρ", "q": "ԛ", "r": "г",
    "s": "ѕ", "t": "тτ", "u": "υս", "v": "νѵ", "w": "ԝωѡ", "x": "хχ", "y": "уγү", "z": "ᴢ",
}
"""Letters that pass for a Latin one, in lower case."""

LEET = {
    "@": "a", "4": "a", "3": "e", "€": "e", "0": "o", "5": "s", "$": "s", "7": "t", "+": "t", "8": "b", "9": "g",
}
"""Signs and digits that stand for a letter."""
# fmt: on

_CAPITALS = dict(zip("АВСЕНІЈКМОРЅТХУҮԚԜѴԌΑΒΕΖΗΙΚΜΝΟΡΤΥΧՍՕ", "ABCEHIJKMOPSTXYYQWVGABEZHIKMNOPTYXUO", strict=True))
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_DIGIT_SHAPES = {"З": "3", "з": "3", "Ʒ": "3", "б": "6", "Ƽ": "5", "Ȣ": "8", "ȣ": "8"}
_BOXED = {
    chr(first + index): letter
    for first in (0x1F150, 0x1F170, 0x1F1E6)
    for index, letter in enumerate(string.ascii_uppercase)
}
"""White letters on black, in circles and squares, and those that flags are made of."""

LATIN = {
    **{sign: letter for letter, signs in PASS_FOR.items() for sign in signs if sign != letter},
    **_CAPITALS,
    **_SMALL_CAPITALS,
    **_DIGIT_SHAPES,
    **_BOXED,
}

DIGIT_LETTERS = {"O": "0", "o": "0", "I": "1", "l": "1"}
"""Letters that pass for a digit."""

LEET_STROKES = "1!|¡"
"""What stands for i or for l."""


def undisguised_character(character: str) -> str:
    """The Latin letter or digit that a character passes for, without accents; others in plain form.

    Unicode Technical Standard 39 (confusables), cut down to letters that pass for Latin ones.

    >>> [undisguised_character(each) for each in "аé²ᴀ🅰"]
    ['a', 'e', '2', 'a', 'A']
    """
    latin = LATIN.get(character)
    if latin is not None:
        return latin
    form = unicodedata.normalize("NFKD", plain_character(character))
    return "".join(each for each in form if not unicodedata.combining(each))


UNDISGUISED = Folding(undisguised_character)
"""Characters that pass for others."""


# Hosts

_HOST_LETTERS = str.maketrans({sign: letter for letter, signs in PASS_FOR.items() for sign in signs})
_HOST_DIGITS = str.maketrans("01358i|", "olesbll")
_HOST_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_SHORTEST = 4
"""Characters of a name from which hosts that contain it count as lookalikes."""

_SHORTEST_EDITED = 5
"""Characters of a name from which one edit counts: of shorter ones too many words are one edit away."""


class Lookalikes:
    """Tells hosts that pass for a trusted domain, given as `Host.name` has it.

    Unicode Technical Standard 39 (confusables), cut down to letters that pass for Latin ones; F. J. Damerau, A
    technique for computer detection and correction of spelling errors (1964). `registrable` gives the part of a
    host that someone registered.

    >>> trusted = Lookalikes(["mybank.com"], lambda name: ".".join(name.split(".")[-2:]))
    >>> def passes_for(name):
    ...     return trusted.passes_for(Host(name, False))
    >>> [passes_for(name) for name in ("mybank.com.evil.net", "rnybank.com", "mybnak.com", "my-bank.org", "a.com")]
    ['mybank.com', 'mybank.com', 'mybank.com', 'mybank.com', None]
    """

    def __init__(self, domains: Iterable[str], registrable: Callable[[str], str | None]) -> None:
        self._registrable = registrable
        self._skeletons: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._shortened: dict[str, list[tuple[str, str]]] = {}
        self._joined: dict[str, str] = {}
        for domain in domains:
            own = registrable(domain) or domain
            name = own.partition(".")[0]
            self._skeletons.setdefault(_skeleton(own), domain)
            for joined in (domain.replace(".", "-"), domain.replace(".", "")):
                self._joined.setdefault(joined, domain)
            if len(name) >= _SHORTEST:
                self._names.setdefault(_skeleton(name), domain)
            if len(name) >= _SHORTEST_EDITED:
                for shorter in _shortened(name):
                    self._shortened.setdefault(shorter, []).append((name, domain))

    def passes_for(self, host: Host) -> str | None:
        """The trusted domain that a host passes for, or None; the host must not be under a trusted domain."""
        registered = self._registrable(host.name)
        own = registered or host.name
        name, _, ending = own.partition(".")
        if registered is None and not ending.isascii():
            ending = ""  # what is no ending may be a name
        labels, shapes = host.name.split("."), _skeleton(host.name).split(".")
        count = own.count(".") + 1
        found = self._skeletons.get(".".join(shapes[-count:]))
        if found is None:
            before = len(labels) - (ending.count(".") + 1 if ending else 0)
            found = self._inside("-".join(labels[:before]).split("-"), "-".join(shapes[:before]).split("-"))
        if found is None and "-" in name:
            found = self._names.get(_skeleton(name.replace("-", "")))
        return found or self._names.get(shapes[-count]) or next(self._edited(name), None)

    def _inside(self, parts: Sequence[str], shapes: Sequence[str]) -> str | None:
        """Look for a trusted domain, or its name, among the labels of a host and their parts."""
        for part, shape in zip(parts, shapes, strict=True):
            found = self._names.get(shape) or self._joined.get(part)
            if found is not None:
                return found
        for first, second in pairwise(parts):
            found = self._joined.get(f"{first}-{second}")
            if found is not None:
                return found
        return None

    def _edited(self, name: str) -> Iterator[str]:
        for shorter in _shortened(name):
            for trusted, domain in self._shortened.get(shorter, ()):
                if is_one_edit(name, trusted):
                    yield domain


def is_one_edit(first: str, second: str) -> bool:
    """Whether one text is the other with a character added, left out, replaced or swapped with the next.

    >>> is_one_edit("paypal", "paypla"), is_one_edit("paypal", "paypall"), is_one_edit("paypal", "papyla")
    (True, True, False)
    """
    if len(first) > len(second):
        first, second = second, first
    start = next(
        (at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first)
    )
    if len(first) < len(second):
        return len(second) - len(first) == 1 and first[start:] == second[start + 1 :]
    swapped = first[start : start + 2][::-1] == second[start : start + 2]
    return first[start + 1 :] == second[start + 1 :] or (swapped and first[start + 2 :] == second[start + 2 :])


def _shortened(name: str) -> Iterator[str]:
    yield name
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]


def _skeleton(text: str) -> str:
    """A text in which letters that look alike are the same."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(part for part in parts if not unicodedata.combining(part)).translate(_HOST_LETTERS)
    text = text.translate(_HOST_DIGITS)
    for pair, letter in _HOST_PAIRS:
        text = text.replace(pair, letter)
    return text
