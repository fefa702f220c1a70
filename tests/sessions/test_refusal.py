"""Refusals are recognised by what the speaker says of himself, not by single words."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from turnwise.sessions import is_refusal

spec = importlib.util.spec_from_file_location("refusal_examples", Path(__file__).parent / "refusal_examples.py")
examples = importlib.util.module_from_spec(spec)
spec.loader.exec_module(examples)


@pytest.mark.parametrize("response", examples.REFUSALS)
def test_refusals(response):
    assert is_refusal(response)


@pytest.mark.parametrize("response", examples.ANSWERS)
def test_answers(response):
    assert not is_refusal(response)


@pytest.mark.parametrize("response", examples.REFUSALS[:20])
def test_case_apostrophes_and_line_ends_do_not_matter(response):
    assert is_refusal(response.upper())
    assert is_refusal(response.replace("'", "’"))
    assert is_refusal(response.replace(" ", "\n"))


@pytest.mark.parametrize("response", examples.REFUSALS[:20])
def test_a_quoted_refusal_is_none(response):
    assert not is_refusal(f'The reply was: "{response}" What should we make of it?')


@given(st.text(max_size=300))
def test_any_text_gives_an_answer(text):
    assert is_refusal(text) in (True, False)


def test_a_long_text_is_read_at_its_ends_only():
    padding = "The river rises in the hills and runs to the sea. " * 2_000
    assert is_refusal(f"I can't help with that. {padding}")
    assert is_refusal(f"{padding} I can't help with that.")
    assert not is_refusal(f"{padding} I can't help with that. {padding}")


@pytest.mark.parametrize(
    "unit", ["i really ", " i can't", '"', "`", "\n> ", "don't think it is a", "my my ", "é\ud800 i "]
)
def test_a_long_text_takes_no_longer_than_its_ends(unit):
    assert grows_linearly(is_refusal, unit)
