"""A named pattern of a package. In a YAML file, for `--patterns`, it is the same in five lines."""

from turnwise.patterns import NamedPattern

TWO_BAD_TURNS = NamedPattern(
    name="two_bad_turns",
    expression="count(x > limit) >= turns",
    description="Falsity was above the limit at two turns or more, in a row or not.",
    reference="an example",
    parameters={"x": "F", "limit": "0.5", "turns": "2"},
    example={"reciprocity": ((0.9, 0.1, 0.1), (0.3, 0.2, 0.7), (0.8, 0.1, 0.2), (0.2, 0.2, 0.8))},
)
