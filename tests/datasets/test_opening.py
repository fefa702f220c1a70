"""The formats by name, and telling them apart by their files."""

import json
import subprocess
import sys

import pytest

from turnwise.conversation import Label
from turnwise.datasets import (
    DATASETS,
    DatasetInfo,
    Loader,
    RecordError,
    RecordLoader,
    dataset_loader,
    get_loader,
    list_datasets,
    open_dataset,
)
from turnwise.errors import DatasetError, PluginError, UnknownNameError

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
SPOKEN = [{"from": "human", "value": "Hi"}]
HUMAN = "\n\nHuman: Hi\n\nAssistant: Hello"
GENERATION = {"type": "generation", "input": CHAT[:1], "output": CHAT[1:]}
SPAN = {
    "traceId": "t",
    "attributes": [{"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(CHAT)}}],
}

SHAPES = {
    "attack600": {"id": 1, "plain_query": "g", "multi_turn_queries": ["a"]},
    "claude_code": {"type": "user", "uuid": "a", "parentUuid": None, "isSidechain": False, "message": CHAT[0]},
    "codex": {
        "timestamp": "2026-01-01T00:00:00Z",
        "type": "response_item",
        "payload": {"type": "message", **CHAT[0]},
    },
    "cosafe": CHAT,
    "everyday": {"messages": CHAT, "topic": "t", "full_topic": "t/u"},
    "hhrlhf": {"chosen": HUMAN, "rejected": HUMAN},
    "langfuse": {"id": "o", "traceId": "t", "parentObservationId": None, "type": "GENERATION", "input": CHAT},
    "langsmith": {"id": "r", "run_type": "llm", "inputs": {"messages": [CHAT]}},
    "lmsys": {"conversation_id": "c", "model": "m", "conversation": CHAT, "openai_moderation": []},
    "messages": {"messages": CHAT},
    "mtbench": {"question_id": 1, "category": "c", "turns": ["a", "b"]},
    "mtbench101": {"task": "GR", "id": 1, "history": [{"user": "a", "bot": "b"}]},
    "mutual": {"answers": "A", "options": [], "article": "m : hi f : hi", "id": "d"},
    "openai_agents": {"object": "trace.span", "id": "s", "trace_id": "t", "span_data": GENERATION},
    "openassistant": {"message_id": "m", "parent_id": None, "role": "prompter", "text": "Hi"},
    "otel": {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]},
    "phoenix": {"context": {"trace_id": "t", "span_id": "s"}, "attributes": {"llm.input_messages": CHAT}},
    "promptresponse": {"prompt": "a", "response": "b"},
    "prompts": {"id": "p", "text": "a", "label": "benign", "metadata": {}},
    "safemt1k": {"id": 1, "plain_query": "g", "conversations": SPOKEN},
    "sharegpt": {"id": "s", "conversations": SPOKEN},
    "tensortrust": {"attack_id": 1, "attacker_input": "a", "access_code": "c"},
    "turns": {"conversation_id": "c", "role": "user", "text": "Hi"},
    "turnwise": {"id": "t", "label": "benign", "turns": CHAT},
    "wildchat": {"conversation_hash": "h", "conversation": CHAT, "language": "English", "toxic": False},
    "xguard": {"conversations": SPOKEN},
}
NAMES = {"cosafe": "self_harm.json", "xguard": "xguard-train.json"}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_each_format_is_told_from_its_file(jsonl, read, name):
    path = jsonl(SHAPES[name], SHAPES[name] if name == "cosafe" else "", name=NAMES.get(name, "data.jsonl"))
    good, bad = read(path)
    assert bad == []
    assert good[0].source == (name if not get_loader(name).info.generic else "data")
    assert good == [] or [s.sequence_id for s in good] == [s.sequence_id for s in read(path, format=name)[0]]


def test_every_shipped_format_but_tables_and_archives_is_in_that_list():
    apart = {"mhj", "inspect"}  # tests/integration/test_inspect.py has the logs of inspect_ai
    assert {*SHAPES, *apart} == set(DATASETS.names())


@pytest.mark.parametrize("name", sorted({*SHAPES, "mhj"}))
def test_a_file_in_another_format_is_said_to_be_one(jsonl, read, name):
    good, bad = read(jsonl({"colour": "blue", "weight": 4}), format=name)
    assert good == []
    assert [record.line for record in bad] == [1]
    assert "missing" in bad[0].reason or "not a list" in bad[0].reason


def test_an_unknown_shape_names_its_fields_and_the_choice(jsonl):
    with pytest.raises(DatasetError) as caught:
        open_dataset(jsonl({f"field{n}": n for n in range(20)}))
    message = str(caught.value)
    assert "can't be told from its fields: field0, field1," in message
    assert "field12" not in message
    assert "--format" in message
    assert "attack600, claude_code" in message


def test_text_that_is_no_json_is_said_to_be_none(jsonl):
    with pytest.raises(DatasetError, match="its first lines, none of which is JSON"):
        open_dataset(jsonl("just some notes", "and more"))


def test_a_record_that_is_no_object_is_said_to_be_none(jsonl):
    with pytest.raises(DatasetError, match="its first record, which is int, not an object"):
        open_dataset(jsonl("1", "2"))


def test_the_first_good_lines_tell_the_format(jsonl, read):
    good, bad = read(jsonl("oops", "", SHAPES["turnwise"]))
    assert [sequence.sequence_id for sequence in good] == ["t"]
    assert [record.line for record in bad] == [1]


def test_two_formats_that_both_fit_are_named(jsonl):
    both = {**SHAPES["attack600"], **SHAPES["mtbench101"]}
    with pytest.raises(DatasetError, match="may be attack600 or mtbench101: say which with --format"):
        open_dataset(jsonl(both))


def test_an_unknown_format_names_the_nearest(jsonl, line):
    with pytest.raises(UnknownNameError, match="did you mean 'turnwise'"):
        open_dataset(jsonl(line()), format="turnwize")


@pytest.mark.parametrize("format", [None, "turnwise"])
def test_a_missing_file_is_named_at_once(tmp_path, format):
    with pytest.raises(DatasetError, match=r"there is no file .*nothing\.jsonl"):
        open_dataset(tmp_path / "nothing.jsonl", format=format)


@pytest.mark.parametrize("content", [b"", b"  \n \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_said_to_be_empty(tmp_path, content):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="is empty"):
        open_dataset(path, format="turnwise")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is no text: give UTF-8"),
        ('{"id": "a"}'.encode("utf-16"), "is UTF-16 text: read it with --encoding utf-16, or save it as UTF-8"),
        (b"PK\x03\x04rest", "is a zip archive: unpack it first"),
        (b"PAR1 but not really", "can't be read as Parquet"),
        (b"\x1f\x8bjunk", "is damaged"),
    ],
)
def test_a_binary_file_is_said_to_be_one(tmp_path, content, message):
    path = tmp_path / "data.bin"
    path.write_bytes(content)
    for format in (None, "turnwise"):
        with pytest.raises(DatasetError, match=message):
            open_dataset(path, format=format)


def test_a_folder_is_refused_where_one_file_is_wanted(tmp_path, jsonl, line):
    jsonl(line(), name="set/a.jsonl")
    with pytest.raises(DatasetError, match="is a folder, and messages is read from one file"):
        open_dataset(tmp_path / "set", format="messages")
    with pytest.raises(DatasetError, match="is a folder, but no known data set"):
        open_dataset(tmp_path / "set")
    (tmp_path / "bare").mkdir()
    with pytest.raises(DatasetError, match="is a folder without files"):
        open_dataset(tmp_path / "bare")


def test_a_file_that_the_system_refuses_is_named(jsonl, line):
    path = jsonl(line())
    path.chmod(0)
    if path.stat().st_uid == 0:
        # Root may read everything, so a loop of links stands for any other reason of the system.
        path.unlink()
        path.symlink_to(path)
    with pytest.raises(DatasetError, match=r"can't read .*chats\.jsonl: "):
        open_dataset(path)


def test_layouts_of_json_are_told_apart(tmp_path, read):
    def source(text):
        path = tmp_path / "data.json"
        path.write_text(text)
        return path

    one, two = SHAPES["attack600"], {**SHAPES["attack600"], "id": 2}
    for text in (
        json.dumps([one, two]),
        json.dumps([one, two], indent=2),
        f"[\n{json.dumps(one)},\n{json.dumps(two)}\n]",
        f"{json.dumps(one)}\n{json.dumps(two)}",
        f"\n\n{json.dumps(one)}\n\n{json.dumps(two)}\n",
        f"{json.dumps(one, indent=1)}\n{json.dumps(two, indent=1)}",
        json.dumps([one, two]) + " " * 3,
    ):
        good, bad = read(source(text))
        assert ([sequence.sequence_id for sequence in good], bad) == (["attack600-1", "attack600-2"], []), text


def test_an_array_on_one_line_longer_than_the_head_is_streamed(tmp_path, read):
    items = [{**SHAPES["attack600"], "id": n, "multi_turn_queries": ["x" * 3000]} for n in range(600)]
    path = tmp_path / "long.json"
    path.write_text(json.dumps(items))
    assert path.stat().st_size > 1 << 20
    good, bad = read(path)
    assert (len(good), bad) == (600, [])


def test_every_format_says_what_a_person_should_know():
    infos = list_datasets()
    names = [info.name for info in infos]
    assert names[:-1] == sorted(names[:-1])
    assert names[-1] == "hf:org/name"
    assert len(set(names)) == len(names) == 29
    for info in infos:
        for text in (info.title, info.source, info.licence, info.label_meaning, info.shape):
            assert text.strip() == text != ""
        assert info.url == "" or info.url.startswith("https://")


@pytest.mark.parametrize("name", DATASETS.names())
def test_a_format_is_listed_under_the_name_that_opens_it(name):
    assert get_loader(name).info.name == name


def test_gated_data_sets_are_marked():
    assert {info.name for info in list_datasets() if info.gated} == {"lmsys", "mhj", "xguard"}


def test_importing_and_listing_load_nothing_heavy():
    code = (
        "import sys, turnwise.datasets as d; d.list_datasets(); "
        "print([name for name in ('duckdb', 'ijson', 'datasets', 'numpy', 'sqlalchemy') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.fixture
def diary():
    """A format of somebody else, registered by the decorator for the time of a test."""
    name = "diary_for_tests"

    class Diary(RecordLoader):
        info = DatasetInfo(name, "Diary", "a person", "", "none", "benign", 'JSONL of {"day", "entry"}')

        def sniff(self, head):
            return {"day", "entry"} <= head.fields

        def build(self, record, place):
            if record["entry"] == "":
                raise RecordError("an empty day")
            return place.prompts([record["entry"]], key=record["day"], default=Label.BENIGN)

    dataset_loader(name)(Diary)
    yield Diary
    # What is registered stays so; the other tests are to see the shipped formats alone.
    DATASETS._parts.pop(name)


def test_a_format_that_others_add_is_found_and_told(diary, tmp_path):
    loader: Loader = get_loader("diary_for_tests")
    assert "diary_for_tests" in [info.name for info in list_datasets()]
    path = tmp_path / "diary.jsonl"
    path.write_text("\n".join(json.dumps({"day": day, "entry": text}) for day, text in ((1, "Rain."), (2, ""))))
    first, second = open_dataset(path)
    assert (first.sequence_id, first.metadata) == ("diary_for_tests-1", {"user_only": True})
    assert (second.line, second.reason) == (2, "an empty day")
    assert loader.info.title == "Diary"


PLUGIN = """
from turnwise.conversation import Label
from turnwise.datasets import DatasetInfo, RecordLoader

class Notes(RecordLoader):
    info = DatasetInfo("notes", "Notes", "a person", "", "none", "benign", "JSONL of note")

    def sniff(self, head):
        return "note" in head.fields

    def build(self, record, place):
        return place.prompts([record["note"]], default=Label.BENIGN)
"""


def test_an_installed_package_adds_a_format_by_an_entry_point(tmp_path):
    (tmp_path / "notes_plugin.py").write_text(PLUGIN)
    installed = tmp_path / "notes_plugin-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: notes-plugin\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[turnwise.datasets]\nnotes = notes_plugin:Notes\n")
    data = tmp_path / "data.jsonl"
    data.write_text('{"note": "Buy milk."}\n')
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from turnwise.datasets import open_dataset; "
        f"print([item.sequence_id for item in open_dataset({str(data)!r})])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['notes-1']"


def test_a_name_can_be_taken_once(diary):
    with pytest.raises(PluginError, match="registered twice"):
        dataset_loader("diary_for_tests")(type("Other", (diary,), {}))


def test_an_unknown_name_lists_the_known():
    with pytest.raises(UnknownNameError, match="unknown data set format 'xgard'; did you mean 'xguard'"):
        get_loader("xgard")
