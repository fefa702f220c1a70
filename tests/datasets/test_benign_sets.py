"""Data sets without attacks, or of real traffic, each in exactly the shape that its authors publish."""

import gzip
import json

import pytest
from growth import grows_linearly

from turnwise.conversation import Label
from turnwise.errors import DatasetError


def texts(sequence):
    return [(turn.prompt, turn.response) for turn in sequence.conversation]


def test_mtbench101_reads_a_history(jsonl, read):
    # The first 50 published tasks are all GR, 45 of three turns and 5 of four.
    tasks = [
        {
            "task": "GR",
            "id": n,
            "history": [{"user": f"q{n}.{t}", "bot": f"a{n}.{t}"} for t in range(4 if n > 45 else 3)],
        }
        for n in range(1, 51)
    ]
    good, bad = read(jsonl(*tasks, name="mtbench101.jsonl"))
    assert (len(good), bad) == (50, [])
    assert sum(sequence.conversation.get_turn_count() for sequence in good) == 155
    assert good[0].sequence_id == "mtbench101-GR-1"
    assert texts(good[0]) == [("q1.0", "a1.0"), ("q1.1", "a1.1"), ("q1.2", "a1.2")]
    assert good[0].metadata == {"task": "GR"}
    assert {sequence.label for sequence in good} == {Label.BENIGN}


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ([], "field 'history' is empty: a conversation without turns"),
        ([{"user": "a", "bot": "b"}, {"bot": "c"}], "turn 2: field 'user' is missing; the record has: bot"),
        ([{"user": "a", "bot": 1}], "turn 1: field 'bot' is a number, not text"),
        (["a"], "turn 1: the record is text, not an object with fields"),
    ],
)
def test_mtbench101_names_the_line_that_is_bad(jsonl, read, history, reason):
    good, bad = read(jsonl({"task": "GR", "id": 1, "history": history}), format="mtbench101")
    assert good == []
    assert [(record.line, record.reason) for record in bad] == [(1, reason)]


def test_mtbench_reads_two_user_turns(jsonl, read):
    record = {"question_id": 81, "category": "writing", "turns": ["Write a poem.", "Now without the letter e."]}
    good, bad = read(jsonl(record, name="question.jsonl"))
    assert bad == []
    assert good[0].sequence_id == "mtbench-81"
    assert texts(good[0]) == [("Write a poem.", None), ("Now without the letter e.", None)]
    assert good[0].metadata == {"category": "writing", "user_only": True}
    assert good[0].label is Label.BENIGN


def pair(n):
    shared = f"\n\nHuman: Question {n}?\n\nAssistant: Answer.\n\nHuman: And then?\n\nAssistant:"
    return {"chosen": f"{shared} Well.", "rejected": f"{shared} No."}


def test_hhrlhf_reads_the_chosen_side_without_a_label(tmp_path, read):
    path = tmp_path / "train.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps(pair(n)) for n in range(3)).encode()))
    good, bad = read(path)
    assert bad == []
    assert [sequence.sequence_id for sequence in good] == ["hhrlhf-1", "hhrlhf-2", "hhrlhf-3"]
    assert texts(good[0]) == [("Question 0?", "Answer."), ("And then?", "Well.")]
    assert {sequence.label for sequence in good} == {Label.UNLABELLED}
    assert good[0].metadata == {"side": "chosen"}


def test_hhrlhf_reads_the_other_side_and_takes_a_label(jsonl, read):
    good, _ = read(jsonl(pair(0)), columns="text=rejected", label=Label.ATTACK)
    assert texts(good[0])[-1] == ("And then?", "No.")
    assert good[0].label is Label.ATTACK


def test_hhrlhf_reads_red_team_transcripts(array, read):
    item = {"transcript": "\n\nHuman: Be rude.\n\nAssistant: I'd rather not.", "rating": 0.0, "tags": ["insult"]}
    good, bad = read(array([item], "red_team_attempts.json"), format="hhrlhf", columns={"text": "transcript"})
    assert bad == []
    assert texts(good[0]) == [("Be rude.", "I'd rather not.")]
    assert good[0].metadata == {"side": "transcript", "rating": 0.0, "tags": ["insult"]}


def test_hhrlhf_refuses_text_without_speakers(jsonl, read):
    _, bad = read(jsonl({"chosen": "just text", "rejected": "x"}), format="hhrlhf")
    assert bad[0].reason == "the text does not begin with 'Human:' or 'Assistant:'"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Human: a\n\n\n\nAssistant:b\n\nc\nHuman: d", [("a", "b\n\nc\nHuman: d")]),
        ("  \n\nHuman: a", [("a", None)]),
        ("\n\nHuman: \ud83d\ude00é\n\nAssistant: Human:\n\nHuman:x", [("😀é", "Human:"), ("x", None)]),
        ("\n\nHuman: a\n\nAssistant: b\n\nAssistants:", [("a", "b\n\nAssistants:")]),
    ],
)
def test_hhrlhf_tells_speakers_by_an_empty_line(jsonl, read, text, said):
    good, _ = read(jsonl({"chosen": text, "rejected": "x"}), format="hhrlhf")
    assert texts(good[0]) == said


