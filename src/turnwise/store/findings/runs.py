"""The run of findings, from their manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from turnwise.errors import StoreCorruptError, UnknownNameError
from turnwise.findings import MEND
from turnwise.scoring import FailureReasons
from turnwise.store.findings.files import FoundFiles, refused
from turnwise.store.runs import Run, RunTally

_ANOTHER = "scan into another folder"


class FoundRuns:
    """The one run of findings, `run`; methods as in `turnwise.store.runs.Runs`."""

    def __init__(self, files: FoundFiles) -> None:
        self._files = files
        told, versions = files.manifest.run, files.manifest.versions
        try:
            parameters, points = told["parameters"], told["operating_points"]
            if not (isinstance(parameters, Mapping) and isinstance(points, Mapping)):
                raise TypeError("parameters and operating_points are objects")
            self.run = Run(
                name=str(told["name"]),
                observer=str(told["observer"]),
                observer_version=str(told["observer_version"]),
                context=str(told["context"]),
                parameters=parameters,
                operating_points={str(name): float(value) for name, value in points.items()},
                code_version=str(versions.get("code") or versions.get("turnwise") or "unknown"),
                created_at=files.when,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StoreCorruptError(
                f"the manifest of {files.where} does not say how it was scored: {error}; {MEND}"
            ) from error

    def all(self) -> tuple[Run, ...]:
        """The run."""
        return (self.run,)

    def get(self, name: str) -> Run:
        """The run; UnknownNameError where it has another name."""
        if name != self.run.name:
            raise UnknownNameError("run", name, [self.run.name])
        return self.run

    def only(self) -> str:
        """Its name."""
        return self.run.name

    def principle_versions(self, run: str) -> dict[str, str]:
        """The revision of every principle."""
        self.get(run)
        return self._files.manifest.revisions

    def start(self, run: Run) -> NoReturn:
        """Refuse to start one."""
        raise refused("add a run", _ANOTHER)

    def rename(self, old: str, new: str) -> NoReturn:
        """Refuse to rename it."""
        raise refused("rename the run", _ANOTHER)

    def delete(self, name: str) -> NoReturn:
        """Refuse to delete it."""
        raise refused("delete the run", "remove the folder")

    def tallies(self) -> tuple[tuple[Run, RunTally], ...]:
        """The run with what it has come to."""
        return ((self.run, self.tally(self.run.name)),)

    def tally(self, name: str) -> RunTally:
        """What the run has come to; UnknownNameError where it has another name."""
        run, totals = self.get(name), self._files.manifest.totals
        reasons = FailureReasons()
        failed = set()
        sequences = set()
        if totals.failures or totals.unread:
            for one in self._files.failures():
                if one.get("language") is not None:
                    sequences.add(one.get("sequence"))
                elif one.get("turn") is not None:
                    reasons.add("scan", str(one["reason"]))
                    sequences.add(one.get("sequence"))
                    failed.add((one.get("sequence"), one["turn"], one.get("side"), one.get("principle")))
        return RunTally(
            run.name,
            sequences=max(totals.scored, len(sequences)),
            evaluations=totals.scores,
            failed=len(failed),
            failures=len(failed),
            unread=dict(totals.unread),
            commonest_failure=reasons.commonest,
        )
