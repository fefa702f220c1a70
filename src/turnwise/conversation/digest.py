"""A digest of what was read when a turn was scored, so that a changed text voids its scores."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from turnwise.conversation.turn import Turn

_HEX_DIGITS = 16


class Seen(StrEnum):
    """What a reader had before them when they scored a turn."""

    PROMPT = "prompt"
    """This turn's prompt alone."""

    PROMPTS = "prompts"
    """The prompts of this and all earlier turns."""

    BOTH = "both"
    """Prompts and responses of this and all earlier turns."""


@dataclass(frozen=True, slots=True)
class SeenDigest:
    """Digests of a conversation up to a turn, one for each way of reading; plain text, so that it may be stored.

    Each is 16 hexadecimal digits of a SHA-256 over the digest of the turn before and the message in UTF-8.

    >>> digest = SeenDigest().after(Turn(number=1, prompt="Hello"))
    >>> digest.of(Seen.PROMPT) == digest.of(Seen.PROMPTS)
    True
    """

    prompt: str = ""
    prompts: str = ""
    both: str = ""

    def after(self, turn: Turn) -> SeenDigest:
        """Return the digests with the next turn taken in."""
        so_far = _digest(self.both, turn.prompt)
        return SeenDigest(
            prompt=_digest("", turn.prompt),
            prompts=_digest(self.prompts, turn.prompt),
            both=_digest(so_far, turn.response or ""),
        )

    def of(self, seen: Seen) -> str:
        """Return the digest of what a reader of the last turn has seen."""
        return {Seen.PROMPT: self.prompt, Seen.PROMPTS: self.prompts, Seen.BOTH: self.both}[seen]


def _digest(before: str, text: str) -> str:
    content = f"{before}\n{text}".encode("utf-8", errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_HEX_DIGITS]
