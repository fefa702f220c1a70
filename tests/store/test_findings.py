"""The findings of a scan, opened as a store: the same answers as from a record of the same scores."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.support.found import PRINCIPLES, conversation, make_findings, texts

from turnwise.conversation import Label, Sequence, Side
from turnwise.errors import FindingsError, NotScoredError, StoreCorruptError, UnknownNameError, UsageError
from turnwise.findings import DeadLetter
from turnwise.patterns import match, parse
from turnwise.runs import detect
from turnwise.scoring import Evaluation, EvaluationKey, Provenance, Score
from turnwise.store import Run, Store, ask

PARTS = (
    [
        conversation("slow", 0.1, 0.3, 0.5, 0.7, label="attack", metadata={"tactic": "slow boil", "pair": 1}),
        conversation("calm", 0.1, 0.2, label="benign", source="other"),
        conversation("gap", 0.9, None, 0.1, metadata={"tactic": "crash", "pair": "1"}),
    ],
    [conversation("never", None, None), conversation("replies", 0.2, 0.6, replies=True)],
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_findings(tmp_path_factory.mktemp("scan") / "findings", *PARTS)


@pytest.fixture(scope="module")
def found(folder: str) -> Any:
    with Store(folder) as store:
        yield store


def as_record(path: Path, found: Store) -> Store:
    """Return a record with the sequences and scores of findings."""
    store = Store(path, create=True)
    store.add_sequences(found.sequences())
    [run] = found.runs()
    store.start_run(run)
    store.append(one for _, trajectory in found.trajectories("scan") for one in trajectory.evaluations)
    return store


# Which place is findings


@pytest.mark.parametrize(("name", "sibling"), [("logs[1]", "logs1"), ("a*b", "axb"), ("why?", "whys")])
@pytest.mark.parametrize("root", ["{}", "memory://{}"])
def test_a_folder_whose_name_is_a_pattern_is_that_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, name: str, sibling: str
) -> None:
    """DuckDB reads names of files as patterns: another scan beside this one would be read in its place."""
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    place = root.format(tmp_path).replace(":///", "://")
    make_findings(f"{place}/{sibling}", PARTS[1])
    with Store(make_findings(f"{place}/{name}", PARTS[0])) as store:
        assert [sequence.sequence_id for sequence in store.sequences()] == ["slow", "calm", "gap"]
        assert [one.sequence_id for one in store.query("slope(F) > 0.1")] == ["slow"]
        assert list(ask(store.mirror, "SELECT count(*) FROM sequences").rows) == [(3,)]


@pytest.mark.parametrize("name", ["{}", "{}/", "{}/manifest.json", "{}/*.parquet", "{}/scores-*.parquet"])
def test_folder_manifest_and_pattern_name_the_same_store(folder: str, name: str) -> None:
    with Store(name.format(folder)) as store:
        assert store.is_findings
        assert store.location == folder
        assert store.counts() == {
            "sequences": 5, "turns": 13, "runs": 1, "evaluations": 26 - 2 * 3 + 4, "failures": 0,
            "unread": 0,
        }  # fmt: skip


def test_a_pattern_that_names_some_of_the_parts_is_refused(folder: str) -> None:
    with pytest.raises(UsageError, match=r"names 1 of the 2 parts of these findings.*give --store"):
        Store(f"{folder}/scores-000001.parquet")


def test_findings_behind_a_url_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    make_findings("memory://bucket/findings", *PARTS)
    with Store("memory://bucket/findings/*.parquet") as store:
        assert [one.sequence_id for one in store.query("peak(F) > 0.6")] == ["slow", "gap"]
        assert list(ask(store.mirror, "SELECT count(*), max(F) FROM evaluations").rows) == [(24, 0.9)]
        assert list(ask(store.mirror, "SELECT count(*) FROM findings WHERE fired").rows) == [(3,)]
        assert len(store.query("peak(F) > 0.1", where="response_chars > 40")) == 2
        assert store.sequence("calm").conversation.turn(2).prompt == texts("calm", 2)[0]
        store.people.correct_label("gap", "attack", "Ann")
    assert [one.name for one in (tmp_path / "cache").rglob("*.*")] == ["index.duckdb"]
    assert "people.db" in [one.name for one in (tmp_path / "data").rglob("*.db")]


# The same answers as from a record


def test_questions_have_the_answers_of_a_record(tmp_path: Path, found: Store) -> None:
    asked = [
        "F > 0.4", "context_integrity.F >= 0.5", "slope(F) > 0.1", "streak(I > 0.2) >= 2", "mean(chars) > 25",
        "response.F > 0.5", "last(balance) < 0", "turns_since(F > 0.8) >= 1", "gradual_drift",
        'run("scan").F >= F and F > 0.5', "response.chars > 10", "k_of(2, F > 0.1, chars > 30, turn >= 2)",
    ]  # fmt: skip
    with as_record(tmp_path / "record.db", found) as record:
        for text in asked:
            for when in ("ever", "final"):
                theirs, mine = (store.query(text, when=when) for store in (record, found))
                assert [one.to_dict() for one in mine] == [one.to_dict() for one in theirs], text
                assert (mine.rates, mine.not_scored) == (theirs.rates, theirs.not_scored), text
        for statement in (
            "SELECT * FROM evaluations ORDER BY ALL",
            "SELECT * FROM sequences ORDER BY ALL",
            "FROM runs",
            "SELECT label, principle, side, count(*), round(avg(F), 9) FROM evaluations GROUP BY ALL ORDER BY ALL",
        ):
            rows = [list(ask(store.mirror, statement).rows) for store in (record, found)]
            assert rows[0] == rows[1], statement
        for where in (
            "turns >= 3", 'metadata.tactic = "slow boil"', "source = other or label = attack", "chars > 60",
            "id != slow", "not (response_chars > 30)", "cost > 0",
        ):  # fmt: skip
            matches = [[one.sequence_id for one in store.query("F > 0", where=where)] for store in (record, found)]
            assert matches[0] == matches[1], where


def test_trajectories_and_sequences_are_those_of_a_record(tmp_path: Path, found: Store) -> None:
    with as_record(tmp_path / "record.db", found) as record:
        told = [
            [
                (one.sequence_id, one.label, one.source, one.metadata, one.content_hash())
                for one in store.sequences()
            ]
            for store in (record, found)
        ]
        assert told[0] == told[1]
        assert list(found.heads(label=Label.BENIGN)) == list(record.heads(label=Label.BENIGN))
        assert list(found.scores()) == list(record.scores())
        assert found.groups() == record.groups()
        for value in (1, "1"):
            assert found.ids_with("pair", value) == record.ids_with("pair", value)
        for (head, mine), (_, theirs) in zip(found.trajectories("scan"), record.trajectories("scan"), strict=True):
            assert list(mine) == list(theirs), head
        mine, theirs = (store.trajectory("scan", "slow", turns=range(2, 4)) for store in (found, record))
        assert list(mine) == list(theirs)
        told = (detect(store, "scan", ["any_turn"]) for store in (found, record))
        verdicts = [[(one.head, one.verdict) for one in some] for some in told]
        assert verdicts[0] == verdicts[1]


def test_a_question_and_the_live_evaluator_agree(found: Store) -> None:
    for text in ("slope(F) > 0.1", "ema(strength, alpha=0.3, start=0.5) < 0.9", "drop(F) > 0.2"):
        matched = {one.sequence_id: (one.turn, one.final) for one in found.query(text)}
        expected = {
            head.sequence_id: tuple(outcome)
            for head, turns in found.trajectories("scan")
            if (outcome := match(parse(text), turns)).ever
        }
        assert matched == expected


def test_sql_reads_what_the_detector_said(found: Store) -> None:
    answer = ask(
        found.mirror,
        "SELECT sequence_id, fired, flag_turn, peak, file, row FROM findings WHERE scored ORDER BY ALL",
    )
    assert list(answer.rows) == [
        ("calm", False, None, 0.2, "logs.jsonl", 2),
        ("gap", True, 1, 0.9, "logs.jsonl", 3),
        ("replies", True, 2, 0.6, "logs.jsonl", 2),
        ("slow", True, 3, 0.7, "logs.jsonl", 1),
    ]


def test_sql_reaches_no_other_file(found: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for statement in (f"FROM '{secret}'", f"SELECT * FROM read_text('{secret}')", "FROM glob('/*')"):
        with pytest.raises(UsageError, match="disabled by configuration"):
            list(ask(found.mirror, statement).rows)


def test_what_was_never_scored_is_said(found: Store) -> None:
    with pytest.raises(UnknownNameError, match="unknown run 'other'"):
        found.query("F > 0.5", "other")
    with pytest.raises(UnknownNameError, match="unknown sequence 'slwo'; did you mean 'slow'"):
        found.sequence("slwo")
    with pytest.raises(UsageError, match="unknown principle 'honesty'"):
        found.query("honesty.F > 0.5")


def test_prompts_have_a_length_where_replies_alone_were_scored(tmp_path: Path) -> None:
    parts = [conversation("a", 0.2, 0.6, prompts=False, replies=True), conversation("b", 0.9, 0.8)]
    with Store(make_findings(tmp_path / "f", parts)) as found, as_record(tmp_path / "record.db", found) as record:
        for text in ("chars > 35", "mean(chars) > 25 and response.F > 0", "response.chars > 3", "F > 0.5"):
            assert list(found.query(text)) == list(record.query(text)), text
        assert [one.sequence_id for one in found.query("chars > 0")] == ["a", "b"]


def test_a_side_without_scores_is_not_scored(tmp_path: Path) -> None:
    with (
        Store(make_findings(tmp_path / "f", PARTS[0])) as store,
        pytest.raises(NotScoredError, match="not scored"),
    ):
        store.query("response.F > 0.5")


def test_ids_that_repeat_stay_apart(tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "f", [conversation("1", 0.9)], [conversation("1", 0.1, 0.8)])
    with Store(folder) as store:
        first, second = store.heads()
        assert (first.sequence_id, first.turns) == ("1", 1)
        assert (second.sequence_id, second.turns) == ("1#16777217", 2)
        assert [one.sequence_id for one in store.query("F > 0.5")] == ["1", "1#16777217"]
        assert [turn.number for turn in store.sequence("1#16777217").conversation] == [1, 2]


# Reading alone


def test_nothing_can_be_added_and_the_error_says_what_to_do(found: Store, tmp_path: Path) -> None:
    [run] = found.runs()
    refused = [
        (lambda: found.add_sequences(found.sequences()), "scan them into another folder, or turnwise import"),
        (lambda: found.start_run(run), "scan into another folder"),
        (lambda: found.rename_run("scan", "other"), "scan into another folder"),
        (lambda: found.delete_run("scan"), "remove the folder"),
        (lambda: found.append([]), "into another folder"),
        (lambda: found.journal, "turnwise import, then turnwise evaluate"),
        (lambda: found.audit, "the store or the file of the guard"),
        (lambda: found.export(tmp_path / "out"), "Parquet already"),
        (lambda: Store(found.location, create=True), "turnwise import FILE --store work.db"),
    ]
    for attempt, instead in refused:
        with pytest.raises(UsageError, match=f"findings of a scan can be read alone.*{instead}"):
            attempt()


def test_failed_scores_are_failures_and_dead_rows_are_not(tmp_path: Path) -> None:
    letters = [
        DeadLetter("logs.jsonl", 7, "no messages"),
        DeadLetter("logs.jsonl", 3, "the server is down", "gap", 2, "prompt", "context_integrity"),
    ]
    with Store(make_findings(tmp_path / "f", *PARTS, failures=letters)) as store:
        [failure] = store.failures("scan")
        assert (failure.key.sequence_id, failure.key.turn, failure.message) == ("gap", 2, "the server is down")
        assert store.tally("scan").failed == store.counts()["failures"] == 1
        assert store.failures("scan", ids=["slow"]) == ()


def test_without_texts_questions_are_answered_and_the_rest_says_why_not(tmp_path: Path) -> None:
    with Store(make_findings(tmp_path / "f", *PARTS, texts_kept=False)) as store:
        assert [one.sequence_id for one in store.query("mean(chars) > 28 and F > 0.6")] == ["slow", "gap"]
        assert [turn.length for turn in store.trajectory("scan", "calm")] == [
            len(texts("calm", n)[0]) for n in (1, 2)
        ]
        for attempt in (
            lambda: store.sequence("slow"),
            lambda: store.people.correct_label("slow", "attack", "Ann"),
        ):
            with pytest.raises(UsageError, match="holds no text: the scan kept no texts"):
                attempt()
        with pytest.raises(UsageError, match="--where chars needs texts"):
            store.query("F > 0", where="chars > 3")


# The index


def test_the_index_is_made_once_and_again_when_parts_were_added(tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "f", PARTS[0], complete=False)
    told: list[int] = []
    with Store(folder) as store:
        store.prepare(told.append)
        assert told == [16]
        assert store.query("F > 0").rate.of == 3
    [index] = (tmp_path / "cache").rglob("index.duckdb")
    made = index.stat().st_mtime_ns
    with Store(folder) as store:
        assert store.query("F > 0").rate.of == 3
    assert index.stat().st_mtime_ns == made
    make_findings(folder, *PARTS)
    with Store(folder) as store:
        assert store.query("F > 0").rate.of == 4
        assert store.note is None


def test_a_store_that_is_open_keeps_what_it_saw_while_the_scan_goes_on(tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "f", PARTS[0], complete=False)
    with Store(folder) as before:
        assert "the scan of" in str(before.note)
        assert "has not ended: 3 records are there, in 1 parts of 1 of 1 input files" in str(before.note)
        assert len(before.query("F > 0.5")) == 2
        make_findings(folder, *PARTS)
        with Store(folder) as after:
            assert len(after.query("F > 0.5")) == 3
        assert len(before.query("F > 0.5")) == 2


def test_a_damaged_index_is_made_anew(tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "f", *PARTS)
    for _ in range(2):
        with Store(folder) as store:
            assert len(store.query("F > 0.5")) == 3
        [index] = (tmp_path / "cache").rglob("index.duckdb")
        index.write_bytes(b"not an index")


def test_an_index_that_came_with_findings_is_not_read(tmp_path: Path) -> None:
    calm = make_findings(tmp_path / "f", [conversation("a", 0.1)])
    with Store(make_findings(tmp_path / "g", [conversation("a", 0.9)])) as store:
        store.prepare()
    [index] = (tmp_path / "cache").rglob("index.duckdb")
    shutil.move(index, Path(calm) / "index.duckdb")
    with Store(calm) as store:
        assert len(store.query("F > 0.5")) == 0


def test_an_empty_scan_is_a_store_without_answers(tmp_path: Path) -> None:
    for name, parts in (("none", ()), ("empty", ([],)), ("unscored", ([conversation("a", None)],))):
        with Store(make_findings(tmp_path / name, *parts)) as store:
            assert store.runs()[0].name == "scan"
            assert len(list(store.heads())) == (name == "unscored")
            with pytest.raises(UsageError, match="has no evaluation"):
                store.query("F > 0.5")


# What people say


def test_what_people_say_stays_when_findings_grow(tmp_path: Path) -> None:
    folder = make_findings(tmp_path / "f", PARTS[0], complete=False)
    with Store(folder) as store:
        assert store.people.corrections() == store.people.scores() == store.people.authors() == ()
        assert not (tmp_path / "f" / "people.db").exists()
        store.people.correct_label("gap", "attack", "Ann", "a lesson")
        store.people.mark_turn("slow", 3, "Ann")
        given, versions = {"context_integrity": Score(0, 0, 1)}, {"context_integrity": "2"}
        store.people.judge("slow", 3, given, "Bo", versions=versions)
    make_findings(folder, *PARTS)
    with Store(folder) as store:
        assert store.people.authors() == ("Ann", "Bo")
        assert store.people.labels() == {"gap": Label.ATTACK}
        assert [one.turn for one in store.people.corrections(ids=["slow", "calm"])] == [3]
        assert [one.turn for one in store.people.scores()] == [3]
    with Store(tmp_path / "f" / "people.db") as kept:
        assert {head.sequence_id for head in kept.heads()} == {"gap", "slow"}


def test_a_question_counts_the_labels_that_people_corrected(tmp_path: Path) -> None:
    with Store(make_findings(tmp_path / "f", *PARTS)) as store:
        store.people.correct_label("slow", "benign", "Ann")
        before = store.query("F >= 0", where="label = benign").rate.of
        found = store.query("F >= 0", where="label = benign", corrected_by=["Ann"])
        assert (found.rate.of, found.corrected) == (before + 1, 1)


def test_where_the_folder_is_read_only_the_users_folders_hold_index_and_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_findings(tmp_path / "f", *PARTS)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with Store(folder) as store:
        assert len(store.query("F > 0.5")) == 3
        store.people.correct_label("gap", "attack", "Ann")
    assert [one.name for one in (tmp_path / "cache").rglob("*.*")] == ["index.duckdb"]
    with Store(folder) as store:
        assert store.people.labels() == {"gap": Label.ATTACK}


# Damage


def test_missing_and_cut_files_are_named(tmp_path: Path) -> None:
    folder = Path(make_findings(tmp_path / "f", *PARTS))
    scores = folder / "scores-000001.parquet"
    content = scores.read_bytes()
    scores.write_bytes(content[:-20])
    with pytest.raises(
        Exception, match=r"scores-000001.parquet is damaged: it has [\d,]+ bytes, and the manifest"
    ):
        Store(str(folder))
    scores.unlink()
    with pytest.raises(Exception, match=r"is damaged: scores-000001.parquet is missing; restore a copy, or scan"):
        Store(str(folder))


@pytest.mark.parametrize("file", ["scores-000001", "sequences/sequences-000001", "turns/turns-000001"])
def test_a_file_that_was_changed_is_named_at_the_first_question(tmp_path: Path, file: str) -> None:
    folder = Path(make_findings(tmp_path / "f", *PARTS))
    place = folder / f"{file}.parquet"
    content = place.read_bytes()
    for changed in (b"x" * len(content), content[:40] + bytes([content[40] ^ 4]) + content[41:]):
        place.write_bytes(content)
        with Store(str(folder)) as store:  # there is an index, until the file changes
            assert len(store.query("F > 0.5")) == 3
        place.write_bytes(changed)
        named = rf"{file}.parquet is damaged, or was changed after the scan; restore a copy, or scan again"
        for read in (lambda s: s.query("F > 0.5"), lambda s: list(s.sequences()), lambda s: list(s.heads())):
            with Store(str(folder)) as store, pytest.raises(StoreCorruptError, match=named):
                read(store)


def test_a_manifest_that_was_changed_is_refused(tmp_path: Path) -> None:
    manifest = Path(make_findings(tmp_path / "f", *PARTS)) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"scores": 16', '"scores": 61'))
    with pytest.raises(FindingsError, match=r"manifest.json was changed after it was written: restore a copy"):
        Store(str(tmp_path / "f"))


FORGED = {
    "a score above 1": ("scores", "if(turn = 2, 7, F) AS F", "score of sequence 'slow' is no number in"),
    "a score that is no number": ("scores", "'nan'::DOUBLE AS T", "is no number in"),
    "a score that is missing": ("scores", "if(turn = 2, NULL, I) AS I", "or one without T, I or F"),
    "a negative turn": ("scores", "if(turn = 2, -2, turn)::INTEGER AS turn", "turn that is not there"),
    "a turn after the last": ("scores", "turn + 9 AS turn", "turn that is not there"),
    "a conversation that is not there": ("scores", "key + 99 AS key", "turn that is not there"),
    "two scores of one turn": ("scores", "1::INTEGER AS turn", "two scores of one turn"),
    "another side": ("scores", "'thought' AS side", "scores of 'thought', which"),
    "another principle": ("scores", "'x' AS principle", "scores of 'x', which its manifest does not"),
    "text for scores": ("scores", "F::VARCHAR AS F", "scores have no column F DOUBLE"),
    "another key": ("scores", "'a' AS key", "scores have no column key BIGINT"),
    "no turns": ("sequences/sequences", "0::INTEGER AS turns", "or one has no turn"),
    "one key twice": ("sequences/sequences", "1::BIGINT AS key", "two conversations have one key"),
    "a label of its own": ("sequences/sequences", "'evil' AS label", "'evil' is no label"),
}
"""Whoever forges a file can rewrite its digest in the manifest: what can't be is refused all the same."""


