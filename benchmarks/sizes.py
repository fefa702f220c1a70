"""What an installation weighs and how soon it answers, beside the first release: ``python benchmarks/sizes.py``.

For each of two states of the repository a wheel is built and installed without extras into an environment of its
own; then files are counted and commands timed. Needs the package index. `--write docs/decisions/0022-sizes.md`
puts the tables into that page, and every distribution into the CSV file beside it.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIRST = "784e6bf"
"""The first state with import, observer, detectors, demo and README together; nothing before 0.2.0 bears a tag."""

MOST_INSTALLED = 430_000_000
"""Bytes that an installation without extras may take."""

START, END = "<!-- benchmarks/sizes.py -->", "<!-- end -->"
TIMES = 9

IN_ENVIRONMENT = """
import json, importlib.metadata as metadata
sizes = {}
for dist in metadata.distributions():
    paths = [dist.locate_file(file) for file in dist.files or ()]
    sizes[dist.metadata["Name"].lower()] = sum(path.stat().st_size for path in paths if path.is_file())
wanted = metadata.requires("turnwise") or []
print(json.dumps({"sizes": sizes, "requires": [one for one in wanted if "extra ==" not in one]}))
"""


@dataclass(frozen=True)
class Installed:
    """What one state of the repository is once it is installed.

    Args:
        name: what it is called in the table.
        wheel: bytes of the wheel.
        sizes: bytes by distribution, without pip; files with their compiled form.
        requires: what it requires without extras.
        install_s: seconds that pip took.
        import_s: processor seconds of ``import turnwise``, median.
        help_s: the same of ``turnwise --help``.
        version_s: the same of Python doing nothing.
    """

    name: str
    wheel: int
    sizes: dict[str, int]
    requires: list[str]
    install_s: float
    import_s: float
    help_s: float
    version_s: float

    @property
    def total(self) -> int:
        """Bytes of everything."""
        return sum(self.sizes.values())


def main() -> None:
    """Measure both states and print, or write, the tables; leave with 1 where the installation is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", default=FIRST, help="revision to compare with")
    parser.add_argument("--python", default=sys.executable, help="Python of the environments")
    parser.add_argument(
        "--also", nargs="*", default=[], help="further Pythons that install the wheel and run the demo"
    )
    parser.add_argument("--write", type=Path, help="page that gets the tables")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        with tarfile.open(fileobj=io.BytesIO(_out("git", "-C", str(ROOT), "archive", given.first))) as archive:
            archive.extractall(work / "first", filter="data")
        before = measured(given.first, work / "first", work / "of-first", given.python)
        now = measured("now", ROOT, work / "of-now", given.python)
        others = [
            smoke(python, next((work / "of-now").glob("*.whl")), work / f"also-{at}")
            for at, python in enumerate(given.also)
        ]
    text = tables(before, now, others)
    print(text)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        head, _, rest = page.partition(START)
        given.write.write_text(f"{head}{START}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
        with given.write.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("distribution", "first release", "now"))
            for name in _names(before, now):
                rows.writerow((name, _megabytes(before.sizes, name), _megabytes(now.sizes, name)))
    if now.total > MOST_INSTALLED:
        sys.exit(f"{now.total:,} bytes installed, at most {MOST_INSTALLED:,} are allowed")


def measured(name: str, source: Path, work: Path, python: str) -> Installed:
    """Build, install and measure one state."""
    _run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(work), str(source))
    (wheel,) = work.glob("*.whl")
    _run(python, "-m", "venv", str(work / "venv"))
    inside = str(work / "venv" / "bin" / "python")
    began = time.perf_counter()
    _run(inside, "-m", "pip", "install", "--quiet", str(wheel))
    seconds = time.perf_counter() - began
    found = json.loads(_out(inside, "-I", "-c", IN_ENVIRONMENT))
    sizes = {name: size for name, size in found["sizes"].items() if name not in {"pip", "setuptools"}}
    commands = (
        (inside, "-c", "import turnwise"),
        (str(Path(inside).with_name("turnwise")), "--help"),
        (inside, "-c", ""),
    )
    return Installed(
        name, wheel.stat().st_size, sizes, found["requires"], seconds, *map(_processor_seconds, commands)
    )


def smoke(python: str, wheel: Path, work: Path) -> str:
    """Install the wheel with another Python, run the demo, and return a row that says how that went."""
    version = _out(python, "--version").decode().strip()
    try:
        _run(python, "-m", "venv", str(work))
        _run(str(work / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel))
        demo = json.loads(_out(str(work / "bin" / "turnwise"), "demo", "--json", cwd=work))
    except subprocess.CalledProcessError as error:
        last = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
        return f"| {version} | no: {''.join(last)} |"
    conversations = len({one["sequence_id"] for arm in demo["arms"] for one in arm["conversations"]})
    return f"| {version} | yes: {conversations} conversations in {len(demo['arms'])} ways |"


def tables(before: Installed, now: Installed, others: Sequence[str]) -> str:
    """Return the measurements as Markdown."""
    rows = [
        ("wheel", *(f"{one.wheel / 1e6:.1f} MB" for one in (before, now))),
        ("installed without extras", *(f"{one.total / 1e6:.0f} MB" for one in (before, now))),
        ("distributions", *(str(len(one.sizes)) for one in (before, now))),
        ("required directly", *(str(len(one.requires)) for one in (before, now))),
        ("pip install", *(f"{one.install_s:.0f} s" for one in (before, now))),
        ("`import turnwise`", *(f"{one.import_s - one.version_s:.3f} s" for one in (before, now))),
        ("`turnwise --help`", *(f"{one.help_s - one.version_s:.3f} s" for one in (before, now))),
    ]
    lines = [
        f"| | first release ({before.name}) | now |",
        "|---|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        "Required directly: " + ", ".join(f"`{one}`" for one in sorted(now.requires)) + ".",
        "",
        "[Every distribution](0022-sizes.csv).",
    ]
    if others:
        lines += ["", "| Python | installs and runs the demo |", "|---|---|", *others]
    return "\n".join(lines)


def _names(before: Installed, now: Installed) -> list[str]:
    """Return the names of all distributions, the largest first."""
    return sorted({*before.sizes, *now.sizes}, key=lambda name: (-now.sizes.get(name, 0), name))


def _megabytes(sizes: dict[str, int], name: str) -> str:
    return f"{sizes[name] / 1e6:.1f} MB" if name in sizes else ""


def _processor_seconds(command: Sequence[str]) -> float:
    """Return the median of the processor time of a command, which others on the machine change little."""
    taken = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=_environment())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment())


def _out(*command: str, cwd: Path | None = None) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, env=_environment(), cwd=cwd).stdout


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}


if __name__ == "__main__":
    main()
