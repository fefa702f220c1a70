"""What the screen of a ``second_look`` run missed, by the sample that its judge looked at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from turnwise.conversation import Label
from turnwise.errors import StoreError, UsageError
from turnwise.observers.second_look import JUDGE, NO_SECOND_LOOK, SAMPLED, SCREEN, SUSPICION, drawn
from turnwise.patterns import Evaluator, parse
from turnwise.rates import Rate, rates_by_label
from turnwise.scoring import Evaluation, Failure, Trajectory, Unread
from turnwise.store import SequenceHead, Store
from turnwise.study.prevalence.from_flags import interval_to_dict, shown_share
from turnwise.study.stats.two_stage import StageRates, TwoStageRates, Unit, two_stage_rates

Counted = Literal["turns", "conversations"]

_MEASURES: Final = {"recall": "recall", "false_positive_rate": "false positives", "precision": "precision"}

_FEW: Final = 5
"""Positives in the sample below which a reader is told that they are few."""


@dataclass(frozen=True, slots=True)
class SecondLookRates:
    """What a run in two stages says of its screen, and of both stages, with the judge as the measure.

    Args:
        run: name of the run.
        counted: what the rates are of, turns or conversations.
        threshold: highest F over the principles from which the judge, or the decision, is positive.
        sample: share of what the screen does not point at that the judge was to see all the same.
        rates: the estimates, with what they rest on.
        unanswered: turns that the judge was asked about and gave no score for.
        left_out: turns without a score, since the text could not be read.
        by_label: of the labelled conversations, how many were asked about (``screen``), called positive by both
            stages (``two stages``), and by the judge where it looked (``judge``), by label.
    """

    run: str
    counted: Counted
    threshold: float
    sample: float
    rates: TwoStageRates
    unanswered: int
    left_out: int
    by_label: Mapping[str, Mapping[str, Rate]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, with None for what the run can't say."""
        names = "units", "asked", "certain", "found", "judged", "missed", "design_effect"
        return {
            **{name: getattr(self, name) for name in ("run", "counted", "threshold", "sample")},
            **{name: getattr(self.rates, name) for name in names},
            "prevalence": None if self.rates.prevalence is None else interval_to_dict(self.rates.prevalence),
            **{name: _stage_to_dict(stage) for name, stage in self._stages.items()},
            "unanswered": self.unanswered,
            "left_out": self.left_out,
            "by_label": {
                name: {
                    label: {"count": one.count, "of": one.of, "interval": list(one.interval)}
                    for label, one in found.items()
                }
                for name, found in self.by_label.items()
            },
            "says": self.sentence,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the estimates as rows of a table: the name of each, and its value with its interval."""
        found = [("prevalence", self.rates.prevalence)]
        for stage, rates in self._stages.items():
            name = stage.replace("_", " ")
            found += [(f"{name}: {shown}", getattr(rates, measure)) for measure, shown in _MEASURES.items()]
        return [(name, "not known" if one is None else shown_share(one)) for name, one in found]

    @property
    def sentence(self) -> str:
        """What the screen missed, in a sentence."""
        rates, what = self.rates, self.counted
        recall, others = rates.screen.recall, rates.units - rates.certain
        if others and not rates.judged:
            why = "without a sample" if not self.sample else f"since its sample of {self.sample:g} came out empty"
            return (
                f"What the screen missed can't be seen: {why} the judge looked at none of the {others} {what} "
                "that it did not have to. Evaluate another run with a larger sample=, such as sample=0.05."
            )
        if recall is None:
            return f"The judge called none of the {what} positive that it saw, so there is no recall."
        known = f"{rates.found} positive {what} are known from what the screen pointed at"
        if not others:
            return f"The judge saw everything: the screen pointed at {shown_share(recall)} of the positive {what}."
        return (
            f"Of the {what} that the judge would call positive, the screen pointed at an estimated "
            f"{shown_share(recall)}: {known}, and a sample of {rates.judged} of the {others} others holds "
            f"{rates.missed} more."
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """What a reader must know, a sentence each."""
        found = ["the intervals are of this run's own conversations: on others a screen may miss more"]
        if self.rates.judged and self.rates.missed < _FEW:
            found.append(f"the sample holds {self.rates.missed} positive {self.counted}: the intervals are wide")
        if self.unanswered:
            found.append(
                f"the judge gave no score for {self.unanswered} turns that it was asked about; it is taken for "
                "chance which ones those are"
            )
        if self.left_out:
            found.append(f"{self.left_out} turns are left out because their text could not be read")
        return tuple(found)

    @property
    def _stages(self) -> dict[str, StageRates]:
        return {"screen": self.rates.screen, "two_stages": self.rates.two_stages}


def second_look_rates(
    store: Store, run: str, *, threshold: float = SUSPICION, counted: Counted | None = None, seed: int = 0
) -> SecondLookRates:
    """Estimate what the screen of a run in two stages missed, from its scores and those of both stages.

    Whom the screen pointed at and whom chance drew is worked out again from the run's parameters, and compared
    with what the judge scored. A conversation is positive where a turn of it is.

    Args:
        store: has the run, and beside it the runs of its screen and judge.
        run: name of a run by the observer ``second_look``.
        threshold: highest F over the principles from which a turn is positive; 0.5 is a clear sign.
        counted: turns or conversations; by default what was drawn. Where turns were drawn, most conversations are
            known in part only, and can't be counted.
        seed: of the draws that the intervals are read from.

    Raises:
        UsageError: the run is not by ``second_look``, or conversations are to be counted where turns were drawn.
        StoreError: what the judge scored is not what the parameters and the screen's scores say.
        UnknownNameError: the store has no such run, or none of its stages.
    """
    parameters = store.run(run).parameters
    if not {SCREEN, JUDGE, "ask", "sample", "sample_of", "seed", "unread"} <= parameters.keys():
        raise UsageError(f"run {run!r} was not made by the observer second_look: it has no screen and judge")
    by: Any = parameters["sample_of"]
    what: Counted = counted or by
    if what not in ("turns", "conversations"):
        raise UsageError(f"counted are turns or conversations, not {what}")
    if (what, by) == ("conversations", "turns"):
        raise UsageError(
            f"run {run!r} drew single turns, so that most of its conversations are known in part: count turns, or "
            "evaluate another run with sample_of=conversations"
        )
    sample = float(parameters["sample"])  # type: ignore[arg-type]
    units: list[Unit] = []
    labels: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    count: Counter[str] = Counter()
    for head, turns, left_out in _conversations(store, run, parameters, threshold):
        count["left out"] += left_out
        count["unanswered"] += sum(one.verdict is None and one.asked for one in turns)
        if not turns:
            continue
        whole = _conversation(head.sequence_id, turns, sample)
        units += [whole] if what == "conversations" else [_turn(head.sequence_id, one, sample) for one in turns]
        if head.label is not Label.UNLABELLED:
            labels["screen"].append((str(head.label), whole.asked))
            labels["two stages"].append((str(head.label), whole.decided))
            if seen := [one.verdict for one in turns if one.verdict is not None]:
                labels["judge"].append((str(head.label), any(seen)))
    return SecondLookRates(
        run=run,
        counted=what,
        threshold=threshold,
        sample=sample,
        rates=two_stage_rates(units, by_conversation=(what, by) == ("turns", "conversations"), seed=seed),
        unanswered=count["unanswered"],
        left_out=count["left out"],
        by_label={name: rates_by_label(those) for name, those in labels.items()},
    )


class _Turn(NamedTuple):
    """A turn of the run; the verdict is None where the judge gave no score."""

    asked: bool
    drawn: bool
    verdict: bool | None
    decided: bool


def _turn(name: str, one: _Turn, sample: float) -> Unit:
    return Unit(name, one.asked, 1.0 if one.asked else sample, one.verdict, one.decided)


def _conversation(name: str, turns: list[_Turn], sample: float) -> Unit:
    """A conversation is certain where its asked turns alone tell: one is positive, or there are no others."""
    found = any(one.asked and one.verdict for one in turns)
    certain = found or all(one.asked for one in turns)
    verdicts = [one.verdict for one in turns]
    verdict = True if any(verdicts) else None if None in verdicts else False
    return Unit(
        name,
        any(one.asked for one in turns),
        1.0 if certain else sample,
        verdict,
        any(one.decided for one in turns),
    )


def _conversations(
    store: Store, run: str, parameters: Mapping[str, object], threshold: float
) -> Iterator[tuple[SequenceHead, list[_Turn], int]]:
    """Yield each conversation with its turns that have a score or failure, and how many were left out."""
    rule = Evaluator(parse(str(parameters["ask"])))
    sample, seed = float(parameters["sample"]), int(parameters["seed"])  # type: ignore[arg-type,call-overload]
    failures = {name: store.failures(name) for name in (run, f"{run}.{JUDGE}")}
    unread = {name: _places(store.unread(name)) for name in (run, f"{run}.{SCREEN}", f"{run}.{JUDGE}")}
    failed = {name: _places(those) for name, those in failures.items()}
    ask_failed = {(key.sequence_id, key.turn) for key in store.failed(f"{run}.{SCREEN}")}
    if parameters["unread"] == "ask":
        ask_failed |= unread[f"{run}.{SCREEN}"]
    told = {(one.key.sequence_id, one.key.turn) for one in failures[run] if one.message.startswith(NO_SECOND_LOOK)}
    scored = (store.trajectories(name) for name in (run, f"{run}.{SCREEN}", f"{run}.{JUDGE}"))
    for (head, decided), (_, screened), (_, judged) in zip(*scored, strict=True):
        name = head.sequence_id
        finals, verdicts = _by_turn(decided), _by_turn(judged)
        turns, left_out = [], 0
        whole = drawn(name, sample, seed)
        for number, said in enumerate(rule.run(screened), start=1):
            place = name, number
            if number not in finals and place not in failed[run]:
                left_out += place in unread[run]
                continue
            final, verdict = finals.get(number, []), verdicts.get(number, [])
            asked = said.holds or place in ask_failed
            by_chance = (
                whole if parameters["sample_of"] == "conversations" else drawn(f"{name}\n{number}", sample, seed)
            )
            looked = bool(verdict) or place in failed[f"{run}.{JUDGE}"] or place in unread[f"{run}.{JUDGE}"]
            excused = place in told or any(_reason(one).startswith(NO_SECOND_LOOK) for one in final)
            sampled = {_reason(one).startswith(f"Asked: {SAMPLED}") for one in verdict}
            if (looked and not (asked or by_chance)) or (asked and not (looked or excused)) or asked in sampled:
                raise StoreError(_mismatch(run, name, number, asked, looked))
            turns.append(
                _Turn(
                    asked,
                    by_chance,
                    _is_positive(verdict, threshold) if verdict else None,
                    _is_positive(final, threshold),
                )
            )
        yield head, turns, left_out


def _mismatch(run: str, name: str, turn: int, asked: bool, looked: bool) -> str:
    return (
        f"run {run!r} does not fit its stages: at turn {turn} of {name!r} the stored scores of the screen, by the "
        f"run's rule, {'ask' if asked else 'do not ask'} for a second look, and the judge "
        f"{'was' if looked else 'was not'} asked for one. The rule may have read principles that the run did not "
        "keep: evaluate with all principles that it names"
    )


def _by_turn(trajectory: Trajectory) -> dict[int, list[Evaluation]]:
    found: dict[int, list[Evaluation]] = defaultdict(list)
    for one in trajectory.evaluations:
        found[one.key.turn].append(one)
    return found


def _places(given: Iterable[Failure | Unread]) -> set[tuple[str, int]]:
    return {(one.key.sequence_id, one.key.turn) for one in given}


def _reason(one: Evaluation) -> str:
    return one.reasoning or ""


def _is_positive(scored: Iterable[Evaluation], threshold: float) -> bool:
    return max((one.score.F for one in scored), default=-1.0) >= threshold


def _stage_to_dict(rates: StageRates) -> dict[str, Any]:
    found = {name: getattr(rates, name) for name in _MEASURES}
    return {name: None if one is None else interval_to_dict(one) for name, one in found.items()}
