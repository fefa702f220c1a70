"""One conversation, scored and judged: the same answer for Python and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from turnwise._support.visible import numbered
from turnwise.conversation import Conversation, Label, Sequence, Side, from_any
from turnwise.detectors import DetectorSpec, PatternSource, Verdict, name_detector, run_detector
from turnwise.observers import (
    DEFAULT_OBSERVER,
    Context,
    NotRead,
    Observation,
    ObservationFailure,
    Observer,
    ObserverSession,
    build_observer,
    check_supported,
)
from turnwise.principles import Principle, builtin_principles
from turnwise.runs import DEFAULT_DETECTORS
from turnwise.runs.plan import Plan, make_task
from turnwise.scoring import TurnScores, scores_by_turn

if TYPE_CHECKING:
    from pathlib import Path

    import altair
    import pandas

_LIVE = "live"


@dataclass(frozen=True, slots=True)
class NotScored:
    """A score that could not be made; none is made up for it."""

    turn: int
    failure: ObservationFailure

    def __str__(self) -> str:
        one = self.failure
        return f"not scored: turn {self.turn}, {one.principle}, {one.side}: {one.message}"

    def to_dict(self) -> dict[str, Any]:
        one = self.failure
        return {"turn": self.turn, "principle": one.principle, "reason": one.reason, "message": one.message}


@dataclass(frozen=True, slots=True)
class UnreadText:
    """A text without a score since the observer does not read its language, a code of BCP 47."""

    turn: int
    side: Side
    language: str

    def __str__(self) -> str:
        return f"not read: turn {self.turn}, {self.side}: its language is {self.language}"

    def to_dict(self) -> dict[str, Any]:
        return {"turn": self.turn, "side": str(self.side), "language": self.language}


@dataclass(frozen=True, slots=True)
class Report:
    """The scores of a conversation by an observer, and the verdicts of detectors on them.

    Args:
        conversation: what was scored.
        observer: name and version of what scored it.
        context: what that saw of it.
        turns: the scores, turn by turn.
        verdicts: what each detector says, in the order in which they were named.
        failures: what could not be scored. Detectors skip it, so a verdict beside failures rests on the others.
        unread: texts in languages that the observer does not read; detectors skip them too.
    """

    conversation: Conversation
    observer: str
    context: str
    turns: tuple[TurnScores, ...]
    verdicts: tuple[Verdict, ...] = ()
    failures: tuple[NotScored, ...] = ()
    unread: tuple[UnreadText, ...] = ()

    @property
    def fired(self) -> bool:
        """Whether any detector fired."""
        return any(verdict.fired for verdict in self.verdicts)

    @property
    def scored(self) -> bool:
        """Whether anything was scored at all; where nothing was, nothing is known of the conversation."""
        return any(turn.scores or turn.response_scores for turn in self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, as ``turnwise check --json`` prints it."""
        return {
            "turns": [turn.to_dict() for turn in self.turns],
            "detectors": [verdict.to_dict() for verdict in self.verdicts],
            "fired": self.fired,
            "failures": [failure.to_dict() for failure in self.failures],
            "unread": [text.to_dict() for text in self.unread],
        }

    def to_frame(self) -> pandas.DataFrame:
        """Return the scores as a table: a row for each turn, side and principle that was scored.

        Columns: ``turn``, ``side``, ``principle``, ``T``, ``I``, ``F``, ``text``.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas

        return pandas.DataFrame(list(self._rows()), columns=list(_COLUMNS))

    def plot(self, path: str | Path | None = None) -> altair.FacetChart:
        """Return the curves of T, I and F, a panel for each principle; a notebook shows them.

        Args:
            path: where to write them as well, as HTML, SVG, PNG or PDF by its suffix.

        Raises:
            ImportError: altair is not installed; it comes with ``turnwise[study]``.
            UsageError: a suffix that nothing is written as.
        """
        import altair

        from turnwise.plots import check_target, save, trajectory_chart

        target = None if path is None else check_target(path)
        spec = trajectory_chart(
            self.turns,
            list(self.conversation),
            title=self.conversation.conversation_id,
            subtitle=f"{self.observer}, {self.context}",
        )
        if target is not None:
            save(spec, target)
        return altair.FacetChart.from_dict(spec)

    def __repr__(self) -> str:
        fired = [verdict.detector for verdict in self.verdicts if verdict.fired]
        verdict = f"fired: {', '.join(fired)}" if fired else "nothing fired" if self.verdicts else "not judged"
        gaps = f", {len(self.failures)} scores missing" if self.failures else ""
        gaps += f", {len(self.unread)} texts not read" if self.unread else ""
        turns = numbered(len(self.turns), "turn")
        return f"<Report of {turns} by {self.observer} ({self.context}): {verdict}{gaps}>"

    def __str__(self) -> str:
        """The verdicts, and what is missing, a line each."""
        head = f"{numbered(len(self.turns), 'turn')}, scored by {self.observer} ({self.context})"
        return "\n".join((head, *map(str, self.verdicts), *map(str, self.failures), *map(str, self.unread)))

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(line)}</li>" for line in str(self).split("\n")[1:])
        rows = "".join(
            f"<tr><td>{turn}</td><td>{side}</td><td>{escape(principle)}</td>"
            + "".join(f"<td>{value:.2f}</td>" for value in values)
            + f"<td>{escape(text[:_SHOWN])}</td></tr>"
            for turn, side, principle, *values, text in self._rows()
        )
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        title = escape(str(self).partition("\n")[0])
        return f"<p>{title}</p><ul>{lines}</ul><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    def _rows(self) -> Iterable[tuple[int, str, str, float, float, float, str]]:
        for scores, turn in zip(self.turns, self.conversation, strict=True):
            for side, by_principle, text in (
                (Side.PROMPT, scores.scores, turn.prompt),
                (Side.RESPONSE, scores.response_scores, turn.response or ""),
            ):
                for principle, score in sorted(by_principle.items()):
                    yield scores.turn, str(side), principle, score.T, score.I, score.F, text


_COLUMNS = ("turn", "side", "principle", "T", "I", "F", "text")
_SHOWN = 200
"""Characters of a text in a notebook's table."""


