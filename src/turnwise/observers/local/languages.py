"""Which language a text is in, as far as that decides whether the embedded observers can read it."""

from __future__ import annotations

import string
import threading
import unicodedata
from collections.abc import Container, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

from turnwise.linear_regex import LinearRegex
from turnwise.observers.local.normalise import normalise

Run = list[str]

END = 1_000
"""Characters of the start and of the end of a text by which its language is told; the rest is looked at only
where that is another one."""

WORDS, LETTERS = 5, 25
"""Words and letters from which a text, or a passage of one, says which language it is in."""

SURE = 0.7
"""Probability of another language from which it counts."""

FEW_WORDS, FEW_LETTERS, CERTAIN = 4, 16, 0.97
"""Likewise of a text whose longer words are all unknown to the reader."""

KNOWN = 1 / 3
"""Share of a text's longer words in the reader's vocabulary above which it is read, whatever language it is in."""

PASSAGES = ((LETTERS, 0.5, 2, 0.5), (LETTERS, 0.8, 3, 0.0), (12, 0.5, 1, 0.9))
"""What makes 5 words in a row a passage that is read: letters, the share of its longer words in the vocabulary,
how many of those it has at least, and the probability of a language that is read. All of this was set on the train
splits of `benchmarks/languages.py`."""

RECENT = 32
"""Texts whose language is kept, since several guardrails ask about the same."""

_TELLING = 12
"""Letters from which `language_of` tells a language."""

_LONGER = 4
"""Letters of a word that says something."""

_LEAST = 2
"""Letters of a script that no read language has, from which a text is not read."""

_DENSE = 2
"""Letters that one of Chinese, Japanese or Korean counts for."""

_SCRIPTS = {
    "Arabic": "ar fa ps sd ur",
    "Armenian": "hy",
    "Bengali": "bn",
    "Cyrillic": "ru uk bg sr mk be kk ky mn tg",
    "Devanagari": "hi mr ne",
    "Ethiopic": "am",
    "Georgian": "ka",
    "Greek": "el",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han": "zh ja",
    "Hangul": "ko",
    "Hebrew": "he yi",
    "Hiragana": "ja",
    "Kannada": "kn",
    "Katakana": "ja",
    "Khmer": "km",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
}
"""Scripts and the languages that are written in them; all others are written in Latin letters."""

_OTHER_NAMES = {"iw": "he"}
UNKNOWN = "und"
"""Stands for a language that nobody can tell, as in BCP 47."""

_NO_WORDS = LinearRegex(
    r"(?s)```.*?(?:```|\z)|`[^`\n]*`|https?://\S+|www\.\S+|[!-~]*[@#\\/_<>{}=0-9][!-~]*|[!-~]{30,}"
)
"""Code, addresses, numbers, and rows of signs that are no words."""

_DENSE_LETTERS = LinearRegex(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]+")

_ASCII_LETTERS = str.maketrans({chr(sign): " " for sign in range(128) if chr(sign) not in string.ascii_letters})

_LOCK = threading.Lock()


