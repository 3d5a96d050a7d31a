"""Tests of lws.leaderworkerset.admission.identity: upstream's rules on restarts, identity and replacement."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.identity import identity_errors, restart_errors
from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from lws.leaderworkerset.scheduling import NO_SCHEDULER
from lws.leaderworkerset.spec import SetSpec
from test.unit.builders import make_set
from test.unit.lws.leaderworkerset.admission.test_later_fields import with_fields

LIMIT = "spec.leaderWorkerTemplate.maxGroupRestarts"
BACKOFF = "spec.leaderWorkerTemplate.restartBackoff"
RECREATING = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "")


@pytest.mark.parametrize("policy", RECREATING)
@pytest.mark.parametrize("limit", [0, 3])
def test_upstream_restart_limit_is_accepted(policy: str, limit: int) -> None:
    assert errors_in(with_fields({"restartPolicy": policy, "maxGroupRestarts": limit})) == []


@pytest.mark.parametrize("policy", ["None", "Default"])
def test_upstream_restart_limit_needs_a_policy_that_recreates_groups(policy: str) -> None:
    fields = {"restartPolicy": policy, "maxGroupRestarts": 3, "restartBackoff": {}}
    reason = "is only supported when restartPolicy recreates the group"
    assert [str(error) for error in restart_errors(with_fields(fields))] == [
        f"{LIMIT}: Invalid value: 3: maxGroupRestarts {reason}",
        f"{BACKOFF}: Invalid value: {{}}: restartBackoff {reason}",
    ]


def test_two_restart_limits_are_rejected() -> None:
    (error,) = errors_in(with_fields({"maxGroupRestarts": 3}, maxGroupRestarts=3))
    reason = "conflicts with spec.maxGroupRestarts, which limits restarts too: remove one of them"
    assert str(error) == f"{LIMIT}: Invalid value: 3: {reason}"


@pytest.mark.parametrize(
    "backoff",
    [
        {},
        {"baseSeconds": 20},
        {"capSeconds": 60},
        {"baseSeconds": 5, "capSeconds": 5},
        {"base": "5s"},
        {"cap": "10s"},
        {"base": "1m30s", "cap": "90s"},
        {"base": "1m", "capSeconds": 60},
        {"base": None, "baseSeconds": 300},
    ],
)
def test_backoffs_in_both_spellings_are_accepted(backoff: dict[str, Any]) -> None:
    assert errors_in(with_fields({"restartBackoff": backoff})) == []


@pytest.mark.parametrize(
    ("backoff", "messages"),
    [
        pytest.param(
            {"baseSeconds": 0}, [".baseSeconds: Invalid value: 0: must be greater than 0"], id="base"
        ),
        pytest.param(
            {"baseSeconds": -2, "capSeconds": -1},
            [
                ".baseSeconds: Invalid value: -2: must be greater than 0",
                ".capSeconds: Invalid value: -1: must be greater than 0",
            ],
            id="both",
        ),
        pytest.param(
            {"capSeconds": 5},
            [': Invalid value: {"capSeconds":5}: baseSeconds must not be greater than capSeconds'],
            id="the default of the base",
        ),
        pytest.param(
            {"baseSeconds": 600},
            [': Invalid value: {"baseSeconds":600}: baseSeconds must not be greater than capSeconds'],
            id="the default of the cap",
        ),
        pytest.param(
            {"cap": "0s", "base": "0s"},
            [
                '.base: Invalid value: "0s": must be greater than 0',
                '.cap: Invalid value: "0s": must be greater than 0',
            ],
            id="durations",
        ),
        pytest.param(
            {"base": "2m", "cap": "1m"},
            [': Invalid value: {"base":"2m","cap":"1m"}: base must not be greater than cap'],
            id="durations in the wrong order",
        ),
        pytest.param(
            {"base": "soon"},
            [
                ".base: Invalid value: \"soon\": must be a duration such as 15s, 5m or 1m30s, not 'soon'",
            ],
            id="not a duration",
        ),
        pytest.param(
            {"base": "20s", "baseSeconds": 20},
            [
                '.base: Invalid value: "20s": conflicts with baseSeconds, which has the same meaning: '
                "remove one of them"
            ],
            id="one field in both spellings",
        ),
    ],
)
def test_invalid_backoffs_are_rejected(backoff: dict[str, Any], messages: list[str]) -> None:
    errors = [str(error) for error in restart_errors(with_fields({"restartBackoff": backoff}))]
    assert errors == [f"{BACKOFF}{message}" for message in messages]


def identity_of(name: str = "web", size: int = 2, partition: int = 0, **spec: Any) -> list[str]:
    lws = make_set(name=name, size=size, partition=partition, **spec)
    return [str(error) for error in identity_errors(lws, SetSpec.of(lws))]


def test_immediate_replacement_needs_hash_identity() -> None:
    reason = "Immediate is only supported with groupIdentity Hash"
    for identity in ("", "Ordinal", None):
        assert identity_of(groupIdentity=identity, groupReplacementPolicy="Immediate") == [
            f'spec.groupReplacementPolicy: Invalid value: "Immediate": {reason}'
        ]
    assert identity_of(groupIdentity="Hash", groupReplacementPolicy="Immediate") == []


def test_hash_identity_rejects_unsupported_fields() -> None:
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert identity_of(groupIdentity="Ordinal", template=claims, partition=1) == []
    assert identity_of(groupIdentity="Hash", template=claims, partition=1) == [
        f'spec.groupIdentity: Invalid value: "Hash": {subject} not supported with groupIdentity Hash'
        for subject in ("volumeClaimTemplates are", "rollingUpdateConfiguration.partition is")
    ]
    prewarm = {"rolloutStrategy": {"type": "RollingUpdate", "prewarm": {}}}
    assert identity_of(groupIdentity="Ordinal", **prewarm) == []
    assert identity_of(groupIdentity="Hash", **prewarm) == [
        "spec.rolloutStrategy.prewarm: Invalid value: {}: not supported with groupIdentity Hash: "
        "the Deployment of the leaders starts rollouts itself"
    ]
    for policy in ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"):
        more = {"restartPolicy": policy, "subGroupPolicy": {"subGroupSize": 2}, "maxGroupRestarts": 1}
        assert identity_of(groupIdentity="Hash", template=more, startupPolicy="LeaderReady") == []


def test_errors_are_in_the_order_of_upstream() -> None:
    template = {
        "subGroupPolicy": {"subGroupSize": 0},
        "restartPolicy": "None",
        "maxGroupRestarts": 1,
        "restartBackoff": {"baseSeconds": 0},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
    }
    lws = make_set(name="a" * 44, size=2, partition=1, template=template, groupIdentity="Hash", scheduling={})
    errors = [f"{error.path}: {error.detail}" for error in errors_in(lws, scheduler=NO_SCHEDULER)]
    claims = "volumeClaimTemplates are not supported with groupIdentity Hash"
    partition = "rollingUpdateConfiguration.partition is not supported with groupIdentity Hash"
    expected = [
        "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: subGroupSize must be equal or greater than 1",
        f"{LIMIT}: maxGroupRestarts is only supported when restartPolicy recreates the group",
        f"{BACKOFF}: restartBackoff is only supported when restartPolicy recreates the group",
        f"{BACKOFF}.baseSeconds: must be greater than 0",
        f"spec.groupIdentity: {claims}",
        f"spec.groupIdentity: {partition}",
        "metadata.name: must be no more than 43 characters with groupIdentity Hash",
        "spec.scheduling: requires the WorkloadAwareScheduling feature gate",
    ]
    assert [error for error in errors if error in expected] == expected, errors


@pytest.mark.parametrize(("size", "room"), [(1, 54), (2, 43), (8, 43)])
def test_name_length_is_limited_with_hash_identity(size: int, room: int) -> None:
    reason = f"must be no more than {room} characters with groupIdentity Hash"
    assert identity_of("a" * room, size, groupIdentity="Hash") == []
    name = "a" * (room + 1)
    assert identity_of(name, size, groupIdentity="Hash") == [
        f'metadata.name: Invalid value: "{name}": {reason}'
    ]
    lws = make_set(name="a" * room, size=size, replicas=1_000_000, groupIdentity="Hash")
    assert not any(error.path == "metadata.name" for error in errors_in(lws))


@pytest.mark.parametrize(
    ("size", "policy", "warns"), [(1, "Parallel", True), (1, "Default", False), (2, "Parallel", False)]
)
def test_termination_policy_without_workers_causes_a_warning(size: int, policy: str, warns: bool) -> None:
    lws = make_set(size=size, podTerminationPolicy=policy)
    warning = "spec.podTerminationPolicy: Parallel has no effect with size 1: remove it"
    assert warnings_in(lws) == ([warning] if warns else [])
