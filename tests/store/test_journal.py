"""Replies that were paid for: kept before they are read, found again, and never by another request."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.conversation import Sequence
from turnwise.errors import StoreError
from turnwise.scoring import Call, Evaluation, Reply, ReplyJournal, Score
from turnwise.store import KeptReplies, Run, Store

MakeReply = Callable[..., Reply]

RECORD_AND_DIE = """
import os, signal, sys
from datetime import UTC, datetime
from turnwise.scoring import Reply
from turnwise.store import Store

store = Store(sys.argv[1])
for number in range(5):
    store.journal.record(
        Reply(f"k{number}", 1, f"reply {number}", "judge-1", None, None, 1, 1, 0.5, 0.1, "n", datetime.now(UTC))
    )
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_reply_comes_back_whole(location: str, store: Store, make_reply: MakeReply) -> None:
    journal: ReplyJournal = store.journal
    full = make_reply(text="ü {", refusal="no", finish_reason="length")
    bare = make_reply("k2", finish_reason=None, prompt_tokens=None, completion_tokens=None, cost_usd=None, text="")
    for reply in (full, bare):
        journal.record(reply)
    with Store(location) as again:
        assert again.journal.find("k1", 1) == full
        assert again.journal.find("k2", 1) == bare


def test_only_the_same_asking_of_the_same_request_is_answered(store: Store, make_reply: MakeReply) -> None:
    store.journal.record(make_reply("k1", 2))
    assert store.journal.find("k1", 1) is None
    assert store.journal.find("k2", 2) is None
    assert store.journal.find("k1", 2) == make_reply("k1", 2)


def test_the_newest_reply_is_found(store: Store, make_reply: MakeReply) -> None:
    for text in ("first", "second"):
        store.journal.record(make_reply(text=text, nonce=text))
    found = store.journal.find("k1", 1)
    assert found is not None
    assert found.text == "second"


def test_half_a_surrogate_pair_costs_no_reply(store: Store, make_reply: MakeReply) -> None:
    store.journal.record(make_reply(text="cut off \ud83d", refusal="\ud83d"))
    found = store.journal.find("k1", 1)
    assert found is not None
    assert (found.text, found.refusal) == ("cut off \\ud83d", "\\ud83d")


def test_a_reply_is_on_disk_when_record_returns(location: str, store: Store) -> None:
    done = subprocess.run([sys.executable, "-c", RECORD_AND_DIE, location], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    found = [store.journal.find(f"k{number}", 1) for number in range(6)]
    assert [reply and reply.text for reply in found] == [*(f"reply {number}" for number in range(5)), None]


def test_fifty_threads_record_and_find_at_once(store: Store, make_reply: MakeReply) -> None:
    def work(number: int) -> list[str]:
        texts = []
        for repeat in range(1, 11):
            store.journal.record(make_reply(f"k{number}", repeat, text=f"{number}/{repeat}"))
            found = store.journal.find(f"k{number}", repeat)
            texts.append(found.text if found else "lost")
        return texts

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(work, range(50)))
    assert found == [[f"{number}/{repeat}" for repeat in range(1, 11)] for number in range(50)]


def test_a_closed_store_keeps_no_reply(location: str, make_reply: MakeReply) -> None:
    with closing(Store(location, create=True)) as store:
        journal = store.journal
    with pytest.raises(StoreError, match="the store is closed"):
        journal.record(make_reply())
    with pytest.raises(StoreError, match="the store is closed"):
        journal.find("k1", 1)


def test_what_is_kept_is_counted_by_model(store: Store, make_reply: MakeReply) -> None:
    assert store.journal.stats() == ()
    later = datetime(2026, 1, 2, tzinfo=UTC)
    store.journal.record(make_reply())
    store.journal.record(make_reply("k2", received_at=later, completion_tokens=None))
    store.journal.record(make_reply("k3", model="free", cost_usd=None))
    free, judge = store.journal.stats()
    assert judge == KeptReplies("judge-1", 2, 2, 240, 30, 0.002, make_reply().received_at, later)
    assert (free.model, free.replies, free.cost_usd) == ("free", 1, None)


def test_clearing_keeps_what_scores_rest_on(
    store: Store,
    make_reply: MakeReply,
    make_sequence: Callable[..., Sequence],
    make_run: Callable[..., Run],
    make_evaluation: Callable[..., Evaluation],
) -> None:
    store.add_sequences([make_sequence("a")])
    store.start_run(make_run())
    used, unused = make_reply(), make_reply("k2")
    for reply in (used, unused):
        store.journal.record(reply)
    call = Call(1, used, Score(0.5, 0.25, 0.125))
    other = make_evaluation("a", 2, raw_reply="of another observer")
    store.append([make_evaluation("a", calls=(call,), raw_reply=used.text), other])

    assert store.journal.clear() == 2
    assert store.journal.clear() == 0
    assert store.journal.find("k1", 1) is None
    assert store.journal.find("k2", 1) is None
    first, second = store.trajectory("first", "a", replies=True).evaluations
    assert first.calls == (call,)
    assert second.raw_reply == "of another observer"
    (kept,) = store.journal.stats()
    assert (kept.replies, kept.reusable) == (1, 0)

    again = replace(used, nonce="another", text="asked anew")
    store.journal.record(again)
    assert store.journal.find("k1", 1) == again


def test_replies_of_other_observers_answer_nothing(
    store: Store,
    make_sequence: Callable[..., Sequence],
    make_run: Callable[..., Run],
    make_evaluation: Callable[..., Evaluation],
    raw: Callable[..., list[tuple[Any, ...]]],
) -> None:
    store.add_sequences([make_sequence("a")])
    store.start_run(make_run())
    store.append([make_evaluation("a", raw_reply="said")])
    assert store.journal.stats() == ()
    assert store.journal.clear() == 0
    assert raw("SELECT text, request_key FROM replies") == [("said", None)]
