"""The work of a scan in a worker: it reads a part, scores and judges its conversations, and writes its files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from turnwise.conversation import Sequence, Side, Turn
from turnwise.datasets import BadRecord
from turnwise.detectors import Detector, run_detector
from turnwise.errors import ConversationError
from turnwise.findings import PLACES, Counts, DeadLetter
from turnwise.observers import Context, NotRead, ObservationFailure, Observer, Request
from turnwise.observers.session import ObservedMany, TwoStageReading, observe_conversations
from turnwise.principles import Principle
from turnwise.runs.findings_sink import PartFiles
from turnwise.runs.parts import FinishedPart, Part, meets, read_part
from turnwise.scoring import NOT_READ, Score, TurnScores
from turnwise.store.where import Where, parse_where

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from turnwise.runs.scanning import ScanWork


class ScanWorker:
    """Reads, scores and writes parts, one after the other."""

    def __init__(self, work: ScanWork, scorer: ScanScorer) -> None:
        self._work = work
        self.scorer = scorer
        self._files = PartFiles(work.folder, [principle.name for principle in work.principles])
        self._where = None if work.where is None else parse_where(work.where)

    def do(self, part: Part, /) -> FinishedPart:
        """Read, score and write a part; what is wrong with the input becomes dead letters."""
        taken = _ReadPart(self._work.reading.files[part.input])
        for place, row, item in read_part(part, self._work.reading):
            taken.take(place, row, item, self._where)
        spent = self.scorer.spent_usd
        scored = self.scorer.score(taken.sequences)
        letters = taken.letters + [
            taken.letter(of, turn, failure.side, _why(failure), principle=failure.principle)
            for of, turn, failure in scored.failures
        ]
        unread = {(of, turn, one.side): one.language for of, turn, one in scored.unread}
        not_read = [
            taken.letter(of, turn, side, f"{NOT_READ}: {language}", language=language)
            for (of, turn, side), language in unread.items()
        ]
        key = np.array([part.number * PLACES + place for place in taken.places], np.int64)
        counts = Counts(
            rows=taken.seen,
            conversations=len(taken.sequences),
            turns=sum(sequence.conversation.get_turn_count() for sequence in taken.sequences),
            scored=int(scored.verdicts["scored"].sum()),
            scores=len(scored.conversation),
            fired=int(scored.verdicts["fired"].sum()),
            failures=len(letters),
            left_out=taken.left_out,
            unread=dict(sorted(Counter(unread.values()).items())),
            asked=len(scored.asked),
            unanswered=dict(sorted(Counter(filter(None, scored.asked.values())).items())),
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
        return FinishedPart(entry, part.size, self.scorer.spent_usd - spent)


def _why(failure: ObservationFailure) -> str:
    return failure.message if failure.reason == "error" else f"{failure.reason}: {failure.message}"


class _ReadPart:
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
        if not meets(where, item):
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

    def letter(self, of: int, turn: int, side: Side, reason: str, **about: str) -> DeadLetter:
        return DeadLetter(
            self.file, self.rows[of], reason, self.sequences[of].sequence_id, turn, str(side), **about
        )


def _texts(values: list[Any]) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _score_columns(key: Any, sequences: list[Sequence], scored: ScoredColumns) -> dict[str, Any]:
    of = scored.conversation
    return {
        "key": key[of],
        "sequence": _texts([sequence.sequence_id for sequence in sequences])[of],
        "fired": scored.verdicts["fired"][of],
        "flag_turn": scored.verdicts["flag_turn"][of],
        **scored.scores,
        **({} if scored.looks is None else _look_columns(scored.looks)),
    }


def _look_columns(looks: Ordered[TwoStageReading]) -> dict[str, Any]:
    """What screen and judge made of each score; a number that is not there is not a number."""
    columns = {name: _texts([getattr(look, name) for look in looks]) for name in ("asked", "unanswered")}
    for stage in ("screen", "judge"):
        given = [getattr(look, stage) for look in looks]
        for part in "TIF":
            values = (np.nan if score is None else getattr(score, part) for score in given)
            columns[f"{stage}_{part}"] = np.fromiter(values, np.float64, len(given))
    return columns


def _sequence_columns(key: Any, taken: _ReadPart, scored: ScoredColumns) -> dict[str, Any]:
    sequences = taken.sequences
    return {
        "key": key,
        "sequence": _texts([sequence.sequence_id for sequence in sequences]),
        "label": _texts([str(sequence.label) for sequence in sequences]),
        "source": _texts([sequence.source for sequence in sequences]),
        "file": _texts([taken.file] * len(sequences)),
        "row": np.array(taken.rows, np.int64),
        "turns": np.array([sequence.conversation.get_turn_count() for sequence in sequences], np.int32),
        **scored.verdicts,
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


@dataclass(frozen=True, slots=True)
class ScoredColumns:
    """What came of some conversations, in columns that are named as in findings."""

    conversation: NDArray[np.int32]  # index of the conversation of each score, rising
    scores: Mapping[
        str, NDArray[Any]
    ]  # a row a score; principle is an index, side 0 for the prompt, 1 for the response
    verdicts: Mapping[
        str, NDArray[Any]
    ]  # a row a conversation; flag_turn is 0 where nothing fired, peak maybe NaN
    failures: tuple[tuple[int, int, ObservationFailure], ...] = ()  # with index of the conversation and turn
    unread: tuple[tuple[int, int, NotRead], ...] = ()  # likewise
    looks: tuple[TwoStageReading, ...] | None = None  # a row a score, where a judge took a second look

    @property
    def asked(self) -> dict[tuple[int, int], str | None]:
        """Conversation and turn of what the judge was asked about, and why it gave no score of it, if so."""
        places = zip(self.conversation.tolist(), self.scores["turn"].tolist(), strict=True)
        looks = [(place, look) for place, look in zip(places, self.looks or (), strict=False)]
        looks += [((of, turn), TwoStageReading.of(failure.stages)) for of, turn, failure in self.failures]
        found: dict[tuple[int, int], str | None] = {}
        for place, look in looks:
            if look.asked is not None:
                found[place] = found.get(place) or look.unanswered
        return found


class ScanScorer:
    """Scores conversations, `threads` at a time where the observer waits, and runs a detector over them."""

    def __init__(
        self,
        observer: Observer,
        context: Context,
        principles: Ordered[Principle],
        sides: Ordered[Side],
        detector: Detector,
        threads: int = 1,
    ) -> None:
        self._observer = observer
        self._context = context
        self._names = [principle.name for principle in principles]
        self._wanted = [Request(principle, side) for side in Side if side in sides for principle in principles]
        self._detector = detector
        self._threads = threads

    @property
    def spent_usd(self) -> float:
        """US dollars that the observer of this worker has spent; 0 for one that costs nothing."""
        return float(getattr(self._observer, "spent_usd", 0.0))

    def score(self, conversations: Ordered[Sequence]) -> ScoredColumns:
        """Score every turn of some conversations; ObserverError where the observer can't go on."""
        # The texts alone: what a data set says about a turn may give the answer away.
        turns = [
            [Turn(turn.number, turn.prompt, turn.response) for turn in one.conversation] for one in conversations
        ]
        many = observe_conversations(
            self._observer,
            turns,
            self._context,
            self._wanted,
            ids=[one.sequence_id for one in conversations],
            threads=self._threads,
        )
        return self._judged(turns, many)

    def _judged(self, turns: list[list[Turn]], many: ObservedMany) -> ScoredColumns:
        count, rows = len(turns), len(many)
        kinds = max(1, len(self._names))
        side = (many.request // kinds).astype(np.int8)
        if self._wanted and self._wanted[0].side is Side.RESPONSE:
            side = side + np.int8(1)
        principle = (many.request % kinds).astype(np.int8)
        chars = np.zeros(rows, np.int64)
        detector_score = np.zeros(rows)
        fired = np.zeros(count, np.bool_)
        flag_turn = np.zeros(count, np.int32)
        peak = np.full(count, np.nan)
        bounds = np.searchsorted(many.conversation, np.arange(count + 1)).tolist()
        turn_of, side_of, principle_of = many.turn.tolist(), side.tolist(), principle.tolist()
        values = many.scores.tolist()
        for place, said in enumerate(turns):
            low, high = bounds[place], bounds[place + 1]
            if low == high:
                continue
            told = self._trajectory(
                said, turn_of[low:high], side_of[low:high], principle_of[low:high], values[low:high]
            )
            verdict = run_detector(self._detector, told)
            signals = np.fromiter((signal.score for signal in verdict.signals), np.float64, len(said))
            of_row = many.turn[low:high] - 1
            detector_score[low:high] = signals[of_row]
            lengths = np.array([(one.length, one.response_length) for one in told], np.int64)
            chars[low:high] = lengths[of_row, side[low:high]]
            fired[place] = verdict.fired
            flag_turn[place] = verdict.turn or 0
            if verdict.score is not None:
                peak[place] = verdict.score
        T, I, F = (np.ascontiguousarray(column) for column in many.scores.T)  # noqa: E741 - the field's names
        scores: dict[str, NDArray[Any]] = {
            "turn": many.turn,
            "side": side,
            "principle": principle,
            "T": T,
            "I": I,
            "F": F,
            "detector_score": detector_score,
            "chars": chars,
        }
        verdicts = {"scored": np.diff(bounds) > 0, "fired": fired, "flag_turn": flag_turn, "peak": peak}
        return ScoredColumns(many.conversation, scores, verdicts, many.failures, many.unread, many.looks)

    def _trajectory(
        self,
        turns: list[Turn],
        turn_of: list[int],
        side_of: list[int],
        principle_of: list[int],
        values: list[list[float]],
    ) -> list[TurnScores]:
        """The scores of one conversation turn by turn; turns are numbered from 1 without gaps."""
        prompts: list[dict[str, Score]] = [{} for _ in turns]
        responses: list[dict[str, Score]] = [{} for _ in turns]
        sides = prompts, responses
        names = self._names
        for turn, side, principle, (T, I, F) in zip(turn_of, side_of, principle_of, values, strict=True):  # noqa: E741
            sides[side][turn - 1][names[principle]] = Score(T, I, F)
        return [
            TurnScores(turn.number, prompt, len(turn.prompt), response, len(turn.response or ""))
            for turn, prompt, response in zip(turns, prompts, responses, strict=True)
        ]
