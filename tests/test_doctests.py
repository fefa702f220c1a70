"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import turnwise


def modules() -> list[str]:
    found = (
        module.name for module in pkgutil.walk_packages(turnwise.__path__, "turnwise.", onerror=lambda name: None)
    )
    return [name for name in found if not name.endswith("__main__")]


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = [
        example
        for name in modules()
        for test in finder.find(importlib.import_module(name))
        for example in test.examples
    ]
    assert len(examples) > 40
