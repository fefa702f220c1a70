"""Data set loaders by name: those that ship with turnwise, and whatever installed packages add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TypeVar

from turnwise.datasets.protocol import DatasetInfo, Loader
from turnwise.errors import PluginError, TurnwiseError
from turnwise.plugins import Registry, check_made

LoaderFactory = Callable[[], Loader]
"""Builds a loader; a loader class is one."""

Factory = TypeVar("Factory", bound=LoaderFactory)

SHIPPED = {
    "attack600": "SafeMTAttack600",
    "cosafe": "CoSafe",
    "everyday": "EverydayConversations",
    "hhrlhf": "HHRLHF",
    "lmsys": "LmsysChat",
    "messages": "Messages",
    "mhj": "MultiTurnHumanJailbreaks",
    "mtbench": "MTBench",
    "mtbench101": "MTBench101",
    "mutual": "MuTual",
    "openassistant": "OpenAssistant",
    "promptresponse": "PromptResponse",
    "prompts": "Prompts",
    "safemt1k": "SafeMTData1K",
    "sharegpt": "ShareGPT",
    "tensortrust": "TensorTrust",
    "turnwise": "TurnwiseJsonl",
    "wildchat": "WildChat",
    "xguard": "XGuardTrain",
}
"""Shipped loaders: format name (also the module in `turnwise.datasets.loaders`) and class."""

DATASETS: Registry[LoaderFactory] = Registry("data set format", "turnwise.datasets", callable)
for _name, _class in SHIPPED.items():
    DATASETS.add_lazy(_name, f"turnwise.datasets.loaders.{_name}:{_class}")


def dataset_loader(name: str) -> Callable[[Factory], Factory]:
    """Return a decorator that registers a loader class under a format name.

    An installed package does the same without code, by an entry point in the group ``turnwise.datasets``.

    Args:
        name: what ``--format`` takes.

    Raises:
        PluginError: the name is taken.
    """

    def register(factory: Factory) -> Factory:
        DATASETS.add(name, factory)
        return factory

    return register


def get_loader(name: str) -> Loader:
    """Return a new loader of a format.

    Args:
        name: a name that `list_datasets` shows.

    Raises:
        UnknownNameError: no format has that name.
        PluginError: the plug-in that has it failed to import, or makes no loader.
    """
    factory = DATASETS.get(name)
    try:
        loader = factory()
    except TurnwiseError:
        raise
    except Exception as error:  # a loader may be foreign code
        raise PluginError(f"data set format {name!r} can't be built: {type(error).__name__}: {error}") from error
    check_made("data set format", name, loader, "info", "sniff", "load")
    check_made("data set format", name, loader.info, *(field.name for field in fields(DatasetInfo)))
    return loader


def list_datasets() -> tuple[DatasetInfo, ...]:
    """Return what is known of every format that can be read, sorted by name, the hub last.

    >>> "attack600" in [info.name for info in list_datasets()]
    True
    """
    from turnwise.datasets.hub import HUB

    return (*(get_loader(name).info for name in DATASETS.names()), HUB)
