"""Answers: what must the build know of this machine to reach its package index?

In: pip's settings, where the authorities of this machine are. Out: files for the builder's secrets, so that
no layer of the image has them, and build arguments for proxies.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# What says where packages come from; find-links, for one, names directories of this machine.
_SETTINGS = ("default-timeout", "extra-index-url", "index-url", "proxy", "retries", "timeout", "trusted-host")
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
# Where the builder shows a secret to commands of the build.
_SHOWN_AT = "/run/secrets"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def pip_settings(listed: str) -> dict[str, str]:
    """Read what `pip config list` says, as key='value'; later lines are stronger, as for pip."""
    settings = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name in _SETTINGS or name == "cert":
            settings[name] = value.strip("'").replace("\\n", "\n")
    return settings


def write_secrets(directory: Path, listed: str | None = None) -> dict[str, Path]:
    """Write the files into `directory`; return the name of each secret."""
    settings = pip_settings(_listed() if listed is None else listed)
    authorities = Path(settings.pop("cert", "") or os.environ.get("SSL_CERT_FILE") or _AUTHORITIES)
    secrets = {}
    if authorities.is_file() and authorities.stat().st_size:
        secrets["authorities"] = authorities
        settings["cert"] = f"{_SHOWN_AT}/authorities"
    document = configparser.RawConfigParser()
    document["global"] = settings
    secrets["pip.conf"] = directory / "pip.conf"
    with open(os.open(secrets["pip.conf"], os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        document.write(file)
    return secrets


def proxy_arguments(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build arguments that every builder knows and keeps out of the image."""
    return {name: environment[name] for name in PROXIES if environment.get(name)}


def _listed() -> str:
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    return done.stdout
