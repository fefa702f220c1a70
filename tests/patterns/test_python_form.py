"""The pattern language as Python operators and functions: the same trees as the text."""

from __future__ import annotations

import copy
import pickle

import pytest

from turnwise import patterns as p
from turnwise.errors import PatternError
from turnwise.patterns import FUNCTIONS, Expression, parse, parse_expression, series

F, I, T = series("reciprocity").F, series("reciprocity").I, series("reciprocity").T  # noqa: E741


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (F > 0.7, "reciprocity.F > 0.7"),
        (F >= 0.7, "reciprocity.F >= 0.7"),
        (F < 0.7, "reciprocity.F < 0.7"),
        (F <= 0.7, "reciprocity.F <= 0.7"),
        (0.7 < F, "reciprocity.F > 0.7"),  # noqa: SIM300
        (F.equals(0.5), "reciprocity.F == 0.5"),
        (F.differs(I), "reciprocity.F != reciprocity.I"),
        (F + I - 1 > 2 * T / 3, "reciprocity.F + reciprocity.I - 1 > 2 * reciprocity.T / 3"),
        (1 + F - (2 - F) * (1 / F) > 0, "1 + reciprocity.F - (2 - reciprocity.F) * (1 / reciprocity.F) > 0"),
        (-F < 0, "-reciprocity.F < 0"),
        (
            (F > 0.5) & (I > 0.5) & ~(T > 0.5),
            "reciprocity.F > 0.5 and reciprocity.I > 0.5 and not reciprocity.T > 0.5",
        ),
        ((F > 0.5) | (I > 0.5) | (T > 0.5), "reciprocity.F > 0.5 or reciprocity.I > 0.5 or reciprocity.T > 0.5"),
        (
            (F > 0.5) & ((I > 0.5) | (T > 0.5)),
            "reciprocity.F > 0.5 and (reciprocity.I > 0.5 or reciprocity.T > 0.5)",
        ),
        (
            p.k_of(2, F > 0.5, I > 0.5, T > 0.5),
            "k_of(2, reciprocity.F > 0.5, reciprocity.I > 0.5, reciprocity.T > 0.5)",
        ),
        (series().F > series(side="response").F, "F > response.F"),
        (series("a", "response").balance < series("a").strength, "response.a.balance < a.strength"),
        (series().trust < 0.6, "trust < 0.6"),
        (p.turn() + p.chars() > p.chars("response"), "turn + chars > response.chars"),
        (p.at(F, 3) > 0, "at(reciprocity.F, 3) > 0"),
        (p.rise(F, 1, 5) > 0, "rise(reciprocity.F, 1, 5) > 0"),
        (p.slope(F) > 0, "slope(reciprocity.F) > 0"),
        (p.slope(F, window=5) > 0, "slope(reciprocity.F, window=5) > 0"),
        (p.ema(F) > 0, "ema(reciprocity.F) > 0"),
        (p.ema(F, alpha=0.5, start=1) > 0, "ema(reciprocity.F, alpha=0.5, start=1) > 0"),
        (p.cusum(F, drift=0.05) > 0, "cusum(reciprocity.F, drift=0.05) > 0"),
        (p.any_(F > 0.5), "any(reciprocity.F > 0.5)"),
        (p.all_(F > 0.5), "all(reciprocity.F > 0.5)"),
        (p.named("gradual_drift"), "gradual_drift"),
        (p.named("gradual_drift", limit=0.05, x=F), "gradual_drift(x=reciprocity.F, limit=0.05)"),
    ],
)
def test_the_same_tree_as_the_text(built: Expression, text: str) -> None:
    assert built == parse(text)


@pytest.mark.parametrize("name", ["first", "last", "peak", "low", "mean", "delta", "drop", "volatility"])
def test_functions_of_a_number(name: str) -> None:
    assert getattr(p, name)(F) == parse_expression(f"{name}(reciprocity.F)")
    with pytest.raises(PatternError, match=f"{name} takes a number"):
        getattr(p, name)(F > 0.5)


