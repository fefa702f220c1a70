"""Words for digits and for numbers below a hundred, in the languages in which people spell numbers out.

Each stands with and without its accents.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final


def _values(lines: Sequence[str], first: int) -> Mapping[str, int]:
    """Words in lines that all count from `first`; of a word in several lines the earliest counts."""
    found: dict[str, int] = {}
    for line in lines:
        for value, word in enumerate(line.split(), first):
            plain = unicodedata.normalize("NFD", word).encode("ascii", "ignore").decode() or word
            found.setdefault(word, value)
            found.setdefault(plain, value)
    return found


# words for 0 to 9
DIGITS: Final = _values(
    (
        "zero one two three four five six seven eight nine",
        "oh one two three four fife six seven eight niner",
        "null eins zwei drei vier fünf sechs sieben acht neun",
        "nought ein zwo drei vier fuenf sechs sieben acht neun",
        "cero uno dos tres cuatro cinco seis siete ocho nueve",
        "zéro un deux trois quatre cinq six sept huit neuf",
        "zero uno due tre quattro cinque sei sette otto nove",
        "zero um dois três quatro cinco seis sete oito nove",
        "nul een twee drie vier vijf zes zeven acht negen",
        "零 一 二 三 四 五 六 七 八 九",
        "〇 壹 贰 叁 肆 伍 陆 柒 捌 玖",
    ),
    0,
)

# words for 10 to 19
TEENS: Final = _values(
    (
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
        "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
        "dix onze douze treize quatorze quinze seize",
    ),
    10,
)

# words for 20 to 90, by their first digit
TENS: Final = _values(
    (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    ),
    2,
)

# how often the digit behind such a word is meant
TIMES: Final = {"double": 2, "twice": 2, "doppel": 2, "doble": 2, "triple": 3, "treble": 3}
