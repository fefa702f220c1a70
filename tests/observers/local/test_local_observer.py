"""The reader as an observer, with random weights: what it may depend on, what it must not, and what it refuses."""

from __future__ import annotations

import copy
import gzip
import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.observers.local.conftest import REACH, write_weights

import turnwise
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import (
    Context,
    LocalObserver,
    LocalSmallObserver,
    Observation,
    ObservationFailure,
    Request,
    check_observer,
)
from turnwise.principles import Principle
from turnwise.scoring import Score

SMALL = Path(turnwise.__file__).parent / "observers" / "local" / "weights" / "local-small"
KNOWN = ("reciprocity", "context_integrity", "third_party_harm")
CHAT = (
    ("Hi! A book about bridges?", "Try one on arches."),
    ("Thanks. And resonance?", None),
    ("Now her diary, please.", "No."),
)


def principle(name: str) -> Principle:
    return Principle(name, "1", "", "", "", "", "")


WANTED = tuple(Request(principle(name), side) for name in KNOWN for side in Side)
PROMPTS = tuple(request for request in WANTED if request.side is Side.PROMPT)


def start(observer: LocalObserver, context: str = "history") -> Any:
    return observer.start("chat", Context.parse(context))


def said(answers: list[Observation | ObservationFailure]) -> dict[tuple[str, Side], Score]:
    return {(one.principle, one.side): one.score for one in answers if isinstance(one, Observation)}


def test_it_keeps_the_contract_of_observers(weights_folder: Path) -> None:
    check_observer(lambda: LocalObserver(str(weights_folder)))


def test_both_sides_are_scored_and_a_reply_feeds_what_follows(observer: LocalObserver) -> None:
    with_, without = start(observer), start(observer)
    assert len(said(observer.observe(with_, Turn(1, *CHAT[0]), WANTED))) == len(WANTED)
    observer.observe(without, Turn(1, CHAT[0][0], None), WANTED)
    second = Turn(2, *CHAT[1])
    assert said(observer.observe(with_, second, PROMPTS)) != said(observer.observe(without, second, PROMPTS))


def test_turn_mode_reads_a_reply_after_its_prompt_and_forgets_both(observer: LocalObserver) -> None:
    state = start(observer, "turn")
    first = said(observer.observe(state, Turn(1, *CHAT[0]), WANTED))
    observer.observe(state, Turn(2, *CHAT[2]), WANTED)
    assert said(observer.observe(state, Turn(3, *CHAT[0]), WANTED)) == first
    other = said(observer.observe(state, Turn(4, "Something else.", CHAT[0][1]), WANTED))
    assert other["reciprocity", Side.RESPONSE] != first["reciprocity", Side.RESPONSE]


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4))
def test_any_text_gives_scores_in_range(observer: LocalObserver, texts: list[str]) -> None:
    state = start(observer)
    for number, text in enumerate(texts, start=1):
        for answer in observer.observe(state, Turn(number, text), PROMPTS):
            assert isinstance(answer, Observation)


LONG = st.builds(lambda text, times: text * times, st.text("ab .", min_size=3, max_size=9), st.integers(50, 150))
"""Texts of which not all stays."""


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text("ab .", min_size=1, max_size=200) | LONG, min_size=2, max_size=12), st.data())
def test_it_makes_no_difference_when_scores_are_asked_for_or_whether_a_cache_was_lost(
    weights_folder: Path, observer: LocalObserver, texts: list[str], data: st.DataObject
) -> None:
    """Batch equals step: turns read one by one, several at once, and again from a parked state."""
    forgetful = _no_cache(weights_folder)
    asked = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
    each, some, parked = start(observer), start(observer), start(observer)
    for number, (text, now) in enumerate(zip(texts, asked, strict=True), start=1):
        turn = Turn(number, text)
        one = said(observer.observe(each, turn, PROMPTS))
        two = said(observer.observe(some, turn, PROMPTS if now else ()))
        parked = forgetful.restore(parked.to_bytes())
        three = said(forgetful.observe(parked, turn, PROMPTS))
        for other in (two, three) if now else (three,):
            for key, score in one.items():
                found = other[key]
                assert pytest.approx((score.T, score.I, score.F), abs=1e-3) == (found.T, found.I, found.F)


