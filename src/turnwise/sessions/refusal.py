"""Does a response refuse? Read off its words; English, no model.

What counts is a speaker who says of himself that he will not do what was asked, in full or in part, bluntly or
politely. What does not: what somebody else cannot do ("you cannot divide by zero"), quoted and conditional
speech, idioms ("I can't wait to help"), disclaimers ("I can't guarantee"), and asking for what is missing ("I
can't answer without the log").
"""

from __future__ import annotations

from turnwise.linear_regex import LinearRegex
from turnwise.sessions import refusal_words as words

_HEAD = 300
"""Characters of the beginning of a response that are read: a refusal comes early."""

_TAIL = 200
"""Characters of its end: a refusal in part may come last."""

_CLIPPED_WITHIN = 120
"""Characters within which a refusal without a subject begins."""

_STRAIGHT = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "＇": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "\xa0": " "}
)
_QUOTED = LinearRegex(r'(?ms)"[^"]{0,400}"|```.*?(?:```|$)|`[^`\n]*`|^ *>.*?$')
_LETTER = LinearRegex(r"\n *(?:\*\*)?(?:dear|subject:|hi|hello) ")


def is_refusal(response: str) -> bool:
    """Return whether a response refuses what was asked, in full or in part.

    Reads the first 300 and the last 200 characters. Quotations, code and the text of a letter that was drafted are
    left out. The words are English.

    Args:
        response: text of the response.

    >>> is_refusal("I’m sorry, but I can’t help with that."), is_refusal("I can't wait to help you with that!")
    (True, False)
    """
    text = _plain(response if len(response) <= _HEAD + _TAIL else f"{response[:_HEAD]}. {response[-_TAIL:]}")
    return _says_no(text) or _clipped(text) or _for_a_reason(text)


def _plain(text: str) -> str:
    """Return a text in lower case, with straight apostrophes, on one line, and without what others say."""
    if not text.isascii():
        text = text.translate(_STRAIGHT)
    text = text.lower()
    if '"' in text or "`" in text or ">" in text:
        text = _QUOTED.sub(lambda _: " ", text)
    if "\n" in text:
        letter = _LETTER.search(text)
        text = text if letter is None else text[: letter.start]
    if "\n" in text or "  " in text:
        text = " ".join(text.split())
    text = f" {text}"
    if " we" in text:
        text = text.replace(" we ", " i ").replace(" we're ", " i'm ").replace(" i are ", " i am ")
    return text.replace(" our ", " my ")


def _says_no(text: str) -> bool:
    """Return whether a sentence in the first person refuses."""
    for found in words.SELF.finditer(text):
        start, end = found.start, found.end
        if words.NOT_CLAIMED.search(text[max(0, start - 20) : start]):
            continue
        if found["wish"] and words.OF_STATE.match(text[end:]):
            continue
        if (task := found["task"]) and (
            words.IDIOM.match(text[end - len(task) :]) or words.ASKS.search(_sentence(text, start, end))
        ):
            continue
        return True
    return False


def _clipped(text: str) -> bool:
    """Return whether a sentence without a subject refuses: "Sorry, can't help with that."."""
    for word in words.CLIPPED:
        at = text.find(word, 0, _CLIPPED_WITHIN)
        if at >= 0 and words.CLIPPED_TASK.match(text[at + len(word) :]):
            before = text[max(0, at - 12) : at].rstrip()
            if words.OPENING.search(before) and not words.ASKS.search(_sentence(text, at, at)):
                return True
    return False


def _for_a_reason(text: str) -> bool:
    """Return whether a rule, what would be wrong, or what is not for the speaker to do, is given as the reason."""
    if " my " in text:
        for found in words.RULES.finditer(text):
            before = text[max(0, found.start - 20) : found.start]
            if words.AGAINST.search(before) or words.FORBID.match(text[found.end :]):
                return True
    if " me to " in text and words.WRONG.search(text):
        return True
    if "t be " in text and words.DENIED.search(text):
        return True
    if "thing" in text or "not a " in text or "n't a " in text:
        for found in words.NOT_MINE.finditer(text):
            if sum(bool(found[group]) for group in ("no", "not", "never", "wont")) % 2:
                return True
    return False


def _sentence(text: str, start: int, end: int) -> str:
    """Return the sentence around a part of a text."""
    begins = max(text.rfind(mark, 0, start) for mark in ".!?") + 1
    ends = [at for mark in ".!?" if (at := text.find(mark, end)) >= 0]
    return text[begins : min(ends, default=len(text))]
