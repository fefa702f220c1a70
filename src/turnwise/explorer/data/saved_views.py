"""Views of the inbox that people gave a name, kept beside the store for all who use it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from turnwise._support.bounded import read_json
from turnwise._support.locations import Location
from turnwise.errors import StoreError, UsageError
from turnwise.store.findings.files import for_the_user, is_findings

FILE: Final = "views.json"
MOST: Final = 100
_LONGEST_NAME: Final = 60


class SavedViews:
    """Named addresses of a store, in ``work.db-views.json`` beside it.

    Where nothing can be written there they are in the user's folder of data. What is no view is left out.
    """

    def __init__(self, location: str) -> None:
        self._location = location

    @property
    def path(self) -> Path:
        """Where they are kept; StoreError where no folder can be written."""
        place = Location(self._location)
        if not place.is_url and "://" not in self._location:
            path = place.path
            beside = path / FILE if is_findings(self._location) else path.with_name(f"{path.name}-{FILE}")
            if beside.exists() or os.access(beside.parent, os.W_OK):
                return beside
        try:
            return for_the_user(place, "data", FILE)
        except OSError as error:
            raise StoreError(f"can't save views: see that {error.filename} can be written") from error

    def all(self) -> dict[str, str]:
        """Addresses by name, sorted; only those of this explorer's own pages."""
        try:
            found = read_json(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {
            str(name)[:_LONGEST_NAME]: address
            for name, address in sorted(found.items() if isinstance(found, dict) else ())
            if isinstance(address, str) and address.startswith("/?")
        }

    def keep(self, name: str, address: str) -> None:
        """Keep a view under a name, in place of one of that name; UsageError where the name does not fit."""
        name = name.strip()
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"give the view a name of at most {_LONGEST_NAME} characters, all of which can be seen"
            )
        views = {**self.all(), name: address if "?" in address else f"{address}?"}
        if len(views) > MOST:
            raise UsageError(f"there are {MOST} views already: remove some from {self.path}")
        written = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        written.write_text(json.dumps(views, ensure_ascii=False, indent=1), encoding="utf-8")
        written.replace(self.path)
