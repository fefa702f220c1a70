"""Many conversations at once for the embedded observers: from turns to what is read, and from that to columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import chain
from typing import TYPE_CHECKING

from turnwise.conversation import Side, Turn
from turnwise.observers.local.protocol import Utterance
from turnwise.observers.local.weights import PRINCIPLES
from turnwise.observers.many import ObservedMany
from turnwise.observers.protocol import NotRead, ObservationFailure, Request

if TYPE_CHECKING:
    from turnwise.observers.local.protocol import Reader, Reading
    from turnwise.observers.local.scores import Calibration
    from turnwise.observers.local.taught_head import Head


def observe_many(
    reader: Reader,
    calibration: Calibration,
    conversations: Sequence[Sequence[Turn]],
    wanted: Sequence[Request],
    *,
    unread: Callable[[str], str | None],
    not_read: Callable[[Request, str], NotRead | ObservationFailure | None],
    unknown: Callable[[Request], ObservationFailure | None],
    taught: Callable[[Request], Head | None],
    history: bool,
) -> ObservedMany:
    """Score many conversations; `unread` gives the language of a text that is not read, and None of one that is.

    A text is read behind all earlier ones of its conversation with `history`, else behind its turn's prompt.
    `taught` gives the head of a principle that is not the reader's own.
    """
    heads = [taught(one) for one in wanted]
    asked = {side: [(n, one) for n, one in enumerate(wanted) if one.side is side] for side in Side}
    talks, owners = utterances(conversations, wanted, history=history)
    foreign = _foreign(talks, unread)
    talks = [
        [one._replace(scored=one.scored and one.said not in foreign) for one in said] if foreign else said
        for said in talks
    ]
    readings: list[Reading] = []
    scored: list[tuple[int, int]] = []
    for reading, owner in zip(chain(*reader.read_many(talks, states=any(heads))), chain(*owners), strict=True):
        if reading is not None:
            readings.append(reading)
            scored.append(owner)
    values = calibration.strongest_of_many(readings).tolist()
    rows: list[tuple[int, int, int]] = []
    scores: list[Sequence[float]] = []
    failures: list[tuple[int, int, ObservationFailure]] = []
    others: list[tuple[int, int, NotRead]] = []
    for (conversation, turn), reading, triples in zip(scored, readings, values, strict=True):
        for place, request in asked[reading.side]:
            name = request.principle.name
            head = heads[place]
            if name in PRINCIPLES:
                rows.append((conversation, turn, place))
                scores.append(triples[PRINCIPLES.index(name)])
            elif head is not None and reading.states is not None:
                rows.append((conversation, turn, place))
                scores.append(astuple(head.strongest(reading.states)))
            elif (failure := unknown(request)) is not None:
                failures.append((conversation, turn, failure))
    for number, turn, given in _told_unread(conversations, foreign, asked, not_read):
        if isinstance(given, NotRead):
            others.append((number, turn, given))
        else:
            failures.append((number, turn, given))
    return ObservedMany.of(rows, scores, failures, others)


def _foreign(talks: Sequence[Sequence[Utterance]], unread: Callable[[str], str | None]) -> dict[str, str]:
    """The texts that are to be scored and are not read, with their languages."""
    texts = dict.fromkeys(one.said for said in talks for one in said if one.scored)
    found = ((text, unread(text)) for text in texts)
    return {text: language for text, language in found if language is not None}


def _told_unread(
    conversations: Sequence[Sequence[Turn]],
    foreign: Mapping[str, str],
    asked: Mapping[Side, Sequence[tuple[int, Request]]],
    not_read: Callable[[Request, str], NotRead | ObservationFailure | None],
) -> Iterator[tuple[int, int, NotRead | ObservationFailure]]:
    """Conversation, turn and what is told of each request for a text that is not read."""
    for number, turns in enumerate(conversations if foreign else ()):
        for one in turns:
            for side, requests in asked.items():
                language = foreign.get(one.text(side) or "")
                for _, request in requests if language else ():
                    given = not_read(request, language or "")
                    if given is not None:
                        yield number, one.number, given


def utterances(
    conversations: Sequence[Sequence[Turn]], wanted: Sequence[Request], *, history: bool
) -> tuple[list[list[Utterance]], list[list[tuple[int, int]]]]:
    """What is to be read, and of each text the conversation and the turn that it belongs to."""
    sides = {request.side for request in wanted}
    talks: list[list[Utterance]] = []
    owners: list[list[tuple[int, int]]] = []
    for number, turns in enumerate(conversations):
        for some in [turns] if history else [[turn] for turn in turns]:
            said, whose = _said(some, number, sides)
            talks.append(said)
            owners.append(whose)
    return talks, owners


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
