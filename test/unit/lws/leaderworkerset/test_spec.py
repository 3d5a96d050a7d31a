"""Tests of how a set is read, whether or not a definition has set its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.leaderworkerset import fields, spec
from lws.leaderworkerset.fields import Field
from lws.leaderworkerset.spec import RestartBackoff, SetSpec
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    RESTART_EXEMPT_CONTAINERS_ANNOTATION,
    RESTART_EXEMPT_SIDECARS_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.builders import make_pod_template, make_set

DEFAULTS = SetSpec.of({})
FIELDS = {name: field for name, field in vars(fields).items() if isinstance(field, Field)}
MINIMAL = {
    "metadata": {"name": "demo", "namespace": "ns", "uid": "u-1"},
    "spec": {"leaderWorkerTemplate": {"workerTemplate": make_pod_template()}},
}
NULLS = {
    "metadata": {"name": "demo", "namespace": "ns", "uid": "u-1", "annotations": None},
    "spec": {
        "replicas": None,
        "startupPolicy": None,
        "networkConfig": None,
        "revisionHistoryLimit": None,
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": None, "paused": None},
        "leaderWorkerTemplate": {
            "workerTemplate": make_pod_template(),
            "leaderTemplate": None,
            "size": None,
            "restartPolicy": None,
            "subGroupPolicy": None,
        },
    },
}


@pytest.mark.parametrize("lws", [pytest.param(MINIMAL, id="absent"), pytest.param(NULLS, id="null")])
def test_defaults_of_the_api(lws: dict[str, Any]) -> None:
    read = SetSpec.of(lws)
    assert read == replace(DEFAULTS, leader_template=make_pod_template(), worker_template=make_pod_template())
    assert read.size == spec.recorded_size(lws["spec"])
    assert read.subdomain_policy == spec.subdomain_policy_of(lws)
    assert read.placement == spec.placement_annotations(lws)
    assert read.subgroup_annotations == {}


@pytest.mark.parametrize(
    ("field", "lws", "expected"),
    [
        pytest.param("replicas", make_set(replicas=0), 0, id="no replicas"),
        pytest.param("replicas", make_set(replicas=7), 7, id="replicas"),
        pytest.param("size", make_set(size=4), 4, id="size"),
        pytest.param("history_limit", make_set(revisionHistoryLimit=0), 0, id="no history"),
        pytest.param("startup_policy", make_set(startupPolicy="LeaderReady"), "LeaderReady", id="startup"),
        pytest.param("startup_policy", make_set(startupPolicy=""), "LeaderCreated", id="no startup"),
        pytest.param(
            "paused",
            make_set(rolloutStrategy={"type": "RollingUpdate", "paused": True}),
            True,
            id="paused",
        ),
        pytest.param(
            "subdomain_policy",
            make_set(networkConfig={"subdomainPolicy": "UniquePerReplica"}),
            "UniquePerReplica",
            id="subdomain",
        ),
        pytest.param("subdomain_policy", make_set(networkConfig={}), "Shared", id="no subdomain"),
        pytest.param("partition", make_set(partition=2), 2, id="partition"),
        pytest.param("max_unavailable", make_set(max_unavailable="25%"), "25%", id="a percentage"),
        pytest.param("max_unavailable", make_set(max_unavailable=0), 0, id="0 is kept"),
        pytest.param("max_surge", make_set(max_surge=1), 1, id="surge"),
        pytest.param("max_group_restarts", make_set(maxGroupRestarts=0), 0, id="no restarts"),
        pytest.param("restart_budget", make_set(template={"maxGroupRestarts": 3}), 3, id="upstream's limit"),
        pytest.param(
            "restart_budget", make_set(maxGroupRestarts=1, template={"maxGroupRestarts": 3}), None, id="both"
        ),
        pytest.param(
            "max_unavailable_groups",
            make_set(podDisruptionBudget={"maxUnavailableGroups": "9%"}),
            "9%",
            id="budget percentage",
        ),
    ],
)
def test_values_that_are_set(field: str, lws: dict[str, Any], expected: Any) -> None:
    assert getattr(SetSpec.of(lws), field) == expected


@pytest.mark.parametrize(
    ("policy", "acts_as"),
    [
        ("Default", "None"),
        ("None", "None"),
        ("RecreateGroupOnPodRestart", "RecreateGroupOnPodRestart"),
        ("RecreateGroupAfterStart", "RecreateGroupAfterStart"),
        ("", "RecreateGroupOnPodRestart"),
    ],
)
def test_restart_policies(policy: str, acts_as: str) -> None:
    assert SetSpec.of(make_set(template={"restartPolicy": policy})).restart_policy == acts_as


def test_an_invalid_leader_template_is_read_unchanged() -> None:
    assert SetSpec.of(make_set(template={"leaderTemplate": {}})).leader_template == {}


TOPOLOGY, SCOPE = EXCLUSIVE_TOPOLOGY_ANNOTATION, EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION


@pytest.mark.parametrize(
    ("annotations", "has_subgroups", "expected"),
    [
        pytest.param({"other": "x"}, True, [], id="other annotations"),
        pytest.param(
            {key: "x" for key in spec.PLACEMENT_ANNOTATIONS}, True, spec.PLACEMENT_ANNOTATIONS, id="all"
        ),
        pytest.param({key: "" for key in spec.PLACEMENT_ANNOTATIONS}, True, [], id="empty ones"),
        pytest.param(
            {SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "x", SUBGROUP_SHARED_TOPOLOGY_ANNOTATION: "x"},
            False,
            [],
            id="of subgroups, without any",
        ),
        pytest.param({SCOPE: "Cluster"}, True, [], id="a scope of nothing"),
        pytest.param(
            {SCOPE: "Cluster", SHARED_TOPOLOGY_ANNOTATION: "x"},
            True,
            [SHARED_TOPOLOGY_ANNOTATION],
            id="a scope of what all share",
        ),
        pytest.param({SCOPE: "Namespace", TOPOLOGY: "x"}, True, [TOPOLOGY], id="the default scope in words"),
        pytest.param({SCOPE: "Cluster", TOPOLOGY: "x"}, True, [TOPOLOGY, SCOPE], id="a scope"),
    ],
)
def test_placement_annotations_that_have_an_effect(
    annotations: dict[str, str], has_subgroups: bool, expected: Sequence[str]
) -> None:
    template = {"subGroupPolicy": {"subGroupSize": 1}} if has_subgroups else {}
    assert list(spec.placement_annotations(make_set(annotations=annotations, template=template))) == list(
        expected
    )


def make_strategy(**fields: Any) -> dict[str, Any]:
    return {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": fields}}}


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"spec": None}, id="null spec"),
        pytest.param({"spec": {}}, id="empty spec"),
        pytest.param({"spec": {"leaderWorkerTemplate": {}, "rolloutStrategy": {}}}, id="empty parts"),
        pytest.param(
            {"spec": {"replicas": None, "leaderWorkerTemplate": {"size": None, "subGroupPolicy": None}}},
            id="nulls",
        ),
        pytest.param(make_strategy(), id="empty configuration"),
        pytest.param(make_strategy(partition=None, maxUnavailable=None, maxSurge=None), id="null budgets"),
        pytest.param({"spec": {"replicas": "3", "leaderWorkerTemplate": {"size": True}}}, id="wrong types"),
        pytest.param({"spec": []}, id="spec of the wrong type"),
    ],
)
def test_missing_fields_have_the_defaults_of_the_api(raw: dict[str, Any]) -> None:
    assert SetSpec.of(raw) == DEFAULTS


def test_given_fields_are_read() -> None:
    raw = {
        "spec": {
            "replicas": 4,
            "leaderWorkerTemplate": {"size": 3, "subGroupPolicy": {"subGroupSize": 2}},
            "rolloutStrategy": {
                "rollingUpdateConfiguration": {"partition": 2, "maxUnavailable": "50%", "maxSurge": 7}
            },
        }
    }
    assert SetSpec.of(raw) == replace(
        DEFAULTS,
        replicas=4,
        size=3,
        max_unavailable="50%",
        max_surge=7,
        partition=2,
        subgroup={"subGroupSize": 2},
    )


@pytest.mark.parametrize(
    ("replicas", "amount", "unavailable", "surge"),
    [
        pytest.param(10, 3, 3, 3, id="number"),
        pytest.param(4, 9, 9, 4, id="surge is capped at the replicas"),
        pytest.param(10, "25%", 2, 3, id="down and up"),
        pytest.param(2, "25%", 0, 1, id="down to nothing"),
        pytest.param(0, "100%", 0, 0, id="of nothing"),
        pytest.param(4, "3", None, None, id="text without percent"),
        pytest.param(4, "x%", None, None, id="no number"),
    ],
)
def test_amounts_in_groups(
    replicas: int, amount: int | str, unavailable: int | None, surge: int | None
) -> None:
    read = SetSpec.of(make_set(replicas=replicas, max_unavailable=amount, max_surge=amount))
    assert (read.unavailable_groups, read.surge_groups) == (unavailable, surge)


def test_the_floor_is_the_partition_of_the_set() -> None:
    assert [SetSpec.of(make_set(partition=partition)).floor for partition in (0, 3, -1)] == [0, 3, 0]
    assert SetSpec.of(make_set()).floor == 0


@pytest.mark.parametrize("garbage", [None, True, 0, -1, 1.5, "x", "", [], [1], {}, {"a": 1}], ids=repr)
@pytest.mark.parametrize("field", FIELDS.values(), ids=FIELDS)
def test_reading_a_spec_never_fails(field: Field, garbage: Any) -> None:
    lws = make_set(
        podDisruptionBudget={},
        leaderService={},
        startStrategy={},
        template={"subGroupPolicy": {}, "restartBackoff": {}},
    )
    lws["spec"]["rolloutStrategy"] |= {"rollingUpdateConfiguration": {}, "prewarm": {}}
    (*parents, name) = field.path
    part = lws
    for parent in parents:
        part = part[parent]
    part[name] = garbage
    read = SetSpec.of(lws)
    assert (read.unavailable_groups, read.surge_groups, read.floor) is not None
    assert isinstance(read.subgroup_annotations, dict)


@pytest.mark.parametrize("garbage", [None, 0, "x", [], {"a": None}], ids=repr)
def test_reading_annotations_never_fails(garbage: Any) -> None:
    lws = make_set()
    keys = (
        *spec.PLACEMENT_ANNOTATIONS,
        RESTART_EXEMPT_CONTAINERS_ANNOTATION,
        RESTART_EXEMPT_SIDECARS_ANNOTATION,
    )
    lws["metadata"]["annotations"] = dict.fromkeys(keys, garbage)
    assert SetSpec.of(lws).exempts_sidecars is False


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        pytest.param({}, RestartBackoff(10, 300), id="defaults"),
        pytest.param({"baseSeconds": 5, "capSeconds": 60}, RestartBackoff(5, 60), id="seconds"),
        pytest.param({"base": "5s", "cap": "1m30s"}, RestartBackoff(5, 90), id="durations"),
        pytest.param({"base": "500ms", "capSeconds": 20}, RestartBackoff(0.5, 20), id="mixed"),
        pytest.param({"baseSeconds": 0, "cap": "-1s"}, RestartBackoff(10, 300), id="nothing to wait"),
        pytest.param({"baseSeconds": True, "cap": "soon"}, RestartBackoff(10, 300), id="unreadable"),
        pytest.param({"baseSeconds": 2**80}, RestartBackoff(2**31 - 1, 300), id="too long"),
    ],
)
def test_the_back_off_has_two_spellings(backoff: dict[str, Any], expected: RestartBackoff) -> None:
    spec = SetSpec.of(make_set(template={"restartBackoff": backoff}))
    assert spec.restart_backoff == expected and spec.counts_restarts


@pytest.mark.parametrize(
    ("restarts", "seconds"), [(-1, 10), (0, 10), (1, 20), (4, 160), (5, 300), (30, 300), (10**9, 300)]
)
def test_the_back_off_doubles_up_to_its_cap(restarts: int, seconds: int) -> None:
    assert RestartBackoff(10, 300).delay(restarts) == timedelta(seconds=seconds)
