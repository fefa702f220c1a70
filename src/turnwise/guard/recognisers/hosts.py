"""Hosts of links, read as a browser reads them."""

from __future__ import annotations

import socket
import string
import unicodedata
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from turnwise._support.characters import LETTERS_AND_DIGITS, MARK, kinds_of
from turnwise.guard.recognisers.folding import Folding, plain_lower_character

_LONGEST = 253
_LONGEST_LABEL = 63
_MOST_NUMBERS = 4
_HEX = frozenset(string.hexdigits)
_STRUCTURE = frozenset(".:/\\@%?#-_[]")
"""Marks that mean something in a link; other forms of them are read as them."""


class Host(NamedTuple):
    """Where a link leads.

    The name is in lower case, with letters of all scripts and no trailing dot; an IP address in its usual form.
    """

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
    return is_host_character(character) or character in _STRUCTURE or character.isspace()


HOST_FORM = Folding(host_character, str.lower)
"""For links and their hosts."""


def is_host_character(character: str) -> bool:
    """Whether a label of a host can have a character: letters, digits and accents of all scripts."""
    return character.isalnum() or character in "-_" or unicodedata.category(character)[0] == "M"


_IN_HOSTS = f"{LETTERS_AND_DIGITS}{MARK}-_.".encode("latin-1")
"""What stands in hosts, in `kinds_of` them."""


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
        return _read_ip_6(authority[1:].partition("]")[0])
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
        return _read_ip_4(name)
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


def _read_ip_4(name: str) -> Host | None:
    try:
        address = socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None
    return Host(address, True)


def _read_ip_6(text: str) -> Host | None:
    from ipaddress import IPv6Address

    try:
        address = str(IPv6Address(text.partition("%")[0]))
    except ValueError:
        return None
    return Host(address, True)
