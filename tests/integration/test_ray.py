"""The Ray engine on a real Ray of one machine: each part once, workers that die replaced, memory bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from ray_work import NotedWork, Result, items

from turnwise.errors import ObserverError, UsageError
from turnwise.runs.ray_engine import AHEAD, TRIES, RayEngine

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default::ResourceWarning")]

JOBS = 2


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Have one Ray for all tests, as `--address` would name it; started as the engine itself starts one."""
    support = str(Path(__file__).parents[1] / "support")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([support, os.environ.get("PYTHONPATH", "")]))
        with RayEngine(JOBS).cluster():
            yield


def names(folder: Path, begin: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{begin}-*"))


def _all(run: Iterator[list[Result]]) -> list[Result]:
    return [done for came in run for done in came]


def test_each_part_is_done_once_and_each_worker_is_opened_once(tmp_path: Path) -> None:
    done = _all(RayEngine(JOBS).run(NotedWork(tmp_path), items(12)))
    assert sorted(one.number for one in done) == list(range(12))
    assert len(names(tmp_path, "begun")) == 12
    assert 1 <= len(names(tmp_path, "opened")) <= JOBS


def test_parts_are_taken_only_as_there_is_room(tmp_path: Path) -> None:
    taken = 0

    def counted():
        nonlocal taken
        for item in items(30, size=300_000):
            taken += 1
            yield item

    run = RayEngine(JOBS).run(NotedWork(tmp_path), counted())
    most = 0
    for number, (done,) in enumerate(run):
        assert done.size == 300_000
        most = max(most, taken - number)
    assert most <= AHEAD * JOBS


def test_a_worker_that_dies_is_replaced_and_its_part_is_done_again(tmp_path: Path) -> None:
    done = _all(RayEngine(JOBS).run(NotedWork(tmp_path, dies_at=3, deaths=TRIES - 1), items(6)))
    assert sorted(one.number for one in done) == list(range(6))
    assert len(names(tmp_path, "begun-3")) == TRIES


def test_a_part_that_kills_every_worker_ends_the_scan(tmp_path: Path) -> None:
    run = RayEngine(1).run(NotedWork(tmp_path, dies_at=1, deaths=100), items(3))
    with pytest.raises(ObserverError, match=r"worker died.*the same command continues"):
        list(run)
    assert len(names(tmp_path, "begun-1")) == TRIES


def test_what_a_worker_can_t_go_on_with_is_told(tmp_path: Path) -> None:
    with pytest.raises(ObserverError, match="the observer can't go on"):
        list(RayEngine(1).run(NotedWork(tmp_path, fails_at=2), items(50)))
    assert len(names(tmp_path, "begun")) < 2 + 2 * AHEAD


def test_what_can_t_travel_is_told_before_anything_starts() -> None:
    class Local:
        def open(self):
            raise AssertionError

    with pytest.raises(UsageError, match="can't go to another process"):
        list(RayEngine(JOBS).run(Local(), items(1)))


def test_everything_listens_on_the_loopback_address() -> None:
    import psutil

    me, listening = psutil.Process(), set()
    for process in [me, *me.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # workers that Ray had begun in advance end by themselves
            connections = process.net_connections("inet")
            listening |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    assert listening
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
