"""The scores of a run as rows, as a table of pandas, and as a notebook shows them."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from typing import Any

import pytest

from turnwise.conversation import Label, Sequence, Side
from turnwise.errors import UnknownNameError, UsageError
from turnwise.scoring import Evaluation, Failure, Score
from turnwise.store import Run, Store, StoredScore


@pytest.fixture
def scored(
    store: Store,
    make_sequence: Callable[..., Sequence],
    make_run: Callable[..., Run],
    make_evaluation: Callable[..., Evaluation],
) -> Store:
    """Return a store with one run over an attack and a benign sequence."""
    store.add_sequences([make_sequence("<b>"), make_sequence("b", label=Label.BENIGN)])
    store.start_run(make_run())
    store.append(
        [make_evaluation("b", 1, "q"), make_evaluation("<b>", 2), make_evaluation("<b>", 1, side=Side.RESPONSE)]
    )
    return store


def test_scores_are_rows_by_sequence_and_turn(scored: Store) -> None:
    rows = list(scored.scores())
    assert rows == [
        StoredScore("<b>", Label.ATTACK, "made up", 1, Side.RESPONSE, "p", 0.5, 0.25, 0.125),
        StoredScore("<b>", Label.ATTACK, "made up", 2, Side.PROMPT, "p", 0.5, 0.25, 0.125),
        StoredScore("b", Label.BENIGN, "made up", 1, Side.PROMPT, "q", 0.5, 0.25, 0.125),
    ]
    table = scored.scores("first", label=Label.BENIGN)
    assert (len(table), list(table)) == (1, rows[2:])
    assert len(scored.scores(ids=["<b>"])) == 2
    assert len(scored.scores()) == 3
    with pytest.raises(UnknownNameError, match="unknown run 'x'"):
        scored.scores("x")


def test_scores_are_a_table_of_pandas(scored: Store) -> None:
    pandas = pytest.importorskip("pandas")
    frame = scored.scores().to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["sequence_id", "label", "source", "turn", "side", "principle", "T", "I", "F"]
    assert frame.groupby("label")["F"].mean().to_dict() == {"attack": 0.125, "benign": 0.125}


def test_without_pandas_it_is_said_what_to_install(scored: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return load(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    for made in (scored.scores(), scored.trajectory("first", "b"), scored.sequence("b").conversation):
        with pytest.raises(UsageError, match="to_frame\\(\\) needs pandas: python -m pip install pandas"):
            made.to_frame()


def test_what_a_store_returns_can_be_shown_and_kept(
    scored: Store, make_failure: Callable[..., Failure], make_evaluation: Callable[..., Evaluation]
) -> None:
    scored.append([make_failure("b", 2, message="<script>")])
    (run, tally), *_ = scored.tallies()
    head = next(scored.heads())
    sequence = scored.sequence("<b>")
    trajectory = scored.trajectory("first", "<b>")
    for made in (run, tally, head, sequence, sequence.conversation, trajectory, scored.scores()):
        assert json.loads(json.dumps(made.to_dict())) == made.to_dict()
        html = made._repr_html_()
        assert html.startswith("<p>")
        assert "<b>" not in html
        assert "\n" not in repr(made)
    assert head.to_dict() == {"sequence_id": "<b>", "label": "attack", "source": "made up", "turns": 2}
    assert "&lt;b&gt;" in head._repr_html_()
    assert trajectory.to_dict()["turns"][1]["scores"] == {"p": Score(0.5, 0.25, 0.125).to_dict()}
    assert scored.counts()["evaluations"] == 3
    assert "<td>evaluations</td><td>3</td>" in scored._repr_html_()
    assert tally.to_dict()["last"] == "2025-06-07T08:09:10.123456+00:00"


def test_texts_of_others_are_escaped_and_made_visible(
    make_sequence: Callable[..., Sequence],
) -> None:
    chat = make_sequence("a", ("<img onerror=x>\x1b[2J\u202e", None)).conversation
    html = chat._repr_html_()
    assert "&lt;img onerror=x&gt;\\x1b[2J\\u202e" in html
    assert "<img" not in html


def test_a_trajectory_and_a_conversation_are_tables(scored: Store) -> None:
    pytest.importorskip("pandas")
    frame = scored.trajectory("first", "<b>").to_frame()
    assert frame[["turn", "side", "principle", "F"]].to_numpy().tolist() == [
        [1, "response", "p", 0.125],
        [2, "prompt", "p", 0.125],
    ]
    said = scored.sequence("<b>").conversation.to_frame()
    assert said["turn"].tolist() == [1, 2]
    assert said["response"].fillna("").tolist() == ["reply", ""]
