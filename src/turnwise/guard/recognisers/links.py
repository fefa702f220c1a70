"""Links in a text, with and without a scheme."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from turnwise._support.characters import (
    DIGIT,
    LETTER,
    LETTERS_AND_DIGITS,
    MARK,
    NUMBER,
    SIGN,
    WHITE_SPACE,
    byte_table,
    kinds_of,
)
from turnwise._support.locations import to_path
from turnwise.guard.recognisers.hosts import Host, read_authority, read_host
from turnwise.guard.recognisers.text import TextReading
from turnwise.linear_regex import LinearRegex

# Where hosts and links end in a text

# schemes behind which a browser needs no two slashes, and as text the first four none
_SCHEMES = ("https", "hxxps", "http", "hxxp", "ftps", "ftp", "wss", "ws")

_SCHEME_CHARACTERS = string.ascii_lowercase + string.digits + "+.-"
_NO_LETTERS = string.digits + "+.-"
_LONGEST_SCHEME = 21
_PATH = "/\\?#"
_DOT_BEFORE = tuple(f".{mark}" for mark in f":{_PATH}")
_TRAILING = ".,;:!?)]}*_"
_PORT_DIGITS = 5

_FILL = "\0"  # stands for a character that is not there; a text in plain form has none
_EDGES = f"._-{_FILL}"
# characters behind which a scheme is part of the path that it stands in
_INSIDE_LINK = frozenset(string.ascii_letters + string.digits + "=/\\?#&:+-_.~%@")

_LONGEST_HOST = 400  # characters of a written host; what is longer can't be reached, but part of it may be
_HOST_KINDS = byte_table({"": f"{LETTERS_AND_DIGITS}{MARK}-_.{_FILL}"}, " ")
_AUTHORITIES = byte_table({" ": f'{WHITE_SPACE}"<>{_PATH}'}, "x")
_LINKS = byte_table({" ": f"{WHITE_SPACE}\"'`<>|^{{}}{SIGN}"}, "x")
# tables of `kinds_of`, with spaces for what ends a host; users, host and port; a link; and marks of a scheme
_MARKS = byte_table({"": ":/\\"}, " ")


class LinkText:
    """A text in plain form, and where the hosts and links in it end."""

    def __init__(self, plain: str) -> None:
        self.plain = plain
        self._kinds = kinds_of(plain)
        self._hosts = self._kinds.translate(_HOST_KINDS)
        self._path = (0, 0)

    @cached_property
    def _authorities(self) -> bytes:
        return self._kinds.translate(_AUTHORITIES)

    @cached_property
    def _links(self) -> bytes:
        return self._kinds.translate(_LINKS)

    def openings(self) -> Iterator[tuple[int, int]]:
        """Where links with a scheme, or with two slashes, start and where their scheme and slashes end."""
        marks = self._kinds.translate(_MARKS).decode("ascii")
        at = 0
        for word in marks.split():
            first = marks.find(word, at)
            at = first + len(word)
            if word[0] != ":":
                if len(word) > 1 and self._is_bare_opening(first, at):
                    yield first, at
                continue
            slashes = word.find(":", 1) - 1 if ":" in word[1:] else len(word) - 1
            before = self.plain[max(0, first - _LONGEST_SCHEME) : first].rstrip(_FILL)
            name = before[len(before.rstrip(_SCHEME_CHARACTERS)) :]
            schemes = _SCHEMES if slashes else _SCHEMES[:4]
            usual = next(filter(name.endswith, schemes)) if name.endswith(schemes) else ""
            if usual and not name.removesuffix(usual)[-1:].isalnum():
                name = usual
            elif slashes > 1:
                name = name.lstrip(_NO_LETTERS)
            else:
                continue
            if len(name) > 1:
                yield self.plain.rfind(name, 0, first), first + 1 + slashes

    def _is_bare_opening(self, first: int, behind: int) -> bool:
        """Whether two slashes begin a link: nothing like a path stands before them, and a host behind."""
        if first and (not self._hosts.startswith(b" ", first - 1) or self.plain[first - 1] in _INSIDE_LINK):
            return False
        return "." in self.plain[behind : min(self.authority_end(behind), behind + _LONGEST_HOST)]

    def runs(self) -> Iterator[tuple[int, int]]:
        """The stretches of characters of hosts that hold a full stop."""
        at = 0
        for run in self._hosts.split():
            first = self._hosts.find(run, at)
            at = first + len(run)
            if b"." in run:
                yield first, at

    def authority_end(self, at: int) -> int:
        """Where users, host and port end, as a browser takes them."""
        return _found(self._authorities, b" ", at, len(self.plain))

    def host_end(self, at: int, limit: int) -> int:
        """Where a host ends that begins at an offset, before a limit."""
        end = _found(self._hosts, b" ", at, limit)
        end = _found(self._hosts, b"..", at, end)
        return end - len(self.plain[at:end]) + len(self.plain[at:end].rstrip(_EDGES))

    def port_end(self, at: int) -> int:
        """Where a port at an offset ends, with a full stop before it; the offset where there is none."""
        mark = self.plain[at : at + 1]
        if mark == "." and self.plain.startswith(_DOT_BEFORE, at):
            at += 1
            mark = self.plain[at]
        if mark != ":":
            return at
        digits = self.plain[at + 1 : at + 2 + _PORT_DIGITS]
        length = len(digits) - len(digits.lstrip(string.digits))
        return at + 1 + length if 0 < length <= _PORT_DIGITS else at

    def has_path(self, at: int, marks: str = "/?#") -> bool:
        """Whether a path or query begins, with one of the marks, behind a host that ends at an offset."""
        at = self.port_end(at)
        return at < len(self.plain) and self.plain[at] in marks

    def link_end(self, at: int) -> int:
        """Where a link ends whose host ends at an offset."""
        if not self.has_path(at, _PATH):
            return self.port_end(at)
        if not self._path[0] <= at < self._path[1]:
            end = _found(self._links, b" ", at, len(self.plain))
            while self.plain[end - 1] in _TRAILING:
                end -= 1
            self._path = (at, end)
        return self._path[1]


def _found(text: bytes, mark: bytes, at: int, limit: int) -> int:
    found = text.find(mark, at, limit)
    return limit if found < 0 else found


# Links in a text

# what a text has, at least, in which there may be one; RE2
SHAPES = {
    "scheme": (
        r":\]?[/\\]",
        r"h(?:tt|xx)ps?(?:\[:\]|:)",
        r"(?:ftps?|wss?):",
        r"(?:^|[^a-z0-9:/\\])[/\\]{2}[\pL\pN\[]",
    ),
    "bare": (
        r"[\pL\pN\pM](?:\.|\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\)|\{dot\})[\pL]{2}",
        r"[\pL\pN\pM]\.xn--",
        r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]",
        r"[0-9](?:\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\)|\{dot\})[0-9]",
    ),
    "spelled": (r"[\pL\pN](?: (?:dot|punkt|punto|ponto) | ?[\[({](?:dot|\.)[\])}] | \.)[\pL\pN]",),
}

_DEFANGED = {
    "[://]": "\0://\0",
    "[:]": "\0\0:",
    "[.]": "\0.\0",
    "(.)": "\0.\0",
    "{.}": "\0.\0",
    "[dot]": "\0\0.\0\0",
    "(dot)": "\0\0.\0\0",
    "{dot}": "\0\0.\0\0",
}
# full stops in words and apart from what stands around them: meant for readers, and read for listed domains
_SPELLED = {
    written: _FILL * (len(written) - 1) + "."
    for written in (
        *(f" {word} " for word in ("dot", "punkt", "punto", "ponto")),
        *(f"{before}{mark} " for before in (" ", "") for mark in ("[.]", "(.)", "{.}", "[dot]", "(dot)", "{dot}")),
        " .",
    )
}

_USER = string.ascii_lowercase + string.digits + "._%+-"
_LONGEST_USER = 64
_WORDS = frozenset(
    """
    ai am app as at be cc do id in is it java me md mov my no pl pm ps py rs sh so st to us vi zip
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
# long endings that are rarely words, methods or files; others need a path or ``www``, as `_WORDS` do
_CLEAR = frozenset(
    "com org net edu gov mil int info biz app dev xyz online site shop top icu".split()  # noqa: SIM905
)

