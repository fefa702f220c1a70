"""A study from end to end on scores of a known kind."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest
from tests.support.studies import Chat, Turns, run_of, study_data, turns_of, with_runs, with_turns

from turnwise.detectors import DETECTORS, Signal
from turnwise.errors import DetectorError, UnknownNameError, UsageError
from turnwise.scoring import TurnScores
from turnwise.study import Settings, Study, StudyData, compare_data, verdict_rows

Make = Callable[..., StudyData]


def turns(F: list[float], *, gone: bool = False) -> Turns:
    return turns_of(F, "reciprocity", T=None, length=50, gone=gone)


@pytest.fixture(scope="module")
def make_data() -> Make:
    """Return a function that makes conversations; attacks smoulder: many turns a little raised, none that stands
    out."""

    def make(
        effect: float = 0.25,
        attacks: int = 90,
        benign: int = 180,
        seed: int = 1,
        *,
        missing: int = 0,
        longest: int = 7,
    ) -> StudyData:
        generator = random.Random(seed)
        chats = []
        for number in range(attacks + benign):
            attack, both = number < attacks, {}
            length = generator.randint(min(4, longest), longest)
            for run in ("t", "h"):
                raised = effect if attack else 0.0
                F = [min(1.0, 0.5 * generator.random() + raised) for _ in range(length)]
                if number % 10 == 0:
                    F[generator.randrange(length)] = 0.9 + 0.1 * generator.random()
                both[run] = turns(F, gone=run == "t" and number < missing)
            name, source = ("a", "attacks") if attack else ("b", "chats")
            kind = {"category": f"kind {number % 3}"}
            chats.append(Chat(f"{name}{number}", f"g{number // 2}", attack, both, f"{source} {number % 2}", kind))
        return study_data(chats, [run_of("t", "turn", cusum=0.9), run_of("h", "history", cusum=0.9)])

    return make


def study(data: StudyData, *detectors: str, **settings: object) -> Study:
    given = {"runs": ("t", "h"), "target_fpr": 0.05, "replicates": 60, "splits": 3, "seeds": 1, **settings}
    return compare_data(data, Settings(detectors=detectors, **given))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def usual(make_data) -> Study:
    """Return a study that several tests look at."""
    return study(make_data(), "cusum:drift=0.3")


def test_the_baselines_are_there_unasked(usual):
    names = [arm.name for arm in usual.arms]
    assert names == [
        *(f"{name}@t" for name in ("any_turn", "count_flags", "first_turn", "last_turn", "length_only")),
        *(f"{name}@h" for name in ("any_turn", "count_flags", "first_turn", "last_turn")),
        "cusum:drift=0.3@t",
        "cusum:drift=0.3@h",
    ]
    assert usual.arms[usual.reference].name == "any_turn@t"


def test_a_baseline_that_is_asked_for_is_not_there_twice(make_data):
    found = study(make_data(), "any_turn", "any_turn:threshold=0.3", "cusum", replicates=20)
    assert [arm.name for arm in found.arms].count("any_turn@t") == 1
    assert len(found.arms) == 11


@pytest.mark.parametrize("folds", [0, 4])
def test_no_group_crosses_and_every_threshold_comes_from_others(folds, make_data, usual):
    found = study(make_data(), "cusum", folds=folds) if folds else usual
    group = {one.sequence_id: one.group for one in found.data.known}
    for fold in found.folds:
        parts = [{group[name] for name in part} for part in (fold.train, fold.calibrate, fold.test)]
        assert not (parts[0] & parts[1] or parts[0] & parts[2] or parts[1] & parts[2])
        assert all(parts)
    tested = sorted(name for fold in found.folds for name in fold.test)
    assert tested == sorted(one.sequence_id for one in found.judgements[0].judged)
    if folds:
        assert tested == sorted(group)
    for judgement in found.judgements:
        for fold, known in zip(found.folds, judgement.folds, strict=True):
            benign = sum(not one.attack for one in found.data.known if one.sequence_id in fold.calibrate)
            assert len(known.benign) == benign
            assert (known.flagged + 1) / (benign + 1) <= 0.05


@pytest.mark.shows("SC-008")
def test_a_planted_effect_is_found(make_data):
    found = study(make_data(effect=0.3), "cusum:drift=0.3", "learned")
    name = found.arms[found.chosen].name
    test = found.test_of(name)
    assert test.won
    assert test.p_holm < 0.01
    assert test.differences.recall.low > 0
    assert test.b_alone - test.a_alone == pytest.approx(test.differences.recall.value * test.pairs)
    assert name.endswith("@h")
    assert found.if_missing is None
    assert "any_turn@t" not in found.unbeaten(name)
    assert "length_only@t" not in found.unbeaten(name)


@pytest.mark.shows("SC-008")
def test_shuffled_labels_find_nothing(make_data):
    below = 0
    for seed in range(10):
        found = study(
            make_data(effect=0.0, attacks=45, benign=75, seed=seed, longest=3),
            "cusum:drift=0.3",
            "slope",
            runs=("h",),
            replicates=10,
        )
        below += sum(test.p_holm < 0.05 for test in found.tests)
    assert below <= 1


def test_what_does_not_beat_a_baseline_is_said_not_to(make_data):
    found = study(make_data(effect=0.0), "cusum:drift=0.3")
    name = found.arms[found.chosen].name
    assert "any_turn@t" in found.unbeaten(name)
    assert any(
        warning.startswith(f"{name} does not beat") and "any_turn@t" in warning for warning in found.warnings
    )


def test_the_arm_that_is_followed_is_chosen_inside_the_training_conversations(make_data):
    """Whatever the calibrate and test conversations say: there, the other detector would be the better one."""
    given = make_data(effect=0.3)
    found = study(given, "cusum:drift=0.3", "slope", runs=("h",))
    assert found.arms[found.chosen].name == "cusum:drift=0.3@h"
    train = found.folds[0].train
    assert {rate.of for rate in found.in_training.values()} == {
        sum(o.attack for o in given.known if o.sequence_id in train)
    }
    flat, steep = turns([0.5] * 6), turns([0.0, 0.1, 0.3, 0.5, 0.7])
    others = {o.sequence_id: steep if o.attack else flat for o in given.known if o.sequence_id not in train}
    other = study(with_runs(given, with_turns(given.runs[1], others)), "cusum:drift=0.3", "slope", runs=("h",))
    assert other.arms[other.chosen].name == "cusum:drift=0.3@h"
    assert other.in_training == found.in_training
    caught = {one.arm.name: one.calibration.attacks.count for one in other.judgements}
    assert caught["slope@h"] > caught["cusum:drift=0.3@h"]


def test_verdicts_at_the_last_turn_are_tested_apart(make_data):
    """Attacks that calm down: caught while they went on, forgotten at the end."""
    given = make_data(effect=0.0)
    calm = turns([0.1, 0.8, 0.8, 0.8, 0.8, *[0.0] * 9])
    changed = with_turns(given.runs[1], {one.sequence_id: calm for one in given.known if one.attack})
    found = study(with_runs(given, given.runs[0], changed), "cusum:drift=0.4", target_fpr=0.1)
    assert found.test_of("cusum:drift=0.4@h").won
    at_the_end = {test.b: test for test in found.final_tests}
    assert set(at_the_end) == {test.b for test in found.tests if test.family == "reference"}
    test = at_the_end["cusum:drift=0.4@h"]
    assert not test.won
    assert (test.family, test.a, test.pairs) == ("final", "any_turn@t", found.test_of(test.b).pairs)
    result = found.results[found.chosen]
    assert result.final.recall.count < result.counts.recall.count
    first = found.judgements[found.reference]
    if not test.tightened:
        finals = [one.final for one in first.judged if one.attack]
        assert test.a_alone - test.b_alone == sum(finals) - result.final.recall.count
    assert test.benign.pairs == sum(not one.attack for one in first.judged)
    assert sorted(t.p_holm for t in found.final_tests) >= sorted(max(t.p, t.p_group) for t in found.final_tests)


def test_missing_conversations_are_counted_and_open_the_warnings(make_data):
    found = study(make_data(missing=60), "cusum")
    assert "were not evaluated" in found.warnings[0]
    result = found.results[found.reference]
    assert result.missing.attacks.count == sum(not one.evaluated for one in result.judged) > 0
    bounds = result.missing.recall
    assert bounds.none_flagged.of == bounds.all_flagged.of == sum(one.attack for one in result.judged)
    assert bounds.all_flagged.count - bounds.none_flagged.count == result.missing.attacks.count
    test = found.test_of(found.arms[found.chosen].name)
    assert test.pairs == bounds.evaluated.of
    turned = found.if_missing
    assert turned.complete.pairs == test.pairs
    assert turned.for_second.pairs == bounds.all_flagged.of
    assert turned.against_second.a_alone == turned.complete.a_alone + sum(
        not other.fired
        for one, other in zip(found.judgements[0].judged, found.judgements[found.chosen].judged, strict=True)
        if one.attack and not one.evaluated
    )


def test_too_few_conversations_are_told_with_the_number_needed(make_data):
    with pytest.raises(UsageError, match="at least 99 are needed"):
        study(make_data(), "cusum", target_fpr=0.01)
    with pytest.raises(UsageError, match="at least 299 are needed"):
        study(make_data(), "cusum", target_fpr=0.01, guarantee="confidence")


def test_a_guarantee_with_confidence_is_stricter(make_data):
    loose, strict = (
        study(make_data(), "cusum", target_fpr=0.1, guarantee=name) for name in ("expectation", "confidence")
    )
    assert all(b.threshold >= a.threshold for a, b in zip(loose.judgements, strict.judgements, strict=True))
    assert strict.judgements[0].threshold > loose.judgements[0].threshold


def test_given_thresholds_test_every_conversation(make_data):
    found = study(make_data(), "cusum", thresholds="given")
    assert len(found.judgements[0].judged) == 270
    thresholds = {one.arm.name: one.threshold for one in found.judgements}
    assert thresholds["cusum@h"] == 0.9  # the operating point of the run
    assert thresholds["any_turn@h"] == 0.5
    assert any("thresholds were given" in warning for warning in found.warnings)


def test_without_detectors_the_question_is_what_context_gives(make_data):
    found = study(make_data())
    assert found.arms[found.chosen].name == "any_turn@h"
    assert [(test.a, test.b) for test in found.tests] == [("any_turn@t", "any_turn@h")]


def test_one_run_and_no_detector_leaves_nothing_to_choose(make_data):
    found = study(make_data(), runs=("h",))
    assert found.chosen is None
    assert found.tests == ()
    assert all(cell.gain is None for cell in found.cells)


def test_runs_that_saw_a_window_or_the_whole_come_in_as_baselines(make_data):
    given = make_data()
    window = dataclasses.replace(given.runs[1], run=run_of("last 2", "window:2"))
    whole = with_turns(given.runs[1], [one.turns[-1:] for one in given.runs[1].examples])
    whole = dataclasses.replace(whole, run=run_of("all", "transcript"))
    asked = Settings(("t", "h"), ("cusum:drift=0.3",), target_fpr=0.05, replicates=10, splits=1, seeds=1)
    found = compare_data(with_runs(given, *given.runs, window, whole), asked, further=("last 2", "all"))
    assert {arm.name for arm in found.arms if arm.baseline} >= {"any_turn@last 2", "any_turn@all"}
    against = {test.a for test in found.tests if test.b == "cusum:drift=0.3@h"}
    assert against >= {"any_turn@t", "any_turn@h", "any_turn@last 2", "any_turn@all", "length_only@t"}


def test_a_coarse_baseline_is_not_beaten_by_being_stricter(make_data):
    """``length_only`` can't stand at exactly the asked rate, so the other arm is tightened to its rate."""
    found = study(make_data(effect=0.0, seed=4), "cusum:drift=0.3", target_fpr=0.15)
    tightened = [test for test in found.tests if test.tightened]
    assert tightened
    assert not any(test.won for test in tightened)
    by_name = {one.arm.name: one for one in found.judgements}
    flagged = {
        by_name[test.a].calibration.benign.count - by_name[test.b].calibration.benign.count for test in tightened
    }
    assert flagged != {0}