class Languages:
    """Tells texts that a reader can read from those in other languages.

    A text of few words is read, and one that has a passage of 5 words in a language that is read. `read` are codes
    such as ``en``, `known` the lower-case words of the reader's vocabulary.

    >>> languages = Languages(["en"], {"what", "should", "people", "think", "about", "this"})
    >>> languages.unread("Что мне теперь с этим делать?"), languages.unread("何をすればいいですか")
    ('ru', 'ja')
    >>> languages.unread("What should people think about this: 何をすればいいですか") is None
    True
    """

    def __init__(self, read: Sequence[str], known: Container[str]) -> None:
        self._read = frozenset(read)
        self._known = known
        own = [script for script, users in _SCRIPTS.items() if not self._read.isdisjoint(users.split())]
        latin = self._read - {name for users in _SCRIPTS.values() for name in users.split()}
        self._latin = bool(latin)
        letters = "".join(rf"\p{{{script}}}" for script in (*own, *(["Latin"] if latin else [])))
        self._recent = lru_cache(RECENT)(self._other)  # of short texts and ends, so what is kept is bounded
        self._word = LinearRegex(rf"([{letters}][{letters}\pM'’]*)|[^{letters}\PL]+")

    def unread(self, text: str) -> str | None:
        """The language of a text that is not read, as in BCP 47, ``und`` where nobody can tell; else None."""
        if len(text) > 2 * END:
            return self._recent(f"{text[:END]}\n{text[-END:]}") and self._other(text)
        return self._recent(text)

    def _other(self, text: str) -> str | None:
        # What the observer reads is looked at: at most 16,000 characters, with what hides words undone.
        plain = normalise(text).text
        runs, strange = self._runs(_NO_WORDS.sub(lambda _: " ", plain))
        words = [word for run in runs for word in run]
        own, others = sum(map(len, words)), _weight(strange)
        if not words or own < others:
            return None if len(strange) < _LEAST or self._has_passage(plain) else _in_script(strange)
        enough = own >= LETTERS and len(words) >= WORDS
        if not enough and (own < FEW_LETTERS or len(words) < FEW_WORDS):
            return None
        share, _ = self._share(words)
        if share > (KNOWN if enough else 0.0):
            return None
        language, probability = _identify(" ".join(words))
        if language in self._read or probability < (SURE if enough else CERTAIN):
            return None
        return None if self._has_passage(plain) else language

    def _runs(self, text: str) -> tuple[list[Run], str]:
        """Rows of words in letters of languages that are read, and the letters of others between them."""
        if self._latin and text.isascii():
            return [text.translate(_ASCII_LETTERS).lower().split()], ""
        runs: list[Run] = [[]]
        strange: list[str] = []
        for whole, word in self._word.spans(text):
            if word[0] < 0:
                strange.append(text[slice(*whole)])
                runs.append([])
            else:
                runs[-1].append(text[slice(*word)].lower())
        return [run for run in runs if run], " ".join(strange)

    def _share(self, words: Sequence[str]) -> tuple[float, int]:
        """The share of longer words that the vocabulary has, and how many longer ones there are."""
        # Marks on the letters of English words don't make other ones of them.
        longer = [_without_marks(word) for word in words if len(word) >= _LONGER]
        return (sum(word in self._known for word in longer) / len(longer) if longer else 0.0), len(longer)

    def _has_passage(self, text: str) -> bool:
        """Whether some words in a row are in a language that is read, even in what looks like code."""
        runs, _ = self._runs(text)
        for letters, known, least, probability in PASSAGES:
            for words in (passage for run in runs for passage in _passages(run, letters)):
                share, longer = self._share(words)
                if share >= known and longer >= least:
                    said = " ".join(map(_without_marks, words))
                    language, found = _identify(said) if probability else ("", 0.0)
                    if not probability or (language in self._read and found >= probability):
                        return True
        return False


def _without_marks(word: str) -> str:
    if word.isascii():
        return word
    return "".join(sign for sign in unicodedata.normalize("NFD", word) if not unicodedata.combining(sign))


def _passages(run: Run, letters: int) -> Iterator[Run]:
    """The shortest passages of at least `WORDS` words and so many letters, from each word on."""
    for start in range(len(run)):
        end, found = start, 0
        while end < len(run) and (end - start < WORDS or found < letters):
            found += len(run[end])
            end += 1
        if end - start < WORDS or found < letters:
            return
        yield run[start:end]


def _weight(letters: str) -> int:
    """How much letters say; those of Chinese, Japanese and Korean count double."""
    dense = sum(end - start for ((start, end),) in _DENSE_LETTERS.spans(letters))
    return len(letters) - letters.count(" ") + (_DENSE - 1) * dense


def _in_script(letters: str) -> str:
    """The likeliest language of letters, of those that are written so."""
    script = unicodedata.name(letters[0], "").partition(" ")[0].capitalize()
    users = _SCRIPTS.get("Han" if script == "Cjk" else script, UNKNOWN).split()
    language, _ = _identify(letters)
    return language if script == "Latin" or language in users else users[0]


def language_of(text: str) -> str:
    """The likeliest language of a text, as in BCP 47; ``und`` where it says too little.

    >>> language_of("What should people think about this?"), language_of("ok")
    ('en', 'und')
    """
    if sum(map(str.isalpha, text)) < _TELLING:
        return UNKNOWN
    language, probability = _identify(text)
    return language if probability >= SURE else UNKNOWN


def _identify(text: str) -> tuple[str, float]:
    """The likeliest language of a text, and its probability."""
    identifier = _identifier()
    with _LOCK:
        found = identifier.FindLanguage(text=text.encode("utf-8", "replace").decode("utf-8"))
    return _OTHER_NAMES.get(found.language, found.language), found.probability


@cache
def _identifier() -> Any:
    import gcld3

    return gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=4 * END)
