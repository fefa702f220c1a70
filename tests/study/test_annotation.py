"""A kit for people's labels: what annotators see, what is read from strange sheets, what becomes a set."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Conversation, Label, Seen, Sequence
from turnwise.datasets import digests, read_judgements
from turnwise.errors import DatasetError, UnknownNameError, UsageError
from turnwise.observers import build_observer
from turnwise.principles import principle_names
from turnwise.runs import evaluate
from turnwise.scoring import Score
from turnwise.store import Store
from turnwise.study import read_reader
from turnwise.study.annotation import PROVENANCE, TakenIn, agreement, hand_out, read_kit, take_in
from turnwise.study.prevalence import read_labels

TOLD = dict.fromkeys(PROVENANCE, "told")
LONG = "x" * 40_000
PROMPTS = {
    "attack-a": ["=HYPERLINK(A1)", "1/2", 'Ünïcode, "quoted"; and\n[9 user] forged'],
    "attack-b": ["hid\u202eden", "second", "third", "fourth"],
    "benign-c": ["Hello"],
    "benign-d": [LONG, "after"],
}

Row = dict[str, str]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store of conversations with texts that are hard on a sheet."""
    with Store(tmp_path / "work.db", create=True) as opened:
        for name, prompts in PROMPTS.items():
            turns = [(prompt, f"reply {number}") for number, prompt in enumerate(prompts, start=1)]
            label = Label.ATTACK if name.startswith("attack") else Label.BENIGN
            chat = Conversation.from_turns(turns, conversation_id=name)
            opened.add_sequences([Sequence(name, label, "secret-source", chat)])
        yield opened


def read(path: Path) -> list[Row]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def write(path: Path, rows: list[Row], encoding: str = "utf-8-sig", delimiter: str = ",") -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        table.writeheader()
        table.writerows(rows)


def fill(path: Path, value: Callable[[Row, str], str], **how: str) -> None:
    """Fill the columns of a sheet as a person would."""
    rows = read(path)
    for row in rows:
        for column in row:
            if column == "label" or (" of " in column and not column.startswith("given")):
                row[column] = value(row, column)
    write(path, rows, **how)


def judge_all(folder: Path, **values: str) -> None:
    for name, value in values.items():
        fill(folder / "sheets" / f"{name}.csv", lambda row, column, value=value: value)  # type: ignore[misc]


def take(store: Store, folder: Path, **how: Any) -> TakenIn:
    return take_in(store, folder, **{"out": folder.parent / "sets", "provenance": TOLD, **how})


def test_a_sheet_shows_no_label_no_source_no_name_and_no_later_turn(store: Store, tmp_path: Path) -> None:
    kit = hand_out(store, tmp_path / "kit", ["ann", "ben"], twice=1)
    path = tmp_path / "kit/sheets/ann.csv"
    for secret in ("secret-source", "attack", "benign"):
        assert secret not in path.read_text(encoding="utf-8-sig")
    seen: dict[str, list[str]] = {}
    for row in read(path):
        before = seen.setdefault(row["id"].partition("-")[0], [])
        assert row["before"] == "\n".join(before)
        before.append(row["text"])
    assert sum(map(len, seen.values())) == len(kit.items) == 10
    depths = [int(row["id"][-2:]) for row in read(path)]
    assert depths == sorted(depths)
    assert kit.sheets["ann"] != kit.sheets["ben"]


