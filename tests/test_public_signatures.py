"""Public names say what they are for, and functions name what they take, so that an editor offers it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

PACKAGES = (
    "turnwise",
    "turnwise.conversation",
    "turnwise.datasets",
    "turnwise.detectors",
    "turnwise.guard",
    "turnwise.observers",
    "turnwise.patterns",
    "turnwise.principles",
    "turnwise.runs",
    "turnwise.scoring",
    "turnwise.serve",
    "turnwise.sessions",
    "turnwise.store",
    "turnwise.study",
    "turnwise.study.annotation",
    "turnwise.study.prevalence",
)


def functions(package: str) -> Iterator[tuple[str, Any]]:
    """Yield the public functions of a package, and the public methods of its classes."""
    module = importlib.import_module(package)
    for name in module.__all__:
        part = getattr(module, name)
        if inspect.isfunction(part):
            yield name, part
        elif inspect.isclass(part) and part.__module__.startswith("turnwise"):
            for method, function in inspect.getmembers(part, inspect.isroutine):
                if not method.startswith("_") or method == "__init__":
                    yield f"{name}.{method}", function


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_function_takes_just_any_keywords(package: str) -> None:
    vague = []
    for name, function in functions(package):
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # one of the interpreter's own
            continue
        vague += [name for one in parameters if one.kind is one.VAR_KEYWORD and one.annotation in ("Any", Any)]
    assert vague == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_says_what_it_is_for(package: str) -> None:
    module = importlib.import_module(package)
    own = {name: getattr(module, name) for name in module.__all__}
    parts = {name: part for name, part in own.items() if inspect.isclass(part) or inspect.isfunction(part)}
    assert [name for name, part in parts.items() if not inspect.getdoc(part)] == []
