"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import turnwise
from turnwise.integrations import MissingExtraError


def modules() -> list[str]:
    found = (
        module.name for module in pkgutil.walk_packages(turnwise.__path__, "turnwise.", onerror=lambda name: None)
    )
    return [name for name in found if not name.endswith("__main__")]


def test_docstring_examples() -> None:
    runner = doctest.DocTestRunner()
    finder = doctest.DocTestFinder()
    # Without examples a docstring is left out here: the runner looks at every source file for each.
    for name in modules():
        try:
            module = importlib.import_module(name)
        except MissingExtraError:
            continue  # those of the frameworks are run where their extras are installed, as in CI
        for test in finder.find(module):
            if test.examples:
                runner.run(test)
    assert runner.tries > 40
    assert runner.failures == 0, "see the failed examples above"
