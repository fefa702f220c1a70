"""Options that set something of an observer: any setting by its name, the usual ones by options of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise.store import Run

ObserverSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--observer-setting",
        help="Setting of the observer as name=value, such as temperature=0.5; may be given several times. "
        "turnwise observers lists settings and defaults.",
    ),
]
BaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting base_url: where to send requests, not to the provider's own address.")
]
Temperature: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting temperature: 0 to 2, or none for models that take none.")
]
MaxTokens: TypeAlias = Annotated[
    str | None, typer.Option(help="Setting max_tokens: tokens that a reply may have.", metavar="INTEGER")
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
Budget: TypeAlias = Annotated[
    float | None,
    typer.Option(help="Setting budget_usd: most US dollars to spend; the run stops before it would pass them."),
]
NoCache: TypeAlias = Annotated[
    bool, typer.Option("--no-cache", help="Setting cache=false: ask anew even where a reply is kept.")
]


class GivenSettings:
    """What was set on the command line.

    Args:
        texts: what ``--observer-setting`` was given, each ``name=value``.
        options: what the options of their own were given, by name of the setting; None for one that was left out.

    Raises:
        UsageError: a text that is not ``name=value``.
    """

    def __init__(self, texts: Iterable[str] | None, **options: object) -> None:
        named = {name: value for name, value in options.items() if value is not None}
        self._options = {name: f"--{_OPTIONS.get(name, name).replace('_', '-')}" for name in named}
        self._texts = {name: f"{name}={value}" for name, value in named.items()}
        for text in texts or ():
            name, equals, _ = text.partition("=")
            if not (name.strip() and equals):
                raise UsageError(f"--observer-setting {text!r} is not name=value, such as temperature=0.5")
            self._texts[name.strip()] = text
            self._options[name.strip()] = f"--observer-setting {name.strip()}"

    def check(self, specs: Sequence[str]) -> None:
        """Check that each setting is one of at least one of these observers.

        Raises:
            UsageError: one is not; the message lists those that there are.
            UnknownNameError: no observer has that name.
        """
        from turnwise.observers import observer_settings

        known = {spec: observer_settings(spec) for spec in specs}
        wrong = [
            option for name, option in self._options.items() if not any(name in one for one in known.values())
        ]
        if wrong:
            there_are = "; ".join(
                f"observer {spec} has {', '.join(sorted(settings)) or 'none'}" for spec, settings in known.items()
            )
            raise UsageError(f"{', '.join(wrong)}: no such setting: {there_are}")

    def of(self, spec: str, run: Run | None) -> dict[str, Any]:
        """Return the settings of one observer: as given, else as the run that is continued has them.

        Args:
            spec: specification of the observer; settings that it does not have are left out.
            run: the run; None for one that is new.

        Raises:
            UsageError: a value that can't be.
            UnknownNameError: no observer has that name.
        """
        from turnwise.observers import observer_settings, read_settings

        known = observer_settings(spec)
        before = run.parameters if run is not None and run.observer == spec else {}
        values = {name: before[name] for name in known if name in before}
        return values | read_settings(spec, (text for name, text in self._texts.items() if name in known))


_OPTIONS = {"budget_usd": "budget", "cache": "no-cache"}
"""Options that are called otherwise than their setting."""
