"""Numbers that only words beside them tell are found as people write them, and told from amounts and dates."""

from __future__ import annotations

import pytest

from turnwise.errors import GuardError
from turnwise.guard import Guardrail, build_guardrail, finding_of

PII = build_guardrail("pii")


def values(text: str, guardrail: Guardrail = PII) -> list[tuple[str, str]]:
    return [(each.kind, text[each.start : each.end]) for each in finding_of(guardrail, text).redactions]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bank_account", "my account number is 00482913 and it's locked", "00482913"),
        ("bank_account", "Acct #: 4482 1190 22", "4482 1190 22"),
        ("bank_account", "acct 88213340 please", "88213340"),
        ("bank_account", "The account number for my joint account with First Hill is 00123456", "00123456"),
        ("bank_account", "12345678 is my account number", "12345678"),
        ("bank_account", "sort code 20-00-00", "20-00-00"),
        ("bank_account", "mi número de cuenta es 0049 1500 05 1234567890", "0049 1500 05 1234567890"),
        ("bank_account", "Meine Kontonummer lautet 532013000", "532013000"),
        ("bank_account", "mon numéro de compte est 20041010050", "20041010050"),
        ("bank_account", "我的银行账号是6222021234567890", "6222021234567890"),
        ("medical_record", "MRN: 00482913", "00482913"),
        ("medical_record", "MRN00448821", "00448821"),
        ("medical_record", "her medical record number is K884213", "K884213"),
        ("medical_record", "patient id 55821", "55821"),
        ("insurance", "policy no. HX-449201", "HX-449201"),
        ("insurance", "policy number PLX 8829 1102", "PLX 8829 1102"),
        ("insurance", "Insurance member ID: XEH123456789", "XEH123456789"),
        ("insurance", "Medicare number: 1EG4-TE5-MK73", "1EG4-TE5-MK73"),
        ("employee", "employee ID E-20913", "E-20913"),
        ("employee", "4821-77 is my employee id", "4821-77"),
        ("student", "Matrikelnummer 03712345", "03712345"),
        ("student", "student no: 20231144", "20231144"),
        ("tax_id", "my tax id is 12-3456789", "12-3456789"),
        ("tax_id", "codice fiscale RSSMRA85T10A562S", "RSSMRA85T10A562S"),
        ("national_id", "NI number QQ 12 34 56 C", "QQ 12 34 56 C"),
        ("national_id", "SIN 046 454 286", "046 454 286"),
        ("vehicle", "VIN 1HGCM82633A004352", "1HGCM82633A004352"),
        ("vehicle", "my license plate is 7ABC123", "7ABC123"),
        ("vehicle", "reg no. LB07 SZU, blue", "LB07 SZU"),
        ("passport", "AB1234567 - that's my passport", "AB1234567"),
        ("passport", "Mon numéro de passeport est 14AV88213, merci", "14AV88213"),
        ("driving_licence", "my driver's license number is D448-2217-8830", "D448-2217-8830"),
        ("ssn", "my ssn is 987-65-4320", "987-65-4320"),
    ],
)
def test_a_number_is_found_with_its_kind_and_cut_out_alone(kind: str, text: str, value: str) -> None:
    assert values(text) == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "where do I find my account number?",
        "A VIN has 17 characters; an account number has 8 digits.",
        "my account number ends in 4321",
        "the account was charged $1234.56 on 2024-01-15",
        "I moved 1200000 dollars out of that account in 2019",
        "Order 12345678 - my account number is missing",
        "the account is fine, the order number is 12345678",
        "my account shows 12345678 points",
        "policy 12 of 2016 says nothing",
        "the hospital has treated 18834 patients",
        "we have 4500 employees; 20231 students passed",
        "I have ticked that chart since 2016",
        "our form shows the example account number 12345678",
        "iShares Core Government Bond (Acc) (IE00B103ZF29)",
        "After 30 days, your account will be closed",
    ],
)
def test_talk_amounts_dates_and_other_numbers_are_none(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("my card number is 4111 1111 1111 1112", "4111 1111 1111 1112"),
        ("visa 4111-1111-1111-1119 exp 12/27", "4111-1111-1111-1119"),
        ("credit card: 411111111111111", "411111111111111"),
        ("4111 1111 1111 1112 is my card number", "4111 1111 1111 1112"),
    ],
)
def test_a_mistyped_card_counts_where_it_is_named_a_card(text: str, value: str) -> None:
    assert values(text) == [("card", value)]
    assert finding_of(PII, text).confidence == 0.7


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",
        "order 4111 1111 1111 1112",
        "gift card 6006 4912 3456 7891",
        "an example of a card number is 4111 1111 1111 1112",
        "card 0000 0000 0000 0000",
    ],
)
def test_a_wrong_check_digit_without_that_name_is_no_card(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Date of birth: 14/03/1985", "14/03/1985"),
        ("DOB 03-14-85", "03-14-85"),
        ("DOB for Jane Miller: 1985-03-14", "1985-03-14"),
        ("I was born on March 14, 1985", "March 14, 1985"),
        ("Jane Miller (born 14.03.1985)", "14.03.1985"),
        ("patient John Smith, 04/12/1978, has a fever", "04/12/1978"),
        ("Geburtsdatum: 12. März 1985", "12. März 1985"),
        ("fecha de nacimiento 12 de marzo de 1985", "12 de marzo de 1985"),
        ("生年月日: 1985年3月14日", "1985年3月14日"),
    ],
)
def test_a_date_of_birth_is_found_with_its_label_or_a_name(text: str, value: str) -> None:
    assert values(text) == [("birth_date", value)]