def test_cells_add_up_and_small_ones_are_marked(usual):
    found = usual
    total = found.results[found.chosen].counts.recall
    for division in ("source", "category", "length"):
        cells = [cell for cell in found.cells if cell.division == division]
        assert sum(cell.recall[found.chosen].count for cell in cells) == total.count
        assert sum(cell.recall[found.chosen].of for cell in cells) == total.of
    assert {cell.small(12) for cell in found.cells} == {True, False}
    assert not any(cell.division == "tactic" for cell in found.cells)  # nothing to divide by


def test_the_checks_are_there(usual):
    found = usual
    checks = found.checks
    assert checks.order_shuffle["any_turn@t"].attacks.value == 0
    assert set(checks.length_matched) == {"any_turn@t", found.arms[found.chosen].name}
    assert {one.used_on for one in checks.leave_one_source_out} == {"attacks 0", "attacks 1", "chats 0", "chats 1"}
    assert [one.share for one in checks.label_noise] == [0.01, 0.05, 0.1]
    assert checks.turns_reordered is None
    assert checks.panel_agreement == ()


def test_two_observers_in_one_context_are_a_panel(make_data):
    given = make_data()
    other = dataclasses.replace(given.runs[1], run=run_of("other", "history", "another"))
    panel = study(with_runs(given, *given.runs, other), "cusum", runs=("t", "h", "other")).checks.panel_agreement
    assert [(one.first, one.second, one.component) for one in panel] == [("h", "other", name) for name in "TIF"]
    assert panel[2].alpha.value == pytest.approx(1.0)


