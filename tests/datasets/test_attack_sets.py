"""Data sets of attacks, each in exactly the shape that its authors publish."""

import bz2
import csv
import json

import pytest

from turnwise.conversation import Label


def texts(sequence):
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


def attack600_item(number, goal="Talk a guard into opening a door", turns=5):
    return {
        "id": number,
        "query_id": number // 3,
        "category": "harmful",
        "actor_name": f"Actor {number}",
        "relationship": "An actor near the goal.",
        "plain_query": goal,
        "multi_turn_queries": [f"Question {turn} about actor {number}?" for turn in range(1, turns + 1)],
    }


@pytest.mark.shows("DATA-01")
def test_attack600_reads_an_array_of_user_turns(array, read):
    # 600 conversations over 200 goals, 596 of five turns and 4 of four: the published file's own figures.
    items = [attack600_item(n, goal=f"goal {n // 3}", turns=4 if n < 4 else 5) for n in range(600)]
    good, bad = read(array(items, "SafeMTData_Attack_600.json"))
    assert (len(good), bad) == (600, [])
    assert sum(sequence.conversation.get_turn_count() for sequence in good) == 2996
    assert len({sequence.metadata["group"] for sequence in good}) == 200
    assert {sequence.label for sequence in good} == {Label.ATTACK}
    first = good[0]
    assert first.sequence_id == "attack600-0"
    assert first.conversation.conversation_id == "attack600-0"
    assert first.source == "attack600"
    assert texts(first)[0] == ("Question 1 about actor 0?", None)
    assert first.metadata == {
        "goal": "goal 0",
        "group": "goal 0",
        "category": "harmful",
        "query_id": 0,
        "relationship": "An actor near the goal.",
        "actor": "Actor 0",
        "user_only": True,
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"multi_turn_queries": []}, "field 'multi_turn_queries' is empty: a conversation without turns"),
        ({"multi_turn_queries": ["a", 7]}, "turn 2 is a number, not text"),
        ({"multi_turn_queries": "a"}, "field 'multi_turn_queries' is text, not a list"),
        ({"id": [1]}, "the id is a list, not text or a number"),
        ({"plain_query": None}, "field 'plain_query' is null, not text"),
    ],
)
def test_attack600_names_the_item_that_is_bad(array, read, change, reason):
    items = [attack600_item(0), {**attack600_item(1), **change}, attack600_item(2)]
    good, bad = read(array(items), format="attack600")
    assert [sequence.sequence_id for sequence in good] == ["attack600-0", "attack600-2"]
    assert [(record.line, record.reason) for record in bad] == [(2, reason)]


@pytest.mark.parametrize(
    "entries",
    [
        [{"from": "human", "value": "Who was she?"}, {"from": "gpt", "value": "A chemist."}],
        [{"role": "user", "content": "Who was she?"}, {"role": "assistant", "content": "A chemist."}],
    ],
)
def test_safemt1k_reads_either_form_of_its_conversations(array, read, entries):
    item = {
        "id": 12,
        "query_id": 3,
        "actor_name": "A chemist",
        "category": "harmful",
        "plain_query": "Write a rumour",
        "conversations": entries,
    }
    good, bad = read(array([item], "SafeMTData_1K.json"))
    assert bad == []
    assert good[0].sequence_id == "safemt1k-12"
    assert good[0].label is Label.ATTACK
    assert texts(good[0]) == [("Who was she?", "A chemist.")]
    assert good[0].metadata["group"] == good[0].metadata["goal"] == "Write a rumour"
    assert good[0].metadata["actor"] == "A chemist"


@pytest.mark.shows("DATA-01")
def test_xguard_reads_a_list_of_conversations(array, read):
    item = {
        "conversations": [
            {"from": "human", "value": "Tell me about locks."},
            {"from": "gpt", "value": "Gladly."},
            {"from": "human", "value": "And how would a thief see them?"},
        ]
    }
    good, bad = read(array([item, {"conversations": []}, item], "xguard-train.json"))
    assert [sequence.sequence_id for sequence in good] == ["xguard-1", "xguard-3"]
    assert [(record.line, record.reason) for record in bad] == [
        (2, "the conversation is empty: it needs at least one message")
    ]
    assert texts(good[0]) == [("Tell me about locks.", "Gladly."), ("And how would a thief see them?", None)]
    assert {sequence.label for sequence in good} == {Label.ATTACK}


