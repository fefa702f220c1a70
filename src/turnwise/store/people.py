"""What people say of the conversations of a store: corrected labels, the turn where one turned, scores of turns,
and how far they have come with reading what was flagged.

Everything is appended with author and time. What a data set said stays as it was imported, and what somebody said
before stays beside what they say now: the latest word of each author counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Literal, TypeVar

from sqlalchemy import Connection, Select, Table, insert, select, union

from turnwise._support.notebook import Shown
from turnwise.conversation import Label, Seen, Side
from turnwise.datasets import digests
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Score
from turnwise.store import schema
from turnwise.store.damaged_rows import intact
from turnwise.store.database import Database
from turnwise.store.erasure import Erasure, erasures
from turnwise.store.score_rows import storable
from turnwise.store.source import NumberedHead, Source

Kind = Literal["label", "turn"]
"""What a correction is about: the label of a conversation, or the turn where it turned."""

MOST_AUTHOR: Final = 100
"""Characters of the name of an author."""

MOST_NOTE: Final = 10_000
"""Characters of a note."""

SET: Final = "set-"
"""Begins the author of what several people agreed on or had settled: it is nobody's own word."""

NOBODY: Final = "nobody"
"""In place of an assignee: no one is to look at a conversation."""

NEVER: Final = 0
"""In place of the number of a turn: the conversation never turned."""


@dataclass(frozen=True, slots=True)
class LabelCorrection(Shown):
    """A person's judgement of a whole conversation.

    Args:
        kind: ``label`` or ``turn``.
        label: the label that it should have; None where an earlier one was taken back, or `kind` is ``turn``.
        turn: the first turn at which it had turned, from 1, or `NEVER`; None where an earlier one was taken back,
            or `kind` is ``label``.
        author: who said so.
        note: why, in their words; may be empty.
        created_at: when, in UTC.
    """

    sequence_id: str
    kind: Kind
    label: Label | None
    turn: int | None
    author: str
    note: str
    created_at: datetime

    @property
    def taken_back(self) -> bool:
        """Whether the author took back what they had said."""
        return self.label is None and self.turn is None


@dataclass(frozen=True, slots=True)
class HumanScore(Shown):
    """The score that a person gave a turn.

    Args:
        turn: number of the turn, from 1.
        side: the half of the turn that was scored.
        principle: what it was judged against.
        principle_version: revision of the principle whose definition the person had before them.
        score: T, I and F.
        seen: how much of the conversation they had before them.
        digest: digest of exactly that (`turnwise.conversation.SeenDigest`).
        author: who scored.
        note: why, in their words; may be empty.
        created_at: when, in UTC.
    """

    sequence_id: str
    turn: int
    side: Side
    principle: str
    principle_version: str
    score: Score
    seen: Seen
    digest: str
    author: str
    note: str
    created_at: datetime


class Status(StrEnum):
    """How far people have come with a conversation that was flagged. It was given with the score in view, so it is
    no label: nothing is fitted to it or measured with it."""

    NEW = "new"
    READ = "read"
    CONFIRMED = "confirmed"
    DISMISSED = "dismissed"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class Review(Shown):
    """The status of a conversation in the inbox. The last one given counts, whoever gave it.

    Args:
        status: how far it has come.
        assignee: who is to look at it; None where nobody is.
        note: the last one that was written; may be empty.
        author: who said the last word.
        created_at: when, in UTC.
    """

    sequence_id: str
    status: Status
    assignee: str | None
    note: str
    author: str
    created_at: datetime


