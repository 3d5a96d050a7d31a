"""lws_api.config.v1alpha1: the model of the manager's configuration file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration

HEAD = {"apiVersion": API_VERSION, "kind": KIND}

DEFAULTS = {
    "apiVersion": "config.lws.x-k8s.io/v1alpha1",
    "kind": "Configuration",
    "webhook": {
        "port": 9443,
        "host": "",
        "certDir": "/tmp/k8s-webhook-server/serving-certs",
        "shutdownDelay": "0s",
    },
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
        "resourceLock": "leases",
        "resourceName": "b8b2488c.x-k8s.io",
        "resourceNamespace": "",
    },
    "metrics": {"bindAddress": ":8443", "perSet": True},
    "health": {
        "healthProbeBindAddress": ":8081",
        "readinessEndpointName": "/readyz",
        "livenessEndpointName": "/healthz",
    },
    "debug": {"bindAddress": "0"},
    "tls": {"minVersion": "", "cipherSuites": []},
    "internalCertManagement": {
        "enable": True,
        "webhookServiceName": "lws-webhook-service",
        "webhookSecretName": "lws-webhook-server-cert",
    },
    "clientConnection": {"qps": 500.0, "burst": 500},
    "nodeLoss": {"after": "300s", "forceDelete": False},
    "gangSchedulingManagement": None,
    "featureGates": {"WorkloadAwareScheduling": False},
    "sharding": None,
}


def test_defaults() -> None:
    assert Configuration.model_validate(HEAD).model_dump(mode="json") == DEFAULTS


def test_a_configuration_survives_a_round_trip() -> None:
    configuration = Configuration.model_validate(HEAD | {"leaderElection": {"leaseDuration": "1m30s"}})
    assert Configuration.model_validate(configuration.model_dump(mode="json")) == configuration


AS_GOOD_AS_ABSENT: dict[str, dict[str, Any]] = {
    "null section": {"webhook": None, "leaderElection": None, "sharding": None},
    "null values": {
        "webhook": {"port": None},
        "tls": {"cipherSuites": None},
        "clientConnection": {"qps": None},
    },
    "empty text": {
        "webhook": {"certDir": "", "host": ""},
        "leaderElection": {"resourceLock": "", "resourceName": ""},
        "metrics": {"bindAddress": ""},
        "health": {"healthProbeBindAddress": "", "readinessEndpointName": ""},
        "internalCertManagement": {"webhookServiceName": ""},
        "tls": {"minVersion": ""},
    },
    "zero": {
        "webhook": {"port": 0},
        "leaderElection": {"leaseDuration": "0s", "renewDeadline": "0", "retryPeriod": "0ms"},
        "clientConnection": {"qps": 0, "burst": 0},
    },
    "empty sections": {"webhook": {}, "leaderElection": {}, "clientConnection": {}},
}


@pytest.mark.parametrize("part", AS_GOOD_AS_ABSENT.values(), ids=AS_GOOD_AS_ABSENT.keys())
def test_empty_means_default(part: dict[str, Any]) -> None:
    assert Configuration.model_validate(HEAD | part).model_dump(mode="json") == DEFAULTS


def test_false_is_not_empty() -> None:
    configuration = Configuration.model_validate(
        HEAD | {"leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False}}
    )
    assert configuration.leader_election.leader_elect is False
    assert configuration.internal_cert_management.enable is False


def test_all_values_are_read() -> None:
    configuration = Configuration.model_validate(
        HEAD
        | {
            "clientConnection": {"qps": 50, "burst": 7},
            "leaderElection": {"retryPeriod": "1m30s"},
            "tls": {"cipherSuites": ["A", "B"]},
            "nodeLoss": {"after": "90s", "forceDelete": True},
            "gangSchedulingManagement": {"schedulerProvider": "volcano"},
        }
    )
    assert (configuration.client_connection.qps, configuration.client_connection.burst) == (50.0, 7)
    assert configuration.leader_election.retry_period == timedelta(seconds=90)
    assert configuration.tls.cipher_suites == ("A", "B")
    assert configuration.node_loss.after == timedelta(seconds=90)
    assert configuration.node_loss.force_delete
    assert configuration.gang_scheduling_management is not None
    assert configuration.gang_scheduling_management.scheduler_provider == "volcano"


INVALID: dict[str, tuple[dict[str, Any], tuple[str | int, ...]]] = {
    "no apiVersion": ({"kind": KIND}, ("apiVersion",)),
    "other kind": (HEAD | {"kind": "Config"}, ("kind",)),
    "unknown section": (HEAD | {"controller": {}}, ("controller",)),
    "unknown key": (HEAD | {"webhook": {"prot": 1}}, ("webhook", "prot")),
    "unknown key without value": (HEAD | {"webhook": {"prot": None}}, ("webhook", "prot")),
    "snake case": (HEAD | {"webhook": {"cert_dir": "/x"}}, ("webhook", "cert_dir")),
    "number for text": (HEAD | {"metrics": {"bindAddress": 0}}, ("metrics", "bindAddress")),
    "text for number": (HEAD | {"webhook": {"port": "9443"}}, ("webhook", "port")),
    "text for bool": (HEAD | {"leaderElection": {"leaderElect": "true"}}, ("leaderElection", "leaderElect")),
    "bool for number": (HEAD | {"clientConnection": {"burst": True}}, ("clientConnection", "burst")),
    "number for duration": (
        HEAD | {"leaderElection": {"leaseDuration": 15}},
        ("leaderElection", "leaseDuration"),
    ),
    "port too high": (HEAD | {"webhook": {"port": 65536}}, ("webhook", "port")),
    "not a number": (HEAD | {"clientConnection": {"qps": float("nan")}}, ("clientConnection", "qps")),
    "text in a list": (HEAD | {"tls": {"cipherSuites": [1]}}, ("tls", "cipherSuites", 0)),
    "list for section": (HEAD | {"health": []}, ("health",)),
    "gang without provider": (
        HEAD | {"gangSchedulingManagement": {}},
        ("gangSchedulingManagement", "schedulerProvider"),
    ),
}


@pytest.mark.parametrize(("raw", "location"), INVALID.values(), ids=INVALID.keys())
def test_invalid_configurations_are_rejected(raw: dict[str, Any], location: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as error:
        Configuration.model_validate(raw)
    assert [detail["loc"] for detail in error.value.errors()] == [location]
