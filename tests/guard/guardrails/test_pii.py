"""Personal data is found in every usual form, and nothing is made of dates, prices, versions and order numbers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from turnwise.conversation import Side
from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard import GUARDRAILS, Finding, build_guardrail, finding_of

_SPEC = importlib.util.spec_from_file_location("pii_examples", Path(__file__).with_name("pii_examples.py"))
assert _SPEC is not None and _SPEC.loader is not None
examples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(examples)

PII = build_guardrail("pii")


def redacted(text: str, finding: Finding) -> str:
    for redaction in sorted(finding.redactions, key=lambda each: -each.start):
        text = text[: redaction.start] + redaction.placeholder + text[redaction.end :]
    return text


@pytest.mark.parametrize(("text", "kinds"), examples.FOUND)
def test_found(text: str, kinds: dict[str, int]) -> None:
    finding = finding_of(PII, text)
    assert finding.data == {"kinds": kinds}
    assert 0.5 <= finding.confidence < 1.0
    for redaction in finding.redactions:
        value = text[redaction.start : redaction.end]
        assert value == value.strip()
        assert value not in finding.reason
    assert not finding_of(PII, redacted(text, finding)).found


@pytest.mark.parametrize("text", examples.CLEAN)
def test_clean(text: str) -> None:
    finding = finding_of(PII, text)
    assert not finding.found, finding


def test_there_are_enough_examples() -> None:
    assert len(examples.FOUND) >= 60
    assert len(examples.CLEAN) >= 60


def test_redactions_cover_the_original_text() -> None:
    card, ssn = "\uff14\uff11\uff11\uff11 1111\u200b 1111 1111", "123\u201345\u20136789"
    text = f"Card {card}, mail jane\u200b@example.com \U0001f600 ssn {ssn}"
    assert redacted(text, finding_of(PII, text)) == "Card [CARD], mail [EMAIL] \U0001f600 ssn [SSN]"


def test_reasons_tell_kinds_and_counts() -> None:
    finding = finding_of(PII, "a@example.com, b@example.com and card 4111 1111 1111 1111")
    assert finding.reason == "2 e-mail addresses, 1 payment card"
    assert finding.confidence == 0.99


def test_a_checked_number_is_surer_than_one_that_words_name() -> None:
    assert finding_of(PII, "GB82WEST12345698765432").confidence > finding_of(PII, "passport 123456789").confidence


def test_types() -> None:
    text = "jane@example.com, 212-555-0123"
    assert finding_of(build_guardrail("pii", types=("phone",)), text).data == {"kinds": {"phone": 1}}
    assert finding_of(build_guardrail("pii", types=("ssn", "card")), text).found is False


@pytest.mark.parametrize(
    ("allow", "text"),
    [
        ("support@example.com", "Write to Support@Example.com"),
        ("/.*@example\\.com/", "Write to anyone@example.com"),
        ("(800) 555-0199", "Call 800-555-0199"),
        ("4111 1111 1111 1111", "card 4111111111111111"),
    ],
)
def test_what_is_allowed_is_no_finding(allow: str, text: str) -> None:
    assert finding_of(PII, text).found
    assert not finding_of(build_guardrail("pii", allow=(allow,)), text).found
    assert finding_of(build_guardrail("pii", allow=(allow,)), text + " and jane@example.org").data == {
        "kinds": {"email": 1}
    }


def test_numbered_placeholders_tell_values_apart() -> None:
    text = "a@example.com wrote to b@example.com, not A@example.com"
    finding = finding_of(build_guardrail("pii", placeholders="numbered"), text)
    assert redacted(text, finding) == "[EMAIL_1] wrote to [EMAIL_2], not [EMAIL_1]"


def test_private_addresses_are_a_setting() -> None:
    text = "192.168.1.20, 10.1.2.3, 172.20.0.1, 169.254.7.7, fe80::1ff:fe23:4567:890a, fd12:3456:789a::1"
    assert finding_of(PII, text).data == {"kinds": {"ip": 6}}
    assert not finding_of(build_guardrail("pii", private_addresses=False), text).found
    assert finding_of(build_guardrail("pii", private_addresses=False), "172.32.0.1").found


@pytest.mark.parametrize(
    ("region", "text"),
    [
        ("GB", "020 7946 0958"),
        ("GB", "(0161) 496 0123"),
        ("GB", "ring me on 07700 900123"),
        ("DE", "030 23125 000"),
        ("FR", "téléphone 01 99 00 12 34"),
        ("FR", "01 42 68 53 00"),
        ("ES", "teléfono 612 345 678"),
        ("AU", "call 02 5550 1234"),
    ],
)
def test_national_phone_numbers_of_other_regions(region: str, text: str) -> None:
    found = build_guardrail("pii", types=("phone",), regions=(region,))
    assert finding_of(found, text).data == {"kinds": {"phone": 1}}
    assert not finding_of(found, "am 15.01.2024 um 10 Uhr, order 020 7946 0958, [0.56 0.51 0.65 0.75]").found


def test_least_confidence() -> None:
    text = "passport 123456789"
    assert finding_of(build_guardrail("pii", min_confidence=0.7), text).found
    assert not finding_of(build_guardrail("pii", min_confidence=0.8), text).found


def test_a_response_is_checked_as_a_prompt_is() -> None:
    assert finding_of(PII, "Your SSN is 123-45-6789", Side.RESPONSE).found


@pytest.mark.parametrize(
    "filler", ["1 ", "1.2.", "12 ", "1-", "a.", "4", "+1 ", "AA00 ", "DE00 ", "x@", "::", "(1) "]
)
def test_a_long_hostile_text_hides_nothing(filler: str) -> None:
    long = filler * (50_000 // len(filler))
    finding = finding_of(PII, f"{long} ; jane@example.com ; card 4111 1111 1111 1111 ; {long}")
    assert finding.data is not None
    assert {"email", "card"} <= set(finding.data["kinds"])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("212-555-0123", "phone"),
        ("+44 20 7946 0958", "phone"),
        ("2001:db8::8a2e", "ip"),
        ("DE89370400440532013000", "iban"),
    ],
)
def test_many_values_are_all_found(value: str, kind: str) -> None:
    assert finding_of(PII, f"{value}, " * 3_000).data == {"kinds": {kind: 3_000}}


def test_bad_settings() -> None:
    pii = GUARDRAILS.get("pii")
    with pytest.raises(GuardError, match="types is empty"):
        pii(types=())
    with pytest.raises(UnknownNameError, match="did you mean 'phone'"):
        pii(types=("phones",))
    with pytest.raises(UnknownNameError, match="unknown region 'UK'"):
        pii(regions=("UK",))
    with pytest.raises(GuardError, match="regions is empty"):
        pii(regions=())
    with pytest.raises(GuardError, match="min_confidence"):
        pii(min_confidence=2)
    with pytest.raises(UnknownNameError, match="typed"):
        pii(placeholders="short")
    with pytest.raises(GuardError, match="allow has ' '"):
        pii(allow=(" ",))
    with pytest.raises(GuardError, match="allow: /\\(/"):
        pii(allow=("/(/",))


BRITISH_TOO = build_guardrail("pii", regions=("US", "GB"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("4111 1111 1111 1111 222", ["4111 1111 1111 1111"]),
        ("4111-1111-1111-1111 222", ["4111-1111-1111-1111"]),
        ("62 00 00 00 00 00 00 05", ["62 00 00 00 00 00 00 05"]),
        ("1-123-45-6789", []),
        ("123-45-6789% of it", []),
        ("ssn 12 345 6789-1", []),
        ("mail jane@a.example.2x.", ["jane@a.example"]),
        ("mail jané@exämple.de", ["jané@exämple.de"]),
        ("mail ..jane@example.com", ["jane@example.com"]),
        ("jane_ [at] example (dot) com", ["jane_ [at] example (dot) com"]),
        ("host 8.8.4.4.5", []),
        ("host 8.8.4.04", []),
        ("host 8 [dot] 8(.)4.4", ["8 [dot] 8(.)4.4"]),
        ("::ffff:8.8.4.4, 2001:db8::1.", ["::ffff:8.8.4.4", "2001:db8::1"]),
        ("éde89370400440532013000", []),
        ("DE89 3704 0044 0532 0130 00 x", ["DE89 3704 0044 0532 0130 00"]),
        ("call +44 20 7946 0958x", []),
        ("call (020) 7946 0958", ["(020) 7946 0958"]),
        ("call 01.02.2024", []),
        ("dl dl no 12345678", ["12345678"]),
        ("passport us no: c01x00t47", ["c01x00t47"]),
    ],
)
def test_values_word_for_word(text: str, values: list[str]) -> None:
    assert [text[each.start : each.end] for each in finding_of(BRITISH_TOO, text).redactions] == values