def check(
    conversation: Conversation | Ordered[Mapping[str, Any]] | str,
    observer: str | Observer = DEFAULT_OBSERVER,
    detectors: Iterable[DetectorSpec] = DEFAULT_DETECTORS,
    *,
    context: str | Context = "history",
    principles: Ordered[Principle] | None = None,
    sides: Iterable[str | Side] = (Side.PROMPT,),
    patterns: PatternSource | None = None,
) -> Report:
    """Score a conversation and return the verdicts of detectors on it; nothing is stored.

    Args:
        conversation: the conversation, its messages as OpenAI's chat API takes them, or a text: one prompt.
        observer: what scores, by name or built.
        detectors: specifications, YAML files, mappings or detectors. One whose threshold is not given takes the
            operating point that the observer publishes for it; each verdict says where its threshold comes from.
        context: what the observer may see at a turn: ``turn``, ``window:k``, ``history`` or ``transcript``.
        principles: what turns are judged against; those that ship by default.
        sides: which halves of a turn are scored: ``prompt``, ``response`` or both.
        patterns: your own named patterns, or the YAML file that defines them.

    Raises:
        UnknownNameError: no such observer, detector or parameter.
        DetectorError: a specification or file that does not fit.
        ConversationError: the conversation can't be read, or has no turns.
        UsageError: a context or principle that the observer does not support.
        ObserverError: the observer can't go on.
    """
    built = build_observer(observer) if isinstance(observer, str) else observer
    seen = Context.parse(context) if isinstance(context, str) else context
    points = built.info.operating_points.get(str(seen), {})
    named = [name_detector(one, points, patterns) for one in detectors]
    if isinstance(conversation, str):
        talk = Conversation.from_turns([(conversation, None)])
    else:
        talk = conversation if isinstance(conversation, Conversation) else from_any(list(conversation))
    sequence = Sequence(talk.conversation_id, Label.UNLABELLED, _LIVE, talk)
    judged = builtin_principles() if principles is None else principles
    halves = [Side(side) for side in sides]
    check_supported(built.info, seen, judged, halves)
    task = make_task(_LIVE, sequence, (), Plan(judged, seen, halves))
    session = ObserverSession(built, seen, talk.conversation_id)
    outcomes = [(one.turn, given) for one in session.observe_all(task.turns, task.wanted) for given in one.given]
    lengths = {turn.number: (len(turn.prompt), len(turn.response or "")) for turn in talk}
    scores = (
        (turn, given.side, given.principle, given.score)
        for turn, given in outcomes
        if isinstance(given, Observation)
    )
    turns = tuple(scores_by_turn(len(lengths), scores, lengths))
    return Report(
        conversation=talk,
        observer=f"{built.info.name} {built.info.version}",
        context=str(seen),
        turns=turns,
        verdicts=tuple(run_detector(one.detector, turns, one.spec, one.source) for one in named),
        failures=tuple(
            NotScored(turn, given) for turn, given in outcomes if isinstance(given, ObservationFailure)
        ),
        unread=tuple(
            dict.fromkeys(
                UnreadText(turn, given.side, given.language)
                for turn, given in outcomes
                if isinstance(given, NotRead)
            )
        ),
    )


def score(
    conversation: Conversation | Ordered[Mapping[str, Any]] | str,
    observer: str | Observer = DEFAULT_OBSERVER,
    *,
    context: str | Context = "history",
    principles: Ordered[Principle] | None = None,
    sides: Iterable[str | Side] = (Side.PROMPT,),
) -> Report:
    """Score a conversation without judging it; see `check`."""
    return check(conversation, observer, (), context=context, principles=principles, sides=sides)
