"""Measures turnwise and other guards on the same conversations, each in an environment of its own.

    python -m benchmarks.peers.run --data PATH_TO_DATA [--work FOLDER] [--peer NAME ...] [--core 0] [--write]

Makes a virtual environment for each guard under a temporary folder (or `--work`, which is kept and used again),
installs the pinned version from the package index, gives it all conversations, and prints what it found and how
fast. Verdicts are JSON lines under ``verdicts/NAME/PART.jsonl``; the same command goes on where it was stopped.
`--core` keeps every guard on one processor core. `--write` puts counts and times (no text) into figures.json and
the pages made from it. A part whose weights or key are not here is listed with the reason; models are looked
for on this machine alone unless `--online` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.conversations import ORDINARY, write
from benchmarks.peers.page import figures_of, read, tables, write_page
from benchmarks.peers.stored import write_stored

ROOT = Path(__file__).parents[2]

CHECKED = Path("verdicts", "turnwise", "check.jsonl")
"""What `turnwise.check` says of each conversation."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
QUIET = {"DO_NOT_TRACK": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Peer:
    """A guard and how it is installed.

    Args:
        title: as the page calls it.
        package: name on the package index.
        version: the version that is measured.
        released: month of that version.
        install: what pip is given, one call each.
    """

    title: str
    package: str
    version: str
    released: str
    install: tuple[str, ...]


def pinned(title: str, package: str, version: str, released: str, *, extra: str = "", before: str = "") -> Peer:
    """Return a guard of the package index at one version; `before` is installed first."""
    last = f"{package}[{extra}]=={version}" if extra else f"{package}=={version}"
    return Peer(title, package, version, released, (before, last) if before else (last,))


TORCH = "torch==2.13.0"
"""Both that need it take any; one version, so that the sizes can be compared."""

PEERS = {
    "turnwise": Peer("turnwise", "turnwise", "this checkout", "", (str(ROOT),)),
    "stinger": pinned("Stinger", "stinger-guardrails-alpha", "0.1.0a5", "2025-07", extra="ai"),
    "llm_guard": pinned("LLM Guard", "llm-guard", "0.3.16", "2025-05", before=TORCH),
    "nemoguardrails": pinned("NeMo Guardrails", "nemoguardrails", "0.24.1", "2026-09", extra="jailbreak"),
    "openai_guardrails": pinned("OpenAI Guardrails", "openai-guardrails", "0.3.6", "2026-10"),
    "llamafirewall": pinned("LlamaFirewall", "llamafirewall", "1.0.3", "2025-05", before=TORCH),
}
"""By the name of their module beside this file."""


def main() -> None:
    """Install, measure, print, and write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev and train")
    parser.add_argument("--work", type=Path, help="keep environments and verdicts here, and use them again")
    parser.add_argument("--peer", action="append", choices=[*PEERS], help="only this one; may be given again")
    parser.add_argument("--part", action="append", help="only this part of it; may be given again")
    parser.add_argument("--scores", type=Path, help="store of benchmarks/judged.py: what it has scored stands")
    parser.add_argument("--core", type=int, help="keep every guard on this processor core")
    parser.add_argument("--online", action="store_true", help="let guards load their models from a hub")
    parser.add_argument("--write", action="store_true", help="write figures.json and the pages made from it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = asked.work or Path(name)
        work.mkdir(parents=True, exist_ok=True)
        chats = work / "conversations.jsonl"
        if not chats.exists():
            write(asked.data, chats)
        if asked.scores:
            wanted = [row["id"] for row in read(chats) if row["kind"] != ORDINARY]  # ordinary chats are timed
            write_stored(asked.scores, wanted, work / CHECKED)
        for peer in asked.peer or PEERS:
            python = environment(peer, work)
            options = [argument for part in asked.part or () for argument in ("--part", part)]
            if asked.core is not None:
                options += ["--core", str(asked.core)]
            verdicts = ["--conversations", str(chats), "--out", str(work / "verdicts" / peer), *options]
            ask(python, peer, verdicts, asked.online)
        figures = figures_of(work, PEERS)
    print(tables(figures))
    if asked.write:
        write_page(figures)


def environment(peer: str, work: Path) -> Path:
    """Return the Python of a guard's own environment, which is made where there is none, and note its size."""
    folder = work / "environments" / peer
    python = folder / "bin" / "python"
    noted = work / "sizes" / f"{peer}.json"
    if not (noted.exists() and python.exists()):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        for what in PEERS[peer].install:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", what], check=True)
        noted.parent.mkdir(parents=True, exist_ok=True)
        noted.write_text(json.dumps(size_of(folder)), encoding="utf-8")
    return python


FIRST = ("pip", "setuptools", "_distutils", "pkg_")
"""What every environment begins with."""


def size_of(folder: Path) -> dict[str, float]:
    """Return how many packages an environment has and their megabytes, without pip and what it came with."""
    (packages,) = folder.glob("lib/python*/site-packages")
    own = [each for each in packages.iterdir() if not each.name.startswith(FIRST)]
    files = [file for each in own for file in ([each] if each.is_file() else each.rglob("*")) if file.is_file()]
    size = sum(file.stat().st_size for file in files if file.suffix != ".pyc")
    return {"megabytes": round(size / 1e6), "packages": sum(each.suffix == ".dist-info" for each in own)}


def ask(python: Path, peer: str, arguments: Sequence[str], online: bool) -> None:
    """Run a guard's module in its environment, from the root, so that its name hides no package."""
    given: Mapping[str, str] = {**os.environ, **QUIET, **ONE_THREAD, **({} if online else OFFLINE)}
    command = [str(python), "-m", f"benchmarks.peers.{peer}", *arguments]
    subprocess.run(command, cwd=ROOT, env=given, check=True)


if __name__ == "__main__":
    main()