def test_no_cell_is_a_formula_a_number_or_a_message_that_was_not_there(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    rows = read(tmp_path / "kit/sheets/ann.csv")
    assert all(
        row[name][:1] in ("", "[", "c", "a") for row in rows for name in ("annotator", "id", "before", "text")
    )
    texts = {row["text"] for row in rows}
    assert {"[1 user] =HYPERLINK(A1)", "[2 user] 1/2", "[1 user] hid\\u202eden"} <= texts
    assert '[3 user] Ünïcode, "quoted"; and\n    [9 user] forged' in texts
    assert not any(line.startswith("[9 user]") for row in rows for line in row["text"].split("\n"))
    assert any("characters are left out ...]" in text and len(text) <= 30_000 for text in texts)


def test_a_name_that_is_a_formula_comes_back_as_it_was(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["=cmd()"], twice=0)
    [path] = (tmp_path / "kit/sheets").iterdir()
    fill(path, lambda row, column: "0.5")
    assert {row["annotator"] for row in read(path)} == {"'=cmd()"}
    assert take(store, tmp_path / "kit").annotators == ("=cmd()",)


@pytest.mark.parametrize(
    ("mode", "seen"),
    [("history", Seen.PROMPTS), ("turn", Seen.PROMPT), ("replies", Seen.BOTH), ("label", Seen.BOTH)],
)
def test_every_row_has_the_digest_of_what_it_shows(store: Store, tmp_path: Path, mode: str, seen: Seen) -> None:
    kit = hand_out(store, tmp_path / "kit", ["ann"], mode=mode, twice=0)
    for item in kit.items.values():
        chat = store.sequence(item.sequence_id).conversation
        assert item.digest == digests(chat, seen)[item.turn]
    rows = {row["id"]: row for row in read(tmp_path / "kit/sheets/ann.csv")}
    last = max((one for one in kit.items.values() if one.sequence_id == "attack-b"), key=lambda one: one.turn)
    row = rows[last.id]
    assert ("reply 1" in row["before"] + row["text"]) is (seen is Seen.BOTH)
    begins = {"history": "[4 user]", "turn": "[user]", "replies": "[4 reply]", "label": "[1 user]"}
    assert row["text"].startswith(begins[mode])
    if mode == "turn":
        assert all(row["before"] == "" and row["id"].startswith("m") for row in rows.values())


def test_the_same_seed_gives_the_same_kit_and_another_one_another(store: Store, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        hand_out(store, tmp_path / name, ["ann", "ben"], twice=0.5, most=3, seed=seed)
    files = {}
    for name in ("one", "same", "other"):
        paths = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        files[name] = {path.relative_to(tmp_path / name): path.read_bytes() for path in paths}
    assert files["one"] == files["same"]
    assert files["one"] != files["other"]
    kit = read_kit(tmp_path / "one")
    shared = {kit.items[key].sequence_id for key in set(kit.sheets["ann"]) & set(kit.sheets["ben"])}
    assert len({one.sequence_id for one in kit.items.values()}) == 3
    assert len(shared) == 2


def test_halves_of_a_pair_go_to_different_people(store: Store, tmp_path: Path) -> None:
    for number in range(12):
        chat = Conversation.from_turns(
            [(f"question {number}", "x")] * (1 + number % 5), conversation_id=f"p{number}"
        )
        store.add_sequences([Sequence(f"p{number}", Label.BENIGN, "made", chat, {"pair": f"pair {number // 2}"})])
    kit = hand_out(store, tmp_path / "kit", ["ann", "ben"], twice=0)
    for ids in kit.sheets.values():
        pairs = [int(name[1:]) // 2 for name in {kit.items[key].sequence_id for key in ids} if name[0] == "p"]
        assert sorted(pairs) == list(range(6))


def test_the_page_is_safe_and_has_what_the_columns_mean(store: Store, tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("# Ours\n\n<script>alert(1)</script>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    kit = hand_out(store, tmp_path / "kit", ["ann"], only_f=True, twice=0, guideline=tmp_path / "own.md")
    page = (tmp_path / "kit/guideline.html").read_text()
    assert "<script>" not in page
    assert "<td>1</td>" in page
    assert all(f"<strong>F of {name}.</strong>" in page for name in principle_names())
    assert "T of " not in page
    assert kit.provenance["guideline"] == ""
    hand_out(store, tmp_path / "shipped", ["ann"], twice=0)
    assert read_kit(tmp_path / "shipped").provenance["guideline"] == "turnwise, version 3"
    assert "third-party harm" in (tmp_path / "shipped/guideline.md").read_text().lower()


@pytest.mark.parametrize(
    ("names", "how", "told"),
    [
        ([], {}, "name the annotators"),
        (["ann", "Ann"], {}, "'Ann' is named twice"),
        (["set-a", "b"], {}, "must not begin with"),
        (["ann"], {}, "two of 1 annotators"),
        (["ann", "ben"], {"twice": 1.5}, "a share of 1.5"),
        (["ann", "ben"], {"most": 0}, "at least one conversation"),
        (["ann", "ben"], {"mode": "label", "only_f": True}, "a label has no F"),
        (["ann", "ben"], {"guideline": "nowhere.md"}, "can't read nowhere.md"),
    ],
)
def test_what_can_not_be_handed_out_is_told(
    store: Store, tmp_path: Path, names: list[str], how: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        hand_out(store, tmp_path / "kit", names, **how)
    assert not (tmp_path / "kit").exists()


def test_there_is_no_other_way_of_judging_and_no_kit_is_written_over(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="histories"):
        hand_out(store, tmp_path / "kit", ["ann"], mode="histories", twice=0)
    (tmp_path / "kit").mkdir()
    with pytest.raises(UsageError, match="there already"):
        hand_out(store, tmp_path / "kit", ["ann"], twice=0)


def test_disagreements_are_settled_and_the_set_is_truth_for_a_study(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    kit = hand_out(store, folder, ["ann", "ben"], twice=1)
    key = next(one.id for one in kit.items.values() if one.sequence_id == "attack-b" and one.turn == 2)
    judge_all(folder, ann="0.1", ben="0.2")
    fill(folder / "sheets/ben.csv", lambda row, column: "0.9" if row["id"] == key and column[0] == "F" else "0.2")
    first = take(store, folder)
    assert (first.rows, first.twice, first.disagreements, first.files) == (10, 10, 1, ())
    assert [(one.what, one.component, one.units) for one in first.agreement][:2] == [
        ("context_integrity", "T", 10),
        ("context_integrity", "I", 10),
    ]
    [row] = read(folder / "adjudicate.csv")
    assert row["given: F of reciprocity"] == "0.1 and 0.9"
    assert "ann" not in row.values()
    with pytest.raises(UsageError, match=r"adjudicate\.csv is there"):
        take(store, folder)
    fill(folder / "adjudicate.csv", lambda row, column: "0,8")
    done = take(store, folder, adjudicated=folder / "adjudicate.csv", adjudicator="carl")
    assert done.truth == "judged-by-set-people"
    judged = {(one.sequence_id, one.turn): one for one in read_judgements(done.files[0])}
    assert judged["attack-b", 2].scores["reciprocity"] == Score(0.8, 0.8, 0.8)
    assert judged["attack-b", 1].scores["reciprocity"] == Score(0.15, 0.15, 0.15)
    assert read_reader(store, done.truth).turns["attack-b"] == (2,)
    again = evaluate(store, "replayed", build_observer(f"replay:{done.files[0]}"))
    assert (again.evaluations, again.failures) == (30, 0)
    about = json.loads(Path(done.files[1]).read_text())["set-people"]
    assert {name: about[name] for name in ("kind", "people", "judged_twice", "disagreements", "adjudicator")} == {
        "kind": "people", "people": 2, "judged_twice": 10, "disagreements": 1, "adjudicator": "carl",
    }  # fmt: skip
    assert {about[name] for name in PROVENANCE} == {"told"}
    assert "ann" not in Path(done.files[1]).read_text()
    # Everybody's own word is kept once, and what was made of them doesn't count as one.
    assert len(store.people.scores(author="ann", history=True)) == 30
    assert {one.authors for one in agreement(store.people.scores(), (), {})} == {("ann", "ben")}


def test_of_f_alone_the_rest_follows_and_says_so(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann", "ben"], only_f=True, twice=1)
    judge_all(tmp_path / "kit", ann="0.25", ben="0.35")
    done = take(store, tmp_path / "kit", name="f")
    assert {one.component for one in done.agreement} == {"F"}
    assert next(read_judgements(done.files[0])).scores["reciprocity"] == Score(0.7, 0, 0.3)
    assert "only F was asked" in store.people.scores(author="ann")[0].note


def test_labels_become_those_that_corrected_by_takes(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "kit"
    kit = hand_out(store, folder, ["ann", "ben"], mode="label", twice=1)
    names = {key: one.sequence_id for key, one in kit.items.items()}
    fill(folder / "sheets/ann.csv", lambda row, column: "Attack" if "attack" in names[row["id"]] else "benign")
    fill(folder / "sheets/ben.csv", lambda row, column: "attack" if "-a" in names[row["id"]] else " benign ")
    assert take(store, folder).disagreements == 1
    fill(folder / "adjudicate.csv", lambda row, column: "unlabelled")
    done = take(store, folder, adjudicated=folder / "adjudicate.csv", adjudicator="carl")
    assert done.truth == "set-people"
    found = {"attack-a": "attack", "attack-b": "unlabelled", "benign-c": "benign", "benign-d": "benign"}
    assert store.people.labels(["set-people"]) == found
    assert read_labels(done.files[0]) == found
    [on_labels] = agreement((), store.people.corrections(), {})
    assert on_labels.authors == ("ann", "ben")


def _no_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"[2 user]", b"[2 \xff\xfeser]"))


def _edit(path: Path, change: Callable[[list[Row]], list[Row] | None]) -> None:
    rows = read(path)
    write(path, change(rows) or rows)


def _put(row: int, cells: Row) -> Callable[[Path], None]:
    return lambda path: _edit(path, lambda rows: rows[row].update(cells))


WRONG: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: _edit(path, lambda rows: rows[0].update({"F of reciprocity": "1.5"})),
     r"ann\.csv, line 2 \('c000\d-t01'\), column F of reciprocity: '1.5', where a number from 0 to 1 is needed"),
    (_put(1, {"I of reciprocity": "nan"}), "line 3 .*'nan', where"),
    (_put(1, {"I of reciprocity": " "}), "reciprocity: empty, where"),
    (_put(1, {"I of reciprocity": "=0.5"}), "'=0.5', where"),
    (_put(0, {"text": "[1 user] else"}), "not the text that was handed out"),
    (lambda path: _edit(path, lambda rows: rows[:-2]), r"ann\.csv: 2 rows are missing: c0"),
    (lambda path: _edit(path, lambda rows: [*rows, rows[0]]), "column id: a second time"),
    (_put(0, {"id": "c9"}), "'c9'.*column id: no row of this sheet"),
    (_put(1, {"annotator": "ben"}), "'ben', but the sheet begins with 'ann'"),
    (_put(0, {"annotator": "zoe"}), "'zoe' was handed no sheet; known: ann"),
    (_put(0, {"note": "n" * 5_001}), "column note: 5,001 characters"),
    (lambda path: _edit(path, lambda rows: [{**row, "x": "", "Text": ""} for row in rows if row.pop("text")]),
     "line 1: no column 'text'"),
    (_no_text, "not UTF-8: save it as 'CSV UTF-8'"),
    (lambda path: path.write_bytes(b"PK\3\4 and so on"), "is a workbook"),
    (lambda path: path.write_bytes(b"\xff\xfea"), "not UTF-8"),
    (lambda path: path.write_bytes(b""), "has no row below its headings"),
    (lambda path: path.write_text(path.read_text("utf-8-sig") + "y" * 200_000), "field larger than field limit"),
    (lambda path: path.unlink(), "can't read .*ann.csv: No such file"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "told"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_a_sheet_is_told_and_nothing_taken(
    store: Store, tmp_path: Path, spoil: Callable[[Path], Any], told: str
) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    judge_all(tmp_path / "kit", ann="0.5")
    spoil(tmp_path / "kit/sheets/ann.csv")
    with pytest.raises(DatasetError, match=told):
        take(store, tmp_path / "kit")
    assert store.people.authors() == ()
    assert not (tmp_path / "sets").exists()


def test_of_many_faults_twenty_are_told_and_the_rest_counted(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    with pytest.raises(DatasetError) as raised:
        take(store, tmp_path / "kit")
    lines = str(raised.value).splitlines()
    assert len(lines) == 22
    assert lines[-1] == "and 70 more"


def test_sheets_of_other_programs_are_read(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann", "ben"], twice=1)
    sheets = tmp_path / "kit/sheets"
    fill(sheets / "ann.csv", lambda row, column: "0,5", encoding="utf-16", delimiter="\t")
    fill(sheets / "ben.csv", lambda row, column: " .5 ", delimiter=";")
    text = (sheets / "ben.csv").read_bytes().replace(b"\r\n", b"\n")
    (sheets / "ben.csv").write_bytes(text + b"\n;;;;\n")
    done = take(store, tmp_path / "kit")
    assert (done.rows, done.disagreements) == (10, 0)
    assert all(one.reason == "everybody gave the same everywhere" for one in done.agreement)


def test_one_person_gives_one_sheet(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann", "ben"], twice=1)
    judge_all(tmp_path / "kit", ann="0.5", ben="0.5")
    ann = tmp_path / "kit/sheets/ann.csv"
    (tmp_path / "ann (1).csv").write_bytes(ann.read_bytes())
    with pytest.raises(DatasetError, match="are both by ann"):
        take(store, tmp_path / "kit", sheets=[ann, tmp_path / "ann (1).csv"])
    assert take(store, tmp_path / "kit", sheets=[ann]).annotators == ("ann",)


def test_no_sheet_is_larger_than_what_is_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    monkeypatch.setattr("turnwise.study.annotation.kit.MOST_BYTES", 1 << 10)
    with pytest.raises(DatasetError, match="a sheet has at most"):
        take(store, tmp_path / "kit")
    with pytest.raises(UsageError, match="hand out fewer"):
        hand_out(store, tmp_path / "other", ["ann"], twice=0)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (
            {"provenance": {**TOLD, "paid": " ", "trained": ""}},
            "give trained, paid, as options or under provenance",
        ),
        ({"distance": 2}, "distance must be from 0 to 1"),
        ({"adjudicator": "carl"}, "give both the sheet of settled rows"),
        ({"name": ""}, "say who you are"),
        ({"name": "n" * 99}, "at most 100 characters"),
    ],
)
def test_nothing_about_a_set_is_made_up(store: Store, tmp_path: Path, how: dict[str, Any], told: str) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    judge_all(tmp_path / "kit", ann="0.5")
    with pytest.raises(UsageError, match=told):
        take(store, tmp_path / "kit", **how)
    assert store.people.authors() == ()


def test_what_the_manifest_tells_needs_no_option(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    judge_all(tmp_path / "kit", ann="0.5")
    path = tmp_path / "kit/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["provenance"].update(who="students", trained="an hour", paid="15 an hour", when="May")
    path.write_text(json.dumps(manifest))
    done = take(store, tmp_path / "kit", provenance={"when": "June"})
    about = json.loads(Path(done.files[1]).read_text())["set-people"]
    assert [about[name] for name in PROVENANCE] == [
        "students",
        "an hour",
        "15 an hour",
        "June",
        "turnwise, version 3",
    ]
    with pytest.raises(UsageError, match="has a set named 'people' already"):
        take(store, tmp_path / "kit")


@pytest.mark.parametrize(
    ("content", "told"),
    [("{", "is no manifest"), ('{"mode": "history"}', "is no manifest"), ("[" * 10_000, "is no manifest")],
)
def test_a_manifest_that_is_none_is_refused(store: Store, tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DatasetError, match=told):
        take(store, tmp_path)
    with pytest.raises(DatasetError, match="name a folder of judgements hand-out"):
        read_kit(tmp_path / "nowhere")


def test_a_store_with_another_text_is_refused(store: Store, tmp_path: Path) -> None:
    hand_out(store, tmp_path / "kit", ["ann"], twice=0)
    judge_all(tmp_path / "kit", ann="0.5")
    with Store(tmp_path / "other.db", create=True) as other:
        for name in PROMPTS:
            chat = Conversation.from_turns([("else", "x")] * 4, conversation_id=name)
            other.add_sequences([Sequence(name, Label.BENIGN, "made", chat)])
        with pytest.raises(DatasetError, match="has another text in"):
            take(other, tmp_path / "kit")
    manifest = tmp_path / "kit/manifest.json"
    manifest.write_text(manifest.read_text().replace('"reciprocity": "1', '"reciprocity": "0'))
    with pytest.raises(DatasetError, match="need the definitions of reciprocity"):
        take(store, tmp_path / "kit")
