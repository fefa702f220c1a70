"""What views are built of beside NiceGUI's own elements: safe texts, fields, tables, hints, questions."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from nicegui import ui

from turnwise._support.visible import visible, visible_lines
from turnwise.explorer import TERMS
from turnwise.explorer.data.words import found_words
from turnwise.rates import Rate

if TYPE_CHECKING:
    from nicegui.element import Element
    from nicegui.elements.mixins.text_element import TextElement
    from nicegui.events import KeyEventArguments

Item = TypeVar("Item")

Heard = Callable[[str], Any]
"""Hears the value of a field; may be async."""


def text(tag: str, words: str) -> TextElement:
    """An element of HTML that holds a text of ours, or one in which everything can be seen."""
    from nicegui.elements.mixins.text_element import TextElement

    return TextElement(tag=tag, text=words)


def said(words: str, tag: str = "span") -> TextElement:
    """A text of others as it is, but for characters that could hide or forge something."""
    return text(tag, visible_lines(words))


def section(label: str, *, live: bool = False) -> Element:
    """A part of a page, called by its label; screen readers tell what changes in one that is `live`."""
    made = ui.element("section")
    made.props["aria-label"] = label
    return made.props("aria-live=polite") if live else made


def emptied(place: Element) -> Element:
    """An element without what was in it, to be filled anew."""
    place.clear()
    return place


def heading(words: str, level: int) -> TextElement:
    """A heading, from 1 to 6."""
    return text(f"h{level}", visible(words)).classes("long-name")


def fact(name: str, value: object) -> None:
    """What something is, behind its name."""
    with ui.element("span").classes("long-name"):
        text("b", f"{visible(name)} ")
        text("span", visible(str(value)))


def tag(word: str) -> TextElement:
    """A word, such as a label or a verdict, as a small mark; known words have a sign before them."""
    shown = text("span", visible(word)).classes("tag")
    shown.props["data-word"] = word
    return shown


def term(word: str, words: str | None = None) -> TextElement:
    """A word of the glossary, which says what it means where one points at it or comes to it by key."""
    with text("span", words or word).classes("term").props("tabindex=0 role=note") as shown:
        shown.props["aria-label"] = f"{words or word}: {TERMS[word]}"
        ui.tooltip(TERMS[word])
    return shown


def failed(words: str) -> None:
    """What the page shows where something went wrong; the first line says it, further ones point at the place."""
    first, *rest = visible_lines(words).split("\n")
    with ui.element("div").classes("failure").props("role=alert"):
        text("p", first)
        if rest:
            text("pre", "\n".join(rest))


def choice(
    label: str, values: Iterable[str] | Mapping[str, str], chosen: str, heard: Heard, every: str = ""
) -> ui.select:
    """A field to choose one of some values, called as a mapping says; choosing nothing is called `every`."""
    called = dict(values) if isinstance(values, Mapping) else {value: value for value in values}
    options = ({"": every} if every else {}) | {value: visible(words) for value, words in called.items()}
    options.setdefault(chosen, visible(chosen))
    made = ui.select(options, label=label, value=chosen, on_change=lambda event: heard(event.value or ""))
    return made.props("dense outlined options-dense").classes("choice")


def text_field(
    label: str, value: str, heard: Heard, *, kind: Literal["text", "number", "search", "password"] = "text",
    placeholder: str = "", live: bool = False, search: bool = False, wide: bool = False,
) -> ui.input:  # fmt: skip
    """A field to type into, heard when it is left or, if `live`, while typing; the key / leads to `search`."""
    made = ui.input(label, value=value, placeholder=visible(placeholder) or None)
    made.props(
        f"dense outlined type={kind} autocomplete=off spellcheck=false{' step=any' if kind == 'number' else ''}"
    )
    if placeholder:
        made.props("stack-label")
    if search:
        made.props("data-search")
    if live:
        made.props("debounce=150").on_value_change(lambda event: heard(event.value or ""))
    else:
        made.on("change", lambda _: heard(made.value or ""))
    return made.classes("grow" if wide else "field-number" if kind == "number" else "")


def tabs(names: Mapping[str, str], chosen: str, heard: Heard) -> None:
    """Tabs from values to what each is called; heard when another is chosen."""

    def turned(event: Any) -> Any:
        return heard(event.value) if event.value != chosen else None

    made = ui.tabs(on_change=turned).props("dense no-caps inline-label align=left outside-arrows")
    with made:
        for name, words in names.items():
            ui.tab(name, words)
    made.set_value(chosen)


FLATTERS = (
    "Intervals are exact, and take the threshold as given: one that was chosen here looks better than it is."
)
"""What is said beside rates at a threshold that whoever looks may move."""


class NumberSlider:
    """A number by slider, also with Home and End, or typed into a field in its `row`."""

    def __init__(self, label: str, heard: Callable[[float], Any]) -> None:
        self._tell, self._setting = heard, False
        self._slider = ui.slider(min=0, max=1, step=0.001, on_change=lambda event: self._heard(event.value))
        self._slider.props["aria-label"] = f"{label}, slider"
        for key, end in (("home", "min"), ("end", "max")):
            self._slider.on(f"keydown.{key}.prevent", lambda end=end: self._heard(self._slider.props[end]))
        with ui.row().classes("form") as self.row:
            self._field = text_field(label, "", self._heard, kind="number", live=True)

    def show(self, value: float, ends: tuple[float, float] | None = None) -> None:
        """Show a number, and what the slider ends at."""
        if ends is not None:
            low, high = ends
            self._slider.props.update({"min": low, "max": high, "step": max((high - low) / 1000, 1e-9)})
        self._setting = True
        self._slider.set_value(value)
        if finite(self._field.value) != value:  # what is being typed stays as it is
            self._field.set_value(f"{value:.6g}")
        self._setting = False

    def _heard(self, given: object) -> Any:
        value = finite(given)
        if value is None or self._setting:
            return None
        self.show(value)
        return self._tell(value)


def finite(given: object) -> float | None:
    """A number that somebody gave; None where it is none, or not finite."""
    try:
        value = float(str(given))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def card(figure: str, *captions: str) -> None:
    """A figure with what it counts below it."""
    with ui.element("div").classes("card"):
        text("div", figure).classes("figure")
        for words in captions:
            text("div", words).classes("caption")


def data_table(
    columns: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], label: str, *,
    sort: tuple[str, bool] | None = None, heard: Callable[[str, str], Any] | None = None,
) -> ui.table:  # fmt: skip
    """Show a table; `heard` gets "pick" and a text, or "sort" and a column; `sort`: column, downward."""
    # Keys j and k go over cells of the kinds link (to the row's href), item and pick, below which the row's
    # under stands; what the others show, _CELLS says. A heading that ends with a word of the glossary explains it.
    table = ui.table(columns=_heads(columns, sort), rows=_cells(rows), row_key="_row")
    table.classes("data").props("flat dense wrap-cells role=region tabindex=0").props["aria-label"] = label
    for one in table.columns:
        if kind := one.get("kind"):
            table.add_slot(f"body-cell-{one['name']}", f'<q-td :props="props">{_CELLS[kind]}</q-td>')
        if one.get("sorts") or one["about"]:
            table.add_slot(f"header-cell-{one['name']}", _SORT if one.get("sorts") else _TERM)
    if heard is not None:
        table.on("sort", lambda event: heard("sort", str(event.args)))
        table.on("pick", lambda event: heard("pick", str(rows[int(event.args)]["pick"])))
    return table


def refill(table: ui.table, rows: Sequence[Mapping[str, Any]], sort: tuple[str, bool] | None = None) -> None:
    """Show other rows in a `data_table`, much faster than another table; where one is picked, in the same list."""
    table.columns = _heads(table.columns, sort)
    table.rows = _cells(rows)


def _heads(columns: Iterable[Mapping[str, Any]], sort: tuple[str, bool] | None) -> list[dict[str, Any]]:
    heads = []
    for one in columns:
        way = "none" if sort is None or sort[0] != one["name"] else "descending" if sort[1] else "ascending"
        about = TERMS.get(one["label"].rpartition(" ")[2], "")
        heads.append({"field": one["name"], "align": "left", **one, "way": way, "about": about})
    return heads


def _cells(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"_row": at}
        | {name: visible(cell) if isinstance(cell, str) and name != "href" else cell for name, cell in row.items()}
        for at, row in enumerate(rows)
    ]


def column(name: str, label: str | None = None, kind: str | None = None, *, right: bool = False) -> dict[str, Any]:
    """A column of `data_table`; `right` for numbers."""
    return {"name": name, "label": label or name, "kind": kind, "align": "right" if right else "left"}


def pager(total: int, page: int, size: int, heard: Heard) -> None:
    """Which rows of how many are shown, and buttons to other pages."""
    last = max(1, -(-total // size))
    first = (page - 1) * size + 1
    with ui.row().classes("pager").props('role=navigation aria-label="Pages"'):
        text(
            "span",
            f"{first:,} – {min(first + size - 1, total):,} of {total:,}" if first <= total else f"0 of {total:,}",
        )
        if last > 1:
            pages = ui.pagination(1, last, value=min(page, last), direction_links=True)
            pages.props("max-pages=5 boundary-numbers").on_value_change(lambda event: heard(str(event.value)))


class Paged(Generic[Item]):
    """A `data_table` that shows a page of its items, each made a row by `row`: many are slow to draw."""

    def __init__(self, table: ui.table, row: Callable[[Item], Mapping[str, Any]], size: int = 25) -> None:
        self._table, self._row, self._size = table, row, size
        self._items: Sequence[Item] = ()
        self._pages = ui.element("div")

    def show(self, items: Sequence[Item], *, last: bool = False) -> None:
        """Show the first page of some items, or the last."""
        self._items = items
        self._turn(str(-(-len(items) // self._size) if last and items else 1))

    def _turn(self, page: str) -> None:
        at, size = int(page), self._size
        refill(self._table, [self._row(one) for one in self._items[(at - 1) * size : at * size]])
        self._pages.clear()
        if len(self._items) > size:
            with self._pages:
                pager(len(self._items), at, size, self._turn)


_ABOUT = """<q-tooltip v-if="props.col.about">{{ props.col.about }}</q-tooltip>"""

_TERM = f"""<q-th :props="props"><span class="term" tabindex="0" role="note"
:aria-label="props.col.label + ': ' + props.col.about">{{{{ props.col.label }}}}{_ABOUT}</span></q-th>"""

_SORT = f"""<q-th :props="props" :aria-sort="props.col.way"><button type="button"
:class="['sort', {{term: props.col.about}}]" @click="() => $parent.$emit('sort', props.col.name)">{{{{
props.col.label }}}}{{{{ {{ascending: ' ▲', descending: ' ▼', none: ''}}[props.col.way] }}}}
{_ABOUT}</button></q-th>"""

_WIDTH, _HEIGHT, _EDGE = 120, 24, 2

_CELLS = {
    "link": """<a v-if="props.row.href" :href="props.row.href" class="long-name" data-item>{{ props.value }}</a>
