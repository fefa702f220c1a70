"""The part of Label that tells how far people agree, and gives what they said as files."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from turnwise.explorer.controls import button
from turnwise.explorer.data.labelling import given_by
from turnwise.explorer.markup import element
from turnwise.explorer.pages import Page
from turnwise.runs.judgements import lines_of
from turnwise.study.people_agreement import Agreement, agreement


class Agreements:
    """Agreement of everybody who said something."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: tuple[Agreement, ...] = ()

    async def heard(self, name: str, value: str) -> str:
        """Give a file to the browser; nothing is to be shown again."""
        from nicegui import ui

        if name == "file":
            author, _, file = value.rpartition("/")
            made = await self._page.ask(self._files, author)
            ui.download.content(made.get(file, ""), file, "application/jsonl; charset=utf-8")
        return ""

    def _files(self, author: str) -> dict[str, str]:
        store = self._page.record.store
        corrections = store.people.corrections(author=author)
        turns = {
            head.sequence_id: head.turns for head in store.heads(ids={one.sequence_id for one in corrections})
        }
        return lines_of(store.people.scores(author=author), corrections, turns)

    def _read(self) -> tuple[dict[str, int], dict[str, dict[str, str]]]:
        store = self._page.record.store
        scores, corrections = store.people.scores(), store.people.corrections()
        turns = {
            head.sequence_id: head.turns for head in store.heads(ids={one.sequence_id for one in corrections})
        }
        self._found = agreement(scores, corrections, turns)
        return given_by(scores), {author: self._files(author) for author in store.people.authors()}

    async def content(self) -> Markup:
        """The table of agreement, and the files."""
        turns, files = await self._page.ask(self._read)
        if not files:
            return element("p", "Nobody has said anything yet: correct a label, or score turns.", class_="empty")
        return element("div", self._table(), self._people(turns, files))

    def _table(self) -> Markup:
        heads = ("on", "Krippendorff’s alpha", "95 % interval", "units", "people")
        rows = [
            element(
                "tr",
                element("th", _what(one), scope="row"),
                element("td", "–" if one.alpha is None else f"{one.alpha.value:.2f}", class_="number"),
                element("td", _interval(one)),
                element("td", one.units, class_="number"),
                element("td", ", ".join(one.authors) or "–"),
            )
            for one in self._found
        ]
        numbers = ("Krippendorff’s alpha", "units")
        return element(
            "section",
            element("h2", "How far people agree"),
            element("table", element("thead", element("tr", [
                element("th", head, scope="col", class_="number" if head in numbers else None) for head in heads
            ])), element("tbody", rows)),
            [element("p", f"* {said}", class_="quiet small narrow") for said in self._notes()],
            element("p", "1 is agreement, 0 what chance gives. Units are turns, and conversations for labels; the "
                    "interval is a bootstrap over conversations.", class_="quiet small narrow"),
        )  # fmt: skip

    def _notes(self) -> list[str]:
        """What keeps intervals from meaning what they say, each once."""
        notes = [one.alpha.note for one in self._found if one.alpha is not None]
        return list(dict.fromkeys(part for note in notes for part in note.split("; ") if part))

    def _people(self, turns: dict[str, int], files: dict[str, dict[str, str]]) -> Markup:
        rows = [
            element(
                "tr",
                element("th", author, scope="row", class_="name"),
                element("td", turns.get(author, 0), class_="number"),
                element(
                    "td",
                    element("div", [button(name, "file", f"{author}/{name}") for name in made], class_="chips"),
                ),
            )
            for author, made in files.items()
        ]
        store = self._page.record.where
        return element(
            "section",
            element("h2", "What each said, as files"),
            element("table", element("thead", element("tr", [
                element("th", "who", scope="col"), element("th", "turns scored", scope="col", class_="number"),
                element("th", "files that replay reads, and corrections", scope="col"),
            ])), element("tbody", rows)),
            element("p", "As runs for turnwise study compare --truth, and as corrected labels:", class_="quiet"),
            element("pre", f"turnwise judgements export --out people --as-runs --store {store}"),
            element("pre", f"turnwise study compare --corrected-by NAME --truth judged-by-NAME --store {store}"),
            element("pre", f"turnwise detect --corrected-by NAME --store {store}"),
        )  # fmt: skip

    def csv(self) -> tuple[str, list[list[Any]]]:
        """The table of agreement as rows."""
        heads: list[list[Any]] = [["on", "alpha", "low", "high", "units", "people", "reason"]]
        rows: list[list[Any]] = []
        for one in self._found:
            ends = [None] * 3 if one.alpha is None else [one.alpha.value, one.alpha.low, one.alpha.high]
            rows.append([_what(one), *ends, one.units, ", ".join(one.authors), one.reason])
        return "agreement", heads + rows


def _interval(one: Agreement) -> Markup:
    if one.alpha is None:
        return element("span", one.reason, class_="quiet")
    said = f"{one.alpha.low:.2f} – {one.alpha.high:.2f}".replace("-", "−")
    return element("span", f"{said} *" if one.alpha.note else said, title=one.alpha.note or None)


def _what(one: Agreement) -> str:
    names = {"label": "the label", "turned": "whether it has turned, by turn"}
    return f"{names.get(one.what, one.what)} {one.component}".strip()
