"""Orders that come in parts: texts of a speaker joined, their quoted and named pieces, and what fills blanks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from turnwise.guard.finding import CLEAN, Action, Finding
from turnwise.guard.guardrail import Check
from turnwise.guard.recognisers.earlier_texts import EarlierText, ends_of, over_turns, with_earlier
from turnwise.guard.recognisers.patterns import PatternTable
from turnwise.guard.recognisers.value_parts import place_of
from turnwise.linear_regex import LinearRegex

_TABLE = PatternTable("split_orders.yaml")
_MOST: Final = 2_000  # characters of a join, at most; of a longer one the end
_LONGEST_PIECE: Final = 400  # characters of a text that is joined as it is, and of a piece
_BRIEF: Final = 80  # characters of texts of which a join deserves a warning, each at most
_NEAR: Final = 4  # texts, of which one has a word of an order, that one without any may go on with

# what a text has, and what one behind it, that together give an order
_PAIRS: Final = (("topic", "done"), ("role", "free"), ("free", "role"))

_PERHAPS: Final = "perhaps an order to the model against its instructions"
_SPOKEN_OF: Final = 0.7  # how sure such an order is
_NAME = LinearRegex(r"\w{1,16}")

FindOrders = Callable[[str], Finding]  # what the words of a text say


class _Join(NamedTuple):
    """Texts joined; `pieced` where words or marks say that they belong together, `bare` without introductions."""

    text: str
    parts: Sequence[EarlierText]
    pieced: bool
    bare: bool = False


def orders_over_turns(
    check: Check, most: int, find: FindOrders, find_fully: FindOrders, alone: Finding
) -> Finding:
    """The order that a text completes or has carried out; `find` looks at words, `find_fully` takes longer."""
    ends = ends_of(check.text)
    carried = _TABLE["carry_out"].search(ends) is not None
    hinted = _TABLE["hint"].search(ends) is not None
    texts = with_earlier(check, most) if carried or hinted or len(ends) <= _LONGEST_PIECE else ()
    near = texts[:-1] if carried or hinted else texts[-_NEAR:-1]
    if not any(map(_hints, near)):
        return _spoken_of(texts or with_earlier(check, most)) if len(ends) <= _LONGEST_PIECE else CLEAN
    current = texts[-1]
    current.made[find] = alone
    warning = CLEAN
    for join in _joins(texts, carried=carried):
        ordered = join.pieced and carried
        found = (find_fully if ordered else find)(join.text)
        if not found.found and not any(map(_mentions, texts)) and _passes_over(join):
            found = Finding(True, _PERHAPS, _SPOKEN_OF, action=Action.WARN)
        brief = all(len(said.text) <= _BRIEF for said in join.parts)
        if not found.found or (not found.in_full and (warning.found or not (ordered or brief))):
            continue
        if any(said.once(find).in_full for said in join.parts):
            continue
        before = [said for said in join.parts if said is not current]
        if len(before) > 1 and not ordered and find(_text_of(before)).in_full:
            continue
        if not carried:
            by_phrase = bool((found.data or {}).get("phrases"))
            mentioned = any(map(_mentions, texts))
            if mentioned and not by_phrase:
                continue
            if mentioned or (not by_phrase and (join.bare or any(map(_quoted, join.parts)))):
                found = replace(found, action=Action.WARN)
        over, told = over_turns("order", before, current)
        data = {**(found.data or {}), "over_turns": [over]}
        warning = replace(found, reason=f"{found.reason} {told}", data=data)
        if warning.in_full and warning.action is None:
            return warning
    return warning if warning.found else _spoken_of(texts)


def _spoken_of(texts: Sequence[EarlierText]) -> Finding:
    """The order that a text gives by a word such as "it" for what one shortly before it named."""
    current = texts[-1] if texts else None
    if current is None or not any(_says_briefly(current, other) for _, other in _PAIRS):
        return CLEAN
    near = texts[-1 - _NEAR :]
    for said in near[-2::-1] if not any(map(_mentions, near)) else ():
        for one, other in _PAIRS:
            if (
                _says_briefly(said, one)
                and _says_briefly(current, other)
                and not (_says_briefly(said, other) and _says_briefly(current, one))
            ):
                over, told = over_turns("order", [said], current)
                data = {"over_turns": [over]}
                return Finding(True, f"{_PERHAPS} {told}", _SPOKEN_OF, action=Action.WARN, data=data)
    return CLEAN


def _passes_over(join: _Join) -> bool:
    """Whether only the join orders to pass over rules, or those who are to be heard."""
    pattern = "passes_over"
    return _TABLE[pattern].search(join.text) is not None and not any(
        _says_briefly(said, pattern) for said in join.parts
    )


def _says(said: EarlierText, name: str) -> bool:
    """Whether a text has what a pattern of the table names, such as any word of an order (``hint``)."""
    return said.once(lambda text: _TABLE[name].search(text) is not None, name)


def _says_briefly(said: EarlierText, name: str) -> bool:
    return len(said.text) <= _LONGEST_PIECE and _says(said, name)


def _hints(said: EarlierText) -> bool:
    return _says(said, "hint")


def _mentions(said: EarlierText) -> bool:
    """Whether a text says that what is in pieces is a text to write, correct or teach with."""
    return _says(said, "mention")


def _text_of(texts: Sequence[EarlierText]) -> str:
    return " ".join(_piece(said) for said in texts)[-_MOST:]


def _joins(texts: Sequence[EarlierText], *, carried: bool) -> Iterator[_Join]:
    """Texts joined in the ways in which people part an order, each once."""
    seen: set[str] = set()
    for join in (
        *_by_name(texts),
        *_in_blanks(texts),
        *_pieces_in_order(texts, carried=carried),
        *_as_they_are(texts),
    ):
        text = join.text[-_MOST:]
        if text not in seen and len(join.parts) > 1:
            seen.add(text)
            yield join._replace(text=text)


def _quoted(said: EarlierText) -> Sequence[tuple[int, int, str]]:
    """What stands in quotation marks: where, and what."""

    def read(text: str) -> list[tuple[int, int, str]]:
        found = []
        for (start, end), *groups in _TABLE["quoted"].spans(text):
            first, last = max(groups)
            found.append((start, end, text[first:last].strip()))
        return found

    return said.once(read, "quoted")


def _piece(said: EarlierText) -> str:
    """A text without the label that says which part it is, and without the dots where it breaks off."""

    def read(text: str) -> str:
        label = _TABLE["labelled"].match(text)
        text = text[label.end :] if label else text
        return _without_aside(text).strip()

    return said.once(read, "piece")


def _without_aside(text: str) -> str:
    aside = _TABLE["aside"].search(text)
    return _TABLE["dots"].sub(lambda _: "", text[: aside.start] if aside else text)


def _bare(said: EarlierText) -> str:
    """What a text hands on: its quoted pieces, or what stands behind its first colon, without labels and dots."""

    def read(text: str) -> str:
        quoted = [word for _, _, word in _quoted(said)]
        introduced = _TABLE["introduced"].match(text)
        rest = text[introduced.end :] if introduced else text
        if quoted and not (introduced and _TABLE["hint"].search(rest) and '"' not in rest):
            rest = " ".join(quoted)
        again = _TABLE["labelled"].match(rest) or _TABLE["introduced"].match(rest)
        rest = rest[again.end :] if again else rest
        return _without_aside(rest).strip(" \"“”„'")

    return said.once(read, "bare")


def _pieces_in_order(texts: Sequence[EarlierText], *, carried: bool) -> Iterator[_Join]:
    """Quoted pieces, and labelled ones beside them, in order or as words of beginning and end say."""
    labelled = [said for said in texts if _quoted(said) or _piece(said) != said.text or said is texts[-1]]
    quoted = [said for said in texts if _quoted(said)]
    for some in (quoted, labelled):
        if len(some) < 2 or not (some[-1] is texts[-1] or carried):
            continue
        orders = [some]
        places = [said.once(place_of) for said in some]
        if any(places):
            orders.append([said for _, said in sorted(zip(places, some, strict=True), key=lambda one: one[0])])
        if places[0] > 0:
            orders.append(some[::-1])
        for order in orders:
            parts = [[each[2] for each in _quoted(said)] or [_piece(said)] for said in order]
            yield _Join(" ".join(word for each in parts for word in each), some, True)


def _as_they_are(texts: Sequence[EarlierText]) -> Iterator[_Join]:
    """The last short texts, all of them, and those with words of an order."""
    short = [said for said in texts if len(said.text) <= _LONGEST_PIECE]
    if not short or short[-1] is not texts[-1]:
        return
    hinted = [said for said in short if _hints(said) or said is texts[-1]]
    since = next((at for at, said in enumerate(short) if _hints(said)), 0)
    for some in (short[-2:], short[-3:], hinted, short[since:], short):
        yield _Join(_text_of(some), some, False)
        yield _Join(" ".join(map(_bare, some)), some, False, True)


def _by_name(texts: Sequence[EarlierText]) -> Iterator[_Join]:
    """Pieces that were given names, as the last text names them again."""
    names: dict[str, tuple[str, EarlierText]] = {}
    current = texts[-1]
    defined: list[tuple[int, int]] = []
    for said in texts:
        for (start, end), name, *groups in _TABLE["named"].spans(ends_of(said.text)):
            first, last = max(groups)
            names[_key(ends_of(said.text)[slice(*name)])] = ends_of(said.text)[first:last].strip(), said
            if said is current:
                defined.append((start, end))
    if len(names) < 2:
        return
    words: list[str] = []
    used: list[EarlierText] = []
    text = ends_of(current.text)
    literal = {start: (end, word) for start, end, word in _quoted(current)}
    at = 0
    for match in (*_NAME.finditer(text),):
        if match.start < at or any(start <= match.start < end for start, end in defined):
            continue
        before = match.start - 1
        if before in literal:
            at, word = literal[before]
            words.append(word)
        elif (known := names.get(_key(match[0]))) is not None:
            words.append(known[0])
            used.append(known[1])
    if len(used) > 1:
        yield _Join(" ".join(words), [*dict.fromkeys((*used, current))], True)


def _key(name: str) -> str:
    """A name as it is looked up; a single letter by its case, since "a" is a word."""
    return name if len(name) == 1 else name.lower()


def _in_blanks(texts: Sequence[EarlierText]) -> Iterator[_Join]:
    """A text with blanks, filled with the quoted pieces before it."""
    parts = _TABLE["blank"].search(ends_of(texts[-1].text)) and ends_of(texts[-1].text).replace(
        "____", "___"
    ).split("___")
    pieces = [(word, said) for said in texts[:-1] for _, _, word in _quoted(said)]
    if parts and len(pieces) >= len(parts) - 1 > 1:
        filled = [parts[0]]
        for (word, _), part in zip(pieces, parts[1:], strict=False):
            filled += [word, part]
        yield _Join("".join(filled), [*dict.fromkeys((*(said for _, said in pieces), texts[-1]))], True)
