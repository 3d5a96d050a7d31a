"""Which cluster, and which namespace in it, does somebody at a terminal mean? As kubectl finds them.

In: --kubeconfig, --context and the environment. Out: a client configuration and a namespace, or an error that
says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from lws.cluster.errors import ClusterError, Unreachable

_DEFAULT_NAMESPACE = "default"
_HOME_FILE = Path("~/.kube/config")
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class NoCluster(Unreachable):
    """Nothing says which cluster is meant."""


@dataclass(frozen=True, slots=True)
class Context:
    """namespace: what `--namespace` is when it is not given."""

    configuration: Configuration
    namespace: str


async def load_context(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str]
) -> Context:
    """The context that is meant: --kubeconfig, else the files of $KUBECONFIG, else ~/.kube/config, else the
    service account of the pod that we run in.

    Raises NoCluster if none of them is there, ClusterError if what is there cannot be used.
    """
    paths = _paths(kubeconfig, environment)
    if paths:
        return await _from_files(paths, context)
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except ConfigException as error:
        raise NoCluster(
            "no cluster to talk to: give --kubeconfig, set KUBECONFIG to a file that exists, or have "
            "~/.kube/config"
        ) from error
    return Context(configuration, _POD_NAMESPACE.read_text().strip() or _DEFAULT_NAMESPACE)


def _paths(kubeconfig: str | None, environment: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ClusterError(f"kubeconfig {kubeconfig} is not a file: check --kubeconfig")
        return [path]
    listed = environment.get("KUBECONFIG", "")
    # Files of the list that do not exist are passed over, as kubectl does.
    named = [Path(each) for each in listed.split(os.pathsep) if each] if listed else [_HOME_FILE]
    return [path.expanduser() for path in named if path.expanduser().is_file()]


async def _from_files(paths: list[Path], context: str | None) -> Context:
    files = os.pathsep.join(map(str, paths))
    configuration = Configuration()
    try:
        # The client library lets the last file choose, kubectl the first that does.
        chosen = context or next(filter(None, map(_current_context, paths)), None)
        if chosen is None:
            raise ClusterError(f"kubeconfig {files} has no current-context: choose one with --context")
        loader = await load_kube_config(
            config_file=files, context=chosen, client_configuration=configuration, persist_config=False
        )
        settings: Mapping[str, Any] = loader.current_context["context"]
    except ClusterError:
        raise
    except Exception as error:
        # A malformed file makes the client library stumble in any way.
        raise ClusterError(f"kubeconfig {files} cannot be used: {' '.join(str(error).split())}") from error
    return Context(configuration, settings.get("namespace") or _DEFAULT_NAMESPACE)


def _current_context(path: Path) -> str | None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content.get("current-context") if isinstance(content, Mapping) else None
