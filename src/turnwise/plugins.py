"""One registry for every kind of replaceable part.

A kind (observers, detectors, loaders) has a table of the parts that ship with turnwise and one entry-point
group, ``turnwise.<kind>``, through which an installed package adds its own. Nothing is imported before it is
asked for by name.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turnwise.errors import PluginError, UnknownNameError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Parts of one kind by name: those that were registered, and those of an entry-point group.

    `kind` is in the singular, for messages. `fits` says whether what an installed package has under a name can be
    such a part, and `adapt` makes the part of what a person wrote for it. With `modules` a name may as well be
    ``module:attribute``, such as of a file in the working directory.

    >>> numbers: Registry[int] = Registry("number", "turnwise.doctest")
    >>> numbers.add("one", 1)
    1
    >>> numbers.get("one")
    1
    """

    def __init__(
        self,
        kind: str,
        group: str,
        fits: Callable[[Any], bool] = lambda _: True,
        adapt: Callable[[Any], Any] = lambda part: part,
        *,
        modules: bool = False,
    ) -> None:
        self._kind = kind
        self._group = group
        self._fits = fits
        self._adapt = adapt
        self._modules = modules
        self._parts: dict[str, Part] = {}
        self._targets: dict[str, str] = {}

    def add(self, name: str, part: Part) -> Part:
        """Register a part under a name; a different part under a taken name is an error."""
        part = self._adapt(part)
        if name in self._targets or self._parts.get(name, part) is not part:
            raise PluginError(f"{self._kind} {name!r} is registered twice; rename one, or remove its package")
        self._parts[name] = part
        return part

    def add_lazy(self, name: str, target: str) -> None:
        """Register ``"module:attribute"``, imported when the name is first asked for."""
        if name in self._parts or self._targets.get(name, target) != target:
            raise PluginError(f"{self._kind} {name!r} is registered twice; rename one, or remove its package")
        self._targets[name] = target

    def register(self, name: str) -> Callable[[Any], Any]:
        """A decorator that registers what it decorates under the name, and leaves it as it is."""

        def keep(part: Any) -> Any:
            self.add(name, part)
            return part

        return keep

    def names(self) -> tuple[str, ...]:
        """Every known name, sorted, without importing any plug-in."""
        return tuple(sorted({*self._parts, *self._targets, *self._entry_points()}))

    def get(self, name: str) -> Part:
        """The part of that name, importing its plug-in where it has one."""
        if name in self._parts:
            return self._parts[name]
        if name in self._targets:
            module, _, attribute = self._targets[name].partition(":")
            shipped: Part = getattr(import_module(module), attribute)
            return self._parts.setdefault(name, shipped)
        points = self._entry_points()
        if self._modules and ":" in name and name not in points:
            from importlib.metadata import EntryPoint

            points[name] = EntryPoint(name, name, self._group)
            if "" not in sys.path:  # the folder that the program runs in
                sys.path.append("")
        if name not in points:
            raise UnknownNameError(self._kind, name, self.names())
        try:
            part: Part = self._adapt(points[name].load())
        except Exception as error:
            raise PluginError(f"{self._kind} {name!r} ({points[name].value}) failed to load: {error}") from error
        if not self._fits(part):
            raise PluginError(f"{self._kind} {name!r} ({points[name].value}) must be one, not {_shown(part)}")
        return self._parts.setdefault(name, part)

    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib import metadata

        return {point.name: point for point in metadata.entry_points(group=self._group)}


def is_factory(part: object) -> bool:
    """Whether something can be called and says with what, as a class or a function does.

    >>> is_factory(dict), is_factory(Registry), is_factory("Registry")
    (False, True, False)
    """
    try:
        inspect.signature(part)  # type: ignore[arg-type]  # what can't be called is what is asked about
    except (TypeError, ValueError):
        return False
    return True


def parameters_of(factory: Callable[..., object]) -> dict[str, Any]:
    """The default by parameter, in the order in which a factory takes them; ``"required"`` for none.

    >>> parameters_of(lambda drift, limit=0.5: None)
    {'drift': 'required', 'limit': 0.5}
    """
    return {
        name: "required" if parameter.default is parameter.empty else parameter.default
        for name, parameter in inspect.signature(factory).parameters.items()
    }


def hints_of(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of what a factory takes; a class may have them on itself or on its constructor."""
    try:
        if inspect.isclass(factory):
            return {**typing.get_type_hints(factory), **typing.get_type_hints(factory.__init__)}
        return typing.get_type_hints(factory)
    except NameError:
        return {}


def factory_of(given: Any, method: str) -> Callable[..., Any]:
    """A factory for a kit: a class or function as it is; an instance, which has `method`, through a function."""
    if hasattr(given, method) and not isinstance(given, type):
        return lambda: given
    if not callable(given):
        raise AssertionError(f"{given!r} has no {method}, and makes nothing that has")
    factory: Callable[..., Any] = given
    return factory


def check_made(kind: str, name: str, made: object, *attributes: str) -> None:
    """Raise `PluginError` where what a factory made lacks one of the attributes that such a part has."""
    lacking = [attribute for attribute in attributes if not hasattr(made, attribute)]
    if lacking:
        raise PluginError(f"{kind} {name!r} made {_shown(made)}, which needs {', '.join(lacking)}")


def _shown(thing: object) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    return f"an object of type {type(thing).__name__}"
