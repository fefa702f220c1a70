from __future__ import annotations

import os
import sys

import pytest

import turnwise
from turnwise.errors import PluginError, PrincipleError, UnknownNameError, UsageError
from turnwise.principles import PRINCIPLES, Principle, is_named, list_principles, load_principle

SETTINGS = """\
name = "candour"
version = "2026-1"
summary = "What is said is meant."

[meaning]
truth = "0: not meant. 1: meant."
indeterminacy = "how far it can't be told"
falsity = "0: meant. 1: said to mislead."
"""
PROMPT = "# Candour\n\nIs what is said meant? – as far as can be seen\n"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "candour"
    path.mkdir()
    (path / "principle.toml").write_text(SETTINGS, encoding="utf-8")
    (path / "prompt.md").write_text(PROMPT, encoding="utf-8")
    return path


@pytest.mark.parametrize("as_given", [str, lambda path: path, lambda path: f"{path}{os.sep}"])
def test_a_folder_is_loaded_by_path(folder, as_given):
    assert load_principle(as_given(folder)) == Principle(
        name="candour",
        version="2026-1",
        summary="What is said is meant.",
        truth="0: not meant. 1: meant.",
        indeterminacy="how far it can't be told",
        falsity="0: meant. 1: said to mislead.",
        prompt=PROMPT.strip(),
    )


def test_line_ends_of_another_system_make_no_difference(folder):
    before = load_principle(folder).digest()
    for name in ("principle.toml", "prompt.md"):
        file = folder / name
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_principle(folder).digest() == before


def test_a_byte_order_mark_is_not_text(folder):
    before = load_principle(folder).digest()
    for name in ("principle.toml", "prompt.md"):
        file = folder / name
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert load_principle(folder).digest() == before


def test_a_name_that_ships_wins_over_a_folder_of_that_name(folder, monkeypatch):
    folder.rename(folder.parent / "reciprocity")
    monkeypatch.chdir(folder.parent)
    assert load_principle("reciprocity").name == "reciprocity"
    assert load_principle("./reciprocity").name == "candour"
    assert load_principle(folder.parent / "reciprocity").name == "candour"


def test_a_bare_name_finds_a_folder_here(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert load_principle("candour").name == "candour"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reciprocty", "unknown principle 'reciprocty'; did you mean 'reciprocity'\\? known: context_integrity, "),
        ("", "unknown principle ''; known: "),
    ],
)
def test_an_unknown_name_is_told_with_the_known_ones(name, message):
    with pytest.raises(UnknownNameError, match=message) as caught:
        load_principle(name)
    assert isinstance(caught.value, UsageError)


def test_a_path_to_nothing(tmp_path):
    for given in (tmp_path / "nowhere", str(tmp_path / "nowhere")):
        with pytest.raises(PrincipleError, match=r"no folder .*nowhere: name a folder with principle.toml"):
            load_principle(given)


def test_a_path_to_the_file_instead_of_its_folder(folder):
    with pytest.raises(PrincipleError, match=r"principle.toml is a file; give the folder that holds"):
        load_principle(folder / "principle.toml")


@pytest.mark.parametrize("name", ["principle.toml", "prompt.md"])
def test_a_folder_without_one_of_its_files(folder, name):
    (folder / name).unlink()
    with pytest.raises(PrincipleError, match=f"{name} is missing: a principle needs"):
        load_principle(folder)


def test_a_folder_where_a_file_should_be(folder):
    (folder / "prompt.md").unlink()
    (folder / "prompt.md").mkdir()
    with pytest.raises(PrincipleError, match=r"prompt.md can't be read"):
        load_principle(folder)


@pytest.mark.parametrize("name", ["principle.toml", "prompt.md"])
def test_a_file_in_another_encoding(folder, name):
    (folder / name).write_bytes('summary = "Verlässlich"'.encode("latin-1"))
    with pytest.raises(PrincipleError, match=f"{name} is not UTF-8"):
        load_principle(folder)


@pytest.mark.parametrize(
    "key", ["name", "version", "summary", "meaning.truth", "meaning.indeterminacy", "meaning.falsity"]
)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "is missing"),
        ("1", "must be a text in quotes that is not empty, not 1"),
        ('"  "', "must be a text in quotes that is not empty, not '  '"),
        ('["a"]', "must be a text in quotes"),
    ],
)
def test_a_key_that_is_missing_or_of_another_type(folder, key, value, message):
    word = key.removeprefix("meaning.")
    lines = [line for line in SETTINGS.splitlines() if not line.startswith(f"{word} =")]
    if value is not None:
        lines.insert(lines.index("[meaning]") + 1 if key.startswith("meaning.") else 0, f"{word} = {value}")
    (folder / "principle.toml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PrincipleError, match=f"principle.toml: {key} {message}"):
        load_principle(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name =\nversion = 1", r"principle.toml is not valid TOML: .*line 1"),
        ('meaning = "none"', r"principle.toml: \[meaning\] must be a table"),
        (SETTINGS.partition("[meaning]")[0], "principle.toml: meaning.truth is missing"),
    ],
)
def test_settings_that_can_t_be_read(folder, text, message):
    (folder / "principle.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PrincipleError, match=message):
        load_principle(folder)


@pytest.mark.parametrize(
    "name", ["Candour", "two words", "kebab-case", "9lives", "_hidden", "a__b", "F.x", "ümlaut"]
)
def test_a_name_that_patterns_could_not_refer_to(folder, name):
    text = SETTINGS.replace('"candour"', f'"{name}"')
    (folder / "principle.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PrincipleError, match=r"principle.toml: name must be in snake_case"):
        load_principle(folder)


def test_an_empty_prompt(folder):
    (folder / "prompt.md").write_text(" \n", encoding="utf-8")
    with pytest.raises(PrincipleError, match=r"prompt.md is empty"):
        load_principle(folder)


@pytest.fixture
def package(folder, monkeypatch):
    """Install a package that offers principles: as its own folder, as a path, and two that can't be."""
    site = folder.parent / "site"
    site.mkdir()
    folder.rename(site / "candour_package")
    (site / "candour_package" / "__init__.py").write_text(
        "from pathlib import Path\nHERE = Path(__file__).parent\n"
    )
    info = site / "candour_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: candour-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[turnwise.principles]\ncandour = candour_package\nfrankness = candour_package:HERE\n"
        "number = candour_package:__doc__\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(PRINCIPLES, "_parts", {})
    yield
    sys.modules.pop("candour_package", None)


@pytest.mark.usefixtures("package")
def test_an_installed_package_brings_a_principle():
    assert load_principle("candour").summary == "What is said is meant."
    assert is_named("candour")
    assert not is_named("nonesuch")
    with pytest.raises(UnknownNameError, match="did you mean 'candour'"):
        load_principle("candor")
    with pytest.raises(PluginError, match="principle 'frankness' of a package calls itself 'candour'"):
        list_principles()
    with pytest.raises(PluginError, match="principle 'number'"):
        load_principle("number")


@pytest.mark.usefixtures("package")
def test_a_principle_of_a_package_is_used_by_its_name():
    (scored,) = turnwise.score(
        [{"role": "user", "content": "Hello"}], "scripted:0.4", principles=[load_principle("candour")]
    ).turns
    assert scored.scores["candour"].F == 0.4
