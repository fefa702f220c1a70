"""The Ray engine: actors on one machine or on a cluster, each with an observer of its own.

Items come from a generator in the driver and may carry the texts of a part, and a scan may have more of them than
fit into memory. Ray Data reads from sources of its own, in its own workers, or takes what is in memory already;
`ray.util.ActorPool` submits all that it is given before it waits. So the actors are kept busy here: each has the
item that it does and one more, and the next is taken from the generator when one comes back.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from turnwise import __version__
from turnwise.errors import ObserverError, PluginError, TurnwiseError, UsageError
from turnwise.runs.engines import Item, PaidWork, Result, SpendingLimits, WorkerSetup, check_travels, checked_jobs

if TYPE_CHECKING:
    from types import ModuleType

TRIES = 3
"""How often an item is begun: one that kills each worker that takes it would else go on for ever."""

AHEAD = 2
"""Items that an actor has at a time: the one that it does, and the next."""

STORE_BYTES = 512 << 20
"""Bytes of items on their way that a Ray of our own keeps in memory; it writes more to its folder in /tmp."""


class RayEngine:
    """Does items in Ray actors, each with its share of a GPU; a worker that dies is replaced, and its item done
    again. Without an `address` Ray is started on this machine for as long as the scan takes."""

    def __init__(self, jobs: int | None = None, address: str | None = None, gpus: float = 0.0) -> None:
        self._jobs = None if jobs is None else checked_jobs(jobs)
        self._address = address
        self._gpus = gpus
        _ray(alone=address in {None, "local"})

    def run(self, work: WorkerSetup[Item, Result], items: Iterable[Item]) -> Iterator[list[Result]]:
        check_travels(work)
        with self.cluster() as ray, _sharing(ray, work) as shared:
            pickled = pickle.dumps(shared)
            jobs = self._jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
            actor = ray.remote(num_cpus=1, num_gpus=self._gpus, max_restarts=-1, max_task_retries=TRIES - 1)(
                _Actor
            )
            actors = [actor.remote(pickled, __version__) for _ in range(jobs)]
            try:
                yield from _done(ray, actors, items)
            finally:
                for one in actors:
                    ray.kill(one, no_restart=True)

    @contextmanager
    def cluster(self) -> Iterator[ModuleType]:
        """Join the cluster, or have a Ray of our own meanwhile; one that the program has joined is used as is."""
        alone = self._address in {None, "local"}
        ray = _ray(alone=alone)
        if ray.is_initialized():
            yield ray
            return
        settings: dict[str, Any] = {"address": self._address}
        if alone:
            settings = {
                "address": "local",
                "num_cpus": self._jobs,
                "include_dashboard": False,
                "object_store_memory": STORE_BYTES,
            }
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **settings)
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            raise UsageError(
                f"no Ray cluster at {self._address!r} ({first}); start one by `ray start --head`, or "
                "leave --address out to use this machine alone"
            ) from error
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _sharing(ray: ModuleType, work: WorkerSetup[Item, Result]) -> Iterator[WorkerSetup[Item, Result]]:
    """Yield work whose workers share a budget and a pace, which an actor keeps meanwhile."""
    if not isinstance(work, PaidWork) or work.limits is None:
        yield work
        return
    books = ray.remote(num_cpus=0)(_Books).options(name=f"turnwise-{uuid4()}").remote(work.limits)
    try:
        yield work.with_allowance(RayAllowance(ray.get(books.name.remote())))
    finally:
        ray.kill(books, no_restart=True)


class _Books:
    """The ledger as an actor."""

    def __init__(self, limits: SpendingLimits) -> None:
        from turnwise.observers.llm.limits import Ledger

        self._ledger = Ledger(*limits)

    def name(self) -> str:
        import ray

        return str(ray.get_runtime_context().get_actor_name())

    def call(self, worker: str, name: Any, argument: Any) -> Any:
        return self._ledger.call(worker, name, argument)

    def gone(self, worker: str) -> None:
        self._ledger.gone(worker)


@dataclass
class RayAllowance:
    """Carries the calls of an actor to the one that keeps the books, which has this `name`."""

    name: str
    _books: Any = field(default=None, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return RayAllowance, (self.name,)

    def call(self, name: str, argument: Any) -> Any:
        """Have the ledger do something for this actor; see `limits.Allowance.call`."""
        import ray

        worker = ray.get_runtime_context().get_actor_id()
        try:
            with self._lock:
                if self._books is None:
                    self._books = ray.get_actor(self.name)
                    ray.get(self._books.gone.remote(worker))  # of the actor that this one replaces
            return ray.get(self._books.call.remote(worker, name, argument))
        except (ray.exceptions.RayError, ValueError) as error:
            raise ObserverError(
                "the actor that keeps the common budget is gone; the same command continues"
            ) from error


def _done(ray: ModuleType, actors: list[Any], items: Iterable[Any]) -> Iterator[list[Any]]:
    queue = iter(items)
    last = object()
    under_way: dict[Any, Any] = {}
    free = [actor for _ in range(AHEAD) for actor in actors]
    while True:
        while free and (item := next(queue, last)) is not last:
            actor = free.pop(0)
            under_way[actor.do.remote(item)] = actor
        if not under_way:
            return
        ready, _ = ray.wait(list(under_way), num_returns=1)
        for reference in ready:
            free.append(under_way.pop(reference))
            try:
                done, fault = ray.get(reference)
            except ray.exceptions.RayActorError as error:
                raise ObserverError(
                    f"a Ray worker died, and so did those that took its part, {TRIES} in all; the same command "
                    "continues where it stopped (--engine inline shows the cause)"
                ) from error
            except ray.exceptions.RayError as error:
                said = str(error).strip().rpartition("\n")[2]  # behind a traceback
                raise ObserverError(f"a Ray worker failed: {said}; the same command continues") from error
            if fault is not None:
                raise ObserverError(fault)
            yield [done]


class _Actor:
    """A worker in an actor; it is made at its first item, so that what is wrong with it can be told."""

    def __init__(self, work: bytes, version: str) -> None:
        self._work = work
        self._version = version
        self._do: Callable[[Any], Any] | None = None

    def do(self, item: Any) -> tuple[Any, str | None]:
        """What came of an item, or why nothing can be done any more."""
        try:
            if self._do is None:
                if self._version != __version__:
                    raise ObserverError(
                        f"a Ray worker has turnwise {__version__}, this is {self._version}: rows would differ; "
                        "install the same version on all nodes"
                    )
                opened: WorkerSetup[Any, Any] = pickle.loads(self._work)  # made by the driver
                self._do = opened.open()
            return self._do(item), None
        except TurnwiseError as error:
            return None, str(error)


def _ray(*, alone: bool) -> ModuleType:
    """Import Ray; where it is to be alone on this machine, as one that listens on the loopback address."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Otherwise a later Ray takes the graphics cards from workers that need none, and warns of it today.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if alone:
        # Without clusters Ray listens on the loopback address. It reads this when it is imported, on any system.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        return import_module("ray")
    except ImportError as error:
        raise PluginError('the engine ray needs Ray: pip install "turnwise[ray]"') from error