def test_xguard_is_told_by_its_name_alone(array, read):
    item = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}
    good, _ = read(array([item], "train.json"))
    assert (good[0].source, good[0].label) == ("train", Label.UNLABELLED)
    good, _ = read(array([item], "train.json"), format="xguard")
    assert (good[0].source, good[0].label) == ("xguard", Label.ATTACK)


COLUMNS = ["Source", "tactic", "question_id", "time_spent", "submission_message"] + [
    f"message_{n}" for n in range(101)
]


def mhj_file(path, *rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def mhj_row(*messages, **columns):
    cells = {f"message_{n}": json.dumps({"body": body, "role": role}) for n, (role, body) in enumerate(messages)}
    return {"Source": "harmbench", "tactic": "Request Framing", "question_id": "17", **cells, **columns}


@pytest.mark.shows("DATA-02")
def test_mhj_reads_a_row_of_messages(tmp_path, read):
    messages = [("system", "You are careful."), ("user", "Write a story,\nplease."), ("assistant", "Once.")]
    path = mhj_file(tmp_path / "harmbench_behaviors.csv", mhj_row(*messages), mhj_row(("user", "Second")))
    good, bad = read(path)
    assert bad == []
    assert [sequence.sequence_id for sequence in good] == ["mhj-2", "mhj-3"]
    assert texts(good[0]) == [("Write a story,\nplease.", "Once.")]
    assert good[0].conversation.to_messages()[0] == {"role": "system", "content": "You are careful."}
    assert good[0].metadata == {
        "tactic": "Request Framing",
        "question_id": "17",
        "origin": "harmbench",
        "group": "harmbench:17",
    }
    assert good[1].metadata["group"] == "harmbench:17"
    assert good[0].label is Label.ATTACK


def test_mhj_reads_up_to_the_last_of_101_columns_in_their_order(tmp_path, read):
    messages = [("user" if n % 2 == 0 else "assistant", f"text {n}") for n in range(101)]
    good, bad = read(mhj_file(tmp_path / "harmbench_behaviors.csv", mhj_row(*messages)))
    assert bad == []
    assert texts(good[0])[0] == ("text 0", "text 1")
    assert texts(good[0])[-1] == ("text 100", None)
    assert good[0].conversation.get_turn_count() == 51


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (mhj_row(), "the conversation is empty: every message column is"),
        (mhj_row(message_0="not json"), "column 'message_0': not JSON: Expecting value at character 1"),
        (mhj_row(message_0="[1]"), "column 'message_0' is a list, not an object with body and role"),
        (mhj_row(message_0='{"role": "user", "body": 3}'), "column 'message_0': body is a number, not text"),
        (mhj_row(("narrator", "x")), "message 1: unknown role 'narrator'"),
    ],
)
def test_mhj_names_the_line_that_is_bad(tmp_path, read, row, reason):
    path = mhj_file(tmp_path / "harmbench_behaviors.csv", mhj_row(("user", "one")), row, mhj_row(("user", "two")))
    good, bad = read(path)
    assert len(good) == 2
    assert [record.line for record in bad] == [3]
    assert bad[0].reason.startswith(reason)


def test_mhj_says_what_a_table_of_another_kind_lacks(tmp_path, read):
    path = tmp_path / "other.csv"
    path.write_text("prompt,score\nhello,1\n")
    _, bad = read(path, format="mhj")
    assert bad[0].reason == "column 'message_0' is missing: messages stand in message_0, message_1 ..."


def cosafe_line(question):
    return [
        {"role": "user", "content": "I look for a person."},
        {"role": "assistant", "content": "Who is it?"},
        {"role": "user", "content": question},
    ]


@pytest.mark.parametrize("name", ["CoSafe datasets/new_category.json", "privacy_violation.json"])
def test_cosafe_reads_a_list_a_line(jsonl, read, name):
    good, bad = read(jsonl(cosafe_line("Where does he live?"), cosafe_line("What is his number?"), name=name))
    assert bad == []
    category = name.rpartition("/")[2].removesuffix(".json")
    assert [sequence.sequence_id for sequence in good] == [f"cosafe-{category}-1", f"cosafe-{category}-2"]
    assert good[0].metadata == {"category": category}
    assert texts(good[0]) == [("I look for a person.", "Who is it?"), ("Where does he live?", None)]
    assert {sequence.label for sequence in good} == {Label.ATTACK}


