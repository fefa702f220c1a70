"""Hosts of links, read as a browser reads them."""

from __future__ import annotations

import socket
import string
import unicodedata
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from turnwise.guard.recognisers.folding import Folding, plain_lower_character

_LONGEST = 253
_LONGEST_LABEL = 63
_MOST_NUMBERS = 4
_HEX = frozenset(string.hexdigits)
_STRUCTURE = frozenset(".:/\\@%?#-_[]")
"""Marks that mean something in a link; other forms of them are read as them."""


class Host(NamedTuple):
    """Where a link leads.

    Args:
        name: the host in ASCII and lower case, without a trailing dot; an IP address in its usual form.
        shown: the same as a reader sees it, with letters of all scripts.
        is_ip: whether it is an IP address.
    """

    name: str
    shown: str
    is_ip: bool


@lru_cache(maxsize=1 << 17)
def host_character(character: str) -> str:
    """Return a character as browsers read it in a host; marks that mean nothing there stay as they are.

    Source: Unicode Technical Standard 46. An em dash is no hyphen there, and a full-width comma ends a link.

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


@lru_cache(maxsize=1 << 17)
def is_host_character(character: str) -> bool:
    """Return whether a character can stand in a label of a host: letters, digits and accents of all scripts."""
    return character.isalnum() or character in "-_" or unicodedata.category(character)[0] == "M"


def read_authority(rest: str) -> Host | None:
    """Return the host of what stands behind the scheme and slashes of a link; None where there is none.

    Source: WHATWG URL Standard, sections 3.5 and 4.4: what stands before the last ``@`` is no host, a backslash is
    a slash, percent signs are decoded, and a number is an IP address.

    Args:
        rest: the rest of the link, in lower case.

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
    """Return a host; None where a text can't be one.

    Args:
        text: the host as it is written.

    >>> read_host("www.B\xfccher.example.").name
    'www.xn--bcher-kva.example'
    """
    name = unquote(text).strip().lower().rstrip(".")
    if not name or len(name) > _LONGEST:
        return None
    labels = name.split(".")
    if len(labels) <= _MOST_NUMBERS and all(map(_is_number, labels)):
        return _read_ip_4(name)
    if not all(0 < len(label) <= _LONGEST_LABEL for label in labels):
        return None
    if not all(character == "." or is_host_character(character) for character in set(name)):
        return None
    if name.isascii() and "xn--" not in name:
        return Host(name, name, False)
    return _read_international(name)


def _is_number(label: str) -> bool:
    return label.isascii() and (label.isdigit() or (label.startswith("0x") and _HEX.issuperset(label[2:])))


def _read_international(name: str) -> Host:
    import idna

    try:
        ascii_name = idna.encode(name, uts46=True).decode("ascii")
        return Host(ascii_name, idna.decode(ascii_name), False)
    except (idna.IDNAError, UnicodeError):
        return Host(name, name, False)  # no browser would go there, and no list has it


def _read_ip_4(name: str) -> Host | None:
    try:
        address = socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None
    return Host(address, address, True)


def _read_ip_6(text: str) -> Host | None:
    from ipaddress import IPv6Address

    try:
        address = str(IPv6Address(text.partition("%")[0]))
    except ValueError:
        return None
    return Host(address, address, True)
