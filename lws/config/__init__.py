"""The settings of the manager, validated, from its configuration file, its flags and the environment.

`load` returns frozen Settings, or raises a ConfigError with one line per mistake.
"""

from lws.config.checks import ConfigError
from lws.config.loading import load
from lws.config.settings import Settings, TlsSettings

__all__ = ["ConfigError", "Settings", "TlsSettings", "load"]
