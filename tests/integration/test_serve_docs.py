"""What docs/serve.md shows works, against a service that runs."""

import re
from pathlib import Path

import pytest
from served import served

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs/serve.md").read_text(encoding="utf-8")
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
    from typer.main import get_command

    from turnwise.cli.app import app

    command = get_command(app).commands["serve"]
    options = {name for option in command.params for name in option.opts}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= options
