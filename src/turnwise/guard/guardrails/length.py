"""How long a text may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.patterns import check_count

BYTES_PER_TOKEN = 4  # bytes of UTF-8 that are taken for a token


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has: its bytes in UTF-8 by four, rounded up.

    No tokeniser is right for every model, and running one over a long text costs more than all other text
    guardrails. English prose has some 4 bytes a token, other scripts 3 to 6; random characters and digits have
    fewer, so that their tokens are more than estimated. Where the number must hold, set `max_characters`.

    >>> estimated_tokens(""), estimated_tokens("The cat sat."), estimated_tokens("猫が座った。")
    (0, 3, 5)
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Length(Guardrail):
    """How long a text may be, in characters or in tokens.

    Args:
        max_characters: most characters (Unicode code points), at least 1; None for no limit.
        max_tokens: most tokens, at least 1, estimated as bytes of UTF-8 by four; None for no limit.
        min_characters: fewest characters that are no white space, at least 1; None for no limit.

    Raises:
        GuardError: no limit at all, one below 1, or a minimum above the maximum.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Length(max_characters=5), "Hello there").reason
    '11 characters, at most 5 are allowed'
    """

    cost: ClassVar[Cost] = Cost.SIZE
    default_timeout: ClassVar[float | None] = None

    max_characters: int | None = None
    max_tokens: int | None = None
    min_characters: int | None = None

    def __post_init__(self) -> None:
        limits = {name: getattr(self, name) for name in ("max_characters", "max_tokens", "min_characters")}
        if all(limit is None for limit in limits.values()):
            raise GuardError(f"no limit; give one of {', '.join(limits)}")
        for name, limit in limits.items():
            if limit is not None:
                check_count(name, limit)
        if self.max_characters is not None and (self.min_characters or 0) > self.max_characters:
            raise GuardError(
                f"min_characters is {self.min_characters}; use at most {self.max_characters}, the maximum"
            )

    @property
    def reach(self) -> int:
        """Nothing beside a text decides how long it is."""
        return 0

    def check(self, check: Check) -> Finding:
        text = check.text
        characters = check.before + len(text)
        reasons = []
        if self.max_characters is not None and characters > self.max_characters:
            reasons.append(f"{characters:,} characters, at most {self.max_characters:,} are allowed")
        if self.max_tokens is not None:
            # Of what came before a stretch the characters alone are known, each of a byte at least.
            tokens = estimated_tokens(text) + check.before // BYTES_PER_TOKEN
            if tokens > self.max_tokens:
                reasons.append(f"about {tokens:,} tokens, at most {self.max_tokens:,} are allowed")
        if self.min_characters is not None and not check.more and not self._long_enough(text):
            reasons.append(f"fewer than {self.min_characters:,} characters")
        if not reasons:
            return CLEAN
        return Finding(found=True, reason="; ".join(reasons), confidence=1.0, data={"characters": characters})

    def _long_enough(self, text: str) -> bool:
        least = self.min_characters or 0
        return len(text) >= least and len("".join(text.split())) >= least
