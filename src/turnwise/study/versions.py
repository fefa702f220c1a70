"""Versions of what a result depends on."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from turnwise._version import __version__
from turnwise.revision import code_version


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Return the versions of turnwise, its code, Python and some packages; those not installed are left out.

    Args:
        libraries: names of packages.

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