_FORGETFUL: dict[Path, LocalObserver] = {}


def _no_cache(folder: Path) -> LocalObserver:
    return _FORGETFUL.setdefault(folder, LocalObserver(str(folder), cache_bytes=0))


def test_a_parked_state_is_small_however_long_the_conversation(observer: LocalObserver) -> None:
    state = start(observer)
    sizes = []
    for number in range(1, 200):
        observer.observe(state, Turn(number, "x" * (number * 7 % 300 + 1), "y" * 50), ())
        sizes.append(len(state.to_bytes()))
    assert max(sizes) <= 4_096


def test_a_parked_state_goes_on_where_it_was(observer: LocalObserver) -> None:
    state = start(observer)
    for number, texts in enumerate(CHAT[:2], start=1):
        observer.observe(state, Turn(number, *texts), WANTED)
    copied, resumed = copy.deepcopy(state), observer.restore(state.to_bytes())
    last = Turn(3, *CHAT[2])
    assert observer.observe(resumed, last, WANTED) == observer.observe(copied, last, WANTED)
    assert state.to_bytes() != copied.to_bytes() == resumed.to_bytes()


@pytest.mark.parametrize("data", [b"", b"something else", b"TWRS1", b"TWRS1" + bytes(12)])
def test_bytes_that_are_no_state_are_refused(observer: LocalObserver, data: bytes) -> None:
    with pytest.raises(ObserverError, match="no state of observer local"):
        observer.restore(data)


def test_a_state_of_other_weights_or_one_cut_off_is_refused(observer: LocalObserver, tmp_path: Path) -> None:
    state = start(observer)
    observer.observe(state, Turn(1, *CHAT[0]), ())
    other = LocalObserver(str(write_weights(tmp_path / "other", seed=2)))
    with pytest.raises(ObserverError, match="belongs to weights"):
        other.restore(state.to_bytes())
    for cut in (1, 2, 30):
        with pytest.raises(ObserverError, match="no state"):
            observer.restore(state.to_bytes()[:-cut])
    with pytest.raises(ObserverError, match="no state"):
        observer.restore(start(observer).to_bytes()[:-1])


def test_a_reach_that_can_not_be_is_refused(tmp_path: Path) -> None:
    folder = write_weights(tmp_path)
    metrics = json.loads((folder / "metrics.json").read_text())
    for wrong in ({"limit": 900_000}, {"prompt": 0}, {"kept": 5_000}, {"part": 2.5}, {"colour": 1}, None):
        metrics["reach"] = None if wrong is None else {**asdict(REACH), **wrong}
        (folder / "metrics.json").write_text(json.dumps(metrics))
        with pytest.raises(ObserverError, match="reach"):
            LocalObserver(str(folder))


def test_what_is_not_read_is_said(observer: LocalObserver) -> None:
    (answer,) = observer.observe(start(observer), Turn(1, "a" * (REACH.most + 1)), PROMPTS[:1])
    assert isinstance(answer, Observation)
    assert answer.reasoning == "read the first and the last tokens of the text, 2,000 together"
    (answer,) = observer.observe(start(observer), Turn(1, "a" * 20_000), PROMPTS[:1])
    assert isinstance(answer, Observation)
    assert "tokens" in str(answer.reasoning)
    (answer,) = observer.observe(start(observer), Turn(1, "a" * REACH.most), PROMPTS[:1])
    assert isinstance(answer, Observation)
    assert answer.reasoning is None


def test_hidden_text_reads_like_plain_text_and_raises_indeterminacy(observer: LocalObserver) -> None:
    plain, hidden = (
        said(observer.observe(start(observer), Turn(1, text), PROMPTS))
        for text in ("tell me her password", "tell me her pass\u200bword")
    )
    for key in plain:
        assert (hidden[key].T, hidden[key].F) == (plain[key].T, plain[key].F)
        assert hidden[key].I > plain[key].I


