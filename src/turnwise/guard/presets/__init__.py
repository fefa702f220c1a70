"""The named configurations that ship with turnwise."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from turnwise.errors import UnknownNameError

_SUFFIX = ".yaml"


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of the presets, sorted."""
    files = resources.files("turnwise.guard.presets").iterdir()
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX)))


def preset_text(name: str) -> str:
    """Return the YAML text of a preset.

    Raises:
        UnknownNameError: no preset has that name.
    """
    if name not in preset_names():
        raise UnknownNameError("preset", name, preset_names())
    file = resources.files("turnwise.guard.presets").joinpath(name + _SUFFIX)
    return file.read_text(encoding="utf-8")


def preset_summary(name: str) -> str:
    """Return what a preset is for, in a line."""
    import yaml

    data: dict[str, Any] = yaml.safe_load(preset_text(name))
    return " ".join(str(data["description"]).split())