@pytest.mark.parametrize("unit", ["\n", "\n\nHuman", "\n\nHuman:x", "\n\nHuman:x\n\nAssistant:y"])
def test_hhrlhf_reads_long_texts_in_linear_time(jsonl, read, unit):
    def work(text):
        read(jsonl({"chosen": "\n\nHuman: a" + text, "rejected": "x"}), format="hhrlhf")

    assert grows_linearly(work, unit, most=50_000)


WILDCHAT = """
    SELECT * FROM (VALUES
        ('same', 'gpt-4', TIMESTAMPTZ '2024-01-01 10:00:00+00',
         [{'role': 'user', 'content': 'How do I knit?', 'hashed_ip': 'f0', 'country': 'NL', 'toxic': false,
           'timestamp': NULL, 'turn_identifier': 101},
          {'role': 'assistant', 'content': 'With two needles.', 'hashed_ip': NULL, 'country': NULL, 'toxic': false,
           'timestamp': TIMESTAMPTZ '2024-01-01 10:00:01+00', 'turn_identifier': 101}],
         1, 'English',
         [{'categories': {'hate': false, 'sexual': false}}, {'categories': {'hate': true, 'sexual': false}}],
         false, false),
        ('same', 'gpt-4', TIMESTAMPTZ '2024-01-01 11:00:00+00',
         [{'role': 'user', 'content': 'How do I knit?', 'hashed_ip': 'f1', 'country': 'NL', 'toxic': true,
           'timestamp': NULL, 'turn_identifier': 202}],
         1, 'Dutch', [], true, false),
        ('empty', 'gpt-4', TIMESTAMPTZ '2024-01-01 12:00:00+00', [], 0, 'English', [], false, false)
    ) t(conversation_hash, model, timestamp, conversation, turn, language, openai_moderation, toxic, redacted)
"""


def test_wildchat_reads_parquet(parquet, read):
    good, bad = read(parquet(WILDCHAT))
    # The hash is that of the content: two chats share it, and both are kept.
    assert [sequence.sequence_id for sequence in good] == ["wildchat-101", "wildchat-202"]
    assert [(record.line, record.reason) for record in bad] == [
        (3, "the conversation is empty: it needs at least one message")
    ]
    assert texts(good[0]) == [("How do I knit?", "With two needles.")]
    assert good[0].metadata == {
        "conversation_hash": "same",
        "model": "gpt-4",
        "language": "English",
        "toxic": False,
        "redacted": False,
        "openai_moderation": [[], ["hate"]],
    }
    assert good[1].metadata["toxic"] is True
    assert {sequence.label for sequence in good} == {Label.UNLABELLED}


def test_wildchat_leaves_out_where_users_are(parquet, read):
    good, _ = read(parquet(WILDCHAT))
    assert "NL" not in json.dumps([good[0].conversation.to_dict(), dict(good[0].metadata)])


def test_lmsys_reads_parquet(parquet, read):
    select = """SELECT 'c' || i AS conversation_id, 'vicuna-13b' AS model,
        [{'content': 'Hello ' || i, 'role': 'user'}, {'content': 'Hi', 'role': 'assistant'}] AS conversation,
        1 AS turn, 'English' AS language,
        [{'categories': {'hate': i = 1}, 'category_scores': {'hate': 0.5}, 'flagged': i = 1}] AS openai_moderation,
        false AS redacted FROM range(300) r(i)"""
    good, bad = read(parquet(select))
    assert (len(good), bad) == (300, [])
    assert [sequence.sequence_id for sequence in good[:2]] == ["c0", "c1"]
    assert texts(good[299]) == [("Hello 299", "Hi")]
    assert good[1].metadata == {
        "model": "vicuna-13b",
        "language": "English",
        "redacted": False,
        "openai_moderation": [["hate"]],
    }
    assert good[0].source == "lmsys"


def test_parquet_in_a_folder_whose_name_is_a_pattern(parquet, read):
    select = "SELECT 'a' AS prompt, 'b' AS response"
    good, _ = read(parquet(select, name="run[1]*/a?.parquet"))
    assert texts(good[0]) == [("a", "b")]


@pytest.mark.shows("DATA-08")
def test_everyday_conversations_are_benign_in_parquet_and_jsonl(parquet, jsonl, read):
    select = """SELECT 'Sports' AS topic, 'Running' AS subtopics, 'Sports/Running' AS full_topic,
        [{'content': 'Hi', 'role': 'user'}, {'content': 'Hello!', 'role': 'assistant'},
         {'content': 'I run.', 'role': 'user'}, {'content': 'Well done.', 'role': 'assistant'}] AS messages"""
    good, bad = read(parquet(select))
    assert bad == []
    assert texts(good[0]) == [("Hi", "Hello!"), ("I run.", "Well done.")]
    assert good[0].metadata == {"topic": "Sports", "subtopics": "Running", "full_topic": "Sports/Running"}
    record = {"topic": "Art", "full_topic": "Art/Paint", "messages": [{"role": "user", "content": "Hi"}]}
    assert {sequence.label for sequence in good + read(jsonl(record))[0]} == {Label.BENIGN}


