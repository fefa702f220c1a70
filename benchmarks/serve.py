"""What the guard takes when it is served over HTTP, beside what it takes in process.

Run with ``python benchmarks/serve.py``. Starts real services on the loopback and asks them from 32 clients that
keep their connection, in a process of their own. Prints checks a second, checks a second of its processor
time, which other work on the machine disturbs less, and how long the 50th and the 99th of a hundred checks took:

- preset customer_service without the embedded observer: one worker, then two that share an SQLite file;
- the same with the observer: one worker, and the share of what one process gives without HTTP (``--observer``);
- with ``--overload``, and nothing else: how long a short check and ``/readyz`` take with the observer right after
  300 requests of 16,000 characters were sent and their connections closed, and while four such texts are checked.

Required on two idle cores: 1,000 checks/s with one worker and at most 60 ms for 99 of 100; with the observer 0.8
of the rate in process; two workers 1.5 times one. Under overload the short check within twice its idle time and a
second, ``/readyz`` within 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from served import served

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard.config import preset_text

TEXTS = (
    "Could you tell me where my order is? It was placed on Monday.",
    "Thanks. I'd like to change the delivery address to my office.",
    "My name is Ann Lee and my e-mail address is ann.lee@example.com.",
    "When do you open tomorrow, and is there parking near the shop?",
)


def body(client: int, turn: int) -> bytes:
    """Return the body of a check."""
    text = {"text": TEXTS[turn % len(TEXTS)], "conversation_id": f"bench-{client}-{turn // 20}"}
    return json.dumps(text).encode()


async def ask(host: str, port: int, client: int, until: float, times: list[float]) -> None:
    """Ask one check after the other on one connection, and keep how long each took."""
    reader, writer = await asyncio.open_connection(host, port)
    turn = 0
    while time.perf_counter() < until:
        data = body(client, turn)
        turn += 1
        began = time.perf_counter()
        head = (
            f"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        )
        writer.write(head.encode() + b"\r\n\r\n" + data)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answer = await reader.readexactly(int(length.partition(b":")[2]))
        times.append(time.perf_counter() - began)
        assert b'"failures":[]' in answer, answer
    writer.close()


def load(host: str, port: int, clients: int, seconds: float, found: multiprocessing.Queue[list[float]]) -> None:
    """Ask from many connections at once, and tell how long each check took."""

    async def run() -> list[float]:
        times: list[float] = []
        until = time.perf_counter() + seconds
        await asyncio.gather(*(ask(host, port, client, until, times) for client in range(clients)))
        return times

    found.put(asyncio.run(run()))


def processor_seconds(process: int) -> float:
    """Return the processor time of a process and its children, where the system tells it."""
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == process or int(fields[1]) == process:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total or float("nan")


def measure(config: str, seconds: float, clients: int, *options: str) -> float:
    """Serve a configuration, ask it, print what came and return checks a second."""
    with served("--config", config, "--rate", "0", *options) as service:
        found: multiprocessing.Queue[list[float]] = multiprocessing.get_context("spawn").Queue()
        for span in (1.0, seconds):
            before = processor_seconds(service.process.pid)
            process = multiprocessing.get_context("spawn").Process(
                target=load, args=(service.host, service.port, clients, span, found)
            )
            process.start()
            times = sorted(found.get(timeout=span + 60))
            process.join()
            used = processor_seconds(service.process.pid) - before
    rate = len(times) / seconds
    middle, late = (1000 * times[int(len(times) * share)] for share in (0.5, 0.99))
    name = f"{'two workers' if '--workers' in options else 'one worker'}{', state file' if options else ''}"
    print(
        f"  {name:<26}{rate:6.0f} checks/s, {len(times) / used:6.0f} a processor second, "
        f"median {middle:.1f} ms, p99 {late:.1f} ms"
    )
    return rate


def in_process(config: str, seconds: float, threads: int = 2) -> float:
    """Return the checks a second of a pipeline in this process."""
    done = 0
    with GuardrailPipeline(config) as pipeline, ThreadPoolExecutor(threads) as pool:

        def run(client: int) -> int:
            until, turn = time.perf_counter() + seconds, 0
            while time.perf_counter() < until:
                if turn % 20 == 0:
                    chat = Conversation()
                pipeline.check_input(TEXTS[turn % len(TEXTS)], conversation=chat)
                turn += 1
            return turn

        pipeline.check_input(TEXTS[0])
        done = sum(pool.map(run, range(threads)))
    print(f"  {'in process, without HTTP':<26}{done / seconds:6.0f} checks/s")
    return done / seconds


def overload() -> None:
    """Print how long an honest check and a look at readiness take beside others that are abandoned, or long."""

    def seconds(method: str, path: str, body: object = None) -> float:
        began = time.perf_counter()
        status = service.ask(method, path, body)[0]
        assert status == 200, (path, status)
        return time.perf_counter() - began

    def told(when: str, before: float) -> None:
        ready, check = seconds("GET", "/readyz"), seconds("POST", "/v1/check", {"text": TEXTS[0]})
        used = processor_seconds(service.process.pid) - before
        print(
            f"  {when:<30} /readyz {1000 * ready:4.0f} ms, short check {1000 * check:4.0f} ms, "
            f"processor time in all {1000 * used:5.0f} ms"
        )

    def long(number: int) -> bytes:
        return json.dumps({"text": f"{number}. {' '.join(TEXTS * 80)}"[:16_000]}).encode()

    def abandon(number: int) -> None:
        data = long(number)
        head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with socket.create_connection((service.host, service.port)) as one:
            one.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    with served("--preset", "customer_service") as service, ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            seconds("POST", "/v1/check", {"text": TEXTS[0]})
        told("idle", processor_seconds(service.process.pid))
        for _ in range(3):
            before = processor_seconds(service.process.pid)
            list(pool.map(abandon, range(300)))
            told("after 300 abandoned of 16,000", before)
        under_way = [pool.submit(service.ask, "POST", "/v1/check", long(number)) for number in range(4)]
        for _ in range(3):
            told("beside four of 16,000", processor_seconds(service.process.pid))
        print(f"  these four: {[one.result()[0] for one in under_way]}")


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--observer", action="store_true", help="measure with the embedded observer as well")
    parser.add_argument("--overload", action="store_true", help="measure what others wait under overload, alone")
    given = parser.parse_args()
    if given.overload:
        overload()
        return
    with tempfile.TemporaryDirectory() as folder:
        text = preset_text("customer_service")
        whole, plain = Path(folder, "whole.yaml"), Path(folder, "plain.yaml")
        whole.write_text(text)
        kept = [line for line in text.splitlines() if "drift" not in line and "prompt_injection" not in line]
        plain.write_text("\n".join(kept))
        print("customer_service without the embedded observer")
        here = in_process(str(plain), given.seconds / 4)
        one = measure(str(plain), given.seconds, given.clients)
        print(f"  share of the rate in process: {one / here:.2f}")
        one = measure(str(plain), given.seconds, given.clients, "--state", f"{folder}/one.db")
        two = measure(str(plain), given.seconds, given.clients, "--state", f"{folder}/two.db", "--workers", "2")
        print(f"  two workers with a state file against one with it: {two / one:.2f}")
        if given.observer:
            print("customer_service")
            here = in_process(str(whole), given.seconds)
            served_rate = measure(str(whole), given.seconds, given.clients)
            print(f"  share of the rate in process: {served_rate / here:.2f}")


if __name__ == "__main__":
    main()