@pytest.mark.parametrize("what", FORGED)
def test_what_can_not_be_is_refused_although_the_manifest_fits(tmp_path: Path, what: str) -> None:
    table, changed, named = FORGED[what]
    folder = Path(make_findings(tmp_path / "f", *PARTS))
    place = folder / f"{table}-000000.parquet"
    duckdb.execute(
        f"COPY (SELECT * REPLACE ({changed}) FROM '{place}') TO '{tmp_path / 'forged'}' (FORMAT parquet)"
    )
    shutil.move(tmp_path / "forged", place)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["sha256"]
    content = place.read_bytes()
    told = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["parts"][0]["files"][f"{table}-000000.parquet"] = told
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with Store(str(folder)) as store:
        for read in (lambda: store.query("F > 0.5"), lambda: list(store.trajectories("scan"))):
            with pytest.raises(StoreCorruptError, match=named):
                read()


def test_folders_that_are_no_findings_say_what_they_are(tmp_path: Path) -> None:
    duckdb.execute(f"COPY (SELECT 1 AS a) TO '{tmp_path / 'a.parquet'}' (FORMAT parquet)")
    for name in (tmp_path, tmp_path / "*.parquet"):
        with pytest.raises(FindingsError, match=r"has no manifest.json: name a folder that turnwise scan wrote"):
            Store(str(name))
    with Store(tmp_path / "work.db", create=True) as store:
        store.export(tmp_path / "export")
    with pytest.raises(FindingsError, match=r"is an export of a store.*turnwise import --from-store"):
        Store(tmp_path / "export")
    later = Path(make_findings(tmp_path / "f", *PARTS)) / "manifest.json"
    later.write_text(later.read_text().replace('"layout": 1', '"layout": 2'))
    with pytest.raises(FindingsError, match="layout 2, and this version of turnwise reads 1"):
        Store(tmp_path / "f")


def test_principles_and_provenance_come_from_the_manifest(found: Store) -> None:
    run: Run = found.run("scan")
    assert (run.observer, run.context, run.code_version) == ("scripted:words", "history", "1.0+abc")
    assert found.principle_versions("scan") == dict.fromkeys(PRINCIPLES, "2")
    [one, *_] = found.trajectory("scan", "slow").evaluations
    assert isinstance(one, Evaluation)
    assert one.key == EvaluationKey("scan", "slow", 1, Side.PROMPT, "context_integrity")
    assert isinstance(one.provenance, Provenance)
    assert isinstance(found.sequence("slow"), Sequence)
