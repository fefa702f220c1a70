"""Options that several commands share, each defined once, and what is read from their texts.

An option is an annotated type; options that go together are the fields of a dataclass, which a command under
`grouped` takes as one parameter.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

from turnwise.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from turnwise import conversation, principles
    from turnwise import store as stores
    from turnwise.patterns import Library


DEFAULT_STORE = "turnwise.db"

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
Run: TypeAlias = Annotated[
    str | None, typer.Option(help="Name of the run; may be left out where there is only one.")
]
ObserverName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Observer that scores, such as local or llm:openai/gpt-4.1-mini; see turnwise list observers."
    ),
]
Context: TypeAlias = Annotated[
    str, typer.Option(help="What the observer may see: turn, window:k, history, transcript.")
]
Label: TypeAlias = Annotated[
    str | None, typer.Option(help="Only sequences with this label: attack, benign or unlabelled.")
]
Source: TypeAlias = Annotated[str | None, typer.Option(help="Only sequences of this data set.")]
Detectors: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--detector",
        help="Detector, such as cusum or cusum:drift=0.05,limit=0.2, or a YAML file; may be given several times.",
    ),
]
PatternsFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--patterns", envvar="TURNWISE_PATTERNS", show_envvar=True, help="YAML file of your own named patterns."
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
Where: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Only sequences for which this holds, such as 'turns >= 5 and metadata.tactic = \"x\"'. "
        "Fields: id, label, source, turns, chars, response_chars, cost, status, assignee, metadata.KEY."
    ),
]
FailOnFindings: TypeAlias = Annotated[
    bool, typer.Option("--fail-on-findings", help="Exit with 3 if a detector fired.")
]
CorrectedBy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Use labels as this person corrected them, see turnwise judgements; may be given several times."
    ),
]
Rates: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="How often the detector is right: JSON with recall and false_positive_rate, each with count and of; "
        "or results.json of a study. [default: what ships for the observer's operating points]"
    ),
]
DetectorFile: TypeAlias = Annotated[
    str | None, typer.Option(help="YAML file to write, for --detector of other commands.")
]
Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation; required without a terminal.")
]
Preset: TypeAlias = Annotated[
    str | None, typer.Option(help="Configuration that ships, by name; see turnwise list presets.")
]
ConfigFile: TypeAlias = Annotated[
    str | None, typer.Option("--config", help="YAML file of your own, in place of a preset.")
]
BlockedOrWarned: TypeAlias = Annotated[
    bool, typer.Option("--fail-on-findings", help="Exit with 3 if something was blocked or warned of.")
]
AuditLocation: TypeAlias = Annotated[str, typer.Argument(metavar="FILE_OR_STORE", show_default=False)]
Audits: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--audit",
        metavar="FILE_OR_STORE",
        help="An audit, with the files that rotation moved away; may be repeated.",
        show_default=False,
    ),
]
Listen: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Receive OpenTelemetry traces (OTLP over HTTP) at this address and port, such as 127.0.0.1:4318, "
        "until interrupted.",
        show_default=False,
    ),
]
Quiet: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0, help="With --listen: seconds without a new span after which a conversation has finished."
    ),
]

STATE = "The state store: a file or redis:// URL, as state: of a configuration names it."
State: TypeAlias = Annotated[str | None, typer.Option("--state", help=STATE, show_default=False)]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: each of their fields becomes an option of the command."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if not dataclasses.is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        groups[name] = parameter.annotation
        hints = get_type_hints(parameter.annotation, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in dataclasses.fields(parameter.annotation)
        ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


@dataclass(frozen=True)
class Selection:
    """Which sequences of a store are meant."""

    sequence: Annotated[list[str] | None, typer.Option(help="Only this sequence; may be given several times.")] = (
        None
    )
    label: Label = None
    source: Source = None

    def read_label(self) -> conversation.Label | None:
        """The label that is meant; None for all."""
        return read_label(self.label)

    def ids(self, store: stores.Store) -> list[str] | None:
        """The ids of the sequences that are meant, by source, by name or by both; None for all."""
        named = list(self.sequence) if self.sequence else None
        if self.source is None:
            return named
        found = [head.sequence_id for head in store.heads(ids=named) if head.source == self.source]
        if not found:
            known = {head.source for head in store.heads()}
            if self.source not in known:
                raise UnknownNameError("source", self.source, known)
            raise UsageError(f"no named sequence comes from source {self.source!r}: name others, or leave it out")
        return found


@dataclass(frozen=True)
class FileFormat:
    """How files of conversations are to be read."""

    format: Annotated[
        str | None,
        typer.Option(
            help="Format of the file, if it is not detected: see turnwise list datasets; or a YAML file of your "
            "own."
        ),
    ] = None
    columns: Annotated[
        str | None, typer.Option(help="Names of columns that differ from the usual, such as messages=chat,id=uid.")
    ] = None
    label: Annotated[str | None, typer.Option(help="Label for conversations without one: attack or benign.")] = (
        None
    )
    label_map: Annotated[
        str | None,
        typer.Option(
            help="What labels of the files mean, such as trick=attack,odd=benign, or a YAML or JSON file of such "
            "pairs; * is every other label. The usual words are known."
        ),
    ] = None
    role_map: Annotated[
        str | None,
        typer.Option(
            help="What roles of the files mean, such as agent=assistant,customer=user, or a YAML or JSON file of "
            "such pairs; * is every other role. The usual words are known."
        ),
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="How text files are encoded, such as cp1252 or utf-16. [default: utf-8]")
    ] = None

    def to_dict(self) -> dict[str, str | None]:
        """What `open_dataset` takes."""
        return dataclasses.asdict(self)


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


def read_library(path: str | None) -> Library:
    """The named patterns that ship, those of installed packages, and those of a user's file."""
    from turnwise.patterns import default_library, load_patterns

    return default_library() if path is None else load_patterns(path)


