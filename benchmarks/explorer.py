"""The explorer on a large store: how long a first view, a filter, a page and a search take, and memory.

python benchmarks/explorer.py make STORE            # 100,000 sequences, 1.5 million scores, made from a seed
python benchmarks/explorer.py data STORE            # the data layer alone, in this process
python benchmarks/explorer.py inbox STORE           # from the start to the most serious sentence, in Chromium
python benchmarks/explorer.py browser STORE         # a real server and Chromium: first views, memory
python benchmarks/explorer.py clicks STORE --minutes 10   # random clicking from a seed: errors, growth
python benchmarks/explorer.py flips STORE           # two runs compared, here and in Chromium: 30,000 sequences
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

SEQUENCES, TURNS = 100_000, 5
PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
SOURCES = ("chats_a", "chats_b", "chats_c", "red_team")
CATEGORIES = ("advice", "coding", "medicine", "money", "travel", "weapons")
TACTICS = ("flattery", "role_play", "slow_boil", "urgency", "")
LIMITS = {"filter": 0.3, "page": 0.3, "search": 0.3, "sort": 0.3, "first warm": 3.0, "first cold": 10.0}
MOST_TO_SENTENCE = 3.0
MOST_BY_KEY = 0.15
MOST_MEMORY = 700 * 10**6
LEFT_EARLY = "Quasar is not defined"
"""What a page throws that is left before its scripts have come; nobody sees it."""


def main() -> None:
    """Run the part that was asked for."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "data", "inbox", "browser", "clicks", "flips"))
    parser.add_argument("store", type=Path)
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.what == "make":
        make(given.store, given.sequences, given.seed)
    elif given.what == "data":
        data(given.store)
    elif given.what == "inbox":
        inbox(given.store)
    elif given.what == "browser":
        browser(given.store)
    elif given.what == "flips":
        flips(given.store, given.seed)
    else:
        clicks(given.store, given.minutes, given.seed)


def make(file: Path, sequences: int, seed: int) -> None:
    """Write a store of generated conversations with three scores a turn; written by rows, which takes a minute."""
    from turnwise.conversation import Conversation, Label, Sequence
    from turnwise.store import Run, Store

    began = time.perf_counter()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with Store(file, create=True) as store:
        store.start_run(Run("generated", "scripted:0.1", "1", "history", {}, {}, "benchmark", now))
    when = now.isoformat(timespec="microseconds")
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA synchronous = OFF")
        for n, principle in enumerate(PRINCIPLES, start=1):
            db.execute("INSERT INTO provenances VALUES (?, 1, ?, '1', 'benchmark')", (n, principle))
        generator = random.Random(seed)
        said = texts(generator)
        for first in range(1, sequences + 1, 5_000):
            heads, turns, scores = [], [], []
            for key in range(first, min(first + 5_000, sequences + 1)):
                attack = generator.random() < 0.3
                facts = {
                    "category": generator.choice(CATEGORIES),
                    "tactic": generator.choice(TACTICS[: 4 + (not attack)]),
                }
                name = f"chat-{key:06}"
                label, source = "attack" if attack else "benign", generator.choice(SOURCES)
                spoken = [(generator.choice(said), generator.choice(said)) for _ in range(TURNS)]
                chat = Conversation.from_turns(spoken, conversation_id=name)
                digest = Sequence(name, Label(label), source, chat, facts).content_hash()
                conversation = json.dumps(chat.to_dict(turns=False))
                heads.append(
                    (
                        key,
                        name,
                        label,
                        source,
                        TURNS,
                        digest,
                        conversation,
                        json.dumps(facts),
                        when,
                    )
                )
                level = generator.random() * 0.3
                for turn, (prompt, response) in enumerate(spoken, start=1):
                    turns.append((key, turn, prompt, response, len(prompt), len(response), None, None, "{}"))
                    level = min(1.0, max(0.0, level + generator.gauss(0.12 if attack else 0.0, 0.08)))
                    for n, principle in enumerate(PRINCIPLES, start=1):
                        F = min(1.0, max(0.0, level + generator.gauss(0, 0.05)))
                        row = (1, key, principle, turn, "prompt", n, None, 0.01, None, when)
                        scores.append((*row, 1 - F, generator.random() / 2, F, None))
            db.executemany("INSERT INTO sequences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", heads)
            db.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", turns)
            columns = "run, sequence, principle, turn, side, provenance, reply, latency_s, cost_usd, created_at"
            marks = ", ".join("?" * 14)
            db.executemany(f"INSERT INTO evaluations ({columns}, T, I, F, reasoning) VALUES ({marks})", scores)
            db.commit()
    print(
        f"{file}: {sequences} sequences, {file.stat().st_size / 1e6:.0f} MB, {time.perf_counter() - began:.0f} s"
    )


