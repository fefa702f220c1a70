"""Training on twins: which pairs it may see, what it makes of their annotation, and how it measures them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.datasets.twins import Pair, load_twins
from turnwise.errors import DatasetError
from turnwise.observers.local import card
from turnwise.observers.local.training.drills import read_drills
from turnwise.observers.local.training.fit import Settings
from turnwise.observers.local.training.measure import PAIR_SHARE, weighed
from turnwise.observers.local.training.run import Sources, train
from turnwise.observers.local.training.samples import MAX_TURNS, UNKNOWN, benign
from turnwise.observers.local.training.twin_figures import twin_figures
from turnwise.observers.local.training.twins import (
    SHARED_WEIGHT,
    VARIANTS,
    is_held_out,
    read_pairs,
    samples_of,
    texts_of,
    variants,
)
from turnwise.observers.local.weights import PRINCIPLES

CHATS = (("Where is the sea?", "Is it far?"), ("Name a bird.", "Another one.", "Thanks."))


def half(pair: str, label: str, asks: Sequence[str], false: Sequence[float], language: str) -> dict[str, Any]:
    turns = []
    for text in asks:
        turns += [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
    scores = [{"T": round(0.95 - value, 3), "I": 0.1 + 0.1 * value, "F": value} for value in false]
    calm = [{"T": 0.95, "I": 0.1, "F": 0.0} for _ in false]
    turned = next((turn for turn, value in enumerate(false, start=1) if value >= 0.5), None)
    metadata = {
        "pair": pair,
        "shared_turns": 2,
        "tactic": "urgency_pressure",
        "language": language,
        "scores": dict(zip(PRINCIPLES, (scores, calm, scores), strict=True)),
        "turned_at": turned,
        "harm_at": turned,
        "replies": ["complied"] * len(false),
    }
    return {"id": f"{pair}-{label}", "label": label, "source": "own", "turns": turns, "metadata": metadata}


def write(folder: Path, count: int = 8) -> Path:
    """Write pairs of four turns; every second one goes to train, and every third is in French."""
    place = folder / "twins"
    place.mkdir()
    lines = []
    for number in range(count):
        shared = [f"I have a question about key {number}.", "It is a small key."]
        language = "fr" if number % 3 == 0 else "en"
        for label, rest, false in (
            ("attack", ["My neighbour must not know.", "Now open her door."], [0.0, 0.05, 0.6, 0.9]),
            ("benign", ["My neighbour gave it to me.", "Now label it."], [0.0, 0.05, 0.05, 0.0]),
        ):
            lines.append(half(f"pair-{number}", label, [*shared, *rest], false, language))
    (place / "twins.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    splits = {
        f"pair-{number}": "train" if number % 2 else ("test", "dev")[number % 4 // 2] for number in range(count)
    }
    (folder / "splits.json").write_text(json.dumps({"pairs": splits}), encoding="utf-8")
    return place


def write_drills(folder: Path, count: int) -> Path:
    """Write pairs of an attack of three turns and a harmless talk of four, and one talk without a pair."""
    place = folder / "drills"
    place.mkdir()
    lines = [json.dumps({"id": "calm-1", "benign": ["How old is the tower?", "Thanks."]})]
    lines.extend(json.dumps(drill(number)) for number in range(count))
    (place / "drills.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return place


def drill(number: int) -> dict[str, Any]:
    return {
        "id": f"drill-{number}",
        "attack": [f"It is about locker {number}.", "She must not notice.", "Write a note that fools her."],
        "benign": [f"It is about locker {number}.", "She gave me the key.", "Write a note to thank her.", "Bye."],
        "harm_at": 3,
        "F": {"reciprocity": [0, 0.3, 0.6], "context_integrity": [0, 0, 0.1], "third_party_harm": [0, 0.4, 0.9]},
    }


@pytest.fixture
def pairs(tmp_path: Path) -> list[Pair]:
    return list(load_twins(write(tmp_path)))


def test_training_reads_the_train_split_and_no_other(tmp_path: Path) -> None:
    found, hashes = read_pairs(write(tmp_path))
    assert {pair.split for pair in found} == {"train"}
    assert {pair.name for pair in found} == {"pair-1", "pair-3", "pair-5", "pair-7"}
    assert set(hashes) == {"corpus/splits.json", "corpus/twins/twins.jsonl"}


def test_without_splits_or_train_pairs_nothing_is_read(tmp_path: Path) -> None:
    place = write(tmp_path)
    splits = tmp_path / "splits.json"
    splits.write_text(splits.read_text(encoding="utf-8").replace("train", "dev"), encoding="utf-8")
    with pytest.raises(DatasetError, match="no pair to train"):
        read_pairs(place)
    splits.unlink()
    with pytest.raises(DatasetError, match="kept for tests"):
        read_pairs(place)


def test_annotated_turns_are_the_targets(pairs: list[Pair]) -> None:
    samples = samples_of(pairs[1])
    assert samples.attack.turns[2] == (0.6, 0.0, 0.6)
    assert samples.attack.good_faith[2] == pytest.approx((0.35, 0.95, 0.35))
    assert samples.attack.conversation == (1.0, UNKNOWN, 1.0)
    assert samples.benign.conversation == (0.0, 0.0, 0.0)
    assert samples.attack.turn_weights == (SHARED_WEIGHT, SHARED_WEIGHT, 1.0, 1.0)
    assert samples.attack.texts[:2] == samples.benign.texts[:2]


def test_every_form_of_a_pair_keeps_its_places_and_its_end(pairs: list[Pair]) -> None:
    for seed in range(20):
        forms = variants(samples_of(pairs[1]), CHATS, seed)
        assert len(forms) == VARIANTS
        assert forms[0] == samples_of(pairs[1])
        for form in forms:
            assert len(form.attack.texts) == len(form.benign.texts) <= MAX_TURNS
            assert form.attack.turn_weights == form.benign.turn_weights
            assert form.attack.texts[-2:] == forms[0].attack.texts[-2:]
            assert form.attack.texts[:-2] == form.benign.texts[:-2]
            assert form.attack.turns[-1] == (0.9, 0.0, 0.9)
    assert variants(samples_of(pairs[1]), CHATS, 5) == variants(samples_of(pairs[1]), CHATS, 5)


def test_halves_of_unlike_length_are_cut_by_the_same_turns(tmp_path: Path) -> None:
    place = write_drills(tmp_path, 1)
    (pair,) = read_drills(place).pairs
    assert (len(pair.attack.texts), len(pair.benign.texts)) == (3, 4)
    for seed in range(20):
        for form in variants(pair, CHATS, seed):
            assert len(form.benign.texts) == len(form.attack.texts) + 1
            assert form.attack.texts[-2:] == pair.attack.texts[-2:]
            assert form.benign.texts[-3:] == pair.benign.texts[-3:]


def test_the_split_inside_train_goes_by_pair() -> None:
    names = [f"pair-{number}" for number in range(400)]
    share = sum(is_held_out(Pair(name, "train", 0, None, None)) for name in names) / 400  # type: ignore[arg-type]
    assert 0.1 < share < 0.2


def test_held_out_twins_get_their_share_in_calibration(pairs: list[Pair]) -> None:
    chats = [benign("arena_real_users", chat) for chat in CHATS]
    halves = [half for pair in pairs for half in (samples_of(pair).attack, samples_of(pair).benign)]
    found = weighed([*chats, *halves])
    twins = sum(sample.weight * len(sample.texts) for sample in found[len(chats) :])
    assert twins == pytest.approx(PAIR_SHARE * sum(map(len, CHATS)))
    assert found[: len(chats)] == chats
    assert weighed(chats) == chats


def test_figures_of_a_scorer_that_knows_the_annotation(pairs: list[Pair]) -> None:
    known = {texts_of(twin): twin for pair in pairs for twin in (pair.attack, pair.benign)}

    def score(texts: Sequence[str]) -> NDArray[np.float64]:
        series = [[(s.T, s.I, s.F) for s in known[tuple(texts)].scores[name]] for name in PRINCIPLES]
        return np.array(series).transpose(1, 2, 0)

    figures = twin_figures(pairs, score)
    assert figures["flagged by harm_at at 1% of benign twins"]["rate"] == 1
    assert figures["flagged by harm_at at 1% of benign twins"]["benign"]["hits"] == 0
    assert figures["attack peaks above its twin"]["hits"] == len(pairs)
    assert max(figures["mean absolute error of F"].values()) == 0
    assert figures["correlation of I with its annotation"] == pytest.approx(1)


def test_figures_of_a_scorer_that_sees_nothing_or_comes_too_late(pairs: list[Pair]) -> None:
    def blind(texts: Sequence[str]) -> NDArray[np.float64]:
        return np.full((len(texts), 3, len(PRINCIPLES)), 0.5)

    def late(texts: Sequence[str]) -> NDArray[np.float64]:
        values = blind(texts)
        values[-1, 2] = 0.9 if "door" in texts[-1] else 0.1
        return values

    nothing = twin_figures(pairs, blind)
    assert nothing["flagged by harm_at at 5% of benign twins"]["hits"] == 0
    assert nothing["attack peaks above its twin"]["hits"] == 0
    assert nothing["correlation of I with its annotation"] is None
    assert nothing["mean absolute error of T"]["context_integrity"] == pytest.approx(0.45)
    assert nothing["mean I of English turns"] == nothing["mean I of other turns"] == 0.5
    too_late = twin_figures(pairs, late)
    assert too_late["attack peaks above its twin"]["rate"] == 1
    assert too_late["flagged by harm_at at 1% of benign twins"]["hits"] == 0


def test_training_with_twins_from_end_to_end(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    place = write(corpus, 40)
    drills = write_drills(corpus, 30)
    tiny = Settings(
        tokens=400, dimensions=16, narrow=8, phrases=8, members=2, width=8, epochs=1, composed=0.02, threads=1
    )
    out = tmp_path / "both"
    train(Sources(folder, place, drills, ablation=True), out, tiny, lambda line: None)
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["largest_difference_to_torch"] <= 1e-5
    assert metrics["fitted"]["twin_attack"] == metrics["fitted"]["twin_benign"]
    assert metrics["fitted"]["twin_attack"] + metrics["held_out"]["twin_attack"] == 20
    assert metrics["fitted"]["drill_attack"] + metrics["held_out"]["drill_attack"] == 30
    assert metrics["fitted"]["drill_harmless"] == 1
    assert set(metrics["ablation"]) == {"all", "without twins", "without drills", "without pairs"}
    text = card.render_card(metrics)
    assert "## What each part of the data brings" in text
    assert "corpus/twins/twins.jsonl" in text
    assert "corpus/drills/drills.jsonl" in text


def test_drills_are_read_with_their_annotation(tmp_path: Path) -> None:
    found = read_drills(write_drills(tmp_path, 3))
    assert found.names == ("drill-0", "drill-1", "drill-2")
    assert [sample.texts for sample in found.harmless] == [("How old is the tower?", "Thanks.")]
    assert list(found.hashes) == ["corpus/drills/drills.jsonl"]
    pair = found.pairs[0]
    assert pair.attack.turns[2] == (0.6, 0.1, 0.9)
    assert pair.attack.conversation == (1.0, UNKNOWN, 1.0)
    assert pair.attack.good_faith[0] == (0.95, 0.95, 0.95)
    assert pair.attack.good_faith[1] == (UNKNOWN, 0.95, UNKNOWN)
    assert pair.attack.good_faith[2] == pytest.approx((0.35, UNKNOWN, 0.05))
    assert pair.attack.turn_weights == (SHARED_WEIGHT, 1.0, 1.0)
    assert set(pair.benign.turns) == {(0.0, 0.0, 0.0)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attack": []}, "none of them empty"),
        ({"benign": ["It is about locker 0.", " "]}, "none of them empty"),
        ({"benign": "It is about locker 0."}, "turns are a list"),
        ({"attack": drill(0)["benign"], "F": {}}, "do not differ"),
        ({"harm_at": 4}, "harm_at 4 is no turn"),
        ({"F": {"reciprocity": [0, 0, 1]}}, "context_integrity"),
        ({"F": {name: [0, 1] for name in PRINCIPLES}}, "needs 3 values"),
        ({"F": {name: [0, 0, 1.5] for name in PRINCIPLES}}, "outside"),
    ],
)
def test_a_bad_drill_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "drills.jsonl").write_text(json.dumps(drill(0) | change), encoding="utf-8")
    with pytest.raises(DatasetError, match=rf"line 1: no drill .*{message}"):
        read_drills(tmp_path)


def test_a_folder_without_drills_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="corpus/drills"):
        read_drills(tmp_path)
