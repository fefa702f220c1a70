"""Where links may lead."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from turnwise._support.characters import CharacterTable
from turnwise._support.regex_sets import RegexSet
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding, On, Redaction
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.deobfuscation import readings
from turnwise.guard.recognisers.hosts import HOST_FORM, Host, Lookalikes, read_authority, read_host
from turnwise.guard.recognisers.links import SHAPES, Link, Links
from turnwise.guard.recognisers.text import Span, TextReading, apart

_HOSTS = 300  # different hosts of a text that are judged; a text with more is a finding from there to its end
_NAMED = 5  # hosts that a reason names at most

# what a text has, at least, of which a part may be encoded: entities, percent signs and tags
_ENCODED = ("&", "%", "<")

# makes spaces of the characters that show nothing
_SPACED = CharacterTable(lambda character: character if HOST_FORM.fold(character).plain else " ")

_SHOWN = 80  # characters of a host that a reason shows at most


@dataclass(frozen=True)
class Urls(Guardrail):
    """Where links lead: domains that are denied or allowed, and lookalikes of the allowed ones.

    Links are found with any scheme, with ``//`` or without, without a scheme (``evil.com/x``), and defanged
    (``hxxp``, ``evil[.]com``). A host is read as a browser reads it: user names before ``@``, ports, trailing
    dots, percent signs, other scripts and numbers for IP addresses do not hide it, nor do marks and letters of
    other scripts around it, characters that show nothing, and entities of HTML. A denied domain is found with its
    full stops spelled as well (``evil dot example``). Where browsers and programs that make links of text differ,
    a denied host is found in either reading. A domain in a list stands for all its subdomains; ``*.example.com``
    for these alone. Denied wins over allowed.

    A host is a lookalike of an allowed domain where letters pass for its letters, where it is one edit away, where
    it has the same name under another ending, or where the domain or its name stands among its parts
    (``good.com.evil.net``, ``good-login.net``). Names of fewer than 4 characters are compared only whole.

    It does not follow redirects and short links, and does not know what is behind a host. Without a scheme, hosts
    with an ending that is not public (``intranet.corp``) are not found, and those whose ending is a word or file
    name (``main.py``, ``t.me``) only with a path, IP addresses only as four decimal numbers with a port or path.
    Addresses of e-mail are no links.

    Args:
        allow: allowed domains and IP addresses.
        deny: denied ones.
        allow_only: whether every link that is not allowed is a finding; with an empty `allow`, every link.
        lookalikes: whether lookalikes of allowed domains are findings; false where an allowed name is a common
            word, such as ``news.com``.
        ip_addresses: whether links to IP addresses are findings, unless allowed.

    Raises:
        GuardError: nothing to look for, or an entry that is no domain.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Urls(allow=("good.com",)), "Log in at https://good.com@evil.net or http://good.com.evil.net").reason
    'good.com.evil.net looks like good.com'
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = (On.BOTH, On.TOOL_CALL)
    default_timeout: ClassVar[float | None] = None

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    allow_only: bool = False
    lookalikes: bool = True
    ip_addresses: bool = False
    _allowed: frozenset[str] = field(init=False, repr=False, compare=False)
    _denied: frozenset[str] = field(init=False, repr=False, compare=False)
    _links: Links = field(init=False, repr=False, compare=False)
    _lookalikes: Lookalikes | None = field(init=False, repr=False, compare=False, default=None)
    _shapes: RegexSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.deny or self.allow_only or self.ip_addresses or (self.allow and self.lookalikes)):
            raise GuardError(
                "nothing to look for; give deny, allow (with allow_only or lookalikes) or ip_addresses"
            )
        allowed, denied = _entries("allow", self.allow), _entries("deny", self.deny)
        domains = {entry.removeprefix("*.") for entry in allowed | denied}
        judged = self.deny or self.allow_only or (self.allow and self.lookalikes)
        links = Links(domains, only_addresses=not judged)
        object.__setattr__(self, "_allowed", allowed)
        object.__setattr__(self, "_denied", denied)
        object.__setattr__(self, "_links", links)
        object.__setattr__(self, "_shapes", RegexSet(SHAPES))
        if self.lookalikes and allowed:
            trusted = [entry.removeprefix("*.") for entry in sorted(allowed) if not entry[-1].isdigit()]
            object.__setattr__(self, "_lookalikes", Lookalikes(trusted, links.registrable))

    @property
    def reach(self) -> int:
        """As far as what stands around a link; one has no white space."""
        return 100

    def check(self, check: Check) -> Finding:
        verdicts: dict[Host | None, tuple[str, float] | None] = {}
        found: list[Span] = []
        for link, (start, end) in self._found(check):
            if link.host not in verdicts and len(verdicts) == _HOSTS:
                verdicts[None] = ("too many hosts", 0.5)
                found.append(Span(start, len(check.text), "url", 1.0))
                break
            if link.host not in verdicts:
                verdicts[link.host] = self._judge(link.host)
            if verdicts[link.host] is not None and (link.likely or self._is_denied(link.host)):
                found.append(Span(start, end, "url", 1.0))
        if not found:
            return CLEAN
        reasons = dict.fromkeys(verdict for verdict in verdicts.values() if verdict is not None)
        named = "; ".join(reason for reason, _ in list(reasons)[:_NAMED])
        more = len(reasons) - _NAMED
        places = apart(found)
        return Finding(
            found=True,
            reason=f"{named}; and {more} more" if more > 0 else named,
            confidence=max(confidence for _, confidence in reasons),
            redactions=tuple(Redaction(span.start, span.end, "url") for span in places),
            data={"links": len(places)},
        )

    def _found(self, check: Check) -> Iterator[tuple[Link, tuple[int, int]]]:
        """The links of a text; not likely is what only programs link, or what is encoded inside a link."""
        own: list[tuple[int, int]] = []
        for link, place in self._links_of(TextReading(check.text)):
            own.append(place)
            yield link, place
        spaced = check.text if check.text.isprintable() else _SPACED.map(check.text).text
        if spaced != check.text:
            for link, place in self._links_of(TextReading(spaced)):
                yield link._replace(likely=False), place
        if not any(mark in check.text for mark in _ENCODED):
            return
        own.sort()
        for reading in readings(check)[1:]:
            if reading.loose:
                continue
            for link, place in self._links_of(reading):
                index = bisect_right(own, place) - 1
                inside = index >= 0 and own[index][0] < place[0] < own[index][1]
                yield link._replace(likely=link.likely and not inside), place

    def _links_of(self, reading: TextReading) -> Iterator[tuple[Link, tuple[int, int]]]:
        folded = reading.behind(HOST_FORM.fold(reading.plain))
        shapes = self._shapes.present(folded.plain)
        if shapes:
            for link in self._links.find(folded.with_shapes(shapes)):
                yield link, folded.span(link.start, link.end)

    def _is_denied(self, host: Host | None) -> bool:
        return host is not None and _is_in(host, self._denied)

    def _judge(self, host: Host | None) -> tuple[str, float] | None:
        """What is wrong with a host, and how sure that is."""
        if host is None:
            return ("a link that can't be read", 0.5) if self.allow_only else None
        shown = host.name if len(host.name) <= _SHOWN else f"…{host.name[-_SHOWN:]}"
        if self._is_denied(host):
            return f"{shown} is denied", 1.0
        if _is_in(host, self._allowed):
            return None
        if self._lookalikes is not None and not host.is_ip:
            trusted = self._lookalikes.passes_for(host)
            if trusted is not None:
                return f"{shown} looks like {trusted}", 0.9
        if self.ip_addresses and host.is_ip:
            return f"{shown} is an IP address", 1.0
        return (f"{shown} is not allowed", 1.0) if self.allow_only else None


def _is_in(host: Host, entries: frozenset[str]) -> bool:
    if host.is_ip or host.name in entries:
        return host.name in entries
    labels = host.name.split(".")
    above = (".".join(labels[at:]) for at in range(1, len(labels)))
    return any(domain in entries or f"*.{domain}" in entries for domain in above)


def _entries(setting: str, entries: Iterable[str]) -> frozenset[str]:
    if isinstance(entries, str):
        raise GuardError(f"{setting} is one text; give a list")
    names = set()
    for entry in entries:
        star, domain = ("*.", entry[2:]) if isinstance(entry, str) and entry.startswith("*.") else ("", entry)
        host = _read_entry(domain)
        if host is None:
            raise GuardError(f"{setting} has {entry!r}; give a domain such as example.com, without scheme or path")
        names.add(star + host.name)
    return frozenset(names)


def _read_entry(domain: object) -> Host | None:
    if not isinstance(domain, str) or not domain.strip() or any(mark in domain for mark in "/\\@?# "):
        return None
    return read_authority(f"[{domain}]") if domain.count(":") > 1 else read_host(domain.strip().lower())
