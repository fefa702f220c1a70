"""Importing turnwise is cheap, and its public names are pinned."""

from __future__ import annotations

import subprocess
import sys

import pytest

import turnwise

HEAVY = (
    "numpy",
    "scipy",
    "torch",
    "duckdb",
    "sqlalchemy",
    "rich",
    "tokenizers",
    "ijson",
    "datasets",
    "pandas",
    "anthropic",
    "openai",
    "pydantic",
    "redis",
    "altair",
    "vl_convert",
    "optuna",
    "yaml",
    "re2",
    "phonenumbers",
    "publicsuffixlist",
    "ahocorasick_rs",
    "gcld3",
    "idna",
)


@pytest.mark.parametrize(
    "statement",
    [
        "import turnwise",
        "import turnwise.cli.app",
        "import turnwise.conversation, turnwise.detectors",
        "import turnwise.guard",
    ],
)
def test_nothing_heavy_is_loaded(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_public_names() -> None:
    assert turnwise.__all__ == [
        "Conversation",
        "Evaluation",
        "Failure",
        "GuardrailPipeline",
        "Label",
        "PipelineResult",
        "Report",
        "Score",
        "Sequence",
        "Side",
        "Store",
        "Trajectory",
        "Turn",
        "TurnwiseError",
        "__version__",
        "analyze_conversation_forensics",
        "balance",
        "check",
        "detect",
        "evaluate",
        "load",
        "score",
        "trust_strength",
    ]
    assert all(hasattr(turnwise, name) for name in turnwise.__all__)
    assert dir(turnwise) == sorted(turnwise.__all__)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'GuardRail'"):
        turnwise.GuardRail  # noqa: B018 - looking it up is the point
