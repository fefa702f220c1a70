"""A week in the shadow: conversations replayed in mode ``log``, reported, and compared with the guard switched on.

    python benchmarks/shadow.py CHATS.jsonl ... --conversations 2000

Prints the seconds of replay and report, and how many conversations each way of running blocks; they have to be the
same ones. Required: at most 120 s on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MOST_SECONDS = 120.0


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chats", nargs="+", help="files of conversations, as import reads them")
    parser.add_argument("--conversations", type=int, default=2000)
    parser.add_argument("--preset", default="basic")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        chats, audit = Path(name) / "chats.jsonl", Path(name) / "audit.jsonl"
        lines = [line for file in given.chats for line in Path(file).read_bytes().splitlines() if line.strip()]
        chats.write_bytes(b"\n".join(lines[: given.conversations]) + b"\n")
        about = [str(chats), "--preset", given.preset, "-j", str(given.jobs), "--json"]
        began = time.perf_counter()
        replayed = turnwise("replay", *about, "--audit", str(audit))
        replay = time.perf_counter() - began
        report = turnwise("report", str(audit), "--alarms", "0.01", "--json")
        seconds = time.perf_counter() - began
        on = turnwise("replay", *about)
        blocked = {one["sequence_id"] for one in on["conversations"] if one["blocked_at"] is not None}
        would = {
            json.loads(line)["conversation_id"]
            for line in audit.read_text(encoding="utf-8").splitlines()
            if "would block: " in line
        }
        print(f"{len(replayed['conversations'])} conversations, {report['checks']} checks")
        print(
            f"replayed in mode log in {replay:.1f} s, reported in {seconds - replay:.1f} s: {seconds:.1f} s",
            end="",
        )
        print("" if seconds <= MOST_SECONDS else f"  TOO SLOW: at most {MOST_SECONDS:g}")
        print(
            f"mode on blocks {len(blocked)}, the report has {report['would_block']['count']} that would have been"
        )
        apart = f"only on {len(blocked - would)}, only in log {len(would - blocked)}"
        print(f"the same ones: {blocked == would}; {apart}")


def turnwise(*arguments: str) -> Any:
    """What a command of the guard prints as JSON."""
    command = [sys.executable, "-m", "turnwise", "guard", *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
