"""Kill `turnwise scan` in two stages while it pays, start it again, and compare its record with what a server got.

    python benchmarks/second_look_scan.py [--chats 1000] [--kills 5] [--jobs 8] [--latency 0.05]

The conversations are made; the screen is `scripted`, by which about 14 % of the turns are asked about, and the
judge is the fake chat server of the tests, whose reply hangs on the text alone. Each kill is a SIGKILL to the real
command, when the server has made a drawn number of replies. What was under way then is answered with nobody to
hear it: that is asked again, and counted here as lost. Everything else must be asked once, and the findings must
be those of a scan that nobody disturbed. The last row has a budget that ends in the middle of a scan with 50 calls
at a time. The exit code is 1 if something does not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from chat_server import ChatServer, scores_by_text  # noqa: E402

SCREEN = "scripted:0.1,0.1,0.1,0.1,0.1,0.1,0.3"
"""Of seven turns it points at the last."""

TURNS = 7
BUDGET = 0.4
PRICE = 0.40e-6, 1.60e-6
"""US dollars of a token of gpt-4.1-mini, sent and received."""


class Server:
    """Counts requests by what is asked, and kills a process when so many replies were made."""

    def __init__(self, latency: float) -> None:
        self.asked: Counter[str] = Counter()
        self.victim: tuple[int, int] | None = None
        self.spent = self.dearest = 0.0
        self._lock = threading.Lock()
        self.chat = ChatServer(self._answer, latency=latency)
        self.chat.keep = False

    def _answer(self, body: dict[str, Any]) -> str:
        text: str = scores_by_text(body)
        sent = sum(len(one["content"]) for one in body["messages"]) // 4
        with self._lock:
            self.asked[text] += 1
            cost = sent * PRICE[0] + max(1, len(text) // 4) * PRICE[1]
            self.spent, self.dearest = self.spent + cost, max(self.dearest, cost)
            if self.victim is not None and self.asked.total() >= self.victim[1]:
                os.kill(self.victim[0], signal.SIGKILL)
                self.victim = None
        return text


Row = tuple[str, int, int, int, int, bool]
"""A run, calls that the server got, those on record, lost at kills, asked though kept, and whether it holds."""


def main() -> int:
    """Scan, kill and go on; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = made_up(folder / "logs.jsonl", asked.chats)
        server = Server(asked.latency)
        with server.chat:
            look = scan(server, logs, folder / "whole", asked.jobs)["second_look"]
        calls, got = look["replies"]["calls"], server.asked.total()
        rows = [("undisturbed", got, calls, 0, 0, got == calls == len(server.asked))]
        rows += killed(asked, logs, folder, calls)
        rows += budgeted(asked, logs, folder)
    print(f"{asked.chats} conversations, {look['turns']} turns, {look['asked'] / look['turns']:.1%} asked about")
    print("| run | calls that the server got | calls on record | lost at kills | asked though kept | holds |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    return 0 if all(row[-1] for row in rows) else 1


def killed(asked: argparse.Namespace, logs: Path, folder: Path, calls: int) -> Iterator[Row]:
    """Yield what came of a scan that is killed again and again."""
    chance = random.Random(asked.seed)
    moments = sorted(chance.uniform(0.02, 0.95) for _ in range(asked.kills))
    server, out, kept, lost = Server(asked.latency), folder / "killed", set[str](), 0
    with server.chat:
        for number, moment in enumerate(moments, start=1):
            before, lost_before = Counter(server.asked), lost
            scan(server, logs, out, asked.jobs, kill=max(1, int(moment * calls) + lost))
            again = sum(server.asked[text] > before[text] for text in kept)
            kept = replies(out)
            lost = server.asked.total() - len(kept)
            holds = not again and lost - lost_before <= asked.jobs
            yield f"kill {number}", server.asked.total(), len(kept), lost, again, holds
        before = Counter(server.asked)
        record = scan(server, logs, out, asked.jobs)["second_look"]["replies"]["calls"]
    again = sum(server.asked[text] > before[text] for text in kept)
    same = digest(out) == digest(folder / "whole")
    print(f"findings equal to those of the undisturbed scan: {same}")
    holds = not again and server.asked.total() - lost == record == calls and same
    yield "completed", server.asked.total(), record, lost, again, holds


def budgeted(asked: argparse.Namespace, logs: Path, folder: Path) -> Iterator[Row]:
    """Yield what came of a scan whose budget ends in its middle, with 50 calls at a time."""
    server = Server(max(asked.latency, 0.2))  # so that many are under way
    with server.chat:
        look = scan(server, logs, folder / "budget", 50, "--budget", str(BUDGET))["second_look"]
    calls, spent = look["replies"]["calls"], look["replies"]["cost_usd"]
    print(
        f"budget of ${BUDGET}: ${spent:.6f} on record, ${server.spent:.6f} by the server's own count, most "
        f"under way {server.chat.most_under_way}; {look['answered']} turns answered, others {look['unanswered']}"
    )
    holds = calls == server.asked.total() and server.spent <= BUDGET + server.dearest
    yield f"budget ${BUDGET}", server.asked.total(), calls, 0, 0, holds


def made_up(path: Path, count: int) -> Path:
    """Write conversations whose every text is another, and return where."""
    with path.open("w") as file:
        for number in range(count):
            messages = [
                {"role": role, "content": f"{role} {number} says {turn}"}
                for turn in range(TURNS)
                for role in ("user", "assistant")
            ]
            print(json.dumps({"id": f"c{number:04}", "messages": messages}), file=file)
    return path


def scan(server: Server, logs: Path, out: Path, jobs: int, *more: str, kill: int | None = None) -> dict[str, Any]:
    """Run the command to its end and return what it says, or kill it when so many replies were made."""
    command = [sys.executable, "-m", "turnwise", "scan", str(logs), "--out", str(out), "--observer", SCREEN]
    command += ["--second-look", "llm:openai/gpt-4.1-mini", "--ask-above", "0.2", "--principle", "reciprocity"]
    command += [
        "--observer-setting",
        f"base_url={server.chat.url}",
        "--part-rows",
        "100",
        "-j",
        str(jobs),
        "--json",
    ]
    process = subprocess.Popen(
        [*command, *more],
        env={**os.environ, "OPENAI_API_KEY": "sk-of-a-benchmark"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if kill is not None:
        server.victim = process.pid, kill
    out_text, errors = process.communicate(timeout=600)
    if kill is not None:
        if process.returncode != -signal.SIGKILL:
            raise SystemExit(f"it ended before it was killed: {process.returncode} {errors}")
        time.sleep(0.2)
        while server.chat.calls > server.asked.total():  # what was sent is answered all the same
            time.sleep(0.05)
        return {}
    if process.returncode:
        raise SystemExit(f"the scan failed: {errors}")
    found: dict[str, Any] = json.loads(out_text)
    return found


def replies(out: Path) -> set[str]:
    """Return the texts of the replies that a scan keeps until it is complete."""
    whole = [line for file in (out / "replies").glob("*.jsonl") for line in file.read_text().splitlines(True)]
    return {json.loads(line)["text"] for line in whole if line.endswith("\n")}


def digest(out: Path) -> str:
    """Return what tells findings from any others: a hash of all of their files."""
    files = sorted(path for path in out.rglob("*") if path.suffix in (".parquet", ".jsonl"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
