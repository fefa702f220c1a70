"""From text to tree: operator precedence after V. R. Pratt, "Top down operator precedence", POPL 1973.

Loosest to tightest: ``or``, ``and``, ``not``, comparisons (which don't chain), ``+ -``, ``* /``, the sign.
Every error names its column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from turnwise.conversation import Side
from turnwise.errors import PatternError
from turnwise.patterns.expression import (
    AND,
    COMPARE,
    COMPARISONS,
    MAX_DEPTH,
    NOT,
    OR,
    PRODUCT,
    SIGN,
    SUM,
    And,
    Arithmetic,
    Call,
    Comparison,
    Expression,
    KOf,
    Named,
    Negative,
    Not,
    Number,
    Or,
    mismatch,
)
from turnwise.patterns.function_table import FUNCTIONS, ValueKind
from turnwise.patterns.library import Library, NamedPattern, default_library
from turnwise.patterns.series import TRUST, Length, OtherRun, Series, TurnNumber
from turnwise.patterns.tokeniser import OF_A_SCORE, OF_A_TURN, Argument, ParseContext, Token, TokenReader, unknown

_POWERS = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(COMPARISONS, COMPARE),
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
}


def parse(text: str, *, principles: Collection[str] | None = None, patterns: Library | None = None) -> Expression:
    """Return the condition that a text stands for.

    Args:
        text: such as ``"slope(reciprocity.F) > 0.1"``.
        principles: the principles that there are; any other name is an error. None takes every name.
        patterns: the named patterns that there are; those that ship and those of installed packages by default.

    Raises:
        PatternError: it can't be read, its parts don't fit together, a name is unknown, or it is a number.

    >>> parse("reciprocity.F > 0.5")
    Comparison(operator='>', left=Series(component='F', principle='reciprocity', side=<Side.PROMPT: 'prompt'>), \
right=Number(value=0.5))
    >>> parse("slope(reciprocity.F) > 0.1 and reciprocity.f > 1")
    Traceback (most recent call last):
        ...
    turnwise.errors.PatternError: column 44: unknown series 'f'; did you mean 'F'? known: F, I, T, balance, \
