"""Your own guardrails that are no class with a `check`: coroutines and plain functions."""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from math import inf
from types import new_class
from typing import Any, TypeVar

from turnwise.deadline import current_deadline
from turnwise.guard.guardrail import GUARDRAILS, Check, Finding, Guardrail
from turnwise.guard.threads import in_time
from turnwise.plugins import hints_of

CheckFunction = Callable[[Check], Finding] | Callable[[Check], Awaitable[Finding]]
"""A guardrail as a plain function, sync or async."""


class AsyncGuardrail(Guardrail):
    """A guardrail that awaits. A user's own is a subclass with `acheck` and no `check`.

    Async pipelines await it on their event loop. Sync ones run it to its end in a thread, in an event loop that
    lasts as long as the check, so that it can't keep a connection that belongs to a loop.
    """

    @abstractmethod
    async def acheck(self, check: Check) -> Finding:
        """Return what is found in a text. An exception is a failed check, which ends as ``on_error`` says."""

    def check(self, check: Check) -> Finding:
        """Run `acheck` to its end in a thread; it is cancelled when the time of the check is up."""
        deadline = current_deadline() or check.deadline
        found = in_time(self.acheck(check), inf if deadline is None else deadline.left)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(copy_context().run, asyncio.run, found).result()


@cache
def guardrail_of(function: CheckFunction) -> type[Guardrail]:
    """The class of the guardrail that a function is: without settings, with the defaults of `Guardrail`."""
    kind, method = (AsyncGuardrail, "acheck") if inspect.iscoroutinefunction(function) else (Guardrail, "check")
    members = {
        method: lambda self, check: function(check),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
    }
    return new_class(function.__name__, (kind,), exec_body=lambda names: names.update(members))


def as_factory(part: Any) -> Any:
    """The factory of a guardrail; a function that is annotated to return `Finding` gets a class of its own."""
    checks = inspect.isfunction(part) and hints_of(part).get("return") is Finding
    return guardrail_of(part) if checks else part


Registered = TypeVar("Registered", bound=Callable[..., Guardrail] | CheckFunction)


def guardrail(name: str) -> Callable[[Registered], Registered]:
    """Return a decorator that registers a guardrail under a name: its class, or a function from check to finding.

    Args:
        name: what configurations call it.

    Raises:
        PluginError: the name is taken.
    """
    return GUARDRAILS.register(name)
