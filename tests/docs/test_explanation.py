"""Pages that explain run their examples too."""

from __future__ import annotations

import pytest
from pages import run


@pytest.mark.parametrize("page", ["index.md", "explanation/averages.md"])
def test_its_examples_print_what_they_say(page, folder):
    run(page)
