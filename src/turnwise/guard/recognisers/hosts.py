"""Hosts of links, read as a browser reads them."""

from __future__ import annotations

import re
import socket
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

_LONGEST = 253
_LABEL = re.compile(r"[^\W_](?:[\w-]{0,61}[^\W_])?|_[\w-]{1,62}")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")
_AUTHORITY_ENDS = re.compile(r"[/\\?#]")
_PORT = re.compile(r":[0-9]{0,5}\Z")


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


def read_authority(rest: str) -> Host | None:
    """Return the host of what stands behind the scheme and slashes of a link; None where there is none.

    Source: WHATWG URL Standard, sections 3.5 and 4.4: what stands before the last ``@`` is no host, a backslash is
    a slash, percent signs are decoded, and a number is an IP address.

    Args:
        rest: the rest of the link, in lower case.

    >>> [read_authority(rest).name for rest in ("good.com@evil.com/x", "evil.com:443\\\\@x", "0x7f.1", "a.B.")]
    ['evil.com', 'evil.com', '127.0.0.1', 'a.b']
    """
    authority = _AUTHORITY_ENDS.split(rest, maxsplit=1)[0].rpartition("@")[2]
    if authority.startswith("["):
        return _read_ip_6(authority[1:].partition("]")[0])
    return read_host(_PORT.sub("", authority))


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
    if _NUMERIC.fullmatch(name):
        return _read_ip_4(name)
    if not all(map(_LABEL.fullmatch, name.split("."))):
        return None
    if name.isascii() and "xn--" not in name:
        return Host(name, name, False)
    return _read_international(name)


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
