"""Hosts of links: read as a browser reads them, and which pass for others."""

from __future__ import annotations

import socket
import string
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote

from turnwise._support.characters import LETTERS_AND_DIGITS, MARK, kinds_of
from turnwise.guard.recognisers.folding import PASS_FOR, Folding, plain_lower_character

_LONGEST = 253
_LONGEST_LABEL = 63
_MOST_NUMBERS = 4
_HEX = frozenset(string.hexdigits)
# marks that mean something in a link; other forms of them are read as them
_STRUCTURE = frozenset(".:/\\@%?#-_[]")


class Host(NamedTuple):
    """Where a link leads: a name in lower case without a trailing dot, or an IP address in its usual form."""

    name: str
    is_ip: bool


def host_character(character: str) -> str:
    """A character as browsers read it in a host; marks that mean nothing there stay as they are.

    Unicode Technical Standard 46: an em dash is no hyphen there, and a full-width comma ends a link.

    >>> [host_character(each) for each in "Ａ。－—，\u00ad"]
    ['a', '.', '-', '—', '，', '']
    """
    import idna

    try:
        form = idna.uts46_remap(character, std3_rules=False)
    except idna.IDNAError:
        form = plain_lower_character(character)
    return form if all(map(_belongs, form)) else character


def _belongs(character: str) -> bool:
    """Whether a character is a letter, digit or accent of any script, means something in a link, or is a space."""
    known = character.isalnum() or character.isspace() or character in _STRUCTURE
    return known or unicodedata.category(character)[0] == "M"


HOST_FORM = Folding(host_character, str.lower)  # for links and their hosts


_IN_HOSTS = f"{LETTERS_AND_DIGITS}{MARK}-_.".encode("latin-1")  # what stands in hosts, in `kinds_of` them


def read_authority(rest: str) -> Host | None:
    """The host in what stands behind the scheme and slashes of a link, in lower case; None where there is none.

    WHATWG URL Standard, sections 3.5 and 4.4: what stands before the last ``@`` is no host, a backslash is a
    slash, percent signs are decoded, and a number is an IP address.

    >>> [read_authority(rest).name for rest in ("good.com@evil.com/x", "evil.com:443\\\\@x", "0x7f.1", "a.B.")]
    ['evil.com', 'evil.com', '127.0.0.1', 'a.b']
    """
    for mark in "/\\?#":
        rest = rest.partition(mark)[0]
    authority = rest.rpartition("@")[2]
    if authority.startswith("["):
        return _read_ip(authority[1:].partition("]")[0].partition("%")[0], IPv6Address)
    host, colon, port = authority.rpartition(":")
    return read_host(host if colon and (not port or port.isdigit()) else authority)


@lru_cache(maxsize=4096)
def read_host(text: str) -> Host | None:
    """The host that a text is; None where it can't be one.

    >>> read_host("www.B\xfccher.example.") == read_host("www.xn--bcher-kva.example")
    True
    """
    name = (unquote(text) if "%" in text else text).strip().lower().rstrip(".")
    if not name or len(name) > _LONGEST:
        return None
    labels = name.split(".")
    if _is_number(labels[-1]) and len(labels) <= _MOST_NUMBERS and all(map(_is_number, labels)):
        return _read_ip(name, _version_4)
    if "" in labels or max(map(len, labels)) > _LONGEST_LABEL or kinds_of(name).translate(None, _IN_HOSTS):
        return None
    if not name.isascii():
        name = unicodedata.normalize("NFC", HOST_FORM.fold(name).plain)
    if "xn--" in name:
        name = ".".join(map(_in_letters, name.split(".")))
    return Host(name, False)


def _is_number(label: str) -> bool:
    return label.isascii() and (label.isdigit() or (label.startswith("0x") and _HEX.issuperset(label[2:])))


def _in_letters(label: str) -> str:
    """A label in ASCII form (RFC 3492) in its own script, if it is valid; any other as it is."""
    if not label.startswith("xn--") or not label.isascii():
        return label
    import idna

    try:
        return idna.ulabel(label)
    except (idna.IDNAError, UnicodeError):
        return label  # no browser goes there, and no list has it


def _read_ip(text: str, read: Callable[[str], object]) -> Host | None:
    try:
        return Host(str(read(text)), True)
    except (OSError, ValueError):
        return None


def _version_4(text: str) -> str:
    return socket.inet_ntoa(socket.inet_aton(text))


# Hosts that pass for a trusted one

_HOST_LETTERS = str.maketrans({sign: letter for letter, signs in PASS_FOR.items() for sign in signs})
_HOST_DIGITS = str.maketrans("01358i|", "olesbll")
_HOST_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_SHORTEST = 4  # characters of a name from which hosts that contain it count as lookalikes

# characters of a name from which one edit counts: of shorter ones too many words are one edit away
_SHORTEST_EDITED = 5


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