# what stands right before four numbers that are no address
_VERSION = LinearRegex(
    r"(?:\b(?:v|ver|version|versions|release|build|firmware|section|sections|chapter|clause|verse|update|patch|rev|"
    r"revision|kernel|driver) ?|[$€£¥])$"
)

_FOREIGN = byte_table({" ": LETTER + DIGIT + NUMBER + SIGN, ".": "."}, "x")

# what each IP address has one of: digits, also in percent signs, and the bracket of those of version 6
_IN_ADDRESSES = frozenset(string.digits + "%[")

_NEAR = 16
_SHORTEST_PORT = 2  # characters of a colon and a digit; a port that counts without a scheme has more
_MOST_PUBLIC = 5  # labels of an ending under which one can register, at most
_INITIALS = 4  # characters of a host up to which it is rather initials, such as ``a.va``

# what makes an address of e-mail of a spelled domain behind it
_MAIL_SIGNS = ("@", "@ ", "(at) ", "[at] ", "{at} ")


class Link(NamedTuple):
    """A link in a text; its host is None where no browser would read it."""

    start: int
    end: int
    host: Host | None
    likely: bool = True  # what only some programs would link counts against denied hosts alone


@cache
def _public_suffixes() -> Mapping[str, int]:
    """Endings (ICANN's in https://publicsuffix.org/list), with labels that registering takes beyond theirs."""
    from publicsuffixlist import PSLFILE

    text = to_path(PSLFILE).read_text(encoding="utf-8")
    rules = text.partition("===BEGIN ICANN DOMAINS===")[2].partition("// ===END ICANN DOMAINS===")[0].split("\n")
    names = [rule.strip() for rule in rules if rule.strip() and not rule.startswith("//")]
    exact = dict.fromkeys(names, 0)
    wild = {name[2:]: 1 for name in names if name.startswith("*.")}
    return {**exact, **wild, **{name[1:]: -1 for name in names if name.startswith("!")}}


