"""A key that shows itself nowhere but where it is used, and errors of foreign code told without any."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping

from turnwise._support.visible import shortened, visible
from turnwise.errors import ObserverError
from turnwise.linear_regex import SPACE, LinearRegex, Match

HIDDEN = "[key]"
# characters below which a key is a placeholder such as ``none``, and no secret that a text could give away
_SHORTEST = 6

_ROUNDS = 8  # how often an encoding is undone that may be wrapped around another
_ESCAPE = LinearRegex(
    r"(?i)\\(?:u(?:0000)?00|x)[0-9a-f]{2}"  # of JSON and programs: \u0073, \x73
    r"|%[0-9a-f]{2}"  # of URLs: %73
    r"|&#(?:x0{0,6}[0-9a-f]{2}|0{0,6}[0-9]{2,3});"  # of pages: &#x73; &#115;
    r"|&amp;"  # of pages, around another
)

_BEARER = LinearRegex(rf"(?i)\b((?:bearer|basic)(?:[{SPACE}]+|%20))[^{SPACE}\"',;<>}}\]]{{6,}}")

# words in the names of environment variables that hold secrets
_NAMED = frozenset({"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"})

_LEAST = 8  # characters that a secret of the environment has at least; what is shorter is a number or a switch
_USER = LinearRegex(rf"://[^{SPACE}/@]+@")  # user and password in a URL
_CREDENTIALS = (
    LinearRegex(
        rf"(?i)((?:api[-_ ]?key|token|secret|passw(?:or)?d|signature)[\"']?[{SPACE}]*[=:][{SPACE}]*[\"']?)"
        rf"[^{SPACE}\"'&,;]*[0-9][^{SPACE}\"'&,;]*"
    ),
    LinearRegex(r"\b(sk-|pk-|hf_|gh[opsu]_|github_pat_|xox[abp]-|glpat-|AKIA|AIza)[A-Za-z0-9_-]{12,}"),
)

_TOLD = 300  # characters of an error of foreign code that are told at most
_LOOKED_AT = 100_000  # characters of such an error that are looked at


def told(error: BaseException, environ: Mapping[str, str] = os.environ) -> str:
    """An error of foreign code in a short line, without values of secret variables or what looks like one.

    >>> told(ValueError("no answer\\nfrom https://me:pass@host?api_key=12345678"))
    'ValueError: no answer from https://[key]@host?api_key=[key]'
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - foreign code too
        text = ""
    if len(text) > _LOOKED_AT:  # a secret that is cut in two would not be found
        text = text[:_LOOKED_AT].rpartition(" ")[0]
    for name, value in environ.items():
        if len(value) >= _LEAST and value in text and not _NAMED.isdisjoint(name.upper().split("_")):
            text = text.replace(value, HIDDEN)
    text = _USER.sub(lambda _: f"://{HIDDEN}@", text)
    for credential in (_BEARER, *_CREDENTIALS):
        text = credential.sub(lambda found: f"{found[1]}{HIDDEN}", text)
    return f"{type(error).__name__}: {shortened(visible(' '.join(text.split())), _TOLD)}"


class Secret:
    """Holds a key; `reveal` gives it, nothing else does. `source` tells where it is from, for messages.

    >>> Secret("sk-12345678", "OPENAI_API_KEY")
    Secret(OPENAI_API_KEY)
    >>> Secret("sk-12345678", "OPENAI_API_KEY").hide("you sent 'Bearer sk-12345678'")
    "you sent 'Bearer [key]'"
    """

    __slots__ = ("__value", "_decoded", "_forms", "_source")

    def __init__(self, value: str, source: str) -> None:
        self.__value = value.strip()
        self._source = source
        if not all("!" <= mark <= "~" for mark in self.__value):
            raise ObserverError(f"{source} holds characters that no key has, such as a space or a line end")
        encoded = {
            encode(self.__value.encode()).decode().rstrip("=")
            for encode in (base64.b64encode, base64.urlsafe_b64encode)
        }
        forms = {self.__value, *encoded} if len(self.__value) >= _SHORTEST else set()
        self._forms = sorted(forms, key=len, reverse=True)
        self._decoded = [_decode(form) for form in self._forms]

    def reveal(self) -> str:
        return self.__value

    def hide(self, text: str) -> str:
        r"""Take the key, plain, encoded or escaped, out of a text; all of it where it can't be told where it is.

        >>> Secret("sk-12345678", "OPENAI_API_KEY").hide(r"you sent \u0073k-123%34567\u0038!")
        'you sent [key]!'
        """
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        if self._shows(text):
            for form in self._forms:
                text = LinearRegex("".join(map(_disguises, form))).sub(lambda _: HIDDEN, text)
            if self._shows(text):
                return HIDDEN
        return _BEARER.sub(lambda found: f"{found[1]}{HIDDEN}", text)

    def _shows(self, text: str) -> bool:
        decoded = _decode(text)
        return any(form in decoded for form in self._decoded)

    def __repr__(self) -> str:
        return f"Secret({self._source})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled")


def _decode(text: str) -> str:
    """Undo all escapes in a text, and those that come to light thereby; backslashes go too."""
    for _ in range(_ROUNDS):
        before, text = text, _ESCAPE.sub(_meant, text)
        if text == before:
            break
    return text.replace("\\", "")


def _meant(escape: Match) -> str:
    text = escape[0].lower()
    if text == "&amp;":
        return "&"
    if text.startswith("&#x"):
        return chr(int(text[3:-1], 16))
    return chr(int(text[2:-1])) if text.startswith("&#") else chr(int(text[-2:], 16))


def _disguises(mark: str) -> str:
    """A pattern for a character, plain or escaped."""
    code = ord(mark)
    digits = f"(?i:{code:02x})"
    return (
        rf"(?:\\{{0,8}}(?:\x{code:02x}|[uU](?:0000)?00{digits}|[xX]{digits})"
        rf"|%(?:25){{0,8}}{digits}|&(?:amp;){{0,8}}#(?:[xX]0{{0,6}}{digits}|0{{0,6}}{code});?)"
    )
