"""The views, one file each, each of which adds itself with `turnwise.explorer.pages.page`."""

MODULES = (
    "inbox",
    "overview",
    "sequences",
    "runs_compared",
    "sequence",
    "query",
    "compare",
    "study",
    "label",
    "guard",
)
"""Modules of this package that hold a view."""
