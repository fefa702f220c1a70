"""What a person should know of a run beside its figures: why scores failed, and what a server refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnwise.scoring import FailureReason


def without_secrets(reason: FailureReason | None) -> FailureReason | None:
    """A reason whose example shows no key, token or password; it may quote what a model repeats."""
    if reason is None:
        return None
    from turnwise.guard.guardrails.secrets import Secrets
    from turnwise.guard.kit import finding_of
    from turnwise.guard.records import Detail, Status
    from turnwise.guard.step import redacted

    found = finding_of(Secrets(), reason.example).redactions
    clean = redacted(reason.example, Detail(Status.EVALUATED, redactions=found))
    return dataclasses.replace(reason, example=clean)


def notes(structured: Mapping[str, int], wanted: object, commonest: FailureReason | None) -> Iterator[str]:
    """Yield what is to be told of a run, in a line each.

    `structured` counts replies by how they were asked for as JSON, `wanted` is how the run is set to ask.
    """
    others = {name: count for name, count in structured.items() if name != wanted}
    if wanted is not None and others:
        came = ", ".join(f"{count} replies came with {name}" for name, count in others.items())
        yield f"the server did not take the structure {wanted}: {came}"
    shown = without_secrets(commonest)
    if shown is not None:
        yield f"commonest failure: {shown.reason}, {shown.count} times, such as: {shown.example}"
