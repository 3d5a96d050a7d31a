"""What a set asks for, read from objects that any CRD may have defaulted or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lws.leaderworkerset import spec
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.builders import make_pod_template, make_set

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
    assert (spec.name_of(lws), spec.namespace_of(lws), spec.uid_of(lws)) == ("demo", "ns", "u-1")
    assert spec.replicas_of(lws) == 1
    assert spec.size_of(lws) == spec.recorded_size(lws["spec"]) == 1
    assert spec.leader_template_of(lws) == make_pod_template()
    assert spec.restart_policy_of(lws) == "RecreateGroupOnPodRestart"
    assert spec.startup_policy_of(lws) == "LeaderCreated"
    assert spec.subdomain_policy_of(lws) == "Shared"
    assert spec.rolling_update_of(lws) == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    assert spec.is_paused(lws) is False
    assert spec.history_limit_of(lws) == 10
    assert spec.placement_annotations(lws) == {}
    assert spec.subgroup_annotations(lws) == {}


@pytest.mark.parametrize(
    ("read", "lws", "expected"),
    [
        pytest.param(spec.replicas_of, make_set(replicas=0), 0, id="no replicas"),
        pytest.param(spec.replicas_of, make_set(replicas=7), 7, id="replicas"),
        pytest.param(spec.size_of, make_set(size=4), 4, id="size"),
        pytest.param(spec.history_limit_of, make_set(revisionHistoryLimit=0), 0, id="no history"),
        pytest.param(
            spec.startup_policy_of, make_set(startupPolicy="LeaderReady"), "LeaderReady", id="startup"
        ),
        pytest.param(spec.startup_policy_of, make_set(startupPolicy=""), "LeaderCreated", id="no startup"),
        pytest.param(
            spec.is_paused,
            make_set(rolloutStrategy={"type": "RollingUpdate", "paused": True}),
            True,
            id="paused",
        ),
        pytest.param(
            spec.subdomain_policy_of,
            make_set(networkConfig={"subdomainPolicy": "UniquePerReplica"}),
            "UniquePerReplica",
            id="subdomain",
        ),
        pytest.param(spec.subdomain_policy_of, make_set(networkConfig={}), "Shared", id="no subdomain"),
        pytest.param(
            spec.rolling_update_of,
            make_set(partition=2, max_unavailable="25%", max_surge=0),
            {"partition": 2, "maxUnavailable": "25%", "maxSurge": 0},
            id="rolling update",
        ),
        pytest.param(
            spec.rolling_update_of,
            make_set(max_unavailable=0, max_surge=1),
            {"partition": 0, "maxUnavailable": 0, "maxSurge": 1},
            id="a zero is not absence",
        ),
    ],
)
def test_values_that_are_set(read: Callable[[Any], Any], lws: dict[str, Any], expected: Any) -> None:
    assert read(lws) == expected


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
    assert spec.restart_policy_of(make_set(template={"restartPolicy": policy})) == acts_as


def test_a_leader_template_is_taken_as_it_is_even_if_the_api_server_will_refuse_it() -> None:
    assert spec.leader_template_of(make_set(template={"leaderTemplate": {}})) == {}


TOPOLOGY, SCOPE = EXCLUSIVE_TOPOLOGY_ANNOTATION, EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION


@pytest.mark.parametrize(
    ("annotations", "has_subgroups", "kept"),
    [
        pytest.param({"other": "x"}, True, [], id="what others say"),
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
    annotations: dict[str, str], has_subgroups: bool, kept: Sequence[str]
) -> None:
    template = {"subGroupPolicy": {"subGroupSize": 1}} if has_subgroups else {}
    assert list(spec.placement_annotations(make_set(annotations=annotations, template=template))) == list(
        kept
    )
