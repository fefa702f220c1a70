"""What toxicity, threats, prompt_injection and topics find of texts with a known answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from benchmarks.guard_accuracy import CASES, PRECISION, RECALL, measure_cases, read_cases

from turnwise.guard.guardrails.topics import Topics
from turnwise.guard.kit import finding_of
from turnwise.guard.recognisers.masked_words import unmasked

LANGUAGE = ("toxicity", "threats", "prompt_injection", "topics")


@pytest.mark.parametrize("category", LANGUAGE)
def test_cases_are_half_to_be_found_and_half_near_misses(category: str) -> None:
    cases = [*read_cases(CASES / "tuning" / f"{category}.jsonl")]
    assert len(cases) == 100
    assert sum(case.found for case in cases) == 50


def test_precision_and_recall_reach_their_targets(tmp_path: Path) -> None:
    assert (PRECISION, RECALL) == (0.97, 0.85)
    shutil.copytree(CASES / "tuning", tmp_path / "tuning")
    assert measure_cases(LANGUAGE, tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("I h@te you", "I hate you"),
        ("k1ll y0urs3lf!", "kill yourself!"),
        ("f**k that, you id*ot", "fuck that, you idiot"),
        ("stuuuupid", "stupid"),
        ("an mp3 of 3d films, mail a@b.example", "an mp3 of 3d films, mail a@b.example"),
    ],
)
def test_signs_and_drawn_out_letters_are_read_where_this_gives_a_known_word(text: str, plain: str) -> None:
    known = frozenset({"hate", "kill", "yourself", "fuck", "idiot", "stupid"})
    assert unmasked(text, known) == plain


def test_forms_of_a_word_count_unless_that_is_switched_off() -> None:
    topics = Topics(deny={"politics": ("vote",)})
    assert all(
        finding_of(topics, text).found for text in ("Who votes?", "I voted.", "Is voting free?", "v0te now")
    )
    assert not finding_of(topics, "I devote an hour to it.").found
    plain = Topics(deny={"politics": ("vote",)}, inflect=False)
    assert finding_of(plain, "Who votes?").found
    assert not finding_of(plain, "Is voting free?").found
