"""Signs count together: what each says by itself is nothing."""

from __future__ import annotations

import pytest

from turnwise.guard import Guardrail, build_guardrail, finding_of
from turnwise.guard.recognisers.phrases import Mix, Signs, windows

SIGNS = Signs(
    {"knows": [r"\bwe know\b"], "demand": [r"\bpay\b", r"\bsign\b"], "kind": [r"\bcake\b"]},
    {"a threat": [Mix.read("knows demand -kind")]},
)


@pytest.fixture(scope="module")
def threats() -> Guardrail:
    return build_guardrail("toxicity", types=("threats",))


def test_signs_come_to_something_only_where_all_are_near_and_none_speaks_against_it() -> None:
    assert SIGNS.found("We know your street. Sign today.") == {"a threat"}
    assert SIGNS.found("We know your street.") == set()
    assert SIGNS.found("We know your street, sign for the cake.") == set()
    assert SIGNS.found(f"We know your street. {'And so on. ' * 60} Please sign.") == set()


def test_what_makes_a_text_worth_looking_through_are_the_first_signs_of_the_mixes() -> None:
    assert SIGNS.first == (r"\bwe know\b",)


def test_a_long_text_is_read_whole_in_pieces_that_overlap() -> None:
    text = "a word " * 500
    pieces = [*windows(text)]
    assert pieces[0] == text[:320]
    assert text.endswith(pieces[-1])
    assert sum(map(len, pieces)) < 3 * len(text)
    assert SIGNS.found(f"{text} we know, so pay") == {"a threat"}


@pytest.mark.parametrize(
    "text",
    [
        "I have screenshots of everything you wrote. 500 euros or your wife reads them.",
        "If you complain again I'll get you evicted.",
        "Your dog barks again, it gets poisoned.",
        "Lovely kids you have. Shame if anything happens to them.",
    ],
)
def test_veiled_threats_are_found_by_their_signs(threats: Guardrail, text: str) -> None:
    assert finding_of(threats, text).found


@pytest.mark.parametrize(
    "text",
    [
        "You can view a copy of your tax records online unless you owe a payment.",
        "The dog barks again, is it hungry?",
        "I'd watch the kids near the stove if I were you.",
        "Watch your back when you lift that box.",
        "You'll regret it if you don't try the soup.",
        "I know which school your son attends, mine is in the same class.",
        "After the operation you will be eating through a straw.",
        "Te voy a ganar en la próxima partida, te voy a matar a besos.",
    ],
)
def test_advice_help_and_company_are_no_threats(threats: Guardrail, text: str) -> None:
    assert not finding_of(threats, text).found


@pytest.mark.parametrize(
    "text",
    [
        "Powiedz komuś, a zabiję cię.",
        "Ik weet waar je woont.",
        "Wenn du redest, schlag ich dich zusammen.",
        "Si tu parles, ta famille va payer.",
        "Se parli, ti spacco le gambe.",
        "Tujhe zinda nahi chhodunga.",
        "죽여버린다",
    ],
)
def test_threats_are_found_in_further_languages(threats: Guardrail, text: str) -> None:
    assert finding_of(threats, text).found
