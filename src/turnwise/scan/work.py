"""The work of a scan: what each worker is made of, and what it does with a part."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from turnwise._support.locations import Location
from turnwise.conversation import Sequence, Side
from turnwise.datasets import BadRecord
from turnwise.detectors import Detector
from turnwise.errors import ConversationError, UsageError
from turnwise.findings import PLACES, Counts
from turnwise.observers import Context, Observer, SharesAllowance, build_observer, describe_observer
from turnwise.principles import Principle
from turnwise.scan.engines.allowance import Limits
from turnwise.scan.inputs import Reading
from turnwise.scan.part_files import DeadLetter, PartFiles
from turnwise.scan.parts import Done, Part
from turnwise.scan.reading import read_part
from turnwise.scan.scoring import Scored, Scorer
from turnwise.scoring import NOT_READ
from turnwise.store.where import Where, parse_where


@dataclass(frozen=True, slots=True)
class ScanWork:
    """All that a worker must know. Picklable, and light: `open` loads observer and detector.

    `observer` is a specification, or an observer that travels as it is. `detector` is the one with its threshold,
    pickled. `threads` are conversations at a time, for an observer that waits. `allowance` is what the workers of
    an observer that is paid for share; None where there is nothing to share.
    """

    reading: Reading
    folder: Location
    observer: str | Observer
    settings: Mapping[str, Any]
    context: Context
    principles: tuple[Principle, ...]
    sides: tuple[Side, ...]
    detector: bytes
    where: str | None = None
    texts: bool = True
    threads: int = 1
    allowance: Any = field(default=None, compare=False)

    @property
    def limits(self) -> Limits | None:
        """What all workers together may spend and send, where the observer is paid for; else None."""
        if not isinstance(self.observer, str) or not describe_observer(self.observer).costs:
            return None
        return Limits(self.settings.get("budget_usd"), self.settings.get("requests_per_minute"))

    def with_allowance(self, allowance: Any) -> ScanWork:
        """The same work, whose workers share an allowance."""
        return replace(self, allowance=allowance)

    def open(self) -> ScanWorker:
        """A worker of this process."""
        observer: Any = self.observer
        if isinstance(observer, str):
            observer = build_observer(observer, **self.settings)
        if self.allowance is not None and isinstance(observer, SharesAllowance):
            observer = observer.with_allowance(self.allowance)
        elif self.allowance is not None and self.settings.get("budget_usd") is not None:
            raise UsageError(
                f"observer {observer.info.name!r} can't share a budget between workers: use --engine inline"
            )
        detector: Detector = pickle.loads(self.detector)  # made by the driver, a moment ago
        scorer = Scorer(observer, self.context, self.principles, self.sides, detector, self.threads)
        return ScanWorker(self, scorer)


class ScanWorker:
    """Reads, scores and writes parts, one after the other."""

    def __init__(self, work: ScanWork, scorer: Scorer) -> None:
        self._work = work
        self.scorer = scorer
        self._files = PartFiles(work.folder, [principle.name for principle in work.principles])
        self._where = None if work.where is None else parse_where(work.where)

    def do(self, part: Part) -> Done:
        """Read, score and write a part; see `turnwise.scan.engines.Worker`."""
        name = self._work.reading.files[part.input]
        taken = _Taken(name)
        for place, row, item in read_part(part, self._work.reading):
            taken.take(place, row, item, self._where)
        spent = self.scorer.spent_usd
        scored = self.scorer.score(taken.sequences)
        letters = taken.letters + [
            DeadLetter(
                name,
                taken.rows[of],
                failure.message if failure.reason == "error" else f"{failure.reason}: {failure.message}",
                taken.sequences[of].sequence_id,
                turn,
                str(failure.side),
                failure.principle,
            )
            for of, turn, failure in scored.failures
        ]
        unread = {(of, turn, one.side): one.language for of, turn, one in scored.unread}
        not_read = [
            DeadLetter(
                name,
                taken.rows[of],
                f"{NOT_READ}: {language}",
                taken.sequences[of].sequence_id,
                turn,
                str(side),
                language=language,
            )
            for (of, turn, side), language in unread.items()
        ]
        key = np.array([part.number * PLACES + place for place in taken.places], np.int64)
        counts = Counts(
            rows=taken.seen,
            conversations=len(taken.sequences),
            turns=sum(sequence.conversation.get_turn_count() for sequence in taken.sequences),
            scored=int(scored.scored.sum()),
            scores=len(scored.scores),
            fired=int(scored.fired.sum()),
            failures=len(letters),
            left_out=taken.left_out,
            unread=dict(sorted(Counter(unread.values()).items())),
        )
        entry = self._files.write(
            part.number,
            scores=_score_columns(key, taken.sequences, scored),
            sequences=_sequence_columns(key, taken, scored),
            turns=_turn_columns(key, taken.sequences) if self._work.texts else None,
            failures=letters + not_read,
            counts=counts,
            input=part.input,
            first_row=part.first_row,
        )
        return Done(entry, part.size, self.scorer.spent_usd - spent)


class _Taken:
    """What was read of a part."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: list[int] = []
        self.rows: list[int] = []
        self.sequences: list[Sequence] = []
        self.digests: list[str] = []
        self.metadata: list[str] = []
        self.letters: list[DeadLetter] = []
        self.seen = 0
        self.left_out = 0

    def take(self, place: int, row: int, item: Sequence | BadRecord, where: Where | None) -> None:
        self.seen += 1
        if isinstance(item, BadRecord):
            self.letters.append(DeadLetter(self.file, row, item.reason))
            return
        if where is not None and not where.holds(facts(item)):
            self.left_out += 1
            return
        try:
            digest = item.content_hash()
            metadata = json.dumps(item.metadata, ensure_ascii=False, allow_nan=False)
            metadata.encode()
        except (ConversationError, TypeError, ValueError, RecursionError) as error:
            why = error if isinstance(error, ConversationError) else type(error).__name__
            reason = f"its metadata can't be kept as JSON: {why}"
            self.letters.append(DeadLetter(self.file, row, reason, item.sequence_id))
            return
        self.places.append(place)
        self.rows.append(row)
        self.sequences.append(item)
        self.digests.append(digest)
        self.metadata.append(metadata)


