"""Which cluster, and which namespace in it, is meant: by somebody at a terminal, or by a manager?

In: --kubeconfig, --context and the environment. Out: a client configuration, whose credentials are kept
current, and a namespace; or an error that says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config

from lws import timing
from lws.cluster.errors import ClusterError, Unreachable
from lws.cluster.transport.credentials import Lifetime, Renewal, UserConfiguration
from lws.cluster.transport.kubeconfig_loader import KubeconfigLoader

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


async def load_configuration(kubeconfig: str | None) -> Configuration:
    """For a manager: from the current context of a kubeconfig, or (None) the pod's own service account.

    Raises ClusterError with a sentence that says what to do.
    """
    if kubeconfig is not None:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ClusterError(f"kubeconfig {kubeconfig} is not a file: check --kubeconfig or KUBECONFIG")
        return (await _loaded(str(path), None)).configuration
    try:
        return await _in_pod()
    except ConfigException as error:
        raise ClusterError(
            f"no cluster to talk to: not running in a pod ({error}) and no --kubeconfig or KUBECONFIG is set"
        ) from error


async def load_context(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str]
) -> Context:
    """For somebody at a terminal, as kubectl finds it: --kubeconfig, else the files of $KUBECONFIG, else
    ~/.kube/config, else the service account of the pod that we run in.

    Raises NoCluster if none of them is there, ClusterError if what is there cannot be used.
    """
    paths = _paths(kubeconfig, environment)
    if paths:
        return await _from_files(paths, context)
    try:
        configuration = await _in_pod()
    except ConfigException as error:
        raise NoCluster(
            "no cluster to talk to: give --kubeconfig, set KUBECONFIG to a file that exists, or have "
            "~/.kube/config"
        ) from error
    return Context(configuration, _POD_NAMESPACE.read_text().strip() or _DEFAULT_NAMESPACE)


def context_names(kubeconfig: str | None, environment: Mapping[str, str]) -> list[str]:
    """The contexts that `load_context` knows, in their order in the files.

    Raises ClusterError for files that cannot be used.
    """
    names: dict[str, None] = {}
    for path in _paths(kubeconfig, environment):
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            names |= dict.fromkeys(str(each["name"]) for each in content.get("contexts") or ())
        except (OSError, ValueError, AttributeError, KeyError, TypeError, yaml.YAMLError) as error:
            raise _unusable(str(path), error) from error
    return list(names)


async def _in_pod() -> Configuration:
    configuration = Configuration()
    await Renewal(_load_in_pod).begin(configuration)
    return configuration


async def _load_in_pod(configuration: Configuration) -> Lifetime:
    load_incluster_config(client_configuration=configuration, try_refresh_token=False)
    return Lifetime(look=timing.TOKEN_FILE_SECONDS)


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
    try:
        # The client library lets the last file choose, kubectl the first that does.
        chosen = context or next(filter(None, map(_current_context, paths)), None)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _unusable(files, error) from error
    if chosen is None:
        raise ClusterError(f"kubeconfig {files} has no current-context: choose one with --context")
    return await _loaded(files, chosen)


async def _loaded(files: str, context: str | None) -> Context:
    configuration = UserConfiguration()
    try:
        loader = KubeconfigLoader(files, context)
        await loader.load_into(configuration)
        return Context(configuration, loader.settings.get("namespace") or _DEFAULT_NAMESPACE)
    except Exception as error:
        # A malformed file makes the client library stumble in any way.
        raise _unusable(files, error) from error


def _unusable(files: str, error: Exception) -> ClusterError:
    return ClusterError(f"kubeconfig {files} cannot be used: {' '.join(str(error).split())}")


def _current_context(path: Path) -> str | None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content.get("current-context") if isinstance(content, Mapping) else None