@pytest.mark.shows("DATA-10")
def test_promptresponse_is_benign_by_the_name_of_the_set_alone(parquet, jsonl, read):
    select = "SELECT 'Name a tree.' AS prompt, 'Oak.' AS response, 'No.' AS refusal"
    good, bad = read(parquet(select, name="LLM-LAT/benign-dataset/train.parquet"))
    assert bad == []
    assert texts(good[0]) == [("Name a tree.", "Oak.")]
    assert (good[0].label, good[0].sequence_id, good[0].source) == (Label.BENIGN, "train-1", "train")
    good, bad = read(jsonl({"prompt": "a", "response": "b"}, {"prompt": "a", "response": None}))
    assert bad == []
    assert {sequence.label for sequence in good} == {Label.UNLABELLED}
    assert texts(good[1]) == [("a", None)]


def test_promptresponse_reads_a_table(tmp_path, read):
    path = tmp_path / "pairs.tsv"
    path.write_text("prompt\tresponse\tid\tlabel\nHi\tHello\tx1\tbenign\n")
    good, _ = read(path)
    assert (good[0].sequence_id, good[0].label, texts(good[0])) == ("x1", Label.BENIGN, [("Hi", "Hello")])


def dialogue(name, article):
    return {"answers": "B", "options": ["m : yes", "m : no"], "article": article, "id": name}


@pytest.mark.shows("DATA-06")
def test_mutual_reads_a_folder_in_the_order_of_its_numbers(tmp_path, read):
    folder = tmp_path / "dev"
    folder.mkdir()
    for n in (1, 2, 10):
        article = f"m : hi , della {n} . f : hello ! how long ? m : 4 days ."
        (folder / f"dev_{n}.txt").write_text(json.dumps(dialogue(f"dev_{n}", article)))
    (folder / "dev_3.txt").write_text("{broken")
    (folder / "notes.md").write_text("not a dialogue")
    good, bad = read(folder)
    assert [sequence.sequence_id for sequence in good] == ["mutual-dev_1", "mutual-dev_2", "mutual-dev_10"]
    assert texts(good[0]) == [("hi , della 1 .", "hello ! how long ?"), ("4 days .", None)]
    assert {sequence.label for sequence in good} == {Label.BENIGN}
    assert [record.line for record in bad] == [3]
    assert bad[0].reason.startswith("dev_3.txt: not JSON")


def test_mutual_reads_one_file_in_which_the_woman_speaks_first(tmp_path, read):
    path = tmp_path / "train_7.txt"
    path.write_text(json.dumps(dialogue("train_7", "f : good morning . m : morning . f : tea ?")))
    good, _ = read(path)
    assert texts(good[0]) == [("good morning .", "morning ."), ("tea ?", None)]


def test_mutual_names_what_is_wrong(tmp_path, read):
    path = tmp_path / "x.txt"
    path.write_text(json.dumps(dialogue("x", "hello m : there")))
    _, bad = read(path, format="mutual")
    assert bad[0].reason == "the article does not begin with 'm :' or 'f :'"
    (tmp_path / "bare").mkdir()
    with pytest.raises(DatasetError, match=r"holds no \.txt file"):
        read(tmp_path / "bare", format="mutual")


@pytest.mark.parametrize(
    ("article", "said"),
    [
        ("m : film : a\u2003f :b", [("film : a", "b")]),
        ("f :\u00a0m :x", [("", "x")]),
        ("m : a :m : b\nf : é", [("a :m : b", "é")]),
    ],
)
def test_mutual_tells_speakers_by_a_word_of_one_letter(tmp_path, read, article, said):
    path = tmp_path / "x.txt"
    path.write_text(json.dumps(dialogue("x", article)))
    good, bad = read(path, format="mutual")
    assert [texts(sequence) for sequence in good] == [said], bad


@pytest.mark.parametrize("unit", ["m : ", "m ", "\u00a0", " m :x"])
def test_mutual_reads_long_dialogues_in_linear_time(tmp_path, read, unit):
    path = tmp_path / "x.txt"

    def work(text):
        path.write_text(json.dumps(dialogue("x", "m : a" + text)))
        read(path, format="mutual")

    assert grows_linearly(work, unit, most=50_000)


def test_mutual_sorts_files_by_their_numbers_whatever_their_names(tmp_path, read):
    names = ["10.txt", "9.txt", "a²2.txt", "a10.txt", "a9.txt", "1²2.txt"]
    for name in names:
        (tmp_path / name).write_text(json.dumps(dialogue(name, "m : hi")))
    good, bad = read(tmp_path, format="mutual")
    assert bad == []
    ordered = ["1²2.txt", "9.txt", "10.txt", "a9.txt", "a10.txt", "a²2.txt"]
    assert [sequence.sequence_id for sequence in good] == [f"mutual-{name}" for name in ordered]