class Links:
    """Finds links with any scheme, without one (``evil.com/x``), and defanged (``evil[.]com``), in linear time."""

    def __init__(self, domains: Iterable[str], *, only_addresses: bool = False) -> None:
        self._only_addresses = only_addresses
        self._suffixes = _public_suffixes()
        self._private = lru_cache(maxsize=4096)(self._private_part)
        self._domains = frozenset(domains)
        self._endings = frozenset(domain.rpartition(".")[2] for domain in self._domains)

    def registrable(self, name: str) -> str | None:
        """The part of a host that someone registered, such as ``example.co.uk``; None if it is unknown."""
        found = self._private(name)
        if found is None and name.rpartition(".")[2] in self._endings:
            return ".".join(name.split(".")[-2:])
        return found

    def _private_part(self, name: str) -> str | None:
        """The part of a host that someone registered, by the Public Suffix List alone."""
        labels = name.split(".")
        for count in range(min(len(labels), _MOST_PUBLIC), 0, -1):
            more = self._suffixes.get(".".join(labels[-count:]))
            if more is not None:
                return ".".join(labels[-count - more - 1 :]) if count + more < len(labels) else None
        return None

    def find(self, given: TextReading) -> Iterator[Link]:
        """The links in a text in the form of hosts (`HOST_FORM`): spelled ones, those with a scheme, the rest."""
        lower, shapes = given.plain, given.shapes
        if "spelled" in shapes and self._domains:
            yield from self._spelled(lower)
        for written, plain in _DEFANGED.items():
            if written in lower:
                lower = lower.replace(written, plain)
        text = LinkText(lower)
        covered: list[tuple[int, int]] = []
        openings = list(text.openings()) if "scheme" in shapes else []
        for index, (start, rest) in enumerate(openings):
            if covered and start < covered[-1][1] and lower[start - 1] in _INSIDE_LINK:
                continue
            limit = openings[index + 1][0] if index + 1 < len(openings) else len(lower)
            for link in self._with_scheme(text, start, rest, min(text.authority_end(rest), limit)):
                covered.append((start, max(link.end, covered[-1][1] if covered else 0)))
                yield link
        if "bare" in shapes or covered:
            yield from self._without_scheme(text, covered)

    def _spelled(self, lower: str) -> Iterator[Link]:
        """The listed domains whose full stops are spelled, such as ``evil dot example``."""
        for written, plain in _SPELLED.items():
            lower = lower.replace(written, plain)
        for first, stop in LinkText(lower).runs():
            written = lower[first:stop].strip(_EDGES)
            if _FILL not in written or lower.endswith(_MAIL_SIGNS, 0, first):
                continue
            host = read_host(written.replace(_FILL, "")) if len(written) <= _LONGEST_HOST else None
            if host is not None and self._is_listed(host, written):
                start = lower.find(written, first)
                yield Link(start, start + len(written), host, likely=False)

    def _with_scheme(self, text: LinkText, start: int, rest: int, end: int) -> Iterator[Link]:
        """What a link may lead to that starts at `start`; its users, host and port stand from `rest` to `end`."""
        region = text.plain[rest:end]
        if not region.strip(_EDGES) or (self._only_addresses and _IN_ADDRESSES.isdisjoint(region)):
            return
        found: list[Link] = []
        behind = rest
        parts = region.split("@")
        for index, part in enumerate(parts):
            first, behind = behind, behind + len(part) + 1
            stop = text.host_end(first, behind - 1)
            is_user = index < len(parts) - 1 and (stop == behind - 1 or text.plain[stop] == ":")
            if stop > first and not is_user:
                found += self._readings(text, start, first, stop, anchored=True)
        if found and text.port_end(stop) == end:
            yield from found
            return
        host = read_authority(region.replace(_FILL, ""))
        if host is not None and self._is_public(host):
            found.append(Link(start, text.link_end(end), host))
        if not found:
            first = end - len(parts[-1])
            stop = text.host_end(first, end)
            own = read_host(text.plain[first:stop].replace(_FILL, ""))
            found.append(Link(start, text.link_end(stop if own else end), own or host))
        yield from found

    def _without_scheme(self, text: LinkText, covered: list[tuple[int, int]]) -> Iterator[Link]:
        index = behind = 0
        for first, last in text.runs():
            while index < len(covered) and covered[index][0] < last:
                behind = max(behind, covered[index][1])
                index += 1
            at = max(first, behind)
            while at < last:
                stop = text.plain.find("..", at, last)
                stop = last if stop < 0 else stop
                for link in self._bare(text, at, stop) if "." in text.plain[at:stop] else ():
                    behind = max(behind, link.end)
                    yield link
                at = stop + 2

    def _bare(self, text: LinkText, first: int, stop: int) -> Iterator[Link]:
        """The link that a run of host characters is, if it is one."""
        plain = text.plain
        run = plain[first:stop].rstrip(_EDGES)
        stop = first + len(run)
        run = run.lstrip(_EDGES)
        first = stop - len(run)
        if not run or plain.startswith("@", stop):
            return
        start, has_path = first, text.has_path(stop)
        if (
            not has_path
            and plain[stop : stop + 1] != ":"
            and run.rpartition(".")[2].isdecimal()
            and run not in self._domains
        ):
            return  # numbers are no address
        if first and plain[first - 1] == "@":
            if not has_path:
                return  # an address of e-mail
            before = plain[max(0, first - 1 - _LONGEST_USER) : first - 1]
            start -= 1 + len(before) - len(before.rstrip(_USER))
        likely = _is_free(plain, first, stop) and "._" not in run
        for link in self._readings(text, start, first, stop):
            if link.host is None:
                continue
            is_link = link.host.is_ip and _is_address(plain, first, stop, link.host, text.port_end(stop))
            if likely and link.likely and (is_link or self._is_known(link.host, has_path)):
                yield link
            elif self._is_listed(link.host, run):
                yield link._replace(likely=False)

    def _readings(self, text: LinkText, start: int, first: int, stop: int, anchored: bool = False) -> list[Link]:
        """What a run of host characters leads to: whole, and in Latin letters; `anchored`: a host begins there."""
        written = text.plain[first:stop]
        if self._only_addresses and _IN_ADDRESSES.isdisjoint(written):
            return []
        whole = read_host(written.replace(_FILL, "").strip(".")) if len(written) <= _LONGEST_HOST else None
        known = whole is not None and self._is_public(whole)
        found = [Link(start, text.link_end(stop), whole)] if known else []
        if written.isascii():
            return found
        for begin, end in _latin(written):
            if (begin and anchored) or (begin, end) == (0, len(written)):
                continue
            host = read_host(written[begin:end].replace(_FILL, "").strip(_EDGES))
            if host is not None and not host.is_ip and self._is_public(host):
                behind = text.link_end(stop) if end == len(written) else first + end
                found.append(Link(first + begin if begin else start, behind, host, likely=not known))
        return found

    def _is_public(self, host: Host) -> bool:
        return host.is_ip or self.registrable(host.name) is not None or host.name in self._domains

    def _is_known(self, host: Host, has_path: bool) -> bool:
        """Whether a host without a scheme is meant as one."""
        ending = host.name.rpartition(".")[2]
        ambiguous = _is_ambiguous(ending)
        if host.name in self._domains or (ending in self._endings and not ambiguous):
            return True
        if host.is_ip or self._private(host.name) is None:
            return False
        if has_path or host.name.startswith("www."):
            return True
        return not ambiguous and (len(host.name) > _INITIALS or ending == "com" or not host.name.isascii())

    def _is_listed(self, host: Host, written: str) -> bool:
        if host.is_ip:
            return host.name in self._domains and written == host.name
        labels = host.name.split(".")
        return any(".".join(labels[at:]) in self._domains for at in range(len(labels) - 1))


