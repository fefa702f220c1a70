"""Whether a change of the code changed what the program says: outputs kept before it, and made again after it.

    python benchmarks/goldens.py keep FOLDER [--only NAME ...] [--speed]     # before the change
    python benchmarks/goldens.py compare FOLDER [--only NAME ...] [--speed]  # after it; exit code 1 if any differs

Goldens are of the tree that this script stands in, from what ships with it and what is made from a seed; FOLDER
belongs to one machine, since the last digits of scores, and the bytes of Parquet, hang on libraries and processor.

    study     numbers, text and files of three studies of the demo's store: contexts, folds, and two readers
    scan      files and rows of findings, on one and on two workers
    transfer  rows of a store's exports to JSONL, CSV and Parquet, and what comes back from an import of them
    guard     verdicts by preset: on texts and tools with fixed scores of observers, on some of the texts and on
              whole conversations with the observers that the preset has; on what is parted over turns
    local     scores of the embedded observers to the bit, turn alone and with the turns so far

Times, paths, versions and the machine are left out. ``compare`` prints for each golden that differs the first
place (of JSON its path, of text its line) with both values, and how many there are. ``--speed`` adds medians of
processor time beside the kept ones, marked where they are more than 5 % away; they are no differences.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))  # this tree, whichever one is installed

import duckdb
from benchmarks.guard_accuracy import CASES
from benchmarks.guard_text import hostile_kinds
from benchmarks.hostile import hostile_text, preset_pipeline
from benchmarks.resume import LEFT_OUT, TURNWISE, finish
from benchmarks.scan import generate
from benchmarks.split import pipeline as split_pipeline
from benchmarks.split import results as split_results

from turnwise import Conversation, GuardrailPipeline, PipelineResult, score
from turnwise._support.revision import code_version
from turnwise.conversation import Side, Turn
from turnwise.datasets import example_judgements, examples
from turnwise.findings import FAILURES, SCORES, SEQUENCES, TURNS, open_findings
from turnwise.observers import ObservationFailure, Request, build_observer
from turnwise.observers.scripted import ScriptedObserver
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate, make_engine, plan_scan
from turnwise.scoring import Score
from turnwise.store import Store

ROOT = Path(__file__).resolve().parent.parent

Made = Iterator[tuple[str, Any]]
"""Goldens as they are made: a file's name, and JSON values, or a text where the name ends in ``.md``."""

SEED = 7
MARKER = "kept.json"
TABLES = (SCORES, SEQUENCES, TURNS, FAILURES)

TIMES = LEFT_OUT - {"id"}
"""Columns of times, and of the version."""

EACH = 24
"""One of so many cases is checked with a preset's own observers, which take ten times as long as the rest."""

CONVERSATIONS = 6
"""Shipped conversations, attacks and benign ones in turn, of which a preset checks every turn."""

TEXTS, LENGTH = 100, 1_000
"""Hostile texts that are drawn for each preset, and characters of a hostile text."""


def study(folder: Path) -> Made:
    """Three studies of the demo's store, as the commands write them."""
    second = f"replay:{example_judgements('history', second=True)}"
    compare = ("study", "compare", "--store", "demo.db", "--replicates", 50, "--splits", 4, "--seed", SEED)
    with chdir(folder):
        shown = _printed("demo", "--observer", "reader", "--store", "demo.db", "--report", "--json")
        _printed("evaluate", "--store", "demo.db", "--run", "second", "--observer", second, "--json")
        contexts = ("--run", "reader-turn", "--run", "reader-history", "--detector", "cusum", "--folds", 2)
        readers = ("--run", "reader-history", "--run", "second", "--thresholds", "given", "--truth", "reader-turn")
        told = {
            "demo": {name: shown[name] for name in shown if name not in ("store", "report", "seconds")},
            "folds": _printed(*compare, *contexts, "--target-fpr", 0.2, "--report", "folds-report", "--json"),
            "readers": _printed(*compare, *readers, "--report", "readers-report", "--json"),
        }
        for name, printed in told.items():
            report = Path(f"{name}-report")
            results = json.loads((report / "results.json").read_text(encoding="utf-8"))
            del results["versions"]
            printed.pop("report", None)
            yield f"{name}-printed.json", printed
            yield f"{name}-results.json", results
            yield f"{name}-report.md", (report / "report.md").read_text(encoding="utf-8")
            others = (path for path in sorted(report.rglob("*.*")) if path.suffix not in (".html", ".json"))
            yield f"{name}-files.json", {str(path): _sha256(path.read_bytes()) for path in others}


