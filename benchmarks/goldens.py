"""Does a change of the code change what the program says? Keeps goldens of one tree, and compares another's.

    python benchmarks/goldens.py keep FOLDER
    python benchmarks/goldens.py compare FOLDER [--only NAME]

`demo` and `study` are what the demo and a study of its conversations print and write, `transfer` the rows of an
export in three formats and of an export that was imported again, `scan` the rows of findings by one and by two
workers, `guard` verdicts of every preset over the texts of `guard_cases` and hostile ones, `local` the scores of
both embedded observers bit for bit. Times, versions, hashes of stores and places are left out. Everything goes
through the commands and `import turnwise`, so that code may move. Takes some four minutes on a core, and ends with
1 where anything differs; how fast it all is the other benchmarks measure.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet
from hostile import hostile_text, preset_pipeline

from turnwise import Conversation, GuardrailPipeline, score
from turnwise.datasets import examples

CASES = Path(__file__).parent / "guard_cases"
PRESETS = (
    "basic",
    "agent",
    "customer_service",
    "content_moderation",
    "educational",
    "financial",
    "medical",
    "research",
)
HOSTILE, SEED, EACH = 120, 7, 6
"""Hostile texts, their seed, and of how many cases one is checked."""

_LEFT_OUT = re.compile(
    r"seconds|latency|_at$|^time|timestamp|version|revision|machine|store$|^report$|path|folder|code_|imported|sha256$|^file$"
)
"""Keys of JSON whose values differ from run to run, or from place to place."""

_LINES_LEFT_OUT = re.compile(
    r"\d{4}-\d\d-\d\d|turnwise \d|seconds| s\.|/tmp|revision|sha256|version", re.IGNORECASE
)
_SHOWN = 5


def main() -> int:
    """Keep or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("keep", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=GOLDENS)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    differing = 0
    with tempfile.TemporaryDirectory() as work:
        for name, make in GOLDENS.items():
            if asked.only not in (None, name):
                continue
            made = json.loads(json.dumps(make(Path(work)), sort_keys=True))
            path = asked.folder / f"{name}.json"
            if asked.what == "keep":
                path.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n", encoding="utf-8")
                print(f"{name}: kept")
                continue
            found = list(differences(json.loads(path.read_text(encoding="utf-8")), made))
            print(f"{name}: {f'{len(found)} differences' if found else 'equal'}")
            for where, before, after in found[:_SHOWN]:
                print(f"  {where}: {before!r:.200} -> {after!r:.200}")
            differing += len(found)
    return 1 if differing else 0


def differences(before: Any, after: Any, where: str = "$") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places at which JSON values differ, with both values; None stands for what is not there."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for place in range(max(len(before), len(after))):
            was, is_ = (one[place] if place < len(one) else None for one in (before, after))
            yield from differences(was, is_, f"{where}[{place}]")
    elif before != after:
        yield where, before, after


def turnwise(*arguments: object) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "turnwise", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise SystemExit(f"turnwise {' '.join(map(str, arguments))} ends with {done.returncode}: {done.stderr}")
    return done.stdout


def stable(value: Any) -> Any:
    """JSON values without what differs from run to run."""
    if isinstance(value, Mapping):
        return {key: stable(one) for key, one in value.items() if not _LEFT_OUT.search(key)}
    return [stable(one) for one in value] if isinstance(value, list) else value


def demo_store(work: Path) -> Path:
    """The store of the demo, made once."""
    store = work / "demo.db"
    if not store.exists():
        (work / "demo.json").write_text(turnwise("demo", "--store", store, "--json"), encoding="utf-8")
    return store


def demo(work: Path) -> Any:
    """What the demo tells as JSON."""
    demo_store(work)
    return stable(json.loads((work / "demo.json").read_text(encoding="utf-8")))


