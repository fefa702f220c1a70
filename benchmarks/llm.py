"""What runs with a language model must hold, against a server on the loopback interface.

    python benchmarks/llm.py [--part speed memory faults kills principle prefix] [--jobs 50] [--seed N]

Commands run as processes, as a user runs them, and are killed for real; the server runs in this process and counts
every request by what it asks. The exit code is 1 where a requirement is missed.

Shows: SC-004, SC-007.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from chat_server import LOST_FAULTS, REPLY_FAULTS, ChatServer, scores_by_text

from turnwise.conversation import Side
from turnwise.datasets import examples
from turnwise.observers import Context
from turnwise.observers.llm import fresh_nonce, render
from turnwise.principles import builtin_principles

TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]
PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
SEQUENCES, TURNS = 100, 5
CALLS = SEQUENCES * TURNS * len(PRINCIPLES)
LATENCY = 0.2
MODEL = "llm:openai/gpt-4.1-mini"


@dataclass
class Bench:
    """A folder, a server, and what was missed so far."""

    folder: Path
    jobs: int
    chance: random.Random
    asked: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def server(self, **settings: Any) -> Iterator[ChatServer]:
        """Start a server that counts what it is asked, told apart by everything but the nonce."""
        self.asked.clear()

        def answer(body: dict[str, Any]) -> str:
            text = "\n".join(message["content"] for message in body["messages"])
            nonce = re.findall(r"^<<([0-9a-f]{16,})>> END MATERIAL$", text, re.MULTILINE)[0]
            with self.lock:
                self.asked[hashlib.sha256(text.replace(nonce, "").encode()).hexdigest()] += 1
            return scores_by_text(body)

        server = ChatServer(answer, **settings)
        server.keep = False  # it would fill the memory
        with server:
            yield server

    def store(self, name: str, sequences: int = SEQUENCES) -> Path:
        """Make a store of conversations whose turns all differ."""
        data, path = self.folder / f"{name}.jsonl", self.folder / f"{name}.db"
        with data.open("w") as file:
            for number in range(sequences):
                turns = [
                    {"role": role, "content": f"{role} {number} says {turn}: {self.words()}"}
                    for turn in range(TURNS)
                    for role in ("user", "assistant")
                ]
                print(json.dumps({"id": f"c{number:04}", "label": "benign", "turns": turns}), file=file)
        self.run("import", data, "--store", path)
        return path

    def words(self) -> str:
        """Return some words at random."""
        return " ".join(self.chance.choices(["river", "garden", "letter", "tell", "me", "why", "not"], k=30))

    def evaluate(self, path: Path, server: ChatServer, *options: object) -> list[str]:
        """Return the command that evaluates a store against a server."""
        asking = ["--run", "r", "--observer", MODEL, "--base-url", server.url, "-j", str(self.jobs), "--json"]
        return [*TURNWISE, "evaluate", "--store", str(path), *asking, *map(str, options)]

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        """Start a command."""
        environ = {**os.environ, "OPENAI_API_KEY": "sk-for-the-benchmark", "XDG_CONFIG_HOME": str(self.folder)}
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, command: list[str]) -> tuple[Any, float, float]:
        """Run a command to its end; return what it printed, its seconds, and its peak memory in MB."""
        began = time.perf_counter()
        process = self.start(command)
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))  # type: ignore[union-attr]
        reader.start()
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        reader.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{command[2:]} failed with {process.returncode}: {errors[0]}")
        return json.loads(printed) if "--json" in command else printed, seconds, usage.ru_maxrss / 1024

    def run(self, *arguments: object) -> str:
        """Run a command of turnwise and return what it printed."""
        printed: str = self.finish([*TURNWISE, *map(str, arguments)])[0]
        return printed

    def check(self, what: str, measured: str, required: str, held: bool) -> None:
        """Print a figure beside what it has to be."""
        print(f"{'holds ' if held else 'MISSED'}  {what}: {measured} (required: {required})", flush=True)
        if not held:
            self.missed.append(what)


def main() -> int:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    given = parser.parse_args()
    print(f"seed {given.seed}, -j {given.jobs}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), given.jobs, random.Random(given.seed))
        for part in given.part:
            PARTS[part](bench)
    return 1 if bench.missed else 0


def speed(bench: Bench) -> None:
    """SC-004: 1,500 calls at 200 ms with 50 workers, against the time that waiting alone takes."""
    path = bench.store("speed")
    ideal = CALLS * LATENCY / bench.jobs
    with bench.server(latency=LATENCY) as server:
        summary, seconds, _ = bench.finish(bench.evaluate(path, server))
        most, calls = server.most_under_way, server.calls
        start = bench.finish(bench.evaluate(path, server))[1]  # the same command with nothing left to do
    print(f"        at most {most} requests under way, {summary['seconds']:.2f} s inside the command")
    bench.check("SC-004 calls", f"{calls}, {summary['evaluations']} scores", f"{CALLS}", calls == CALLS)
    bench.check(
        f"SC-004 {CALLS} calls of {LATENCY} s at -j {bench.jobs}",
        f"{seconds:.2f} s, {start:.2f} s of it start: {(seconds - start) / ideal:.2f} x the ideal {ideal:.1f} s",
        "1.15 x",
        seconds - start <= 1.15 * ideal,
    )


def memory(bench: Bench) -> None:
    """Peak memory must not grow with the number of calls."""
    peaks = {}
    for sequences in (SEQUENCES, 4 * SEQUENCES):
        path = bench.store(f"memory{sequences}", sequences)
        with bench.server() as server:
            summary, seconds, peaks[sequences] = bench.finish(bench.evaluate(path, server))
        print(
            f"        {summary['evaluations']} calls without latency: {seconds:.1f} s, {peaks[sequences]:.0f} MB"
        )
    growth = peaks[4 * SEQUENCES] / peaks[SEQUENCES]
    bench.check("memory, 6,000 calls against 1,500", f"{growth:.2f} x", "at most 1.15 x", growth <= 1.15)


def faults(bench: Bench) -> None:
    """A fifth of all calls fails: every score is made or explained, and running again fills exactly the gaps."""
    path = bench.store("faults")
    kinds = (*REPLY_FAULTS, *LOST_FAULTS, "400", "gateway_502")
    with bench.server(fail=0.2, faults=kinds, seed=bench.chance.randrange(1 << 30), latency=0.01) as server:
        server.retry_after = 0.1
        summary, seconds, _ = bench.finish(bench.evaluate(path, server, "--max-retries", 1, "--timeout", 0.8))
        failed = {kind: count for kind, count in server.given.items() if kind != "ok"}
        print(f"        {seconds:.1f} s, {server.calls} requests, {sum(failed.values())} failed: {failed}")
        rows = query(
            path,
            "SELECT DISTINCT sequence, principle, turn, side FROM evaluations UNION "
            "SELECT DISTINCT sequence, principle, turn, side FROM failures",
        )
        reasons = Counter(reason for (reason,) in query(path, "SELECT reason FROM failures WHERE message <> ''"))
        print(f"        failures by reason: {dict(reasons)}")
        bench.check("scores made or explained", f"{len(rows)}", f"{CALLS}", len(rows) == CALLS)
        explained = sum(reasons.values())
        bench.check(
            "failures with a reason",
            f"{explained}",
            f"{summary['failures']}",
            explained == summary["failures"] > 0,
        )
        server.fail, before = 0.0, server.calls
        again, _, _ = bench.finish(bench.evaluate(path, server))
        gaps = server.calls - before
    bench.check("calls of the second run", f"{gaps}", f"{summary['failures']}", gaps == summary["failures"])
    bench.check(
        "scores after it",
        f"{again['skipped'] + again['evaluations']}",
        f"{CALLS}",
        again["skipped"] + again["evaluations"] == CALLS,
    )


def kills(bench: Bench) -> None:
    """SIGKILL at ten random moments: no kept reply is bought again, and only what was in flight is lost."""
    path = bench.store("kills")
    moments = sorted(bench.chance.sample(range(1, CALLS), 10))
    lost = worst = 0
    with bench.server(latency=0.02) as server:
        for moment in moments:
            process = bench.start(bench.evaluate(path, server))
            while server.calls < moment and process.poll() is None:
                time.sleep(0.001)
            time.sleep(bench.chance.uniform(0, 0.03))
            process.kill()
            process.communicate()
            time.sleep(0.1)  # until the server has answered into the void what was under way
            kept = query(path, "SELECT count(*) FROM replies")[0][0]
            stored = query(path, "SELECT count(*) FROM evaluations")[0][0]
            gone = server.replies - kept - lost
            print(
                f"        killed at {server.calls:4} calls: {kept:4} replies kept, {stored:4} scores, {gone} lost"
            )
            lost, worst = lost + gone, max(worst, gone)
        summary, _, _ = bench.finish(bench.evaluate(path, server))
        bought, twice = server.replies, sum(1 for count in bench.asked.values() if count > 1)
    distinct = len(bench.asked)
    scores = summary["skipped"] + summary["evaluations"]
    bench.check("scores in the end", f"{scores}", f"{CALLS}", scores == CALLS == distinct)
    most = bench.jobs + bench.jobs // 5  # on the wire, or on their way into the journal
    bench.check("replies lost at a kill, at most", f"{worst}", f"{most} in flight", worst <= most)
    bench.check(
        "replies bought",
        f"{bought}, {twice} requests more than once",
        f"{CALLS} and the {lost} lost",
        bought == CALLS + lost,
    )


def principle(bench: Bench) -> None:
    """SC-007: a further principle over 100 evaluated sequences sends its own calls and no other."""
    path = bench.store("principle")
    with bench.server() as server:
        for names in (PRINCIPLES[:2], PRINCIPLES):
            before = server.calls
            options = [word for name in names for word in ("--principle", name)]
            bench.finish(bench.evaluate(path, server, *options))
        added = server.calls - before
    bench.check("SC-007 calls for a third principle", f"{added}", "500", added == SEQUENCES * TURNS)


def prefix(bench: Bench) -> None:
    """The share of a request that stood at the beginning of the one for the turn before, which a cache can serve.

    Over the conversations that ship with turnwise; the request for a first turn is compared with that for the last
    turn of the conversation before.
    """
    conversations = list(examples())
    for context in ("history", "turn", "window:3"):
        for principle in builtin_principles():
            before, same, whole, least = "", 0, 0, 1.0
            for one in conversations:
                for turn in one.conversation.turns:
                    nonce = fresh_nonce((), lambda: f"{bench.chance.getrandbits(64):016x}")
                    asked = render(
                        principle, one.conversation.turns, turn.number, Side.PROMPT, Context.parse(context), nonce
                    )
                    after = "".join(message.content for message in asked)
                    if before:
                        shared = _shared(before, after)
                        same, whole, least = same + shared, whole + len(after), min(least, shared / len(after))
                    before = after
            share = same / whole
            bench.check(
                f"identical beginning, {context}, {principle.name}",
                f"{share:.1%} of all characters, {least:.1%} of the request that has least",
                "85 % of all" if context == "history" else "told",
                share >= 0.85 or context != "history",
            )


def _shared(before: str, after: str) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))


def query(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Ask a store."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


PARTS: dict[str, Callable[[Bench], None]] = {
    "speed": speed,
    "memory": memory,
    "faults": faults,
    "kills": kills,
    "principle": principle,
    "prefix": prefix,
}


if __name__ == "__main__":
    sys.exit(main())
