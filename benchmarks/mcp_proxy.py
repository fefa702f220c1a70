"""What ``turnwise mcp`` adds to a call of a tool, beside the direct connection.

Run with ``python benchmarks/mcp_proxy.py``; needs the package ``mcp``. Starts the server of tests/support twice,
once behind the guard, over stdio, and calls both in turn, so that other work on the machine disturbs both alike.
Prints the median and the 95th percentile of the time of a call, and what the guard adds, for a short and a long
result:

- preset mcp without observers;
- preset mcp as it is, with the embedded observer (``--observer``).

Required on two idle cores: without observers at most 3 ms more at the median.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from turnwise.guard.config import preset_text

SERVER = [sys.executable, str(Path(__file__).parents[1] / "tests" / "support" / "mcp_server.py"), "stdio"]
CITIES = {"short": "Oslo", "long": "Oslo, a town by the sea where it often rains and people like to ski. " * 30}


class Connection:
    """A client that writes and reads lines."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ.copy(),
        )
        self.number = 0
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
        self.ask("initialize", info)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.ask("tools/list", {})

    def send(self, message: dict[str, Any]) -> None:
        """Write a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        assert self.process.stdout is not None
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self.number:
                result: dict[str, Any] = message["result"]
                return result

    def seconds(self, city: str) -> float:
        """How long a call takes."""
        began = time.perf_counter()
        result = self.ask("tools/call", {"name": "weather", "arguments": {"city": city}})
        took = time.perf_counter() - began
        assert result["content"][0]["text"].endswith("3 degrees"), result
        return took

    @property
    def spent(self) -> float:
        """Seconds of processor time that the process itself has taken; 0 where the system does not tell."""
        path = Path(f"/proc/{self.process.pid}/stat")
        if not path.exists():
            return 0.0
        fields = path.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the server."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def main() -> None:
    """Measure and print."""
    if find_spec("mcp") is None:
        sys.exit("the server of this benchmark needs the official SDK: pip install 'mcp>=2.3'")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--observer", action="store_true", help="with the embedded observer")
    given = parser.parse_args()
    config = preset_text("mcp")
    if not given.observer:
        config = config.replace("- sources\n", "- sources: {observer: null}\n")
        config = config.replace("prompt_injection: {", "prompt_injection: {observer: null, ")
        assert config.count("observer: null") == 2, config
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "guard.yaml"
        file.write_text(config)
        direct = Connection(SERVER)
        guarded = Connection([sys.executable, "-m", "turnwise", "mcp", "--config", str(file), "--", *SERVER])
        for name, city in CITIES.items():
            times: tuple[list[float], list[float]] = ([], [])
            before = guarded.spent
            for number in range(given.calls + 20):
                for one, kept in zip((direct, guarded), times, strict=True):
                    took = one.seconds(city)
                    if number >= 20:
                        kept.append(took)
            told = [f"{1000 * median(some):.2f} ms (p95 {1000 * quantiles(some, n=20)[-1]:.2f})" for some in times]
            more = [1000 * (behind - without) for without, behind in zip(*times, strict=True)]
            spent = 1000 * (guarded.spent - before) / (given.calls + 20)
            print(f"{name}: direct {told[0]}, guarded {told[1]}")
            print(
                f"  added at the median {median(more):.2f} ms; processor time of the guard {spent:.2f} ms a call"
            )
        direct.close()
        guarded.close()


if __name__ == "__main__":
    main()
