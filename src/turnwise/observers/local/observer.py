"""``local``: the observer that needs no key, no network and no download."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from turnwise._support.process_memory import give_back_memory
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers.local.reading import Utterance
from turnwise.observers.local.weights import (
    CACHE_BYTES,
    PRINCIPLES,
    card_data,
    load_weights,
    read_metrics,
    shipped,
)
from turnwise.observers.protocol import (
    Context,
    ContextMode,
    Given,
    NotRead,
    Observation,
    ObservationFailure,
    ObserverInfo,
    Request,
    Workers,
)
from turnwise.observers.session import ObservedMany
from turnwise.scoring import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.observers.local.reading import Reader, Reading
    from turnwise.observers.local.scores import TaughtHead


VERSION = "1.1"
"""Version of what the code makes of the weights; changes with any change to the scores of the same weights."""

CONTEXTS = (ContextMode.TURN, ContextMode.HISTORY)
_MAGIC = b"TWRS1"
_HEAD = struct.Struct("<5s16s?")
"""Magic, first half of the weights' hash, whether the state is one of ``history``."""

_SUMMARIES = {
    "language": "a small language model that reads the conversation, prompts and replies; see docs/model-card.md",
    "small": "token vectors, phrases and a recurrent state, for screening; see docs/model-card.md",
}


@dataclass(slots=True)
class ReaderState:
    """State of one conversation: `place` is what was said so far, which in mode ``turn`` stays the beginning."""

    mode: ContextMode
    place: Any
    reader: Reader = field(repr=False)
    weights_sha256: str

    def __deepcopy__(self, memo: object) -> ReaderState:
        """A place is never changed, so the copy has the same one."""
        return replace(self)

    def to_bytes(self) -> bytes:
        """The state as bytes, at most 4 kB; `LocalObserver.restore` takes them back."""
        digest = bytes.fromhex(self.weights_sha256)[:16]
        head = _HEAD.pack(_MAGIC, digest, self.mode is ContextMode.HISTORY)
        return head + self.reader.pack(self.place)


