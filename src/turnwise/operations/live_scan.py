"""A scan of what a receiver gets: conversations are scored as they finish, and go into findings part by part."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from itertools import chain

from turnwise.conversation import Sequence
from turnwise.datasets import BadRecord
from turnwise.findings import PartEntry
from turnwise.operations.otlp_receiver import in_state
from turnwise.operations.spool import Spool
from turnwise.runs.engines import Tell
from turnwise.runs.parts import Part, Records
from turnwise.runs.scanning import ScanPlan


def scan_received(
    plan: ScanPlan,
    quiet: float,
    spool: Spool,
    stop: threading.Event,
    *,
    patience: float,
    progress: Tell | None = None,
) -> None:
    """Score conversations to which nothing came for `quiet` seconds, until the event is set.

    A conversation is in one part of the findings, also after a kill. One to which something comes later is scored
    anew, whole, under its id and a number.

    Args:
        plan: a plan without inputs, whose findings go on; see `turnwise.runs.plan_scan`.
        quiet: seconds without anything new after which a conversation has finished.
        spool: what was received.
        stop: is set where no more is to be begun.
        patience: seconds that a conversation which has finished waits for others of its part.
        progress: is told of each part.

    Raises:
        FindingsError: the folder has something else, or findings of another scan.
        ObserverError: the observer can't go on; what was received is kept.
    """

    def parts(done: Mapping[int, PartEntry]) -> Iterator[Part]:
        spool.settle(done)
        number, row = max(done, default=-1) + 1, sum(one.counts.rows for one in done.values()) + 1
        while chats := _finished(spool, quiet, plan.manifest.part_rows, patience, stop):
            since = time.time() - quiet
            items, states = _new(spool, chats)
            spool.give(number, chats, since, states)
            if items:
                yield Part(number, 0, row, len(items), Records(items), 0)
            spool.settle({number})  # a part is done when the next one is asked for
            number, row = number + bool(items), row + len(items)

    plan.run_live(parts, progress)


def _finished(spool: Spool, quiet: float, most: int, patience: float, stop: threading.Event) -> list[str]:
    """Conversations for a part; none once it is to end."""
    while not stop.is_set():
        chats = spool.finished(quiet, most)
        if len(chats) == most or spool.finished(quiet + patience, 1):
            return chats
        stop.wait(min(1.0, patience + 0.05))
    return []


def _new(spool: Spool, chats: list[str]) -> tuple[tuple[Sequence | BadRecord, ...], list[tuple[str, str]]]:
    """The sequences of conversations that are in no part yet, and name and digest of each."""
    items: list[Sequence | BadRecord] = []
    known: dict[str, list[str]] = {}
    states: list[tuple[str, str]] = []
    for one in chain.from_iterable(map(spool.conversation, chats)):
        if isinstance(one, BadRecord):
            items.append(one)
            continue
        name, digest = one.sequence_id, one.content_hash()
        if name not in known:
            known[name] = spool.states(name)
        digests = known[name]
        if digest not in digests:
            digests.append(digest)
            items.append(in_state(one, len(digests)))
            states.append((name, digest))
    return tuple(items), states
