"""The inbox: the conversations that the detectors of a run flag, the most serious first, with where they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from datetime import datetime

from turnwise._support.notebook import Shown
from turnwise.conversation import Side
from turnwise.detectors import DetectorSpec, NamedDetector, PatternSource
from turnwise.errors import UsageError
from turnwise.linear_regex import LinearRegex
from turnwise.runs.verdicts import flagged
from turnwise.store import Review, Status, Store
from turnwise.store.kept_verdicts import Flag
from turnwise.store.people import NOBODY


@dataclass(frozen=True, slots=True)
class InboxItem(Shown):
    """A conversation that a detector flagged.

    Args:
        source: the data set that it comes from.
        label: ground truth that it was imported with.
        turns: how many turns it has.
        status: how far people have come with it.
        assignee: who is to look at it; None where nobody is.
        note: the last one that was written of it; may be empty.
        detector: specification of the detector that fired first.
        threshold: the score beyond which that fires.
        turn: the turn at which it fired, from 1.
        side: the half of the turn that was scored.
        principle: what counted most there.
        F: falsity of that turn against the principle.
        I: indeterminacy of it.
        peak: the highest F of any turn.
        score: the highest score of the detector in the conversation, in its own unit.
        reason: why it fired, in words.
        when: when the turn was said, else when the conversation was imported or scanned, in UTC.
    """

    sequence_id: str
    source: str
    label: str
    turns: int
    status: Status
    assignee: str | None
    note: str
    detector: str
    threshold: float
    turn: int
    side: Side
    principle: str
    F: float
    I: float  # noqa: E741 - the field's name for indeterminacy
    peak: float
    score: float
    reason: str
    when: datetime


@dataclass(frozen=True, slots=True)
class Inbox(Shown):
    """A page of the inbox: flagged conversations to read.

    Args:
        items: a page of it, the most serious first: by the highest F of any turn.
        total: how many there are on all pages.
        counts: how many there would be of each status.
        run: the run whose scores were judged.
        detectors: what judged them, with the thresholds.
        pending: conversations with scores that were not judged yet.
    """

    items: tuple[InboxItem, ...]
    total: int
    counts: Mapping[Status, int]
    run: str
    detectors: tuple[NamedDetector, ...]
    pending: int


def inbox(
    store: Store,
    run: str | None = None,
    *,
    detectors: Ordered[DetectorSpec] = (),
    patterns: PatternSource | None = None,
    status: str | Collection[str] | None = None,
    source: str | None = None,
    assignee: str | None = None,
    principle: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    words: str | None = None,
    limit: int | None = 50,
    offset: int = 0,
    seconds: float | None = None,
) -> Inbox:
    """Return the conversations that the detectors of a run flag, the most serious first.

    Args:
        run: whose scores; by default the run that was started last.
        detectors: what judges; by default what judges the run everywhere, see `turnwise.runs.judges_of`.
        patterns: your own named patterns, or the YAML file that defines them.
        status: only of this status, or of one of these.
        source: only of this data set.
        assignee: only what this person is to look at; ``nobody`` for what no one is.
        principle: only where this principle counted most.
        since: only from this time on.
        until: only before this time.
        words: only where each of these words is somewhere in the conversation; case does not matter.
        limit: how many at most; None for all.
        offset: how many to leave out at the beginning.
        seconds: how long to go on judging scores that are new, about; by default until all are judged.

    Raises:
        UnknownNameError: no such run, detector or parameter.
        UsageError: the store has no run, or there is no such status.
        DetectorError: a specification or value that does not fit.
        StoreError: a score is damaged.
    """
    wanted = _statuses(status)
    name = run if run is not None else last_run(store)
    found = flagged(store, name, detectors, patterns=patterns, seconds=seconds)
    said = {one.sequence_id: one for one in store.people.reviews()}
    first = sorted(found.first().values(), key=lambda one: (-one[1].peak, -one[1].F, one[1].number))
    flags = [
        (place, flag, review)
        for place, flag, review in ((place, flag, said.get(flag.sequence_id)) for place, flag in first)
        if (source is None or flag.source == source)
        and (assignee is None or ((review and review.assignee) or NOBODY) == assignee)
        and (principle is None or flag.principle == principle)
        and (since is None or flag.when >= since)
        and (until is None or flag.when < until)
    ]
    if words and words.strip():
        having = _having(store, words, {flag.sequence_id for _, flag, _ in flags})
        flags = [one for one in flags if one[1].sequence_id in having]
    counted = Counter(_status(review) for _, _, review in flags)
    if wanted is not None:
        flags = [one for one in flags if _status(one[2]) in wanted]
    shown = [
        _item(found.detectors[place], flag, review)
        for place, flag, review in flags[offset : None if limit is None else offset + limit]
    ]
    counts = {one: counted[one] for one in Status}
    return Inbox(tuple(shown), len(flags), counts, name, found.detectors, found.pending)


def last_run(store: Store) -> str:
    """Return the last run that nobody is writing, else the last one; UsageError where there is none."""
    names = [run.name for run in reversed(store.runs())]
    finished = (name for name in names if not store.is_being_written(name))
    return next(finished, names[0] if names else "") or store.only_run()


def _status(review: Review | None) -> Status:
    return review.status if review else Status.NEW


def _item(named: NamedDetector, flag: Flag, said: Review | None) -> InboxItem:
    same = ("sequence_id", "source", "label", "turns", "turn", "principle", "F", "I", "peak", "score", "reason")
    return InboxItem(
        status=_status(said),
        assignee=said.assignee if said else None,
        note=said.note if said else "",
        detector=named.spec,
        threshold=named.detector.threshold,
        side=Side(flag.side),
        when=flag.when,
        **{name: getattr(flag, name) for name in same},
    )


def _statuses(status: str | Collection[str] | None) -> frozenset[Status] | None:
    if status is None:
        return None
    given = [status] if isinstance(status, str) else status
    try:
        return frozenset(map(Status, given))
    except ValueError:
        raise UsageError(f"a status must be one of {', '.join(Status)}, not {status!r}") from None


def _having(store: Store, words: str, ids: Collection[str]) -> set[str]:
    """Which of some conversations hold all of some words."""
    wanted = words.casefold().split()
    found = set()
    for sequence in store.sequences(ids=ids):
        texts = "\n".join(f"{turn.prompt}\n{turn.response or ''}" for turn in sequence.conversation).casefold()
        if all(word in texts for word in wanted):
            found.add(sequence.sequence_id)
    return found


@dataclass(frozen=True, slots=True)
class FlaggedText:
    """The text of a flagged turn; the sentence that counts is from `start` to `end`."""

    text: str
    start: int
    end: int


def sentence(store: Store, item: InboxItem) -> FlaggedText:
    """Return the text of the flagged turn, and where the sentence is that counts: its last, mostly the request.

    Raises:
        UnknownNameError: the store no longer has the conversation.
        UsageError: the scan kept no texts.
    """
    [turn] = store.turns(item.sequence_id, range(item.turn, item.turn + 1))
    text = (turn.prompt if item.side is Side.PROMPT else turn.response) or ""
    start, end = 0, len(text)
    for found in _SENTENCE.finditer(text):
        if sum(map(str.isalnum, found[0])) >= _LETTERS:
            start, end = found.start, found.end
    return FlaggedText(text, start, end)


_LETTERS = 12
"""Letters and digits that a sentence has at least; ``Thanks!`` is not what counts."""

_SENTENCE = LinearRegex(r"[^\s][^.!?。！？\n]*[.!?。！？]*")
