"""What docs/guard.md shows works."""

import re
from pathlib import Path

import pytest

from turnwise import GuardrailPipeline
from turnwise.guard.config import Config
from turnwise.guard.guardrail import GUARDRAILS
from turnwise.guard.yaml_lines import read_yaml

PAGE = (Path(__file__).parents[2] / "docs/guard.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_examples_in_python_run(monkeypatch):
    monkeypatch.setattr(GUARDRAILS, "_parts", dict(GUARDRAILS._parts))
    names = {"call_model": lambda messages: "Thank you."}
    for block in blocks("python"):
        exec(compile(block, "docs/guard.md", "exec"), names)
    assert names["result"].pipeline_type == "output"
    shouting = GuardrailPipeline({"guardrails": [{"shouting": {"share": 0.5}}]})
    assert [shouting.check_input(text).blocked for text in ("STOP IT", "stop it", "123")] == [True, False, False]


@pytest.mark.parametrize("block", blocks("yaml"))
def test_the_examples_in_yaml_are_configurations(block):
    if "guardrails:" not in block:
        listed = block.lstrip().startswith("- ")
        block = f"guardrails:\n{block}" if listed else f"{block}\nguardrails: [drift]"
    pipeline = GuardrailPipeline(Config.of(*read_yaml(block, "docs/guard.md")))
    assert pipeline.steps