def texts(generator: random.Random) -> list[str]:
    """Return texts of some sixty words each, frequent and rare ones as in a language (Zipf)."""
    syllables = [c + v for c in "bdfgklmnprst" for v in "aeiou"]
    words = ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(20_000)]
    summed = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [
        " ".join(generator.choices(words, cum_weights=summed, k=generator.randint(20, 100))) for _ in range(5_000)
    ]


def data(file: Path) -> None:
    """Time the data layer: the mirror made, then filters, pages, sorts and searches."""
    from turnwise.explorer import Answers, Filter, ViewedStore, overview
    from turnwise.store import Store

    with Store(file) as store:
        record = ViewedStore(store)
        answers = Answers(record)
        words = answers.words
        report("mirror made", [once(lambda: overview.counts(record))], LIMITS["first cold"])
        report("overview", times(lambda: (overview.counts(record), overview.means(record, "generated"))), 1.0)
        report("words indexed", [once(words.wait)], 600.0)
        size = sum(part.stat().st_size for part in file.parent.glob(f"{file.name}-words*"))
        print(f"index of words: {size / 1e6:.0f} MB")
        run = Filter(run="generated")
        for what, filters in cases(run).items():
            for name, wanted in filters.items():
                report(f"{what}: {name}", times(lambda wanted=wanted: answers.find(wanted)), LIMITS[what])
        words.close()
    print(f"memory: {memory() / 1e6:.0f} MB at most; required {MOST_MEMORY / 1e6:.0f}")


def cases(run: object) -> dict[str, dict[str, object]]:
    """Return what is asked of the table, by the limit that holds for it."""
    from dataclasses import replace

    return {
        "filter": {
            "label": replace(run, label="attack"),
            "source and category": replace(run, source="red_team", category="money"),
            "flagged": replace(run, flagged="yes"),
            "slope as a rule": replace(run, rule="slope(F) > 0.1", flagged="yes"),
            "F of a principle": replace(run, principle="reciprocity", least=0.8),
        },
        "page": {"second": replace(run, page=2), "last": replace(run, page=2_000)},
        "sort": {"highest F": replace(run, sort="F", descending=True), "id": replace(run, sort="id", page=100)},
        "search": {"frequent word": replace(run, words="ba"), "two words": replace(run, words="ba di -fo")},
    }


def inbox(file: Path) -> None:
    """Time how long it is to the most serious sentence: the data alone, and from the start in a browser."""
    from explored import chromium, explored

    from turnwise.runs import inbox as read_inbox
    from turnwise.runs import sentence

    def first() -> str:
        with Store(file) as store:
            if decided := [one.sequence_id for one in store.people.reviews()]:  # by an earlier measurement
                store.people.review(decided, "new", author="benchmark")
            found = read_inbox(store)
            told = sentence(store, found.items[0])
            print(f"{found.total:,} flagged: {found.items[0].sequence_id}, turn {found.items[0].turn}")
        return told.text[told.start : told.end]

    from turnwise.store import Store

    began = time.perf_counter()
    said = first()
    print(f"{time.perf_counter() - began:.2f} s where verdicts had to be reached, or not")
    began = time.perf_counter()
    first()
    report("inbox and sentence of kept verdicts", [time.perf_counter() - began], 0.5)
    with chromium() as driven:
        page = driven.new_page()
        began = time.perf_counter()
        with explored("--store", str(file)) as running:
            print(f"{time.perf_counter() - began:.2f} s until it listens")
            page.goto(running.address, wait_until="commit")
            page.get_by_text(said[:40]).first.wait_for(timeout=60_000)
            report("from the start to the most serious sentence", [time.perf_counter() - began], MOST_TO_SENTENCE)
            report("a decision by key until the next one is shown", _decided(page), MOST_BY_KEY)


