"""What docs/serve.md shows works, against a service that runs."""

import re
from pathlib import Path

import pytest
from served import served

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "serve.md").read_text(encoding="utf-8")
PAGE_OF_COMMANDS = (DOCS / "cli.md").read_text(encoding="utf-8")
"""Made of the commands' own help."""

KEY = "0123456789abcdef"


def test_the_examples_in_python_run():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 3
    with served("--preset", "customer_service", env={"TURNWISE_API_KEYS": KEY}) as service:
        for block in blocks:
            names = {"service": service.url, "key": KEY}
            exec(compile(block, "docs/serve.md", "exec"), names)
    assert names["app"].title == "turnwise"


def test_the_options_that_the_page_names_are_those_of_the_command():
    commands = PAGE_OF_COMMANDS.split("## `turnwise serve`")[1].split("\n## ")[0]
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= set(re.findall(r"--[a-z][a-z-]+", commands))
