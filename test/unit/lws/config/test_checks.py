"""lws.config.checks: values that have the right type but make no sense."""

from __future__ import annotations

from typing import Any

import pytest

from lws.config.checks import mistakes_in
from lws_api.config.v1alpha1 import API_VERSION, KIND, Configuration


def mistakes(part: dict[str, Any]) -> list[tuple[str, str]]:
    configuration = Configuration.model_validate({"apiVersion": API_VERSION, "kind": KIND} | part)
    return [(".".join(path), message) for path, message in mistakes_in(configuration)]


MODERN = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"

VALID: dict[str, dict[str, Any]] = {
    "defaults": {},
    "other times": {"leaderElection": {"leaseDuration": "1m", "renewDeadline": "59s", "retryPeriod": "40s"}},
    "no checks of the Lease without leader election": {
        "leaderElection": {
            "leaderElect": False,
            "leaseDuration": "1s",
            "resourceLock": "configmaps",
            "resourceName": "_",
        }
    },
    "endpoints disabled": {"metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": "0"}},
    "addresses": {
        "metrics": {"bindAddress": "127.0.0.1:0"},
        "health": {"healthProbeBindAddress": "[::1]:65535"},
    },
    "other endpoints": {"health": {"readinessEndpointName": "/a/b", "livenessEndpointName": "/c"}},
    "TLS 1.2 with suites": {
        "tls": {"minVersion": "VersionTLS12", "cipherSuites": [MODERN, "TLS_AES_128_GCM_SHA256"]}
    },
    "suites alone": {"tls": {"cipherSuites": [MODERN]}},
    "suites of TLS 1.3 alone": {"tls": {"cipherSuites": ["TLS_AES_128_GCM_SHA256"]}},
    "TLS 1.3": {"tls": {"minVersion": "VersionTLS13", "cipherSuites": []}},
    "no checks of certificate names without certificate management": {
        "internalCertManagement": {"enable": False, "webhookServiceName": "1", "webhookSecretName": "_"}
    },
    "gang": {"gangSchedulingManagement": {"schedulerProvider": "volcano"}},
    "gang by coscheduling": {"gangSchedulingManagement": {"schedulerProvider": "scheduler-plugins"}},
    "gang by Kubernetes": {"gangSchedulingManagement": {"schedulerProvider": "kubernetes"}},
    "one shard": {"sharding": {"shards": 1}},
    "one shard, not elected": {
        "sharding": {"shards": 1},
        "leaderElection": {"leaderElect": False},
    },
    "shards": {"sharding": {"shards": 64}},
    "shards, name with a number": {"sharding": {"shards": 2}, "leaderElection": {"resourceName": "lws-2026"}},
}


@pytest.mark.parametrize("configuration", VALID.values(), ids=VALID.keys())
def test_valid_values(configuration: dict[str, Any]) -> None:
    assert mistakes(configuration) == []


ADDRESS = 'must be host:port such as ":8443" or "127.0.0.1:8443", or "0" for none; not '