def _printed(*words: object) -> Any:
    """Return the JSON that a command prints."""
    return json.loads(finish([*TURNWISE, *map(str, words)]))


def scan(folder: Path) -> Made:
    """Findings over the conversations that ship, made-up ones and a damaged line."""
    chats = folder / "chats"
    chats.mkdir()
    shutil.copy(ROOT / "src/turnwise/datasets/examples.jsonl", chats)
    with generate(chats / "made.jsonl", 40, SEED).open("a") as file:
        file.write('{"id": "damaged", "messages": [\n')
    with chdir(folder):
        for name, engine, jobs in (("one", "inline", 1), ("two", "process", 2)):
            plan_scan("chats", name, observer="local-small", part_rows=20).run(make_engine(engine, jobs))
            findings = open_findings(name)
            manifest = json.loads(findings.manifest.to_json())
            yield (
                f"{name}-manifest.json",
                {key: manifest[key] for key in manifest if key not in ("versions", "sha256")},
            )
            for table in TABLES:
                yield f"{name}-{table}.json", [row for file in findings.files(table) for row in _rows(str(file))]


def transfer(folder: Path) -> Made:
    """Exports of a store with scores, failures and what people said, and whether imports of them are equal."""
    with Store(folder / "first.db", create=True) as store:
        store.add_sequences(examples())
        evaluate(store, "reader", f"replay:{example_judgements('history')}", principles=builtin_principles())
        evaluate(store, "failing", ScriptedObserver(_failing), context="turn")
        store.people.correct_label("grooming-01", "benign", "ann", "as an example")
        store.people.mark_turn("grooming-02", 3, "ann")
        versions = {"reciprocity": "1"}
        store.people.judge("grooming-01", 2, {"reciprocity": Score(0.1, 0.2, 0.9)}, "ben", versions=versions)
        for format in ("jsonl", "csv", "parquet"):
            out = folder / format
            told: dict[str, Any] = {"rows": dict(store.export(out, format=format).rows)}
            for path in sorted(out.glob(f"*.{format}")):
                rows = _rows(str(path))
                told[path.stem] = [{name: row[name] for name in row if name not in TIMES} for row in rows]
            yield f"{format}.json", told
    back = {}
    for source in ("jsonl", "parquet", "first.db"):
        again = folder / f"again-{source}"
        with Store(folder / f"{source}-again.db", create=True) as store:
            merged = store.import_from(folder / source)
            store.export(again, format="jsonl")
        same = {
            path.name: path.read_bytes() == (again / path.name).read_bytes() for path in _lines(folder / "jsonl")
        }
        back[source] = {"added": dict(merged.added), "already": dict(merged.already), "same lines": same}
    yield "imported.json", back


def _failing(conversation: str, turn: Turn, request: Request) -> Score | ObservationFailure:
    """Give scores by a turn's number and text, and at each third turn a failure."""
    if turn.number % 3 == 0:
        return ObservationFailure(request.principle.name, request.side, "refused", "each third turn")
    return Score(1 / turn.number, 0.25, len(turn.prompt) % 100 / 100)


