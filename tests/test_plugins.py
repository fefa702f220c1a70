"""The registry, with a package that is really on the path: no entry point is made up."""

from __future__ import annotations

import sys

import pytest

from turnwise.cli import main
from turnwise.datasets import DATASETS, get_loader
from turnwise.detectors import DETECTORS, build_detector
from turnwise.errors import PluginError, TurnwiseError, UnknownNameError
from turnwise.guard import GUARDRAILS, GuardrailPipeline
from turnwise.observers import OBSERVERS, build_observer
from turnwise.patterns import default_library
from turnwise.plugins import Registry

MODULE = "turnwise_test_plugin"
SOURCE = """
class Loud:
    pass

loud = Loud()
"""


@pytest.fixture
def registry():
    return Registry("gadget", "turnwise.test_gadgets")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Put a package with three entry points on the path, as an installer would; two of them are broken."""
    (tmp_path / f"{MODULE}.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / f"{MODULE}_broken.py").write_text("raise OSError('no licence found')\n", encoding="utf-8")
    info = tmp_path / f"{MODULE}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[turnwise.test_gadgets]\n"
        f"loud = {MODULE}:loud\n"
        f"absent = {MODULE}:absent\n"
        f"broken = {MODULE}_broken:anything\n"
        "[turnwise.other]\n"
        f"quiet = {MODULE}:loud\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield MODULE
    sys.modules.pop(MODULE, None)


KINDS = {
    "observers": build_observer,
    "detectors": build_detector,
    "datasets": get_loader,
    "guardrails": lambda name: GuardrailPipeline({"guardrails": [name]}),
    "patterns": lambda name: default_library().get(name),
}
WRONG = """
number = 3
def fails(*_, **__): raise RuntimeError("boom")
def nothing(*_): return None
class Empty:
    @classmethod
    def describe(cls): return 3
"""


@pytest.fixture
def wrong(tmp_path, monkeypatch):
    """Put a package on the path that offers the wrong things as parts of every kind."""
    (tmp_path / f"{MODULE}_wrong.py").write_text(WRONG, encoding="utf-8")
    info = tmp_path / f"{MODULE}_wrong-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}-wrong\nVersion: 1.0\n", "utf-8")
    parts = "".join(f"wrong_{name} = {MODULE}_wrong:{name}\n" for name in ("number", "fails", "nothing", "Empty"))
    (info / "entry_points.txt").write_text("".join(f"[turnwise.{kind}]\n{parts}" for kind in KINDS), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop(f"{MODULE}_wrong", None)
    for registry in (OBSERVERS, DETECTORS, DATASETS, GUARDRAILS):
        for name in [name for name in registry._parts if name.startswith("wrong_")]:
            del registry._parts[name]


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["number", "fails", "nothing", "Empty"])
def test_a_plug_in_that_is_no_such_part_is_refused(kind, part):
    default_library.cache_clear()
    with pytest.raises(TurnwiseError, match=f"wrong_{part}"):
        KINDS[kind](f"wrong_{part}")
    default_library.cache_clear()


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("kind", ["observers", "detectors", "datasets", "guardrails", "patterns"])
def test_a_list_with_such_a_plug_in_says_so(kind, capsys):
    default_library.cache_clear()
    with pytest.raises(SystemExit) as left:
        main(["list", kind])
    default_library.cache_clear()
    assert left.value.code == 1
    assert "error: " in capsys.readouterr().err


class TestRegistered:
    def test_a_part_is_found_by_its_name(self, registry):
        part = object()
        assert registry.add("one", part) is part
        assert registry.get("one") is part
        assert registry.names() == ("one",)

    def test_a_decorator_registers_and_gives_back_what_it_decorates(self, registry):
        @registry.register("made")
        def make():
            return 3

        assert make() == 3
        assert registry.get("made") is make

    def test_names_are_sorted(self, registry):
        for name in ("b", "c", "a"):
            registry.add(name, name)
        assert registry.names() == ("a", "b", "c")

    def test_the_same_part_twice_is_no_harm(self, registry):
        part = object()
        registry.add("one", part)
        assert registry.add("one", part) is part

    def test_another_part_under_a_taken_name_is_an_error(self, registry):
        registry.add("one", object())
        with pytest.raises(PluginError, match="gadget 'one' is registered twice"):
            registry.add("one", object())

    def test_an_unknown_name_is_told_with_the_known_ones(self, registry):
        registry.add("spanner", object())
        with pytest.raises(
            UnknownNameError, match="unknown gadget 'spaner'; did you mean 'spanner'\\? known: spanner"
        ):
            registry.get("spaner")

    def test_registries_don_t_share_parts(self, registry):
        registry.add("one", object())
        assert Registry("gadget", "turnwise.test_gadgets").names() == ()


def test_a_part_may_be_named_by_a_module_of_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / f"{MODULE}_here.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry = Registry("gadget", "turnwise.test_gadgets", modules=True)
    assert registry.get(f"{MODULE}_here:loud") is sys.modules.pop(f"{MODULE}_here").loud
    with pytest.raises(PluginError, match=f"{MODULE}_nowhere:loud.*failed to load"):
        registry.get(f"{MODULE}_nowhere:loud")
    with pytest.raises(UnknownNameError):
        Registry("gadget", "turnwise.test_gadgets").get(f"{MODULE}_here:loud")


@pytest.mark.usefixtures("installed")
class TestLazy:
    def test_nothing_is_imported_before_it_is_asked_for(self, registry):
        registry.add_lazy("late", f"{MODULE}:loud")
        assert "late" in registry.names()
        assert MODULE not in sys.modules
        part = registry.get("late")
        assert part is sys.modules[MODULE].loud
        assert registry.get("late") is part

    def test_another_target_under_a_taken_name_is_an_error(self, registry):
        registry.add_lazy("late", f"{MODULE}:loud")
        registry.add_lazy("late", f"{MODULE}:loud")
        with pytest.raises(PluginError, match="gadget 'late' is registered twice"):
            registry.add_lazy("late", f"{MODULE}:Loud")

    def test_a_target_under_the_name_of_a_part_is_an_error(self, registry):
        registry.add("taken", object())
        with pytest.raises(PluginError, match="gadget 'taken' is registered twice"):
            registry.add_lazy("taken", f"{MODULE}:loud")


@pytest.mark.usefixtures("installed")
class TestInstalledPackage:
    def test_its_parts_are_listed_without_importing_it(self, registry):
        assert registry.names() == ("absent", "broken", "loud")
        assert MODULE not in sys.modules

    def test_its_parts_are_found_by_name(self, registry):
        part = registry.get("loud")
        assert part is sys.modules[MODULE].loud
        assert registry.get("loud") is part

    def test_a_part_that_ships_wins(self, registry):
        registry.add("loud", "ours")
        assert registry.get("loud") == "ours"
        assert registry.names() == ("absent", "broken", "loud")

    def test_another_group_is_another_kind(self, registry):
        with pytest.raises(UnknownNameError, match="unknown gadget 'quiet'"):
            registry.get("quiet")

    @pytest.mark.parametrize(
        ("name", "reason"), [("broken", "no licence found"), ("absent", "has no attribute 'absent'")]
    )
    def test_one_that_can_t_be_loaded_says_which_and_why(self, registry, name, reason):
        with pytest.raises(PluginError, match=f"gadget '{name}' \\({MODULE}.*\\) failed to load: .*{reason}"):
            registry.get(name)

    def test_a_broken_one_does_not_hinder_the_others(self, registry):
        with pytest.raises(PluginError):
            registry.get("broken")
        assert registry.get("loud") is sys.modules[MODULE].loud