INVALID: dict[str, tuple[dict[str, Any], str, str]] = {
    "lock": (
        {"leaderElection": {"resourceLock": "endpoints"}},
        "leaderElection.resourceLock",
        "must be leases, not 'endpoints'",
    ),
    "lease name": (
        {"leaderElection": {"resourceName": "A_b"}},
        "leaderElection.resourceName",
        "'A_b' cannot name a Lease: a lowercase RFC 1123 subdomain must consist of",
    ),
    "lease below a second": (
        {"leaderElection": {"leaseDuration": "900ms", "renewDeadline": "500ms", "retryPeriod": "100ms"}},
        "leaderElection.leaseDuration",
        "must be 1s or more, not 0.9s",
    ),
    "renewDeadline equals leaseDuration": (
        {"leaderElection": {"leaseDuration": "10s"}},
        "leaderElection.renewDeadline",
        "must be shorter than leaseDuration (10s), not 10s",
    ),
    "retryPeriod equals renewDeadline": (
        {"leaderElection": {"retryPeriod": "10s"}},
        "leaderElection.retryPeriod",
        "1.2 times it must be shorter than renewDeadline (10s); it is 10s",
    ),
    "retryPeriod too long for jitter": (
        {"leaderElection": {"retryPeriod": "8400ms"}},
        "leaderElection.retryPeriod",
        "1.2 times it must be shorter than renewDeadline (10s); it is 8.4s",
    ),
    "negative retry": (
        {"leaderElection": {"retryPeriod": "-1s"}},
        "leaderElection.retryPeriod",
        "must be longer than 0s, not -1s",
    ),
    "metrics without port": (
        {"metrics": {"bindAddress": "localhost"}},
        "metrics.bindAddress",
        f"{ADDRESS}'localhost'",
    ),
    "metrics, named port": (
        {"metrics": {"bindAddress": ":https"}},
        "metrics.bindAddress",
        f"{ADDRESS}':https'",
    ),
    "probes, port too high": (
        {"health": {"healthProbeBindAddress": ":65536"}},
        "health.healthProbeBindAddress",
        f"{ADDRESS}':65536'",
    ),
    "probes, bare IPv6": (
        {"health": {"healthProbeBindAddress": "::1:8081"}},
        "health.healthProbeBindAddress",
        f"{ADDRESS}'::1:8081'",
    ),
    "debug on all interfaces": (
        {"debug": {"bindAddress": ":6060"}},
        "debug.bindAddress",
        "must be a loopback address, such as \"127.0.0.1:6060\"; not ':6060'",
    ),
    "debug on a non-loopback address": (
        {"debug": {"bindAddress": "10.0.0.1:6060"}},
        "debug.bindAddress",
        "must be a loopback address, such as \"127.0.0.1:6060\"; not '10.0.0.1:6060'",
    ),
    "debug on a host name": (
        {"debug": {"bindAddress": "localhost:6060"}},
        "debug.bindAddress",
        "must be a loopback address, such as \"127.0.0.1:6060\"; not 'localhost:6060'",
    ),
    "debug without a host": ({"debug": {"bindAddress": "6060"}}, "debug.bindAddress", f"{ADDRESS}'6060'"),
    "probes, non-ASCII digits": (
        {"health": {"healthProbeBindAddress": ":٨٠"}},
        "health.healthProbeBindAddress",
        f"{ADDRESS}':٨٠'",
    ),
    "endpoint without slash": (
        {"health": {"readinessEndpointName": "readyz"}},
        "health.readinessEndpointName",
        "must be a URL path such as /healthz, not 'readyz'",
    ),
    "endpoint at the root": (
        {"health": {"livenessEndpointName": "/"}},
        "health.livenessEndpointName",
        "must be a URL path such as /healthz, not '/'",
    ),
    "one endpoint for both": (
        {"health": {"livenessEndpointName": "/readyz"}},
        "health.livenessEndpointName",
        "must differ from readinessEndpointName",
    ),
    "TLS 1.1": (
        {"tls": {"minVersion": "VersionTLS11"}},
        "tls.minVersion",
        "must be VersionTLS12 or VersionTLS13, not 'VersionTLS11'",
    ),
    "TLS 1.4": (
        {"tls": {"minVersion": "VersionTLS14"}},
        "tls.minVersion",
        "must be VersionTLS12 or VersionTLS13, not 'VersionTLS14'",
    ),
    "unknown suite": (
        {"tls": {"cipherSuites": [MODERN, "AES128-SHA"]}},
        "tls.cipherSuites",
        "there is no suite 'AES128-SHA': write names such as TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    ),
    "suites with TLS 1.3": (
        {"tls": {"minVersion": "VersionTLS13", "cipherSuites": [MODERN]}},
        "tls.cipherSuites",
        "must be left out with minVersion VersionTLS13: the suites of TLS 1.3 are fixed",
    ),
    "negative shutdown delay": (
        {"webhook": {"shutdownDelay": "-1s"}},
        "webhook.shutdownDelay",
        "must be 0s or more, not -1s",
    ),
    "service name": (
        {"internalCertManagement": {"webhookServiceName": "1a"}},
        "internalCertManagement.webhookServiceName",
        "'1a' cannot name a Service: a DNS-1035 label must consist of",
    ),
    "secret name": (
        {"internalCertManagement": {"webhookSecretName": "a_b"}},
        "internalCertManagement.webhookSecretName",
        "'a_b' cannot name a Secret: a lowercase RFC 1123 subdomain must consist of",
    ),
    "gang provider": (
        {"gangSchedulingManagement": {"schedulerProvider": "yunikorn"}},
        "gangSchedulingManagement.schedulerProvider",
        "must be one of volcano, scheduler-plugins, kubernetes, not 'yunikorn'",
    ),
    "zero shards": (
        {"sharding": {"shards": 0}},
        "sharding.shards",
        "must be 1 to 64, not 0; leave sharding out to have one manager act",
    ),
    "too many shards": ({"sharding": {"shards": 65}}, "sharding.shards", "must be 1 to 64, not 65; leave"),
    "shards without leader election": (
        {"sharding": {"shards": 4}, "leaderElection": {"leaderElect": False}},
        "sharding.shards",
        "4 shards need leaderElection.leaderElect true, because Leases keep two managers from acting on "
        "the same sets; set it, or leave sharding out",
    ),
    "shards, Lease name ends in a number": (
        {"sharding": {"shards": 2}, "leaderElection": {"resourceName": "lws-7"}},
        "leaderElection.resourceName",
        "'lws-7' is the Lease of shard 7 for managers with the name 'lws'; with sharding, choose a name "
        "that does not end in a number",
    ),
    "shards, name too long for a suffix": (
        {"sharding": {"shards": 11}, "leaderElection": {"resourceName": "l" * 251}},
        "leaderElection.resourceName",
        f"with 11 shards, one Lease is named '{'l' * 251}-10': ",
    ),
    "node loss": ({"nodeLoss": {"after": "-1s"}}, "nodeLoss.after", "must be 0s or more, not -1s"),
}


@pytest.mark.parametrize(("configuration", "key", "message_start"), INVALID.values(), ids=INVALID.keys())
def test_invalid_values(configuration: dict[str, Any], key: str, message_start: str) -> None:
    ((path, message),) = mistakes(configuration)
    assert path == key
    assert message.startswith(message_start)


def test_cipher_suites_without_openssl_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lws.config.checks.openssl_names", lambda suites: ())
    ((path, message),) = mistakes({"tls": {"cipherSuites": ["TLS_RSA_WITH_RC4_128_SHA"]}})
    assert path == "tls.cipherSuites"
    assert message.startswith("none of them can be served by OpenSSL")


def test_all_errors_are_reported_at_once() -> None:
    part = {
        "leaderElection": {"resourceLock": "x", "leaseDuration": "5s"},
        "metrics": {"bindAddress": "x"},
        "tls": {"minVersion": "x"},
    }
    assert [where for where, _ in mistakes(part)] == [
        "leaderElection.resourceLock",
        "leaderElection.renewDeadline",
        "metrics.bindAddress",
        "tls.minVersion",
    ]
