"""Which part of the configuration does a flag override?

In: flags that were given on the command line. Out: the keys they stand for, with values as the file would
have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lws.config.errors import ConfigError, KeyPath

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _text(value: object) -> str:
    return str(value)


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError as error:
        raise ValueError(f"must be a number, not {value!r}") from error


def _whole_number(value: object) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise ValueError(f"must be a whole number, not {value!r}") from error


def _boolean(value: object) -> bool:
    if str(value) in _TRUE:
        return True
    if str(value) in _FALSE:
        return False
    raise ValueError(f"must be true or false, not {value!r}")


def _probe_address(value: object) -> str:
    # In the file an empty address means the default, here it switches the probes off: so the original manager
    # has it.
    return str(value) or "0"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: the key that it overrides, and how its value is read (ValueError where it cannot be)."""

    path: KeyPath
    read: Callable[[object], Any]


FLAGS: Mapping[str, Flag] = MappingProxyType(
    {
        "kube-api-qps": Flag(("clientConnection", "qps"), _number),
        "kube-api-burst": Flag(("clientConnection", "burst"), _whole_number),
        "leader-elect": Flag(("leaderElection", "leaderElect"), _boolean),
        "leader-elect-lease-duration": Flag(("leaderElection", "leaseDuration"), _text),
        "leader-elect-renew-deadline": Flag(("leaderElection", "renewDeadline"), _text),
        "leader-elect-retry-period": Flag(("leaderElection", "retryPeriod"), _text),
        "leader-elect-resource-lock": Flag(("leaderElection", "resourceLock"), _text),
        "leader-elect-resource-name": Flag(("leaderElection", "resourceName"), _text),
        "metrics-bind-address": Flag(("metrics", "bindAddress"), _text),
        "metrics-per-set": Flag(("metrics", "perSet"), _boolean),
        "webhook-shutdown-delay": Flag(("webhook", "shutdownDelay"), _text),
        "debug-bind-address": Flag(("debug", "bindAddress"), _text),
        "health-probe-bind-address": Flag(("health", "healthProbeBindAddress"), _probe_address),
    }
)
"""Flags by name, without dashes in front."""


def overrides(given: Mapping[str, object]) -> dict[KeyPath, Any]:
    """Key → value for flags that were given; raises ConfigError for values that cannot be read.

    A flag that has no key in the file is a KeyError: the caller offers flags that nobody reads.
    """
    values: dict[KeyPath, Any] = {}
    lines = []
    for name, value in given.items():
        try:
            values[FLAGS[name].path] = FLAGS[name].read(value)
        except ValueError as error:
            lines.append(f"--{name}: {error}")
    if lines:
        raise ConfigError(lines)
    return values


def flag_of(path: KeyPath) -> str | None:
    """The flag that overrides a key, as users write it, e.g. `--leader-elect`."""
    return next((f"--{name}" for name, flag in FLAGS.items() if flag.path == path), None)