def given(option: str, context: typer.Context) -> bool:
    """Whether an option was given on the command line itself."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


_SETTING_OF = {"budget": "budget_usd", "no_cache": "cache"}
"""Settings that are called otherwise than their option."""

_NO_SETTINGS = {"observer_setting", "second_look", "ask_above", "ask_when"}
"""Fields of `ObserverOptions` that are no settings by themselves."""

ObserverSetting: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Setting of the observer as name=value, such as temperature=0.5; may be given several times. "
        "turnwise list observers has settings and defaults."
    ),
]
Budget: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Setting budget_usd: most US dollars to spend; the run stops before it exceeds them."),
]


@dataclass(frozen=True)
class ObserverOptions:
    """Settings of observers: any by ``--observer-setting``, and those that have an option of their own."""

    observer_setting: ObserverSetting = None
    second_look: Annotated[
        str | None,
        typer.Option(
            help="Judge that is asked about turns that the observer points at, such as llm:openai/gpt-4.1-mini.",
            metavar="OBSERVER",
        ),
    ] = None
    ask_above: Annotated[
        float | None,
        typer.Option(help="With --second-look: F of the observer from which the judge is asked.", min=0, max=1),
    ] = None
    ask_when: Annotated[
        str | None, typer.Option(help="With --second-look: pattern at whose turns the judge is asked.")
    ] = None

    def spec(self, observer: str) -> str:
        """The observer that is meant: as named, or with a second look of another one."""
        if self.second_look is None:
            if not observer.startswith("second_look:") and (self.ask_above, self.ask_when) != (None, None):
                raise UsageError("--ask-above and --ask-when need --second-look, which names the judge")
            return observer
        if self.ask_above is not None and self.ask_when is not None:
            raise UsageError("--ask-above and --ask-when say the same thing twice: give one of them")
        return f"second_look:{observer}+{self.second_look}"

    def check(self, specs: Sequence[str]) -> None:
        """Check that each setting is one of at least one of these observers."""
        from turnwise.observers import observer_settings

        known = {spec: observer_settings(spec) for spec in specs}
        wrong = [
            option for name, (option, _) in self._given().items() if not any(name in one for one in known.values())
        ]
        if wrong:
            there_are = "; ".join(
                f"observer {spec} has {', '.join(sorted(settings)) or 'none'}" for spec, settings in known.items()
            )
            raise UsageError(f"unknown setting {', '.join(wrong)}; known: {there_are}")

    def of(self, spec: str, run: stores.Run | None) -> dict[str, Any]:
        """The settings that one observer has: as given, else as the run that is continued has them."""
        from turnwise.observers import observer_settings, read_settings

        known = observer_settings(spec)
        before = dict(run.parameters) if run is not None and run.observer == spec else {}
        judge = before.get("judge")
        before |= judge["parameters"] if isinstance(judge, dict) else {}
        values = {name: before[name] for name in known if name in before}
        return values | read_settings(spec, (text for name, (_, text) in self._given().items() if name in known))

    def _given(self) -> dict[str, tuple[str, str]]:
        """By setting the option that gave it, and its text as name=value."""
        from turnwise.observers.second_look import ask_above

        given = {}
        if self.ask_above is not None:
            given["ask"] = "--ask-above", f"ask={ask_above(self.ask_above)}"
        if self.ask_when is not None:
            given["ask"] = "--ask-when", f"ask={self.ask_when}"
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _NO_SETTINGS or value is None or value is False:
                continue
            name = _SETTING_OF.get(field.name, field.name)
            option = f"--{field.name.replace('_', '-')}"
            given[name] = option, f"{name}={False if field.name == 'no_cache' else value}"
        for text in self.observer_setting or ():
            name, equals, _ = text.partition("=")
            if not (name.strip() and equals):
                raise UsageError(f"--observer-setting {text!r} is not name=value, such as temperature=0.5")
            given[name.strip()] = f"--observer-setting {name.strip()}", text
        return given


@dataclass(frozen=True)
class PromptSettings(ObserverOptions):
    """Settings that say what a language model is asked, and so what that costs."""

    base_url: Annotated[
        str | None,
        typer.Option(help="Setting base_url: where to send requests instead of the provider's own address."),
    ] = None
    temperature: Annotated[
        str | None, typer.Option(help="Setting temperature: 0 to 2, or none for models without one.")
    ] = None
    max_tokens: Annotated[
        str | None, typer.Option(help="Setting max_tokens: most tokens in a reply.", metavar="INTEGER")
    ] = None
    structured: Annotated[
        str | None, typer.Option(help="Setting structured: how to ask for JSON: json_schema, json_object or none.")
    ] = None
    repeats: Annotated[
        str | None,
        typer.Option(
            help="Setting repeats: how often each score is asked for; it is the mean.", metavar="INTEGER"
        ),
    ] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Setting cache=false: ask again even if a reply is stored.")
    ] = False


@dataclass(frozen=True)
class ModelSettings(PromptSettings):
    """Settings of a language model that is asked."""

    max_retries: Annotated[
        str | None,
        typer.Option(
            help="Setting max_retries: how often a request is sent again after a passing fault.", metavar="INTEGER"
        ),
    ] = None
    timeout: Annotated[
        str | None, typer.Option(help="Setting timeout: seconds that a request may take in all.", metavar="FLOAT")
    ] = None
    budget: Budget = None