class LocalObserver:
    """Scores prompts and replies with the embedded reader, in context mode ``turn`` or ``history``.

    In ``history`` it reads what was said before, as far back as its window reaches; in ``turn`` a reply is read
    after its prompt. A principle of a user is scored by what was taught of it, and gives nothing for a side for
    which nothing was. A principle that it does not know gives a failure, a blank text nothing at all. A text in a
    language that the weights do not read gives a `NotRead`, and is part of what was said before all the same.

    Args:
        argument: a folder with trained weights; None for those that ship.
        cache_bytes: bytes that the caches of live conversations may take together; a conversation whose cache is
            gone is read again when its next turn comes.
        device: where the network runs, such as ``cpu`` or ``cuda``.
    """

    name: ClassVar[str] = "local"

    def __init__(self, argument: str | None = None, cache_bytes: int = CACHE_BYTES, device: str = "cpu") -> None:
        if argument == "":
            name = self.name
            raise ObserverError(f"{name}: the path after the colon is empty; use {name}, or {name}:path/to/model")
        # These bring numpy, onnxruntime and tokenizers, which nobody should wait for who only lists observers.
        from turnwise.observers.local.language_model_reader import LanguageModelReader
        from turnwise.observers.local.languages import Languages
        from turnwise.observers.local.scores import Calibration
        from turnwise.observers.local.small_reader import SmallReader

        weights = load_weights(argument or shipped(self.name))
        self._reader: Reader
        if weights.kind == "small":
            self._reader = SmallReader(weights.model, weights.tokenizer, device)
        else:
            self._reader = LanguageModelReader(
                weights.model, weights.tokenizer, weights.reach, cache_bytes, device
            )
        self._calibration = Calibration.read(weights.metrics["calibration"])
        self._metrics = weights.metrics
        self._sha256 = weights.sha256
        self._read = weights.languages
        self._languages = Languages(self._read, self._reader.speech.known)
        self._heads: dict[str, TaughtHead] = {}
        self._known = self._info(weights.metrics)
        self._base = self._known.base
        del weights
        give_back_memory()

    @classmethod
    def describe(cls) -> ObserverInfo:
        """What is known of the observer with its shipped weights, without loading them."""
        return cls._info(read_metrics(shipped(cls.name)))

    @classmethod
    def card_data(cls, argument: str | None = None) -> Mapping[str, Any]:
        """What ``turnwise list observers local`` shows: how the weights in a folder were made and measured."""
        return card_data(argument or shipped(cls.name))

    @staticmethod
    def render_card(sections: Mapping[str, Mapping[str, Any]]) -> str:
        """The model card of observers by name, from what `card_data` gave of each."""
        from turnwise.observers.local.card import render_card

        return render_card(sections)

    @property
    def info(self) -> ObserverInfo:
        """What is known of it with its weights."""
        return self._known

    @classmethod
    def _info(cls, metrics: Mapping[str, Any]) -> ObserverInfo:
        from turnwise.observers.local.card import training_sources

        return ObserverInfo(
            name=cls.name,
            version=f"{VERSION}+{metrics['weights_sha256'][:12]}",
            contexts=CONTEXTS,
            summary=_SUMMARIES[metrics["kind"]],
            workers=Workers.PROCESSES,
            principles=PRINCIPLES,
            operating_points={
                context: {name: float(point["threshold"]) for name, point in points.items()}
                for context, points in metrics["operating_points"].items()
            },
            training_sources=training_sources(metrics),
            base=metrics["weights_sha256"] if metrics["kind"] == "language" else None,
        )

    @property
    def parameters(self) -> Mapping[str, object]:
        """Hash of the weights, and what they were trained with."""
        return {
            "weights_sha256": self._sha256,
            "training_code_sha256": self._metrics.get("code_sha256"),
            "principles": list(PRINCIPLES),
            "languages": list(self._read),
        }

    @property
    def metrics(self) -> Mapping[str, Any]:
        """How the weights were made and measured."""
        return self._metrics

    def start(self, conversation_id: str, context: Context) -> ReaderState:
        """Begin a conversation; nothing of its id is used. `ObserverError` in another context mode."""
        if context.mode not in CONTEXTS:
            known = ", ".join(map(str, CONTEXTS))
            raise ObserverError(f"observer {self.name} can't score in context {context}; use one of {known}")
        return ReaderState(context.mode, self._reader.start(), self._reader, self._sha256)

    def restore(self, data: bytes) -> ReaderState:
        """The state that `ReaderState.to_bytes` wrote; `ObserverError` for other bytes or other weights."""
        try:
            magic, digest, history = _HEAD.unpack_from(data)
            if magic != _MAGIC:
                raise ValueError("it does not start as one")
            same = digest == bytes.fromhex(self._sha256)[:16]
            place = self._reader.unpack(data[_HEAD.size :]) if same else None
        except (ValueError, struct.error) as error:
            raise ObserverError(
                f"no state of observer {self.name} ({error}); start the conversation anew"
            ) from error
        if not same:
            raise ObserverError(
                f"the state belongs to weights {digest.hex()[:12]}, these are {self._sha256[:12]}; "
                "start the conversation anew, or load the weights that it began with"
            )
        mode = ContextMode.HISTORY if history else ContextMode.TURN
        return ReaderState(mode, place, self._reader, self._sha256)

    def observe(self, state: ReaderState, turn: Turn, wanted: Collection[Request]) -> list[Given]:
        """Take the next turn into the state and give the scores that are wanted; a blank text changes nothing."""
        place, history = state.place, state.mode is ContextMode.HISTORY
        answers: list[Given | None] = []
        sides = {request.side for request in wanted}
        for side in Side:
            said = turn.text(side)
            if not said or not said.strip():
                continue
            followed = history or (side is Side.PROMPT and Side.RESPONSE in sides)
            if side in sides:
                asked = [request for request in wanted if request.side is side]
                language = self._languages.unread(said)
                if language is not None:
                    answers += [self._not_read(request, language) for request in asked]
                else:
                    reading = self._reader.read(place, said, side, lasts=followed)
                    own = self._calibration.triples(reading)
                    answers += [self._observation(request, reading, own) for request in asked]
            if followed:
                place = self._reader.after(place, said, side)
        if history:
            state.place = place
        return [one for one in answers if one is not None]

    def observe_many(
        self, conversations: Sequence[Sequence[Turn]], context: Context, wanted: Sequence[Request]
    ) -> ObservedMany:
        """Score whole conversations at once: no beginning is read twice, and as much as fits is read in one pass.

        Each of T, I and F is within 1e-6 of what `observe` gives turn by turn.
        """
        history = self.start("", context).mode is ContextMode.HISTORY
        talks, owners = utterances(conversations, wanted, history=history)
        foreign = self._foreign(talks)
        read = talks
        if foreign:
            read = [
                [one._replace(scored=one.scored and one.said not in foreign) for one in said] for said in talks
            ]
        readings = self._reader.read_many(read, states=any(map(self.taught, wanted)))
        scored = [
            (owner, one) for owner, one in zip(chain(*owners), chain(*readings), strict=True) if one is not None
        ]
        values = self._calibration.strongest_of_many([one for _, one in scored]).tolist()
        rows: list[tuple[int, int, int]] = []
        scores: list[Sequence[float]] = []
        failures: list[tuple[int, int, ObservationFailure]] = []
        unread: list[tuple[int, int, NotRead]] = []
        for (owner, reading), own in zip(scored, values, strict=True):
            for place, request in enumerate(wanted):
                given = self._answer(request, reading, own) if request.side is reading.side else None
                if isinstance(given, ObservationFailure):
                    failures.append((*owner, given))
                elif given is not None:
                    rows.append((*owner, place))
                    scores.append(given)
        for owner, one in zip(chain(*owners), chain(*talks), strict=True):
            if one.scored and one.said in foreign:
                told = [self._not_read(each, foreign[one.said]) for each in wanted if each.side is one.side]
                unread += [(*owner, each) for each in told if isinstance(each, NotRead)]
                failures += [(*owner, each) for each in told if isinstance(each, ObservationFailure)]
        return ObservedMany.of(rows, scores, failures, unread)

    def states(self, talks: Sequence[Sequence[tuple[Side, str]]]) -> list[NDArray[np.float32] | None]:
        """The states of the last text of each talk, from which principles are taught.

        Args:
            talks: who says what, in order; no text is blank.

        Returns:
            An array of shape (parts, width) each, a row for each part of a long text; None for a text in a
            language that is not read.

        Raises:
            ObserverError: the network of these weights has no such states.
        """
        if self._base is None:
            raise ObserverError(f"observer {self.name} can't be taught; use local")
        said = [
            [Utterance(side, text, place == len(talk)) for place, (side, text) in enumerate(talk, 1)]
            for talk in talks
        ]
        readings = self._reader.read_many(said, states=True)
        return [
            None if self._languages.unread(talk[-1][1]) is not None or last is None else last.states
            for talk, (*_, last) in zip(talks, readings, strict=True)
        ]

    def taught(self, request: Request) -> TaughtHead | None:
        """The head of a principle for a side, loaded once; None where nothing was taught, or for our own."""
        file = request.principle.head(request.side)
        if file is None or self._base is None or request.principle.name in PRINCIPLES:
            return None
        if file.sha256 not in self._heads:
            from turnwise.observers.local.scores import load_head

            self._heads[file.sha256] = load_head(file, self._base)
        return self._heads[file.sha256]

    def _unknown(self, request: Request) -> ObservationFailure | None:
        """The failure for a principle that is not known; None where it was taught for the other side alone."""
        name = request.principle.name
        if self._base is not None and request.principle.heads:
            return None
        message = f"observer {self.name} does not know principle {name!r}; it knows {', '.join(PRINCIPLES)}"
        if self._base is not None:
            message += ", and your own once you teach it: turnwise teach FOLDER --annotations FILE"
        return ObservationFailure(name, request.side, "unsupported", message)

    def _not_read(self, request: Request, language: str) -> NotRead | ObservationFailure | None:
        name = request.principle.name
        known = name in PRINCIPLES or self.taught(request) is not None
        return NotRead(name, request.side, language) if known else self._unknown(request)

    def _foreign(self, talks: Sequence[Sequence[Utterance]]) -> dict[str, str]:
        """The languages of the texts that are asked about and not read."""
        texts = dict.fromkeys(one.said for said in talks for one in said if one.scored)
        found = ((text, self._languages.unread(text)) for text in texts)
        return {text: language for text, language in found if language is not None}

    def _answer(
        self, request: Request, reading: Reading, own: Sequence[Sequence[float]]
    ) -> Sequence[float] | ObservationFailure | None:
        """T, I and F, of `own` or of what was taught; None for a side for which nothing was taught."""
        name = request.principle.name
        if name in PRINCIPLES:
            return own[PRINCIPLES.index(name)]
        head = self.taught(request)
        if head is not None and reading.states is not None:
            return astuple(head.strongest(reading.states))
        return self._unknown(request)

    def _observation(
        self, request: Request, reading: Reading, own: Sequence[Sequence[float]]
    ) -> Observation | ObservationFailure | None:
        given = self._answer(request, reading, own)
        if given is None or isinstance(given, ObservationFailure):
            return given
        reasoning = reading.left_out or None
        return Observation(request.principle.name, request.side, Score(*given), reasoning=reasoning)


