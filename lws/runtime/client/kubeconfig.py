"""Resolve cluster, credentials and namespace for a command or the manager.

They come from --kubeconfig, --context and the environment. Credentials are kept current, and errors say what
to do.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config
from kubernetes.aio.config.dateutil import parse_rfc3339
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import ConfigNode, FileOrData, KubeConfigLoader, KubeConfigMerger
from yarl import URL

from lws import timing
from lws.runtime.client.transport import Lifetime, Renewal, UserConfiguration
from lws.runtime.errors import ClusterError

_DEFAULT_NAMESPACE = "default"
_HOME_FILE = Path("~/.kube/config")
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class NoCluster(ClusterError):
    """No cluster is configured."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a command connects to. namespace: the default of `--namespace`."""

    configuration: Configuration
    namespace: str


async def load_configuration(kubeconfig: str | None) -> Configuration:
    """Return a manager's configuration: a kubeconfig's current context; for None, the pod's service account.

    Raises ClusterError with a message that says what to do.
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
            f"no cluster configured: not running in a pod ({error}) and no --kubeconfig or KUBECONFIG is set"
        ) from error


async def load_context(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str]
) -> Context:
    """Return the context of a command, as kubectl does.

    It comes from --kubeconfig, else the files of $KUBECONFIG, else ~/.kube/config, else the service account
    of the pod. Raises NoCluster if none of them exists, ClusterError if the one that exists cannot be used.
    """
    paths = _paths(kubeconfig, environment)
    if paths:
        return await _from_files(paths, context)
    try:
        configuration = await _in_pod()
    except ConfigException as error:
        raise NoCluster(
            "no cluster configured: give --kubeconfig, set KUBECONFIG to an existing file, or create "
            "~/.kube/config"
        ) from error
    return Context(configuration, _POD_NAMESPACE.read_text().strip() or _DEFAULT_NAMESPACE)


def context_names(kubeconfig: str | None, environment: Mapping[str, str]) -> list[str]:
    """Return the contexts that `load_context` knows, in order. Raises ClusterError for unusable files."""
    names: dict[str, None] = {}
    for path in _paths(kubeconfig, environment):
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
            names |= dict.fromkeys(str(context["name"]) for context in content.get("contexts") or ())
        except (OSError, ValueError, AttributeError, KeyError, TypeError, yaml.YAMLError) as error:
            raise _unusable(str(path), error) from error
    return list(names)


async def _in_pod() -> Configuration:
    async def load(configuration: Configuration) -> Lifetime:
        load_incluster_config(client_configuration=configuration, try_refresh_token=False)
        return Lifetime(reload_in=timing.TOKEN_FILE_SECONDS)

    configuration = Configuration()
    await Renewal(load).begin(configuration)
    return configuration


def _paths(kubeconfig: str | None, environment: Mapping[str, str]) -> list[Path]:
    if kubeconfig is not None:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ClusterError(f"kubeconfig {kubeconfig} is not a file: check --kubeconfig")
        return [path]
    variable = environment.get("KUBECONFIG", "")
    paths = [Path(name) for name in variable.split(os.pathsep) if name] if variable else [_HOME_FILE]
    # Missing files are skipped, as in kubectl.
    return [path.expanduser() for path in paths if path.expanduser().is_file()]


async def _from_files(paths: list[Path], context: str | None) -> Context:
    files = os.pathsep.join(map(str, paths))
    try:
        # The kubernetes client uses the last file with a current context, kubectl the first.
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
        # The kubernetes client raises any exception for a malformed file.
        raise _unusable(files, error) from error


def _unusable(files: str, error: Exception) -> ClusterError:
    return ClusterError(f"kubeconfig {files} cannot be used: {' '.join(str(error).split())}")


def _current_context(path: Path) -> str | None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content.get("current-context") if isinstance(content, Mapping) else None


log = logging.getLogger(__name__)

_PASSED_TO_PLUGINS = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)
_TLS_FIELDS = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
_EXTENSION_FOR_PLUGINS = "client.authentication.k8s.io/exec"
# Bytes of a header name that are sent unchanged, as by client-go. Other bytes are sent as % and two digits.
_PLAIN_IN_HEADERS = frozenset(b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class _Merger(KubeConfigMerger):
    """Merges kubeconfig files, and reads UTF-8 regardless of the locale, as kubectl does."""

    def load_config(self, path: str) -> None:
        config = yaml.safe_load(Path(path).read_bytes())
        if self.config_merged is None:
            merged = {**config, "clusters": [], "contexts": [], "users": []}
            self.config_merged = ConfigNode(path, merged, path)
        for part in ("clusters", "contexts", "users"):
            self._merge(part, config.get(part) or [], path)  # type: ignore[no-untyped-call]
        if "current-context" in config:
            self.config_merged.value["current-context"] = config["current-context"]
        self.config_files[path] = config


class KubeconfigLoader(KubeConfigLoader):
    """The loader of the kubernetes client, extended to report how long credentials are valid.

    The client's own methods carry no types, so calls of them are not checked.
    """

    def __init__(self, files: str, context: str | None) -> None:
        merger = _Merger(files)  # type: ignore[no-untyped-call]
        super().__init__(  # type: ignore[no-untyped-call]
            config_dict=merger.config,
            active_context=context,
            config_base_path=None,
            config_persister=lambda _content: _persist(merger),
        )
        self._left = math.inf
        node: Any = self._cluster
        cluster = {**node.value, "server": _with_scheme(node.value)}
        # A copy, because the loader writes changed files back.
        self._cluster = ConfigNode(node.name, cluster, node.path)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the context: its cluster, user and namespace."""
        settings: Mapping[str, Any] = self.current_context["context"]
        return settings

    async def load_into(self, configuration: UserConfiguration) -> None:
        """Fill a configuration, and keep its credentials current."""
        user = self._user or ()
        configuration.impersonation = tuple(_impersonation(self._user.value)) if self._user else ()
        if any(source in user for source in ("exec", "tokenFile", "auth-provider")):
            await Renewal(self._load).begin(configuration)
        else:
            await self._load(configuration)

    async def load_from_exec_plugin(self) -> bool:
        """Run the plugin. Raises ConfigException with the plugin's message.

        The client's own method hides errors and ignores when certificates expire.
        """
        settings: Any = (self._user or {})["exec"]
        plugin = ExecProvider(settings)
        if os.sep in settings["command"]:
            # A relative path is relative to the kubeconfig, as in kubectl.
            plugin.args[0] = str(_directory(settings) / settings["command"])
        cluster = self._cluster_for_plugins() if settings.safe_get("provideClusterInfo") else None
        is_never = settings.safe_get("interactiveMode") == "Never"
        try:
            status = await _status_from(plugin, cluster, is_never)
        except OSError as error:
            hint = settings.safe_get("installHint") or "install it, or name it by its path"
            reason = error.strerror or error
            raise ConfigException(f"exec: {settings['command']} cannot be run: {reason}: {hint}") from error
        if status.get("token"):
            self.token = f"Bearer {status['token']}"
        elif "clientCertificateData" not in status or "clientKeyData" not in status:
            raise ConfigException(f"exec: {settings['command']} returned neither a token nor a certificate")
        if "clientCertificateData" in status:
            self.cert_file, self.key_file = (
                FileOrData(status, None, data_key_name=key, base64_file_content=False).as_file()
                for key in ("clientCertificateData", "clientKeyData")
            )
        self._left = math.inf
        if end := status.get("expirationTimestamp"):
            self._left = (parse_rfc3339(end) - datetime.now(UTC)).total_seconds()
        return True

    def _cluster_for_plugins(self) -> dict[str, Any]:
        """Return the `spec.cluster` of an ExecCredential. File names are replaced by their content."""
        cluster_node: Any = self._cluster
        cluster: Mapping[str, Any] = cluster_node.value
        passed = {key: cluster[key] for key in _PASSED_TO_PLUGINS if cluster.get(key)}
        path = cluster.get("certificate-authority")
        if path and "certificate-authority-data" not in passed:
            content = (_directory(cluster_node) / path).read_bytes()
            passed["certificate-authority-data"] = base64.b64encode(content).decode()
        for extension in cluster.get("extensions") or ():
            if extension["name"] == _EXTENSION_FOR_PLUGINS:
                passed["config"] = extension["extension"]
        return passed

    async def _load(self, configuration: Configuration) -> Lifetime:
        self._left = math.inf
        await self.load_and_set(configuration)  # type: ignore[no-untyped-call]
        if math.isfinite(self._left):
            return Lifetime.ending_in(self._left)
        # Without an expiry, a plugin is run again only after a rejection, as in kubectl.
        is_read_again = "exec" not in (self._user or ())
        return Lifetime(reload_in=timing.TOKEN_FILE_SECONDS) if is_read_again else Lifetime()