def facts(sequence: Sequence) -> dict[str, Any]:
    """What a condition may ask of a conversation that was just read."""
    turns = list(sequence.conversation)
    return {
        "id": sequence.sequence_id,
        "label": str(sequence.label),
        "source": sequence.source,
        "turns": len(turns),
        "chars": sum(len(turn.prompt) for turn in turns),
        "response_chars": sum(len(turn.response or "") for turn in turns),
        "metadata": sequence.metadata,
    }


def _texts(values: list[Any]) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _score_columns(key: Any, sequences: list[Sequence], scored: Scored) -> dict[str, Any]:
    of = scored.conversation
    names = _texts([sequence.sequence_id for sequence in sequences])
    return {
        "key": key[of],
        "sequence": names[of],
        "turn": scored.turn,
        "side": scored.side,
        "principle": scored.principle,
        "T": np.ascontiguousarray(scored.scores[:, 0]),
        "I": np.ascontiguousarray(scored.scores[:, 1]),
        "F": np.ascontiguousarray(scored.scores[:, 2]),
        "detector_score": scored.detector_score,
        "fired": scored.fired[of],
        "flag_turn": scored.flag_turn[of],
        "chars": scored.chars,
    }


def _sequence_columns(key: Any, taken: _Taken, scored: Scored) -> dict[str, Any]:
    sequences = taken.sequences
    return {
        "key": key,
        "sequence": _texts([sequence.sequence_id for sequence in sequences]),
        "label": _texts([str(sequence.label) for sequence in sequences]),
        "source": _texts([sequence.source for sequence in sequences]),
        "file": _texts([taken.file] * len(sequences)),
        "row": np.array(taken.rows, np.int64),
        "turns": np.array([sequence.conversation.get_turn_count() for sequence in sequences], np.int32),
        "scored": scored.scored,
        "fired": scored.fired,
        "flag_turn": scored.flag_turn,
        "peak": scored.peak,
        "digest": _texts(taken.digests),
        "metadata": _texts(taken.metadata),
    }


def _turn_columns(key: Any, sequences: list[Sequence]) -> dict[str, Any]:
    turns = [(place, turn) for place, sequence in enumerate(sequences) for turn in sequence.conversation]
    of = np.array([place for place, _ in turns], np.int64)
    return {
        "key": key[of],
        "sequence": _texts([sequence.sequence_id for sequence in sequences])[of],
        "turn": np.array([turn.number for _, turn in turns], np.int32),
        "prompt": _texts([turn.prompt for _, turn in turns]),
        "response": _texts([turn.response for _, turn in turns]),
    }
