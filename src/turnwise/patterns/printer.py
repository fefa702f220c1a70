"""From the tree to its text, with as few parentheses as parse back to the same tree."""

from __future__ import annotations

import json
import re

from turnwise.conversation import Side
from turnwise.patterns.expression import Expression
from turnwise.patterns.functions import FUNCTIONS
from turnwise.patterns.tree import (
    And,
    Arithmetic,
    Call,
    Comparison,
    KOf,
    Length,
    Named,
    Negative,
    Not,
    Number,
    Or,
    OtherRun,
    Series,
    TurnNumber,
)

RESERVED = frozenset({"and", "or", "not", "response"})
"""Words that are no name of a principle unless they stand in quotes."""

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A name that needs no quotes."""

OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, ATOM = range(1, 9)
"""How tightly each kind of expression holds together, loosest first."""


def to_text(expression: Expression) -> str:
    """Return the text of an expression, which parses back to an equal tree.

    >>> from turnwise.patterns import parse
    >>> to_text(parse("(peak( F ) - .10 ) > ( 0.5 ) and ( not ( trust < 0.6 ) )"))
    'peak(F) - 0.1 > 0.5 and not ema(strength, alpha=0.3, start=0.5) < 0.6'
    """
    return _text(expression)[0]


def number_text(value: float) -> str:
    """The shortest text of a number that reads back to the same float.

    >>> number_text(3.0), number_text(0.60), number_text(-1e-9)
    ('3', '0.6', '-1e-09')
    """
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _text(expression: Expression) -> tuple[str, int]:  # noqa: PLR0911, PLR0912 - a case for each node
    """Text and tightness."""
    match expression:
        case Number(value):
            return number_text(value), SIGN if value < 0 else ATOM
        case Series(component, principle, side):
            names = ["response"] if side is Side.RESPONSE else []
            names += [] if principle is None else [_name(principle)]
            return ".".join([*names, component]), ATOM
        case OtherRun(run, series):
            return f"run({json.dumps(run)}).{to_text(series)}", ATOM
        case TurnNumber():
            return "turn", ATOM
        case Length(side):
            return "response.chars" if side is Side.RESPONSE else "chars", ATOM
        case Negative(operand):
            # -2 reads as a number of its own, so that the sign of a number stands outside parentheses.
            return f"-{_inside(operand, ATOM + 1 if isinstance(operand, Number) else SIGN)}", SIGN
        case Arithmetic(operator, left, right):
            tight = SUM if operator in "+-" else PRODUCT
            return f"{_inside(left, tight)} {operator} {_inside(right, tight + 1)}", tight
        case Comparison(operator, left, right):
            return f"{_inside(left, SUM)} {operator} {_inside(right, SUM)}", COMPARE
        case Not(operand):
            return f"not {_inside(operand, NOT)}", NOT
        case And(operands):
            return " and ".join(_inside(operand, NOT) for operand in operands), AND
        case Or(operands):
            return " or ".join(_inside(operand, AND) for operand in operands), OR
        case KOf(k, operands):
            return f"k_of({', '.join([str(k), *map(to_text, operands)])})", ATOM
        case Call(function, argument):
            return f"{function}({', '.join([to_text(argument), *_parameters(expression)])})", ATOM
        case Named(name, arguments):
            given = ", ".join(f"{parameter}={to_text(value)}" for parameter, value in arguments)
            return f"{name}({given})" if given else name, ATOM
        case _:
            raise AssertionError(f"this expression can't be printed: {expression!r}")


def _inside(expression: Expression, least: int) -> str:
    text, tight = _text(expression)
    return text if tight >= least else f"({text})"


def _parameters(call: Call) -> list[str]:
    by_name = {parameter.name: parameter.by_name for parameter in FUNCTIONS[call.function].parameters}
    return [
        f"{name}={number_text(value)}" if by_name[name] else number_text(value) for name, value in call.parameters
    ]


def _name(principle: str) -> str:
    plain = PLAIN_NAME.fullmatch(principle) and principle not in RESERVED
    return principle if plain else json.dumps(principle)
