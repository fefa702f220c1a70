"""Check what a wheel and an sdist hold, and list it: ``python .ci/dist_contents.py dist``."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from email import message_from_string
from pathlib import Path, PurePosixPath

WEIGHTS = "turnwise/observers/local/weights/"
ORDERS = {
    f"turnwise/guard/guardrails/{name}.{kind}"
    for name in ("orders", "order_languages")
    for kind in ("bin", "yaml")
}
IN_SDIST = {
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "NOTICE", "PKG-INFO", "README.md"),
    *(
        "SECURITY.md",
        "docs",
        "documentation",
        "examples",
        "mkdocs.yml",
        "pyproject.toml",
        "src",
        "tests",
        ".gitignore",
    ),
}
STRAY = ("__pycache__", ".pyc", ".db", ".db-wal", ".db-shm", ".orig", ".ipynb_checkpoints", ".DS_Store")
MOST_BYTES = 100_000_000
"""Of a file: what package indexes take by default."""

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def main() -> None:
    """Check both files of a folder; leave with an error that names what is wrong."""
    (folder,) = sys.argv[1:]
    (wheel,), (sdist,) = sorted(Path(folder).glob("*.whl")), sorted(Path(folder).glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as file:
        sizes = {one.filename: one.file_size for one in file.infolist() if not one.is_dir()}
        (entry_points,) = (file.read(name).decode() for name in sizes if name.endswith("/entry_points.txt"))
        (metadata,) = (file.read(name).decode() for name in sizes if name.endswith(".dist-info/METADATA"))
    with tarfile.open(sdist) as archive:
        inside = {one.name.partition("/")[2]: one.size for one in archive if one.isfile()}
        of_sdist = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO")
        _demand(
            of_sdist is not None and of_sdist.read().decode() == metadata, "metadata of wheel and sdist differ"
        )

    package = {name for name in sizes if not name.split("/")[0].endswith(".dist-info")}
    info = {name.partition("/")[2] for name in sizes if name not in package}
    _demand({name.split("/")[0] for name in package} == {"turnwise"}, "the wheel holds another package")
    _demand({"METADATA", "licenses/LICENSE", "licenses/NOTICE"} <= info, f"of the wheel's dist-info: {info}")
    _demand("turnwise = turnwise.cli:main" in entry_points, "the wheel has no command turnwise")
    _demand("turnwise/py.typed" in package, "the wheel does not say that it is typed")
    _demand(any(name.startswith(WEIGHTS) for name in package), "the wheel has no weights")
    _demand(package >= ORDERS, "the wheel lacks what tells orders from mentions")
    for each in (wheel, sdist):
        _demand(each.stat().st_size < MOST_BYTES, f"{each.name} has {each.stat().st_size:,} bytes")
    for fault in metadata_faults(metadata, wheel.name.split("-")[1]):
        sys.exit(f"dist_contents: {fault}")
    source = {name.removeprefix("src/") for name in inside if name.startswith("src/")}
    _demand(source == package, f"wheel and sdist differ in {sorted(source ^ package)[:5]}")
    _demand({name.split("/")[0] for name in inside} == IN_SDIST, f"top of the sdist: {_tops(inside)}")
    stray = [name for name in (*sizes, *inside) if any(part in name for part in STRAY)]
    _demand(not stray, f"stray files: {stray[:5]}")

    for path, held in ((wheel, sizes), (sdist, inside)):
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(held)} files of {sum(held.values()):,}")
        for top, count in _tops(held).most_common():
            size = sum(each for name, each in held.items() if _top(name) == top)
            print(f"  {top:32} {count:5} files {size:12,}")


def metadata_faults(metadata: str, version: str) -> list[str]:
    """Return what an index would refuse, or a user could not rely on, of a package's metadata.

    Args:
        metadata: METADATA of the wheel.
        version: as the wheel's file name has it.
    """
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    fields = message_from_string(metadata)
    needs = fields.get_all("Requires-Dist", [])
    pythons = {name.rpartition(" ")[2] for name in project["classifiers"] if "Python :: 3." in name}
    wanted = {
        "Name": project["name"],
        "Version": version,
        "Summary": project["description"],
        "License-Expression": project["license"],
        "Requires-Python": project["requires-python"],
        "Description-Content-Type": "text/markdown",
    }
    faults = [
        f"{name} is {fields[name]!r}, not {value!r}" for name, value in wanted.items() if fields[name] != value
    ]
    if sorted(fields.get_all("Classifier", [])) != sorted(project["classifiers"]):
        faults.append("the classifiers are not those of pyproject.toml")
    if f">={min(pythons, key=lambda one: int(one.partition('.')[2]))}" != project["requires-python"]:
        faults.append(
            f"the classifiers name Python {sorted(pythons)}, requires-python {project['requires-python']}"
        )
    if set(project["optional-dependencies"]) != set(fields.get_all("Provides-Extra", [])):
        faults.append("the extras are not those of pyproject.toml")
    faults += [f"{need} is fetched from a place of its own" for need in needs if "@" in need]
    urls = set(re.findall(r"\w+://[^\s;,]+", metadata.partition("\n\n")[0]))
    faults += [
        f"{url} is not among [project.urls]" for url in sorted(urls - set(project.get("urls", {}).values()))
    ]
    faults += [f"{url} is not https" for url in sorted(urls) if not url.startswith("https://")]
    return faults


def _tops(names: dict[str, int]) -> Counter[str]:
    return Counter(map(_top, names))


def _top(name: str) -> str:
    parts = PurePosixPath(name).parts
    start = 1 if parts[0] == "src" else 0
    return "/".join(parts[: start + 2]) if parts[start] == "turnwise" and len(parts) > start + 2 else parts[0]


def _demand(kept: bool, message: str) -> None:
    if not kept:
        sys.exit(f"dist_contents: {message}")


if __name__ == "__main__":
    main()
