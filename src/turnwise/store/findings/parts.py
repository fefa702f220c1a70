"""What a store over the findings of a scan is made of."""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn

from turnwise.clock import Clock
from turnwise.store.findings.files import FoundFiles, refused
from turnwise.store.findings.index import Index, Progress
from turnwise.store.findings.mirror import FoundMirror
from turnwise.store.findings.numbered import FoundNumbers
from turnwise.store.findings.people import FoundPeople
from turnwise.store.findings.runs import FoundRuns
from turnwise.store.findings.scores import FoundScores
from turnwise.store.findings.sequences import FoundSequences

_IMPORT = "make a store with turnwise import"


class FindingsParts:
    """The parts of a store over findings, seen as they were when they were opened; only a scan can create some."""

    def __init__(self, location: str, *, create: bool, clock: Clock) -> None:
        if create:
            raise refused(f"import into {location}", f"{_IMPORT} FILE --store work.db")
        self._files = FoundFiles(location)
        self._index = Index(self._files)
        self.where = self._files.where
        self.runs = FoundRuns(self._files)
        self.mirror = FoundMirror(self._files, self._index, self.runs.run)
        self.sequences = FoundSequences(self._files, self.mirror)
        self.scores = FoundScores(self._files, self.sequences, self.runs.run)
        self.numbered = FoundNumbers(self._files)
        self._clock = clock

    @property
    def note(self) -> str | None:
        """How much is missing of a scan that has not ended."""
        return self._files.note

    @cached_property
    def people(self) -> FoundPeople:
        """What people said."""
        return FoundPeople(self._files, self.sequences, self._clock)

    @property
    def journal(self) -> NoReturn:
        """Refuse: no reply of a language model is kept."""
        raise refused("keep replies of language models in them", f"{_IMPORT}, then turnwise evaluate")

    @property
    def audit(self) -> NoReturn:
        """Refuse: no guard wrote to them."""
        raise refused("find an audit in them", "name the store or the file of the guard")

    @property
    def database(self) -> NoReturn:
        """Refuse: there is no record to export or to merge into."""
        raise refused("export them or import into them", "their files are Parquet already, see docs/findings.md")

    own_runs = database

    def prepare(self, progress: Progress) -> None:
        """Make the index, where there is none that fits."""
        self._index.ready(progress)

    def counts(self) -> dict[str, int]:
        """How many sequences, turns, runs, evaluations, failures and unread texts there are."""
        totals = self._files.manifest.totals
        return {
            "sequences": totals.conversations,
            "turns": totals.turns,
            "runs": 1,
            "evaluations": totals.scores,
            "failures": self.runs.tally(self.runs.run.name).failures if totals.failures else 0,
            "unread": sum(totals.unread.values()),
        }

    def close(self) -> None:
        """Let go of the files."""
        if "people" in vars(self):
            self.people.close()
        self.mirror.close()
        self._index.close()
        self._files.close()

    def discard(self) -> None:
        """Do nothing: nothing was made."""
