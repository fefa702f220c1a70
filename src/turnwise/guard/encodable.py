"""Texts that every file, model and recogniser takes."""

from __future__ import annotations


def encodable(text: str) -> str:
    """Return a text as it is; halves of surrogate pairs, which UTF-8 does not have, become U+FFFD.

    >>> encodable("a\\ud800b")
    'a\ufffdb'
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