@pytest.mark.parametrize("name", ["streak", "current_streak", "count", "share", "turns_since"])
def test_functions_of_a_condition(name: str) -> None:
    assert getattr(p, name)(F > 0.5) == parse_expression(f"{name}(reciprocity.F > 0.5)")
    with pytest.raises(PatternError, match=f"{name} takes a condition"):
        getattr(p, name)(F)


def test_every_function_has_a_python_form() -> None:
    shadowing = {"any": "any_", "all": "all_"}
    forms = {function: shadowing.get(function, function) for function in FUNCTIONS if function != "abs"}
    assert all(callable(getattr(p, form)) for form in forms.values())
    assert abs(F - 0.5) == parse_expression("abs(reciprocity.F - 0.5)")


def test_public_names_are_there() -> None:
    assert all(hasattr(p, name) for name in p.__all__)


def test_joining_with_and_is_refused_rather_than_dropping_a_part() -> None:
    with pytest.raises(PatternError, match="write & for and, | for or, ~ for not".replace("|", r"\|")):
        assert (F > 0.5) and (I > 0.5)
    with pytest.raises(PatternError, match="join two comparisons with &"):
        assert 0.2 < F < 0.5


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: F & (I > 0.5), "and takes a condition, but reciprocity.F is a number"),
        (lambda: (F > 0.5) | I, "or takes a condition"),
        (lambda: (F > 0.5) & True, "and takes expressions, not True"),
        (lambda: ~F, "not takes a condition"),
        (lambda: (F > 0.5) + 1, "takes a number, but reciprocity.F > 0.5 is a condition"),
        (lambda: -(F > 0.5), "- takes a number"),
        (lambda: F > "0.5", "'0.5' must be a number"),
        (lambda: F > True, "True must be a number"),
        (lambda: F + float("nan"), "finite"),
        (lambda: F + float("inf"), "finite"),
        (lambda: F > 10**400, "finite"),
        (lambda: p.slope(F, window=1), "window of slope"),
        (lambda: p.slope(F, window=True), "window of slope"),
        (lambda: p.at(F, 10**400), "k of at"),
        (lambda: p.cusum(F, drift=float("nan")), "drift of cusum"),
        (lambda: p.rise(F, 3, 3), "from an earlier turn i to a later j, not 3 to 3"),
        (lambda: p.k_of(0, F > 1), "k of k_of must be a whole number from 1 to its 1 conditions, not 0"),
        (lambda: p.k_of(True, F > 1), "k of k_of"),
        (lambda: p.k_of(1), "k_of takes at least 1 condition"),
        (lambda: series("a", "both"), "prompt or response, not 'both'"),
        (lambda: series("").F, "a principle needs a name"),
        (lambda: parse("at(reciprocity.F) > 0"), "at needs k"),
        (lambda: p.named("gradual_drift", limt=1), "gradual_drift has no parameter 'limt'"),
        (lambda: p.named("gradual_drift", limit=F > 1), "limit of gradual_drift must be a number"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_built(build: object, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        build()
    assert words in str(caught.value)


def test_a_tree_that_grows_without_end_is_refused() -> None:
    x: Expression = F
    with pytest.raises(PatternError, match="nested more than 60 levels"):
        for _ in range(100):
            x = x + 1
    pattern: Expression = F > 0
    with pytest.raises(PatternError, match="more than 1000 parts"):
        for _ in range(1000):
            pattern = pattern | (F > 1)


def test_trees_are_values() -> None:
    pattern = p.named("gradual_drift", limit=0.05) & (p.slope(F, window=3) > 0.1)
    assert pickle.loads(pickle.dumps(pattern)) == pattern
    assert copy.deepcopy(pattern) == pattern
    assert {pattern: 1}[copy.copy(pattern)] == 1
    assert pickle.loads(pickle.dumps(pattern)).size == pattern.size
    assert (F > 1) != (F > 2)
    assert (F > 2) == (F > 2.0)
