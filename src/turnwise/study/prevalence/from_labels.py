"""What people said of a label sample, and what follows for all conversations of a scan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise._support.locations import to_path
from turnwise.conversation import Label
from turnwise.datasets.labels_and_roles import UnknownLabelError, label_word, read_label
from turnwise.errors import UsageError
from turnwise.stats import Estimates, Stratum, estimate_strata
from turnwise.store import Store
from turnwise.study.prevalence.from_flags import interval_to_dict, shown_share
from turnwise.study.prevalence.label_sample import LabelSample

_SQLITE: Final = b"SQLite format 3\0"

_NAMES: Final = {
    "prevalence": "prevalence",
    "recall": "recall",
    "precision": "precision",
    "false_positive_rate": "false positives",
}


@dataclass(frozen=True, slots=True)
class Labelled:
    """What the labels of a sample say of all conversations of a scan.

    Args:
        estimates: prevalence, recall, precision and false-positive rate, each with its interval.
        strata: the strata with their labels.
        unlabelled: conversations of the sample without a label.
        disputed: those of them to which people give different labels.
    """

    estimates: Estimates
    strata: tuple[Stratum, ...]
    unlabelled: int
    disputed: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            **{name: interval_to_dict(getattr(self.estimates, name)) for name in _NAMES},
            "strata": [
                {name: getattr(one, name) for name in ("name", "flagged", "population", "attacks", "labelled")}
                for one in self.strata
            ],
            "unlabelled": self.unlabelled,
            "disputed": self.disputed,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the estimates as rows of a table: the name of each, and its value with its interval."""
        return [(shown, shown_share(getattr(self.estimates, name))) for name, shown in _NAMES.items()]

    @property
    def cautions(self) -> tuple[str, ...]:
        """What a reader must know, a sentence each."""
        found = []
        if self.disputed:
            found.append(f"{self.disputed} conversations are left out because people give them different labels")
        if missing := self.unlabelled - self.disputed:
            found.append(
                f"{missing} conversations of the sample have no label; it is taken for chance which ones those are"
            )
        if empty := [one.name for one in self.strata if not one.labelled]:
            found.append(f"no label at all in {'; '.join(empty)}: anything may be there")
        return tuple(found)


def estimate_from_labels(sample: LabelSample, labels: Mapping[str, Label | None]) -> Labelled:
    """Return what labels of a sample say of all conversations that it was drawn from.

    Args:
        labels: label by id; None where people disagree. ``unlabelled`` counts as none, and other ids are ignored.

    Raises:
        UsageError: no conversation of the sample has a label.
    """
    counts = {one.name: [0, 0] for one in sample.strata}
    unlabelled = disputed = 0
    for one in sample.conversations:
        label = labels.get(one.id, Label.UNLABELLED)
        disputed += label is None
        if label is None or label is Label.UNLABELLED:
            unlabelled += 1
            continue
        counts[one.stratum][0] += label is Label.ATTACK
        counts[one.stratum][1] += 1
    if unlabelled == len(sample.conversations):
        raise UsageError(f"none of the {unlabelled} conversations is labelled: label some attack or benign")
    strata = tuple(Stratum(one.name, one.population, one.flagged, *counts[one.name]) for one in sample.strata)
    return Labelled(estimate_strata(strata), strata, unlabelled, disputed)


def read_labels(where: str, authors: Collection[str] = ()) -> dict[str, Label | None]:
    """Return the label of conversations by id; None where people disagree.

    Args:
        where: a store in which people labelled the sample, as ``turnwise explore`` and ``turnwise judgements
            label`` do: what people say counts, else the label that was imported. Or JSONL: lines with ``id`` or
            ``sequence_id``, and ``label``, such as the sample with its labels filled in, or the corrections that
            ``turnwise judgements export`` writes.
        authors: only these people, where it is a store; all by default.

    Raises:
        UsageError: it can't be read, or is neither.
        StoreError: the store can't be read.
    """
    try:
        if "://" in where:
            return _of_store(where, authors)
        path = to_path(where)
        with path.open("rb") as file:
            is_store = file.read(len(_SQLITE)) == _SQLITE
        if is_store:
            return _of_store(where, authors)
        if authors:
            raise UsageError(f"{where} is a file, and --author needs a store")
        return _of_lines(path.read_bytes(), where)
    except OSError as error:
        raise UsageError(f"can't read {where}: {error.strerror or error}") from error


def _of_store(where: str, authors: Collection[str]) -> dict[str, Label | None]:
    with Store(where) as store:
        found: dict[str, Label | None] = {}
        if not authors:
            found = {head.sequence_id: head.label for head in store.heads()}
        return found | store.people.labels(authors or None)


def _of_lines(content: bytes, where: str) -> dict[str, Label | None]:
    found: dict[str, Label | None] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = read_json(line)
            name = value["id"] if "id" in value else value["sequence_id"]
            label = read_label(value.get("label")) or Label.UNLABELLED
        except UnknownLabelError as error:
            said = label_word(value["label"])
            raise UsageError(
                f"{where}, line {number}: label {said!r} is not known; use attack, benign or unlabelled"
            ) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{where}, line {number}: it needs id and label (attack, benign or unlabelled): "
                f"{type(error).__name__}: {error}"
            ) from error
        if label is Label.UNLABELLED:
            found.setdefault(name, label)
        else:
            before = found.get(name, label)
            found[name] = label if before in (label, Label.UNLABELLED) else None
    return found
