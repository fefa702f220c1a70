"""``turnwise study discover``: from a run to a file of patterns that a query reads."""

from __future__ import annotations

import functools
import json
import random

import pytest
import yaml

from turnwise.patterns import load_patterns, parse


@pytest.fixture(scope="module")
def make_store(tmp_path_factory, succeed):
    """Return a function to a store with a run in which F of attacks rises, as far as told; no test changes it.

    F of a benign conversation is as high at one turn, but does not rise to it, so that no single turn tells them
    apart.
    """

    @functools.cache
    def make(rise=0.15, attacks=50):
        tmp_path = tmp_path_factory.mktemp("discover")
        generator = random.Random(2)
        lines, scores = [], []
        for number in range(attacks + 120):
            attack = number < attacks
            name = f"{'a' if attack else 'b'}{number}"
            label = "unlabelled" if number >= attacks + 117 else "attack" if attack else "benign"
            chat = [{"role": "user", "content": "a turn"} for _ in range(4)]
            metadata = {"group": f"g{number // 2}"}
            lines.append({"id": name, "label": label, "source": "made", "turns": chat, "metadata": metadata})
            if number == attacks:
                continue
            high = generator.randint(1, 2)
            for turn in range(1, 5):
                raised = rise * turn if attack else 4 * rise * (turn == high)
                F = round(raised + generator.uniform(0, 0.4), 3)
                row = {"sequence_id": name, "turn": turn, "principle": "reciprocity", "T": 0.5, "I": 0.2, "F": F}
                scores.append(row)
        for file, rows in (("chats.jsonl", lines), ("scores.jsonl", scores)):
            (tmp_path / file).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        path = str(tmp_path / "work.db")
        succeed("import", tmp_path / "chats.jsonl", "--store", path)
        observer = f"replay:{tmp_path / 'scores.jsonl'}"
        about = ("--store", path, "--run", "first", "--observer", observer, "--principle", "reciprocity")
        succeed("evaluate", *about)
        return path

    return make


@pytest.mark.shows("SC-006", "FR-012")
def test_what_it_finds_is_ready_for_a_query(make_store, tmp_path, cli):
    store, out = make_store(), tmp_path / "found.yaml"
    done = cli(
        "study", "discover", "--store", store, "--run", "first", "--out", out, "--max-fpr", "0.02", "--json"
    )
    assert done.code == 0
    told = done.json
    assert told["left_out"] == {"unlabelled": 3, "not_evaluated": 1}
    assert (told["run"], told["seed"], told["max_fpr"], told["level"]) == ("first", 0, 0.02, 0.01)
    sizes = [told[half][label] for label in ("attacks", "benign") for half in ("discovery", "held_out")]
    assert sum(sizes[:2]) == 50
    assert sum(sizes[2:]) == 116
    assert told["conjunctions"] > told["conditions"] > 100
    best = told["patterns"][0]
    assert best["name"] == "found_1"
    assert best["found"]
    assert best["p"] <= best["p_holm"] < 0.01
    assert best["held_out"]["attacks"]["count"] > 0.7 * best["held_out"]["attacks"]["of"]
    low, high = best["held_out"]["attacks"]["interval"]
    assert 0.5 < low < best["held_out"]["attacks"]["count"] / best["held_out"]["attacks"]["of"] <= high
    assert best["discovery"]["benign"]["count"] <= 0.02 * best["discovery"]["benign"]["of"]
    assert [baseline["name"] for baseline in told["baselines"]] == ["single turn", "length", "first turn"]
    assert told["out"] == str(out)
    assert str(parse(best["expression"])) == best["expression"]
    assert load_patterns(out).get("found_1").expression == best["expression"]

    matched = cli("query", "found_1", "--patterns", out, "--store", store, "--run", "first", "--json").json
    labelled = [match for match in matched["matches"] if match["label"] != "unlabelled"]
    counts = (best[half][label]["count"] for half in ("discovery", "held_out") for label in ("attacks", "benign"))
    assert len(labelled) == sum(counts)


def test_a_person_reads_counts_intervals_and_what_was_left_out(make_store, tmp_path, cli):
    done = cli("study", "discover", "--store", make_store(), "--out", tmp_path / "found.yaml", "--seed", "2")
    assert done.code == 0
    assert "found_1" in done.out
    assert "Held-out half: 26 attacks, 57 benign" in done.out
    assert "first turn" in done.out
    assert "3 evaluated conversations are left out: they have no label" in done.err
    assert "1 labelled conversations are left out" in done.err
    assert (
        "57 held-out benign conversations can't show a rate of 1 %: even none matched would allow 6.3 %"
        in done.err
    )
    assert f"wrote {tmp_path / 'found.yaml'}: turnwise query found_1" in done.err
    assert "found_1" in yaml.safe_load((tmp_path / "found.yaml").read_text(encoding="utf-8"))


def test_where_nothing_is_confirmed_nothing_is_written(make_store, tmp_path, cli):
    store, out = make_store(rise=0.0), tmp_path / "found.yaml"
    done = cli("study", "discover", "--store", store, "--out", out)
    assert done.code == 0
    assert "no pattern adds to the best rule on single turns" in done.out
    assert "Not confirmed on the held-out half" in done.out
    assert "was not written" in done.err
    assert not out.exists()
    told = cli("study", "discover", "--store", store, "--out", out, "--json").json
    assert told["out"] is None
    assert told["patterns"]
    assert {(pattern["name"], pattern["found"]) for pattern in told["patterns"]} == {(None, False)}


def test_it_says_where_there_are_more_false_positives_than_were_allowed(make_store, cli):
    store = make_store(rise=0.07)
    for seed in range(6):
        told = cli("study", "discover", "--store", store, "--seed", seed, "--max-fpr", "0.02", "--json").json
        above = [pattern["name"] for pattern in told["patterns"] if pattern["found"] and pattern["above_max_fpr"]]
        if above:
            break
    assert above
    done = cli("study", "discover", "--store", store, "--seed", seed, "--max-fpr", "0.02")
    assert f"more false positives than 2 % on the held-out half: {', '.join(above)}" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "nowhere/found.yaml"), "there is no folder nowhere"),
        (("--run", "frist"), "did you mean 'first'"),
        (("--max-fpr", "1.5"), "the false-positive rate must lie in (0, 1), not 1.5"),
        (("--level", "0"), "the level must lie in (0, 1), not 0"),
        (("--out", "."), "can't write"),
    ],
)
def test_what_can_t_be_is_said_in_a_line(options, message, make_store, cli):
    done = cli("study", "discover", "--store", make_store(), *options)
    assert done.code == 2
    assert message in done.err


def test_too_few_conversations_are_refused(make_store, cli):
    done = cli("study", "discover", "--store", make_store(attacks=12))
    assert done.code == 2
    assert "are too few for the discovery half: at least 10 are needed" in done.err
