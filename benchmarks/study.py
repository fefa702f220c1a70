"""The whole study on other people's conversations, from files to a report: how long it takes, what comes out.

    python benchmarks/study.py --data PATH_TO_DATA [--write docs] [--limit N]

Commands run as processes, as a user runs them: import, evaluate in both context modes, tune, calibrate, compare.
What `tune` and `calibrate` write is not used by `compare`, which fits and calibrates on splits of its own: else it
would test on what it was fitted on. With --write, results.md and its figures are written to that folder. --limit
takes the first conversations of each file alone, to try the script.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]
SETS = (
    "safemt_attack600",
    "auto_mt_transcripts",
    "scenarios_20",
    "encoding_30",
    "arena_real_users",
    "mtbench101",
    "mtrag_un_human",
    "mt_bench",
)
DETECTORS = (
    "cusum",
    "page_hinkley",
    "slope",
    "trust_ema",
    "f_ema",
    "peak_accumulation",
    "learned",
    "sprt",
    "shiryaev_roberts",
    "hmm",
)
"""Beside the five baselines, which are there anyway; the last four are fitted on the train part."""

MOST_SECONDS = 300.0
LEAST_CONVERSATIONS = 2400
LEAST_DETECTORS = 12
TARGET_FPR = "0.01"
EXPECTED = {"stateless": "under 30 %", "temporal": "over 80 %"}
SHOWN = {"safemt_attack600": "Attack_600", "auto_mt_transcripts": "automated transcripts"}
FIGURES = ("recall", "roc", "survival", "gain", "courses", "shuffle", "calibration")
TABLES = ("detectors", "by_source", "tests", "delay", "shuffle", "left_out", "splits")

Steps = dict[str, float]


def main() -> None:
    """Run the study, print what must hold beside what was measured, and write the results if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/*.jsonl")
    parser.add_argument("--limit", type=int, default=0, help="conversations of each file; 0 for all")
    parser.add_argument("--jobs", type=int, default=2, help="workers of evaluate")
    parser.add_argument("--folds", type=int, default=0, help="folds of compare; 0 for one split")
    parser.add_argument("--write", type=Path, help="folder for results.md and its figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = study(arguments, folder)
        report = folder / "report"
        found = json.loads((report / "results.json").read_text(encoding="utf-8"))
        rows = requirements(found, steps)
        show(rows)
        for line in headline(found):
            print(line)
        if arguments.write is not None:
            write(arguments.write, report, found, steps, rows)
            print(f"wrote {arguments.write / 'results.md'}")
    raise SystemExit(not all(holds for *_, holds in rows))


def study(arguments: argparse.Namespace, folder: Path) -> Steps:
    """Run all steps in a folder and return the seconds that each took."""
    store = ["--store", str(folder / "work.db")]
    history = [*store, "--run", "history", "--detector"]
    steps: Steps = {}
    for name in SETS:
        file = shortened(arguments.data / "dev" / f"{name}.jsonl", folder, arguments.limit)
        timed(steps, "import", ["import", str(file), *store])
    for context in ("turn", "history"):
        given = ["evaluate", *store, "--run", context, "--context", context, "-j", str(arguments.jobs)]
        timed(steps, f"evaluate, context {context}", given)
    timed(steps, "tune", ["tune", *history, "learned", "--out", str(folder / "tuned.yaml")])
    timed(steps, "calibrate", ["calibrate", *history, "cusum", "--out", str(folder / "calibrated.yaml")])
    detectors = [part for name in DETECTORS for part in ("--detector", name)]
    asked = ["compare", *store, "--run", "turn", "--run", "history", *detectors, "--target-fpr", TARGET_FPR]
    timed(steps, "compare", [*asked, "--folds", str(arguments.folds), "--report", str(folder / "report")])
    return steps


def shortened(file: Path, folder: Path, limit: int) -> Path:
    """Return a file with the first conversations of another, or that one itself."""
    if not limit:
        return file
    short = folder / file.name
    short.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:limit]), encoding="utf-8")
    return short


def timed(steps: Steps, step: str, command: list[str]) -> None:
    """Run a command and add its seconds to a step; where it fails, say why and stop."""
    # Small matrices on several threads wait for each other: fitting takes ten times as long.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    began = time.perf_counter()
    done = subprocess.run([*TURNWISE, *command], capture_output=True, text=True, env=environment, check=False)
    steps[step] = steps.get(step, 0.0) + time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"turnwise {' '.join(command[:1])} failed: {done.stderr.strip()[-500:]}")


def requirements(found: dict[str, Any], steps: Steps) -> list[tuple[str, str, str, bool]]:
    """Return what must hold: name, measured, required, whether it holds."""
    seconds = sum(steps.values())
    conversations = found["data"]["conversations"]
    detectors = len({row["name"].partition("@")[0] for row in found["detectors"]})
    return [
        ("seconds in all", f"{seconds:.0f}", f"at most {MOST_SECONDS:.0f}", seconds <= MOST_SECONDS),
        (
            "conversations",
            str(conversations),
            f"at least {LEAST_CONVERSATIONS}",
            conversations >= LEAST_CONVERSATIONS,
        ),
        ("detectors", str(detectors), f"at least {LEAST_DETECTORS}", detectors >= LEAST_DETECTORS),
    ]


def show(rows: list[tuple[str, str, str, bool]]) -> None:
    """Print what must hold."""
    for name, measured, required, holds in rows:
        print(f"{name:18} {measured:>8}  {required:18} {'' if holds else 'MISSED'}")


def headline(found: dict[str, Any]) -> list[str]:
    """Return stateless against temporal on each set of attacks, with what the specification expects."""
    names = [row["name"] for row in found["detectors"]]
    reference, chosen = names.index(found["reference"]), names.index(found["chosen"])
    lines = []
    for cell in found["cells"]:
        if cell["division"] != "source" or cell["value"] not in SHOWN or cell["gain"] is None:
            continue
        stateless, temporal = (percent(cell["recall"][place]) for place in (reference, chosen))
        gain = cell["gain"]
        lines.append(
            f"{SHOWN[cell['value']]}: stateless ({found['reference']}) {stateless}, expected "
            f"{EXPECTED['stateless']}; temporal ({found['chosen']}) {temporal}, expected {EXPECTED['temporal']}; "
            f"alone {gain['b_count']} to {gain['c_count']} of {gain['pairs']} attacks in {gain['groups']} groups, "
            f"exact p = {gain['p']:.2g}"
        )
    return lines


def percent(rate: dict[str, Any]) -> str:
    """Return a rate with its exact interval."""
    low, high = rate["ci"]
    return f"{100 * rate['value']:.1f} % [{100 * low:.1f}, {100 * high:.1f}] ({rate['count']} of {rate['of']})"


def write(
    target: Path, report: Path, found: dict[str, Any], steps: Steps, rows: list[tuple[str, str, str, bool]]
) -> None:
    """Write results.md and the figures that it shows."""
    figures = target / "results"
    figures.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        file = report / "figures" / f"{name}.svg"
        if file.exists():
            shutil.copyfile(file, figures / f"{name}.svg")
    text = (report / "report.md").read_text(encoding="utf-8")
    opening = text.partition("\n**")[0].partition("\n")[2].strip()
    observer = ", ".join(
        dict.fromkeys(f"{run['observer']} {run['observer_version']}" for run in found["data"]["runs"])
    )
    lines = [
        "# Results",
        "",
        "What `benchmarks/study.py` measured: the embedded observer on conversations by other people, none of "
        "which it was trained on. `docs/study.md` says how such a study is made and read.",
        "",
        "## Stateless against temporal",
        "",
        *(f"- {line}" for line in headline(found)),
        "",
        "Expected is what the specification hopes for; what is measured stands beside it.",
        "",
        opening,
        "",
        "## What must hold",
        "",
        "| measure | measured | required | holds |",
        "|---|---:|---|---|",
        *(
            f"| {name} | {measured} | {required} | {'yes' if ok else '**no**'} |"
            for name, measured, required, ok in rows
        ),
        "",
        "Seconds by step: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in steps.items()) + ".",
        "",
        "## Tables",
        "",
        *(
            (report / "tables" / f"{name}.md").read_text(encoding="utf-8")
            for name in TABLES
            if (report / "tables" / f"{name}.md").exists()
        ),
        "## Figures",
        "",
        *(f"![{name}](results/{name}.svg)\n" for name in FIGURES if (figures / f"{name}.svg").exists()),
        f"Observer {observer}; turnwise {found['versions']['turnwise']}; conversations SHA-256 "
        f"`{found['data']['sha256']}`; seed {found['configuration']['seed']}.",
        "",
    ]
    (target / "results.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
