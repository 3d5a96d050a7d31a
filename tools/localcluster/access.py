"""Use any cluster through its admin kubeconfig, kubectl and helm."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.localcluster.pods import PodView
from tools.localcluster.ports import LOOPBACK

_NAME = "local"
_TOKEN_LIFETIME = "24h"


@dataclass(frozen=True)
class Access:
    """How to reach an API server as one user; `ca` is a PEM bundle."""

    server: str
    ca: bytes
    token: str
    namespace: str = "default"


def kubeconfig_text(access: Access) -> str:
    """Return a kubeconfig with all data inline, so that a copy of the file still works."""
    authority = base64.b64encode(access.ca).decode()
    cluster = {"server": access.server, "certificate-authority-data": authority}
    context = {"cluster": _NAME, "user": _NAME, "namespace": access.namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": access.token}}],
        "contexts": [{"name": _NAME, "context": context}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def read_access(text: str) -> Access:
    """Read what `kubeconfig_text` has written; raises ValueError for any other text."""
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


class CommandError(RuntimeError):
    """A command failed; the message names the command and what it printed on stderr."""


class ClusterAccess(ABC):
    """A cluster as seen through its admin kubeconfig."""

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""

    @property
    @abstractmethod
    def workspace(self) -> Path:
        """A directory for files that belong to the cluster."""

    @abstractmethod
    def binary(self, name: str) -> Path:
        """Return the path of a program, such as kubectl or helm."""

    @property
    def host_address(self) -> str:
        """The address of this machine at which the API server calls webhooks."""
        return LOOPBACK

    @property
    def pods(self) -> PodView:
        """The pods, read as the admin."""
        return PodView(lambda path: dict(json.loads(self.kubectl("get", "--raw", path))))

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl as the admin, with `input` on its stdin, and return its output. Raises CommandError."""
        return self._run("kubectl", arguments, input)

    def helm(self, *arguments: str) -> str:
        """Run helm as the admin, and return its output. Raises CommandError."""
        return self._run("helm", arguments, None)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a fresh token of an existing ServiceAccount, and return its path."""
        lifetime = f"--duration={_TOKEN_LIFETIME}"
        token = self.kubectl("create", "token", name, "-n", namespace, lifetime).strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        cluster = config["clusters"][0]["cluster"]
        ca = base64.b64decode(cluster["certificate-authority-data"])
        path = self.workspace / f"service-account-{namespace}-{name}.yaml"
        path.touch(mode=0o600)
        path.write_text(kubeconfig_text(Access(cluster["server"], ca, token, namespace)))
        return path

    def _run(self, program: str, arguments: tuple[str, ...], text: str | None) -> str:
        done = subprocess.run(
            [self.binary(program), *arguments],
            input=text,
            env={**os.environ, **environment(self.kubeconfig, self.workspace)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"{program} {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


def environment(kubeconfig: Path, workspace: Path) -> dict[str, str]:
    """Return the variables that bind kubectl and helm, with their caches and settings, to a cluster.

    HOME stays unchanged, because credential plugins of a foreign cluster need it.
    """
    return {
        "KUBECONFIG": str(kubeconfig),
        "KUBECACHEDIR": str(workspace / "kubectl"),
        # The user's own defaults for kubectl would change what tests see.
        "KUBECTL_KUBERC": "false",
        **{f"HELM_{kind}_HOME": str(workspace / "helm" / kind) for kind in ("CACHE", "CONFIG", "DATA")},
    }
