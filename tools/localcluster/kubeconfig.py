"""Answers: what a kubeconfig file for one user of one cluster says.

In: server, CA and a bearer token. Out: the file's text, and back.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import yaml

_NAME = "local"


@dataclass(frozen=True)
class Access:
    """How to reach an API server as one user; `ca` is a PEM bundle."""

    server: str
    ca: bytes
    token: str
    namespace: str = "default"


def kubeconfig_text(access: Access) -> str:
    """Return a kubeconfig with everything inside, so that the file can be copied and still works."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [
            {
                "name": _NAME,
                "cluster": {
                    "server": access.server,
                    "certificate-authority-data": base64.b64encode(access.ca).decode(),
                },
            }
        ],
        "users": [{"name": _NAME, "user": {"token": access.token}}],
        "contexts": [
            {"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": access.namespace}}
        ],
    }
    return yaml.safe_dump(config, sort_keys=False)


def read_access(text: str) -> Access:
    """Return what `kubeconfig_text` was given; ValueError when the text was not made by it."""
    try:
        config = yaml.safe_load(text)
        cluster = config["clusters"][0]["cluster"]
        return Access(
            server=cluster["server"],
            ca=base64.b64decode(cluster["certificate-authority-data"]),
            token=config["users"][0]["user"]["token"],
            namespace=config["contexts"][0]["context"].get("namespace", "default"),
        )
    except (KeyError, IndexError, TypeError, yaml.YAMLError) as error:
        raise ValueError(f"not a kubeconfig with inline CA and token: {error!r}") from error