strength, trust
      slope(reciprocity.F) > 0.1 and reciprocity.f > 1
                                                 ^
    """
    node = parse_expression(text, principles=principles, patterns=patterns)
    if node.kind is not ValueKind.CONDITION:
        start = len(text) - len(text.lstrip())
        raise PatternError(
            f"a pattern must be a condition, but {mismatch(node)}", text, start, len(text.strip()) or 1
        )
    return node


def parse_expression(
    text: str, *, principles: Collection[str] | None = None, patterns: Library | None = None
) -> Expression:
    """Return the number or condition that a text stands for.

    Args:
        text: such as ``"slope(reciprocity.F)"``.
        principles: as in `parse`.
        patterns: as in `parse`.

    Raises:
        PatternError: it can't be read, its parts don't fit together, or a name is unknown.
    """
    if patterns is None:
        patterns = default_library()
    return parse_in(text, ParseContext(patterns, principles))


def parse_in(text: str, context: ParseContext) -> Expression:
    """Read the expression of a text with the context of what is around it."""
    return _Parser(text, context).parse()


def expand(pattern: NamedPattern, arguments: Mapping[str, Expression], context: ParseContext) -> Named:
    """Return a named pattern with the expression that it stands for; missing arguments take their defaults."""
    if pattern.name in context.within:
        chain = " → ".join([*context.within, pattern.name])
        raise PatternError(f"{pattern.name} is defined by itself: {chain}; remove one of these steps")
    for parameter in arguments:
        if parameter not in pattern.parameters:
            raise PatternError(f"{pattern.name} has no parameter {parameter!r}; write {pattern.usage}")
    given = tuple((parameter, arguments[parameter]) for parameter in pattern.parameters if parameter in arguments)
    if (pattern.name, given) in context.expanded:
        return context.expanded[pattern.name, given]
    inner = replace(context, bound={}, within=(*context.within, pattern.name))
    bound: dict[str, Expression] = {}
    for parameter, text in pattern.parameters.items():
        # A default that is not used may be about a principle that is not there.
        known = None if parameter in arguments else context.principles
        default = _read_part(pattern, f"default of {parameter}", text, replace(inner, principles=known))
        value = arguments.get(parameter, default)
        if value.kind is not default.kind:
            raise PatternError(f"{parameter} of {pattern.name} must be a {default.kind}, not {value}")
        bound[parameter] = value
    body = _read_part(pattern, "expression", pattern.expression, replace(inner, bound=bound))
    return context.expanded.setdefault((pattern.name, given), Named(pattern.name, given, body))


def _read_part(pattern: NamedPattern, what: str, text: str, context: ParseContext) -> Expression:
    try:
        return parse_in(text, context)
    except PatternError as error:
        raise PatternError(f"{what} of {pattern.name}, {text!r}: {error.reason}") from error


class _Parser(TokenReader):
    """Reads one text, once."""

    def __init__(self, text: str, context: ParseContext) -> None:
        super().__init__(text)
        self._context = context
        self._nesting = context.nesting

    def parse(self) -> Expression:
        if self.next.kind == "end":
            raise PatternError("the pattern is empty; write a condition, such as peak(F) > 0.5")
        part = self._expression(OR)
        if self.next.kind != "end":
            raise self.no_operator(self.next)
        return part.node

    def _expression(self, least: int) -> Argument:
        """Read operands and the operators between them that bind at least so tightly."""
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} levels deep; split the pattern", self.next)
        left = self._operand()
        while (tight := _POWERS.get(self.operator(), 0)) >= least:
            operator = self.take()
            if tight in (AND, OR):
                left = self._joined(operator, left, tight)
            elif tight == COMPARE:
                left = self._compared(operator, left)
            else:
                right = self._expression(tight + 1)
                self.demand(ValueKind.NUMBER, operator.text, left, right)
                left = self.made(left.start, right.end, Arithmetic, operator.text, left.node, right.node)
        self._nesting -= 1
        return left

    def _joined(self, operator: Token, first: Argument, tight: int) -> Argument:
        operands = [first, self._expression(tight + 1)]
        while self.operator() == operator.text:
            self.take()
            operands.append(self._expression(tight + 1))
        self.demand(ValueKind.CONDITION, operator.text, *operands)
        nodes = tuple(operand.node for operand in operands)
        return self.made(first.start, operands[-1].end, And if tight == AND else Or, nodes)

    def _compared(self, operator: Token, left: Argument) -> Argument:
        right = self._expression(SUM)
        if self.operator() in COMPARISONS:
            second = self.shown(right)
            raise self.error(
                f"comparisons don't chain; write {self.shown(left)} {operator.text} {second} "
                f"and {second} {self.next.text} ...",
                self.next,
            )
        self.demand(ValueKind.NUMBER, operator.text, left, right)
        return self.made(left.start, right.end, Comparison, operator.text, left.node, right.node)

    def _operand(self) -> Argument:  # noqa: PLR0911 - one for each kind of word
        token = self.take()
        if token.kind == "number":
            return self.made(token.start, token.end, Number, float(token.text))
        if token.kind == "name" and token.text == "not":
            operand = self._expression(NOT)
            self.demand(ValueKind.CONDITION, "not", operand)
            return self.made(token.start, operand.end, Not, operand.node)
        if token.kind == "name" and token.text not in ("and", "or"):
            return self._named(token)
        if token.kind == "quoted":
            return self._series(token)
        if token.kind == "symbol" and token.text == "-":
            if self.next.kind == "number":
                number = self.take()
                return self.made(token.start, number.end, Number, -float(number.text))
            operand = self._expression(SIGN)
            self.demand(ValueKind.NUMBER, "-", operand)
            return self.made(token.start, operand.end, Negative, operand.node)
        if token.kind == "symbol" and token.text == "(":
            inner = self._expression(OR)
            return inner._replace(start=token.start, end=self.closing(token).end)
        raise self.no_value(token)

    def _named(self, token: Token) -> Argument:  # noqa: PLR0911 - one for each kind of name
        if self.comes("("):
            return self._of_run(token) if token.text == "run" else self._call(token)
        if self.comes("."):
            return self._series(token)
        name, span = token.text, (token.start, token.end)
        if name in self._context.bound:
            return Argument(self._context.bound[name], *span)
        if name in OF_A_SCORE:
            return self._of_a_score(token, None, Side.PROMPT, span)
        if name == "turn":
            return self.made(*span, TurnNumber)
        if name == "chars":
            return self.made(*span, Length)
        if name in self._context.patterns:
            return self._expanded(token, [], token.end)
        raise self.error(self._no_word(name), token)

    def _no_word(self, name: str) -> str:
        if name == "run":
            return 'run names another run: write run("second").F'
        if name in FUNCTIONS or name == "k_of":
            return f"{name} is a function: write {name}(...)"
        if name == "response":
            return "response is a side: write response.F, or response.reciprocity.F"
        if name.lower() in ("and", "or", "not"):
            return f"write {name.lower()} in small letters"
        if self._context.principles is not None and name in self._context.principles:
            return f"{name} is a principle: write {name}.F, {name}.T or {name}.I"
        words = {*OF_A_SCORE, *OF_A_TURN, *self._context.bound, *self._context.patterns.names()}
        return unknown("name", name, words, also=(*FUNCTIONS, *(self._context.principles or ())))

    def _of_run(self, token: Token) -> Argument:
        opening = self.take()
        name = self.take()
        if name.kind not in ("name", "quoted"):
            raise self.error('expected the name of a run, as in run("second").F', name)
        self.closing(opening)
        if not self.comes("."):
            raise self.error('expected a series after the run, as in run("second").F', token)
        self.take()
        first = self.take()
        if first.kind not in ("name", "quoted"):
            raise self.error(f"after the dot, write one of {', '.join(OF_A_SCORE)}", first)
        if self.comes("."):
            return self._series(first, name.text, token.start)
        return self._of_a_score(first, None, Side.PROMPT, (token.start, first.end), name.text)

    def _series(self, first: Token, run: str | None = None, start: int | None = None) -> Argument:
        words = [first]
        while self.comes("."):
            self.take()
            if self.next.kind not in ("name", "quoted"):
                raise self.error(f"after the dot, write one of {', '.join(OF_A_SCORE)}", self.next)
            words.append(self.take())
        span = first.start if start is None else start, words[-1].end
        if first.kind == "name" and first.text in self._context.bound:
            raise self.error(
                f"{first.text} is a parameter and stands for a whole expression: write it without a dot", first
            )
        side = Side.PROMPT
        if first.kind == "name" and first.text == "response" and len(words) > 1:
            side = Side.RESPONSE
            del words[0]
            if run is None and len(words) == 1 and words[0].text == "chars" and words[0].kind == "name":
                return self.made(*span, Length, side)
        elif len(words) == 1:
            raise self.error(f"a name in quotes is a principle: write {self.shown(first)}.F", first)
        if len(words) > 2:
            raise self.error(
                f"a series is principle.F or response.principle.F: leave out {words[2].text}", words[2]
            )
        principle = words[0] if len(words) == 2 else None
        known = self._context.principles if run is None else None
        if principle and known is not None and principle.text not in known:
            raise self.error(unknown("principle", principle.text, known, also=("response",)), principle)
        return self._of_a_score(words[-1], principle, side, span, run)

    def _of_a_score(
        self, word: Token, principle: Token | None, side: Side, span: tuple[int, int], run: str | None = None
    ) -> Argument:
        name = principle.text if principle else None
        if word.kind != "name" or word.text not in OF_A_SCORE:
            raise self.error(unknown("series", word.text, OF_A_SCORE), word)
        trust = word.text == "trust"
        part = self.made(*span, Series, "strength" if trust else word.text, name, side)
        if run is not None:
            part = self.made(*span, OtherRun, run, part.node)
        return self.made(*span, Call, "ema", part.node, tuple(TRUST.items())) if trust else part

    def _call(self, token: Token) -> Argument:
        opening = self.take()
        arguments: list[Argument] = []
        if not self.comes(")"):
            arguments.append(self._argument())
        while self.comes(","):
            self.take()
            arguments.append(self._argument())
        end = self.closing(opening).end
        if token.text in FUNCTIONS:
            return self._function(token, arguments, end)
        if token.text == "k_of":
            return self._k_of(token, arguments, end)
        if token.text in self._context.patterns:
            return self._expanded(token, arguments, end)
        known = [*FUNCTIONS, "k_of", *self._context.patterns.names()]
        raise self.error(unknown("function", token.text, known), token)

    def _argument(self) -> Argument:
        if self.next.kind == "name" and self.after_next.kind == "symbol" and self.after_next.text == "=":
            name = self.take()
            self.take()
            return self._expression(OR)._replace(name=name)
        return self._expression(OR)

    def _function(self, token: Token, arguments: list[Argument], end: int) -> Argument:
        function, signature = token.text, FUNCTIONS[token.text]
        names = [parameter.name for parameter in signature.parameters]
        call = f"{function}({', '.join(['x' if signature.of is ValueKind.NUMBER else 'condition', *names])})"
        if not arguments or arguments[0].name is not None:
            raise self.error(f"{function} needs an argument: {call}", token)
        self.demand(signature.of, function, arguments[0])
        values: dict[str, float] = {}
        for index, part in enumerate(arguments[1:]):
            if part.name is None and index >= len(names):
                raise self.error(f"{function} got too many arguments: {call}", part)
            name = part.name.text if part.name else names[index]
            if part.name and name not in names:
                raise self.error(unknown(f"parameter of {function}", name, names), part.name)
            if name in values:
                raise self.error(f"{name} of {function} is given twice", part.name or part)
            if not isinstance(part.node, Number):
                raise self.error(f"{name} of {function} must be a number, the same at every turn", part)
            parameter = signature.parameters[names.index(name)]
            values[name] = self.tried(part.start, part.end, parameter.read, function, part.node.value)
        return self.made(token.start, end, Call, function, arguments[0].node, tuple(values.items()))

    def _k_of(self, token: Token, arguments: list[Argument], end: int) -> Argument:
        for part in arguments:
            if part.name is not None:
                raise self.error("k_of takes no named parameter: k_of(k, condition, condition, ...)", part.name)
        if len(arguments) < 2:
            raise self.error("k_of takes a number and conditions: k_of(2, condition, condition, ...)", token)
        first, *rest = arguments
        if not isinstance(first.node, Number) or not first.node.value.is_integer():
            raise self.error("k of k_of must be a whole number, the same at every turn", first)
        self.demand(ValueKind.CONDITION, "k_of", *rest)
        nodes = tuple(part.node for part in rest)
        return self.made(first.start, first.end, KOf, int(first.node.value), nodes)._replace(
            start=token.start, end=end
        )

    def _expanded(self, token: Token, arguments: list[Argument], end: int) -> Argument:
        pattern = self._context.patterns.get(token.text)
        values: dict[str, Expression] = {}
        for part in arguments:
            if part.name is None:
                raise self.error(f"write the parameters of {token.text} by name: {pattern.usage}", part)
            if part.name.text not in pattern.parameters:
                raise self.error(
                    unknown(f"parameter of {token.text}", part.name.text, pattern.parameters), part.name
                )
            if part.name.text in values:
                raise self.error(f"{part.name.text} of {token.text} is given twice", part.name)
            values[part.name.text] = part.node
        context = replace(self._context, nesting=self._nesting)
        node = self.tried(token.start, end, expand, pattern, values, context)
        return Argument(node, token.start, end)