def guard(folder: Path) -> Made:
    """Verdicts of each preset."""
    rows = [
        (f"{path.relative_to(CASES).with_suffix('')} {number}", json.loads(line))
        for path in sorted(CASES.rglob("*.jsonl"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    ]
    cases = [(name, Side(row.get("side", "prompt")), row["text"]) for name, row in rows if "text" in row]
    drawn = [hostile_text(random.Random(f"{SEED} {number}"), LENGTH) for number in range(TEXTS)]
    hostile = [*hostile_kinds(LENGTH), *((f"drawn {number}", text) for number, text in enumerate(drawn))]
    checks = cases + [(f"hostile {name}", side, text) for name, text in hostile for side in Side]
    by_label = [[one for one in examples() if one.label == label] for label in ("attack", "benign")]
    chats = [one for pair in zip(*by_label, strict=False) for one in pair][:CONVERSATIONS]
    for preset in GuardrailPipeline.available_presets():
        fixed = preset_pipeline(preset)
        yield f"{preset}-texts.json", {name: _verdict(_checked(fixed, side, text)) for name, side, text in checks}
        tools = [(name, text) for name, _, text in cases if "prompt_injection" in name]
        results = {name: _verdict(fixed.check_tool_result(text)) for name, text in tools}
        calls = {name: _verdict(fixed.check_tool_call("run", {"it": text})) for name, _, text in cases[::EACH]}
        yield f"{preset}-tools.json", {"results": results, "calls": calls}
        whole = GuardrailPipeline.from_preset(preset)
        some = {name: _verdict(_checked(whole, side, text)) for name, side, text in cases[::EACH]}
        yield f"{preset}-observed.json", some
        yield f"{preset}-conversations.json", {one.sequence_id: _course(whole, one.conversation) for one in chats}
    parts = split_pipeline(observer=False, joining=True)
    over_turns = [(name, row["messages"]) for name, row in rows if "messages" in row]
    said = {name: [_verdict(one) for one in split_results(parts, texts, name)] for name, texts in over_turns}
    yield "over-turns.json", said


def _course(pipeline: GuardrailPipeline, talk: Conversation) -> list[Any]:
    """Return the verdicts on a conversation as it would have gone, prompts that were blocked among them."""
    conversation, said = Conversation.human_ai(f"golden {talk.conversation_id}", "model"), []
    for turn in talk:
        result = pipeline.check_input(turn.prompt, conversation=conversation)
        said.append(_verdict(result))
        if not result.blocked and turn.response is not None:
            said.append(_verdict(pipeline.check_output(turn.response, conversation=conversation)))
    return said


def _checked(pipeline: GuardrailPipeline, side: Side, text: str) -> PipelineResult:
    return pipeline.check_input(text) if side is Side.PROMPT else pipeline.check_output(text)


def _verdict(result: PipelineResult) -> dict[str, Any]:
    """Return what a check said; of guardrails those that found something or did not look, and of texts a hash."""
    details = {
        name: {
            "status": detail.status,
            "action": detail.did,
            "confidence": detail.confidence,
            "reason": _timeless(detail.reason),
            "redactions": [one.to_dict() for one in detail.redactions],
        }
        for name, detail in result.details.items()
        if detail.found or detail.did or detail.status != "evaluated"
    }
    return {
        "outcome": result.outcome,
        "blocked": result.blocked,
        "reasons": [_timeless(reason) for reason in result.reasons],
        "warnings": [_timeless(warning) for warning in result.warnings],
        "stance": None if result.stance is None else result.stance.to_dict(),
        "text": _sha256(result.text.encode("utf-8", "surrogatepass"))[:16],
        "details": details,
    }


def _timeless(reason: str) -> str:
    """A reason without the time of day at which a pause ends."""
    return reason.partition(", until ")[0]


def local(folder: Path) -> Made:
    """Scores of the embedded observers on the conversations that ship; of the small one on replies, too."""
    for name, sides in (("local", [Side.PROMPT]), ("local-small", [*Side])):
        observer = build_observer(name)
        for context in ("turn", "history"):
            made = {}
            for one in examples():
                report = score(one.conversation, observer, context=context, sides=sides)
                made[one.sequence_id] = {
                    f"turn {turn.turn}, {side}, {principle}": [
                        value.hex() for value in (given.T, given.I, given.F)
                    ]
                    for turn in report.turns
                    for side, scores in (("prompt", turn.scores), ("response", turn.response_scores))
                    for principle, given in scores.items()
                } | {"not scored": [str(lack) for lack in (*report.failures, *report.unread)]}
            yield f"{name}-{context}.json", {"version": observer.info.version, "scores": made}


GOLDENS: Mapping[str, Callable[[Path], Made]] = {
    "study": study,
    "scan": scan,
    "transfer": transfer,
    "guard": guard,
    "local": local,
}
"""What makes the goldens of each name, in an empty folder."""


def _rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of an exported file, or of one of findings."""
    if path.endswith(".parquet"):
        with closing(duckdb.connect()) as database:
            found = database.execute("SELECT * FROM read_parquet(?)", [path])
            names = [column[0] for column in found.description or ()]
            yield from (dict(zip(names, row, strict=True)) for row in found.fetchall())
        return
    with Path(path).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file) if path.endswith(".csv") else map(json.loads, file)


def _lines(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make(name: str, into: Path) -> None:
    """Make the goldens of a name, a file each."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        for file, value in GOLDENS[name](Path(work)):
            told = value if file.endswith(".md") else json.dumps(value, indent=1, default=str) + "\n"
            (into / file).write_text(told, encoding="utf-8")
    print(f"{name:9} {len([*into.iterdir()]):3} goldens in {time.perf_counter() - began:.0f} s", file=sys.stderr)


MISSING = "(nothing)"


def differences(kept: Any, made: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each place where JSON values differ, with both values.

    >>> [*differences({"a": [1, 2], "b": 0}, {"a": [1, 2.5, 3], "b": 0})]
    [('/a/1', 2, 2.5), ('/a/2', '(nothing)', 3)]
    """
    if isinstance(kept, dict) and isinstance(made, dict):
        for key in {**kept, **made}:
            yield from differences(kept.get(key, MISSING), made.get(key, MISSING), f"{path}/{key}")
    elif isinstance(kept, list) and isinstance(made, list):
        for place, (one, other) in enumerate(zip_longest(kept, made, fillvalue=MISSING)):
            yield from differences(one, other, f"{path}/{place}")
    elif json.dumps(kept) != json.dumps(made):  # 1 is not 1.0, nor true
        yield path, kept, made


def file_differences(kept: Path, made: Path) -> list[tuple[str, Any, Any]]:
    """Return each place where two goldens of a name differ; the file as such where one of them is not there."""
    if not (kept.is_file() and made.is_file()):
        there = "(a golden)"
        return [("file", there if kept.is_file() else MISSING, there if made.is_file() else MISSING)]
    old, new = kept.read_text(encoding="utf-8"), made.read_text(encoding="utf-8")
    if old == new:
        return []
    if kept.suffix == ".json":
        found = [*differences(json.loads(old), json.loads(new))]
        return found or [("order of keys", MISSING, "(another)")]
    lines = zip_longest(old.splitlines(), new.splitlines(), fillvalue=MISSING)
    return [(f"line {number}", one, other) for number, (one, other) in enumerate(lines, 1) if one != other]


def compare(kept: Path, made: Path) -> int:
    """Print what differs between two folders of goldens of a name; return how many goldens that are."""
    differing = 0
    for file in sorted({path.name for folder in (kept, made) for path in folder.iterdir()}):
        found = file_differences(kept / file, made / file)
        if found:
            differing += 1
            place, old, new = found[0]
            print(f"{kept.name}/{file}: {len(found)} differences, the first at {place}")
            print(f"    kept {_short(old)}\n    now  {_short(new)}")
    return differing


def _short(value: Any) -> str:
    told = json.dumps(value)
    return told if len(told) <= 300 else f"{told[:300]}…"


REPEATS, FAR = 7, 0.05


def speed(folder: Path) -> dict[str, float]:
    """Return medians of processor time, in milliseconds: evaluate, a check by preset, a scan, a query."""
    chats = examples()[:4]
    local_observer = build_observer("local")
    numbers = iter(range(1_000_000))
    found = {}
    with Store(folder / "speed.db", create=True) as store:
        store.add_sequences(chats)
        found["evaluate, local"] = _median(lambda: evaluate(store, f"run {next(numbers)}", local_observer))
    prompts = [turn.prompt for chat in chats for turn in chat.conversation]
    for preset in GuardrailPipeline.available_presets():
        pipeline = GuardrailPipeline.from_preset(preset)
        checked = _median(lambda pipeline=pipeline: [*map(pipeline.check_input, prompts)])  # type: ignore[misc]
        found[f"check, {preset}"] = checked / len(prompts)
    path = generate(folder / "speed.jsonl", 100, SEED)

    def scanned() -> None:
        plan_scan(path, folder / f"found {next(numbers)}", observer="local-small").run(make_engine("inline", 1))

    def asked() -> None:
        with Store(folder / "speed.db") as opened:
            opened.query("slope(reciprocity.F) > 0.01", "run 0")

    return found | {"scan, local-small": _median(scanned), "query": _median(asked)}


def _median(run: Callable[[], object]) -> float:
    run()
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        run()
        taken.append(1_000 * (time.process_time() - began))
    return statistics.median(taken)


def print_speed(now: Mapping[str, float], kept: Mapping[str, float]) -> None:
    """Print medians, and those that were kept beside them."""
    for name, value in now.items():
        ratio = value / kept[name] if name in kept else None
        mark = "  <- beyond 5 %" if ratio is not None and abs(ratio - 1) > FAR else ""
        print(f"{name:28} {value:9.2f} ms{'' if ratio is None else f'  {ratio:.2f} times the kept'}{mark}")


def main() -> int:
    """Keep goldens, or compare with those that were kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("keep", "compare"))
    parser.add_argument("folder", type=Path, help="where the goldens are kept; new, empty or made by this script")
    parser.add_argument("--only", nargs="+", choices=GOLDENS, default=list(GOLDENS), metavar="NAME")
    parser.add_argument("--speed", action="store_true", help="medians of processor time as well")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # of the commands that are started
    marker: Path = options.folder / MARKER
    kept = json.loads(marker.read_text(encoding="utf-8")) if marker.is_file() else {}
    if options.what == "keep":
        return _keep(options, marker, kept)
    lacking = [name for name in options.only if not (options.folder / name).is_dir()]
    if not kept or lacking:
        parser.error(
            f"{options.folder} has no goldens of {', '.join(lacking)}: keep them, or choose others by --only"
        )
    return _compare(options, kept)


def _keep(options: argparse.Namespace, marker: Path, kept: dict[str, Any]) -> int:
    if not kept and options.folder.exists() and any(options.folder.iterdir()):
        raise SystemExit(f"{options.folder} is not empty and has no goldens: name a new folder")
    options.folder.mkdir(parents=True, exist_ok=True)
    kept["code"] = code_version()
    marker.write_text(json.dumps(kept))
    for name in options.only:
        make(name, options.folder / name)
    if options.speed:
        with tempfile.TemporaryDirectory() as work:
            kept["speed"] = speed(Path(work))
        print_speed(kept["speed"], {})
    marker.write_text(json.dumps(kept, indent=1) + "\n")
    return 0


def _compare(options: argparse.Namespace, kept: Mapping[str, Any]) -> int:
    differing = 0
    with tempfile.TemporaryDirectory() as work:
        for name in options.only:
            make(name, Path(work) / name)
            differing += compare(options.folder / name, Path(work) / name)
        print(f"{differing or 'no'} goldens differ from those of {kept['code']}")
        if options.speed:
            print_speed(speed(Path(work)), kept.get("speed", {}))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
