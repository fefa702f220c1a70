"""Facets of two compared arms: what each flags by source, model, label, category or language, with tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnwise.errors import UnknownNameError
from turnwise.rates import Rate
from turnwise.runs.flips import FACETS, OWN, Compared, Thresholds
from turnwise.study.report.value_formats import p_cell
from turnwise.study.stats.holm import holm_corrected
from turnwise.study.stats.mcnemar import sign_flip
from turnwise.study.stats.two_samples import sign_test

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_VALUES = 20
"""Values of a facet that are told apart, the commonest first; the others are one."""

OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class FacetRate:
    """What two arms flag of the conversations with a value of a facet and a label.

    Args:
        value: the value; empty for all conversations.
        label: what they are labelled; of attacks the rates are recall, of benign ones false alarms.
        a: flagged by the first arm.
        b: flagged by the second arm.
        a_alone: flagged by the first arm alone.
        b_alone: flagged by the second arm alone.
        p: two-sided exact p-value of McNemar's test that both flag the same share, with groups as the unit.
        p_holm: the same, by Holm's correction for all rows that are tested together.
    """

    value: str
    label: str
    a: Rate
    b: Rate
    a_alone: int
    b_alone: int
    p: float
    p_holm: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        row: dict[str, Any] = {"value": self.value, "label": self.label, "conversations": self.a.of}
        for name, rate in (("a", self.a), ("b", self.b)):
            row |= {
                f"flagged_{name}": rate.count,
                f"low_{name}": rate.interval[0],
                f"high_{name}": rate.interval[1],
            }
        return row | {"a_alone": self.a_alone, "b_alone": self.b_alone, "p": self.p, "p_holm": self.p_holm}

    def cells(self) -> dict[str, str]:
        """What a table shows of it, by heading."""
        return {
            "value": self.value, "label": self.label, "flagged by A": str(self.a), "flagged by B": str(self.b),
            "A alone": f"{self.a_alone:,}", "B alone": f"{self.b_alone:,}", "p (Holm)": p_cell(self.p_holm),
        }  # fmt: skip


def facet_rates(compared: Compared, facet: str = "source", thresholds: Thresholds = OWN) -> tuple[FacetRate, ...]:
    """What each arm flags by a facet and by label, the commonest values first.

    Intervals are exact and take conversations for independent; the test takes the groups of the metadata as they
    are (`turnwise.study.mcnemar`), and Holm's correction is over all rows.

    Args:
        compared: two arms.
        facet: ``source``, ``label``, ``model``, ``category`` or ``language``.
        thresholds: other thresholds of the arms.

    Raises:
        UnknownNameError: no such facet.
    """
    if facet not in FACETS:
        raise UnknownNameError("facet", facet, FACETS)
    flagged = compared.flagged(thresholds)
    values, labels, groups = (compared.facts[name] for name in (facet, "label", "group"))
    common = [value for value, _ in Counter(values.tolist()).most_common()]
    shown = common[:MOST_VALUES]
    found = []
    for value in shown + [OTHERS] * (len(common) > len(shown)):
        of_value = values == value if value != OTHERS else ~_among(values, shown)
        for label in sorted(set(labels[of_value].tolist())):
            found.append(_rate(value, label, of_value & (labels == label), flagged, groups))
    return holm_corrected(found)


def _among(values: NDArray[Any], some: list[str]) -> NDArray[np.bool_]:
    import numpy as np

    return np.isin(values.astype(str), some)


def _rate(
    value: str,
    label: str,
    chosen: NDArray[np.bool_],
    flagged: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    groups: NDArray[Any],
) -> FacetRate:
    a, b = (one[chosen] for one in flagged)
    size, differ = len(a), a != b
    net: Counter[str] = Counter()
    for group, more in zip(groups[chosen][differ].tolist(), b[differ].tolist(), strict=True):
        net[group] += 1 if more else -1
    signs = list(net.values())
    alone = all(abs(one) <= 1 for one in signs)
    p = sign_test(sum(one > 0 for one in signs), sum(one < 0 for one in signs)) if alone else sign_flip(signs)
    counts = int((a & ~b).sum()), int((b & ~a).sum())
    return FacetRate(value, label, Rate(int(a.sum()), size), Rate(int(b.sum()), size), *counts, p)