class LocalSmallObserver(LocalObserver):
    """``local-small``: the same with a network that is a hundred times as fast and less able, for screening."""

    name: ClassVar[str] = "local-small"


def utterances(
    conversations: Sequence[Sequence[Turn]], wanted: Sequence[Request], *, history: bool
) -> tuple[list[list[Utterance]], list[list[tuple[int, int]]]]:
    """What is to be read, and of each text its conversation and turn; turn by turn without `history`."""
    sides = {request.side for request in wanted}
    parts = [
        (number, some)
        for number, turns in enumerate(conversations)
        for some in ([turns] if history else [[turn] for turn in turns])
    ]
    found = [_said(some, number, sides) for number, some in parts]
    return [said for said, _ in found], [whose for _, whose in found]


def _said(
    turns: Sequence[Turn], conversation: int, sides: set[Side]
) -> tuple[list[Utterance], list[tuple[int, int]]]:
    """What is to be read of some turns, up to the last text that is scored, and whose each text is."""
    said, whose, needed = [], [], 0
    for turn in turns:
        for side in Side:
            text = turn.text(side)
            if text and text.strip():
                said.append(Utterance(side, text, side in sides))
                whose.append((conversation, turn.number))
                needed = len(said) if side in sides else needed
    return said[:needed], whose[:needed]
