"""How hard the prose of a page is to read: its Flesch-Kincaid grade, the school year that follows it with ease.

python -m documentation.readability PAGE...  # prints the grade of each page
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LEFT_OUT = re.compile(r"^```.*?^```$|^\|[^\n]*$|^#[^\n]*$|<!--.*?-->", flags=re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ENDS = re.compile(r"[.!?](?=\W*(?:\s|$))|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")
_WORD = re.compile(r"[A-Za-z][A-Za-z'’]*|\d[\d.,]*")
_VOWELS = re.compile(r"[aeiouy]+")
_APART = re.compile(
    r"(?<![cgqstx])ia|io(?![nu])|(?<![cgtx])iou|ie[nt]|(?<!p)eo|(?<![gq])ua[lt]|[aeouy]ing\b|\b(?:id|ar)ea|\bcreat"
)  # vowels side by side that are two syllables
_SILENT = re.compile(r"(?<![^aeiouy]l)e$|(?<![dt])ed$|(?<![cgsxz])(?<![^aeiouy]l)(?<![sc]h)es$")


def prose(page: str) -> str:
    """Return what is read aloud of a Markdown page: no blocks of code, tables, headings or addresses of links."""
    return _LINK.sub(r"\1", _LEFT_OUT.sub("\n\n", page))


def grade(page: str) -> float:
    """Return the Flesch-Kincaid grade of a Markdown page (Kincaid et al. 1975); most adults read 9 with ease.

    >>> round(grade("You run it. It tells you which of the turns is bad."), 1)
    -1.4
    """
    text = prose(page)
    sentences = [part for part in _ENDS.split(text) if _WORD.search(part)]
    words = _WORD.findall(text)
    if not words:
        raise ValueError("there is no prose on the page")
    return 0.39 * len(words) / len(sentences) + 11.8 * sum(map(syllables, words)) / len(words) - 15.59


def syllables(word: str) -> int:
    """Return how many syllables an English word has: its groups of vowels, but for silent ones.

    >>> [syllables(word) for word in ("turn", "scored", "people", "conversation", "idea", "tables", "principle")]
    [1, 1, 2, 4, 3, 2, 3]
    """
    plain = word.lower().replace("’", "'").removesuffix("'s")
    said = len(_VOWELS.findall(plain)) + len(_APART.findall(plain))
    return max(1, said - len(_SILENT.findall(plain)))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{grade(Path(name).read_text(encoding='utf-8')):5.1f}  {name}")
