"""Words near a number that tell what it is."""

from __future__ import annotations

import re

BEFORE = 48
"""Characters before a number in which its words are looked for."""

AFTER = 24
"""Characters behind it."""

JUDGED = 1_000
"""Numbers of a kind in a text whose near words are read; those beyond them count by their form alone."""

OTHER_NUMBERS = (
    r"order|invoice|tracking|shipment|shipping|parcel|package|waybill|ticket|case|claim|reference|ref|part|item|"
    r"product|sku|model|serial|batch|lot|isbn|issn|ean|upc|gtin|doi|barcode|booking|reservation|confirmation|"
    r"transaction|receipt|quote|po|version|build|commit|revision|release|firmware|coordinates|latitude|longitude|"
    r"gps|timestamp|epoch|unix|checksum|hash|bestellung|bestellnummer|auftrag|rechnung|commande|facture|pedido|"
    r"factura"
)
"""Words, as a regular expression, that name a number which is nobody's own."""


class NearWords:
    """Tells by the words around a number whether it is of one kind.

    The nearest word before it decides; without one, a word behind it may speak for the kind.

    Args:
        speaks_for: words that name the kind, as a regular expression in lower case.
        against: the same for words that name another.

    >>> near = NearWords("card|visa", "order")
    >>> near.judge("order, card 4111", 12, 16), near.judge("order 4111", 6, 10), near.judge("a 4", 2, 3)
    (True, False, None)
    """

    def __init__(self, speaks_for: str, against: str = OTHER_NUMBERS) -> None:
        self._either = re.compile(rf"(?<![^\W_])(?:(?P<kind>{speaks_for})|(?P<other>{against}))(?![^\W_])")

    def judge(self, lower: str, start: int, end: int) -> bool | None:
        """Return whether the words speak for the kind, against it, or neither.

        Args:
            lower: the text in lower case.
            start: where the number starts.
            end: where it ends.
        """
        nearest = None
        for match in self._either.finditer(lower, max(0, start - BEFORE), start):
            nearest = match.lastgroup
        if nearest is None:
            following = self._either.search(lower, end, end + AFTER)
            return True if following is not None and following.lastgroup == "kind" else None
        return nearest == "kind"
