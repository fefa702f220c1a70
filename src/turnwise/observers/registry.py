"""Observers by name: ``local``, ``local-small``, ``llm:provider/model``, ``replay:scores.jsonl``, others."""

from __future__ import annotations

from dataclasses import fields
from typing import Protocol

from turnwise.errors import ObserverError, TurnwiseError
from turnwise.observers.protocol import Observer, ObserverInfo
from turnwise.plugins import Registry, check_made


class ObserverFactory(Protocol):
    """Builds an observer, and describes it without building it. An observer class is one."""

    def __call__(self, argument: str | None = None) -> Observer:
        """Build the observer from what follows the colon of its specification, or None."""

    def describe(self) -> ObserverInfo:
        """Return what is known of the observer before it is built."""


def _is_factory(part: object) -> bool:
    return callable(part) and callable(getattr(part, "describe", None))


OBSERVERS: Registry[ObserverFactory] = Registry("observer", "turnwise.observers", _is_factory)
OBSERVERS.add_lazy("llm", "turnwise.observers.llm:LlmObserver")
OBSERVERS.add_lazy("local", "turnwise.observers.local:LocalObserver")
OBSERVERS.add_lazy("local-small", "turnwise.observers.local:LocalSmallObserver")
OBSERVERS.add_lazy("replay", "turnwise.observers.replay:ReplayObserver")
OBSERVERS.add_lazy("scripted", "turnwise.observers.scripted:ScriptedObserver")


def build_observer(spec: str) -> Observer:
    """Build an observer from its specification, ``name`` or ``name:argument``.

    Args:
        spec: such as ``"local"``, ``"local:model/"`` or ``"replay:scores.jsonl"``.

    Raises:
        UnknownNameError: no observer has that name.
        ObserverError: the argument does not fit the observer.
    """
    name, colon, argument = spec.partition(":")
    factory = OBSERVERS.get(name)
    try:
        observer = factory(argument if colon else None)
    except TurnwiseError:
        raise
    except Exception as error:  # an observer may be foreign code
        raise ObserverError(f"observer {spec!r} can't be built: {type(error).__name__}: {error}") from error
    check_made("observer", name, observer, "info", "parameters", "start", "observe")
    return observer


def list_observers() -> tuple[ObserverInfo, ...]:
    """Return what is known of every observer, sorted by name."""
    rows = []
    for name in OBSERVERS.names():
        row = OBSERVERS.get(name).describe()
        check_made("observer", name, row, *(field.name for field in fields(ObserverInfo)))
        rows.append(row)
    return tuple(rows)
