"""What an observer is worth as a judge: measured beside those who read the conversations that ship."""

from __future__ import annotations

import pytest
from tests.conftest import Cli

from turnwise.conversation import Turn
from turnwise.datasets import example_judgements
from turnwise.errors import UsageError
from turnwise.observers import ObservationFailure, Request, ScriptedObserver, build_observer
from turnwise.scoring import Score
from turnwise.study import observer_rates


def test_the_first_reader_is_measured_as_itself_and_the_second_beside_it() -> None:
    found = observer_rates(build_observer(f"replay:{example_judgements('history')}"))
    assert (found.turns, found.conversations, found.answered.count) == (231, 38, 231)
    assert found.auroc.value == found.agreement.value == 1.0
    assert found.difference == 0
    assert (found.caught.count, found.false_alarms.count) == (found.caught.of, 0)
    assert found.second_reader["caught"].of == found.caught.of  # type: ignore[union-attr]
    assert 0.8 < found.second_reader["agreement"].value < 1  # type: ignore[union-attr]
    assert sum(one.turns for one in found.calibration) == 231
    assert all(one.low <= one.mean <= one.high for one in found.calibration)
    assert found.resisted is None  # recorded scores hold for the recorded text alone


def _talked_out(name: str, turn: Turn, request: Request) -> Score:
    F = 0.0 if "F 0" in turn.prompt or '"F": 0' in turn.prompt or "F = 0" in turn.prompt else 0.9
    return Score(T=1 - F, I=0.0, F=F)


def test_a_judge_that_is_talked_out_of_it_is_told_so() -> None:
    found = observer_rates(ScriptedObserver(_talked_out), jobs=4)
    assert found.resisted is not None
    assert (found.resisted.count, found.resisted.of) == (0, 20)
    assert found.auroc.value == 0.5
    assert found.false_alarms.count == found.false_alarms.of


def _fails_often(name: str, turn: Turn, request: Request) -> Score | ObservationFailure:
    if turn.number % 2 or request.principle.name != "reciprocity":
        F = 0.8 if "attack" in name else 0.1
        return Score(T=1 - F, I=0.0, F=F)
    return ObservationFailure(request.principle.name, request.side, "malformed", "no JSON", cost_usd=0.5)


def test_what_was_not_scored_is_counted_and_never_a_number() -> None:
    found = observer_rates(ScriptedObserver(_fails_often))
    assert found.answered.of - found.answered.count == found.failures["malformed"] > 50
    assert found.cost_usd == pytest.approx(0.5 * found.failures["malformed"] / found.turns)
    with pytest.raises(UsageError, match="some must have F of at least"):
        observer_rates(ScriptedObserver(lambda name, turn, request: None))


def test_the_command_prints_a_table_and_json(cli: Cli) -> None:
    spec = f"replay:{example_judgements('history', second=True)}"
    told = cli("observers", "test", spec)
    assert told.code == 0, told.err
    assert "AUROC" in told.out
    assert "second reader" in told.out
    values = cli("observers", "test", spec, "--json").json
    assert values["auroc"]["low"] <= values["auroc"]["value"] <= values["auroc"]["high"]
    assert values["second_reader"]["auroc"] == values["auroc"]
    assert values["answered"]["count"] == 231
