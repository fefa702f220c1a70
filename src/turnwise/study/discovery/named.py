"""Found patterns as a file of named patterns, ready for queries and detectors."""

from __future__ import annotations

from turnwise.study.discovery.method import Discovery
from turnwise.study.discovery.verify import Tested


def names_of(discovery: Discovery) -> dict[str, Tested]:
    """Return the confirmed patterns by name: ``found_1`` and so on."""
    return {f"found_{number}": pattern for number, pattern in enumerate(discovery.found, start=1)}


def to_yaml(discovery: Discovery, run: str, observer: str) -> str:
    """Return the confirmed patterns as a file that `turnwise.patterns.load_patterns` reads.

    Args:
        discovery: what a search came to; at least one pattern was confirmed.
        run: name of the run that was searched.
        observer: what scored it, with its version.
    """
    import yaml

    reference = (
        f"turnwise discover --run {run} --max-fpr {discovery.max_fpr:g} --level {discovery.level:g} "
        f"--seed {discovery.seed}; scored by {observer}"
    )
    patterns = {
        name: {
            "version": 1,
            "description": describe(pattern, discovery.max_fpr),
            "reference": reference,
            "expression": str(pattern.expression),
        }
        for name, pattern in names_of(discovery).items()
    }
    text: str = yaml.safe_dump(patterns, sort_keys=False, allow_unicode=True, width=110)
    return text


def describe(pattern: Tested, max_fpr: float) -> str:
    """Return what a pattern did on the held-out half, in a sentence or two."""
    counts = pattern.held_out
    beyond = f", more than the {100 * max_fpr:g} % allowed" if counts.above(max_fpr) else ""
    return (
        f"Found by search, not written by a person. On held-out conversations it matched {counts.attacks} of "
        f"attacks, {counts.at_first_turn} of them at their first turn, and {counts.benign} of benign ones{beyond} "
        f"(95 % intervals; p = {pattern.p_holm:.2g} after Holm's correction)."
    )
