"""Presidio, with its real analyzer where the extra is installed."""

from __future__ import annotations

import importlib.util
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import GuardrailPipeline, build_guardrail

TEXT = "Mail ann@example.org; her SSN is 536-90-4399 and her card 4111 1111 1111 1111."

installed = pytest.mark.skipif(
    importlib.util.find_spec("presidio_analyzer") is None, reason='needs pip install "turnwise[presidio]"'
)


@pytest.mark.parametrize("missing", ["presidio_analyzer", "spacy"])
def test_without_the_extra_the_error_says_what_to_install(missing: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(GuardError, match=r'pip install "turnwise\[presidio\]"'):
        build_guardrail("presidio", model="none")


def test_a_threshold_that_can_not_be_is_refused() -> None:
    with pytest.raises(GuardError, match="score_threshold is 2"):
        build_guardrail("presidio", score_threshold=2)


@installed
def test_what_patterns_and_checksums_find_is_replaced() -> None:
    pipeline = GuardrailPipeline({"guardrails": [{"presidio": {"model": "none"}}]})
    result = pipeline.check_input(TEXT)
    assert result.text == "Mail [EMAIL_ADDRESS]; her SSN is [US_SSN] and her card [CREDIT_CARD]."
    assert not result.blocked
    assert pipeline.check_input("Nothing of the kind.").text == "Nothing of the kind."


@installed
def test_the_reason_names_kinds_and_not_what_they_stand_for(check) -> None:  # type: ignore[no-untyped-def]
    finding = build_guardrail("presidio", entities=("CREDIT_CARD", "US_SSN"), model="none").check(check(TEXT))
    assert finding.reason == "found CREDIT_CARD, US_SSN"
    assert finding.confidence == 1.0
    assert [one.kind for one in finding.redactions] == ["us_ssn", "credit_card"]


@installed
def test_redactions_stand_apart_and_in_order(check) -> None:  # type: ignore[no-untyped-def]
    redactions = build_guardrail("presidio", model="none", score_threshold=0.0).check(check(TEXT)).redactions
    assert len(redactions) >= 3
    for first, second in pairwise(redactions):
        assert first.end <= second.start


@installed
def test_a_number_that_fails_its_checksum_is_no_card(check) -> None:  # type: ignore[no-untyped-def]
    guardrail = build_guardrail("presidio", entities=("CREDIT_CARD",), model="none")
    assert not guardrail.check(check("Order 4111 1111 1111 1112")).found


@installed
def test_it_asks_nothing_of_the_network(check, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("the network was asked")

    guardrail = build_guardrail("presidio", entities=("EMAIL_ADDRESS",), model="none")
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert guardrail.check(check("Mail ann@example.org")).found
    assert not guardrail.check(check("Mail ann@example.nonesuch")).found


@installed
def test_threads_get_the_finds_of_their_own(check) -> None:  # type: ignore[no-untyped-def]
    guardrail = build_guardrail("presidio", entities=("EMAIL_ADDRESS",), model="none")
    checks = [check("ann@example.org" if number % 2 else "nobody") for number in range(16)]
    with ThreadPoolExecutor(4) as pool:
        assert [one.found for one in pool.map(guardrail.check, checks)] == [bool(n % 2) for n in range(16)]


@installed
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_can_not_work_is_refused_when_it_is_built() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'PERSON'"):
        build_guardrail("presidio", entities=("PERSONS",), model="none")
    with pytest.raises(GuardError, match="python -m spacy download xx_none_sm"):
        build_guardrail("presidio", model="xx_none_sm")
    with pytest.raises(GuardError, match="spaCy knows no language 'xx9'"):
        build_guardrail("presidio", language="xx9", model="none")
