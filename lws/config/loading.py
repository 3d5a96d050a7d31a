"""Load the settings of the manager: flags override the file, and the file overrides defaults."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import ValidationError

from lws.config.checks import ConfigError, KeyPath, Origin, config_error, mistakes_in
from lws.config.settings import Settings
from lws_api.config.v1alpha1 import API_VERSION, KIND, NO_SERVER, WORKLOAD_AWARE_SCHEDULING, Configuration

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
DEFAULT_NAMESPACE = "lws-system"


def load(
    path: str | None,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    namespace_file: Path = NAMESPACE_FILE,
) -> Settings:
    """Return the settings from the file, if any, and flags such as `kube-api-qps`. Raises ConfigError."""
    document = read(path) if path else {"apiVersion": API_VERSION, "kind": KIND}
    # The file is checked alone first, so that no flag that overrides a value hides a mistake in it.
    _parsed(document, lambda keys: _in_file(path, keys))
    flag_values = overrides(flags)

    def origin(keys: KeyPath) -> str:
        return (flag_of(keys) if keys in flag_values else None) or _in_file(path, keys)

    configuration = _parsed(merged(document, flag_values), origin)
    lines = [f"{origin(keys)}: {message}" for keys, message in mistakes_in(configuration)]
    if lines:
        raise ConfigError(lines)
    serves_webhooks = environ.get("ENABLE_WEBHOOKS") != "false"
    return Settings(configuration, operator_namespace(namespace_file), serves_webhooks)


def operator_namespace(path: Path = NAMESPACE_FILE) -> str:
    """Return the namespace of the manager, from its service account; `lws-system` outside a cluster."""
    try:
        return path.read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE
    except (OSError, UnicodeDecodeError):
        return DEFAULT_NAMESPACE


def _in_file(path: str | None, keys: KeyPath) -> str:
    return ": ".join(part for part in (path or "built-in defaults", ".".join(keys)) if part)


def _parsed(document: Mapping[str, Any], origin: Origin) -> Configuration:
    try:
        return Configuration.model_validate(document)
    except ValidationError as error:
        raise config_error(error, origin) from error


def merged(document: Mapping[str, Any], flag_values: Mapping[KeyPath, Any]) -> dict[str, Any]:
    """Return a valid document with the values of flags, as from `overrides`."""
    result = dict(document)
    for (section, key), value in flag_values.items():
        result[section] = {**(result.get(section) or {}), key: value}
    return result


_START = f"it must start with `apiVersion: {API_VERSION}` and `kind: {KIND}`"


def read(path: str) -> dict[str, Any]:
    """Return the document in the file. Raises ConfigError if the file has no readable document."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        document = yaml.load(text, Loader=_StrictLoader)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}; check --config"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}"]) from error
    except yaml.YAMLError as error:
        raise ConfigError([f"{path}{_line(error)}: {_problem(error)}"]) from error
    if document is None:
        raise ConfigError([f"{path}: is empty; {_START}"])
    if not isinstance(document, dict):
        raise ConfigError([f"{path}: must be a mapping; {_START}"])
    return {str(key): value for key, value in document.items()}


def _line(error: yaml.YAMLError) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f":{mark.line + 1}" if mark is not None else ""


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        return " ".join(part for part in (error.context, error.problem) if part)
    return f"is not YAML: {' '.join(str(error).split())}"


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} is not a valid key: keys must be strings",
                    problem_mark=key_node.start_mark,
                )
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"{key} is a duplicate key: remove one of them", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _number(value: object, kind: type[float] = float) -> float:
    try:
        return kind(str(value))
    except ValueError as error:
        number = "whole number" if kind is int else "number"
        raise ValueError(f"must be a {number}, not {value!r}") from error


def _boolean(value: object) -> bool:
    if str(value) in _TRUE:
        return True
    if str(value) in _FALSE:
        return False
    raise ValueError(f"must be true or false, not {value!r}")


def _feature_gate(value: object) -> bool:
    """Return whether the last `WorkloadAwareScheduling=BOOL` among `NAME=true,NAME=false` switches it on."""
    is_on = False
    for part in filter(None, str(value).split(",")):
        name, _, text = part.strip().partition("=")
        if name != WORKLOAD_AWARE_SCHEDULING:
            raise ValueError(f"there is no feature gate {name!r}, only {WORKLOAD_AWARE_SCHEDULING}")
        is_on = _boolean(text)
    return is_on


def _probe_address(value: object) -> str:
    # As in upstream, an empty address means the default in the file but disables the probes as a flag.
    return str(value) or NO_SERVER


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag that overrides the key `path`; `read` parses its value, or raises ValueError."""

    path: KeyPath
    read: Callable[[object], Any]


FLAGS: Mapping[str, Flag] = MappingProxyType(
    {
        "kube-api-qps": Flag(("clientConnection", "qps"), _number),
        "kube-api-burst": Flag(("clientConnection", "burst"), partial(_number, kind=int)),
        "leader-elect": Flag(("leaderElection", "leaderElect"), _boolean),
        "leader-elect-lease-duration": Flag(("leaderElection", "leaseDuration"), str),
        "leader-elect-renew-deadline": Flag(("leaderElection", "renewDeadline"), str),
        "leader-elect-retry-period": Flag(("leaderElection", "retryPeriod"), str),
        "leader-elect-resource-lock": Flag(("leaderElection", "resourceLock"), str),
        "leader-elect-resource-name": Flag(("leaderElection", "resourceName"), str),
        "metrics-bind-address": Flag(("metrics", "bindAddress"), str),
        "metrics-per-set": Flag(("metrics", "perSet"), _boolean),
        "webhook-shutdown-delay": Flag(("webhook", "shutdownDelay"), str),
        "debug-bind-address": Flag(("debug", "bindAddress"), str),
        "feature-gates": Flag(("featureGates", WORKLOAD_AWARE_SCHEDULING), _feature_gate),
        "health-probe-bind-address": Flag(("health", "healthProbeBindAddress"), _probe_address),
    }
)
"""Name of a flag, without leading dashes → Flag."""


def overrides(flags: Mapping[str, object]) -> dict[KeyPath, Any]:
    """Return the given flags as key → value. Raises ConfigError for a bad value, KeyError for a bad name."""
    values: dict[KeyPath, Any] = {}
    lines = []
    for name, value in flags.items():
        try:
            values[FLAGS[name].path] = FLAGS[name].read(value)
        except ValueError as error:
            lines.append(f"--{name}: {error}")
    if lines:
        raise ConfigError(lines)
    return values


def flag_of(path: KeyPath) -> str | None:
    """Return the flag that overrides a key, as users write it, such as `--leader-elect`; None without one."""
    return next((f"--{name}" for name, flag in FLAGS.items() if flag.path == path), None)
