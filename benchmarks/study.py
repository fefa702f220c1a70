"""The whole study on other people's conversations, from files to a report: how long it takes, what comes out.

    python benchmarks/study.py --data PATH_TO_DATA [--write docs] [--limit N]

Commands run as processes, as a user runs them: import, evaluate in both context modes, tune, calibrate, compare.
`tune` searches inside the conversations that `compare` trains on, so that what it writes may be compared on the
others. With --write, labels.md and its figures are written to that folder. --limit takes the first conversations
of each file alone, to try the script.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
TUNED = ("cusum", "trust_ema", "f_ema", "slope", "page_hinkley", "peak_accumulation", "hmm")
"""Searched for on the run with the history, inside the train part."""

AS_THEY_ARE = ("cusum", "learned", "sprt", "shiryaev_roberts")
"""Beside the five baselines, which are there anyway; all but the first are fitted on the train part."""

MOST_SECONDS = 300.0
LEAST_CONVERSATIONS = 2400
LEAST_DETECTORS = 12
TARGET_FPR = "0.01"
STATELESS_BELOW, TEMPORAL_ABOVE = 0.3, 0.8
"""Recalls that the specification expects."""

LEVEL = 0.05
SHOWN = {"safemt_attack600": "Attack_600", "auto_mt_transcripts": "automated transcripts"}
BESIDE = ("any_turn", "last_turn", "first_turn")
"""Baselines that stand beside the headline, on the run of the detector that is followed."""

FIGURES = ("recall", "roc", "survival", "gain", "courses", "shuffle", "calibration")
TABLES = (
    "detectors",
    "tests",
    "final",
    "by_source",
    "by_category",
    "by_length",
    "delay",
    "further",
    "shuffle",
    "lengths",
    "left_out",
    "label_noise",
    "splits",
)

Steps = dict[str, float]


def main() -> None:
    """Run the study, print what must hold beside what was measured, and write the results if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/*.jsonl")
    parser.add_argument("--limit", type=int, default=0, help="conversations of each file; 0 for all")
    parser.add_argument("--jobs", type=int, default=2, help="workers of evaluate")
    parser.add_argument("--budget", type=int, default=100, help="trials of each search")
    parser.add_argument("--write", type=Path, help="folder for labels.md and its figures")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = study(arguments, folder)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = children.ru_utime + children.ru_stime
        report = folder / "report"
        found = json.loads((report / "results.json").read_text(encoding="utf-8"))
        rows = requirements(found, steps)
        show(rows)
        print(f"{cpu:.0f} s of CPU")
        for line in headline(found):
            print(line)
        if arguments.write is not None:
            write(arguments.write, report, found, steps, rows, cpu)
            print(f"wrote {arguments.write / 'labels.md'}")
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
    files = [folder / f"{name}.yaml" for name in TUNED]
    for name, file in zip(TUNED, files, strict=True):
        searched = ["--budget", str(arguments.budget), "--target-fpr", TARGET_FPR, "--out", str(file)]
        timed(steps, "tune", ["tune", *history, name, *searched])
    timed(steps, "calibrate", ["calibrate", *history, "cusum", "--out", str(folder / "calibrated.yaml")])
    detectors = [part for name in (*map(str, files), *AS_THEY_ARE) for part in ("--detector", name)]
    asked = ["compare", *store, "--run", "turn", "--run", "history", *detectors, "--target-fpr", TARGET_FPR]
    timed(steps, "compare", [*asked, "--report", str(folder / "report")])
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
    began = time.perf_counter()
    done = subprocess.run([*TURNWISE, *command], capture_output=True, text=True, check=False)
    steps[step] = steps.get(step, 0.0) + time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"turnwise {' '.join(command[:1])} failed: {done.stderr.strip()[-500:]}")


def requirements(found: dict[str, Any], steps: Steps) -> list[tuple[str, str, str, bool]]:
    """Return what must hold: name, measured, required, whether it holds."""
    seconds = sum(steps.values())
    conversations = found["data"]["conversations"]
    detectors = len({row["built"][0]["detector"] for row in found["detectors"]})
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


def headline(found: dict[str, Any]) -> Iterator[str]:
    """Yield stateless against temporal on each set of attacks, with what the specification expects."""
    names = [row["name"] for row in found["detectors"]]
    for cell in shown_cells(found):
        stateless, temporal = (cell["recall"][names.index(found[which])] for which in ("reference", "chosen"))
        below = "met" if stateless["value"] < STATELESS_BELOW else "not met"
        above = "met" if temporal["value"] > TEMPORAL_ABOVE else "not met"
        gain = cell["gain"]
        if gain["p_holm"] >= LEVEL:
            result = "A difference is not shown"
        else:
            result = f"Looking over time catches {'more' if gain['gain'] > 0 else 'less'}"
        yield (
            f"**{SHOWN[cell['value']]}.** Stateless ({found['reference']}): {percent(stateless)}; expected "
            f"under {100 * STATELESS_BELOW:g} %, {below}. Temporal ({found['chosen']}): {percent(temporal)}; "
            f"expected over {100 * TEMPORAL_ABOVE:g} %, {above}. {result}: {gain['c_count']} attacks caught by "
            f"the second alone, {gain['b_count']} by the first alone, of {gain['pairs']} in {gain['groups']} "
            f"groups; exact p = {gain['p']:.2g}, after Holm's correction over the sources {gain['p_holm']:.2g}."
        )


def beside(found: dict[str, Any]) -> Iterator[str]:
    """Yield a table of the baselines that say how much of the gain is the context's, or the style's."""
    run = found["chosen"].rpartition("@")[2]
    arms = [found["reference"], *(f"{name}@{run}" for name in BESIDE), found["chosen"]]
    names = [row["name"] for row in found["detectors"]]
    cells = list(shown_cells(found))
    yield "| arm | " + " | ".join(f"recall on {SHOWN[cell['value']]}" for cell in cells) + " | false positives |"
    yield "|---|" + "---:|" * (len(cells) + 1)
    for arm in dict.fromkeys(arms):
        place = names.index(arm)
        row = found["detectors"][place]
        recalls = " | ".join(percent(cell["recall"][place]) for cell in cells)
        low, high = row["fpr_ci"]
        yield f"| {arm} | {recalls} | {100 * row['fpr']:.1f} % [{100 * low:.1f}, {100 * high:.1f}] |"


def shown_cells(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of the sets of attacks that the headline is about."""
    return [
        cell for cell in found["cells"] if cell["division"] == "source" and cell["value"] in SHOWN and cell["gain"]
    ]


def percent(rate: dict[str, Any]) -> str:
    """Return a rate with its exact interval."""
    low, high = rate["ci"]
    return f"{100 * rate['value']:.1f} % [{100 * low:.1f}, {100 * high:.1f}] ({rate['count']} of {rate['of']})"


def write(
    target: Path,
    report: Path,
    found: dict[str, Any],
    steps: Steps,
    rows: list[tuple[str, str, str, bool]],
    cpu: float,
) -> None:
    """Write labels.md and the figures that it shows."""
    figures = target / "labels"
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
        "# By labels of whole conversations",
        "",
        "The second view. [results.md](results.md) is the first: what careful readers say turn by turn. A label "
        "here says what the maker of a data set was after, and is given to a whole conversation: in a third of "
        "Attack_600 readers find nothing to flag, while the manner of its generator gives it away. Where the two "
        "differ, believe the readers; what follows shows how a study is made, not how well the observer sees.",
        "",
        "What `python benchmarks/study.py --data DATA --write docs` measured: the embedded observer on "
        "conversations by other people, none of which it was trained on. [study.md](study.md) says how such a "
        "study is made and read, [statistics.md](statistics.md) what the numbers rest on.",
        "",
        "## Stateless against temporal",
        "",
        f"Every arm at a threshold that other conversations set for {100 * float(TARGET_FPR):g} % false "
        "positives. The temporal one is the detector on the run with the history that caught most attacks inside "
        f"the train part, cross-fitted; {len(TUNED)} were searched for there by `turnwise tune`. Expected is what "
        "the specification hopes for. p is the larger of the exact McNemar test by conversation and by group.",
        "",
        *(f"- {line}" for line in headline(found)),
        "",
        "How much of that is the context's doing, and how much the first turn gives away:",
        "",
        *beside(found),
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
        "Seconds by step: "
        + ", ".join(f"{name} {seconds:.0f}" for name, seconds in steps.items())
        + f"; {cpu:.0f} of CPU.",
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
        *(f"![{name}](labels/{name}.svg)\n" for name in FIGURES if (figures / f"{name}.svg").exists()),
        f"Observer {observer}; turnwise {found['versions']['turnwise']}; conversations SHA-256 "
        f"`{found['data']['sha256']}`; seed {found['configuration']['seed']}.",
        "",
    ]
    (target / "labels.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
