"""What the screen of a ``second_look`` run missed, by the sample that its judge looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from turnwise.conversation import Label
from turnwise.errors import StoreError, UsageError
from turnwise.observers.second_look import JUDGE, NO_SECOND_LOOK, SAMPLED, SCREEN, SUSPICION, drawn
from turnwise.patterns import Evaluator, parse
from turnwise.rates import Rate, rates_by_label
from turnwise.scoring import Evaluation, Failure, Trajectory, Unread
from turnwise.stats import Interval, StageRates, TwoStageRates, Unit, two_stage_rates
from turnwise.store import SequenceHead, Store
from turnwise.study.prevalence.from_flags import interval_to_dict, shown_share

Counted = Literal["turns", "conversations"]

_COUNTS: Final = ("units", "asked", "certain", "found", "judged", "missed", "design_effect")

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
        told = {name: getattr(self, name) for name in ("run", "counted", "threshold", "sample")}
        counts = {name: getattr(self.rates, name) for name in _COUNTS}
        estimates: dict[str, dict[str, Any]] = defaultdict(dict)
        for what, measure, one in self._estimates():
            estimates[what][measure] = None if one is None else interval_to_dict(one)
        by_label = {
            name: {label: one.to_dict() for label, one in rates.items()} for name, rates in self.by_label.items()
        }
        missing = {"unanswered": self.unanswered, "left_out": self.left_out}
        return {**told, **counts, **missing, **estimates, "by_label": by_label, "says": self.sentence}

    def rows(self) -> list[tuple[str, str]]:
        """Return the estimates as rows of a table: the name of each, and its value with its interval."""
        return [
            (f"{what}: {measure}".replace("_", " "), "not known" if one is None else shown_share(one))
            for what, measure, one in self._estimates()
        ]

    def _estimates(self) -> Iterator[tuple[str, str, Interval | None]]:
        yield "judge", "prevalence", self.rates.prevalence
        for what, stage in (("screen", self.rates.screen), ("two_stages", self.rates.two_stages)):
            yield from ((what, measure, getattr(stage, measure)) for measure in StageRates.__slots__)

    @property
    def sentence(self) -> str:
        """What the screen missed, in a sentence."""
        rates, what = self.rates, self.counted
        recall, others = rates.screen.recall, rates.units - rates.certain
        if others and (not rates.judged or (recall is None and rates.found + rates.missed)):
            why = f"with so small a sample ({self.sample:g})" if self.sample else "without a sample"
            return (
                f"What the screen missed can't be seen {why}: of the {others} {what} that its choice does not "
                f"settle, the judge saw {rates.judged}. Evaluate another run with more, such as sample=0.05."
            )
        if recall is None:
            return f"The judge called none of the {what} positive that it saw, so there is no recall."
        if not others:
            return f"The judge saw everything: the screen pointed at {shown_share(recall)} of the positive {what}."
        return (
            f"Of the {what} that the judge would call positive, the screen pointed at an estimated "
            f"{shown_share(recall)}: where it pointed the judge found {rates.found}, and among {rates.judged} "
            f"drawn from the {others} others {rates.missed}."
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        """What a reader must know, a sentence each."""
        found = ["the intervals are of this run's own conversations: on others a screen may miss more"]
        if 0 < self.rates.judged < self.rates.units - self.rates.certain and self.rates.missed < _FEW:
            found.append(f"the sample holds {self.rates.missed} positive {self.counted}: so few say little")
        if self.unanswered:
            found.append(
                f"the judge gave no score for {self.unanswered} turns that it was asked about; it is taken for "
                "chance which ones those are"
            )
        if self.left_out:
            found.append(f"{self.left_out} turns are left out because their text could not be read")
        return tuple(found)


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
    parameters: Mapping[str, Any] = store.run(run).parameters
    if not {SCREEN, JUDGE, "ask", "unread", "sample", "sample_of", "seed"} <= parameters.keys():
        raise UsageError(f"run {run!r} was not made by the observer second_look: it has no screen and judge")
    what: Counted = counted or parameters["sample_of"]
    if what not in ("turns", "conversations"):
        raise UsageError(f"what is counted must be turns or conversations, not {what}")
    if what != parameters["sample_of"] == "turns":
        raise UsageError(
            f"run {run!r} drew single turns, so that most of its conversations are known in part: count turns, or "
            "evaluate another run with sample_of=conversations"
        )
    units: list[Unit] = []
    labels: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    unanswered = left_out = 0
    for head, turns, unread in _conversations(store, run, parameters, threshold):
        left_out += unread
        unanswered += sum(one.asked and one.positive is None for one in turns)
        if not turns:
            continue
        whole = _conversation(turns, parameters["sample"])
        units += [whole] if what == "conversations" else turns
        if head.label is not Label.UNLABELLED:
            label = str(head.label)
            labels["screen"].append((label, whole.asked))
            labels["two stages"].append((label, whole.decided))
            if seen := [one.positive for one in turns if one.positive is not None]:
                labels["judge"].append((label, any(seen)))
    return SecondLookRates(
        run=run,
        counted=what,
        threshold=threshold,
        sample=parameters["sample"],
        rates=two_stage_rates(units, by_conversation=what != parameters["sample_of"], seed=seed),
        unanswered=unanswered,
        left_out=left_out,
        by_label={name: rates_by_label(those) for name, those in labels.items()},
    )


def _conversation(turns: Sequence[Unit], sample: float) -> Unit:
    """A conversation of turns: certain where the asked ones alone tell, by a positive one or by being all."""
    verdicts = [one.positive for one in turns]
    certain = any(one.asked and one.positive for one in turns) or all(one.asked for one in turns)
    return Unit(
        turns[0].conversation,
        asked=any(one.asked for one in turns),
        probability=1.0 if certain else sample,
        positive=True if any(verdicts) else None if None in verdicts else False,
        decided=any(one.decided for one in turns),
    )


def _conversations(
    store: Store, run: str, parameters: Mapping[str, Any], threshold: float
) -> Iterator[tuple[SequenceHead, list[Unit], int]]:
    """Yield each conversation with its turns that were scored or failed, and how many others were unread."""
    screen, judge = f"{run}.{SCREEN}", f"{run}.{JUDGE}"
    rule = Evaluator(parse(parameters["ask"]))
    sample, seed = parameters["sample"], parameters["seed"]
    failures = store.failures(run)
    failed, unread = _places(failures), _places(store.unread(run))
    excused = _places(one for one in failures if one.message.startswith(NO_SECOND_LOOK))
    refused = _places(store.failures(judge)) | _places(store.unread(judge))
    unscreened = {(key.sequence_id, key.turn) for key in store.failed(screen)}
    if parameters["unread"] == "ask":
        unscreened |= _places(store.unread(screen))
    runs = (store.trajectories(name) for name in (run, screen, judge))
    for (head, decided), (_, screened), (_, judged) in zip(*runs, strict=True):
        name, finals, verdicts = head.sequence_id, _by_turn(decided), _by_turn(judged)
        turns, left_out = [], 0
        for turn, said in enumerate(rule.run(screened), start=1):
            place, final, verdict = (name, turn), finals[turn], verdicts[turn]
            if not final and place not in failed:
                left_out += place in unread
                continue
            asked = said.holds or place in unscreened
            by_chance = drawn(
                name if parameters["sample_of"] == "conversations" else f"{name}\n{turn}", sample, seed
            )
            looked = bool(verdict) or place in refused
            silent = place in excused or _says(NO_SECOND_LOOK, final)
            if (
                (looked and not (asked or by_chance))
                or (asked and not (looked or silent))
                or (verdict and asked == _says(f"Asked: {SAMPLED}", verdict))
            ):
                raise StoreError(
                    f"run {run!r} does not fit its stages: at turn {turn} of {name!r} its rule and the stored "
                    f"scores of the screen {'ask' if asked else 'do not ask'} for a second look, and the judge "
                    f"{'took' if looked else 'did not take'} one. The rule may have read principles that the run "
                    "did not keep: evaluate with all principles that it names"
                )
            positive = _is_positive(verdict, threshold) if verdict else None
            turns.append(Unit(name, asked, 1.0 if asked else sample, positive, _is_positive(final, threshold)))
        yield head, turns, left_out


def _by_turn(trajectory: Trajectory) -> dict[int, list[Evaluation]]:
    found: dict[int, list[Evaluation]] = defaultdict(list)
    for one in trajectory.evaluations:
        found[one.key.turn].append(one)
    return found


def _places(given: Iterable[Failure | Unread]) -> set[tuple[str, int]]:
    return {(one.key.sequence_id, one.key.turn) for one in given}


def _says(words: str, scored: Iterable[Evaluation]) -> bool:
    return any((one.reasoning or "").startswith(words) for one in scored)


def _is_positive(scored: Iterable[Evaluation], threshold: float) -> bool:
    return max((one.score.F for one in scored), default=-1.0) >= threshold
