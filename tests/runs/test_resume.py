"""A scan that was stopped goes on: no part is done twice, and the findings are those of one that was not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_logs import SCRIPT, content
from tests.datasets.trace_samples import SAMPLES

from turnwise.errors import FindingsError, ObserverError
from turnwise.findings import SCORES, open_findings, part_file
from turnwise.runs import InlineEngine, Progress, ReadOptions, plan_scan

Logs = Callable[..., Path]


class StoppedAfter(InlineEngine):
    """An engine that raises once it has done so many parts; with `untold`, before the last of them is told."""

    def __init__(self, parts: int, *, untold: bool = False) -> None:
        self.left = parts
        self._untold = untold

    def run(self, work: Any, items: Iterable[Any]) -> Iterator[list[Any]]:
        """Yield what comes of parts, then raise."""
        for done in super().run(work, items):
            self.left -= 1
            if self._untold and not self.left:
                raise KeyboardInterrupt
            yield done
            if not self.left:
                raise KeyboardInterrupt


@pytest.mark.parametrize("untold", [False, True], ids=["told", "written and not told"])
def test_what_was_done_is_not_repeated_and_the_bytes_are_the_same(
    logs: Logs, tmp_path: Path, untold: bool
) -> None:
    path = logs(count=100)
    plan_scan(path, tmp_path / "undisturbed", observer=SCRIPT, part_rows=10).run()
    with pytest.raises(KeyboardInterrupt):
        plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run(StoppedAfter(4, untold=untold))
    unfinished = open_findings(str(tmp_path / "found"))
    assert not unfinished.manifest.complete
    result = plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run()
    assert (result.resumed, result.repeated) == (4, 6)
    assert content(tmp_path / "found") == content(tmp_path / "undisturbed")


def test_a_finished_scan_does_nothing_more(logs: Logs, tmp_path: Path) -> None:
    first = plan_scan(logs(), tmp_path / "found", observer=SCRIPT).run()
    again = plan_scan(tmp_path / "logs.jsonl", tmp_path / "found", observer=SCRIPT).run()
    assert (again.repeated, again.counts) == (0, first.counts)


def test_a_part_whose_file_is_cut_short_is_done_again(logs: Logs, tmp_path: Path) -> None:
    path = logs(count=40)
    plan_scan(path, tmp_path / "undisturbed", observer=SCRIPT, part_rows=10).run()
    with pytest.raises(KeyboardInterrupt):
        plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run(StoppedAfter(3))
    damaged = tmp_path / "found" / part_file(SCORES, 1)
    damaged.write_bytes(damaged.read_bytes()[:100])
    (tmp_path / "found" / ".scores-000003.parquet.7.partial").write_bytes(b"cut off")
    assert plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run().repeated == 2
    assert content(tmp_path / "found") == content(tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("given", "differs"),
    [
        ({"observer": "scripted:0.2"}, "run.observer was .*, now .*0.2"),
        ({"detector": "any_turn"}, "detector.spec was"),
        ({"part_rows": 9}, "part_rows was 10, now 9"),
        ({"sides": ["response"]}, "selection.sides was"),
        ({"where": "turns > 1"}, "selection.where was null"),
        ({"texts": False}, "selection.texts was true"),
        ({"read": ReadOptions(label="benign")}, "reading.label was null"),
    ],
)
def test_another_configuration_is_refused_with_what_differs(
    logs: Logs, tmp_path: Path, given: dict[str, Any], differs: str
) -> None:
    path = logs()
    plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run()
    before = content(tmp_path / "found")
    with pytest.raises(FindingsError, match=differs):
        plan_scan(path, tmp_path / "found", **{"observer": SCRIPT, "part_rows": 10, **given}).run()
    assert content(tmp_path / "found") == before


def test_a_scan_that_did_nothing_leaves_its_folder_to_the_next(logs: Logs, tmp_path: Path) -> None:
    """Whatever was wrong with the first, nothing is lost by another configuration."""
    path = logs()

    class Broken(InlineEngine):
        def run(self, work: Any, items: Iterable[Any]) -> Iterator[list[Any]]:
            raise ObserverError("no key")

    with pytest.raises(ObserverError):
        plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=9).run(Broken())
    plan_scan(path, tmp_path / "found", observer=SCRIPT, part_rows=10).run()
    assert open_findings(str(tmp_path / "found")).manifest.complete


def test_an_input_that_changed_is_refused(logs: Logs, tmp_path: Path) -> None:
    path = logs()
    plan_scan(path, tmp_path / "found", observer=SCRIPT).run()
    changed = path.read_bytes().replace(b"tide", b"TIDE", 1)
    path.write_bytes(changed)
    with pytest.raises(FindingsError, match=r"the input .*logs\.jsonl has changed"):
        plan_scan(path, tmp_path / "found", observer=SCRIPT).run()


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_a_folder_of_transcripts_goes_on_where_it_stopped(tmp_path: Path, name: str) -> None:
    write, folder = SAMPLES[name][0], tmp_path / "sessions"
    for at in range(30):
        lines = (json.dumps(line).replace("chat-7", f"chat-{at:02}") for line in write())
        file = folder / f"{at % 3}" / f"rollout-{at:02}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines))
    read = ReadOptions(format=name)
    plan_scan(folder, tmp_path / "undisturbed", observer=SCRIPT, part_rows=5, read=read).run()
    with pytest.raises(KeyboardInterrupt):
        plan_scan(folder, tmp_path / "found", observer=SCRIPT, part_rows=5, read=read).run(StoppedAfter(2))
    result = plan_scan(folder, tmp_path / "found", observer=SCRIPT, part_rows=5, read=read).run()
    assert (result.resumed, result.repeated) == (2, 4)
    assert content(tmp_path / "found") == content(tmp_path / "undisturbed")
    assert result.counts.conversations == 30
    file.write_text(file.read_text().replace("Thanks!", "Thank you!"))
    with pytest.raises(FindingsError, match=r"the input .*sessions has changed"):
        plan_scan(folder, tmp_path / "found", observer=SCRIPT, part_rows=5, read=read).run()


def test_a_folder_with_something_else_is_refused(logs: Logs, tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "thesis.txt").write_text("mine")
    with pytest.raises(FindingsError, match=r"has no manifest\.json \(it has thesis\.txt\)"):
        plan_scan(logs(), tmp_path / "found", observer=SCRIPT).run()


def test_a_manifest_that_is_damaged_or_of_a_later_layout_says_so(logs: Logs, tmp_path: Path) -> None:
    path = logs()
    plan_scan(path, tmp_path / "found", observer=SCRIPT).run()
    manifest = tmp_path / "found" / "manifest.json"
    later = {**json.loads(manifest.read_text()), "layout": 2}
    manifest.write_text(json.dumps(later))
    with pytest.raises(FindingsError, match="layout 2, and this version of turnwise reads 1"):
        plan_scan(path, tmp_path / "found", observer=SCRIPT).run()
    manifest.write_text("{")
    with pytest.raises(FindingsError, match="damaged"):
        plan_scan(path, tmp_path / "found", observer=SCRIPT).run()


def test_two_scans_do_not_write_to_one_folder_at_a_time(logs: Logs, tmp_path: Path) -> None:
    plan = plan_scan(logs(), tmp_path / "found", observer=SCRIPT)
    refused = 0

    def meanwhile(progress: Progress) -> None:
        nonlocal refused
        with pytest.raises(FindingsError, match="another scan writes to"):
            plan.run()
        refused += 1

    plan.run(progress=meanwhile)
    assert refused
    plan.run()