def test_what_sources_tell_apart_is_warned_of(usual):
    found = usual
    assert any("come from different sources (attacks 0, attacks 1; chats 0, chats 1)" in w for w in found.warnings)
    assert any(w.startswith("length_only@t reads the length") for w in found.warnings)


def test_a_group_that_a_detector_defines_is_warned_of(make_data):
    given = make_data()
    strata = {"tactic": "Boundary testing"}
    known = tuple(dataclasses.replace(one, strata={**one.strata, **strata}) for one in given.known)
    found = study(dataclasses.replace(given, known=known), "boundary_testing", runs=("h",))
    assert any("bears the name of the detector boundary_testing" in warning for warning in found.warnings)
    pattern = study(given, "pattern:count(turn > 2) > 3", runs=("h",))
    assert any("reads the length" in warning and warning.startswith("pattern") for warning in pattern.warnings)


def test_a_file_may_have_been_tuned_on_the_same_conversations(make_data, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("detector: cusum\ndrift: 0.3\n")
    found = study(make_data(), str(file))
    assert found.arms[-1].name == "mine.yaml@h"
    assert any("mine.yaml comes from a file" in warning for warning in found.warnings)


def test_the_first_turn_that_gives_attacks_away_is_warned_of(make_data):
    given = make_data()
    early = with_turns(given.runs[0], [turns([0.95 if one.attack else 0.1, *[0.1] * 3]) for one in given.known])
    found = study(with_runs(given, early), "cusum", runs=("t",))
    assert any(
        warning.startswith("first_turn@t sees no course of a conversation and still catches 36/36 = 100.0 %")
        for warning in found.warnings
    )


@pytest.mark.shows("SC-008")
def test_the_same_seed_gives_the_same_study_and_another_another(make_data, usual):
    one, same, other = usual, *(study(make_data(), "cusum:drift=0.3", seed=seed) for seed in (0, 1))
    assert (one.folds, one.results, one.tests, one.cells) == (same.folds, same.results, same.tests, same.cells)
    assert one.checks == same.checks
    assert one.folds != other.folds


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"target_fpr": 1.0}, UsageError, "target fpr must lie in"),
        ({"confidence": 0.0}, UsageError, "confidence must lie in"),
        ({"folds": 1}, UsageError, "at least 2"),
        ({"runs": ()}, UsageError, "at least one run"),
        ({"thresholds": "givn"}, UnknownNameError, "did you mean 'given'"),
        ({"guarantee": "sure"}, UnknownNameError, "unknown guarantee"),
        ({"replicates": 0}, UsageError, "at least 1"),
        ({"detectors": ("cusun",)}, UnknownNameError, "did you mean 'cusum'"),
        ({"detectors": ("cusum:limit=x",)}, DetectorError, "limit"),
    ],
)
def test_bad_settings_are_told(settings, error, words, make_data):
    with pytest.raises(error, match=words):
        compare_data(make_data(), Settings(**{"runs": ("t", "h"), "target_fpr": 0.05, **settings}))


