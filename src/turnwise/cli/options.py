"""Options that several commands share, and the objects that they name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from turnwise.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from turnwise import conversation, principles
    from turnwise import store as stores

DEFAULT_STORE = "turnwise.db"

_MANY = 500_000
"""Scores of findings whose first reading takes long enough for a bar."""

MOST = sys.maxsize
"""The largest number of rows that a ``--limit`` may be: more can't be counted."""


Store: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="TURNWISE_STORE",
        help="File of the store, postgresql://... URL, or folder of findings.",
        show_envvar=True,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Run: TypeAlias = Annotated[str | None, typer.Option(help="Name of the run; the only one where there is one.")]
Sequences: TypeAlias = Annotated[
    list[str] | None, typer.Option("--sequence", help="Only this sequence; may be given several times.")
]
Label: TypeAlias = Annotated[
    str | None, typer.Option(help="Only sequences with this label: attack, benign or unlabelled.")
]
Source: TypeAlias = Annotated[str | None, typer.Option(help="Only sequences of this data set.")]
Format: TypeAlias = Annotated[
    str | None, typer.Option(help="Format of the file, if it is not detected; see turnwise datasets.")
]
Columns: TypeAlias = Annotated[
    str | None, typer.Option(help="Names of columns that differ from the usual, such as messages=chat,id=uid.")
]
DefaultLabel: TypeAlias = Annotated[
    str | None, typer.Option(help="Label for conversations without one: attack or benign.")
]
Detectors: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--detector",
        help="Detector, such as cusum or cusum:drift=0.05,limit=0.2, or a YAML file; may be given several times.",
    ),
]
Principles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--principle",
        help="Principle by name, or the folder of your own; may be given several times. All by default.",
    ),
]
Sides: TypeAlias = Annotated[
    str, typer.Option(help="Sides of a turn to score: prompt, response, or both with a comma.")
]
FailOnFindings: TypeAlias = Annotated[
    bool, typer.Option("--fail-on-findings", help="Exit with 3 where a detector fired.")
]
ObserverSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--observer-setting",
        help="Setting of the observer as name=value, such as temperature=0.5; may be given several times. "
        "turnwise observers lists settings and defaults.",
    ),
]
BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Setting base_url: where to send requests instead of the provider's own address."),
]
Temperature: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting temperature: 0 to 2, or none for models without one.")
]
MaxTokens: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting max_tokens: most tokens in a reply.", metavar="INTEGER")
]
Structured: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting structured: how to ask for JSON: json_schema, json_object or none.")
]
Repeats: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Setting repeats: how often each score is asked for; it is the mean.", metavar="INTEGER"),
]
MaxRetries: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Setting max_retries: how often a request is sent again after a passing fault.", metavar="INTEGER"
    ),
]
Timeout: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting timeout: seconds that a request may take in all.", metavar="FLOAT")
]
Rates: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="How often the detector is right: JSON with recall and false_positive_rate, each with count and of; "
        "or results.json of a study. [default: what ships for the observer's operating points]"
    ),
]
Budget: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Setting budget_usd: most US dollars to spend; the run stops before it exceeds them."),
]
NoCache: TypeAlias = Annotated[
    bool, typer.Option("--no-cache", help="Setting cache=false: ask again even if a reply is stored.")
]
LabelMap: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="What labels of the files mean, such as trick=attack,odd=benign, or a YAML or JSON file of such "
        "pairs; * is every other label. The usual words are known."
    ),
]

RoleMap: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="What roles of the files mean, such as agent=assistant,customer=user, or a YAML or JSON file of such "
        "pairs; * is every other role. The usual words are known."
    ),
]
CorrectedBy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Person whose corrected labels hold, see turnwise judgements; may be given several times."),
]
Encoding: TypeAlias = Annotated[
    str | None,
    typer.Option(help="How text files are encoded, such as cp1252 or utf-16. [default: utf-8]"),
]

_OPTION_OF_SETTING = {"budget_usd": "budget", "cache": "no-cache"}
"""Options that are called otherwise than their setting."""


def read_label(text: str | None) -> conversation.Label | None:
    """The label of that name, or None for None."""
    from turnwise.conversation import Label

    if text is None:
        return None
    if text not in tuple(Label):
        raise UnknownNameError("label", text, map(str, Label))
    return Label(text)


def read_side(text: str) -> conversation.Side:
    """The side of that name."""
    from turnwise.conversation import Side

    if text not in tuple(Side):
        raise UnknownNameError("side", text, map(str, Side))
    return Side(text)


def read_sides(text: str) -> tuple[conversation.Side, ...]:
    """The sides that a text such as ``prompt,response`` names."""
    return tuple(map(read_side, dict.fromkeys(name.strip() for name in text.split(","))))


def read_principles(names: Sequence[str] | None) -> tuple[principles.Principle, ...]:
    """The principles of these names or folders, or those that ship where none is named."""
    from turnwise.principles import builtin_principles, load_principle

    return tuple(map(load_principle, names)) if names else builtin_principles()