@pytest.mark.parametrize(
    "text",
    [
        "Barack Obama was born on August 4, 1961.",
        "Marie Curie, born 7 November 1867",
        "My birthday party is on 12/05/2024",
        "The date of birth field wants MM/DD/YYYY",
        "born before 1960",
        "patient seen on 04/12/2024",
        "name of the file: report 04/12/1999",
        "the meeting is on 14/03/1985",
    ],
)
def test_other_dates_and_lives_told_in_prose_are_none(text: str) -> None:
    assert values(text) == []


def test_each_kind_can_be_looked_for_alone() -> None:
    text = "MRN 00482913, policy no. HX-449201, DOB 03/14/1985"
    assert values(text, build_guardrail("pii", types=("insurance",))) == [("insurance", "HX-449201")]
    assert finding_of(PII, text).reason == "1 medical record number, 1 insurance number, 1 date of birth"


@pytest.mark.parametrize(
    ("allow", "texts"),
    [
        (
            "+1 800 555 0199",
            (
                "call 1-800-555-0199",
                "(800) 555-0199",
                "800.555.0199",
                "call 800 dash 555 dash 0199",
                "call 8005550199",
            ),
        ),
        ("020 7946 0958", ("ring +44 20 7946 0958", "(020) 7946 0958", "tel. 02079460958")),
        ("+44 20 7946 0958", ("ring 020 7946 0958",)),
        (
            "support@example.com",
            ("SUPPORT@Example.com", "support (at) example (dot) com", "mail support at example dot com"),
        ),
        ("0012-3456-78", ("account number 0012345678", "acct no. 0012 3456 78")),
        ("GB82WEST12345698765432", ("GB82 WEST 1234 5698 7654 32",)),
        ("HX-449201", ("policy no. hx449201", "policy number HX 449201")),
    ],
)
def test_numbers_of_ones_own_are_allowed_in_any_writing(allow: str, texts: tuple[str, ...]) -> None:
    regions = ("US", "GB")
    for text in texts:
        assert values(text, build_guardrail("pii", regions=regions)), text
        assert values(text, build_guardrail("pii", regions=regions, allow=(allow,))) == [], text
    others = "call 800 555 0198, 020 7946 0959, mail help@example.com, account number 0012345679"
    assert len(values(others, build_guardrail("pii", regions=regions, allow=(allow,)))) == 4


def test_an_entry_of_allow_is_checked() -> None:
    with pytest.raises(GuardError, match="allow has ''"):
        build_guardrail("pii", allow=("",))


@pytest.mark.parametrize(
    "filler", ["mrn 1 ", "account number ", "policy a1 ", "dob 1 ", "patient a b 1/1/", "card 4 "]
)
def test_a_long_hostile_text_hides_nothing(filler: str) -> None:
    long = filler * (30_000 // len(filler))
    assert ("email", "jane@example.com") in values(f"{long}; jane@example.com")
    assert ("medical_record", "00482913") in values(f"MRN: 00482913 ; {long}")


@pytest.mark.parametrize(
    "text",
    [
        "my number's 07700 900461, whatsapp is best",
        "ruf mich an unter 0171 5550123",
        "mobile 0491 570 156",
        "T\xe9l. +33 6 39 98 04 17.",
        "+44 7700 900123",
    ],
)
def test_phones_of_any_country_are_found_by_words_or_their_code(text: str) -> None:
    finding = finding_of(PII, text)
    assert [each.kind for each in finding.redactions] == ["phone"]


@pytest.mark.parametrize("text", ["model 0612345678 drill", "part no 0171 5550123", "+33 points and +20 more"])
def test_other_numbers_that_begin_so_are_no_phones(text: str) -> None:
    assert not finding_of(PII, text).found


def test_beyond_a_bound_numbers_count_by_their_form() -> None:
    finding = finding_of(PII, "my account number is 12345678, " * 300)
    assert len(finding.redactions) == 300
    assert finding.redactions[0].kind == finding.redactions[-1].kind == "bank_account"
    assert not finding_of(PII, "an account of the 3 kings, " * 300).found


def test_ibans_beyond_a_bound_count_by_their_form() -> None:
    text = "DE12 3456 7890 1234 5678 90, " * 450 + "DE89 3704 0044 0532 0130 00"
    assert finding_of(PII, text).redactions[-1].kind == "iban"
