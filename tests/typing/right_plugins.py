"""Plug-ins of a third party as its own code has them: a type checker finds nothing wrong here. Nobody runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import turnwise
from turnwise import Conversation, GuardrailPipeline, Label, PipelineResult, Report, Score, Side, Turn
from turnwise.datasets import (
    BadRecord,
    DatasetInfo,
    FileHead,
    LoadOptions,
    RecordLoader,
    SequenceBuilder,
    check_loader,
    dataset_loader,
)
from turnwise.detectors import (
    FIRED_AT,
    ByPrinciple,
    Detector,
    Signal,
    State,
    check_detector,
    detector,
    judge,
    run_detector,
    silence,
)
from turnwise.guard import (
    CLEAN,
    AsyncGuardrail,
    Check,
    Finding,
    Guardrail,
    SqliteStateStore,
    check_guardrail,
    check_state_store,
    guardrail,
    open_state_store,
)
from turnwise.observers import (
    Context,
    ContextMode,
    Observation,
    ObserverInfo,
    Request,
    check_observer,
    observer,
)
from turnwise.scoring import TurnScores


@detector("peak")
@dataclass(frozen=True)
class Peak:
    """By the protocol alone."""

    threshold: float = 0.5
    name = "peak"

    def with_threshold(self, limit: float) -> Peak:
        return replace(self, threshold=limit)

    def start(self) -> State:
        return {FIRED_AT: None}

    def update(self, state: State, scores: TurnScores) -> Signal:
        values = {principle: score.F for principle, score in scores.scores.items()}
        if not values:
            return silence(state, scores.turn)
        return judge(state, scores.turn, values, "F", self.threshold)


@dataclass(frozen=True)
class Doubled(ByPrinciple):
    """On the base class."""

    name = "doubled"
    label: ClassVar[str] = "2 F"
    limit: float = 1.0

    def follow(self, memory: Any, scores: TurnScores, score: Score) -> tuple[Any, float]:
        return None, 2 * score.F


@detector("half")
def half(limit: float = 0.5) -> Detector:
    """By a function that builds one."""
    return Peak(limit / 2)


@guardrail("shouting")
@dataclass(frozen=True)
class Shouting(Guardrail):
    """A class with settings."""

    share: float = 0.8

    def check(self, check: Check) -> Finding:
        loud = sum(letter.isupper() for letter in check.text)
        return Finding(True, "capitals", 1.0) if loud > self.share * len(check.text) else CLEAN


@guardrail("asking")
class Asking(AsyncGuardrail):
    """A class that awaits."""

    async def acheck(self, check: Check) -> Finding:
        return CLEAN


@guardrail("no_secrets")
def no_secrets(check: Check) -> Finding:
    """A function."""
    return Finding(True, "a secret") if "secret" in check.text else CLEAN


@guardrail("later")
async def later(check: Check) -> Finding:
    """A coroutine function."""
    return no_secrets(check)


@observer("pressure")
class Pressure:
    """An observer by the protocol."""

    def __init__(self, argument: str | None = None, *, weight: float = 1.0) -> None:
        self.parameters = {"weight": weight}

    @classmethod
    def describe(cls) -> ObserverInfo:
        return ObserverInfo("pressure", "1", (ContextMode.TURN,), "pressure")

    @property
    def info(self) -> ObserverInfo:
        return self.describe()

    def start(self, conversation_id: str, context: Context) -> list[int]:
        return []

    def observe(self, state: list[int], turn: Turn, wanted: Collection[Request]) -> list[Observation]:
        return [Observation(one.principle.name, one.side, Score(T=1, I=0, F=0)) for one in wanted]


INFO = DatasetInfo("notes", "Notes", "a person", "", "CC0", "benign", "JSONL")


@dataset_loader("notes")
class Notes(RecordLoader):
    """A loader on the base class."""

    info = INFO

    def sniff(self, head: FileHead) -> bool:
        return "note" in head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> turnwise.Sequence:
        return builder.prompts([record["note"]], default=Label.BENIGN)


@dataset_loader("whole")
class Whole:
    """A loader by the protocol."""

    info = INFO

    def sniff(self, head: FileHead) -> bool:
        return False

    def load(self, path: str, options: LoadOptions) -> Iterator[turnwise.Sequence | BadRecord]:
        yield BadRecord(1, "nothing is read")


def checked(store: SqliteStateStore) -> None:
    """Every kit takes an instance, or what makes one without arguments."""
    check_detector(Peak)
    check_detector(Peak(0.2))
    check_detector(lambda: Doubled(limit=1.5))
    check_detector(half)
    check_guardrail(Shouting)
    check_guardrail(Shouting(share=0.5))
    check_guardrail(Asking)
    check_guardrail(no_secrets)
    check_guardrail(later)
    check_observer(Pressure)
    check_observer(Pressure("now"), repeatable=True)
    check_loader(Notes, "notes.jsonl")
    check_loader(Whole(), "notes.jsonl")
    check_state_store(store)
    check_state_store(lambda: open_state_store(":memory:", limit=10))


def used(chat: Conversation, turns: Sequence[TurnScores]) -> PipelineResult:
    """Parts are used by name, or as they are."""
    report: Report = turnwise.check(chat, Pressure("now"), [Peak(), "half", {"detector": "doubled"}])
    text: Report = turnwise.score("You owe me this.")
    score: float | None = run_detector(Doubled(), turns).score
    shouting: type[Shouting] = Shouting
    pipeline = GuardrailPipeline({"guardrails": [shouting(0.5), no_secrets, {"use": later, "action": "warn"}]})
    fresh: Conversation = Conversation.human_ai("ann", "m", conversation_id="c1", metadata={"a": 1})
    assert report.fired and text.scored and score and fresh.turn(1).text(Side.PROMPT)
    return pipeline.check_messages(
        [{"role": "user", "content": "Hi"}], key="ann", session_id="s", conversation=chat, recognised=True
    )
