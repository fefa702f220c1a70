"""Friction that heals told from hostility that stays."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

HOSTILE = -0.5
"""Balance below which a turn is hostile."""

HEALED = 0.0
"""Balance from which a turn after friction counts as good again."""

MANY = 3
"""Separate frictions, within the last turns, that are a habit however well each of them heals."""


class Friction(StrEnum):
    """What became of hostile turns.

    ``none``: there was none. ``open``: one hostile turn, and no good one after it yet. ``healed``: good turns
    followed. ``stays``: hostile turns in a row, hostile again, or again and again.
    """

    NONE = "none"
    OPEN = "open"
    HEALED = "healed"
    STAYS = "stays"


def friction(balances: Sequence[float]) -> Friction:
    """Return what became of the hostile turns among some turns.

    A turn with balance below −0.5 is hostile; hostile turns without a good one (balance of at least 0) in between
    belong to one friction. It stays if one had two hostile turns and has not healed, if another is under way after
    one that healed, or if there were three.

    Args:
        balances: balance of the turns, in [−1, 1], oldest first.

    >>> friction([0.7, -1.0, 0.7]).value, friction([0.7, -1.0, -1.0]).value, friction([0.7, 0.7, -1.0]).value
    ('healed', 'stays', 'open')
    """
    if not balances or min(balances) >= HOSTILE:
        return Friction.NONE
    frictions = hostile = 0
    under_way = False
    for balance in balances:
        if balance < HOSTILE:
            frictions += not under_way
            hostile = hostile + 1 if under_way else 1
            under_way = True
        elif balance >= HEALED:
            under_way = False
    if frictions >= MANY or (under_way and (hostile > 1 or frictions > 1)):
        return Friction.STAYS
    return Friction.OPEN if under_way else Friction.HEALED
