"""``local``: the observer that needs no key, no network and no download."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers.context import Context, ContextMode
from turnwise.observers.local.weights import PRINCIPLES, load_weights, read_metrics
from turnwise.observers.protocol import (
    Observation,
    ObservationFailure,
    ObserverInfo,
    Request,
    Scene,
    Workers,
)
from turnwise.scoring import Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.observers.local.network import Reading

VERSION = "0.3"
"""Version of what the code makes of the weights; changes with any change to the scores of the same weights."""

CONTEXTS = (ContextMode.TURN, ContextMode.HISTORY)
_MAGIC = b"TWLS2"
_LENGTHS = struct.Struct("<HQ")
"""Length of the header, and turns taken in."""

_SUMMARY = "token table and recurrent ensemble in numpy; scores prompts only, see docs/model-card.md"


@dataclass(slots=True)
class LocalState:
    """State of one conversation; of the same size at every turn.

    Args:
        mode: ``history``, or ``turn`` where nothing is carried from turn to turn.
        hidden: state of each network of the ensemble, shape (members, width).
        turns: turns taken in so far; 0 where nothing is carried.
        weights_sha256: the weights that it belongs to.
    """

    mode: ContextMode
    hidden: NDArray[np.float32]
    turns: int
    weights_sha256: str

    def __deepcopy__(self, memo: object) -> LocalState:
        """Return a state of its own; the array may be shared, since no turn changes one in place."""
        return replace(self)

    def to_bytes(self) -> bytes:
        """Return the state as bytes, at most 4 KB; `LocalObserver.restore` takes them back."""
        head = json.dumps({"mode": str(self.mode), "shape": self.hidden.shape, "weights": self.weights_sha256})
        body = self.hidden.astype("<f4").tobytes()
        return _MAGIC + _LENGTHS.pack(len(head), self.turns) + head.encode() + body


class LocalObserver:
    """Scores prompts with the embedded network, in context mode ``turn`` or ``history``.

    It reads user turns only: several data sets that it learned from have no replies. A wanted score of a response
    is left out; a principle that it does not know gives a failure.

    Args:
        argument: folder with trained weights; None for the weights that ship with turnwise.

    Raises:
        ObserverError: the weights can't be used.
    """

    def __init__(self, argument: str | None = None) -> None:
        if argument == "":
            raise ObserverError("local: the path after the colon is empty; use local, or local:path/to/model")
        # The network brings numpy and tokenizers, which nobody should wait for who only lists observers.
        from turnwise.observers.local.network import Network

        weights = load_weights(argument)
        self._network = Network(weights)
        self._metrics = weights.metrics
        self._sha256 = weights.sha256
        self._shape = (weights.members, weights.width)
        self._latest: tuple[str, Reading] | None = None

    @classmethod
    def describe(cls) -> ObserverInfo:
        """Return what is to be known of the observer with its shipped weights, without loading them."""
        return _info(read_metrics())

    @property
    def info(self) -> ObserverInfo:
        """What a person should know of it."""
        return _info(self._metrics)

    @property
    def parameters(self) -> Mapping[str, object]:
        """Its settings: hash of the weights, and what they were trained with."""
        return {
            "weights_sha256": self._sha256,
            "training_code_version": self._metrics.get("code_version"),
            "principles": list(PRINCIPLES),
        }

    @property
    def metrics(self) -> Mapping[str, Any]:
        """How the weights were made and measured."""
        return self._metrics

    def start(self, scene: Scene, context: Context) -> LocalState:
        """Return the state of one conversation before its first turn.

        Args:
            scene: the conversation; nothing of it is used.
            context: ``turn`` or ``history``.

        Raises:
            ObserverError: another context mode.
        """
        if context.mode not in CONTEXTS:
            raise ObserverError(
                f"observer local can't score in context {context}; it supports {', '.join(map(str, CONTEXTS))}"
            )
        return LocalState(context.mode, self._network.arm(str(context.mode)).initial(), 0, self._sha256)

    def restore(self, data: bytes) -> LocalState:
        """Return the state that `LocalState.to_bytes` wrote.

        Raises:
            ObserverError: the bytes are no such state, or one of other weights.
        """
        import numpy as np

        try:
            if not data.startswith(_MAGIC):
                raise ValueError("it does not start as one")
            length, turns = _LENGTHS.unpack_from(data, len(_MAGIC))
            begin = len(_MAGIC) + _LENGTHS.size
            head = json.loads(data[begin : begin + length])
            mode, sha256 = ContextMode(head["mode"]), str(head["weights"])
            hidden = np.frombuffer(data[begin + length :], "<f4").reshape(head["shape"]).astype(np.float32)
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise ObserverError(f"no state of observer local ({error}); start the conversation anew") from error
        if sha256 != self._sha256 or hidden.shape != self._shape or not np.isfinite(hidden).all():
            raise ObserverError(
                f"the state belongs to weights {sha256[:12]}, these are {self._sha256[:12]}; "
                "start the conversation anew, or load the weights that it began with"
            )
        return LocalState(mode, hidden, turns, sha256)

    def observe(
        self, state: LocalState, turn: Turn, wanted: Collection[Request]
    ) -> list[Observation | ObservationFailure]:
        """Take the next turn into the state and give the scores that are wanted of its prompt.

        Args:
            state: what `start` or `restore` gave.
            turn: the turn; an empty prompt changes nothing and gets no score.
            wanted: the scores that are wanted; those of a response are left out.
        """
        if not turn.prompt.strip():
            return []
        arm = self._network.arm(str(state.mode))
        reading = self._read(turn.prompt)
        logits, following = arm.step(reading.vector, state.hidden)
        if state.mode is ContextMode.HISTORY:
            state.hidden = following
            state.turns += 1
        prompts = [request for request in wanted if request.side is Side.PROMPT]
        if not prompts:
            return []
        values = arm.scores(logits, reading.features, max(state.turns, 1))
        scores = {name: Score(*row) for name, row in zip(PRINCIPLES, values.T.tolist(), strict=True)}
        answers: list[Observation | ObservationFailure] = []
        for request in prompts:
            name = request.principle.name
            if name in scores:
                answers.append(Observation(name, request.side, scores[name]))
            else:
                message = f"observer local does not know principle {name!r}; it knows {', '.join(PRINCIPLES)}"
                answers.append(ObservationFailure(name, request.side, "unsupported", message))
        return answers

    def _read(self, text: str) -> Reading:
        """Return what is read off a text; the latest is kept, since both context modes may be asked about it."""
        latest = self._latest
        if latest is None or latest[0] != text:
            latest = self._latest = (text, self._network.read(text))
        return latest[1]

    def score_many(self, conversations: Sequence[Sequence[str]], context: Context) -> list[NDArray[np.float32]]:
        """Score whole conversations at once: what `observe` gives turn by turn, many times as fast.

        Args:
            conversations: the prompts of each conversation, in order.
            context: ``turn`` or ``history``.

        Returns:
            For every conversation an array of shape (turns, 3, principles): rows T, I and F, principles in the
            order of `turnwise.observers.local.weights.PRINCIPLES`. An empty prompt is a gap: its values are NaN.

        Raises:
            ObserverError: another context mode.
        """
        import numpy as np

        arm = self._network.arm(self.start(Scene("batch"), context).mode)
        filled = [[text for text in texts if text.strip()] for texts in conversations]
        flat = [text for texts in filled for text in texts]
        lengths = [len(texts) for texts in filled if texts]
        results = [np.full((len(texts), 3, len(PRINCIPLES)), np.nan, np.float32) for texts in conversations]
        if not flat:
            return results
        vectors, features = self._network.read_many(flat)
        turns = arm.turn_numbers(lengths)
        values = arm.scores(arm.run(vectors, lengths), features, turns)
        begin = 0
        for result, texts, kept in zip(results, conversations, filled, strict=True):
            result[[bool(text.strip()) for text in texts]] = values[begin : begin + len(kept)]
            begin += len(kept)
        return results

    def operating_point(self, context: Context, detector_name: str) -> float | None:
        """Return a detector's threshold for at most 1 % of benign conversations flagged.

        It was set on benign conversations held out from training, with the detector's other parameters at their
        defaults; `metrics` has its interval.

        Args:
            context: the context mode of the scores.
            detector_name: such as ``"cusum"``.

        Returns:
            The threshold for the detector's ``with_threshold``, or None where none was set.
        """
        return self.info.operating_points.get(str(context), {}).get(detector_name)


def _info(metrics: Mapping[str, Any]) -> ObserverInfo:
    points = metrics["operating_points"]
    return ObserverInfo(
        name="local",
        version=f"{VERSION}+{metrics['weights_sha256'][:12]}",
        contexts=CONTEXTS,
        summary=_SUMMARY,
        workers=Workers.PROCESSES,
        operating_points={
            mode: {name: float(point["threshold"]) for name, point in detectors.items()}
            for mode, detectors in points.items()
        },
    )
