"""What a scan costs beside the encoder, with it, and how much memory it takes; measured beside what is required.

    python benchmarks/scan.py --part pipeline   100,000 conversations on two processes, without the encoder
    python benchmarks/scan.py --part encoder    2,000 with local: the whole scan beside the forward passes alone
    python benchmarks/scan.py --part processes  the same on one and on two processes
    python benchmarks/scan.py --part memory     peak memory at 10,000 and at 1,000,000, without the encoder
    python benchmarks/scan.py --part engines    inline, process and ray: the same bytes, and their rates
    python benchmarks/scan.py --part queries    questions about the findings of the million

Conversations are made from a seed: 1 and more user turns (geometric, mean 5) with replies; lengths in words are
log-normal (prompts: median 20, replies: median 110), words drawn from a vocabulary of 20,000 by Zipf's law. Parts
without the encoder score with `Free`, which gives every text scores that hang on its length and number alone; it
stands for the encoder, and everything else is the real thing: reading, detector, files. They stay in --folder.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from turnwise.conversation import Turn
from turnwise.findings import SCORES, open_findings
from turnwise.observers import Context, ContextMode, ObserverInfo, Request, build_observer
from turnwise.observers.session import ObservedMany, observe_conversations
from turnwise.principles import builtin_principles
from turnwise.runs import make_engine, plan_scan
from turnwise.runs.parts import read_part
from turnwise.store import Store

WORDS, MEAN_TURNS = 20_000, 5
REQUIRED_RATE, REQUIRED_SHARE, REQUIRED_GAIN, REQUIRED_RAY = 2_500.0, 0.85, 1.7, 0.7
REQUIRED_BYTES, REQUIRED_SECONDS = 1.5e9, 3.0
MIB = 1 << 20


class Free:
    """An observer that costs next to nothing: scores from the length of a text and the number of its turn."""

    parameters: ClassVar[dict[str, object]] = {}

    @property
    def info(self) -> ObserverInfo:
        """What a person should know of it."""
        return ObserverInfo("free", "1", (ContextMode.HISTORY,), "scores by length, for benchmarks")

    def start(self, conversation_id: str, context: Context) -> None:
        """Keep nothing."""

    def observe(self, state: None, turn: Turn, wanted: Sequence[Request]) -> list[Any]:
        """Raise: conversations come all at once."""
        raise NotImplementedError

    def observe_many(
        self, conversations: Sequence[Sequence[Turn]], context: Context, wanted: Sequence[Request]
    ) -> ObservedMany:
        """Score every text of every turn, in columns."""
        kinds = len(wanted)
        sizes = np.array([len(turns) for turns in conversations], np.int64)
        turn = np.concatenate(
            [np.arange(1, size + 1, dtype=np.int32) for size in sizes] or [np.zeros(0, np.int32)]
        )
        chars = np.array([len(one.prompt) for turns in conversations for one in turns], np.int64)
        of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        request = np.tile(np.arange(kinds, dtype=np.int32), len(turn))
        mixed = (np.repeat(chars * 2654435761 + turn * 40503, kinds) + request * 97) % 1000
        false = (mixed / 1000.0) ** 3
        scores = np.stack([1.0 - false, np.full_like(false, 0.1), false], axis=1)
        return ObservedMany(np.repeat(of, kinds), np.repeat(turn, kinds), request, scores)


def generate(path: Path, count: int, seed: int = 7) -> Path:
    """Write conversations as JSONL, once, and return the path."""
    if path.exists():
        return path
    drawn = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(drawn.choice(letters, size)) for size in drawn.integers(2, 10, WORDS)]
    weights = 1.0 / np.arange(1, WORDS + 1)
    weights /= weights.sum()
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        for first in range(0, count, 1_000):
            stock = iter(drawn.choice(WORDS, 1_500_000, p=weights).tolist())
            for number in range(first, min(first + 1_000, count)):
                messages = []
                for _ in range(drawn.geometric(1 / MEAN_TURNS)):
                    for role, middle, spread in (("user", 20, 0.9), ("assistant", 110, 0.8)):
                        size = max(1, min(2_000, int(drawn.lognormal(np.log(middle), spread))))
                        text = " ".join(words[next(stock, 0)] for _ in range(size))
                        messages.append({"role": role, "content": text})
                file.write(json.dumps({"id": f"chat-{number}", "messages": messages}) + "\n")
    partial.rename(path)
    return path


def run(path: Path, out: Path, observer: Any, engine: str = "inline", jobs: int = 1, **given: Any) -> float:
    """Scan into a new folder, and return the seconds that it took, the start of workers included."""
    shutil.rmtree(out, ignore_errors=True)
    prepared = plan_scan(path, out, observer=observer, **given)
    result = prepared.run(make_engine(engine, jobs))
    assert result.counts.failures == 0
    return result.seconds


def _processor() -> float:
    """Return the seconds of processor that this process and its workers have had."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def told(what: str, measured: str, required: str, good: bool) -> None:
    """Print a measurement beside what is required."""
    print(f"{'ok  ' if good else 'MISS'} {what}: {measured} (required: {required})", flush=True)


