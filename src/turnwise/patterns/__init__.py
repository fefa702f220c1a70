"""The pattern language: one expression over a trajectory, evaluated live or as SQL. Pure but for `files`.

docs/patterns.md says what every series and function means.
"""

from turnwise.patterns.build import (
    all_,
    any_,
    at,
    chars,
    count,
    current_streak,
    cusum,
    delta,
    drop,
    ema,
    first,
    k_of,
    last,
    low,
    mean,
    peak,
    rise,
    series,
    share,
    slope,
    streak,
    turn,
    turns_since,
    volatility,
)
from turnwise.patterns.evaluator import Evaluator, Match, PatternValue, Stream, match
from turnwise.patterns.expression import Expression
from turnwise.patterns.files import load_patterns, shipped_patterns
from turnwise.patterns.functions import Function, Kind
from turnwise.patterns.named import Library, NamedPattern, default_library, named, self_contained
from turnwise.patterns.parser import parse, parse_expression
from turnwise.patterns.printer import to_text

__all__ = [
    "Evaluator",
    "Expression",
    "Function",
    "Kind",
    "Library",
    "Match",
    "NamedPattern",
    "PatternValue",
    "Stream",
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
    "to_text",
    "turn",
    "turns_since",
    "volatility",
]
