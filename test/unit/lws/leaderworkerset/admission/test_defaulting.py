"""Tests of lws.leaderworkerset.admission.defaulting: omitted fields are set, all others are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.defaulting import default

ALWAYS = {"replicas": 1, "groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"}
DEFAULT_CONFIGURATION = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {},
            {
                "leaderWorkerTemplate": {"restartPolicy": "RecreateGroupOnPodRestart"},
                "rolloutStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdateConfiguration": DEFAULT_CONFIGURATION,
                },
                "networkConfig": {"subdomainPolicy": "Shared"},
            },
            id="all fields missing",
        ),
        pytest.param(
            {
                "replicas": None,
                "groupIdentity": "",
                "groupReplacementPolicy": None,
                "leaderWorkerTemplate": {"restartPolicy": ""},
                "rolloutStrategy": {"type": "", "rollingUpdateConfiguration": None},
                "networkConfig": {"subdomainPolicy": None},
            },
            {
                "leaderWorkerTemplate": {"restartPolicy": "RecreateGroupOnPodRestart"},
                "rolloutStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdateConfiguration": DEFAULT_CONFIGURATION,
                },
                "networkConfig": {"subdomainPolicy": "Shared"},
            },
            id="empty and null",
        ),
        pytest.param(
            {
                "leaderWorkerTemplate": {"restartPolicy": "Default"},
                "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 2}},
                "networkConfig": None,
            },
            {
                "leaderWorkerTemplate": {"restartPolicy": "None"},
                "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 2}},
                "networkConfig": {"subdomainPolicy": "Shared"},
            },
            id="deprecated Default policy, configuration given, no network",
        ),
        pytest.param(
            {
                "replicas": 0,
                "groupIdentity": "Hash",
                "groupReplacementPolicy": "Immediate",
                "leaderWorkerTemplate": {"restartPolicy": "None", "size": 2},
                "rolloutStrategy": {"type": "Unknown"},
                "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            },
            {
                "replicas": 0,
                "groupIdentity": "Hash",
                "groupReplacementPolicy": "Immediate",
                "leaderWorkerTemplate": {"restartPolicy": "None", "size": 2},
                "rolloutStrategy": {"type": "Unknown"},
                "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            },
            id="all fields given",
        ),
        pytest.param(
            {
                "leaderWorkerTemplate": {"restartPolicy": "RecreateGroupAfterStart"},
                "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {}},
                "networkConfig": {"subdomainPolicy": ""},
            },
            {
                "leaderWorkerTemplate": {"restartPolicy": "RecreateGroupAfterStart"},
                "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {}},
                "networkConfig": {"subdomainPolicy": ""},
            },
            id="fields that the CRD defaults or rejects",
        ),
        pytest.param(
            {"leaderWorkerTemplate": "x", "rolloutStrategy": 1, "networkConfig": ["y"]},
            {"leaderWorkerTemplate": "x", "rolloutStrategy": 1, "networkConfig": ["y"]},
            id="wrong types, which the schema rejects",
        ),
    ],
)
def test_default(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    raw = {"metadata": {"name": "a"}, "spec": spec}
    default(raw)
    assert raw == {"metadata": {"name": "a"}, "spec": {**ALWAYS, **expected}}
    default(raw)
    assert raw == {"metadata": {"name": "a"}, "spec": {**ALWAYS, **expected}}


@pytest.mark.parametrize("raw", [{}, {"spec": None}], ids=["no spec", "null spec"])
def test_default_adds_a_missing_spec(raw: dict[str, Any]) -> None:
    default(raw)
    assert raw["spec"]["networkConfig"] == {"subdomainPolicy": "Shared"}


def test_default_does_not_change_a_spec_of_the_wrong_type() -> None:
    raw: dict[str, Any] = {"spec": "x"}
    default(raw)
    assert raw == {"spec": "x"}


def test_default_gives_each_set_its_own_configuration() -> None:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    default(first)
    first["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["maxSurge"] = 9
    default(second)
    assert second["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] == DEFAULT_CONFIGURATION


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        pytest.param(None, None, id="absent"),
        pytest.param({}, {"baseSeconds": 10, "capSeconds": 300}, id="empty"),
        pytest.param({"baseSeconds": 20}, {"baseSeconds": 20, "capSeconds": 300}, id="base"),
        pytest.param(
            {"baseSeconds": None, "capSeconds": 60}, {"baseSeconds": 10, "capSeconds": 60}, id="cap"
        ),
        pytest.param({"base": "5s"}, {"base": "5s"}, id="the other spelling has no default"),
        pytest.param({"base": "5s", "cap": "1m"}, {"base": "5s", "cap": "1m"}, id="the other spelling"),
        pytest.param("x", "x", id="wrong type"),
    ],
)
def test_default_of_the_backoff(backoff: Any, expected: Any) -> None:
    raw: dict[str, Any] = {"spec": {"leaderWorkerTemplate": {"restartBackoff": backoff}}}
    default(raw)
    assert raw["spec"]["leaderWorkerTemplate"]["restartBackoff"] == expected
