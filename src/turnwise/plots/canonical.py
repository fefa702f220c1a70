"""Drawings whose bytes depend on the drawing alone: SVG numbered anew, PDF in one order."""

from __future__ import annotations

import re

from turnwise.linear_regex import LinearRegex, Match

_OBJECT = re.compile(rb"(\d+) 0 obj\n")
_LENGTH = re.compile(rb"/Length (\d+)")
_REFERENCE = re.compile(rb"(?<![\d.])(\d+) 0 R\b")
_NAMED_REFERENCES = re.compile(rb"(?:^ +/[A-Za-z]+\d+ \d+ 0 R\n){2,}", re.MULTILINE)
_ROOT = re.compile(rb"/Root (\d+) 0 R")
_STREAM = b"\nstream\n"
_END = b"\nendobj\n"


def canonical(pdf: bytes) -> bytes:
    """A PDF of `vl_convert.svg_to_pdf` with its resources sorted and its objects numbered in order of reference.

    The writer behind vl-convert keeps fonts and other resources in hash tables, so that the same drawing comes out
    with other numbers at each call. A file that is not of its simple form (whole objects, no object streams, one
    table of offsets; ISO 32000-1, sections 7.3.10 and 7.5) is returned as it is.
    """
    root = _ROOT.search(pdf)
    objects = _objects(pdf)
    if root is None or int(root[1]) not in objects:
        return pdf
    numbers: dict[int, int] = {}
    waiting = [int(root[1])]
    while waiting:
        number = waiting.pop(0)
        if number in numbers or number not in objects:
            continue
        numbers[number] = len(numbers) + 1
        waiting += [int(found) for found in _REFERENCE.findall(_head(objects[number]))]
    header = pdf[: pdf.index(b"\n\n") + 2]
    return _written(header, objects, numbers)


def _objects(pdf: bytes) -> dict[int, bytes]:
    """What stands in each object; a stream is skipped by its length, for it may hold anything."""
    found: dict[int, bytes] = {}
    place = 0
    while match := _OBJECT.search(pdf, place):
        begin = match.end()
        end = pdf.find(_END, begin)
        stream = pdf.find(_STREAM, begin)
        if 0 <= stream < end:
            length = _LENGTH.search(pdf, begin, stream)
            if length is None:
                return {}
            end = pdf.find(_END, stream + len(_STREAM) + int(length[1]))
        if end < 0:
            return {}
        content = pdf[begin:end]
        head = _head(content)
        ordered = _NAMED_REFERENCES.sub(lambda run: b"".join(sorted(run[0].splitlines(keepends=True))), head)
        found[int(match[1])] = ordered + content[len(head) :]
        place = end + len(_END)
    return found


def _head(content: bytes) -> bytes:
    """The part of an object before its stream."""
    place = content.find(_STREAM)
    return content if place < 0 else content[:place]


def _written(header: bytes, objects: dict[int, bytes], numbers: dict[int, int]) -> bytes:
    def renumbered(found: re.Match[bytes]) -> bytes:
        return b"%d 0 R" % numbers.get(int(found[1]), int(found[1]))

    made = bytearray(header)
    offsets = []
    for number, new in numbers.items():
        content = objects[number]
        head = _head(content)
        offsets.append(len(made))
        made += b"%d 0 obj\n" % new + _REFERENCE.sub(renumbered, head) + content[len(head) :] + _END + b"\n"
    table = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f\r\n" % (len(offsets) + 1)
    made += b"".join(b"%010d 00000 n\r\n" % offset for offset in offsets)
    made += b"trailer\n<<\n  /Size %d\n  /Root 1 0 R\n>>\nstartxref\n%d\n%%%%EOF" % (len(offsets) + 1, table)
    return bytes(made)


_NUMBERED = LinearRegex(r'(\bid="|url\(#)((clip|gradient_)\d+)("|\))')


def numbered_anew(svg: str) -> str:
    """A drawing with its clipping regions and gradients numbered from 1.

    >>> numbered_anew('<clipPath id="clip17"></clipPath><g clip-path="url(#clip17)"/><g clip-path="url(#clip9)"/>')
    '<clipPath id="clip1"></clipPath><g clip-path="url(#clip1)"/><g clip-path="url(#clip2)"/>'
    """
    names: dict[str, str] = {}

    def renamed(found: Match) -> str:
        return found[1] + names.setdefault(found[2], f"{found[3]}{len(names) + 1}") + found[4]

    return _NUMBERED.sub(renamed, svg)
