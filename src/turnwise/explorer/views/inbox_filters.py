"""What the inbox asks for: fields, days to choose from, and views that people gave a name."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from nicegui import ui

from turnwise._support.bounded import read_json
from turnwise._support.locations import Location
from turnwise._support.visible import visible
from turnwise.errors import StoreError, TurnwiseError, UsageError
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import button, emptied, fill_name, heading, keep_name, notify
from turnwise.runs.inbox import Inbox, InboxItem
from turnwise.runs.verdicts import judges_of
from turnwise.store import Status
from turnwise.store.findings.files import for_the_user, is_findings
from turnwise.store.people import NOBODY

OPEN: Final = (Status.NEW, Status.READ, Status.UNSURE)
"""What is shown where no status is asked for: what nobody has decided."""

FILTERS: Final = ("status", "source", "assignee", "principle", "words", "since", "until", "detectors")

_MOST_DAYS: Final = 62
"""Bars of the time axis for days; beyond it they are of weeks."""

_FILE: Final = "views.json"
_MOST_VIEWS: Final = 100
_LONGEST_NAME: Final = 60


class Filters:
    """The fields above the list; `reread` is called once something else is asked for."""

    def __init__(self, page: Page, reread: Callable[[], Awaitable[None]]) -> None:
        self._page, self._reread = page, reread
        self._views = SavedViews(page.record.store.location)
        self._found: Inbox | None = None
        self.name = ""
        self._days = ui.element("div").classes("inbox-days")
        self._place = ui.element("div").classes("inbox-filters")

    async def read_name(self) -> None:
        """Take the name of whoever reads from what the browser keeps, unless they typed one meanwhile."""
        self.name = (await fill_name(self._who)).strip()

    def ask_for_name(self) -> None:
        """Lead to the field for the name."""
        self._who.run_method("focus")

    def asked(self) -> dict[str, Any]:
        """What is asked for, as arguments of `turnwise.runs.inbox`."""
        get, patterns = self._page.get, self._page.record.patterns
        statuses = [one for one in get("status").split(",") if one]
        return {
            "detectors": [one.strip() for one in get("detectors").split(";") if one.strip()],
            "patterns": patterns if patterns is not None and patterns.exists() else None,
            "status": None if "all" in statuses else statuses or list(OPEN),
            "source": get("source") or None,
            "assignee": {"": None, "nobody": NOBODY}.get(get("assignee"), get("assignee")),
            "principle": get("principle") or None,
            "since": _day(get("since")),
            "until": _day(get("until"), after=True),
            "words": get("words") or None,
        }

    def show(self, found: Inbox | None) -> None:
        """Show the fields, with the choices that there are among what was found."""
        page = self._page
        self._found = found
        every = list(found.items) if found is not None else []
        sources = sorted({one.source for one in every} | ({page.get("source")} - {""}))
        people = sorted(
            {one.assignee for one in every if one.assignee} | ({page.get("assignee")} - {"", "nobody"})
        )
        principles = sorted({one.principle for one in every} | ({page.get("principle")} - {""}))
        runs = [run.name for run in page.record.store.runs()]
        with emptied(self._place):
            words = ui.input(
                "Words in the conversation", value=page.get("words"), on_change=partial(self._set, "words")
            )
            words.props("dense outlined clearable debounce=300 data-search")
            shown = page.get("status").split(",") if page.get("status") else [str(one) for one in OPEN]
            options = {"all": "all", **{str(one): str(one) for one in Status}}
            self._select("Status", "status", options, shown, multiple=True)
            given = {"": "all", "nobody": "nobody", **{one: one for one in sorted(people)}}
            self._select("Assigned to", "assignee", given, page.get("assignee"))
            self._who = ui.input("Your name", value=self.name, on_change=self._named)
            self._who.props("dense outlined debounce=300 maxlength=100")
            self._show_views()
            folded = any(page.get(name) for name in FILTERS if name not in ("words", "status", "assignee"))
            more = ui.expansion("More filters", value=folded).classes("inbox-more").props("dense")
            with more, ui.element("div").classes("inbox-filters"):
                self._select("Run", "run", runs, page.run_name())
                self._select("Source", "source", {"": "all", **{one: one for one in sources}}, page.get("source"))
                given = {"": "all", **{one: one.replace("_", " ") for one in principles}}
                self._select("Principle", "principle", given, page.get("principle"))
                for name, label in (("since", "From day"), ("until", "To day")):
                    day = ui.input(label, value=page.get(name), on_change=partial(self._set, name))
                    day.props("dense outlined type=date stack-label debounce=300")
                self._rule()

    def _rule(self) -> None:
        page = self._page
        usual = "; ".join(one.spec for one in judges_of(page.record.store, page.run_name() or ""))
        rule = ui.input("Flagged by", value=page.get("detectors"), placeholder=usual).classes("grow")
        rule.props('dense outlined stack-label clearable hint="Detectors or patterns, with ; between them; Enter"')
        rule.on("keydown.enter", lambda: self._set_value("detectors", rule.value))
        rule.on("clear", lambda: self._set_value("detectors", ""))

    def _show_views(self) -> None:
        with ui.button("Views", icon="bookmark").props("no-caps dense outline"), ui.menu():
            for name, address in self._views.all().items():
                ui.menu_item(visible(name), partial(ui.navigate.to, address))
            ui.menu_item("Save this view ...", self._save_view)

    def _select(self, label: str, name: str, options: Any, value: Any, *, multiple: bool = False) -> None:
        ui.select(options, label=label, value=value, multiple=multiple, on_change=partial(self._set, name)).props(
            "dense outlined options-dense stack-label"
        )

    def show_days(self, items: Sequence[InboxItem]) -> None:
        """Show how many were flagged on each day, or in each week, as bars to choose from."""
        self._days.clear()
        days = Counter(one.when.date() for one in items)
        if len(days) < 2:
            return
        first, last = min(days), max(days)
        step = timedelta(1 if (last - first).days < _MOST_DAYS else 7)
        bars: list[tuple[str, int]] = []
        start = first
        while start <= last:
            bars.append((start.isoformat(), sum(days[start + timedelta(n)] for n in range(step.days))))
            start += step
        with self._days:
            chart = ui.echart(_day_options(bars), on_point_click=partial(self._day_clicked, step))
            unit = "day" if step.days == 1 else "week"
            chart.props(f'role=img aria-label="Flagged conversations by {unit}, {bars[0][0]} to {bars[-1][0]}"')

    async def _set(self, name: str, event: Any) -> None:
        value = event.value
        if name == "status":
            chosen = [one for one in value or () if one != "all"] if value and value[-1] != "all" else ["all"]
            value = ",".join(chosen)
        await self._set_value(name, value)

    async def _set_value(self, name: str, value: Any) -> None:
        self._page.remember(**{name: value or None, "id": None})
        await self._reread()

    async def _day_clicked(self, step: timedelta, event: Any) -> None:
        first = date.fromisoformat(str(event.name))
        self._page.remember(since=first.isoformat(), until=(first + step - timedelta(1)).isoformat(), id=None)
        self.show(self._found)
        await self._reread()

    def _named(self, event: Any) -> None:
        self.name = (event.value or "").strip()
        keep_name(self.name)

    def _save_view(self) -> None:
        with ui.dialog() as dialog, ui.card():
            heading("Save this view", 2)
            name = ui.input("Name").props("outlined dense maxlength=60 autofocus")

            def keep() -> None:
                state = {key: value for key, value in self._page.state.items() if key in (*FILTERS, "run")}
                try:
                    self._views.keep(
                        name.value or "",
                        self._page.link(**{key: None for key in self._page.state if key not in state}),
                    )
                except TurnwiseError as error:
                    notify(error, position="bottom")
                    return
                dialog.close()
                self.show(self._found)

            with ui.row():
                button("Save", keep)
                button("Cancel", dialog.close)
        dialog.open()


class SavedViews:
    """Named addresses of a store, in ``work.db-views.json`` beside it, else in the user's folder of data."""

    def __init__(self, location: str) -> None:
        self._location = location

    @property
    def path(self) -> Path:
        """Where they are kept; StoreError where no folder can be written."""
        place = Location(self._location)
        if not place.is_url and "://" not in self._location:
            path = place.path
            beside = path / _FILE if is_findings(self._location) else path.with_name(f"{path.name}-{_FILE}")
            if beside.exists() or os.access(beside.parent, os.W_OK):
                return beside
        try:
            return for_the_user(place, "data", _FILE)
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
        if len(views) > _MOST_VIEWS:
            raise UsageError(f"there are {_MOST_VIEWS} views already: remove some from {self.path}")
        written = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        written.write_text(json.dumps(views, ensure_ascii=False, indent=1), encoding="utf-8")
        written.replace(self.path)


def _day(written: str, *, after: bool = False) -> datetime | None:
    """The beginning of a day in UTC, or with `after` of the next one; None for what is no day."""
    try:
        day = date.fromisoformat(written)
    except ValueError:
        return None
    return datetime.combine(day + timedelta(1 if after else 0), time(), UTC)


def _day_options(bars: Sequence[tuple[str, int]]) -> dict[str, Any]:
    return {
        "animation": False,
        "grid": {"left": 4, "right": 4, "top": 4, "bottom": 18},
        "xAxis": {"type": "category", "data": [day for day, _ in bars], "axisTick": {"show": False}},
        "yAxis": {"type": "value", "show": False, "minInterval": 1},
        "tooltip": {"trigger": "axis"},
        "series": [
            {
                "type": "bar",
                "name": "flagged",
                "data": [count for _, count in bars],
                "itemStyle": {"color": "#2f5fd0"},
            }
        ],
    }
