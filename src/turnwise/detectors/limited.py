"""What detectors share whose threshold is a limit on their score."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self


class Limited:
    """A detector that fires from its limit. A subclass is a frozen dataclass with a field ``limit``."""

    __slots__ = ()

    threshold_parameter: ClassVar[str] = "limit"

    if TYPE_CHECKING:
        limit: float

    @property
    def threshold(self) -> float:
        """The limit: score from which it fires."""
        return self.limit

    def with_threshold(self, value: float) -> Self:
        """Return the same detector with another limit."""
        detector: Any = self
        moved: Self = replace(detector, limit=value)
        return moved
