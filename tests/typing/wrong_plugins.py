"""Mistakes of a third party, each with the error that a type checker gives: one that it does not give fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import turnwise
from turnwise import Conversation, GuardrailPipeline, Score, Turn
from turnwise.datasets import (
    BadRecord,
    DatasetInfo,
    FileHead,
    LoadOptions,
    RecordLoader,
    check_loader,
    dataset_loader,
)
from turnwise.detectors import ByPrinciple, Signal, State, check_detector, detector
from turnwise.guard import AsyncGuardrail, Check, Finding, Guardrail, check_guardrail, guardrail, open_state_store
from turnwise.observers import Context, Observation, ObserverInfo, Request, check_observer, observer
from turnwise.scoring import TurnScores


class Lacking:
    """No `update`."""

    name = "lacking"
    threshold = 0.5

    def with_threshold(self, value: float) -> Lacking:
        return self

    def start(self) -> State:
        return {}


class Number(Lacking):
    """Gives a number where a signal is due."""

    def with_threshold(self, value: float) -> Number:
        return self

    def update(self, state: State, scores: TurnScores) -> float:
        return 0.5


class Text(Number):
    """Takes texts where scores come."""

    def with_threshold(self, value: float) -> Text:
        return self

    def update(self, state: State, scores: str) -> Signal:  # type: ignore[override]
        return Signal(0.5, False, False, None, scores)


@dataclass(frozen=True)
class Halved(ByPrinciple):
    name = "halved"
    label: ClassVar[str] = "F / 2"
    limit: float = 0.5

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> float:  # type: ignore[override]
        return score.F / 2


class Silent(Guardrail):
    """No `check`."""


class Unsaid(AsyncGuardrail):
    """No `acheck`."""


class Yes(Guardrail):
    def check(self, check: Check) -> bool:  # type: ignore[override]
        return True


def says_yes(check: Check) -> bool:
    return True


def takes_text(text: str) -> Finding:
    return Finding(False)


class Deaf:
    """An observer without `observe`."""

    parameters: ClassVar[dict[str, object]] = {}

    @classmethod
    def describe(cls) -> ObserverInfo:
        return ObserverInfo("deaf", "1", (), "")

    @property
    def info(self) -> ObserverInfo:
        return self.describe()

    def start(self, conversation_id: str, context: Context) -> None:
        return None


class Scores(Deaf):
    """Gives scores where observations are due."""

    def observe(self, state: None, turn: Turn, wanted: Collection[Request]) -> list[Score]:
        return []


class Undescribed:
    """An observer without `describe`."""

    parameters: ClassVar[dict[str, object]] = {}
    info = ObserverInfo("undescribed", "1", (), "")

    def start(self, conversation_id: str, context: Context) -> None:
        return None

    def observe(self, state: None, turn: Turn, wanted: Collection[Request]) -> list[Observation]:
        return []


class Unread(RecordLoader):
    """No `build`."""

    info = DatasetInfo("unread", "", "", "", "", "", "")

    def sniff(self, head: FileHead) -> bool:
        return False


class Lines:
    """Gives lines where sequences are due."""

    info = DatasetInfo("lines", "", "", "", "", "", "")

    def sniff(self, head: FileHead) -> bool:
        return False

    def load(self, path: str, options: LoadOptions) -> Iterator[str | BadRecord]:
        yield path


def refused_by_kits() -> None:
    check_detector(Lacking)  # type: ignore[arg-type]
    check_detector(Number())  # type: ignore[arg-type]
    check_detector(Text)  # type: ignore[arg-type]
    check_detector("cusum")  # type: ignore[arg-type]
    check_guardrail(Silent())  # type: ignore[abstract]
    check_guardrail(Unsaid())  # type: ignore[abstract]
    check_guardrail(says_yes)  # type: ignore[arg-type]
    check_guardrail(takes_text)  # type: ignore[arg-type]
    check_observer(Deaf)  # type: ignore[arg-type]
    check_observer(Scores())  # type: ignore[arg-type]
    check_loader(Unread(), "a.jsonl")  # type: ignore[abstract]
    check_loader(Lines, "a.jsonl")  # type: ignore[arg-type]


def refused_by_decorators() -> None:
    detector("lacking")(Lacking)  # type: ignore[type-var]
    guardrail("yes")(says_yes)  # type: ignore[type-var]
    observer("undescribed")(Undescribed)  # type: ignore[type-var]
    dataset_loader("lines")(Lines)  # type: ignore[type-var]


def refused_where_they_are_used(chat: Conversation, pipeline: GuardrailPipeline) -> None:
    Signal(0.5, False, False, None)  # type: ignore[call-arg]
    Signal.silent(1)  # type: ignore[arg-type]
    turnwise.check(5)  # type: ignore[arg-type]
    turnwise.check(chat, detectors=[Lacking()])  # type: ignore[list-item]
    turnwise.check(chat, observers="local")  # type: ignore[call-arg]
    pipeline.check_messages([], sesion_id="s")  # type: ignore[call-arg]
    pipeline.check_messages([], key=7)  # type: ignore[arg-type]
    Conversation.human_ai("ann", "m", conversation="c1")  # type: ignore[call-arg]
    Conversation.from_turns([("Hi", None)], metadata="c1")  # type: ignore[arg-type]
    open_state_store(":memory:", limits=10)  # type: ignore[call-arg]
