"""What the tests of studies share."""

from labelled import make_examples

__all__ = ["make_examples"]
