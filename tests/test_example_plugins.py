"""examples/plugins: a plug-in of every kind, found by its name as an installed package is, and kept by its kit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise import Conversation
from turnwise.cli import main
from turnwise.datasets import DATASETS, check_loader, get_loader, open_dataset
from turnwise.detectors import DETECTORS, build_detector, check_detector
from turnwise.errors import TurnwiseError
from turnwise.guard import GUARDRAILS, GuardrailPipeline, check_guardrail, check_state_store
from turnwise.observers import OBSERVERS, build_observer, check_observer
from turnwise.patterns import default_library, match, named
from turnwise.principles import list_principles, load_principle

FOLDER = Path(__file__).parent.parent / "examples" / "plugins"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TICKET = {
    "ticket": "t1",
    "exchanges": [["Where is it?", "On its way."], ["You promised!", "I did."]],
    "escalated": True,
}


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put the package on the path with the entry points of its pyproject.toml, as an installer would."""
    site = tmp_path_factory.mktemp("site")
    info = site / "turnwise_example_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: 1.0\n", "utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in parts.items())
        for group, parts in PROJECT["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(groups), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.syspath_prepend(str(site))
        for registry in (OBSERVERS, DETECTORS, DATASETS, GUARDRAILS):
            patch.setattr(registry, "_parts", dict(registry._parts))
        default_library.cache_clear()
        yield
    default_library.cache_clear()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    lines = [TICKET, {**TICKET, "ticket": "t2", "escalated": False}]
    path = tmp_path / "export.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def test_the_detector_keeps_its_contract() -> None:
    check_detector(lambda: build_detector("recent_mean"))
    check_detector(lambda: build_detector("recent_mean:turns=1,limit=0.2"))
    with pytest.raises(TurnwiseError, match="turns must be at least 1"):
        build_detector("recent_mean:turns=0")


def test_the_observer_keeps_its_contract() -> None:
    check_observer(lambda: build_observer("pressure"))
    check_observer(lambda: build_observer("pressure:map,story", weight=0.5))
    with pytest.raises(TurnwiseError, match="give words"):
        build_observer("pressure:now,,owe")


def test_the_guardrail_keeps_its_contract_and_redacts() -> None:
    from example_plugins.guardrail import Tickets

    check_guardrail(Tickets())
    pipeline = GuardrailPipeline({"guardrails": [{"tickets": {"action": "redact"}}]})
    assert pipeline.check_output("See TCK-123456.").text == "See [TICKET]."


def test_the_loader_keeps_its_contract(export: Path) -> None:
    check_loader(lambda: get_loader("helpdesk"), export)
    assert [(one.sequence_id, str(one.label)) for one in open_dataset(export)] == [
        ("t1", "attack"),
        ("t2", "benign"),
    ]


def test_the_principle_is_found_by_its_name_and_by_its_folder() -> None:
    candour = load_principle("candour")
    assert candour in list_principles()
    assert load_principle(FOLDER / "example_plugins" / "candour") == candour


def test_the_pattern_matches_its_example_at_the_turn_that_it_is_about() -> None:
    pattern = default_library().get("two_bad_turns")
    assert match(named("two_bad_turns"), pattern.example_turns()).turn == 4
    check_detector(lambda: build_detector("pattern:two_bad_turns"))


def test_the_state_store_keeps_its_contract_and_carries_a_conversation() -> None:
    from example_plugins.state_store import MappingStateStore

    check_state_store(lambda **settings: MappingStateStore({}, **settings))
    config = {"guardrails": ["pii", {"drift": {"observer": "scripted:0.1,0.1"}}]}
    kept: dict[str, bytes] = {}
    first, second = (GuardrailPipeline(config, state_store=MappingStateStore(kept)) for _ in range(2))
    chat = Conversation.human_ai("ann", "gpt-4", conversation_id="chat-7")
    first.check_input("How do splines work?", conversation=chat)
    assert second.load_conversation("chat-7").turn(1).prompt == "How do splines work?"


def test_all_of_them_work_together_on_the_command_line(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "s.db")]
    for command in (
        ["import", str(export), *store],
        ["evaluate", *store, "--run", "r", "--observer", "pressure:promised", "--principle", "candour"],
        ["detect", *store, "--run", "r", "--detector", "recent_mean:limit=0.1", "--json"],
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(command)
        assert left.value.code == 0, capsys.readouterr().err
    verdicts = {one["sequence_id"]: one for one in json.loads(capsys.readouterr().out)}
    assert set(verdicts) == {"t1", "t2"}
    assert verdicts["t1"]["reason"] == "candour mean F 0.150 ≥ 0.100 at turn 2"
