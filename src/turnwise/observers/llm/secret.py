"""A key that shows itself nowhere but where it is used."""

from __future__ import annotations

import base64
import re
from urllib.parse import quote

from turnwise.errors import ObserverError

HIDDEN = "[key]"
_SHORTEST = 6
"""Characters below which a key is a placeholder such as ``none``, and no secret that a text could give away."""

_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+|%20)[^\s\"',;<>}\]]{6,}")


class Secret:
    """Holds a key; `reveal` gives it, nothing else does.

    Args:
        value: the key; white space around it is dropped.
        source: where it is from, for messages, such as ``"OPENAI_API_KEY"``.

    Raises:
        ObserverError: characters that no header can carry.

    >>> Secret("sk-12345678", "OPENAI_API_KEY")
    Secret(OPENAI_API_KEY)
    >>> Secret("sk-12345678", "OPENAI_API_KEY").hide("you sent 'Bearer sk-12345678'")
    "you sent 'Bearer [key]'"
    """

    __slots__ = ("__value", "_forms", "_source")

    def __init__(self, value: str, source: str) -> None:
        self.__value = value.strip()
        self._source = source
        if not re.fullmatch(r"[\x21-\x7e]*", self.__value):
            raise ObserverError(f"{source} holds characters that no key has, such as a space or a line end")
        raw = self.__value.encode()
        forms = {self.__value, quote(self.__value, safe=""), base64.b64encode(raw).decode()}
        self._forms = sorted(forms, key=len, reverse=True) if len(self.__value) >= _SHORTEST else []

    def reveal(self) -> str:
        """Return the key."""
        return self.__value

    def hide(self, text: str) -> str:
        """Return a text without the key, plain or encoded, and without any other credential of a header."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return _BEARER.sub(rf"\1\2{HIDDEN}", text)

    def __repr__(self) -> str:
        return f"Secret({self._source})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled")