def test_both_labels_and_a_run_by_turn_are_needed(make_data):
    given = make_data()
    attacks = tuple(one for one in given.known if one.attack)
    with pytest.raises(UsageError, match="both labels, not 90 attacks and 0 benign"):
        study(dataclasses.replace(given, known=attacks), "cusum")
    whole = dataclasses.replace(given.runs[0], run=run_of("w", "transcript"))
    with pytest.raises(UsageError, match="scored turn by turn"):
        study(with_runs(given, whole), runs=("w",))


class Peak:
    """A detector of somebody else, whose signals have no contributions; silent before its first turn."""

    name = "somebodys_peak"

    def __init__(self, first: int = 1, threshold: float = 0.5) -> None:
        self.first, self.threshold = first, threshold

    def with_threshold(self, value: float) -> Peak:
        return Peak(self.first, value)

    def start(self) -> dict[str, int | None]:
        return {"fired": None}

    def update(self, state: dict[str, int | None], scores: TurnScores) -> Signal:
        if scores.turn < self.first or not scores.scores:
            return Signal.silent(f"it begins at turn {self.first}", state["fired"])
        score = max(one.F for one in scores.scores.values()) - 1.0
        active = score >= self.threshold
        if active and state["fired"] is None:
            state["fired"] = scores.turn
        return Signal(score, state["fired"] is not None, active, state["fired"], f"F is {score + 1:.3f}")


