"""What a person does with the embedded observers themselves: read their card, use weights of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from turnwise.conversation import Turn
from turnwise.observers import OBSERVERS, LocalObserver, LocalSmallObserver, Request, ScriptedObserver
from turnwise.scoring import Score

Cli = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the weights that ship for the small observer."""
    with resources.as_file(resources.files("turnwise.observers.local") / "weights" / "local-small") as shipped:
        return Path(shutil.copytree(shipped, tmp_path / "model"))


def test_the_card_says_what_a_reader_needs(cli: Cli) -> None:
    done = cli("list", "observers", "local-small")
    assert done.code == 0
    for heading in ("## Intended use", "## `local-small`: weights and training data", "## Known limits"):
        assert heading in done.out
    metrics = cli("list", "observers", "local", "--json").json
    assert metrics == {"local": LocalObserver.card_data()}


def test_weights_of_ones_own_have_a_card(cli: Cli, folder: Path) -> None:
    own = cli("list", "observers", f"local:{folder}").out
    assert own.replace(f"local:{folder}", "local-small") == cli("list", "observers", "local-small").out


def test_the_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "model-card.md"
    figures = {kind.name: kind.card_data() for kind in (LocalObserver, LocalSmallObserver)}
    assert page.read_text(encoding="utf-8") == LocalObserver.render_card(figures), (
        "the weights changed: python benchmarks/observer.py --data PATH --write --looks N, and people.py --write"
    )
    assert "not read yet" not in page.read_text(encoding="utf-8")


def test_the_card_opens_with_what_people_wrote_and_no_figure_goes_without_what_is_known_of_it(cli: Cli) -> None:
    people, _, rest = cli("list", "observers", "local").out.partition("## `local`: weights and training data")
    assert "a large language model judged, which also wrote part of the data" in " ".join(people.split())
    assert "Measured by `benchmarks/people.py`" in people
    for words in ("counselling", "jailbreaks over several turns that people wrote", "in other languages"):
        assert words in people
    rows = LocalObserver.card_data()["people"]
    assert rows
    for row in rows:
        measured_here = row["where"] == "by `benchmarks/people.py`"
        assert not measured_here or row["interval"], row["name"]
    assert "AUROC, all judged turns" in rest


def test_figures_of_other_weights_are_not_shown(cli: Cli, folder: Path) -> None:
    rows = [{"where": "here", "name": "calls that were weighed", "value": 0.25, "counts": [1, 4]}]
    digest = LocalSmallObserver.card_data()["weights_sha256"]
    for said, shown in ((digest, True), ("0" * 64, False)):
        lines = [json.dumps(one) for one in ({"weights_sha256": said}, *rows)]
        (folder / "people.jsonl").write_text("\n".join(lines), encoding="utf-8")
        card = cli("list", "observers", f"local-small:{folder}").out
        assert ("| calls that were weighed | 0.250 (1 of 4) | [0.006, 0.806] |" in card) is shown
    (folder / "people.jsonl").write_text("[]", encoding="utf-8")
    refused = cli("list", "observers", f"local-small:{folder}")
    assert (refused.code, "people.jsonl: not as benchmarks/people.py writes it" in refused.err) == (1, True)


def test_the_training_table_names_the_files_alone_that_were_trained_on() -> None:
    root = Path(__file__).parents[2]
    splits = json.loads((root / "corpus" / "judged" / "splits.json").read_text(encoding="utf-8"))["splits"]
    page = (root / "docs" / "model-card.md").read_text(encoding="utf-8")
    for path in sorted((root / "corpus").glob("human/*.jsonl")) + sorted((root / "corpus").glob("twins/*.jsonl")):
        ids = [json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines()]
        name = path.relative_to(root).as_posix()
        trained = any(splits[one] == "train" for one in ids)
        assert (f"| {name} |" in page) == trained, name
        assert name in page
    assert "| train/mtbench101.jsonl |" not in page
    assert "train" not in {split for name, split in splits.items() if name.startswith("mtbench101")}


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [("nobody", 2, "unknown observer 'nobody'"), ("local:nowhere", 1, "such a folder, as in local:path/to/model")],
)
def test_an_observer_that_is_not_there_is_refused(cli: Cli, name: str, code: int, message: str) -> None:
    done = cli("list", "observers", name)
    assert done.code == code
    assert message in done.err


@pytest.mark.parametrize("command", ["evaluate", "check"])
def test_a_principle_that_the_embedded_observer_does_not_know_is_refused_at_once(
    cli: Cli, imported: Path, candour: Path, tmp_path: Path, command: str
) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "Hello"}]', encoding="utf-8")
    about = ("check", chat) if command == "check" else ("evaluate", "--store", imported)
    done = cli(*about, "--observer", "local-small", "--principle", candour)
    assert done.code == 2
    assert done.err == (
        "error: observer 'local-small' can't score principle 'candour'; "
        "it scores only reciprocity, context_integrity, third_party_harm\n"
    )
    if command == "evaluate":
        assert cli("runs", "list", "--store", imported, "--json").json == []


def test_settings_of_the_embedded_observer_reach_its_worker_processes(cli: Cli, imported: Path) -> None:
    asked = ("evaluate", "--store", imported, "--observer", "local-small", "-j", 2)
    done = cli(*asked, "--observer-setting", "cache_bytes=1000000", "--json")
    assert (done.code, done.json["evaluations"]) == (0, 24), done.err
    wrong = cli(*asked, "--observer-setting", "cache=1")
    assert (wrong.code, "local-small has cache_bytes" in wrong.err) == (2, True)


def test_a_check_with_failed_evaluations_leaves_with_1(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(conversation_id: str, turn: Turn, request: Request) -> Score:
        if turn.number == 2:
            raise ValueError("no network")
        return Score(0.1, 0.1, 0.9)

    class Fails(ScriptedObserver):
        def __init__(self, argument: str | None = None) -> None:
            super().__init__(fails)

    monkeypatch.setitem(OBSERVERS._parts, "fails", Fails)
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "user", "content": text} for text in ("one", "two")]), encoding="utf-8")
    done = cli("check", chat, "--observer", "fails", "--principle", "reciprocity")
    assert done.code == 1
    assert "1 evaluations failed; the same command tries them again" in done.err
    assert "observer 'scripted' failed at turn 2: ValueError: no network" in done.err
    assert cli("check", chat, "--observer", "fails", "--fail-on-findings").code == 3
