"""Named settings of the session memory: the corrected default, the original, and three ways to tune it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnwise.errors import UnknownNameError
from turnwise.sessions.settings import BoundarySettings, SessionSettings, TrajectorySettings

DEFAULT_PRESET = "default"
"""Name of the preset that is used where none is named."""


@dataclass(frozen=True, slots=True)
class PresetInfo:
    """A preset and what it is for.

    Args:
        name: its name.
        summary: what it does, in a line.
        settings: what it sets.
    """

    name: str
    summary: str
    settings: SessionSettings


def presets() -> tuple[PresetInfo, ...]:
    """Return every preset, the default first."""
    boundary = BoundarySettings(recent=False, F_full=True)
    original = SessionSettings(
        boundary=boundary,
        trajectory=TrajectorySettings(rules="original"),
        half_life=None,
        expires_after=None,
    )
    return (
        PresetInfo(
            DEFAULT_PRESET,
            "Compares F with F, forgets old turns, lets good faith reach normal.",
            SessionSettings(),
        ),
        PresetInfo("original", "The rules of the validation summary as they were.", original),
        PresetInfo(
            "trust_only",
            "Tuning option 1: original, and trust below 0.60 counts as boundary testing.",
            replace(original, boundary=replace(boundary, trust_below=0.60)),
        ),
        PresetInfo(
            "multi_signal",
            "Tuning option 2: original, and three of four weak signals count as boundary testing.",
            replace(original, boundary=replace(boundary, weak_signals=3)),
        ),
        PresetInfo(
            "short_windows",
            "Tuning option 3: original with 2 of the last 3 F and the last 2 changes of balance.",
            replace(original, boundary=replace(boundary, F_window=3, bad_turns=2, fall_window=2)),
        ),
    )


def preset(name: str = DEFAULT_PRESET) -> SessionSettings:
    """Return the settings of a preset.

    Args:
        name: ``default``, ``original``, ``trust_only``, ``multi_signal`` or ``short_windows``.

    Raises:
        UnknownNameError: no preset has that name.

    >>> preset("trust_only").boundary.trust_below
    0.6
    """
    found = {info.name: info.settings for info in presets()}
    if name not in found:
        raise UnknownNameError("session preset", name, found)
    return found[name]
