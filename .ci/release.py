"""What a release needs beside wheel and sdist.

python .ci/release.py tag v0.3.0   # refuses a tag that package, citation and changelog do not agree with
python .ci/release.py sbom dist    # writes what installing the wheel brings as CycloneDX: dist/turnwise.cdx.json
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r'^__version__ = "(.+)"$', flags=re.MULTILINE)
CITED = re.compile(r"^(version|date-released): (\S+)$", flags=re.MULTILINE)
ENTRY = re.compile(r"^## \[(\d[^\]]*)\] - (\d{4}-\d{2}-\d{2})$", flags=re.MULTILINE)


def main() -> None:
    """Do what the command line says; leave with an error that names what is wrong."""
    match sys.argv[1:]:
        case ["tag", tag]:
            faults = list(disagreements(tag, ROOT))
            sys.exit("\n".join(faults) if faults else 0)
        case ["sbom", folder]:
            print(sbom(Path(folder)))
        case _:
            sys.exit(__doc__)


def disagreements(tag: str, root: Path) -> Iterator[str]:
    """Yield what a tag, the package, the citation and the changelog disagree on.

    Args:
        tag: such as v0.3.0.
        root: the repository.
    """
    (version,) = VERSION.findall((root / "src/turnwise/_version.py").read_text(encoding="utf-8"))
    if tag != f"v{version}":
        yield f"the tag is {tag}, and the version in src/turnwise/_version.py is {version}: tag v{version}"
    cited = dict(CITED.findall((root / "CITATION.cff").read_text(encoding="utf-8")))
    if cited["version"] != version:
        yield f"CITATION.cff names version {cited['version']}, and the package is {version}"
    released = dict(ENTRY.findall((root / "CHANGELOG.md").read_text(encoding="utf-8")))
    if next(iter(released), None) != version:
        yield f"CHANGELOG.md has no topmost section '## [{version}] - YEAR-MONTH-DAY'"
    elif cited["date-released"] != released[version]:
        yield f"CITATION.cff says {cited['date-released']}, and CHANGELOG.md {released[version]}"


def sbom(folder: Path) -> Path:
    """Write the software bill of materials of a wheel beside it, and return its path.

    It names what a plain installation of the wheel into an empty environment brings, in the versions of today.

    Args:
        folder: with one wheel.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    (wheel,) = folder.glob("*.whl")
    version = wheel.name.split("-")[1]
    with TemporaryDirectory() as work:
        environment, project, made = (Path(work) / name for name in ("environment", "pyproject.toml", "made.json"))
        venv.create(environment)  # without pip, which is no part of an installation
        project.write_text(with_version((ROOT / "pyproject.toml").read_text(encoding="utf-8"), version))
        _run("pip", "--python", environment, "install", "--quiet", "--only-binary", ":all:", wheel)
        _run(
            *("cyclonedx_py", "environment", "--pyproject", project, "--mc-type", "library"),
            *("--output-reproducible", "--spec-version", "1.6", "-o", made, environment),
        )
        bom = json.loads(made.read_text(encoding="utf-8"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    bom["metadata"]["component"] |= {
        "purl": f"pkg:pypi/turnwise@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    text = json.dumps(bom, indent=2) + "\n"
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        sys.exit(f"{made.name}: {fault}")
    for missing in not_named(bom, tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))):
        sys.exit(f"the bill of materials does not name {missing}, which the package needs")
    written = folder / "turnwise.cdx.json"
    written.write_text(text, encoding="utf-8")
    return written


def with_version(project: str, version: str) -> str:
    """Return a pyproject.toml that names its version, since the generator does not read it from the package."""
    return project.replace('dynamic = ["version"]', f'version = "{version}"')


def not_named(bom: dict[str, Any], project: dict[str, Any]) -> set[str]:
    """Return which dependencies of a pyproject.toml a bill of materials does not name."""
    needed = {re.split(r"[<>=!~;\[ ]", one)[0] for one in project["project"]["dependencies"]}
    named = {component["name"] for component in bom["components"]}
    return {_normal(name) for name in needed} - {_normal(name) for name in named}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run(module: str, *arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True)


if __name__ == "__main__":
    main()
