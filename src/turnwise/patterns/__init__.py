"""The pattern language: one expression over a trajectory, live or as SQL. Pure but for `named`, which reads files.

docs/patterns.md says what every series and function means.
"""

from turnwise.patterns.conditional import all_, any_, count, current_streak, k_of, share, streak, turns_since
from turnwise.patterns.evaluator import Evaluator, PatternMatch, PatternValue, Stream, match
from turnwise.patterns.expression import Expression
from turnwise.patterns.function_table import FUNCTIONS, ValueKind
from turnwise.patterns.library import Library, NamedPattern, default_library, shipped_patterns
from turnwise.patterns.named import load_patterns, named, self_contained
from turnwise.patterns.number_functions import (
    at,
    cusum,
    delta,
    drop,
    ema,
    first,
    last,
    low,
    mean,
    peak,
    rise,
    slope,
    volatility,
)
from turnwise.patterns.parser import parse, parse_expression
from turnwise.patterns.series import chars, series, turn

__all__ = [
    "FUNCTIONS",
    "Evaluator",
    "Expression",
    "Library",
    "NamedPattern",
    "PatternMatch",
    "PatternValue",
    "Stream",
    "ValueKind",
    "all_",
    "any_",
    "at",
    "chars",
    "count",
    "current_streak",
    "cusum",
    "default_library",
    "delta",
    "drop",
    "ema",
    "first",
    "k_of",
    "last",
    "load_patterns",
    "low",
    "match",
    "mean",
    "named",
    "parse",
    "parse_expression",
    "peak",
    "rise",
    "self_contained",
    "series",
    "share",
    "shipped_patterns",
    "slope",
    "streak",
    "turn",
    "turns_since",
    "volatility",
]
