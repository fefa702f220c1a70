"""Where the model gave way in a study, and when detectors fired beside it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.studies import Chat, run_of, study_data

from turnwise.scoring import Score, TurnScores
from turnwise.study import Settings, Study, all_tables, compare_data, record

TURNS = 4
PROMPTS = {0: 2, 1: 3, 2: 4, 3: None}
"""First turn at which an observer flags the prompt of an attack, by its number's rest by four."""

BROKE = 3
"""Turn at which the model gave way in the attacks whose number ends in 0 to 7."""


def turns_of(number: int, *, attack: bool, replies: bool) -> tuple[TurnScores, ...]:
    fires = PROMPTS[number % 4] if attack else None
    found = []
    for turn in range(1, TURNS + 1):
        prompt = 0.9 if fires is not None and turn >= fires else 0.001 * number
        reply: Mapping[str, Score] = {}
        if replies and not (attack and number % 10 == 9 and turn == 2):  # a gap before the break
            gave = number % 10 != 8 and turn >= BROKE
            reply = {"p": Score(0.5, 0.1, 0.8 if gave else 0.1)}
        scores = {"p": Score(0.5, 0.1, prompt)}
        found.append(TurnScores(turn, scores, length=9, response_scores=reply, response_length=9))
    return tuple(found)


def make_study(*, replies: bool = True) -> Study:
    names = [(number, f"c{number:03}", number < 40) for number in range(120)]
    chats = [Chat(name, name, a, {"h": turns_of(number, attack=a, replies=replies)}) for number, name, a in names]
    data = study_data(chats, [run_of("h", "history")])
    settings = Settings(("h",), ("cusum",), target_fpr=0.1, replicates=10, splits=2, folds=2)
    return compare_data(data, settings)


@pytest.fixture(scope="module")
def study() -> Study:
    return make_study()


def test_success_time_and_first_alarms_are_counted(study: Study) -> None:
    found = record(study)["outcomes"]
    # Of ten attacks one has a gap before its break and one holds; the other eight break at turn 3.
    assert (found["run"], found["unscored"], found["benign"]) == ("h", 4, 80)
    assert (found["success"]["count"], found["success"]["of"], found["time"]) == (32, 36, [3, 3, 3])
    arm = next(one for one in found["arms"] if one["name"] == "any_turn@h")
    broken = [number for number in range(40) if number % 10 < 8]
    expected = {fires: sum(PROMPTS[number % 4] == fires for number in broken) for fires in PROMPTS.values()}
    counts = [arm[when]["count"] for when in ("before", "same", "after", "never")]
    assert counts == [expected[2], expected[3], expected[4], expected[None]]
    assert (arm["lead"], arm["delay"]) == ([1, 1, 1], [1, 1, 1])
    assert sum(counts) == arm["before"]["of"] == 32


def test_the_table_says_it_too(study: Study) -> None:
    table = next(one for one in all_tables(study) if one.name == "outcomes")
    row = next(row for row in table.rows if row[0] == "any_turn@h")
    assert row[2] == "1, 1 to 1"
    assert "32/36 = 88.9 %" in table.note
    assert "In 80 benign conversations there is nothing to break" in table.note


def test_without_scored_replies_there_is_no_table() -> None:
    found = make_study(replies=False)
    assert record(found)["outcomes"] is None
    assert "outcomes" not in {table.name for table in all_tables(found)}