@pytest.fixture(autouse=True)
def _known_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DETECTORS, "_parts", {**DETECTORS._parts, "somebodys_peak": Peak})


def _clear(length: dict[bool, int]) -> StudyData:
    """Return attacks whose F is high throughout and benign conversations whose F is low, of given lengths."""
    chats = []
    for number in range(160):
        attack, name = number % 2 == 0, f"c{number}"
        F = (0.6 if attack else 0.1) + number / 1_000
        chats.append(Chat(name, name, attack, {"t": turns([F] * length[attack])}))
    return study_data(chats, [run_of("t", "turn")])


def test_a_detector_without_contributions_is_measured_by_its_scores():
    found = study(_clear({True: 4, False: 4}), "somebodys_peak", runs=("t",))
    result = found.results[-1]
    assert (result.name, result.auc.value) == ("somebodys_peak@t", 1.0)
    assert result.counts.recall.count == result.counts.recall.of
    assert result.counts.fpr.count < 3


def test_what_a_detector_can_t_tell_lies_below_all_that_it_can():
    found = study(_clear({True: 4, False: 2}), "somebodys_peak:first=3", runs=("t",))
    result = found.results[-1]
    assert result.auc.value == 1.0  # all of its scores are below 0
    assert result.counts.fpr.count == 0
    benign = result.counts.fpr.of
    assert any(f"no evidence in {benign} of the" in warning for warning in found.warnings)
    rows = [row for row in verdict_rows(found) if row["arm"] == result.name]
    assert all((row["score"] is None) == (row["label"] == "benign") for row in rows)
    assert all(row["fired"] is not None for row in rows)


def test_no_evidence_at_all_is_no_figure():
    found = study(_clear({True: 4, False: 4}), "somebodys_peak:first=9", runs=("t",))
    result = found.results[-1]
    assert result.auc is None and result.auc_by_group is None
    assert result.counts.recall.count == result.counts.fpr.count == 0
    assert any("somebodys_peak:first=9@t has no evidence in" in warning for warning in found.warnings)
