"""What disguises a value hides it from no guardrail, is cut out whole, and makes nothing of ordinary texts."""

from __future__ import annotations

from pathlib import Path

import evasions
import pytest

from turnwise import GuardrailPipeline, datasets
from turnwise.guard import Guardrail, build_guardrail, finding_of

CASES = list(evasions.cases())
ORDINARY = [
    line.replace("\\n", "\n").replace("\\t", "\t")
    for line in Path(__file__).with_name("ordinary_messages.txt").read_text(encoding="utf-8").splitlines()
]
GUARDRAILS: tuple[Guardrail, ...] = (
    build_guardrail("pii"),
    build_guardrail("secrets"),
    build_guardrail("prompt_injection", observer=None),
)


def test_there_are_enough_cases() -> None:
    assert len(evasions.TRICKS) >= 50
    assert len(evasions.KINDS) == 8
    assert len(CASES) >= 400
    assert len(ORDINARY) >= 100


@pytest.mark.parametrize("kind", evasions.KINDS)
def test_at_most_one_disguise_in_ten_passes_unseen(kind: str) -> None:
    own = [case for case in CASES if case.kind == kind]
    unseen = [case.trick for case in own if not evasions.seen(case)]
    assert len(unseen) <= len(own) / 10, unseen


def test_the_table_counts_every_case_and_stands_in_the_security_page() -> None:
    table = evasions.table()
    assert table in (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    lines = table.splitlines()
    assert len(lines) == 2 + len(evasions.KINDS) + 1
    assert f"/{len(CASES)} = " in lines[-1]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("My SSN is &#49;&#50;&#51;-45-6789, ok?", "My SSN is [SSN], ok?"),
        ("My SSN is &amp;#49;23-45-678&#57;!", "My SSN is [SSN]!"),
        ("Pay with 4<b></b>111 1111\x001111 11<i>1</i>1 now", "Pay with [CARD] now"),
        ("Write to jane%40example%2Ecom today", "Write to [EMAIL] today"),
        ("Write to bob {at} example {dot} org today", "Write to [EMAIL] today"),
        ("It is MTIzLTQ1LTY3ODk= here", "It is [SSN] here"),
        ("It is 3132332d34352d36373839 here", "It is [SSN] here"),
        ("IBAN D E 8 9 3 7 0 4 0 0 4 4 0 5 3 2 0 1 3 0 0 0.", "IBAN [IBAN]."),
        ("IBAN DE89/3704/0044/0532/0130/00, thanks", "IBAN [IBAN], thanks"),
        ("card 4111=\n1111=\n1111=\n1111 end", "card [CARD] end"),
        ("card ④①①①⠀①①①①⠀①①①①⠀①①①① end", "card [CARD] end"),
        ("a@example.com, card ⁴¹¹¹ ¹¹¹¹ ¹¹¹¹ ¹¹¹¹", "[EMAIL], card [CARD]"),
        ("My card is four double one, one triple 1 1 one one one, 1 1 one one one, ok?", "My card is [CARD], ok?"),
        ("My card is \u202e1111 1111 1111 1114\u202c, ok?", "My card is [CARD]\u202c, ok?"),
        ("Pay with card **4111** ~~1111~~ `1111` __1111__ now", "Pay with card [CARD] now"),
        ("card U+0034 U+0031 U+0031 U+0031" + 12 * " U+0031" + ".", "card [CARD]."),
        ("Read backwards:1111111111111114\nand the rest", "Read backwards:[CARD]\nand the rest"),
        ('card "4111" + "11111111" + "1111", please', "card [CARD], please"),
    ],
)
def test_a_value_is_cut_out_whole_where_it_stands(text: str, cut: str) -> None:
    for redaction in reversed(finding_of(build_guardrail("pii"), text).redactions):
        text = text[: redaction.start] + redaction.placeholder + text[redaction.end :]
    assert text == cut


def test_words_pulled_apart_by_different_signs_are_all_read() -> None:
    text = "My SSN is 1-2-3-4-5-6-7-8-9, card 4*1*1*1*1*1*1*1*1*1*1*1*1*1*1*1 as I said"
    assert [redaction.kind for redaction in finding_of(build_guardrail("pii"), text).redactions] == ["ssn", "card"]


def test_keywords_are_read_in_what_is_encoded() -> None:
    keywords = build_guardrail("keywords", keywords=("project falcon",))
    for text in (
        "It is project&#32;fal&shy;con.",
        "It is cHJvamVjdCBmYWxjb24= now",
        "It is project%20f\x00alcon.",
    ):
        (redaction,) = finding_of(keywords, text).redactions
        assert text[: redaction.start] == "It is "


@pytest.mark.parametrize("guardrail", GUARDRAILS)
def test_ordinary_messages_are_clean(guardrail: Guardrail) -> None:
    assert [text for text in ORDINARY if finding_of(guardrail, text).found] == []


def test_the_example_conversations_are_clean() -> None:
    texts = [turn.prompt or turn.response for each in datasets.examples() for turn in each.conversation.turns]
    assert texts
    for guardrail in GUARDRAILS[:2]:
        for text in texts:
            assert not finding_of(guardrail, text).found, text


@pytest.mark.parametrize(
    "filler",
    ["&#52;", "&amp;", "<b>", "<a ", "%41", "=\n", "=41", "\\x41", "a ", "1*", "@", " at ", "DE89", "4O", "34 "],
)
def test_a_long_text_of_marks_hides_nothing(filler: str) -> None:
    text = f"{filler * (6_000 // len(filler))}\n\n card: &#52;111 1111 1111 1111 \n"
    assert "card" in (finding_of(build_guardrail("pii"), text).data or {})["kinds"]


@pytest.mark.parametrize("mark", ["?", "•", "\x85", "\u2028"])
def test_a_number_is_put_together_whatever_stands_between_its_digits(mark: str) -> None:
    text = f"é, card: {mark.join('4111111111111111')}"
    assert [each.kind for each in finding_of(build_guardrail("pii"), text).redactions] == ["card"]


def test_what_is_hidden_is_found_behind_the_redactions_of_another_guardrail() -> None:
    guard = GuardrailPipeline({"guardrails": [{name: {"action": "redact"}} for name in ("secrets", "pii")]})
    secret, ssn = "AKIA" + "QZ7XW2PLM4NB6VCK", "&#49;23-45-678&#57;"
    text = f"{secret} and {secret.lower()} %41 {ssn}, {secret} jane%40example%2Ecom"
    cut = f"[AWS_KEY] and {secret.lower()} %41 [SSN], [AWS_KEY] [EMAIL]"
    assert guard.check_input(text).text == cut
