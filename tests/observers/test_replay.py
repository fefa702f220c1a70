"""Recorded scores: given as they stand in the file, a gap where there is none, an error where a line is bad."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Seen, SeenDigest, Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import (
    Context,
    ContextMode,
    Observation,
    Observer,
    Request,
    build_observer,
    describe_observer,
)
from turnwise.principles import Principle
from turnwise.scoring import Score

LINE: dict[str, Any] = {"sequence_id": "a", "turn": 1, "principle": "p", "T": 0.9, "I": 0.2, "F": 0.1}
P, Q = (Principle(name, "1", "s", "t", "i", "f", "judge it") for name in "pq")


@pytest.fixture
def replay(tmp_path: Path) -> Callable[..., Observer]:
    """Return a function from lines to an observer that replays them."""

    def make(*lines: dict[str, Any] | str | bytes) -> Observer:
        path = tmp_path / "scores.jsonl"
        parts = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
        path.write_bytes(b"\n".join(part.encode() if isinstance(part, str) else part for part in parts))
        return build_observer(f"replay:{path}")

    return make


def ask(observer: Observer, sequence_id: str, turn: int, *wanted: tuple[Principle, Side]) -> list[Any]:
    state = observer.start(sequence_id, Context.parse("history"))
    return list(observer.observe(state, Turn(turn, "hi", "hello"), [Request(*pair) for pair in wanted]))


def test_scores_are_given_as_they_were_recorded(replay: Callable[..., Observer]) -> None:
    observer = replay(
        {**LINE, "reasoning": "weil ü"},
        {**LINE, "turn": 2, "F": 1, "annotator": "extra fields are no matter"},
        {**LINE, "side": "response", "I": 0},
        {**LINE, "side": "prompt", "principle": "q", "reasoning": None},
    )
    both = [(P, Side.PROMPT), (P, Side.RESPONSE), (Q, Side.PROMPT), (Q, Side.RESPONSE)]
    assert ask(observer, "a", 1, *both) == [
        Observation("p", Side.PROMPT, Score(0.9, 0.2, 0.1), reasoning="weil ü"),
        Observation("p", Side.RESPONSE, Score(0.9, 0.0, 0.1)),
        Observation("q", Side.PROMPT, Score(0.9, 0.2, 0.1)),
    ]
    assert ask(observer, "a", 2, *both) == [Observation("p", Side.PROMPT, Score(0.9, 0.2, 1.0))]


def test_a_missing_line_is_a_gap(replay: Callable[..., Observer]) -> None:
    observer = replay(LINE)
    assert ask(observer, "a", 2, (P, Side.PROMPT)) == []
    assert ask(observer, "b", 1, (P, Side.PROMPT)) == []
    assert ask(observer, "a", 1) == []


def test_blank_lines_and_a_byte_order_mark_are_no_matter(replay: Callable[..., Observer]) -> None:
    marked = b"\xef\xbb\xbf" + json.dumps(LINE).encode()
    observer = replay(marked, "", "   \r", {**LINE, "turn": 2}, "")
    assert len(ask(observer, "a", 1, (P, Side.PROMPT)) + ask(observer, "a", 2, (P, Side.PROMPT))) == 2


def test_an_empty_file_gives_nothing(replay: Callable[..., Observer]) -> None:
    assert ask(replay(), "a", 1, (P, Side.PROMPT)) == []


def test_the_version_tells_one_file_from_another(replay: Callable[..., Observer]) -> None:
    first, again, other = replay(LINE), replay(LINE), replay({**LINE, "F": 0.2})
    assert first.info == again.info
    assert first.parameters == again.parameters
    assert first.info.version != other.info.version
    assert first.info.version.startswith(describe_observer("replay").version + "+")
    assert other.info.contexts == tuple(ContextMode)
    digest = str(other.parameters["scores_sha256"])
    assert len(digest) == 64
    assert other.info.version.endswith(digest[:12])


def test_a_file_is_needed(tmp_path: Path) -> None:
    for spec in ("replay", "replay:"):
        with pytest.raises(ObserverError, match=r"the replay observer needs a JSONL file of .*: write replay:"):
            build_observer(spec)
    with pytest.raises(ObserverError, match=r"can't read recorded scores from .*none\.jsonl: No such file"):
        build_observer(f"replay:{tmp_path / 'none.jsonl'}")
    with pytest.raises(ObserverError, match=r"can't read recorded scores from .*: Is a directory"):
        build_observer(f"replay:{tmp_path}")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "Expecting property name"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        (b"\xff\xfe\xff", "codec can't decode"),
        ("[" * 200_000, "more than 200 levels deep"),
        *(
            ({key: value for key, value in LINE.items() if key != name}, f"field '{name}' is missing")
            for name in ("sequence_id", "turn", "principle")
        ),
        *(({key: value for key, value in LINE.items() if key != name}, f"score without {name}") for name in "TIF"),
        ({**LINE, "sequence_id": 7}, "field 'sequence_id' must be text"),
        ({**LINE, "turn": "1"}, "field 'turn' must be a whole number"),
        ({**LINE, "turn": True}, "field 'turn' must be a whole number"),
        ({**LINE, "turn": 1.0}, "field 'turn' must be a whole number"),
        ({**LINE, "turn": 0}, "turns are numbered from 1, not 0"),
        ({**LINE, "principle": None}, "field 'principle' must be text"),
        ({**LINE, "side": "middle"}, "side must be 'prompt' or 'response', not 'middle'"),
        ({**LINE, "side": ["prompt"]}, "side must be 'prompt' or 'response'"),
        ({**LINE, "reasoning": 3}, "field 'reasoning' must be text"),
        ({**LINE, "T": 1.1}, r"T must be a finite number in \[0, 1\], not 1.1"),
        ({**LINE, "F": -0.1}, "F must be a finite number"),
        ({**LINE, "I": "0.5"}, "I must be a finite number"),
        ({**LINE, "I": True}, "I must be a finite number"),
        ({**LINE, "I": None}, "I must be a finite number"),
        ({**LINE, "F": float("nan")}, "F must be a finite number"),
        ({**LINE, "F": 10**60}, "F must be a finite number"),
        ({**LINE, "F": 10**400}, "a whole number has 401 digits"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_line_is_named(
    replay: Callable[..., Observer], line: dict[str, Any] | str | bytes, what: str
) -> None:
    with pytest.raises(ObserverError, match=rf"scores\.jsonl, line 3: .*{what}"):
        replay({**LINE, "turn": 5}, "", line, {**LINE, "turn": 6})


def test_two_scores_for_one_thing_are_an_error(replay: Callable[..., Observer]) -> None:
    with pytest.raises(ObserverError, match="line 2: a second score for 'a', turn 1, p, prompt"):
        replay(LINE, {**LINE, "side": "prompt", "F": 0.7})


def test_a_line_may_hold_all_principles_of_a_turn(replay: Callable[..., Observer]) -> None:
    observer = replay({"sequence_id": "a", "turn": 1, "scores": {"p": [0.9, 0.2, 0.1], "q": [0, 0, 1]}})
    assert ask(observer, "a", 1, (P, Side.PROMPT), (Q, Side.PROMPT)) == [
        Observation("p", Side.PROMPT, Score(0.9, 0.2, 0.1)),
        Observation("q", Side.PROMPT, Score(0.0, 0.0, 1.0)),
    ]


@pytest.mark.parametrize("seen", list(Seen))
def test_a_score_holds_for_the_text_that_was_read(replay: Callable[..., Observer], seen: Seen) -> None:
    turns = [Turn(1, "hi", "hello"), Turn(2, "and now?", "this")]
    digest = SeenDigest().after(turns[0]).after(turns[1]).of(seen)
    side = Side.RESPONSE if seen is Seen.BOTH else Side.PROMPT
    line = {"sequence_id": "a", "turn": 2, "side": str(side), "scores": {"p": [0.9, 0.2, 0.1]}, "seen": str(seen)}
    observer = replay({**line, "digest": digest})

    def told(*texts: Turn) -> Any:
        state = observer.start("a", Context.parse("history"))
        return [observer.observe(state, turn, [Request(P, side)]) for turn in texts][-1][0]

    assert told(*turns) == Observation("p", side, Score(0.9, 0.2, 0.1))
    last = told(turns[0], Turn(2, "and  now?", "this"))
    assert (last.reason, last.principle, last.side) == ("text_changed", "p", side)
    first = told(Turn(1, "hi!", "hello"), turns[1])
    assert isinstance(first, Observation) == (seen is Seen.PROMPT)
    reply = told(Turn(1, "hi", "hello!"), turns[1])
    assert isinstance(reply, Observation) == (seen is not Seen.BOTH)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"scores": []}, "field 'scores' must be an object"),
        ({"scores": {"p": [0.1, 0.2]}}, "scores of 'p' must be a list [T, I, F]"),
        ({"scores": {"p": [0.1, 0.2, 1.5]}}, "F must be a finite number in [0, 1]"),
        (
            {"scores": {"p": [0.1, 0.2, 0.3]}, "seen": "all"},
            "seen must be 'prompt' or 'prompts' or 'both', not 'all'",
        ),
        ({"scores": {"p": [0.1, 0.2, 0.3]}, "digest": 7}, "field 'digest' must be text"),
    ],
)
def test_a_bad_line_of_several_scores_is_named(
    replay: Callable[..., Observer], line: dict[str, Any], said: str
) -> None:
    with pytest.raises(ObserverError, match=r"line 1: .*") as caught:
        replay({"sequence_id": "a", "turn": 1, **line})
    assert said in str(caught.value)


def test_thresholds_beside_the_file_are_operating_points(replay: Callable[..., Observer], tmp_path: Path) -> None:
    assert replay(LINE).info.operating_points == {}
    beside = tmp_path / "operating_points.json"
    beside.write_text(json.dumps({"about": "x", "points": {"history": {"any_turn": 0.4}}}))
    assert replay(LINE).info.operating_points == {"history": {"any_turn": 0.4}}
    beside.write_text('{"points": {"history": {"any_turn": "high"}}}')
    with pytest.raises(ObserverError, match="operating points must be"):
        replay(LINE)
