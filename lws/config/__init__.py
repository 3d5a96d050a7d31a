"""The settings of the manager: what its configuration file and its flags say, checked.

In: a path, flags that were given, the environment. Out: frozen Settings, or a ConfigError with a line per
mistake.
"""

from lws.config.checks import ConfigError
from lws.config.loading import load
from lws.config.settings import CertificateSettings, LeaderElection, Settings, Tls, Webhook

__all__ = ["CertificateSettings", "ConfigError", "LeaderElection", "Settings", "Tls", "Webhook", "load"]
