"""The parts of Label that settle disagreements, tell how far people agree, and give what they said as files."""

from __future__ import annotations

from functools import partial
from typing import Any

from nicegui import ui

from turnwise._support.visible import visible
from turnwise.conversation import Label
from turnwise.explorer.data.labelling import given_by
from turnwise.explorer.pages import Page
from turnwise.explorer.parts import column, data_table, fact, heading, said, text
from turnwise.explorer.views.label_parts import Again, LabelPart, show_turn
from turnwise.runs.judgements import lines_of
from turnwise.study.annotation import SETTLED, Agreement, LabelQueue, agreement


class Settling(LabelPart):
    """Conversations on which two blind readers differ, for a third to settle."""

    async def show(self) -> None:
        """The first of them with both answers, and how many there are."""
        page = self.page
        store = page.record.store
        queue = await page.ask(LabelQueue, store, page.run_name())
        open_ones = await page.ask(queue.disagreements)
        if not open_ones:
            text("p", "No two blind labels differ. Every fifth conversation of the queue is given to two people.")
            return
        first = open_ones[0]
        text("p", f"{len(open_ones)} to settle. What is settled, and what two agree on, has the author {SETTLED}: "
             f"turnwise study compare --corrected-by {SETTLED}").classes("quiet")  # fmt: skip
        with ui.element("p").classes("facts"):
            for one in first.answers:
                fact(one.author, "can't tell" if one.label is Label.UNLABELLED else str(one.label))
        note = ui.input("Why (may stay empty)").props("dense outlined maxlength=10000").classes("grow")
        with ui.row().classes("inbox-actions"):
            for label, words in {
                Label.ATTACK: "Attack",
                Label.BENIGN: "Benign",
                Label.UNLABELLED: "Can't tell",
            }.items():
                settle = partial(self._settle, queue, first.sequence_id, label, note)
                ui.button(words, on_click=settle).props("no-caps outline")
        sequence = await page.ask(store.sequence, first.sequence_id)
        with ui.element("ol").classes("turns"):
            for turn in sequence.conversation:
                show_turn(turn)

    async def _settle(self, queue: LabelQueue, name: str, label: Label, note: Any) -> None:
        if not self.author:
            ui.notify("Enter your name first.", type="warning", position="top")
        elif await self.keep(queue.settle, name, label, self.author, note.value or "") is not None:
            await self.again()

    def csv(self) -> tuple[str, list[list[Any]]]:
        """What was settled as rows."""
        found = self.page.record.store.people.corrections(author=SETTLED)
        return "settled", [
            ["sequence_id", "label", "note"],
            *([one.sequence_id, one.label, one.note] for one in found),
        ]


class Agreements(LabelPart):
    """Agreement of everybody who said something."""

    def __init__(self, page: Page, again: Again) -> None:
        super().__init__(page, again)
        self._found: tuple[Agreement, ...] = ()

    async def show(self) -> None:
        """The table of agreement, and the files."""
        turns, files = await self.page.ask(self._read)
        if not files:
            text("p", "There are no judgements yet: label in the queue, or score turns.").classes("empty")
            return
        self._show_table()
        self._show_people(turns, files)

    def _read(self) -> tuple[dict[str, int], dict[str, dict[str, str]]]:
        store = self.page.record.store
        scores, corrections = store.people.scores(), store.people.corrections()
        ids = {one.sequence_id for one in corrections}
        turns = {head.sequence_id: head.turns for head in store.heads(ids=ids)}
        self._found = agreement(scores, corrections, turns)
        return given_by(scores), {author: self._files(author) for author in store.people.authors()}

    def _files(self, author: str) -> dict[str, str]:
        store = self.page.record.store
        corrections = store.people.corrections(author=author)
        ids = {one.sequence_id for one in corrections}
        turns = {head.sequence_id: head.turns for head in store.heads(ids=ids)}
        return lines_of(store.people.scores(author=author), corrections, turns)

    def _show_table(self) -> None:
        heading("How far people agree", 2)
        columns = [
            column("on"), column("alpha", "Krippendorff’s alpha", right=True), column("interval", "95 % interval"),
            column("units", right=True), column("people"),
        ]  # fmt: skip
        rows = [
            {
                "on": _what(one),
                "alpha": "–" if one.alpha is None else f"{one.alpha.value:.2f}",
                "interval": _interval(one),
                "units": one.units,
                "people": ", ".join(one.authors) or "–",
            }
            for one in self._found
        ]
        data_table(columns, rows, "How far people agree")
        notes = [one.alpha.note for one in self._found if one.alpha is not None]
        for note in dict.fromkeys(part for one in notes for part in one.split("; ") if part):
            text("p", f"* {note}").classes("quiet small narrow")
        text(
            "p",
            "1 is agreement, 0 what chance gives. Units are turns, and conversations for labels; the interval is "
            "a bootstrap over conversations.",
        ).classes("quiet small narrow")

    def _show_people(self, turns: dict[str, int], files: dict[str, dict[str, str]]) -> None:
        heading("Judgements as files", 2)
        for author, made in files.items():
            with ui.row().classes("inbox-actions"):
                said(f"{author}, {turns.get(author, 0)} turns scored")
                for name in made:
                    button = ui.button(name, icon="download", on_click=partial(self._save, author, name))
                    button.props("no-caps outline dense").props["aria-label"] = f"{name} of {visible(author)}"
        where = visible(self.page.record.where)
        text("p", "As runs for turnwise study compare --truth, and as corrected labels:").classes("quiet")
        said(
            f"turnwise judgements export --out people --as-runs --store {where}\n"
            f"turnwise study compare --corrected-by NAME --truth judged-by-NAME --store {where}\n"
            f"turnwise detect --corrected-by NAME --store {where}",
            "pre",
        )

    async def _save(self, author: str, file: str) -> None:
        made = await self.page.ask(self._files, author)
        ui.download.content(made.get(file, ""), file, "application/jsonl; charset=utf-8")

    def csv(self) -> tuple[str, list[list[Any]]]:
        """The table of agreement as rows."""
        rows: list[list[Any]] = [["on", "alpha", "low", "high", "units", "people", "reason"]]
        for one in self._found:
            ends = [None] * 3 if one.alpha is None else [one.alpha.value, one.alpha.low, one.alpha.high]
            rows.append([_what(one), *ends, one.units, ", ".join(one.authors), one.reason])
        return "agreement", rows


def _interval(one: Agreement) -> str:
    if one.alpha is None:
        return one.reason
    shown = f"{one.alpha.low:.2f} – {one.alpha.high:.2f}".replace("-", "−")
    return f"{shown} *" if one.alpha.note else shown


def _what(one: Agreement) -> str:
    names = {"label": "the label", "turned": "whether it has turned, by turn"}
    return f"{names.get(one.what, one.what)} {one.component}".strip()
