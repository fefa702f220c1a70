"""Options that set an observer: any setting by name, and those of language models with options of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from turnwise.errors import UsageError

if TYPE_CHECKING:
    from turnwise import store as stores

_SETTING_OF = {"budget": "budget_usd", "no_cache": "cache"}
"""Settings that are called otherwise than their option."""

_NO_SETTINGS = {"observer_setting", "second_look", "ask_above", "ask_when"}
"""Fields of `Settings` that are no settings by themselves."""

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
class Settings:
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
        """The settings of one observer: as given, else as the run that is continued has them.

        Settings that it does not have are left out.
        """
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
class PromptSettings(Settings):
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
        str | None,
        typer.Option(help="Setting structured: how to ask for JSON: json_schema, json_object or none."),
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
            help="Setting max_retries: how often a request is sent again after a passing fault.",
            metavar="INTEGER",
        ),
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option(help="Setting timeout: seconds that a request may take in all.", metavar="FLOAT"),
    ] = None
    budget: Budget = None