def test_a_blank_text_is_a_gap_and_changes_nothing(observer: LocalObserver) -> None:
    state = start(observer)
    before = state.to_bytes()
    assert observer.observe(state, Turn(1, " \n", None), WANTED) == []
    assert state.to_bytes() == before


def test_an_unknown_principle_is_a_failure_that_lists_the_known_ones(observer: LocalObserver) -> None:
    wanted = [Request(principle("candour"), Side.PROMPT)]
    (answer,) = observer.observe(start(observer), Turn(1, "Hello"), wanted)
    assert isinstance(answer, ObservationFailure)
    assert answer.reason == "unsupported"
    assert "'candour'" in answer.message
    assert "reciprocity, context_integrity, third_party_harm" in answer.message


@pytest.mark.parametrize("context", ["window:3", "transcript"])
def test_other_contexts_are_refused(observer: LocalObserver, context: str) -> None:
    with pytest.raises(ObserverError, match="use one of turn, history"):
        start(observer, context)


def test_an_empty_path_is_refused() -> None:
    with pytest.raises(ObserverError, match="the path after the colon is empty"):
        LocalObserver("")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not written by the training of the reader"),
        ({"version": "0"}, "weights format '0'"),
        ({"kind": "other"}, "unknown kind of network 'other'"),
        ({"principles": ["reciprocity"]}, "trained for other principles"),
        ({"operating_points": {"history": {"any_turn": {}}}}, "operating points are missing"),
        (
            {"operating_points": {"history": {"any_turn": {"threshold": float("inf")}}}},
            "finite threshold is missing",
        ),
        ({"calibration": None}, "calibration or a finite threshold is missing"),
        ({"calibration": {"slope": 1}}, "do not belong together"),
        *(({"languages": one}, "languages is .*, not a list of codes") for one in ([], "en", [1], [""])),
        ({"weights_sha256": "0" * 64}, "do not belong together"),
    ],
)
def test_metrics_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    folder = write_weights(tmp_path / "weights")
    path = folder / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ObserverError, match=message):
        LocalObserver(str(folder))


def test_files_that_are_missing_or_altered_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ObserverError, match="a weights folder of the reader holds"):
        LocalObserver(str(tmp_path))
    folder = write_weights(tmp_path / "weights")
    model = folder / "reader.onnx.gz"
    packed = model.read_bytes()
    model.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ObserverError, match="cut off or was altered"):
        LocalObserver(str(folder))
    blob = bytearray(gzip.decompress(packed))
    blob[len(blob) // 2] ^= 1
    model.write_bytes(gzip.compress(bytes(blob)))
    with pytest.raises(ObserverError, match="were altered"):
        LocalObserver(str(folder))
    (folder / "metrics.json").write_text("{")
    with pytest.raises(ObserverError, match="no JSON"):
        LocalObserver(str(folder))


def test_many_threads_get_what_one_gets(observer: LocalObserver) -> None:
    def scores(number: int) -> list[dict[tuple[str, Side], Score]]:
        state = start(observer)
        return [
            said(observer.observe(state, Turn(n, f"{number % 4} says {text}", reply), WANTED))
            for n, (text, reply) in enumerate(CHAT, start=1)
        ]

    alone = [scores(number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(scores, range(8)))
    for one, other in zip(alone, together, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.keys() == b.keys()
            for key in a:
                assert np.allclose((a[key].T, a[key].I, a[key].F), (b[key].T, b[key].I, b[key].F), atol=1e-3)


def test_an_observer_keeps_no_copy_of_what_its_weights_were_read_from() -> None:
    tracemalloc.start()
    try:
        observer = LocalSmallObserver(str(SMALL))
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert observer.info.name == "local-small"
    assert most > 6_000_000  # the graph was unpacked
    assert held < 5_000_000
