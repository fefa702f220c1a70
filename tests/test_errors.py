from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from turnwise import GuardrailPipeline, errors
from turnwise.errors import (
    ConversationError,
    DetectorError,
    OtherLabelError,
    PatternError,
    ScoreError,
    StoreCorruptError,
    StoreError,
    StoreLockedError,
    StoreVersionError,
    TurnwiseError,
    UnknownNameError,
    UsageError,
    nearest,
)
from turnwise.guard import GuardrailBlocked

EVERY_ERROR = [
    item for _, item in inspect.getmembers(errors, inspect.isclass) if item.__module__ == errors.__name__
]


@pytest.mark.parametrize(
    ("name", "likeness", "meant"),
    [
        ("slop", 0.6, "slope"),
        ("trust-ema", 0.6, "trust_ema"),
        ("slope", 0.6, "slope"),
        ("ema", 0.6, None),
        ("ema", 0.5, "trust_ema"),
        ("", 0.6, None),
        ("zzz", 0.6, None),
    ],
)
def test_the_nearest_name_is_one_that_is_alike(name, likeness, meant):
    assert nearest(name, ["slope", "trust_ema"], likeness=likeness) == meant
    assert nearest(name, []) is None


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_every_error_is_a_turnwise_error_with_a_docstring(error):
    assert issubclass(error, TurnwiseError)
    assert inspect.getdoc(error)


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    drawn: dict[str, str] = {}
    branch: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"^([ │├└─]*)(\w+Error) ", line)
        if found:
            depth = len(found[1])
            branch = [(column, name) for column, name in branch if column < depth]
            drawn[found[2]] = branch[-1][1] if branch else "Exception"
            branch.append((depth, found[2]))
    assert drawn == {error.__name__: error.__bases__[0].__name__ for error in EVERY_ERROR}


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (UnknownNameError, UsageError),
        (DetectorError, UsageError),
        (StoreLockedError, StoreError),
        (StoreCorruptError, StoreError),
        (StoreVersionError, StoreError),
        (ScoreError, ValueError),
        (ConversationError, ValueError),
    ],
)
def test_what_a_caller_may_catch_instead(error, base):
    assert issubclass(error, base)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_errors_survive_copy_and_pickle(again):
    result = GuardrailPipeline({"guardrails": [{"length": {"max_characters": 3}}]}).check_input("too long")
    for error in (
        GuardrailBlocked(result, "messages[2]"),
        OtherLabelError("chat-1", "attack", "benign"),
        PatternError("unknown function", "peek(F)", 0, 4),
        ScoreError("T is 2"),
        UnknownNameError("detector", "slop", ["slope"]),
    ):
        other = again(error)
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


class TestUnknownName:
    def test_names_the_nearest_and_the_known_ones_sorted(self):
        error = UnknownNameError("detector", "slop", ["trust_ema", "slope"])
        assert str(error) == "unknown detector 'slop'; did you mean 'slope'? known: slope, trust_ema"
        assert (error.kind, error.name, error.known) == ("detector", "slop", ("slope", "trust_ema"))

    def test_suggests_nothing_where_nothing_is_near(self):
        assert str(UnknownNameError("run", "zzz", ["first"])) == "unknown run 'zzz'; known: first"

    def test_says_that_none_is_known(self):
        assert str(UnknownNameError("run", "first", [])) == "unknown run 'first'; known: none"

    def test_takes_any_iterable_once(self):
        assert UnknownNameError("run", "x", (name for name in "ba")).known == ("a", "b")

    def test_lists_only_some_of_many_but_keeps_them_all(self):
        names = [f"sequence_{number:04}" for number in range(1_000)]
        error = UnknownNameError("sequence", "other", names)
        assert len(str(error)) < 400
        assert str(error).endswith("sequence_0011 and 988 more")
        assert error.known == tuple(names)

    def test_counts_nothing_more_where_all_are_listed(self):
        assert str(UnknownNameError("run", "zzz", [f"r{n}" for n in range(10, 22)])).endswith("r20, r21")