class People:
    """The judgements of people in a store; `Store.people` has it.

    Names of authors have at most 100 characters, notes 10,000. Each method raises UnknownNameError for a sequence
    that the store does not have; nothing was written then.
    """

    def __init__(self, database: Database, source: Source) -> None:
        self._db = database
        self._source = source

    def correct_label(
        self, sequence_id: str, label: Label | str | None, author: str, note: str = ""
    ) -> LabelCorrection:
        """Correct the label of a conversation; the one it was imported with is kept.

        Args:
            label: ``attack``, ``benign`` or ``unlabelled``; None takes back what this author said before.
            author: who says so.
            note: why.

        Raises:
            UsageError: there is no such label, or author or note do not fit.
        """
        self._hold([sequence_id])
        try:
            known = None if label is None else Label(label)
        except ValueError:
            raise UsageError(f"a label must be one of {', '.join(Label)}, not {label!r}") from None
        return self._correct(sequence_id, "label", known, None, author, note)

    def mark_turn(self, sequence_id: str, turn: int | None, author: str, note: str = "") -> LabelCorrection:
        """Record at which turn a conversation turned.

        Args:
            turn: the first turn at which a careful reader is more suspicious than not, from 1; 0 where there is
                none; None takes back what this author said before.
            author: who says so.
            note: why.

        Raises:
            UsageError: the conversation has no such turn, or author or note do not fit.
        """
        self._hold([sequence_id])
        turns = self._head(sequence_id).head.turns
        if turn is not None and not NEVER <= turn <= turns:
            raise UsageError(
                f"sequence {sequence_id!r} has turns 1 to {turns}, not {turn}; 0 says that it never turned"
            )
        return self._correct(sequence_id, "turn", None, turn, author, note)

    def _head(self, sequence_id: str) -> NumberedHead:
        [[head]] = self._source.pages([sequence_id])
        return head

    def _hold(self, ids: Collection[str]) -> None:
        """Put conversations that are spoken of into the record where the words are kept; here they are there."""

    def _correct(
        self, sequence_id: str, kind: Kind, label: Label | None, turn: int | None, author: str, note: str
    ) -> LabelCorrection:
        said = LabelCorrection(
            sequence_id, kind, label, turn, read_author(author), _read_note(note), self._db.clock()
        )
        names = ("kind", "label", "turn", "author", "note", "created_at")
        row = {name: getattr(said, name) for name in names}
        self._insert(schema.corrections, [{"sequence": self._head(sequence_id).number, **row}])
        return said

    def _insert(self, table: Table, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row.update({name: str(value) for name, value in row.items() if isinstance(value, StrEnum)})
        self._db.write(lambda connection: connection.execute(insert(table), rows)).result()

    def judge(
        self,
        sequence_id: str,
        turn: int,
        scores: Mapping[str, Score],
        author: str,
        *,
        versions: Mapping[str, str],
        side: Side = Side.PROMPT,
        seen: Seen = Seen.PROMPTS,
        note: str = "",
    ) -> tuple[HumanScore, ...]:
        """Score a turn; the scores for all principles are stored in one transaction.

        Args:
            turn: number of the turn, from 1.
            scores: T, I and F by principle; at least one.
            author: who scores, at most 100 characters.
            versions: revision of each of these principles.
            side: the half of the turn that is scored.
            seen: how much of the conversation the author had before them.
            note: why, at most 10,000 characters.

        Raises:
            UsageError: it has no such turn or no text on that side, there is no score, or author or note
                do not fit.
        """
        self._hold([sequence_id])
        head = self._head(sequence_id)
        conversation = next(self._source.sequences([head])).conversation
        turns = conversation.get_turn_count()
        if not 1 <= turn <= turns:
            raise UsageError(f"sequence {sequence_id!r} has turns 1 to {turns}, not {turn}")
        if side is Side.RESPONSE and conversation.turn(turn).response is None:
            raise UsageError(f"sequence {sequence_id!r}, turn {turn} has no response to score")
        if not scores:
            raise UsageError("a judgement needs a score against at least one principle")
        digest = digests(conversation, seen)[turn]
        now, by, why = self._db.clock(), read_author(author), _read_note(note)
        made = tuple(
            HumanScore(sequence_id, turn, side, name, versions[name], score, seen, digest, by, why, now)
            for name, score in scores.items()
        )
        rows = [
            {"sequence": head.number, **{name: getattr(one, name) for name in _SCORED}, **one.score.to_dict()}
            for one in made
        ]
        self._insert(schema.human_scores, rows)
        return made

    def review(
        self,
        ids: Collection[str],
        status: Status | str | None = None,
        *,
        author: str,
        assignee: str | None = None,
        note: str = "",
    ) -> tuple[Review, ...]:
        """Say where conversations stand, all in one transaction, and return what holds of them now.

        Args:
            ids: the conversations; at least one.
            status: ``new``, ``read``, ``confirmed``, ``dismissed`` or ``unsure``; None keeps what it is.
            author: who says so, at most 100 characters.
            assignee: who is to look at them, at most 100 characters; ``nobody`` or an empty text takes it from
                whoever it was, and None keeps who it is.
            note: why, at most 10,000 characters; an empty one keeps the last that was written.

        Raises:
            UsageError: there is no such status, nothing is said, or a name or the note does not fit.
        """
        try:
            known = None if status is None else str(Status(status))
        except ValueError:
            raise UsageError(f"a status must be one of {', '.join(Status)}, not {status!r}") from None
        if not ids:
            raise UsageError("a review needs at least one conversation")
        if known is None and assignee is None and not note.strip():
            raise UsageError("give a status, who is to look at it, or a note")
        said: dict[str, Any] = {
            "status": known,
            "assignee": None if assignee is None else "" if assignee in ("", NOBODY) else read_author(assignee),
            "author": read_author(author),
            "note": _read_note(note),
        }
        self._hold(ids)
        said["created_at"] = self._db.clock()
        rows = [{"sequence": head.number, **said} for page in self._source.pages(ids) for head in page]
        self._insert(schema.reviews, rows)
        return self.reviews(ids)

    def reviews(self, ids: Collection[str] | None = None, *, history: bool = False) -> tuple[Review, ...]:
        """Return where conversations stand, of which somebody has said something, in the order of the last words.

        Args:
            ids: only of these sequences.
            history: whether to return where they stood after each word, oldest first; else only after the last.
        """
        rows = list(self._rows(schema.reviews, ids, None))
        with intact(self._db.where if rows else "", "a review"):
            found = list(fold_reviews(rows))
        return tuple(found if history else _latest(found, lambda one: one.sequence_id))

    def receipts(self) -> tuple[Erasure, ...]:
        """Return the receipts of what was erased, oldest first."""
        return tuple(one for _, one in erasures(self._db))

    def authors(self) -> tuple[str, ...]:
        """Return the names of all authors of judgements, sorted."""
        both = union(select(schema.corrections.c.author), select(schema.human_scores.c.author)).subquery()
        return tuple(sorted(row["author"] for row in self._db.read(select(both.c.author))))

    def corrections(
        self, *, ids: Collection[str] | None = None, author: str | None = None, history: bool = False
    ) -> tuple[LabelCorrection, ...]:
        """Return the judgements of whole conversations, oldest first.

        Args:
            ids: only of these sequences.
            author: only by this person.
            history: whether to include what was replaced or taken back; else only the latest word of each author.
        """
        found = [self._correction(row) for row in self._rows(schema.corrections, ids, author)]
        if history:
            return tuple(found)
        latest = _latest(found, lambda one: (one.sequence_id, one.kind, one.author))
        return tuple(one for one in latest if not one.taken_back)

    def scores(
        self, *, ids: Collection[str] | None = None, author: str | None = None, history: bool = False
    ) -> tuple[HumanScore, ...]:
        """Return the scores that people gave turns, oldest first.

        Arguments and errors as for `corrections`; without `history`, the last score of each author, turn, side and
        principle.
        """
        found = [self._score(row) for row in self._rows(schema.human_scores, ids, author)]
        if history:
            return tuple(found)
        names = ("sequence_id", "turn", "side", "principle", "author")
        return tuple(_latest(found, attrgetter(*names)))

    def labels(self, authors: Iterable[str] | None = None) -> dict[str, Label | None]:
        """Return by sequence the label that people gave it; None where they disagree.

        Args:
            authors: only by these people; by default by all.

        Raises:
            UnknownNameError: one of these people said nothing.
        """
        wanted = None if authors is None else frozenset(authors)
        if wanted:
            known = self.authors()
            for author in sorted(wanted.difference(known)):
                raise UnknownNameError("author of corrections", author, known)
        found: dict[str, Label | None] = {}
        for one in self.corrections():
            if one.label is None or (wanted is not None and one.author not in wanted):
                continue
            before = found.get(one.sequence_id, one.label)
            found[one.sequence_id] = one.label if before is one.label else None
        return found

    def _rows(self, table: Table, ids: Collection[str] | None, author: str | None) -> Iterator[Any]:
        sequence_id = schema.sequences.c.sequence_id
        query: Select[Any] = select(table, sequence_id).join(
            schema.sequences, schema.sequences.c.id == table.c.sequence
        )
        if author is not None:
            query = query.where(table.c.author == author)
        if ids is None:
            yield from self._db.read(query.order_by(table.c.id))
            return
        rows = []
        for page in self._source.pages(ids):
            rows += self._db.read(query.where(table.c.sequence.in_([one.number for one in page])))
        yield from sorted(rows, key=lambda row: int(row["id"]))

    def _correction(self, row: Any) -> LabelCorrection:
        with intact(self._db.where, f"correction {row['id']}"):
            label = None if row["label"] is None else Label(row["label"])
            names = ("kind", "turn", "author", "note", "created_at")
            return LabelCorrection(row["sequence_id"], label=label, **{name: row[name] for name in names})

    def _score(self, row: Any) -> HumanScore:
        with intact(self._db.where, f"score {row['id']} of a person"):
            said = {name: row[name] for name in ("sequence_id", *_SCORED)}
            said |= {"side": Side(row["side"]), "seen": Seen(row["seen"])}
            return HumanScore(score=Score(row["T"], row["I"], row["F"]), **said)


_SCORED = ("turn", "side", "principle", "principle_version", "seen", "digest", "author", "note", "created_at")
"""What a row of `schema.human_scores` has of a `HumanScore`, beside its sequence and score."""

Said = TypeVar("Said", LabelCorrection, HumanScore, Review)


def fold_reviews(rows: Iterable[Any]) -> Iterator[Review]:
    """Where conversations stand after each row of `schema.reviews` with its ``sequence_id``, oldest first."""
    latest: dict[str, Review] = {}
    for row in rows:
        name, status, assignee = row["sequence_id"], row["status"], row["assignee"]
        before = latest.get(name)
        latest[name] = Review(
            name,
            (before.status if before else Status.NEW) if status is None else Status(status),
            (before.assignee if before else None) if assignee is None else assignee or None,
            row["note"] or (before.note if before else ""),
            row["author"],
            row["created_at"],
        )
        yield latest[name]


def stored_reviews(record: Connection) -> list[Review]:
    """Where the conversations of a record stand, the last word of each last."""
    names = schema.sequences.c
    query = select(schema.reviews, names.sequence_id).join(schema.sequences, names.id == schema.reviews.c.sequence)
    return list(fold_reviews(record.execute(query.order_by(schema.reviews.c.id)).mappings()))


def _latest(said: Iterable[Said], about: Callable[[Said], Any]) -> Iterator[Said]:
    """Of all that is said of the same thing the last, in the order in which it was said."""
    found: dict[Any, Said] = {}
    for one in said:
        found.pop(about(one), None)
        found[about(one)] = one
    return iter(found.values())


def read_author(author: str) -> str:
    """The name of an author as it is kept; UsageError where it is empty, too long, or not all of it can be seen.

    >>> read_author(" Ann ")
    'Ann'
    """
    name = author.strip()
    if not name:
        raise UsageError("say who you are: corrections and judgements carry the name of their author")
    if len(name) > MOST_AUTHOR or not name.isprintable():
        raise UsageError(f"the name of an author has at most {MOST_AUTHOR} characters, all of which can be seen")
    return name


def _read_note(note: str) -> str:
    if len(note) > MOST_NOTE:
        raise UsageError(f"a note has at most {MOST_NOTE:,} characters, not {len(note):,}")
    return storable(note.strip())
