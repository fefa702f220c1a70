"""Keywords are found whatever their case, accents and spaces, as whole words or anywhere."""

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


@given(st.text(max_size=60), st.text(max_size=60))
def test_redactions_lie_in_the_original_text(before: str, behind: str) -> None:
    text = f"{before} Kéyword\u200b  one {behind}"
    finding = finding_of(build_guardrail("keywords", keywords=("kéyword one",)), text)
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
