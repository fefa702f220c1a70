"""JSON and YAML of others: bounds of depth, size and digits, each an error in one line."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise._support.bounded import MAX_JSON_DEPTH, Nesting, ShallowStream, YamlError, read_json, read_yaml

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.integers(1, 7))
def test_what_is_shallow_passes_whatever_its_texts_and_however_it_is_cut(value: object, size: int) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()
    nesting = Nesting()
    assert not any(nesting.too_deep(data[at : at + size]) for at in range(0, len(data), size))
    assert read_json(data) == value


@given(st.text(), st.integers(1, 7))
def test_the_first_bracket_too_deep_is_found_however_the_text_is_cut(text: str, size: int) -> None:
    fine = b"[" + json.dumps(text).encode() + b"," + b"[" * (MAX_JSON_DEPTH - 1)
    stream, read = ShallowStream(io.BytesIO(fine + b"[[[")), b""
    with pytest.raises(ValueError, match="more than 200 levels deep"):
        while part := stream.read(size):
            read += part
    assert read == fine


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 1000, "brackets are nested more than 200 levels deep; flatten it"),
        ('{"a":' * 1000, "more than 200 levels"),
        ("1" * 65, "a whole number has 65 digits; 64 is the most"),
        (b"\xff", "utf-8"),
        ("[1", "delimiter"),
    ],
)
def test_json_past_a_bound_is_refused_in_a_line(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a:\n  " + "[" * 51, 2, "nested more than 50 levels deep"),
        ("a: &x [1]\nb: *x", 2, r"\*x is an alias; write out what it stands for"),
        ("a: &x\n  b: *x", 2, "an alias"),
        ("a: " + "9" * 65, 1, "a whole number has 65 digits"),
        ("a: 0x" + "9" * 65, 1, "a whole number has 67 digits"),
        ("a: 1" + ":59" * 40, 1, "a whole number has"),
        ("a: 1\nb: 2025-02-30", 2, "'2025-02-30' is not a valid timestamp"),
        ("a: 2025-01-01T25:00:00Z", 1, "is not a valid timestamp"),
        ("a: !!int x", 1, "'x' is not a valid int"),
        ("a: !!int ''", 1, "'' is not a valid int"),
        ("a: !!bool 7", 1, "'7' is not a valid bool"),
        ("a: !!float x", 1, "'x' is not a valid float"),
        ("a: !!python/name:os.system x", 1, "could not determine a constructor"),
        ("? [1]\n: 2", 1, "unhashable key"),
        ("a: [", 1, "but found '<stream end>'"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: \x07", None, "special characters are not allowed"),
        ("#" * (4 << 20) + "#", None, "4194304 is the most"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_yaml_past_a_bound_is_refused_in_a_line_that_says_where(text: str, line: int | None, reason: str) -> None:
    with pytest.raises(YamlError, match=reason) as caught:
        read_yaml(text)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_a_billion_laughs_are_refused_at_the_first() -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(YamlError, match="line 2: "):
        read_yaml("\n".join(["a0: &a0 [lol]", *levels]))
