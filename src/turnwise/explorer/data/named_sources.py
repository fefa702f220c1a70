"""What the explorer is told of beside the store: studies, audits, a service; and presets to try texts on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnwise.errors import UnknownNameError, UsageError
from turnwise.explorer.data.studies import FinishedStudy, find_studies
from turnwise.store import Store

if TYPE_CHECKING:
    from turnwise.explorer.data.trial import Trials
    from turnwise.explorer.data.watch import AuditWatch, ServiceWatch

SERVICE_KEY: Final = "TURNWISE_SERVICE_KEY"
"""The environment variable that holds the API key of the service that is watched."""

_OPEN_STUDIES: Final = 4


class Named:
    """What whoever starts the explorer names. The page chooses among these names, and opens nothing else.

    Studies beside the store are found without being named. A wrong folder, audit file or address is refused at
    once.
    """

    def __init__(
        self,
        store: Store,
        studies: Iterable[str | Path] = (),
        audits: Iterable[str | Path] = (),
        service: str | None = None,
        key: str = "",
    ) -> None:
        self._store = store
        self._folders = tuple(studies)
        find_studies(self._folders, store.location)
        self._audits = tuple(map(str, audits))
        self.service: ServiceWatch | None = None
        if self._audits or service is not None:  # the guard is imported where it is asked for
            from turnwise.explorer.data.watch import AuditWatch, ServiceWatch

            for path in self._audits:
                AuditWatch(path)
            self.service = None if service is None else ServiceWatch(service, key)
        self._opened = lru_cache(_OPEN_STUDIES)(self._open)

    @cached_property
    def trials(self) -> Trials:
        """Conversations under the guard's presets."""
        from turnwise.explorer.data.trial import Trials

        return Trials()

    def studies(self) -> tuple[str, ...]:
        """The names of the studies that can be shown."""
        return tuple(find_studies(self._folders, self._store.location))

    def study(self, name: str) -> FinishedStudy:
        """A study; one that was written anew is read anew."""
        found = find_studies(self._folders, self._store.location)
        if name not in found:
            raise UnknownNameError("study", name, found)
        try:
            written = (found[name] / "verdicts.parquet").stat().st_mtime_ns
        except OSError as error:
            raise UsageError(f"can't read the study {name} any more ({error.strerror}): restore it") from error
        return self._opened(found[name], written)

    @staticmethod
    def _open(folder: Path, written: int) -> FinishedStudy:
        return FinishedStudy(folder)

    def audits(self) -> dict[str, str]:
        """Where an audit can be watched, by name: the store itself, and the files that were named."""
        store = {} if self._store.is_findings else {"store": self._store.location}
        return {
            **store,
            **{f"file{number}": path for number, path in enumerate(self._audits)},
        }

    def audit(self, name: str) -> AuditWatch:
        """An audit to watch, from its beginning on."""
        from turnwise.explorer.data.watch import AuditWatch

        places = self.audits()
        if name not in places:
            raise UnknownNameError("audit", name, places)
        return AuditWatch(self._store if name == "store" else places[name])

    def close(self) -> None:
        """Let go of the pipelines. Closing twice is harmless."""
        if "trials" in self.__dict__:
            self.trials.close()
