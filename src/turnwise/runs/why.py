"""Why a stored conversation was flagged: what moved the score, what a judge said, and like cases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Final

from turnwise._support.bounded import read_json
from turnwise._support.notebook import Shown
from turnwise.conversation import Turn
from turnwise.errors import ObserverError, UsageError
from turnwise.observers import Context, build_observer
from turnwise.observers.ablation import METHOD, Why, explain
from turnwise.principles import load_principle
from turnwise.runs.inbox import inbox
from turnwise.runs.verdicts import flagged
from turnwise.scoring import EvaluationKey
from turnwise.store import Status, Store
from turnwise.store.runs import Run

_LOCAL: Final = "local"
_PAID: Final = "llm"
_NEAREST: Final = 2
"""Decided conversations that are named, of each kind."""

_MOST_DECIDED: Final = 2_000
"""Decided conversations that are compared, the latest."""

_SECONDS: Final = 5.0
"""How long scores that nothing was said of yet are judged, at most."""

_GRAM: Final = 4
"""Characters of a piece of a text that two texts have in common."""


@dataclass(frozen=True, slots=True)
class Near(Shown):
    """A decided conversation like this one.

    Args:
        sequence_id: its id.
        status: ``confirmed`` or ``dismissed``.
        likeness: the cosine of the two flagged texts over pieces of four characters, in [0, 1].
    """

    sequence_id: str
    status: Status
    likeness: float


@dataclass(frozen=True, slots=True)
class Explanation(Shown):
    """Why a conversation was flagged.

    Args:
        turn: the turn that was looked at.
        principle: what it was judged against.
        why: what its score rests on; None where the run's observer can't read again here, which `note` says.
        reasoning: what the observer said when it scored the turn; None where it said nothing.
        nearest: the most alike among confirmed and dismissed conversations.
        note: what could not be told, and why; may be empty.
        text: the text that was scored.
    """

    turn: int
    principle: str
    why: Why | None
    reasoning: str | None
    nearest: tuple[Near, ...]
    note: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "turn": self.turn,
            "principle": self.principle,
            "why": None if self.why is None else self.why.to_dict(),
            "reasoning": self.reasoning,
            "nearest": [{**asdict(one), "status": str(one.status)} for one in self.nearest],
            "sentences": list(self.sentences()),
        }

    def sentences(self) -> tuple[str, ...]:
        """Return it in plain sentences."""
        told = list(self.why.sentences(self.text)) if self.why is not None else []
        if self.reasoning:
            told.append(f"The observer said: {self.reasoning}")
        for one in self.nearest:
            told.append(f"Like {one.sequence_id}, which was {one.status} ({one.likeness:.2f} of 1).")
        if self.note:
            told.append(self.note)
        return tuple(told)


def explain_flag(
    store: Store,
    sequence_id: str,
    run: str | None = None,
    *,
    turn: int | None = None,
    principle: str | None = None,
    paid: bool = False,
) -> Explanation:
    """Say why a turn of a stored conversation has its score; what was read again once is kept.

    Args:
        run: whose scores; by default the run that was started last.
        turn: the turn; by default the one at which the run's detectors flagged, else the one with the highest F.
        principle: what it was judged against; by default the one with the highest F there.
        paid: whether a language model may be asked again, for money.

    Raises:
        UnknownNameError: no such conversation or run.
        UsageError: the run has no score of the conversation, or of that turn.
    """
    runs = store.runs()
    name = run if run is not None else runs[-1].name if runs else store.only_run()
    known = store.run(name)
    trajectory = store.trajectory(name, sequence_id)
    if turn is None and principle is None:
        flags = flagged(store, name, seconds=_SECONDS).first().values()
        turn = next((flag.turn for _, flag in flags if flag.sequence_id == sequence_id), None)
    scored = [
        one
        for one in trajectory.evaluations
        if turn in (None, one.key.turn) and principle in (None, one.key.principle)
    ]
    if not scored:
        raise UsageError(f"run {name!r} has no score of {sequence_id!r}" + (f", turn {turn}" if turn else ""))
    top = max(scored, key=lambda one: one.score.F)
    turns = list(store.sequence(sequence_id).conversation)
    text = turns[top.key.turn - 1].text(top.key.side) or ""
    why, note = _read_again(store, known, turns, top.key, paid=paid)
    nearest = _nearest(store, name, sequence_id, text)
    return Explanation(top.key.turn, top.key.principle, why, top.reasoning, nearest, note, text)


def _read_again(
    store: Store, run: Run, turns: Sequence[Turn], key: EvaluationKey, *, paid: bool
) -> tuple[Why | None, str]:
    """What the score rests on, and what could not be told."""
    about = f"{METHOD} {key.sequence_id} {key.turn} {key.side} {key.principle} {run.observer_version}"
    kept = store.kept_verdicts.explanation(run.name, about)
    if kept is not None:
        try:
            return Why.from_dict(read_json(kept)), ""
        except (ValueError, KeyError, TypeError):
            pass  # made anew
    kind = run.observer.partition(":")[0]
    if kind == _PAID and not paid:
        return None, f"Reading it again with {run.observer} costs money, so it was not: add --paid to do so."
    if kind not in (_PAID, _LOCAL) and not run.observer.startswith(_LOCAL):
        return None, f"Run {run.name} was scored by {run.observer}, which can't read a changed text again."
    try:
        observer = build_observer(run.observer)
        principle, context = load_principle(key.principle), Context.parse(run.context)
        why = explain(observer, turns, key.turn, principle, side=key.side, context=context)
    except (ObserverError, UsageError) as error:
        return None, f"It can't be read again here: {error}"
    store.kept_verdicts.keep_explanation(run.name, about, json.dumps(why.to_dict()))
    return why, ""


def _nearest(store: Store, run: str, sequence_id: str, text: str) -> tuple[Near, ...]:
    """The decided conversations whose flagged texts are most alike."""
    decided = [
        one
        for one in store.people.reviews()
        if one.status in (Status.CONFIRMED, Status.DISMISSED) and one.sequence_id != sequence_id
    ][-_MOST_DECIDED:]
    if not decided:
        return ()
    ids = {one.sequence_id: one.status for one in decided}
    every = inbox(store, run, limit=None, seconds=_SECONDS).items
    flags = {one.sequence_id: one for one in every if one.sequence_id in ids}
    own = _pieces(text)
    found = []
    for name, item in flags.items():
        [turn] = store.turns(name, range(item.turn, item.turn + 1))
        found.append(Near(name, ids[name], _likeness(own, _pieces(turn.text(item.side) or ""))))
    nearest: list[Near] = []
    for status in (Status.CONFIRMED, Status.DISMISSED):
        of_status = sorted((one for one in found if one.status is status), key=lambda one: -one.likeness)
        nearest += of_status[:_NEAREST]
    return tuple(nearest)


def _pieces(text: str) -> Counter[str]:
    plain = " ".join(text.casefold().split())[:4_000]
    return Counter(plain[at : at + _GRAM] for at in range(max(1, len(plain) - _GRAM + 1)))


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    shared: Iterable[str] = one.keys() & other.keys()
    length = sqrt(sum(count * count for count in one.values()) * sum(count * count for count in other.values()))
    return sum(one[piece] * other[piece] for piece in shared) / length if length else 0.0
