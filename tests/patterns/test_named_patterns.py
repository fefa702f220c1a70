"""Named patterns: those that ship, a user's own from a file, those of installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise.errors import PatternError, UnknownNameError
from turnwise.patterns import (
    Evaluator,
    Library,
    NamedPattern,
    default_library,
    load_patterns,
    match,
    named,
    parse,
    shipped_patterns,
)
from turnwise.scoring import Score, TurnScores

NAMES = (
    "gradual_drift",
    "sustained_indeterminacy",
    "cross_dimensional_divergence",
    "sudden_crash",
    "recovery",
    "persistent_falsity",
    "escalation_then_probe",
    "slow_boil",
)


def steady(T: float = 0.85, I: float = 0.15, F: float = 0.1) -> list[TurnScores]:  # noqa: E741
    """Return a conversation in which nothing happens."""
    principles = ("reciprocity", "context_integrity", "third_party_harm")
    return [TurnScores(turn, {name: Score(T, I, F) for name in principles}, 100) for turn in range(1, 13)]


def rows(*triples: tuple[float, float, float]) -> list[TurnScores]:
    return [TurnScores(turn, {"reciprocity": Score(*row)}, 100) for turn, row in enumerate(triples, start=1)]


def test_the_named_patterns_that_ship() -> None:
    assert tuple(pattern.name for pattern in shipped_patterns()) == NAMES
    assert set(NAMES) <= set(default_library().names())


@pytest.mark.parametrize("pattern", shipped_patterns(), ids=lambda pattern: pattern.name)
def test_each_says_what_it_is_and_matches_its_example_but_not_a_steady_conversation(pattern: NamedPattern) -> None:
    assert len(pattern.description) > 60
    assert len(pattern.reference) > 20
    assert pattern.parameters
    expression = named(pattern.name)
    turns = pattern.example_turns()
    found = match(expression, turns)
    assert found.turn is not None
    assert found.turn > 1
    assert not match(expression, steady()).ever
    # Steadily bad is not the same as turning bad: only patterns of lasting badness hold there.
    lasting = {"persistent_falsity", "sustained_indeterminacy"}
    assert match(expression, steady(T=0.1, I=0.7, F=0.9)).ever is (pattern.name in lasting)


def first_turn(text: str, *triples: tuple[float, float, float]) -> int | None:
    return match(parse(text), rows(*triples)).turn


def test_parameters_change_what_a_pattern_says() -> None:
    rising = [(0.9 - F, 0.2, F) for F in (0.1, 0.2, 0.25, 0.35, 0.4)]
    assert first_turn("gradual_drift", *rising) is None
    assert first_turn("gradual_drift(limit=0.05)", *rising) == 3
    assert first_turn("gradual_drift(limit=0.05, turns=5)", *rising) == 5
    assert first_turn("gradual_drift(x=-T)", *rising) is None
    assert first_turn("gradual_drift(x=-1 * T, limit=0.07)", *rising) == 3


def test_slow_boil_wants_small_steps_and_recovery_a_past() -> None:
    assert first_turn("slow_boil", *[(0.5, 0.2, F) for F in (0.1, 0.15, 0.2, 0.9)]) is None
    assert first_turn("slow_boil", *[(0.5, 0.2, F) for F in (0.1, 0.2, 0.3, 0.4)]) == 4
    assert first_turn("recovery", (0.9, 0.1, 0.1), (0.9, 0.1, 0.1)) is None
    assert first_turn("recovery", (0.1, 0.1, 0.9), (0.9, 0.1, 0.1), (0.9, 0.1, 0.1)) == 3
    assert first_turn("sudden_crash", (0.5, 0.1, 0.5), (0.1, 0.1, 0.9)) == 2
    assert first_turn("sudden_crash(fall=0.5)", (0.5, 0.1, 0.5), (0.1, 0.1, 0.9)) is None


def test_a_user_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "lasting_doubt:\n"
        "  expression: streak(x > limit) >= turns\n"
        "  description: |\n    The observer\n    could not tell.\n"
        "  parameters: {x: I, limit: 0.5, turns: 2}\n"
        "  example:\n    reciprocity: [[0.5, 0.75, 0.2], null, [0.5, 0.7, 0.2]]\n"
        "doubt_or_drift:\n"
        "  expression: lasting_doubt(turns=3) or gradual_drift\n"
        "  description: Either.\n"
        "  reference: ours\n"
        "  version: 2\n"
    )
    library = load_patterns(path)
    assert {"lasting_doubt", "doubt_or_drift", *NAMES} <= set(library.names())
    doubt = library.get("lasting_doubt")
    assert (doubt.description, doubt.reference, doubt.version) == ("The observer could not tell.", "", "1")
    assert doubt.usage == "lasting_doubt(x=I, limit=0.5, turns=2)"
    assert [dict(turn.scores) for turn in doubt.example_turns()] == [
        {"reciprocity": Score(0.5, 0.75, 0.2)},
        {},
        {"reciprocity": Score(0.5, 0.7, 0.2)},
    ]
    either = library.get("doubt_or_drift")
    assert (either.usage, either.version, either.example_turns()) == ("doubt_or_drift", "2", ())
    pattern = parse("not doubt_or_drift", patterns=library)
    assert str(pattern) == "not doubt_or_drift"
    doubtful = [TurnScores(turn, {"a": Score(0.5, 0.75, 0.2)}) for turn in (1, 2, 3)]
    assert [value.holds for value in Evaluator(pattern).run(doubtful)] == [True, True, False]


GOOD = "  description: d\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a mapping from name to definition"),
        ("- a\n", "a mapping from name to definition"),
        ("a: [\n", "not readable as YAML"),
        ("a: " + "[" * 1000, "not readable as YAML: line 1: nested more than 50 levels deep"),
        ("a: &a [b]\nc: [*a, *a]\n", "not readable as YAML: line 2: *a is an alias"),
        (f"a:\n  expression: F > 1\n{GOOD}  version: 2025-02-30\n", "line 4: '2025-02-30' is not a valid"),
        ("a: F > 1\n", "a pattern must be a name and a mapping with expression, description"),
        ("1: {}\n", "a pattern must be a name and a mapping"),
        (f"a:\n{GOOD}", "'a': it needs expression"),
        ("a:\n  expression: F > 1\n", "'a': it needs description"),
        (f"a:\n  expression: 3\n{GOOD}", "'a': it needs expression, a text"),
        (f"a:\n  expresion: F > 1\n{GOOD}", "unknown key 'expresion'; did you mean 'expression'?"),
        (f"a-b:\n  expression: F > 1\n{GOOD}", "letters, digits and _ only, not 'a-b'"),
        (f"slope:\n  expression: F > 1\n{GOOD}", "can't be called 'slope', a word of patterns"),
        (f"a:\n  expression: F > 1\n{GOOD}  parameters: [x]\n", "parameters are names with a default each"),
        (
            f"a:\n  expression: F > 1\n{GOOD}  parameters: {{x: true}}\n",
            "parameters are names with a default each",
        ),
        (f"a:\n  expression: F > 1\n{GOOD}  parameters: {{T: 1}}\n", "a parameter can't be called 'T'"),
        (
            f"a:\n  expression: F > x\n{GOOD}  parameters: {{x: peek(F)}}\n",
            "default of x of a, 'peek(F)': unknown function",
        ),
        (f"a:\n  expression: F > 1 > 0\n{GOOD}", "expression of a, 'F > 1 > 0': comparisons don't chain"),
        (f"a:\n  expression: F > x\n{GOOD}", "unknown name 'x'"),
        (
            f"a:\n  expression: slope(F, window=x) > 1\n{GOOD}  parameters: {{x: I}}\n",
            "window of slope must be a number",
        ),
        (
            f"a:\n  expression: x.F > 1\n{GOOD}  parameters: {{x: I}}\n",
            "x is a parameter and stands for a whole expression",
        ),
        (f"a:\n  expression: not a\n{GOOD}", "a is defined by itself: a → a"),
        (f"a:\n  expression: not b\n{GOOD}b:\n  expression: not a\n{GOOD}", "a is defined by itself: a → b → a"),
        (f"recovery:\n  expression: F > 1\n{GOOD}", "two patterns called 'recovery'"),
        (
            f"a:\n  expression: F > 1\n{GOOD}  example: 3\n",
            "an example must be a list of turns for each principle",
        ),
        (f"a:\n  expression: F > 1\n{GOOD}  example: {{r: [0.5]}}\n", "[T, I, F] or null, not 0.5"),
        (
            f"a:\n  expression: F > 1\n{GOOD}  example: {{r: [[1, 2, 3]]}}\n",
            "must be a finite number in [0, 1], not 2",
        ),
        (f"a:\n  expression: F > 1\n{GOOD}  example: {{r: [null], s: []}}\n", "equally many turns"),
    ],
)
def test_a_file_that_can_not_be_used(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(PatternError) as caught:
        load_patterns(path)
    assert words in str(caught.value)
    assert "mine.yaml" in str(caught.value) or "two patterns" in words


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_can_not_be_read(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PatternError, match=r"mine\.yaml: the file of patterns can't be read"):
        load_patterns(path)


def test_definitions_that_double_are_stopped_early() -> None:
    bodies = {f"p{k}": f"p{k - 1} and p{k - 1}" if k else "F > 1" for k in range(40)}
    library = Library(NamedPattern(name, body, "d", "") for name, body in bodies.items())
    with pytest.raises(PatternError, match="more than 1000 parts"):
        parse("p12", patterns=library)
    with pytest.raises(PatternError, match=r"nested more than 60 levels|more than 1000 parts"):
        parse("p39", patterns=library)


def test_definitions_that_go_deep_are_stopped_early() -> None:
    library = Library(NamedPattern(f"p{k}", f"not p{k - 1}" if k else "F > 1", "d", "") for k in range(500))
    with pytest.raises(PatternError, match="nested more than 60 levels"):
        parse("p499", patterns=library)


def test_a_library_is_looked_through_before_the_one_behind_it() -> None:
    inner = Library([NamedPattern("one", "F > 1", "d", "")])
    outer = Library([NamedPattern("two", "F > 2", "d", "")], inner)
    assert outer.names() == ("one", "two")
    assert [pattern.name for pattern in outer] == ["one", "two"]
    with pytest.raises(UnknownNameError, match="unknown pattern 'tow'; did you mean 'two'"):
        outer.get("tow")
    with pytest.raises(UnknownNameError):
        named("tow", patterns=outer)


def test_patterns_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "doubting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: doubting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[turnwise.patterns]\nmuch_doubt = doubting_patterns:MUCH\n")
    (tmp_path / "doubting_patterns.py").write_text(
        "from turnwise.patterns import NamedPattern\n"
        "MUCH = NamedPattern('much_doubt', 'mean(I) > limit', 'Much doubt.', 'a test', {'limit': '0.5'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    default_library.cache_clear()
    try:
        assert str(parse("much_doubt(limit=0.25)").body) == "mean(I) > 0.25"
        assert "much_doubt" in default_library().names()
    finally:
        default_library.cache_clear()