def _is_free(plain: str, first: int, stop: int) -> bool:
    """Whether a host stands by itself: not in a path, a longer name or a call."""
    before, behind = plain[first - 1 : first], plain[stop : stop + 1]
    if behind == "(":
        return False
    if before in (".", ":"):
        return (plain[first - 2 : first - 1] == before) is (before == ".")
    if before == "_":
        return behind == "_"
    return before not in ("/", "\\", "-", _FILL)


def _latin(text: str) -> Iterator[tuple[int, int]]:
    """The stretches of a text in Latin letters, digits and marks that hold a full stop."""
    plain = kinds_of(text).translate(_FOREIGN)
    at = 0
    for word in plain.split():
        first = plain.find(word, at)
        at = first + len(word)
        if b"." in word:
            yield first, at


def _is_address(plain: str, first: int, stop: int, host: Host, port_end: int) -> bool:
    """Whether four decimal numbers are an address with a port or path; digits there make it a network."""
    if (
        plain[first:stop].replace(_FILL, "") != host.name
        or _VERSION.search(plain[max(0, first - _NEAR) : first]) is not None
    ):
        return False
    if port_end - stop > _SHORTEST_PORT:
        return True
    path = plain[port_end : port_end + 2]
    return path[:1] in ("/", "?", "#") and not path[1:].isdigit()


def _is_ambiguous(ending: str) -> bool:
    """Whether an ending is a word, a method or a kind of file more often than that of a domain."""
    plain = ending in _CLEAR or not ending.isascii() or (len(ending) == 2 and ending.isalpha())
    return ending in _WORDS or not plain