def study(work: Path) -> Any:
    """results.json and report.md of a study of the demo's conversations."""
    runs = ("--run", "reader-turn", "--run", "reader-history")
    detectors = ("--detector", "any_turn", "--detector", "cusum", "--detector", "slope")
    out = work / "study"
    given = ("--thresholds", "given", "--replicates", 200, "--report", out)
    turnwise("study", "compare", "--store", demo_store(work), *runs, *detectors, *given)
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if path.suffix == ".json":
            found[path.name] = stable(json.loads(path.read_text(encoding="utf-8")))
        elif path.suffix in (".md", ".csv"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found[path.name] = [line for line in lines if not _LINES_LEFT_OUT.search(line)]
    return found


def transfer(work: Path) -> Any:
    """Rows of exports in three formats, and of one that was imported again."""
    found: dict[str, Any] = {}
    for name in ("jsonl", "csv", "parquet"):
        turnwise("export", "--store", demo_store(work), "--format", name, "--out", work / name)
        found[name] = rows_of(work / name)
    turnwise("import", "--from-store", work / "parquet", "--store", work / "again.db")
    turnwise("export", "--store", work / "again.db", "--format", "jsonl", "--out", work / "again")
    found["again"] = rows_of(work / "again")
    return found


def rows_of(folder: Path) -> dict[str, Any]:
    """How many rows each file of an export has, and the hash of what is stable in them."""
    found = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        if path.suffix == ".jsonl":
            rows = [stable(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        elif path.suffix == ".parquet":
            rows = [stable(row) for row in pyarrow.parquet.read_table(path).to_pylist()]
        elif path.suffix == ".csv":
            rows = [
                len(path.read_text(encoding="utf-8").splitlines()),
                path.read_text(encoding="utf-8").split("\n")[0],
            ]
        else:
            continue
        digest = sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()
        found[str(path.relative_to(folder))] = [len(rows), digest]
    return found


def scan(work: Path) -> Any:
    """Rows of the findings of a scan by one worker and by two."""
    chats = work / "chats.jsonl"
    lines = (
        {"id": one.sequence_id, "label": str(one.label), "messages": one.conversation.to_messages()}
        for one in examples()
    )
    chats.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = {}
    for jobs in (1, 2):
        out = work / f"findings-{jobs}"
        turnwise("scan", chats, "--out", out, "--observer", "local-small", "--detector", "any_turn", "-j", jobs)
        found[str(jobs)] = rows_of(out)
    return found


def guard(work: Path) -> Any:
    """Verdicts of every preset on cases and hostile texts; drift is asked on the cases of injections alone."""
    rng = random.Random(SEED)
    cases = [
        json.loads(line)["text"] for path in sorted(CASES.rglob("*.jsonl")) for line in path.open(encoding="utf-8")
    ]
    texts = [*cases[::EACH], *(hostile_text(rng, 2_000) for _ in range(HOSTILE))]
    found: dict[str, Any] = {}
    for preset in PRESETS:
        plain = preset_pipeline(preset)
        found[preset] = [verdict(plain.check_input(text, conversation=fresh())) for text in texts]
        whole = GuardrailPipeline.from_preset(preset)
        found[f"{preset}, whole"] = [
            verdict(whole.check_input(text, conversation=fresh())) for text in cases[:: 20 * EACH]
        ]
    return found


def fresh() -> Conversation:
    """A conversation that has not begun."""
    return Conversation.human_ai("ann", "model", conversation_id="golden")


def verdict(result: Any) -> list[Any]:
    """What a check says, as JSON values."""
    details = {
        name: [str(one.status), str(one.action), one.found, round(one.confidence, 9), one.reason]
        for name, one in result.details.items()
        if one.found or str(one.status) == "failed"
    }
    return [result.blocked, sha256(result.text.encode("utf-8", "replace")).hexdigest()[:16], details]


def local(work: Path) -> Any:
    """Scores of the embedded observers, bit for bit."""
    found: dict[str, Any] = {}
    for observer in ("local", "local-small"):
        for context in ("turn", "history"):
            for one in examples()[::3]:
                report = score(one.conversation, observer, context=context, sides=("prompt", "response"))
                found[f"{observer} {context} {one.sequence_id}"] = [
                    [name, *(value.hex() for value in (triple.T, triple.I, triple.F))]
                    for turn in report.turns
                    for side in (turn.scores, turn.response_scores)
                    for name, triple in sorted(side.items())
                ]
    return found


GOLDENS: Mapping[str, Callable[[Path], Any]] = {
    "demo": demo,
    "study": study,
    "transfer": transfer,
    "scan": scan,
    "guard": guard,
    "local": local,
}

if __name__ == "__main__":
    sys.exit(main())