def _decided(page: Any) -> list[float]:
    """Confirm and dismiss in turn by key; seconds until the next conversation stands there."""
    page.get_by_label("Your name").fill("benchmark")
    page.wait_for_function("localStorage.getItem('turnwise-name') === 'benchmark'")
    page.evaluate("document.activeElement.blur()")
    seconds = []
    for key in "cxcxcxcxcxcxcxcxcxcx":
        before = page.locator(".inbox-detail h2").inner_text()
        began = time.perf_counter()
        page.keyboard.press(key)
        page.wait_for_function("one => document.querySelector('.inbox-detail h2')?.innerText !== one", arg=before)
        seconds.append(time.perf_counter() - began)
    return seconds


def browser(file: Path) -> None:
    """Time first views of a real server in a real Chromium: with the mirror still to be made, and with it."""
    from explored import chromium, explored

    with explored("--store", str(file)) as running, chromium() as driven:
        for what, path in {
            "first cold": "/overview",
            "first warm": "/overview",
            "table": "/sequences",
            "query": "/query",
        }.items():
            limit = LIMITS["first cold" if what == "first cold" else "first warm"]
            report(f"{what} view {path}", [first_view(driven, running, path)], limit)
        page = driven.new_page()
        page.goto(running.address)
        page.goto(running.url + "/sequences?run=generated")
        page.get_by_role("row").nth(10).wait_for()
        began = time.perf_counter()
        page.get_by_label("Label", exact=True).click()
        page.get_by_role("option", name="attack", exact=True).click()
        page.wait_for_function("!document.querySelector('[role=status]').textContent.startsWith('100,000')")
        report("filter, seen in the browser", [time.perf_counter() - began], 0.5)
        began = time.perf_counter()
        page.get_by_role("button", name="highest F").click()
        page.locator("th[aria-sort=descending]").wait_for()
        report("sort, seen in the browser", [time.perf_counter() - began], 0.5)
        most = running.peak_memory() / 1e6
        print(f"memory of the server: {most:.0f} MB at most; required {MOST_MEMORY / 1e6:.0f}")


def add_run(file: Path, seed: int) -> None:
    """Give a generated store a second run whose F differs by some noise, times over 24 weeks, and models."""
    generator = random.Random(seed)
    with closing(sqlite3.connect(file)) as db:
        if db.execute("SELECT count(*) FROM runs").fetchone() != (1,):
            return
        db.create_function("noisy", 1, lambda F: min(1.0, max(0.0, F + generator.gauss(0, 0.06))))
        names = "observer, observer_version, context, parameters, operating_points, code_version, created_at"
        db.execute(f"INSERT INTO runs SELECT 2, 'again', {names} FROM runs")
        columns = "principle, principle_version, code_version"
        db.execute(f"INSERT INTO provenances SELECT id + 3, 2, {columns} FROM provenances")
        same = "sequence, principle, turn, side, reply, latency_s, cost_usd, created_at, reasoning, T, I"
        db.execute(
            f"INSERT INTO evaluations (run, provenance, F, {same}) "
            f"SELECT 2, provenance + 3, noisy(F), {same} FROM evaluations"
        )
        rows = db.execute("SELECT id, metadata FROM sequences").fetchall()
        start, between = datetime(2026, 1, 5, tzinfo=UTC), timedelta(weeks=24) / len(rows)
        times = [
            ((start + between * n).isoformat(timespec="microseconds"), key) for n, (key, _) in enumerate(rows)
        ]
        db.executemany("UPDATE turns SET timestamp = ? WHERE sequence = ? AND turn = 1", times)
        models = ("small-1", "small-2", "large-1")
        facts = [(json.dumps({**json.loads(told), "model": generator.choice(models)}), key) for key, told in rows]
        db.executemany("UPDATE sequences SET metadata = ? WHERE id = ?", facts)
        db.commit()


