"""inspect_ai: detectors as scorers, and its evaluations as sources of attacks. Needs ``turnwise[inspect]``.

Its logs are a data set format: ``turnwise import logs/ --format inspect``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

try:
    import anyio
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score, Scorer, Target, accuracy, ci_wilson, scorer
    from inspect_ai.solver import TaskState
    from inspect_ai.util import registry_create
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("inspect", error) from error

from turnwise.conversation import Label, Sequence, from_messages
from turnwise.datasets.inspect_logs import openai_messages
from turnwise.detectors import name_detector
from turnwise.errors import ConversationError, DatasetError
from turnwise.front_door import Report, check
from turnwise.observers import DEFAULT_OBSERVER, build_observer

EVALS: Final[Mapping[str, Label]] = {
    "inspect_evals/agentharm": Label.ATTACK,
    "inspect_evals/agentharm_benign": Label.BENIGN,
    "inspect_evals/b3": Label.ATTACK,
    "inspect_evals/fortress_adversarial": Label.ATTACK,
    "inspect_evals/fortress_benign": Label.BENIGN,
    "inspect_evals/strong_reject": Label.ATTACK,
}
"""Evaluations of the package inspect-evals whose prompts are attacks, and their harmless twins. Most of them fetch
their data when they are built. `attacks` takes any other as well."""


@scorer(metrics=[accuracy(), ci_wilson()])
def turnwise_detector(
    detector: str | dict[str, Any] = "any_turn", observer: str = DEFAULT_OBSERVER, context: str = "history"
) -> Scorer:
    """Score each sample by whether a detector fires on its conversation: 1 where it does, 0 where it does not.

    So the accuracy that an evaluation reports is the share of conversations in which the detector fired: recall
    where all samples are attacks, the false-positive rate where all are benign. The interval beside it is
    Wilson's at 95 %. Where scores are missing and nothing fired, the sample is unscored: no share counts it.

    Args:
        detector: the detector, as ``turnwise check`` takes it: a specification, a YAML file, or a mapping.
        observer: what scores the turns, by name.
        context: what it sees at a turn: ``turn``, ``window:k``, ``history`` or ``transcript``.

    Raises:
        TurnwiseError: as for `turnwise.check`.
    """
    built = build_observer(observer)
    name_detector(detector, built.info.operating_points.get(context, {}))  # what is wrong with it is said at once

    def judge(messages: list[dict[str, Any]]) -> Report:
        return check(from_messages(messages), built, [detector], context=context)

    async def score(state: TaskState, target: Target) -> Score:
        try:
            report = await anyio.to_thread.run_sync(judge, openai_messages(state.messages))
        except ConversationError as error:
            return Score.unscored(reason="no conversation", explanation=str(error))
        verdict, missing = report.verdicts[0], [str(failure) for failure in report.failures]
        missing += [f"not scored: turn {turn.turn}" for turn in report.turns if not turn.scores and not missing]
        known = {
            "observer": report.observer,
            "context": report.context,
            "verdict": verdict.to_dict(),
            "missing": missing,
        }
        if missing and not verdict.fired:
            return Score.unscored(reason="not scored", explanation="; ".join(missing), metadata=known)
        return Score(
            value=int(verdict.fired),
            answer=f"turn {verdict.turn}" if verdict.fired else "none",
            explanation=str(verdict),
            metadata=known,
        )

    return score


def attacks(
    source: str | Task | Iterable[Sample], *, label: Label | str | None = None, **arguments: object
) -> Iterator[Sequence]:
    """Yield the samples of an evaluation as sequences, such as attacks to test a guard with or to score.

    Args:
        source: the evaluation: its name, such as ``"inspect_evals/strong_reject"`` (`EVALS` lists those meant for
            this; their package must be installed), a task, a data set, or samples.
        label: attack or benign; by default what `EVALS` says, and attack for others. A sample whose metadata have
            a ``label`` keeps it.
        arguments: arguments of a task that is named, such as ``jailbreak_method="AIM"``.

    Raises:
        DatasetError: no evaluation has that name, or it can't be built.
        ConversationError: a sample is no conversation.
    """
    name = source if isinstance(source, str) else getattr(source, "name", None) or "inspect"
    task: Any = source
    if isinstance(source, str):
        try:
            task = registry_create("task", source, **arguments)
        except Exception as error:  # evaluations fetch data, and raise what their libraries do
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            raise DatasetError(f"the evaluation {source!r} can't be built: {text}") from error
    default = Label(label) if label is not None else EVALS.get(str(name), Label.ATTACK)
    samples: Iterable[Sample] = task.dataset if isinstance(task, Task) else task
    stem = str(name).rpartition("/")[2]
    for number, sample in enumerate(samples, start=1):
        own = (sample.metadata or {}).get("label")
        chosen = Label(own) if isinstance(own, str) and own in (*Label,) else default
        identity = f"{stem}-{sample.id if sample.id is not None else number}"
        chat = from_messages(openai_messages(sample.input), conversation_id=identity)
        yield Sequence(identity, chosen, stem, chat, {"task": str(name)})
