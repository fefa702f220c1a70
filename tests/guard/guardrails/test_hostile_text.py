"""No text, however strange, makes a text guardrail fail, lose its place or hide what it should find."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.guard import Guardrail, build_guardrail, finding_of

GUARDRAILS: dict[str, tuple[Guardrail, str]] = {
    "pii": (build_guardrail("pii", regions=("US", "GB")), "jane@example.com"),
    "secrets": (build_guardrail("secrets"), "postgres://app:s3cr3tpw@db.example/app"),
    "keywords": (build_guardrail("keywords", keywords=("falcon nine",)), "falcon nine"),
    "regex": (build_guardrail("regex", patterns={"badge": r"B-\d{3}"}), "B-123"),
    "urls": (build_guardrail("urls", deny=("evil.example",)), "https://evil.example/x"),
    "topics": (build_guardrail("topics", deny={"birds": ("falcon*",)}), "falcons"),
    "code": (build_guardrail("code"), "rm -rf /tmp/x"),
    "length": (build_guardrail("length", max_characters=3), "long"),
}
AWKWARD = "".join(
    (
        "0123456789",
        "aZ.@:/-_#$%",
        " \t\n`([{<",
        "\u200b\u0301\u00ad",
        "\uff11\u0663\u2014\u3002\xa0",
        "\ud800\U0001f600\xdf\u0130",
    )
)


@pytest.mark.parametrize("name", GUARDRAILS)
@settings(max_examples=60, deadline=None)
@given(before=st.text(AWKWARD, max_size=40), behind=st.text(AWKWARD, max_size=40))
def test_awkward_text_around_hides_nothing(name: str, before: str, behind: str) -> None:
    guardrail, value = GUARDRAILS[name]
    text = f"{before} \n{value}\n {behind}"
    if "`" in before or "<" in before:
        before = ""  # a fence or a tag may swallow what follows, which is right
        text = f"\n{value}\n {behind}"
    finding = finding_of(guardrail, text)
    assert finding.found
    at = 0
    for redaction in finding.redactions:
        assert at <= redaction.start < redaction.end <= len(text)
        at = redaction.end


@pytest.mark.parametrize("name", GUARDRAILS)
@pytest.mark.parametrize(
    "filler",
    [
        "a.",
        "ab.",
        "([{<",
        ">",
        "4",
        "1 ",
        "@",
        "a@",
        "-",
        "1-",
        "a:",
        "`",
        "```\n",
        "\u200b",
        "e\u0301",
        "//",
        "xn--a.",
        "%41",
        "\ud800",
    ],
)
def test_a_long_text_hides_nothing(name: str, filler: str) -> None:
    guardrail, value = GUARDRAILS[name]
    assert finding_of(guardrail, f"{filler * (20_000 // len(filler))}\n\n {value} \n").found


@pytest.mark.parametrize("name", GUARDRAILS)
def test_all_characters_of_unicode(name: str) -> None:
    guardrail, value = GUARDRAILS[name]
    # One in seven of the planes that have characters, few of those that are empty or private.
    every = "".join(map(chr, (*range(0, 0x32400, 7), *range(0x32400, sys.maxunicode + 1, 997))))
    assert finding_of(guardrail, f"{every}\n {value} \n").found


UNICODE = "".join(random.Random(1).choices([*map(chr, range(0x20, 0x3000)), " ", "1"], k=2_000))


@pytest.mark.parametrize("name", ["pii", "secrets", "urls", "code", "toxicity"])
@pytest.mark.parametrize(
    "unit", [UNICODE, UNICODE.encode().decode("latin-1"), "https://m\u0443bank.example/１２3 "]
)
def test_strange_texts_take_linear_time(name: str, unit: str) -> None:
    guardrail = build_guardrail("toxicity") if name == "toxicity" else GUARDRAILS[name][0]
    finding_of(guardrail, unit)
    assert grows_linearly(lambda text: finding_of(guardrail, text), unit, most=100_000)


def test_one_guardrail_serves_many_threads() -> None:
    guardrail, _ = GUARDRAILS["pii"]
    texts = [f"user{index}@example.com and 4111 1111 1111 {index:04}" for index in range(200)]
    alone = [finding_of(guardrail, text) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda text: finding_of(guardrail, text), texts)) == alone
