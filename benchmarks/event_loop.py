"""How long a check keeps others waiting, and what it costs. Run with ``python benchmarks/event_loop.py``.

Prints what was measured beside what is required:

- lag of the event loop while a message of 15,000 characters is checked with preset ``basic``: by the library, by
  the wrapper of OpenAI's client, and in ``examples/fastapi_chat.py``;
- 95th percentile of a short check while two checks of 15,000 characters run, over that of an idle one;
- seconds of one core's time of a check with preset ``basic``, by characters of the message, as the first turn of a
  conversation and as the second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "examples")]

from turnwise import Conversation, GuardrailPipeline  # noqa: E402

LONG = 15_000
PROSE = " ".join(
    " ".join(ROOT.joinpath("docs", name).read_text(encoding="utf-8").split())
    for name in ("explanation/trajectories.md", "explanation/scores.md", "datasets.md", "explorer.md")
)
SHORT = (
    "Could you tell me how long the parcel usually takes to Lisbon, and whether I can still change the address?"
)
WANTED = {200: None, 1_000: None, 4_000: 0.6, 16_000: 1.5}
FRESH = count()


def text(size: int) -> str:
    """Return ordinary text of so many characters that was not read before."""
    start = 97 * next(FRESH) % 2_000
    return (PROSE * (size // len(PROSE) + 2))[start : start + size]


async def lag(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the longest time that the event loop kept a sleeper waiting, and how long the work ran."""
    longest, start = 0.0, time.perf_counter()
    task = asyncio.ensure_future(work())
    while not task.done():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - before - 0.001)
    await task
    return longest, time.perf_counter() - start


async def lags(times: int) -> None:
    """Print the lag of the event loop."""
    from fastapi_chat import app
    from httpx import ASGITransport, AsyncClient
    from model_api import ModelServer, echo
    from openai import AsyncOpenAI

    from turnwise.integrations.openai import guard

    pipeline = GuardrailPipeline.from_preset("basic")
    await pipeline.acheck_input(SHORT)
    with ModelServer(echo, keep_alive=True) as model:
        async with (
            AsyncOpenAI(base_url=model.url, api_key="none", max_retries=0) as plain,
            AsyncClient(transport=ASGITransport(app), base_url="http://chat") as web,
        ):
            client: Any = guard(plain, pipeline)

            async def wrapped() -> None:
                messages: Any = [{"role": "user", "content": text(LONG)}]
                with contextlib.suppress(Exception):  # a text about attacks may be blocked
                    await client.chat.completions.create(model="m", messages=messages)

            ways: dict[str, Callable[[], Awaitable[object]]] = {
                "library": lambda: pipeline.acheck_input(text(LONG)),
                "OpenAI's client": wrapped,
                "examples/fastapi_chat.py": lambda: web.post(f"/chats/{next(FRESH)}", json={"text": text(LONG)}),
            }
            for name, work in ways.items():
                await work()
                measured = [await lag(work) for _ in range(times)]
                longest, seconds = max(one for one, _ in measured), statistics.median(one for _, one in measured)
                told = f"{1e3 * longest:.1f} ms at most ({times} checks of {seconds:.1f} s)"
                print(f"lag of the event loop, {name:28} {told:40} wanted 20 ms")


async def overtaking(times: int) -> None:
    """Print how much longer a short check takes while two long ones run."""
    pipeline = GuardrailPipeline.from_preset("basic")

    async def short() -> float:
        start = time.perf_counter()
        await pipeline.acheck_input(f"{next(FRESH)} {SHORT}")
        return time.perf_counter() - start

    async def long() -> None:
        while True:
            await pipeline.acheck_input(text(LONG))

    def percentile(seconds: list[float]) -> float:
        return sorted(seconds)[round(0.95 * (len(seconds) - 1))]

    await short()
    idle = percentile([await short() for _ in range(times)])
    busy = [asyncio.ensure_future(long()) for _ in range(2)]
    await asyncio.sleep(0.5)
    beside = percentile([await short() for _ in range(times)])
    for task in busy:
        task.cancel()
    await asyncio.gather(*busy, return_exceptions=True)
    told = f"{1e3 * beside:.0f} / {1e3 * idle:.0f} ms = {beside / idle:.1f}"
    print(f"95th percentile of a short check beside two long ones, over idle: {told}   wanted 4")


def costs(times: int) -> None:
    """Print what a check costs."""
    pipeline = GuardrailPipeline.from_preset("basic")
    for size, most in WANTED.items():
        for turn in (1, 2):
            seconds = []
            for _ in range(times):
                talk = Conversation.human_ai("u", "m")
                if turn > 1:
                    pipeline.check_input(f"{next(FRESH)} Hello!", conversation=talk)
                    pipeline.check_output("Hello, how can I help?", conversation=talk)
                message, start = text(size), time.process_time()
                pipeline.check_input(message, conversation=talk)
                seconds.append(time.process_time() - start)
            wanted = "" if most is None or turn > 1 else f"wanted {most:g}"
            print(f"{size:6,} characters, turn {turn}: {statistics.median(seconds):.3f} s of one core   {wanted}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=5, help="long checks of each kind")
    times = parser.parse_args().times
    costs(times)
    asyncio.run(lags(times))
    asyncio.run(overtaking(20 * times))


if __name__ == "__main__":
    main()