def pipeline(folder: Path, count: int) -> None:
    """Everything but the encoder, on two processes."""
    path = generate(folder / f"chats-{count}.jsonl", count)
    before = _processor()
    seconds = run(path, folder / "found", Free(), "process", 2)
    busy = _processor() - before
    print(f"     {1e6 * busy / count:.0f} µs of processor a conversation, start of two workers included")
    rate = count / seconds
    size = path.stat().st_size / MIB
    told(
        f"pipeline, {count} conversations ({size:.0f} MiB) on two processes",
        f"{rate:.0f} conversations/s",
        f"at least {REQUIRED_RATE:.0f}",
        rate >= REQUIRED_RATE,
    )


def encoder(folder: Path, count: int) -> None:
    """The whole scan with local on one process, beside its forward passes over the same texts."""
    path = generate(folder / f"chats-{count}.jsonl", count)
    seconds = run(path, folder / "found", "local")
    prepared = plan_scan(path, folder / "none", observer="local")
    observer = build_observer("local")
    wanted = [Request(principle, side) for side in prepared.work.sides for principle in builtin_principles()]
    alone = 0.0
    for part in prepared.parts()[0]:
        turns = [
            [Turn(turn.number, turn.prompt, turn.response) for turn in item.conversation]  # type: ignore[union-attr]
            for _, _, item in read_part(part, prepared.work.reading)
        ]
        began = time.perf_counter()
        observe_conversations(observer, turns, Context.parse("history"), wanted)
        alone += time.perf_counter() - began
    told(
        f"encoder, {count} on one process: {count / seconds:.1f}/s, its passes alone {count / alone:.1f}/s",
        f"{alone / seconds:.3f} of it",
        f"at least {REQUIRED_SHARE}",
        alone / seconds >= REQUIRED_SHARE,
    )


def processes(folder: Path, count: int) -> None:
    """With local on one and on two processes, the start of workers and loading of weights included."""
    path = generate(folder / f"chats-{count}.jsonl", count)
    one = run(path, folder / "one", "local", "process", 1)
    two = run(path, folder / "two", "local", "process", 2)
    gain = one / two
    told(
        f"two processes beside one, {count}",
        f"{gain:.2f} times",
        f"at least {REQUIRED_GAIN}",
        gain >= REQUIRED_GAIN,
    )


def _peak(path: Path, out: Path) -> int:
    """Return the bytes that driver and workers took together at most."""
    program = (
        "import resource, sys; from pathlib import Path; sys.path.insert(0, sys.argv[3])\n"
        "from benchmarks.scan import Free, run\n"
        "if __name__ == '__main__':\n"
        "    run(Path(sys.argv[1]), Path(sys.argv[2]), Free(), 'process', 2)\n"
        "    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN\n"
        "    use = [resource.getrusage(one).ru_maxrss for one in who]\n"
        "    print(1024 * (use[0] + 2 * use[1]))\n"
    )
    root = str(Path(__file__).parent.parent)
    script = out.parent / "peak.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, str(script), str(path), str(out), root], capture_output=True, text=True, check=True
    )
    return int(done.stdout.split()[-1])


