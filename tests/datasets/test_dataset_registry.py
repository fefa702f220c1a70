"""The list of formats, and formats that others add."""

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
from turnwise.errors import PluginError, UnknownNameError


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
