"""Your words and regular expressions: what they find, and settings that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import GuardError
from turnwise.guard import GUARDRAILS, Guardrail, build_guardrail, finding_of


def cut(keywords: Guardrail, text: str) -> str:
    for redaction in reversed(finding_of(keywords, text).redactions):
        text = text[: redaction.start] + redaction.placeholder + text[redaction.end :]
    return text


@pytest.mark.parametrize(
    ("keyword", "text", "found"),
    [
        ("secret plan", "The SECRET  plan!", True),
        ("secret plan", "The secret\n\tplan", True),
        ("secret plan", "The secret planet", False),
        ("ass", "a class of assets", False),
        ("ass", "(ass)", True),
        ("straße", "in der STRASSE", True),
        ("ÉCOLE", "une e\u0301cole", True),
        ("école", "une ecole", False),
        ("c++", "I write C++.", True),
        (".net", "the .NET one", True),
        ("рус", "это РУС тут", True),
        ("ban", "b\u200ban", True),
        ("ban", "ｂａｎ", True),
        ("a_b", "xa_b", False),
    ],
)
def test_whole_words(keyword: str, text: str, found: bool) -> None:
    assert finding_of(build_guardrail("keywords", keywords=(keyword,)), text).found is found


def test_settings() -> None:
    assert finding_of(build_guardrail("keywords", keywords=("ass",), whole_words=False), "a class").found
    assert finding_of(build_guardrail("keywords", keywords=("机密",), whole_words=False), "这是机密文件").found
    assert not finding_of(build_guardrail("keywords", keywords=("Ban",), ignore_case=False), "a ban").found
    assert finding_of(build_guardrail("keywords", keywords=("Ban",), ignore_case=False), "a Ban").found
    assert finding_of(build_guardrail("keywords", keywords=("café",), accents=False), "a CAFE").found
    assert finding_of(build_guardrail("keywords", keywords=("cafe",), accents=False), "a cafe\u0301").found
    assert (
        finding_of(build_guardrail("keywords", keywords=("ban", "no"), reveal=False), "no ban, no").reason
        == "3 keywords"
    )
    assert finding_of(build_guardrail("keywords", keywords=("ban",), reveal=False), "a ban").reason == "1 keyword"


def test_overlapping_keywords_are_cut_out_whole() -> None:
    keywords = build_guardrail("keywords", keywords=("new york", "york city", "new"))
    assert cut(keywords, "In New  York City.") == "In [KEYWORD]."
    assert (
        cut(build_guardrail("keywords", keywords=("ban",), placeholder="***"), "  a  BAN, no bans")
        == "  a  ***, no bans"
    )


def test_a_reason_names_five_keywords() -> None:
    words = tuple("abcdefg")
    assert (
        finding_of(build_guardrail("keywords", keywords=words), "a b c d e f g a").reason
        == "'a', 'b', 'c', 'd', 'e' and 2 more"
    )


def test_a_file_of_keywords(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\ufeff# names\nProject X\n\n  falcon  \n", encoding="utf-8")
    keywords = build_guardrail("keywords", keywords=("extra",), file=str(path))
    assert [finding_of(keywords, text).found for text in ("project x", "Falcon", "extra", "names", "#")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_ten_thousand_keywords() -> None:
    keywords = build_guardrail("keywords", keywords=tuple(f"word{index}" for index in range(10_000)))
    assert finding_of(keywords, "only word7777 here").reason == "'word7777'"
    assert not finding_of(keywords, "only word77777 here").found


KEYWORD = build_guardrail("keywords", keywords=("kéyword one",))


@given(st.text(max_size=60), st.text(max_size=60))
def test_redactions_lie_in_the_original_text(before: str, behind: str) -> None:
    text = f"{before} Kéyword\u200b  one {behind}"
    finding = finding_of(KEYWORD, text)
    assert finding.found
    assert any(text[each.start : each.end] == "Kéyword\u200b  one" for each in finding.redactions)


def test_bad_settings(tmp_path: Path) -> None:
    keywords = GUARDRAILS.get("keywords")
    with pytest.raises(GuardError, match="no keywords"):
        keywords()
    with pytest.raises(GuardError, match="can't be read: No such file"):
        keywords(file=str(tmp_path / "missing.txt"))
    (tmp_path / "bytes.txt").write_bytes(b"ok\n\xff\xfe")
    with pytest.raises(GuardError, match=r"not in UTF-8 \(byte 3\)"):
        keywords(file=str(tmp_path / "bytes.txt"))
    with pytest.raises(GuardError, match="no character"):
        keywords(keywords=("ok", " \u200b"))
    with pytest.raises(GuardError, match="give a list"):
        keywords(keywords="ban")
    with pytest.raises(GuardError, match="is no text"):
        keywords(keywords=("ok", 7))
    with pytest.raises(GuardError, match="needs ignore_case"):
        keywords(keywords=("ok",), accents=False, ignore_case=False)
    with pytest.raises(GuardError, match="placeholder"):
        keywords(keywords=("ok",), placeholder="")


def test_very_many_keywords_are_cut_out_to_the_end() -> None:
    text = "cat " * 2_000
    redactions = finding_of(build_guardrail("keywords", keywords=("cat",)), text).redactions
    assert len(redactions) == 1_001
    assert redactions[-1].end >= len(text) - 1


REGEX = build_guardrail("regex", patterns={"case number": r"\bCASE-\d{6}\b", "badge": r"B\d{3}"})


def test_names_counts_and_redactions() -> None:
    text = "é CASE-123456, case-654321 and b123"
    finding = finding_of(REGEX, text)
    assert finding.reason == "2 case number, 1 badge"
    assert [text[each.start : each.end] for each in finding.redactions] == ["CASE-123456", "case-654321", "b123"]
    assert [each.placeholder for each in finding.redactions] == ["[CASE NUMBER]", "[CASE NUMBER]", "[BADGE]"]
    assert finding.data == {"patterns": ["case number", "badge"]}


def test_clean_and_case() -> None:
    assert not finding_of(REGEX, "CASE-12345").found
    assert not finding_of(build_guardrail("regex", patterns={"a": "abc"}, ignore_case=False), "ABC").found


def test_overlapping_matches_are_kept_apart() -> None:
    finding = finding_of(build_guardrail("regex", patterns={"short": "bc", "long": "abcd"}), "xabcdx")
    assert [(each.start, each.end, each.kind) for each in finding.redactions] == [(1, 5, "long")]


def test_very_many_matches_are_cut_out_to_the_end() -> None:
    text = "a " * 5_000
    redactions = finding_of(build_guardrail("regex", patterns={"a": "a"}), text).redactions
    assert len(redactions) == 1_001
    assert redactions[-1].end == len(text)


def test_a_pattern_that_is_slow_elsewhere_takes_linear_time() -> None:
    assert not finding_of(build_guardrail("regex", patterns={"slow": r"(a+)+$"}), "a" * 100_000 + "!").found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"a(?=b)", "pattern 'p': column 2: (?= is a lookaround"),
        (r"(?<!x)ab", "column 1: (?<! is a lookaround"),
        (r"(a)x\1", r"column 5: \1 is a backreference"),
        (r"(?P<n>a)(?P=n)", "column 9: (?P= is a backreference"),
        (r"a++", "column 2: ++ is an atomic group or possessive quantifier"),
        (r"(?>a)", "column 1: (?> is an atomic group"),
        (r"a(b", "missing ): a(b"),
        (r"[z-a]", "column 2: invalid character class range: z-a"),
        (r"a**", "column 2: bad repetition operator: **"),
        (r"x*", "matches every text, even the empty one"),
    ],
)
def test_a_wrong_pattern_is_an_error_at_the_start(pattern: str, message: str) -> None:
    with pytest.raises(GuardError) as raised:
        build_guardrail("regex", patterns={"p": pattern})
    assert message in str(raised.value)
    assert pattern in str(raised.value)


def test_an_escaped_backslash_is_no_backreference() -> None:
    assert finding_of(build_guardrail("regex", patterns={"p": r"a\\1"}), r"a\1").found


def test_bad_patterns_are_told() -> None:
    with pytest.raises(GuardError, match="no patterns"):
        build_guardrail("regex", patterns={})
    with pytest.raises(GuardError, match="NAME: EXPRESSION"):
        build_guardrail("regex", patterns={"a": ""})