def memory(folder: Path, count: int) -> None:
    """Peak memory of the driver and two workers (each counted as the larger), small and large."""
    peaks = {}
    for size in (count // 100, count):
        path = generate(folder / f"chats-{size}.jsonl", size)
        peaks[size] = _peak(path, folder / "found")
        told(
            f"peak memory at {size} conversations",
            f"{peaks[size] / 1e9:.2f} GB",
            f"at most {REQUIRED_BYTES / 1e9:.1f} GB",
            peaks[size] <= REQUIRED_BYTES,
        )
    growth = peaks[count] / peaks[count // 100]
    told("growth of the peak", f"{growth:.2f} times", "flat: at most 1.25", growth <= 1.25)


def engines(folder: Path, count: int) -> None:
    """The same rows from every engine, and how fast Ray is beside processes once it has started."""
    path = generate(folder / f"chats-{count}.jsonl", count)
    seconds: dict[str, float] = {}
    hashes: dict[str, object] = {}
    for name in ("inline", "process", "ray"):
        prepared = plan_scan(path, folder / name, observer="local")
        shutil.rmtree(folder / name, ignore_errors=True)
        times: list[tuple[float, int]] = []
        result = prepared.run(make_engine(name, 2), lambda one, at=times: at.append((one.seconds, one.here)))
        (first, before), (last, after) = times[0], times[-1]
        seconds[name] = (last - first) / max(after - before, 1)  # the start, and a first part, excluded
        hashes[name] = [part.files for part in result.findings.manifest.parts]
        print(f"     {name}: {1 / seconds[name]:.1f} conversations/s after the first part, {last:.1f} s in all")
    same = hashes["inline"] == hashes["process"] == hashes["ray"]
    told("rows of the engines", "equal" if same else "different", "equal", same)
    share = seconds["process"] / seconds["ray"]
    told("ray beside two processes", f"{share:.2f}", f"at least {REQUIRED_RAY}", share >= REQUIRED_RAY)


def queries(folder: Path, count: int) -> None:
    """Questions over the findings of `memory`, each from a fresh process."""
    found = folder / "found"
    if not (found / "manifest.json").exists() or open_findings(str(found)).manifest.totals.conversations != count:
        run(generate(folder / f"chats-{count}.jsonl", count), found, Free(), "process", 2)
    rows = open_findings(str(found)).manifest.totals.scores
    print(f"     {count} conversations, {rows} scores in {len(open_findings(str(found)).files(SCORES))} files")
    began = time.perf_counter()
    with Store(str(found)) as store:
        store.prepare()  # as `turnwise scan` does at its end
    print(f"     the index: {time.perf_counter() - began:.1f} s")
    for question in (
        "gradual_drift",
        "cusum(reciprocity.F, drift=0.05) > 0.2",
        "streak(reciprocity.F > 0.6) >= 3",
    ):
        began = time.perf_counter()
        program = "import sys; from turnwise.cli import main; main()"
        given = ["query", question, "--store", str(found), "--limit", "10"]
        done = subprocess.run([sys.executable, "-c", program, *given], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        good = done.returncode == 0 and seconds <= REQUIRED_SECONDS
        measured = f"{seconds:.2f} s" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
        told(f"query {question}", measured, f"at most {REQUIRED_SECONDS:.0f} s", good)


PARTS: dict[str, tuple[Callable[[Path, int], None], int]] = {
    "pipeline": (pipeline, 100_000),
    "encoder": (encoder, 2_000),
    "processes": (processes, 2_000),
    "memory": (memory, 1_000_000),
    "engines": (engines, 400),
    "queries": (queries, 1_000_000),
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="which to run; all by default")
    parser.add_argument("--count", type=int, help="conversations, in place of the part's own number")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/turnwise-scan"), help="where files are kept")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.part or PARTS:
        measure, count = PARTS[name]
        measure(given.folder, given.count or count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"     peak of this process: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
