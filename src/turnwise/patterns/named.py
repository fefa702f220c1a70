"""Named patterns put to use: as expressions, read from a file, and written out for who has no such file.

Only this module of the package reads files.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from turnwise._support.locations import to_path
from turnwise.errors import PatternError
from turnwise.patterns.expression import Expression, Named, lifted
from turnwise.patterns.library import Library, default_library, read_patterns
from turnwise.patterns.parser import expand
from turnwise.patterns.tokeniser import ParseContext


def load_patterns(path: str | Path, behind: Library | None = None) -> Library:
    """Return the named patterns of a file, with those that ship and those of installed packages behind them.

    Args:
        path: a YAML file; the docstring of `turnwise.patterns.library` shows its shape.
        behind: the patterns behind them; `default_library` by default.

    Raises:
        PatternError: the file can't be read, or a pattern in it; the message names file and pattern.
    """
    try:
        text = to_path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatternError(f"{path}: the file of patterns can't be read: {error}") from error
    patterns = read_patterns(text, str(path))
    library = Library(patterns, default_library() if behind is None else behind)
    try:
        for pattern in patterns:
            expand(pattern, {}, ParseContext(library))  # read with its defaults
    except PatternError as error:
        raise PatternError(f"{path}: {error}") from error
    return library


def named(name: str, /, *, patterns: Library | None = None, **arguments: Expression | float) -> Named:
    """Return a named pattern, with some of its parameters given.

    Args:
        name: its name.
        patterns: where it is looked up; `default_library` by default.
        arguments: value by parameter; the others are at their default.

    Raises:
        UnknownNameError: no pattern has that name.
        PatternError: it has no such parameter, or a value does not fit.

    >>> print(named("gradual_drift", limit=0.05))
    gradual_drift(limit=0.05)
    """
    library = default_library() if patterns is None else patterns
    values = {parameter: lifted(value) for parameter, value in arguments.items()}
    return expand(library.get(name), values, ParseContext(library))


def self_contained(expression: Expression, known: Library) -> Expression:
    """Return an expression with the named patterns that a collection lacks replaced by what they stand for.

    Its text can be read without the file that defines them.

    Args:
        expression: what was read with further patterns.
        known: the patterns that whoever reads the text has.
    """
    if isinstance(expression, Named):
        body = self_contained(expression.body, known)
        return expression if expression.name in known and body == expression.body else body
    values = {one.name: getattr(expression, one.name) for one in fields(expression) if one.init}  # type: ignore[arg-type]
    changed = {name: _replaced(value, known) for name, value in values.items()}
    return expression if changed == values else replace(expression, **changed)  # type: ignore[type-var]


def _replaced(value: object, known: Library) -> object:
    if isinstance(value, Expression):
        return self_contained(value, known)
    return tuple(_replaced(item, known) for item in value) if isinstance(value, tuple) else value
