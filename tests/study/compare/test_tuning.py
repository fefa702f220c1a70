"""A detector tuned for a study: on its training part alone, and written with where it comes from."""

from __future__ import annotations

import dataclasses
import random

import pytest
import yaml
from tests.support.studies import Chat, run_of, study_data, turns_of, with_runs, with_turns

from turnwise.detectors import build_detector, load_detector
from turnwise.errors import UsageError
from turnwise.study import Settings, StudyData, compare_data
from turnwise.study.compare import make_folds, read_origin, sha256_of_ids, tune_inside_training

SEED = 2


class Unread(tuple):
    """Turns that nobody may read."""

    def __iter__(self):
        raise AssertionError("a conversation outside the training part was read")

    __getitem__ = __len__ = __iter__


def make_material(*runs: str, shift: float = 0.3) -> StudyData:
    generator = random.Random(1)
    chats = []
    for number in range(400):
        attack, turns = number < 120, {}
        for run in runs:
            F = [0.5 * generator.random() + (shift if attack else 0.0) for _ in range(4)]
            turns[run] = turns_of(F, "reciprocity", T=None, length=None)
        chats.append(Chat(f"c{number}", f"g{number // 2}", attack, turns))
    return study_data(chats, [run_of(run, "turn") for run in runs])


def outside_training(material: StudyData, change) -> StudyData:
    """Return the material with the turns of everything but the training part changed."""
    [data] = material.runs
    [fold] = make_folds(data.examples, Settings(runs=(data.run.name,), seed=SEED))
    assert fold.calibrate and fold.test
    outside = {one.sequence_id: change(one.turns) for one in data.examples if one.sequence_id not in fold.train}
    return with_runs(material, with_turns(data, outside))


@pytest.fixture(scope="module")
def material() -> StudyData:
    return make_material("h")


@pytest.fixture(scope="module")
def tuned(material):
    return tune_inside_training(material, "cusum:drift=0.1", 0.05, budget=8, seed=SEED)


@pytest.fixture
def file(tuned, tmp_path):
    path = tmp_path / "cusum.yaml"
    path.write_text(tuned.to_yaml(), encoding="utf-8")
    return path


def test_nothing_but_the_training_part_is_read(material, tuned):
    hidden = outside_training(material, Unread)
    with pytest.raises(AssertionError):
        list(next(one.turns for one in hidden.runs[0].examples if isinstance(one.turns, Unread)))
    again = tune_inside_training(hidden, "cusum:drift=0.1", 0.05, budget=8, seed=SEED)
    assert again.to_yaml() == tuned.to_yaml()


def test_the_same_seed_writes_the_same_bytes_and_another_reads_another_part(material, tuned):
    again = tune_inside_training(material, "cusum:drift=0.1", 0.05, budget=8, seed=SEED)
    assert again.to_yaml() == tuned.to_yaml()
    other = tune_inside_training(material, "cusum:drift=0.1", 0.05, budget=8, seed=SEED + 1)
    assert other.sha256_of_ids != tuned.sha256_of_ids


def test_the_file_is_a_detector_that_says_where_it_comes_from(file, tuned, material):
    text = file.read_text(encoding="utf-8")
    assert load_detector(str(file)) == tuned.searched.detector == build_detector(yaml.safe_load(text))
    found = tuned.origin()
    assert (found["seed"], found["budget"], found["target_fpr"], found["trials"]) == (SEED, 8, 0.05, 8)
    assert found["run"] == {"name": "h", "observer": "made", "observer_version": "1", "context": "turn"}
    assert {"turnwise", "code", "optuna"} <= set(found["versions"])
    [fold] = make_folds(material.runs[0].examples, Settings(runs=("h",), seed=SEED))
    assert found["split"]["sha256_of_ids"] == sha256_of_ids(fold.train)
    assert found["split"]["attacks"] + found["split"]["benign"] == len(fold.train)
    assert found["after"]["recall"][1] == found["split"]["attacks"]
    read = read_origin(str(file))
    assert (read.run, read.digest) == ("h", sha256_of_ids(fold.train))
    assert "That is no test result" in text


def test_a_study_of_the_same_seed_trusts_it_and_another_warns(file, material):
    def warned(**settings: object) -> bool:
        given = {
            "runs": ("h",),
            "detectors": (str(file),),
            "target_fpr": 0.05,
            "replicates": 10,
            "splits": 2,
            "seeds": 1,
            "seed": SEED,
        }
        study = compare_data(material, Settings(**{**given, **settings}))
        assert study.arms[study.chosen].name == "cusum.yaml@h"
        return any("comes from a file" in warning for warning in study.warnings)

    assert not warned()
    assert warned(seed=SEED + 1)
    assert warned(folds=3)
    file.write_text(file.read_text(encoding="utf-8").replace('"split"', '"spilt"'), encoding="utf-8")
    assert read_origin(str(file)) is None
    assert warned()


def test_it_stands_on_the_run_that_it_was_tuned_on(file):
    both = make_material("t", "h")
    settings = Settings(
        runs=("t", "h"),
        detectors=(str(file), "slope"),
        target_fpr=0.05,
        replicates=10,
        splits=2,
        seeds=1,
        seed=SEED,
    )
    names = [arm.name for arm in compare_data(both, settings).arms if not arm.baseline]
    assert names == ["cusum.yaml@h", "slope@t", "slope@h"]
    elsewhere = dataclasses.replace(settings, runs=("t",))
    assert [arm.name for arm in compare_data(both, elsewhere).arms][-2:] == ["cusum.yaml@t", "slope@t"]


def test_too_few_in_the_training_part_are_refused(material):
    with pytest.raises(UsageError, match="at least 99 are needed"):
        tune_inside_training(material, "cusum", 0.01, budget=2)
