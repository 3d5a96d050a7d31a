"""Tests of the objects of a group, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.leaderworkerset.children.services import build_group_service
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.group.placement import Placement
from lws.leaderworkerset.pod_identity import group_key
from lws.leaderworkerset.revisions.history import record, restore
from lws.leaderworkerset.revisions.reading import parse
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SIZE_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit import api_server
from test.unit.builders import build_revision, make_leader_pod, make_pod_template, make_set

PREFIX = "leaderworkerset.sigs.k8s.io"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OWNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "demo-3",
    "uid": "uid-of-pod-demo-3",
    "controller": True,
    "blockOwnerDeletion": True,
}


def test_the_worker_statefulset_field_by_field() -> None:
    lws = make_set(size=4, labels={"team": "a"}, annotations={"note": "x", LAST_APPLIED: "{}"})
    assert build_worker_statefulset(SetSpec.of(lws), make_leader_pod(lws, 3)) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "demo-3",
            "namespace": "default",
            "labels": {
                "team": "a",
                f"{PREFIX}/name": "demo",
                f"{PREFIX}/group-index": "3",
                f"{PREFIX}/group-key": group_key("default", "demo-3"),
                f"{PREFIX}/template-revision-hash": "key-a",
                f"{PREFIX}/role": "worker",
            },
            "annotations": {"note": "x"},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "serviceName": "demo",
            "replicas": 3,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {
                "matchLabels": {
                    f"{PREFIX}/name": "demo",
                    f"{PREFIX}/group-index": "3",
                    f"{PREFIX}/group-key": group_key("default", "demo-3"),
                }
            },
            "template": {
                "metadata": {
                    "labels": {
                        f"{PREFIX}/name": "demo",
                        f"{PREFIX}/group-index": "3",
                        f"{PREFIX}/group-key": group_key("default", "demo-3"),
                        f"{PREFIX}/template-revision-hash": "key-a",
                    },
                    "annotations": {
                        f"{PREFIX}/size": "4",
                        f"{PREFIX}/leader-name": "demo-3",
                        f"{PREFIX}/leader-address": "demo-3.demo.default",
                    },
                },
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }


def test_annotations_are_omitted_if_empty() -> None:
    statefulset = build_worker_statefulset(
        SetSpec.of(make_set(annotations={LAST_APPLIED: "{}"})), make_leader_pod()
    )
    assert "annotations" not in statefulset["metadata"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {}, id="size and leader only"),
        pytest.param(
            {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
            {LEADER_ADDRESS_ANNOTATION: "demo-0.demo-0.default"},
            id="subdomains are leaders'",
        ),
        pytest.param(
            {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}},
            {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"},
            id="exclusive topology",
        ),
        pytest.param(
            {
                "annotations": {SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"},
                "template": {"subGroupPolicy": {"subGroupPolicyType": "LeaderWorker", "subGroupSize": 2}},
            },
            {
                SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
                f"{PREFIX}/subgroup-policy-type": "LeaderWorker",
                f"{PREFIX}/subgroup-size": "2",
            },
            id="subgroups with a topology",
        ),
    ],
)
def test_annotations_of_workers(changes: dict[str, Any], expected: dict[str, str]) -> None:
    statefulset = build_worker_statefulset(SetSpec.of(make_set(size=4, **changes)), make_leader_pod())
    annotations = statefulset["spec"]["template"]["metadata"]["annotations"]
    address = {LEADER_ADDRESS_ANNOTATION: "demo-0.demo.default"}
    assert annotations == {SIZE_ANNOTATION: "4", LEADER_NAME_ANNOTATION: "demo-0", **address, **expected}


@pytest.mark.parametrize(
    ("network", "service"),
    [
        pytest.param(None, "demo", id="none"),
        pytest.param({"subdomainPolicy": "Shared"}, "demo", id="shared"),
        pytest.param({"subdomainPolicy": "UniquePerReplica"}, "demo-0", id="its own"),
    ],
)
def test_service_name_of_workers(network: dict[str, str] | None, service: str) -> None:
    statefulset = build_worker_statefulset(SetSpec.of(make_set(networkConfig=network)), make_leader_pod())
    assert statefulset["spec"]["serviceName"] == service


def test_our_labels_take_precedence_and_user_input_is_not_mutated() -> None:
    template = make_pod_template(labels={"app": "x", NAME_LABEL: "other", GROUP_INDEX_LABEL: "99"})
    annotations = {"note": "pod", LEADER_NAME_ANNOTATION: "other", LEADER_ADDRESS_ANNOTATION: "other"}
    template["metadata"]["annotations"] = annotations
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    lws = make_set(
        labels={"team": "a", REVISION_LABEL: "other", GROUP_KEY_LABEL: "other"},
        template={"workerTemplate": template, "volumeClaimTemplates": [claim]},
    )
    before = copy.deepcopy(lws)
    statefulset = build_worker_statefulset(SetSpec.of(lws), make_leader_pod(lws))
    ours = {
        NAME_LABEL: "demo",
        GROUP_INDEX_LABEL: "0",
        GROUP_KEY_LABEL: group_key("default", "demo-0"),
        REVISION_LABEL: "key-a",
    }
    assert statefulset["metadata"]["labels"] == {"team": "a", ROLE_LABEL: "worker", **ours}
    assert statefulset["spec"]["template"]["metadata"] == {
        "labels": {"app": "x", **ours},
        "annotations": {
            "note": "pod",
            SIZE_ANNOTATION: "2",
            LEADER_NAME_ANNOTATION: "demo-0",
            LEADER_ADDRESS_ANNOTATION: "demo-0.demo.default",
        },
    }
    statefulset["spec"]["template"]["spec"]["containers"][0].clear()
    statefulset["spec"]["volumeClaimTemplates"][0]["spec"]["accessModes"].clear()
    statefulset["metadata"]["labels"].clear()
    assert lws == before


def test_workers_have_their_own_template_even_if_leaders_have_another() -> None:
    lws = make_set(template={"leaderTemplate": make_pod_template("leader:1")})
    (container,) = build_worker_statefulset(SetSpec.of(lws), make_leader_pod())["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "app:1"


def test_an_old_group_is_built_from_its_own_revision() -> None:
    old = make_set(
        size=3,
        image="app:old",
        annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone", "note": "old"},
        networkConfig={"subdomainPolicy": "UniquePerReplica"},
        template={
            "volumeClaimTemplates": [{"metadata": {"name": "old-data"}, "spec": {}}],
            "subGroupPolicy": {"subGroupPolicyType": "LeaderWorker", "subGroupSize": 3},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        },
    )
    live = make_set(size=5, image="app:new", annotations={"note": "new"}, labels={"team": "new"}, replicas=9)
    revision = parse(api_server.stored(dict(build_revision(old, record(old), 1))))
    statefulset = build_worker_statefulset(SetSpec.of(restore(live, revision)), make_leader_pod(old, 1))
    spec, pods = statefulset["spec"], statefulset["spec"]["template"]
    assert (spec["replicas"], spec["serviceName"]) == (2, "demo-1")
    assert pods["spec"]["containers"][0]["image"] == "app:old"
    assert pods["metadata"]["annotations"] == {
        SIZE_ANNOTATION: "3",
        LEADER_NAME_ANNOTATION: "demo-1",
        LEADER_ADDRESS_ANNOTATION: "demo-1.demo-1.default",
        EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone",
        f"{PREFIX}/subgroup-policy-type": "LeaderWorker",
        f"{PREFIX}/subgroup-size": "3",
    }
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["old-data"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert statefulset["metadata"]["labels"]["team"] == "new", "metadata of the set is no part of a revision"
    assert statefulset["metadata"]["annotations"]["note"] == "new"


def test_an_old_group_of_one_pod_has_no_workers() -> None:
    assert build_worker_statefulset(SetSpec.of(make_set(size=1)), make_leader_pod())["spec"]["replicas"] == 0


def test_the_service_of_a_group() -> None:
    lws = make_set(labels={"team": "a"})
    assert build_group_service("demo", make_leader_pod(lws, 3)) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo-3",
            "namespace": "default",
            "labels": {f"{PREFIX}/name": "demo"},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {f"{PREFIX}/name": "demo", f"{PREFIX}/group-index": "3"},
        },
    }


TPUS = {"name": "main", "resources": {"limits": {"google.com/tpu": "4"}}}


@pytest.mark.parametrize(
    ("containers", "expected"), [([TPUS], "true"), ([{"name": "main"}], None), (None, None)], ids=str
)
def test_workers_know_that_their_leader_requests_tpus(containers: Any, expected: str | None) -> None:
    leader = make_leader_pod()
    leader["spec"] = {"containers": containers} if containers else {}
    statefulset = build_worker_statefulset(SetSpec.of(make_set()), leader)
    annotations = statefulset["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get(f"{PREFIX}/leader-requests-tpus") == expected


def test_workers_select_the_topology_of_their_leader_and_the_users_node_selector() -> None:
    lws = make_set()
    lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] = {"pool": "a", "zone": "z"}
    before = copy.deepcopy(lws)
    statefulset = build_worker_statefulset(SetSpec.of(lws), make_leader_pod(), Placement({"zone": "z-1"}))
    assert statefulset["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "a", "zone": "z-1"}
    assert lws == before
    assert (
        "nodeSelector"
        not in build_worker_statefulset(SetSpec.of(make_set()), make_leader_pod())["spec"]["template"]["spec"]
    )


@pytest.mark.parametrize("template", [{}, {"spec": None}, {"metadata": {}}], ids=["empty", "null", "no spec"])
def test_an_empty_worker_template(template: dict[str, Any]) -> None:
    lws = make_set(template={"workerTemplate": template})
    statefulset = build_worker_statefulset(SetSpec.of(lws), make_leader_pod(), Placement({"zone": "a"}))
    assert statefulset["spec"]["template"]["spec"] == {"nodeSelector": {"zone": "a"}}