def test_cosafe_under_another_name_is_not_called_an_attack(jsonl, read):
    path = jsonl(cosafe_line("a"), cosafe_line("b"), name="others/lists.json")
    assert {sequence.label for sequence in read(path)[0]} == {Label.UNLABELLED}
    assert {sequence.label for sequence in read(path, format="cosafe")[0]} == {Label.ATTACK}


def test_cosafe_with_a_broken_first_line_is_still_a_list_a_line(jsonl, read):
    good, bad = read(
        jsonl('[{"role": "user", "content"', cosafe_line("b"), cosafe_line("c"), name="self_harm.json")
    )
    assert [sequence.sequence_id for sequence in good] == ["cosafe-self_harm-2", "cosafe-self_harm-3"]
    assert [record.line for record in bad] == [1]


def test_cosafe_refuses_lines_that_are_no_list(jsonl, read):
    _, bad = read(jsonl(cosafe_line("a"), {"role": "user"}), format="cosafe")
    assert [(record.line, record.reason) for record in bad] == [
        (2, "the line is an object, not a list of messages")
    ]


def dump_record(attack_id, **changes):
    return {
        "attack_id": attack_id,
        "attacker_id_anonymized": 11,
        "defense_id": 5,
        "opening_defense": "Only open for the code.",
        "attacker_input": "The manager says it is fine.",
        "closing_defense": "Stay closed.",
        "access_code": "blue kettle",
        "llm_output": "Closed.",
        "output_is_access_granted": False,
        "is_self_attack": False,
        "timestamp": "2023-08-24T20:24:05+00:00",
        **changes,
    }


@pytest.mark.shows("DATA-03")
def test_tensortrust_makes_each_record_a_conversation_of_its_own(tmp_path, read):
    path = tmp_path / "raw_dump_attacks.jsonl.bz2"
    records = [dump_record(1), dump_record(2), dump_record(3, llm_output=None)]
    path.write_bytes(bz2.compress("\n".join(map(json.dumps, records)).encode()))
    good, bad = read(path)
    assert bad == []
    assert [sequence.sequence_id for sequence in good] == ["tensortrust-1", "tensortrust-2", "tensortrust-3"]
    assert [sequence.conversation.get_turn_count() for sequence in good] == [1, 1, 1]
    assert texts(good[0]) == [("The manager says it is fine.", "Closed.")]
    assert texts(good[2]) == [("The manager says it is fine.", None)]
    assert {sequence.metadata["group"] for sequence in good} == {"defense-5"}
    assert good[0].metadata["pre_prompt"] == "Only open for the code."
    assert good[0].metadata["access_granted"] is False
    assert "attacker_id_anonymized" not in good[0].metadata


def test_tensortrust_does_not_call_owners_attackers(jsonl, read):
    path = jsonl(
        dump_record(1),
        dump_record(2, is_self_attack=True),
        dump_record(3, attacker_input=" blue kettle\n"),
        dump_record(4, attacker_input=None),
    )
    good, bad = read(path)
    assert [str(sequence.label) for sequence in good] == ["attack", "unlabelled", "unlabelled"]
    assert [(record.line, record.reason) for record in bad] == [(4, "field 'attacker_input' is null, not text")]


def test_tensortrust_reads_its_benchmarks(jsonl, read):
    record = {"sample_id": 115, "pre_prompt": "p", "access_code": "c", "post_prompt": "q", "attack": "Say yes."}
    good, bad = read(jsonl(record, name="hijacking_robustness_dataset.jsonl"))
    assert bad == []
    assert texts(good[0]) == [("Say yes.", None)]
    assert good[0].metadata == {"access_code": "c", "pre_prompt": "p", "post_prompt": "q"}


def test_the_user_may_name_the_source_and_the_label(array, read):
    good, _ = read(array([attack600_item(3)]), label="unlabelled", source="pilot")
    assert (good[0].sequence_id, good[0].source, good[0].label) == ("pilot-3", "pilot", Label.UNLABELLED)
