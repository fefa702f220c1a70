"""The embedded observers: a small language model that reads conversations, and a smaller network for screening.

`observer` is both, `weights` checks what they load, `reading` makes tokens of texts (`normalise` undoes what hides
words, `languages` tells which are read), `language_model_reader` (on `network`) and `small_reader` read them, and
`scores` makes T, I and F of that. `card` writes the model card.
"""

from turnwise.observers.local.observer import LocalObserver, LocalSmallObserver, ReaderState
from turnwise.observers.local.weights import load_weights, read_metrics, save_weights, shipped

__all__ = [
    "LocalObserver",
    "LocalSmallObserver",
    "ReaderState",
    "load_weights",
    "read_metrics",
    "save_weights",
    "shipped",
]
