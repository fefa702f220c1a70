"""Observers by name: what ships, what a program adds, and what is said of a name that nobody has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from turnwise.cli import main
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, PluginError, UnknownNameError, UsageError
from turnwise.observers import (
    OBSERVERS,
    Context,
    ObserverInfo,
    ScriptedObserver,
    build_cost_estimator,
    build_observer,
    list_observers,
    observer_settings,
    read_settings,
)
from turnwise.principles import builtin_principles


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register an observer that can't be built, for this test."""
    monkeypatch.setattr(OBSERVERS, "_parts", dict(OBSERVERS._parts))

    @OBSERVERS.register("fragile")
    class Fragile(ScriptedObserver):
        def __init__(self, argument: str | None = None) -> None:
            if argument == "mine":
                raise ObserverError("its own words: mend it so")
            raise ValueError(f"no model {argument}")

        @classmethod
        def describe(cls) -> ObserverInfo:
            return ObserverInfo("fragile", "1", (), "breaks")

    yield


def test_what_ships_is_listed_with_what_it_needs() -> None:
    known = {info.name: info for info in list_observers()}
    assert {"local", "replay", "scripted"} <= set(known)
    assert list(known) == sorted(known)
    assert known["local"].needs == ""
    assert "JSONL" in known["replay"].needs
    assert all(info.version and info.summary and info.contexts for info in known.values())


def test_what_follows_the_colon_is_the_argument() -> None:
    assert build_observer("scripted:0.1,0.2").parameters == {"script": "0.1,0.2"}
    with pytest.raises(ObserverError, match="the scripted observer needs a script"):
        build_observer("scripted")
    # A second colon belongs to the argument, such as a path that has one.
    with pytest.raises(ObserverError, match=r"can't read recorded scores from nowhere:/scores\.jsonl"):
        build_observer("replay:nowhere:/scores.jsonl")


def test_an_unknown_observer_is_named_with_what_is_near() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown observer 'replai'; did you mean 'replay'\? known: .*local"
    ):
        build_observer("replai:x")


def test_what_a_program_registers_is_an_observer_too(fragile: None) -> None:
    assert "fragile" in {info.name for info in list_observers()}


def test_an_observer_that_can_not_be_built_says_why(fragile: None) -> None:
    with pytest.raises(ObserverError, match="observer 'fragile:x' can't be built: ValueError: no model x"):
        build_observer("fragile:x")
    with pytest.raises(ObserverError, match=r"^its own words: mend it so$"):
        build_observer("fragile:mine")


def test_settings_come_from_the_signature() -> None:
    settings = observer_settings("llm:openai/gpt-4.1-mini")
    assert {"temperature", "repeats", "budget_usd", "extra"} <= set(settings)
    assert not {"client", "journal", "clock", "environ", "settings"} & set(settings)
    assert settings["timeout"].default == 120.0
    assert set(observer_settings("local")) == {"cache_bytes", "device"}
    assert observer_settings("replay") == {}
    with pytest.raises(
        UnknownNameError, match="unknown setting of observer local 'cache'; did you mean 'cache_bytes'"
    ):
        build_observer("local", cache=1)
    assert read_settings("llm:x/y", ["repeats=3", "temperature=none", "cache=false"]) == {
        "repeats": 3,
        "temperature": None,
        "cache": False,
    }
    with pytest.raises(UsageError, match=r"setting repeats of observer llm: .*valid integer.*, not 'often'"):
        read_settings("llm:x/y", ["repeats=often"])


def test_only_what_costs_can_be_estimated() -> None:
    about = builtin_principles()[:1], [Turn(1, "Hello")], 1, Side.PROMPT, Context.parse("turn")
    estimator = build_cost_estimator("llm:openai/gpt-4.1-mini", repeats=3)
    assert [repeat for _, repeat in estimator.requests(*about)] == [1, 2, 3]
    with pytest.raises(UsageError, match="observer 'local' costs nothing"):
        build_cost_estimator("local")


def wrong_info(**changes: object) -> Callable[[], Any]:
    return lambda: replace(ScriptedObserver.describe(), **changes)


def boom() -> ObserverInfo:
    raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("describe", "told"),
    [
        (boom, "observer 'odd' can't be described (RuntimeError: boom)"),
        (lambda: {"name": "odd"}, "observer 'odd' must describe itself by an ObserverInfo, not dict"),
        (wrong_info(contexts=3), "observer 'odd' must give an ObserverInfo with a right contexts"),
        (wrong_info(name=None, principles="p"), "with a right name, principles"),
    ],
)
def test_a_plug_in_that_describes_itself_wrongly_is_named_in_a_line(
    describe: Callable[[], Any], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Odd(ScriptedObserver):
        info = property(lambda self: describe())  # type: ignore[assignment]

    monkeypatch.setattr(Odd, "describe", staticmethod(describe))
    monkeypatch.setitem(OBSERVERS._parts, "odd", Odd)
    with pytest.raises(SystemExit) as left:
        main(["list", "observers"])
    assert left.value.code == 1
    err = capsys.readouterr().err
    assert (err.startswith("error: "), told in err, err.count("\n")) == (True, True, 1)
    with pytest.raises(PluginError, match="observer 'odd'"):
        build_observer("odd:0.1")
