"""Which code and which libraries a result rests on."""

from __future__ import annotations

import functools
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from turnwise._version import __version__


@functools.cache
def code_version() -> str:
    """The version, such as ``"0.2.0"``, or from a git checkout ``"0.2.0+g1a2b3c4d5e6f.dirty"``."""
    package = Path(__file__).parents[1]
    if not (package.parent.parent / ".git").exists():
        return __version__
    revision = _git(package, "rev-parse", "--short=12", "HEAD")
    if not revision:
        return __version__
    dirty = ".dirty" if _git(package, "status", "--porcelain", "--untracked-files=no", "--", ".") else ""
    return f"{__version__}+g{revision}{dirty}"


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of turnwise, its code, Python and some packages; those not installed are left out.

    >>> list(versions(["numpy", "not-installed-anywhere"]))
    ['turnwise', 'code', 'python', 'numpy']
    """
    found = {"turnwise": __version__, "code": code_version(), "python": platform.python_version()}
    for name in libraries:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
