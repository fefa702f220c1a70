"""Where a service reads its configuration, now and at each reload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from turnwise.clock import utc_now
from turnwise.errors import StateError, UsageError
from turnwise.guard.config import Config, with_observer
from turnwise.guard.setup import Given, Setup
from turnwise.guard.state.settings import StateSettings
from turnwise.serve.keys import ApiKeys

DEFAULT_PRESET: Final = "basic"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where the configuration is read from; a process that is given one reads it by itself.

    It is a preset, ``basic`` by default, or a YAML `file`. `state` and `observer` stand in place of what it says.

    >>> ConfigSource(preset="basic", state="guard.db").read().state.sqlite
    'guard.db'
    """

    preset: str | None = None
    file: str | None = None
    state: str | None = None
    observer: str | None = None
    keys: str | None = None

    def read(self) -> Config:
        """The configuration as it is now."""
        if self.preset is not None and self.file is not None:
            raise UsageError("a preset and a file name a configuration each: give one of them")
        config = Config.preset(self.preset or DEFAULT_PRESET) if self.file is None else Config.read(self.file)
        if self.observer is not None:
            config = with_observer(config, self.observer)
        if self.state is not None:
            try:
                config = replace(config, state=(config.state or StateSettings()).at(self.state))
            except StateError as error:
                raise UsageError(str(error)) from None
        return config

    def read_keys(self) -> ApiKeys | None:
        """The API keys as they are now; None where there are none."""
        return ApiKeys.read(self.keys)

    def check(self) -> None:
        """Build the configurations once, and keep nothing of them; `GuardError` where one can't be built."""
        keys = self.read_keys()
        for tenant in () if keys is None else keys.tenants.values():
            own = tenant.read_config()
            if own is not None:
                own.build()
        setup = Setup.of(replace(self.read(), audit=None), utc_now, Given())
        for one in setup.opened:
            one.close()