<span v-else>{{ props.value }}</span>""",
    "pick": """<button type="button" class="sort long-name" data-item="follow" :aria-pressed="props.row.picked"
@click="() => $parent.$emit('pick', props.row._row)">{{ props.value }}</button>
<div v-if="props.row.under" class="quiet small">{{ props.row.under }}</div>""",
    "item": """<span data-item="row" tabindex="-1">{{ props.value }}</span>""",
    "lines": """<div v-for="line in props.value" class="line">{{ line }}</div>""",
    "tag": """<span :class="{tag: props.value !== '–'}" :data-word="props.value">{{ props.value }}</span>""",
    "excerpt": "{{ props.value.before }}<mark>{{ props.value.found }}</mark>{{ props.value.after }}",
    "graph": f"""<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img"
:class="['graph', {{flagged: props.value.flag}}]" :aria-label="props.value.said">
<path d="M0 {_HEIGHT - _EDGE}H{_WIDTH}" class="graph-ground" />
<path :d="props.value.path" class="graph-line" /><path v-if="props.value.flag" :d="props.value.flag"
class="graph-flag" /></svg>""",
}
"""What is in a cell, by kind; Vue shows texts as text."""


def drawing(series: Sequence[tuple[int, float]], turns: int, flag: int | None = None) -> dict[str, str]:
    """A small graph of (turn, value in [0, 1]), in order, broken at turns without one, with a mark at turn `flag`.

    >>> drawing([(1, 0.0), (2, 0.5), (4, 1.0)], 4, 4)["path"]
    'M2.0 22.0L40.7 12.0M118.0 2.0h1'
    >>> drawing([(1, 0.0), (2, 1.0)], 2, 2)
    {'path': 'M2.0 22.0L118.0 2.0', 'flag': 'M118.0 -1.0l3.2 6h-6.4z', 'said': 'highest F 1.00, flagged at turn 2'}
    >>> drawing([], 3)
    {'path': '', 'flag': '', 'said': 'no score'}
    """
    across = (_WIDTH - 2 * _EDGE) / max(turns - 1, 1)
    places = {turn: (_EDGE + (turn - 1) * across, _EDGE + (1.0 - value) * (_HEIGHT - 2 * _EDGE))
              for turn, value in series}  # fmt: skip
    path = "".join(
        f"L{x:.1f} {y:.1f}" if turn - 1 in places else f"M{x:.1f} {y:.1f}{'' if turn + 1 in places else 'h1'}"
        for turn, (x, y) in places.items()
    )
    highest = f"highest F {max(value for _, value in series):.2f}" if series else "no score"
    if flag is None:
        return {"path": path, "flag": "", "said": highest}
    x, y = places.get(flag, (-9.0, 0.0))
    return {
        "path": path,
        "flag": f"M{x:.1f} {y - 3:.1f}l3.2 6h-6.4z",
        "said": f"{highest}, flagged at turn {flag}",
    }


def number(value: float | None, digits: int = 2) -> str:
    """A number as a cell shows it; a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def rate_cells(rate: Rate) -> dict[str, str]:
    """The cells ``count``, ``of``, ``share`` and ``interval`` (95 %) of a rate.

    >>> rate_cells(Rate(1, 4))["share"], rate_cells(Rate(0, 0))["interval"]
    ('25.0 %', '–')
    """
    low, high = rate.interval
    share, interval = f"{100 * rate.count / max(rate.of, 1):.1f} %", f"{100 * low:.1f} – {100 * high:.1f} %"
    counted = {"count": f"{rate.count:,}", "of": f"{rate.of:,}"}
    return counted | ({"share": share, "interval": interval} if rate.of else {"share": "–", "interval": "–"})


