"""Links in a text, with and without a scheme."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from turnwise.guard.recognisers.hosts import Host, read_authority, read_host

_DOT = r"(?:\.|\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\))"
_LABEL = r"[^\W_](?:[\w-]{0,62}+(?<!-))?+"

SHAPES = {
    "scheme": (r"[a-z0-9]:[/\\]", r"h(?:tt|xx)ps?:", r"(?:^|[\s\"'(=])[/\\]{2}[\pL\pN\[]"),
    "bare": (
        r"[\pL\pN](?:\.|\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\))[\pL]{2}",
        r"[\pL\pN]\.xn--",
        r"[0-9]{1,3}\.[0-9]+[:/]",
    ),
}
"""What a text has, at least, in which there may be one; RE2."""

_SCHEME = re.compile(
    r"(?:(?<![a-z0-9])(?:(?:h(?:tt|xx)ps?|ftps?|wss?):[/\\]*+|[a-z][a-z0-9+.-]{1,20}:[/\\]{2,}+)"
    r"|(?:(?<=[\s\"'(=])|^)[/\\]{2}(?=[^\s/\\]{0,300}\.))(?P<rest>[^\s<>\"'`|^{}/\\?#]{1,1000}+)(?P<path>[^\s<>\"'`]{0,2000}+)",
    re.MULTILINE,
)
_BARE = re.compile(
    rf"(?<![\w.@:/\\-])(?P<user>[\w.%+-]{{1,64}}@)?(?P<host>{_LABEL}(?:{_DOT}{_LABEL})++)(?P<dot>\.(?!\w))?"
    r"(?P<port>:[0-9]{1,5}(?![0-9]))?(?P<path>[/?#][^\s<>\"'`]{0,2000}+)?(?P<call>\()?"
)
_DEFANGED = re.compile(r"\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\)")
_TRAILING = ".,;:!?)]}*_"
_AMBIGUOUS = re.compile(
    r"(?![a-z]{2}$|xn--|com$|org$|net$|edu$|gov$|mil$|int$|info$|biz$|app$|dev$|xyz$|online$|site$|shop$|top$|icu$).*|"
    r"ai|am|app|as|at|be|cc|do|id|in|is|it|java|me|md|mov|my|no|pl|pm|ps|py|rs|sh|so|st|to|us|vi|zip"
)
"""Endings that are words, methods or files more often than domains: these need a path or ``www``."""

_INITIALS = 4
"""Characters of a host up to which it is rather initials, such as ``a.va``."""

_LONGEST_HOST = 400


class Link(NamedTuple):
    """A link in a text.

    Args:
        start: offset of its first character.
        end: offset behind its last character.
        host: where it leads; None where no browser would read it.
    """

    start: int
    end: int
    host: Host | None


class Links:
    """Finds links: with any scheme, without one (``evil.com/x``), and defanged ones (``hxxp``, ``evil[.]com``).

    What has no scheme needs an ending that is on the Public Suffix List, or one of the given domains' own.

    Args:
        domains: domains whose endings are taken as known.
    """

    def __init__(self, domains: Iterable[str]) -> None:
        from publicsuffixlist import PublicSuffixList

        self._suffixes = PublicSuffixList(accept_unknown=False, only_icann=True)
        self._domains = frozenset(domains)
        self._endings = frozenset(domain.rpartition(".")[2] for domain in self._domains)

    def registrable(self, name: str) -> str | None:
        """Return the part of a host that someone registered, such as ``example.co.uk``; None if it is unknown.

        Args:
            name: a host in ASCII and lower case.
        """
        found: str | None = self._suffixes.privatesuffix(name)
        if found is None and name.rpartition(".")[2] in self._endings:
            return ".".join(name.split(".")[-2:])
        return found

    def find(self, lower: str, shapes: Set[str]) -> Iterator[Link]:
        """Find links.

        Args:
            lower: the text in plain form and lower case.
            shapes: which of `SHAPES` it has.
        """
        if "\u3002" in lower:
            lower = lower.replace("\u3002", ".")
        covered: list[tuple[int, int]] = []
        for match in _SCHEME.finditer(lower) if "scheme" in shapes else ():
            rest = _DEFANGED.sub(".", match["rest"])
            end = match.end() if match["path"] else match.end("rest") - _trailing(match["rest"])
            if not match["path"]:
                rest = rest[: len(rest) - _trailing(rest)]
            yield Link(match.start(), end, read_authority(rest + match["path"]))
            covered.append((match.start(), match.end()))
        at = 0
        for match in _BARE.finditer(lower) if "bare" in shapes else ():
            while at < len(covered) and covered[at][1] <= match.start("host"):
                at += 1
            if at < len(covered) and covered[at][0] <= match.start("host"):
                continue
            link = self._bare(match)
            if link is not None:
                yield link

    def _bare(self, match: re.Match[str]) -> Link | None:
        written, path = match["host"], match["path"]
        if len(written) > _LONGEST_HOST or (match["user"] and not path) or match["call"]:
            return None
        host = read_host(_DEFANGED.sub(".", written))
        if host is None or not (self._is_known(host, path) or (host.is_ip and (path or match["port"]))):
            return None
        end = match.end() - _trailing(path) if path else match.end("port") if match["port"] else match.end("host")
        return Link(match.start(), end, host)

    def _is_known(self, host: Host, path: str | None) -> bool:
        ending = host.name.rpartition(".")[2]
        if host.name in self._domains or (ending in self._endings and not _AMBIGUOUS.fullmatch(ending)):
            return True
        if host.is_ip or self._suffixes.privatesuffix(host.name) is None:
            return False
        if path is not None or host.name.startswith("www."):
            return True
        return not _AMBIGUOUS.fullmatch(ending) and (len(host.name) > _INITIALS or ending == "com")


def _trailing(text: str) -> int:
    """Return how many characters at the end are punctuation of the sentence."""
    return len(text) - len(text.rstrip(_TRAILING))