def read_source(store: stores.Store, source: str | None, sequences: Sequence[str] | None) -> list[str] | None:
    """The ids of the sequences that are meant, by source, by name or by both; None for all."""
    named = list(sequences) if sequences else None
    if source is None:
        return named
    found = [head.sequence_id for head in store.heads(ids=named) if head.source == source]
    if not found:
        known = {head.source for head in store.heads()}
        if source not in known:
            raise UnknownNameError("source", source, known)
        raise UsageError(f"none of the named sequences comes from source {source!r}")
    return found


@contextmanager
def opened_store(location: str, *, prepared: bool = True) -> Iterator[stores.Store]:
    """Open a store that is read, and say on standard error what is to be known of it.

    With `prepared` what questions need of the findings of a scan is made now, with a bar.
    """
    from turnwise.cli.output import note, progress
    from turnwise.store import Store

    with Store(location) as opened:
        if opened.note:
            note(opened.note)
        scores = opened.counts()["evaluations"] if prepared and opened.is_findings else 0
        if scores >= _MANY:
            read = 0
            with progress("reading the findings for the first time") as tell:

                def show(steps: int) -> None:
                    nonlocal read
                    read += steps
                    tell(read, scores)

                opened.prepare(show)
        yield opened


class CountedLabels(NamedTuple):
    """Whose labels a command counts.

    Nobody in `corrected_by` means the imported ones. `corrected` counts the conversations whose label is not that
    of their data set but what these people made of it, `disputed` those in no rate because these people disagree.
    """

    corrected_by: tuple[str, ...]
    corrected: int
    disputed: int

    def __str__(self) -> str:
        left = f"; {self.disputed} on which they disagree are in no rate" if self.disputed else ""
        return (
            f"the labels of {self.corrected} conversations are not those of their data sets but what "
            f"{', '.join(self.corrected_by)} made of them{left}"
        )

    def as_heading(self) -> str:
        """A comment of a YAML file; nothing where imported labels are counted."""
        return f"# {str(self)[0].upper()}{str(self)[1:]}.\n" if self.corrected_by else ""

    def tell(self, store: stores.Store, heads: Iterable[stores.SequenceHead] | None = None) -> None:
        """Say it on standard error; where imported labels are counted, how many of them people corrected."""
        from turnwise.cli.output import note

        if self.corrected_by:
            note(str(self))
            return
        said = store.people.labels()
        if not said:
            return
        known = store.heads(ids=said) if heads is None else heads  # only these can differ
        others = sum(said.get(head.sequence_id, head.label) is not head.label for head in known)
        if not others:
            return
        authors = sorted({one.author for one in store.people.corrections() if one.label})
        names = (
            f"--corrected-by {author!r}" if " " in author else f"--corrected-by {author}" for author in authors
        )
        note(
            f"people say of {others} of these conversations that their label is another one, which is not counted "
            f"here; {' '.join(names)} counts it"
        )


def check_turn(option: str, turn: int, sequence_id: str, turns: int) -> None:
    """Refuse the number of a turn that a sequence does not have."""
    if turn > turns:
        there = "1 turn" if turns == 1 else f"{turns} turns"
        raise UsageError(f"{option} {turn}: {sequence_id} has {there}")


def read_run(store: stores.Store, name: str | None) -> str:
    """The name of a run that the store has: the given one, or the only one."""
    return store.only_run() if name is None else store.run(name).name


class GivenSettings:
    """What was set on the command line: by ``--observer-setting name=value``, and by options of their own.

    An option that was left out is None.
    """

    def __init__(self, texts: Iterable[str] | None, **options: object) -> None:
        named = {name: value for name, value in options.items() if value is not None}
        self._options = {name: f"--{_OPTION_OF_SETTING.get(name, name).replace('_', '-')}" for name in named}
        self._texts = {name: f"{name}={value}" for name, value in named.items()}
        for text in texts or ():
            name, equals, _ = text.partition("=")
            if not (name.strip() and equals):
                raise UsageError(f"--observer-setting {text!r} is not name=value, such as temperature=0.5")
            self._texts[name.strip()] = text
            self._options[name.strip()] = f"--observer-setting {name.strip()}"

    def check(self, specs: Sequence[str]) -> None:
        """Check that each setting is one of at least one of these observers."""
        from turnwise.observers import observer_settings

        known = {spec: observer_settings(spec) for spec in specs}
        wrong = [
            option for name, option in self._options.items() if not any(name in one for one in known.values())
        ]
        if wrong:
            there_are = "; ".join(
                f"observer {spec} has {', '.join(sorted(settings)) or 'none'}" for spec, settings in known.items()
            )
            raise UsageError(f"unknown setting {', '.join(wrong)}: {there_are}")

    def of(self, spec: str, run: stores.Run | None) -> dict[str, Any]:
        """The settings of one observer: as given, else as the run that is continued has them.

        Settings that it does not have are left out.
        """
        from turnwise.observers import observer_settings, read_settings

        known = observer_settings(spec)
        before = run.parameters if run is not None and run.observer == spec else {}
        values = {name: before[name] for name in known if name in before}
        return values | read_settings(spec, (text for name, text in self._texts.items() if name in known))