RATE_COLUMNS = (
    *({"name": name, "label": name, "align": "right"} for name in ("of", "share")),
    {"name": "interval", "label": "95 % interval", "align": "right"},
)
"""The columns of `rate_cells` but for the count, whose heading says what is counted."""


def highlighted(words: str, wanted: Iterable[str]) -> None:
    """A text of others in which each of some words, in any case and with any accents, is marked."""
    shown = visible_lines(words)
    start = 0
    for begin, end in found_words(shown, wanted):
        said(shown[start:begin]) if begin > start else None
        said(shown[begin:end], "mark")
        start = end
    said(shown[start:])


def copy_button(label: str, copied: str) -> ui.button:
    """A button that copies a text, also where a page without TLS has no clipboard."""
    button = ui.button(label, icon="content_copy").props("no-caps outline")
    button.props["data-copy"] = copied
    return button


def button(words: str, act: Callable[[], Any], icon: str | None = None) -> ui.button:
    """A small button."""
    return ui.button(words, icon=icon, on_click=act).props("no-caps dense outline")


def notify(
    words: object,
    kind: Literal["info", "warning", "negative", "positive"] = "negative",
    position: Literal["top", "bottom"] = "top",
) -> None:
    """Tell something for a while, above everything else."""
    ui.notify(visible_lines(str(words)), type=kind, multi_line=True, position=position)


def on_keys(heard: Callable[[str], Awaitable[Any]]) -> None:
    """Hear the keys that are pressed alone, outside of fields."""

    async def pressed(event: KeyEventArguments) -> None:
        held = event.modifiers.ctrl or event.modifiers.meta or event.modifiers.alt
        if event.action.keydown and not held:
            await heard(str(event.key))

    ui.keyboard(pressed, ignore=["input", "select", "textarea"], repeating=False)


async def kept_name() -> str:
    """The name of whoever looks, as the browser keeps it; empty where it was never given."""
    return str(await ui.run_javascript("localStorage.getItem('turnwise-name') || ''", timeout=5.0) or "")[:100]


async def fill_name(field: ui.input) -> str:
    """Put the kept name into an empty field, unless somebody types theirs meanwhile; return what the field has."""
    kept = await kept_name()
    if not field.value:
        field.value = kept
    return str(field.value)


def keep_name(name: str) -> None:
    """Have the browser keep the name of whoever looks."""
    ui.run_javascript(f"localStorage.setItem('turnwise-name', {json.dumps(name)})")
