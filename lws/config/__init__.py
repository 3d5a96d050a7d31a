"""The settings of the manager, from its configuration file and flags, validated.

In: a path, the given flags, the environment. Out: frozen Settings, or a ConfigError with a line per mistake.
"""

from lws.config.checks import ConfigError
from lws.config.loading import load
from lws.config.settings import CertificateSettings, LeaderElection, Settings, Tls, Webhook

__all__ = ["CertificateSettings", "ConfigError", "LeaderElection", "Settings", "Tls", "Webhook", "load"]