def flips(file: Path, seed: int) -> None:
    """Time two runs compared: the first answer, thresholds that move, facets, weeks, and the page in Chromium."""
    from explored import chromium, explored

    add_run(file, seed)
    for detector in ("any_turn", "cusum"):
        compared(file, detector)
    with explored("--store", str(file)) as running, chromium() as driven:
        page = driven.new_context().new_page()
        page.goto(running.address, wait_until="commit")
        for what in ("first", "later"):
            began = time.perf_counter()
            page.goto(running.url + "/runs", wait_until="commit")
            page.get_by_text("are flagged by one alone").wait_for()
            report(f"{what} view /runs", [time.perf_counter() - began], 3.0)
        field, shown = page.get_by_label("Threshold of A", exact=True), page.get_by_text("recall").first
        seconds = []
        for n in range(20):
            before = shown.inner_text()
            field.evaluate("field => field.select()")
            began = time.perf_counter()
            page.keyboard.insert_text(f"{0.3 + n / 40:.3f}")
            page.wait_for_function(
                "([element, before]) => element.textContent !== before", arg=[shown.element_handle(), before]
            )
            seconds.append(time.perf_counter() - began)
        report("threshold moved, seen in the browser", seconds, 0.5)


def compared(file: Path, detector: str) -> None:
    """Time what the page of two runs asks of the data layer, by one detector."""
    from turnwise.explorer import Answers, ViewedStore
    from turnwise.store import Store
    from turnwise.study import facet_rates, trends

    sides = ("generated", detector), ("again", detector)
    with Store(file) as store, Answers(ViewedStore(store)) as answers:
        report(f"first answer, {detector}", [once(lambda: answers.pair(*sides, True))], 3.0)
        pair = answers.pair(*sides, True)

        def step(threshold: float) -> None:
            pair.at((threshold, None))
            places = pair.flipped((threshold, None))
            pair.flips(store, places[:25], (threshold, None))
            facet_rates(pair, "model", (threshold, None))

        report(f"threshold moved, {detector}", [once(lambda n=n: step(0.3 + n / 40)) for n in range(20)], 0.1)
        report(f"weeks, {detector}", times(lambda: trends(store, pair.b, "model", facts=pair.facts)), 1.0)


def first_view(driven: Any, running: Any, path: str) -> float:
    """Return the seconds until a fresh browser shows the tables of a view."""
    page = driven.new_context().new_page()
    page.set_default_timeout(60_000)
    page.goto(running.address, wait_until="commit")
    began = time.perf_counter()
    page.goto(running.url + path, wait_until="commit")
    known = {
        "/overview": "Flagged by source",
        "/sequences": "of 100,000 sequences",
        "/query": "evaluated sequences match",
    }
    page.get_by_text(known[path]).first.wait_for()
    seconds = time.perf_counter() - began
    page.context.close()
    return seconds


