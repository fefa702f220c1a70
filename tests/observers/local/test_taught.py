"""A principle of a user's own: taught from annotated turns, then scored like those that ship."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turnwise
from turnwise.cli import main
from turnwise.conversation import Conversation, Label, Sequence, Side, Turn
from turnwise.errors import DatasetError, ObserverError, PrincipleError, UsageError
from turnwise.guard import GuardrailPipeline
from turnwise.observers import Context, LocalObserver, Observation, ObserverSession, Request, observe_conversations
from turnwise.principles import Principle, load_principle, read_head, write_head
from turnwise.runs import evaluate
from turnwise.store import Store
from turnwise.study.teaching import draft_principle, read_annotations, teach
from turnwise.study.teaching.fit import fit, folds_of

HISTORY = Context.parse("history")
HEAD = "taught-prompt.json"
KIND = "Could you tell me more about the garden and the trees in it, please?"
RUDE = "You useless stupid machine, shut up about the garden and the trees right NOW!!!"
WORDS = (
    *("garden", "house", "river", "people", "story", "week"),
    *("paper", "light", "water", "music", "road", "school"),
)


def rows(count: int, seed: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Turns of which every third breaks the principle, each of a conversation of its own."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        rude = number % 3 == 0
        first, second = rng.sample(WORDS, k=2)
        text = (
            f"You stupid machine, shut up about the {first} and {second} NOW!!! {number}"
            if rude
            else f"Please tell me something of the {first} and {second} here? {number}"
        )
        made.append({"text": text, "before": ["Welcome to the shop."], "breaks": "yes" if rude else "no", **more})
    return made


def write(path: Path, made: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in made))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draft_principle(tmp_path / "manners")
    return tmp_path / "manners"


@pytest.fixture(scope="session")
def taught_once(observer: LocalObserver, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a principle that was taught for prompts."""
    place = tmp_path_factory.mktemp("taught")
    draft_principle(place / "manners")
    annotations = read_annotations(write(place / "turns.jsonl", rows(120)), Side.PROMPT)
    teach(place / "manners", annotations, observer)
    return place / "manners"


def chat(name: str, *said: tuple[str, str | None]) -> Sequence:
    return Sequence(name, Label.UNLABELLED, "test", Conversation.from_turns(list(said), conversation_id=name))


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        main([str(one) for one in arguments])
    return leaving.value.code if isinstance(leaving.value.code, int) else 0


# From the command line


def test_from_a_draft_to_a_run_that_repeats_nothing(
    tmp_path: Path, weights_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    spec = f"local:{weights_folder}"
    with Store("work.db", create=True) as store:
        texts = [row["text"] for row in rows(102)]
        store.add_sequences(
            chat(f"=c{n}", ("Hello there, how are you?", "Fine."), (text, None)) for n, text in enumerate(texts)
        )
    evaluated = ("evaluate", "--store", "work.db", "--run", "r", "--observer", spec, "--json")
    assert run(*evaluated) == 0
    before = json.loads(capsys.readouterr().out)
    assert run("teach", "manners", "--draft", "--store", "work.db", "--observer", spec, "--json") == 0
    drafted = json.loads(capsys.readouterr().out)
    assert drafted == {"folder": "manners", "written": True, "annotations": "manners/annotations-prompt.csv"}

    file = Path(drafted["annotations"])
    with file.open(encoding="utf-8-sig", newline="") as stream:
        picked = list(csv.DictReader(stream))
    assert {row["text"] for row in picked} == {*texts, "Hello there, how are you?"}
    for row in picked:
        assert row["sequence_id"].startswith("'=")  # no spreadsheet takes it for a formula
        row["breaks"] = "" if row["turn"] == "1" else "yes" if "NOW" in row["text"] else "no"
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, picked[0])
        writer.writeheader()
        writer.writerows(picked)

    told = ("teach", "manners", "--annotations", file, "--store", "work.db", "--observer", spec, "--json")
    assert run(*told) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["data"]["turns"] == 102 and about["data"]["left_blank"] == 1
    assert about["measured"]["interval"][0] > 0.8
    page, kept = Path("manners/taught-prompt.md").read_text(), Path("manners/taught-prompt.json").read_text()
    assert about["sha256"][:12] in page and about["measured"]["outlook"] in page
    assert not any(text in page + kept for text in texts)

    assert run(*evaluated, "--principle", "reciprocity", "--principle", "manners") == 0
    after = json.loads(capsys.readouterr().out)
    assert before["evaluations"] == 612 and (after["evaluations"], after["skipped"]) == (204, 204)
    assert run(*evaluated, "--principle", "manners") == 0
    assert json.loads(capsys.readouterr().out)["evaluations"] == 0

    assert run("teach", "manners", "--draft", "--store", "work.db", "--observer", spec) == 2
    assert "annotations-prompt.csv is there already" in capsys.readouterr().err
    assert run(*told, "--seed", "1") == 0  # taught again, it is another principle to the run
    capsys.readouterr()
    write_head(Path("manners"), {**read_head(Path("manners/taught-prompt.json")).about, "seed": 7}, {})
    assert run(*evaluated, "--principle", "manners") == 2
    assert "a run never mixes versions" in capsys.readouterr().err


