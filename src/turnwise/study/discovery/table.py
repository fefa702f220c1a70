"""The values of many expressions at every evaluated turn of many conversations, in one pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.patterns import Expression
from turnwise.patterns.program import Program
from turnwise.scoring import TurnScores
from turnwise.study.example import Example

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Table:
    """Values by evaluated turn.

    Args:
        columns: a row an expression, a column an evaluated turn, turns of one conversation together; NaN where
            the expression is undefined.
        starts: place of the first turn of every conversation that has one.
        lengths: evaluated turns of every conversation.
    """

    columns: NDArray[np.float64]
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]


def values_of(expressions: Sequence[Expression], examples: Sequence[Example]) -> Table:
    """Return the values of expressions at every evaluated turn.

    Parts that several expressions share are reckoned once.

    Args:
        expressions: numbers.
        examples: the conversations; each has an evaluated turn.
    """
    import numpy as np

    program = Program()
    places = [program.value(expression) for expression in expressions]
    fresh = json.dumps(program.start())  # the state before the first turn; read back far faster than copied deeply
    lengths = np.array([len(evaluated_turns(example)) for example in examples], dtype=np.intp)
    columns = np.empty((len(expressions), int(lengths.sum())))
    row = 0
    for example in examples:
        cells = json.loads(fresh)
        for scores in evaluated_turns(example):
            values = program.run(cells, scores)
            columns[:, row] = np.array([values[place] for place in places], dtype=np.float64)
            row += 1
    return Table(columns, np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)


def evaluated_turns(example: Example) -> list[TurnScores]:
    """Return the turns of a conversation that have a score; at the others nothing holds."""
    return [scores for scores in example.turns if scores.scores or scores.response_scores]