def clicks(file: Path, minutes: float, seed: int) -> None:
    """Click at random in all views for some minutes: no error in page or server, and no growth of the server."""
    from explored import Watched, chromium, explored

    generator = random.Random(seed)
    with explored("--store", str(file)) as running, chromium() as driven:
        page = driven.new_page(viewport={"width": 1280, "height": 800})
        watched = Watched(page)
        page.goto(running.address)
        try_guard(page, running.url)
        print(f"memory {running.memory() / 1e6:.0f} MB with the guard at work")
        start, done, settled = time.monotonic(), 0, 0
        while (passed := time.monotonic() - start) < 60 * minutes:
            if done % 25 == 0:
                begin(page, running.url + generator.choice(("/overview", "/sequences", "/query")))
            step(page, generator)
            done += 1
            if not settled and passed > 60 * minutes / 3:
                settled = running.memory()
        grown = (running.memory() - settled) / 1e6
        errors = [error for error in watched.errors if error != LEFT_EARLY]
        said = [line for line in running.log if "Error" in line or "Traceback" in line]
        print(f"{done} steps in {minutes:g} minutes from seed {seed}: {len(errors)} errors in the page,")
        print(f"{len(said)} in the server; hosts asked: {watched.hosts()}")
        print(f"memory {running.memory() / 1e6:.0f} MB, {running.peak_memory() / 1e6:.0f} at most,")
        print(f"grown by {grown:.0f} MB since the first third")
        for line in (*errors[:5], *said[:5]):
            print(f"  {line[:200]}")
        if said:
            print("".join(running.log[-60:]))


def try_guard(page: Any, url: str) -> None:
    """Have a conversation checked, so that the embedded observer is there: it stays, and is no growth."""
    page.goto(f"{url}/guard?preset=customer_service")
    page.get_by_label("A conversation").fill("user: hello there\nassistant: hello")
    page.get_by_role("button", name="Check turn by turn").click()
    said = page.get_by_role("region", name="What the guard says")
    said.locator("tbody tr[data-item]").nth(1).wait_for(timeout=120_000)


def begin(page: Any, url: str) -> None:
    """Open a view. A link that was clicked just before may lead elsewhere in between: then it is tried again."""
    from playwright.sync_api import Error

    failed = []
    for _ in range(5):
        try:
            page.goto(url, wait_until="commit", timeout=5_000)  # it never comes where the other one came first
            page.locator("#content h1").first.wait_for()
            return
        except Error as error:
            failed.append(str(error).splitlines()[0])
            page.wait_for_load_state()  # the other page first: two at once would end each other again and again
    shown = page.locator("body").inner_text()[:500]
    raise AssertionError(f"{url} did not open: {failed}; the page shows {shown!r}")


def step(page: Any, generator: random.Random) -> None:
    """Do one thing that a user may do."""
    from playwright.sync_api import Error

    kind = generator.random()
    try:
        if kind < 0.6:
            found = page.locator("#content a:visible, #content button:visible:enabled, nav a")
            if count := found.count():
                found.nth(generator.randrange(min(count, 60))).click(timeout=2_000, no_wait_after=True)
        elif kind < 0.75:
            found = page.get_by_role("combobox")
            if count := found.count():
                found.nth(generator.randrange(count)).click(timeout=2_000)
                options = page.get_by_role("option")
                options.nth(generator.randrange(min(max(options.count(), 1), 5))).click(timeout=2_000)
        elif kind < 0.85:
            found = page.locator("#content input:visible, #content textarea:visible")
            if count := found.count():
                words = ("ba", "0.3", "2", "slope(F) > 0.1", "<b>", "F >= 0.5", "")
                found.nth(generator.randrange(count)).fill(generator.choice(words), timeout=2_000)
        else:
            page.keyboard.press(generator.choice(("j", "k", "/", "Escape", "Enter", "d")))
    except Error as error:  # what was there a moment ago is gone, or a field of numbers takes no words
        if "closed" in str(error):
            raise


def times(ask: Callable[[], object], repeats: int = 5) -> list[float]:
    """Return the seconds of several askings."""
    return [once(ask) for _ in range(repeats)]


def once(ask: Callable[[], object]) -> float:
    """Return the seconds of one asking."""
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def report(what: str, seconds: list[float], limit: float) -> None:
    """Print the first and the median time; the first is held against the limit: it is what a user waits for."""
    good = "ok" if seconds[0] <= limit else "TOO SLOW"
    median = statistics.median(seconds)
    print(f"{what:38} first {seconds[0]:7.3f} s   median {median:7.3f} s   limit {limit:g} s  {good}")


def memory() -> int:
    """Return the bytes of memory that this process held at most."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