def _with_scheme(cluster: Mapping[str, Any]) -> str:
    """Return the URL of a cluster. As in client-go, an address without scheme and TLS settings means HTTP.

    Raises ConfigException if it is no URL of a server.
    """
    server = cluster.get("server")
    if not isinstance(server, str) or not server:
        raise ConfigException("its cluster has no server, such as https://10.0.0.1:6443")
    if "://" not in server:
        server = f"{'https' if any(cluster.get(field) for field in _TLS_FIELDS) else 'http'}://{server}"
    try:
        url = URL(server)
        usable = bool(url.host) and url.scheme in ("http", "https")
    except ValueError:
        usable = False
    if not usable:
        raise ConfigException(f"server {server!r} is not a URL such as https://10.0.0.1:6443")
    return server


def _directory(node: Any) -> Path:
    """Return the directory of the file that a part of the configuration was read from."""
    return Path(node.path).absolute().parent


async def _status_from(
    plugin: ExecProvider, cluster: Mapping[str, Any] | None, is_never_interactive: bool
) -> dict[str, Any]:
    """Run a plugin, and return the status of the ExecCredential that it prints. Raises ConfigException.

    The client's own method passes no cluster to the plugin, and passes our stdin, which may be a manifest.
    """
    interactive = not is_never_interactive and sys.stdin is not None and sys.stdin.isatty()
    spec = {"interactive": interactive, **({} if cluster is None else {"cluster": cluster})}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    process = await asyncio.create_subprocess_exec(
        *plugin.args,
        env={**plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
        stdin=None if interactive else DEVNULL,
        stdout=PIPE,
        # Users must see the plugin's prompts, for a password or a page to open.
        stderr=None if interactive else PIPE,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        reason = (errors or b"").decode(errors="replace").strip()
        raise ConfigException(f"exec: process returned {process.returncode}" + (reason and f". {reason}"))
    try:
        credential = json.loads(output)
        version, status = credential["apiVersion"], credential["status"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigException(f"exec: {plugin.args[0]} returned no ExecCredential: {error!r}") from error
    if version != plugin.api_version:
        raise ConfigException(f"exec: plugin api version {version} does not match {plugin.api_version}")
    if not isinstance(status, dict):
        raise ConfigException(f"exec: {plugin.args[0]} returned an ExecCredential without a status")
    return status


def _impersonation(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the headers for impersonation: `as`, `as-uid`, `as-groups`, `as-user-extra`.

    Raises ConfigException for values that cannot be sent, because omitting them would grant more rights.
    """
    # Null counts as absent. Other false values are errors, or names that YAML misread (`no`).
    name, uid, groups, extra = (
        default if user.get(field) is None else user[field]
        for field, default in (("as", ""), ("as-uid", ""), ("as-groups", []), ("as-user-extra", {}))
    )
    if not isinstance(groups, list) or not isinstance(extra, dict):
        raise ConfigException("as-groups must be a list, as-user-extra a map of lists")
    name, uid = _sendable(name, "as"), _sendable(uid, "as-uid")
    if not name:
        if uid or groups or extra:
            raise ConfigException("as-uid, as-groups and as-user-extra require a user to impersonate (as)")
        return
    yield "Impersonate-User", name
    if uid:
        yield "Impersonate-Uid", uid
    for group in groups:
        yield "Impersonate-Group", _sendable(group, "as-groups")
    for key, values in extra.items():
        suffix = "".join(
            chr(byte) if byte in _PLAIN_IN_HEADERS else f"%{byte:02X}"
            for byte in _sendable(key, "as-user-extra").encode()
        )
        if not isinstance(values, list):
            raise ConfigException(f"as-user-extra: {key} is not a list")
        for value in values:
            yield f"Impersonate-Extra-{suffix}", _sendable(value, "as-user-extra")


def _sendable(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ConfigException(f"{field}: {value!r} is not a string of one line")
    if value != value.strip():
        raise ConfigException(f"{field}: {value!r} begins or ends with a space, which headers cannot contain")
    return value


def _persist(merger: KubeConfigMerger) -> None:
    """Write new tokens to the files for the next command: a provider may revoke a used refresh token."""
    try:
        merger.save_changes()
    except OSError as error:
        log.warning("new tokens cannot be written to %s: %s", os.pathsep.join(merger.paths), error)
