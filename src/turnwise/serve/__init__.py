"""The guard as an HTTP service: `create_app` makes it, ``turnwise serve`` runs it. Extra ``[serve]``."""

from turnwise.serve.app import create_app
from turnwise.serve.settings import ApiKeys, ConfigSource, ServeSettings, TenantSettings

__all__ = ["ApiKeys", "ConfigSource", "ServeSettings", "TenantSettings", "create_app"]