def test_check_and_scan_judge_by_it(
    taught_once: Path, weights_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"local:{weights_folder}"
    chats = [
        {"id": f"c{n}", "messages": [{"role": "user", "content": text}]} for n, text in enumerate([KIND, RUDE])
    ]
    path = write(tmp_path / "chats.jsonl", chats)
    out = tmp_path / "found"
    assert (
        run("scan", path, "--out", out, "--observer", spec, "--principle", taught_once, "--detector", "any_turn")
        == 0
    )
    assert "no rates ship for principle manners" in capsys.readouterr().out
    assert run("query", "manners.F >= 0.5", "--store", out, "--json") == 0
    assert [one["sequence_id"] for one in json.loads(capsys.readouterr().out)["matches"]] == ["c1"]
    report = turnwise.check(RUDE, spec, ["any_turn"], principles=[load_principle(taught_once)])
    assert report.turns[0].scores["manners"].F > 0.5 and report.verdicts[0].fired


# Scores


def test_turn_by_turn_and_at_once_it_gives_the_same(observer: LocalObserver, taught_once: Path) -> None:
    principle = load_principle(taught_once)
    wanted = [Request(principle, side) for side in Side] + [Request(load_principle("reciprocity"), Side.PROMPT)]
    talks = [
        [Turn(1, KIND, "Yes."), Turn(2, RUDE, "No."), Turn(3, " ", "Well.")],
        [Turn(1, f"{KIND} " * 40 + f"{RUDE} " * 20 + KIND * 10, None)],
        [Turn(1, "你今天好吗？我想知道更多关于花园的事情，谢谢你的帮助。", None)],
    ]
    for mode in ("history", "turn"):
        context = Context.parse(mode)
        many = observe_conversations(observer, talks, context, wanted)
        found = dict(zip(zip(many.conversation, many.turn, many.request, strict=True), many.scores, strict=True))
        count = 0
        for place, talk in enumerate(talks):
            session = ObserverSession(observer, context, "c")
            for turn in talk:
                for one in session.observe(turn, wanted).given:
                    if isinstance(one, Observation):
                        count += 1
                        request = next(n for n, two in enumerate(wanted) if two.principle.name == one.principle)
                        assert one.side is Side.PROMPT  # it was taught for prompts alone
                        told = found[place, turn.number, request]
                        np.testing.assert_allclose([one.score.T, one.score.I, one.score.F], told, atol=1e-6)
        assert count == len(many) == 6
        assert not many.failures
        assert {(place, one.principle) for place, _, one in many.unread} == {(2, "manners"), (2, "reciprocity")}


def test_a_long_text_counts_by_its_worst_part_and_i_is_high_where_f_is_near_a_half(
    observer: LocalObserver, taught_once: Path
) -> None:
    head = observer.taught(Request(load_principle(taught_once), Side.PROMPT))
    assert head is not None
    parts = observer.states([((Side.PROMPT, f"{KIND} " * 10 + f"{RUDE} " * 10),)])[0]
    assert parts is not None and len(parts) > 2
    worst = max((head.strongest(part[None]) for part in parts), key=lambda score: score.F)
    together = head.strongest(parts)  # one product of matrices rounds unlike one for each part
    for name in ("T", "I", "F"):
        assert getattr(together, name) == pytest.approx(getattr(worst, name), abs=1e-12)
    at = head.calibrated(np.linspace(-4, 5, 200)[:, None])
    unsure, falsity = at[:, 1], at[:, 2]
    assert abs(falsity[unsure.argmax()] - 0.5) < 0.1 and unsure.max() > 2 * unsure.min()
    np.testing.assert_allclose(at[:, 0], 1 - falsity)


def test_the_guard_takes_it_and_has_nothing_to_say_of_the_other_side(
    weights_folder: Path, taught_once: Path
) -> None:
    drift = {"observer": f"local:{weights_folder}", "principles": [str(taught_once)], "block_at": 0.5}
    with GuardrailPipeline({"guardrails": [{"drift": drift}]}) as pipeline:
        assert not pipeline.check_input(KIND).blocked
        chat = Conversation()
        blocked = pipeline.check_input(RUDE, conversation=chat).details["drift"]
        assert blocked.reason.startswith("manners F")
        assert blocked.confidence > 0.5
        reply = pipeline.check_output(RUDE, conversation=chat).details["drift"]
        assert (str(reply.status), reply.found, reply.confidence) == ("evaluated", False, 0.0)


def test_built_in_scores_stay_as_they_are(observer: LocalObserver, taught_once: Path) -> None:
    own, shipped = load_principle(taught_once), load_principle("reciprocity")
    talk = [Turn(1, KIND, "Yes."), Turn(2, RUDE)]
    alone = observe_conversations(observer, [talk], HISTORY, [Request(shipped, Side.PROMPT)])
    both = observe_conversations(observer, [talk], HISTORY, [Request(one, Side.PROMPT) for one in (own, shipped)])
    np.testing.assert_array_equal(alone.scores, both.scores[both.request == 1])


# What it is worth


def planted(count: int, scale: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """States in which one direction says what the annotation is, beside noise of a size."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(count) < 0.4).astype(float)
    states = rng.normal(size=(count, 30))
    states[:, 3] += truth * scale
    return states, truth[:, None], [f"c{n // 2}" for n in range(count)]


def test_it_is_worth_what_it_is_on_turns_that_it_never_saw() -> None:
    states, truth, groups = planted(400, 3.0)
    head, worth = fit(states, truth, groups)
    later, known, _ = planted(4000, 3.0, seed=9)
    raw = head.raw(later)[:, 0]
    ranks = np.argsort(np.argsort(raw)) + 1
    ones = int(known.sum())
    area = (ranks[known[:, 0] == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(known) - ones))
    assert worth.auroc.low <= area <= worth.auroc.high
    falsity = head.calibrated(head.raw(later))[:, 2]
    assert abs(falsity.mean() - known.mean()) < 0.04
    assert worth.unsure > 0.3 and head.weights[0].argmax() == 3


def test_noise_is_worth_nothing_and_more_of_it_promises_nothing() -> None:
    states, truth, groups = planted(300, 0.0)
    _, worth = fit(states, truth, groups)
    assert worth.auroc.low < 0.5
    assert worth.more < 0.6
    assert worth.outlook.startswith("100 more annotations would give an AUROC of about")


def test_no_conversation_is_in_training_and_test_and_the_same_file_teaches_the_same() -> None:
    states, truth, groups = planted(200, 1.0)
    fold = folds_of(groups, 0)
    assert all(fold[2 * n] == fold[2 * n + 1] for n in range(100)) and set(fold) == set(range(5))
    assert fit(states, truth, groups)[0].to_record() == fit(states, truth, groups)[0].to_record()


def test_t_and_i_of_the_annotators_have_outputs_of_their_own() -> None:
    states, truth, groups = planted(300, 3.0)
    kept = (states[:, 5] > 0).astype(float)
    doubt = (states[:, 7] > 0).astype(float)
    targets = np.stack((truth[:, 0], kept, doubt), axis=1)
    head, _ = fit(states, targets, groups)
    told = head.calibrated(head.raw(states))
    assert np.corrcoef(told[:, 0], kept)[0, 1] > 0.6
    assert np.corrcoef(told[:, 1], doubt)[0, 1] > 0.4


# Refusals


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (rows(20), UsageError, r"80 more turns \(20 are annotated, 100 are needed\)"),
        ([{**row, "breaks": "no"} for row in rows(120)], UsageError, r"15 more turns that break the principle"),
        ([{**row, "breaks": True} for row in rows(120)], UsageError, r"15 more turns that don't break it"),
        (rows(120, conversation="one"), UsageError, "of 9 more conversations"),
        (rows(120) + rows(3), DatasetError, r"in training and test at once.*Delete one|lines 1 and 121"),
        (
            rows(120, side="reply"),
            DatasetError,
            "line 1: it annotates a reply, and this teaches prompts: --side response",
        ),
        (rows(1, side="tool"), DatasetError, "line 1: side is 'tool', not prompt or reply"),
        (rows(1, sequence_id="c", turn=1), DatasetError, "line 1: it names a turn of a store: give the store"),
        (
            [{"text": "a"}, {"text": "b", "breaks": "maybe"}],
            DatasetError,
            "line 2: breaks is 'maybe', not yes or no",
        ),
        ([{"text": "a", "F": 1}], DatasetError, "line 1: it has F alone: T, I and F go together"),
        ([{"text": "a", "T": 0, "I": 0, "F": 1.5}], DatasetError, "line 1: F is '1.5', not a number from 0 to 1"),
        ([{"text": "a", "T": 0, "I": float("nan"), "F": 1}], DatasetError, "line 1: I is 'nan'"),
        ([{"text": "a", "T": 10**400, "I": 0, "F": 1}], DatasetError, "line 1: "),
        ([{"text": ["a"], "breaks": "no"}], DatasetError, "line 1: text is no text"),
        ([{"breaks": "no"}], DatasetError, "line 1: no text: a row has text, or sequence_id and turn"),
        ([{"text": "\ud800", "breaks": "no"}], DatasetError, "line 1: a text is no Unicode"),
        ([{"text": "a", "before": {"x": 1}, "breaks": "no"}], DatasetError, "line 1: before is neither"),
        ([{"text": "a", "before": ["b"] * 5000, "breaks": "no"}], DatasetError, "line 1: before has 5000 texts"),
        ([{"text": "a", "breaks": "maybe"}] * 8, DatasetError, "line 5: .*; and 3 more lines"),
    ],
)
def test_what_cannot_be_taught_from_is_refused(
    made: list[dict[str, Any]],
    error: type[Exception],
    message: str,
    folder: Path,
    observer: LocalObserver,
) -> None:
    path = write(folder.parent / "turns.jsonl", made)
    with pytest.raises(error, match=message):
        teach(folder, read_annotations(path, Side.PROMPT), observer)
    assert not (folder / HEAD).exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"text,breaks\nfine,no\nna\xefve,no\n", "line 3: not UTF-8"),
        (b"text,breaks\nHello, you,no\n", "line 2: 3 cells under 2 headings"),
        (b"text,text,breaks\na,b,no\n", "line 1: two columns are called 'text'"),
        (b'text,breaks\n"two\nlines",no\nlast,perhaps\n', "line 4: breaks is 'perhaps'"),
        (b'text,breaks\n"open,no\n', "is no CSV"),
        (b"text,breaks\n" + b"x" * 200_000 + b",no\n", "is no CSV"),
        (b'text,before,breaks\na,"[1",no\n', "line 2: before is no JSON list"),
    ],
)
def test_a_bad_csv_is_refused_with_its_lines(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "turns.csv"
    path.write_bytes(data)
    with pytest.raises(DatasetError, match=message):
        read_annotations(path, Side.PROMPT)


def test_brackets_without_end_and_lines_that_are_no_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text("[" * 100_000 + "\n7\n")
    with pytest.raises(DatasetError, match=r"line 1: no JSON: brackets are nested.*line 2: no JSON object"):
        read_annotations(path, Side.PROMPT)
    with pytest.raises(DatasetError, match="can't read annotations from"):
        read_annotations(tmp_path, Side.PROMPT)


def test_what_was_said_before_alternates_back_from_the_text(tmp_path: Path) -> None:
    path = write(tmp_path / "turns.jsonl", [{"text": "d", "before": ["a", " ", "c"], "breaks": "no"}])
    for side, other in ((Side.PROMPT, Side.RESPONSE), (Side.RESPONSE, Side.PROMPT)):
        assert read_annotations(path, side).turns[0].talk == ((other, "a"), (other, "c"), (side, "d"))


def test_annotations_of_another_store_are_refused(tmp_path: Path) -> None:
    first, second = (chat("c", ("Hello there", "Hi"), (text, None)) for text in ("Tell me more", "Something else"))
    for name, one in (("first", first), ("second", second)):
        with Store(tmp_path / f"{name}.db", create=True) as store:
            store.add_sequences([one])
    row = {"sequence_id": "c", "turn": 2, "text": "Tell  me more", "breaks": "no"}
    path = write(tmp_path / "turns.jsonl", [row])
    with Store(tmp_path / "first.db") as store:
        talk = read_annotations(path, Side.PROMPT, store).turns[0].talk
        assert talk == ((Side.PROMPT, "Hello there"), (Side.RESPONSE, "Hi"), (Side.PROMPT, "Tell me more"))
        write(path, [{**row, "digest": "d0"}])
        with pytest.raises(DatasetError, match=r"line 1: turn 2 of 'c' in .*first.db is not the text"):
            read_annotations(path, Side.PROMPT, store)
        write(path, [{**row, "turn": 3}])
        with pytest.raises(DatasetError, match=r"line 1: turn 3 of 'c' has no prompt in .*first.db"):
            read_annotations(path, Side.PROMPT, store)
        with pytest.raises(DatasetError, match=r"line 1: turn is '1.5', not the number of a turn"):
            read_annotations(write(path, [{**row, "turn": 1.5}]), Side.PROMPT, store)
        with pytest.raises(DatasetError, match="has no sequence 'd': these are annotations of another store"):
            read_annotations(write(path, [{**row, "sequence_id": "d"}]), Side.PROMPT, store)
    write(path, [row])
    with Store(tmp_path / "second.db") as store, pytest.raises(DatasetError, match="annotations of another store"):
        read_annotations(path, Side.PROMPT, store)


def test_annotations_that_say_nothing_teach_nothing(folder: Path, observer: LocalObserver) -> None:
    answers = random.Random(3).choices(["yes", "no"], k=110)
    made = [{**row, "breaks": answer} for row, answer in zip(rows(110), answers, strict=True)]
    annotations = read_annotations(write(folder.parent / "turns.jsonl", made), Side.PROMPT)
    with pytest.raises(UsageError, match=r"110 turns taught nothing: .* ranks like a coin"):
        teach(folder, annotations, observer)
    assert not (folder / HEAD).exists()


def test_a_principle_that_the_observer_knows_is_not_taught(tmp_path: Path, observer: LocalObserver) -> None:
    draft_principle(tmp_path / "reciprocity")
    annotations = read_annotations(write(tmp_path / "turns.jsonl", rows(120)), Side.PROMPT)
    with pytest.raises(UsageError, match="scores 'reciprocity' already: give yours another name"):
        teach(tmp_path / "reciprocity", annotations, observer)
    with pytest.raises(PrincipleError, match="no folder"):
        teach(tmp_path / "nowhere", annotations, observer)


def changed(folder: Path, to: Path, **about: str) -> Principle:
    """A copy of a taught principle, of which something else is said."""
    draft_principle(to)
    content = read_head(folder / HEAD)
    write_head(to, {**content.about, **about}, content.head)
    return load_principle(to)


def test_before_anything_is_scored_it_is_said_what_was_not_taught(
    taught_once: Path, folder: Path, weights_folder: Path, tmp_path: Path
) -> None:
    spec = f"local:{weights_folder}"
    with Store(tmp_path / "work.db", create=True) as store:
        store.add_sequences([chat("c", (KIND, "Yes."))])
        with pytest.raises(UsageError, match=r"once they are taught: turnwise teach FOLDER --annotations FILE"):
            evaluate(store, "r", spec, principles=[load_principle(folder)])
        other = changed(taught_once, tmp_path / "other" / "manners", base="0" * 64)
        with pytest.raises(
            UsageError, match=r"was taught on weights 0{12}, and observer 'local' has .* teach it again"
        ):
            evaluate(store, "r", spec, principles=[other])
        with pytest.raises(
            UsageError, match=r"was not taught for the side response, only for prompt: .* --side response"
        ):
            evaluate(store, "r", spec, principles=[load_principle(taught_once)], sides=[Side.RESPONSE])
        with pytest.raises(
            UsageError, match=r"can't score principle 'manners'; it scores only reciprocity, [^:]*$"
        ):
            evaluate(store, "r", "local-small", principles=[load_principle(taught_once)])
        assert store.runs() == ()


def test_a_head_that_is_damaged_or_of_another_principle_is_refused(
    taught_once: Path, tmp_path: Path, observer: LocalObserver
) -> None:
    with pytest.raises(PrincipleError, match="was taught for principle 'tact', not for 'manners'"):
        changed(taught_once, tmp_path / "manners", principle="tact")
    path = tmp_path / "manners" / HEAD
    whole = (taught_once / HEAD).read_text()
    for damaged in (
        whole[:-40],
        whole.replace('"seed": 0', '"seed": 1'),
        "[]",
        "{}",
        '{"a": ' * 5000,
        "x" * 5_000_000,
    ):
        path.write_text(damaged)
        with pytest.raises(PrincipleError, match=r"taught-prompt.json is no head that turnwise taught"):
            load_principle(tmp_path / "manners")
    known = read_head(taught_once / HEAD)
    for part in ({"weights": "!"}, {"offset": [0.0, 0.0]}, {"slope": ["a", "b"]}, {"unsure": [1e999, 0, 0]}):
        head = {**known.head, **part}
        if "unsure" in part:
            with pytest.raises(ValueError, match="JSON"):
                write_head(tmp_path / "manners", known.about, head)
            continue
        write_head(tmp_path / "manners", known.about, head)
        with pytest.raises(ObserverError, match=r"taught-prompt.json: "):
            observer.taught(Request(load_principle(tmp_path / "manners"), Side.PROMPT))


def test_a_head_that_is_taught_anew_meanwhile_is_not_mixed_with_the_old_one(
    taught_once: Path, tmp_path: Path, observer: LocalObserver
) -> None:
    principle = changed(taught_once, tmp_path / "manners", code_version="one")
    changed(taught_once, tmp_path / "manners", code_version="two")
    with pytest.raises(ObserverError, match="was taught anew meanwhile; start again"):
        observer.taught(Request(principle, Side.PROMPT))


def test_what_was_taught_is_part_of_the_provenance_and_not_of_the_text(taught_once: Path) -> None:
    principle = load_principle(taught_once)
    bare = replace(principle, heads=())
    assert principle.digest() == bare.digest() and principle.revision == bare.revision
    assert [head.side for head in principle.heads] == [Side.PROMPT]


@pytest.mark.parametrize("name", ["Manners", "two words", "_x", "a__b"])
def test_a_draft_needs_a_name_for_a_principle(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="use snake_case"):
        draft_principle(tmp_path / name)


Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --annotations FILE to teach, or --draft"),
        (("--draft", "--annotations", "a.csv"), "give --annotations FILE to teach, or --draft"),
        (("--draft", "--out", "a.csv"), "--out needs --store"),
        (("--draft", "--observer", "llm:openai/x"), "can't be taught; use local"),
        (("--draft", "--side", "tool"), "unknown side 'tool'"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    assert run("teach", "manners", *arguments) == 2
    assert message in capsys.readouterr().err
