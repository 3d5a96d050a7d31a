"""lws.config.loading: flags as values of the configuration file."""

from __future__ import annotations

import pytest

from lws.config.checks import ConfigError, KeyPath
from lws.config.loading import FLAGS, flag_of, overrides
from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration

VALUES: dict[str, tuple[str, object, KeyPath, object]] = {
    "qps": ("kube-api-qps", "12.5", ("clientConnection", "qps"), 12.5),
    "qps, parsed": ("kube-api-qps", 12.5, ("clientConnection", "qps"), 12.5),
    "burst": ("kube-api-burst", "7", ("clientConnection", "burst"), 7),
    "leader election off": ("leader-elect", False, ("leaderElection", "leaderElect"), False),
    "leader election on, as text": ("leader-elect", "T", ("leaderElection", "leaderElect"), True),
    "leader election off, as text": ("leader-elect", "0", ("leaderElection", "leaderElect"), False),
    "lease": ("leader-elect-lease-duration", "1m", ("leaderElection", "leaseDuration"), "1m"),
    "renewal": ("leader-elect-renew-deadline", "5s", ("leaderElection", "renewDeadline"), "5s"),
    "retry": ("leader-elect-retry-period", "1s", ("leaderElection", "retryPeriod"), "1s"),
    "lock": ("leader-elect-resource-lock", "leases", ("leaderElection", "resourceLock"), "leases"),
    "lease name": ("leader-elect-resource-name", "x", ("leaderElection", "resourceName"), "x"),
    "metrics": ("metrics-bind-address", ":1", ("metrics", "bindAddress"), ":1"),
    "metrics, empty": ("metrics-bind-address", "", ("metrics", "bindAddress"), ""),
    "metrics of each set": ("metrics-per-set", "false", ("metrics", "perSet"), False),
    "last reviews": ("webhook-shutdown-delay", "9s", ("webhook", "shutdownDelay"), "9s"),
    "debug": ("debug-bind-address", "127.0.0.1:6060", ("debug", "bindAddress"), "127.0.0.1:6060"),
    "a feature gate": (
        "feature-gates",
        "WorkloadAwareScheduling=true",
        ("featureGates", "WorkloadAwareScheduling"),
        True,
    ),
    "a feature gate, off again": (
        "feature-gates",
        "WorkloadAwareScheduling=true, WorkloadAwareScheduling=0",
        ("featureGates", "WorkloadAwareScheduling"),
        False,
    ),
    "no feature gate": ("feature-gates", "", ("featureGates", "WorkloadAwareScheduling"), False),
    "probes": ("health-probe-bind-address", ":1", ("health", "healthProbeBindAddress"), ":1"),
    "probes, empty": ("health-probe-bind-address", "", ("health", "healthProbeBindAddress"), "0"),
}


@pytest.mark.parametrize(("name", "value", "path", "expected"), VALUES.values(), ids=VALUES.keys())
def test_values(name: str, value: object, path: KeyPath, expected: object) -> None:
    values = overrides({name: value})
    assert values == {path: expected}
    assert type(values[path]) is type(expected)


def test_no_flags_override_nothing() -> None:
    assert overrides({}) == {}


def test_every_error_is_reported() -> None:
    with pytest.raises(ConfigError) as error:
        overrides(
            {
                "kube-api-qps": "fast",
                "kube-api-burst": "1.5",
                "leader-elect": "perhaps",
                "metrics-bind-address": ":1",
                "feature-gates": "Other=true",
            }
        )
    assert error.value.lines == (
        "--kube-api-qps: must be a number, not 'fast'",
        "--kube-api-burst: must be a whole number, not '1.5'",
        "--leader-elect: must be true or false, not 'perhaps'",
        "--feature-gates: there is no feature gate 'Other', only WorkloadAwareScheduling",
    )


def test_an_unknown_flag_is_an_error() -> None:
    with pytest.raises(KeyError, match="webhook-port"):
        overrides({"webhook-port": 1})


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_has_its_key_in_the_file(name: str) -> None:
    section, key = FLAGS[name].path
    written = Configuration.model_validate({"apiVersion": API_VERSION, "kind": KIND}).model_dump()
    assert key in written[section]
    assert flag_of(FLAGS[name].path) == f"--{name}"


def test_keys_without_a_flag() -> None:
    assert flag_of(("webhook", "port")) is None
