"""People correct labels and score turns in a real browser."""

import json

import pytest
from explored import explored
from playwright.sync_api import expect
from work_store import SHOWN, make

from turnwise.cli import demo_observer, run_demo
from turnwise.conversation import Label
from turnwise.store import Store
from turnwise.study.annotation import LabelQueue, Order

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own_store(tmp_path_factory):
    """A store that these tests may write to."""
    return make(tmp_path_factory.mktemp("labels") / "work.db")


@pytest.fixture(scope="module")
def labelling(own_store):
    with explored("--store", str(own_store)) as running:
        yield running


def said(own_store, **about):
    with Store(own_store) as store:
        return store.people.corrections(history=True, **about)


def test_a_label_is_corrected_with_author_and_note_and_the_original_stays(let_in, labelling, own_store):
    page = let_in(labelling, "/label?id=turns")
    page.get_by_label("Your name").fill("dora")
    page.get_by_label("Your name").press("Enter")
    page.wait_for_function("localStorage.getItem('turnwise-name') === 'dora'")
    page.wait_for_timeout(500)  # the fields are laid out anew for another name
    page.get_by_label("Why").fill("a play, <b>not</b> a plan")
    page.get_by_label("The label should be").click()
    page.get_by_role("option", name="benign", exact=True).click()
    page.get_by_role("button", name="Save label").click()
    people = page.get_by_role("complementary", name="Judgements")
    expect(people).to_contain_text("label benign")
    expect(people).to_contain_text("a play, <b>not</b> a plan")
    (one,) = said(own_store, author="dora")
    assert (one.label, one.note) == ("benign", "a play, <b>not</b> a plan")
    with Store(own_store) as store:
        assert store.sequence("turns").label == "attack"


def test_a_turn_is_marked_as_the_one_where_it_turned_and_the_mark_taken_back(let_in, labelling, own_store):
    page = let_in(labelling, "/label?id=turns&author=emil")
    page.get_by_role("button", name="It turned at turn 3").click()
    expect(page.get_by_text("You marked that it turned at turn 3.")).to_be_visible()
    expect(page.get_by_text("▲ turned here: emil")).to_be_visible()
    page.get_by_role("button", name="Remove my mark").click()
    expect(page.get_by_text("You have marked no turn")).to_be_visible()
    assert [one.turn for one in said(own_store, author="emil")] == [3, None]


def test_nothing_is_kept_of_somebody_without_a_name(let_in, labelling, own_store):
    page = let_in(labelling, "/label?id=stays")
    page.get_by_role("button", name="It never turned").click()
    page.get_by_text("say who you are").wait_for()
    assert all(one.author for one in said(own_store))


def score(page, F):
    for principle in ("reciprocity", "context_integrity", "third_party_harm"):
        for part, value in (("T", 0.5), ("I", 0.2), ("F", F)):
            page.get_by_label(f"{principle} {part}:").fill(str(value))


def test_turns_are_scored_blind_one_after_the_other(let_in, labelling, own_store):
    page = let_in(labelling, "/label?id=turns&author=fay&tab=score")
    expect(page.get_by_text("0 of 4 turns scored")).to_be_visible()
    shown = page.locator("#content").inner_text()
    assert "How do people hide keys?" not in shown and "attack" not in shown and "made" not in shown
    page.get_by_role("button", name="Save and continue").click()
    page.get_by_text("give a number from 0 to 1").wait_for()
    score(page, 0.1)
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_text("1 of 4 turns scored")).to_be_visible()
    expect(page.get_by_text("How do people hide keys?")).to_be_visible()
    expect(page.get_by_label("reciprocity F:")).to_have_value("")
    score(page, 0.4)
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_text("2 of 4 turns scored")).to_be_visible()
    page.get_by_role("region", name="Scores so far").get_by_role("button", name="1", exact=True).click()
    expect(page.get_by_role("heading", name="Your scores of turn 1")).to_be_visible()
    expect(page.get_by_label("reciprocity F:")).to_have_value("0.1")
    score(page, 0.2)
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_role("heading", name="Your scores of turn 3")).to_be_visible()
    with Store(own_store) as store:
        given = {(one.turn, one.score.F) for one in store.people.scores(author="fay")}
    assert given == {(1, 0.2), (2, 0.4)}


def test_agreement_is_shown_and_what_was_said_comes_as_files(let_in, labelling):
    page = let_in(labelling, "/label?tab=agree")
    row = page.get_by_role("row", name="reciprocity F")
    expect(row).to_contain_text("ann, ben")
    with page.expect_download() as saved:
        page.get_by_role("button", name="history.jsonl of ann").click()
    lines = [json.loads(line) for line in saved.value.path().read_text().splitlines()]
    assert [(line["turn"], line["reading"]) for line in lines] == [(1, "ann"), (2, "ann"), (3, "ann")]


def test_hostile_texts_and_notes_are_shown_as_text(let_in, labelling):
    page = let_in(labelling, "/label?id=turns")
    expect(page.get_by_text(SHOWN)).to_be_visible()
    page.goto(f"{labelling.url}/label?id=stays")
    expect(page.get_by_text(SHOWN)).to_be_visible()
    assert page.evaluate("window.pwned ?? null") is None


@pytest.fixture
def blind(tmp_path):
    """Conversations of which a run flags some, that nobody has labelled."""
    file = tmp_path / "blind.db"
    with Store(file, create=True) as store:
        run_demo(store, {"reader": demo_observer("reader")})
    return file


@pytest.fixture
def queue(blind):
    with explored("--store", str(blind)) as running:
        yield running


def answers(file, author):
    with Store(file) as store:
        return [one for one in store.people.corrections(author=author) if one.kind == "label"]


def until(page, get, wanted):
    for _ in range(100):
        if get() == wanted:
            return
        page.wait_for_timeout(100)
    assert get() == wanted


def test_the_queue_is_blind_and_one_key_is_an_answer(queue, let_in, blind):
    page = let_in(queue, "/label?run=reader-history&author=gil&order=all")
    page.get_by_role("button", name="Attack (1)").wait_for()
    with Store(blind) as store:
        ids = [head.sequence_id for head in store.heads()]
    shown = page.locator(".label-body").inner_text()
    assert not any(name in shown for name in ids) and "turnwise_examples" not in shown
    for count, key in enumerate("123", start=1):
        page.keyboard.press(key)
        until(page, lambda: len(answers(blind, "gil")), count)
        page.wait_for_timeout(300)  # the next one is shown
    assert [str(one.label) for one in answers(blind, "gil")] == ["attack", "benign", "unlabelled"]
    assert all(one.note == "blind" for one in answers(blind, "gil"))
    page.get_by_text("Of all conversations, attacks: 1 of 2, 50 % [1, 99]").wait_for()
    page.keyboard.press("z")
    until(page, lambda: len(answers(blind, "gil")), 2)


def test_two_readers_differ_and_a_third_settles(queue, let_in, blind):
    with Store(blind) as store:
        labelling = LabelQueue(store, "reader-history")
        while (name := labelling.next("hal", Order.ALL)) is not None:
            labelling.answer(name, Label.ATTACK, "hal")
        shared = labelling.next("ida", Order.ALL)
        labelling.answer(shared, Label.BENIGN, "ida")
    page = let_in(queue, "/label?run=reader-history&author=jo&tab=settle")
    page.get_by_text("1 to settle").wait_for()
    page.get_by_role("button", name="Benign").click()
    page.get_by_text("No two blind labels differ").wait_for()
    with Store(blind) as store:
        assert store.people.labels(["set-settled"])[shared] is Label.BENIGN
