"""Tests of what is stored of each kind, and that nothing is stored twice or changed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.leaderworkerset.tables import wakes
from lws.runtime.stored_fields import Wakes
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    PODS_RETRIED_AT_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
)
from test.unit.builders import make_leader_pod, trim


def _metadata(**more: Any) -> dict[str, Any]:
    return {
        "name": "demo-0",
        "namespace": "default",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {NAME_LABEL: "demo", "app": "x"},
        "annotations": {SIZE_ANNOTATION: "4", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": [
            {"manager": "lws", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
            {"manager": "lws", "operation": "Update", "fieldsV1": {}},
            {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {}},
        ],
        **more,
    }


TOOLS = {"annotations": {SIZE_ANNOTATION: "4", "kubectl.kubernetes.io/last-applied-configuration": ""}}
"""Objects that may be adopted also keep the keys of deployment tools."""
ADOPTABLE = TOOLS | {"labels": {NAME_LABEL: "demo", "app": "x"}}
"""Services, budgets and objects of gangs keep every label, too."""


def _owned_by(kind: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u-o", "controller": True}]


def _pod(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(ownerReferences=_owned_by("StatefulSet"), finalizers=["x"]),
        "spec": {"nodeName": "n-1", "containers": [{"name": "main", "image": "app:1"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", **status},
    }


def _started(name: str, at: str) -> dict[str, Any]:
    return {"name": name, "restartCount": 0, "ready": True, "state": {"running": {"startedAt": at}}}


def _scheduled(status: str, since: str) -> dict[str, Any]:
    more = {"reason": "SchedulingGated", "message": "0/3 nodes", "lastProbeTime": None}
    return {"type": "PodScheduled", "status": status, "lastTransitionTime": since, **more}


def _disruption(status: str) -> dict[str, Any]:
    more = {"reason": "PreemptionByScheduler", "message": "for a greater one", "lastTransitionTime": "t"}
    return {"type": "DisruptionTarget", "status": status, **more}


def _kept_of(condition: dict[str, Any]) -> dict[str, Any]:
    return {key: condition[key] for key in ("type", "status", "lastTransitionTime")}


KEPT = {
    "name": "demo-0",
    "namespace": "default",
    "uid": "u-1",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {NAME_LABEL: "demo"},
    "annotations": {SIZE_ANNOTATION: "4"},
}


def test_pods_keep_their_node_owners_and_status() -> None:
    assert trim(_pod()) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": KEPT | {"ownerReferences": _owned_by("StatefulSet")},
        "spec": {"nodeName": "n-1"},
        "status": {"phase": "Running", "conditions": []},
    }


def test_pods_keep_their_pod_group() -> None:
    pod, named = _pod(), {"scheduling.x-k8s.io/pod-group": "g"}
    pod["metadata"]["labels"] |= named
    pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    trimmed = trim(pod)
    assert trimmed["spec"] == {"nodeName": "n-1", "schedulingGroup": {"podGroupName": "g"}}
    assert trimmed["metadata"]["labels"].items() >= named.items()
    assert trimmed["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "g"


def test_pods_keep_their_first_scheduling_gate() -> None:
    pod = _pod()
    pod["spec"]["schedulingGates"] = [{"name": "example.com/quota"}, {"name": "later"}]
    assert trim(pod)["spec"] == {"nodeName": "n-1", "schedulingGates": [{"name": "example.com/quota"}]}
    assert wakes(trim(pod), trim(_pod())) == Wakes.SET


def test_the_end_of_our_gate_needs_no_pass_over_the_group_that_removed_it() -> None:
    gated, lifted = _pod(), _pod()
    gated["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    # Since Kubernetes 1.33, a removed gate also raises the generation of the pod.
    lifted["metadata"]["generation"] = 3
    assert wakes(trim(gated), trim(lifted)) == Wakes.SET


def test_the_end_of_the_gate_of_a_hash_leader_wakes_its_group() -> None:
    """The pass over the set, or a user, removes this gate."""
    gated, lifted = _pod(), _pod()
    for pod in (gated, lifted):
        pod["metadata"]["annotations"] = {GROUP_IDENTITY_ANNOTATION: "Hash"}
        pod["metadata"]["ownerReferences"] = _owned_by("ReplicaSet")
    gated["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    assert wakes(trim(gated), trim(lifted)) == Wakes.ALL


def test_pods_keep_containers_that_use_tpus() -> None:
    """Workers get a variable that depends on the TPUs of their leader."""
    pod, using = _pod(), {"limits": {"google.com/tpu": "4"}}
    pod["spec"]["containers"].append({"name": "tpu", "image": "app:1", "resources": using})
    assert trim(pod)["spec"] == {"nodeName": "n-1", "containers": [{"name": "tpu", "resources": using}]}
    assert trim(trim(pod)) == trim(pod)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "x", "lastTransitionTime": "t"},
                ]
            },
            {"conditions": [{"type": "Ready", "status": "False"}]},
            id="readiness",
        ),
        pytest.param({"conditions": None}, {"conditions": []}, id="no-conditions"),
        pytest.param(
            {"conditions": [_scheduled("True", "2026-01-01T00:00:01Z")]},
            {"conditions": []},
            id="placed at once",
        ),
        pytest.param(
            {"conditions": [_scheduled("True", "2026-01-01T01:00:00Z")]},
            {"conditions": [_kept_of(_scheduled("True", "2026-01-01T01:00:00Z"))]},
            id="placed after an hour",
        ),
        pytest.param(
            {"conditions": [_scheduled("False", "2026-01-01T00:00:00Z")]},
            {"conditions": [_kept_of(_scheduled("False", "2026-01-01T00:00:00Z"))]},
            id="gated",
        ),
        pytest.param(
            {"conditions": [_disruption("True")]},
            {
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                ]
            },
            id="preempted",
        ),
        pytest.param(
            {"conditions": [{**_disruption("True"), "type": "TerminationTarget"}]},
            {
                "conditions": [
                    {"type": "TerminationTarget", "status": "True", "reason": "PreemptionByScheduler"}
                ]
            },
            id="preempted by Kueue",
        ),
        pytest.param(
            {"conditions": [_disruption("False")]}, {"conditions": []}, id="not preempted after all"
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted"}, {"phase": "Failed", "reason": "Evicted"}, id="evicted"
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main", "restartCount": 0, "ready": True, "image": "app:1"}]},
            {},
            id="containers-that-never-restarted",
        ),
        pytest.param({"containerStatuses": None, "initContainerStatuses": None}, {}, id="no-containers"),
        pytest.param(
            {
                "initContainerStatuses": [{"name": "init", "restartCount": 1, "lastState": {}}],
                "containerStatuses": [
                    {"name": "calm", "restartCount": 0},
                    {
                        "name": "main",
                        "restartCount": 3,
                        "lastState": {
                            "terminated": {
                                "exitCode": 137,
                                "reason": "OOMKilled",
                                "startedAt": "s",
                                "finishedAt": "t",
                                "containerID": "x",
                            }
                        },
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    },
                ],
            },
            {
                "initContainerStatuses": [{"name": "init", "restartCount": 1}],
                "containerStatuses": [
                    {
                        "name": "main",
                        "restartCount": 3,
                        "lastState": {
                            "terminated": {"exitCode": 137, "reason": "OOMKilled"},
                        },
                    }
                ],
            },
            id="restarts-and-how-the-last-one-ended",
        ),
        pytest.param(
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "calm", "restartCount": 0, "state": {"terminated": {"exitCode": 0}}},
                    {"name": "main", "restartCount": 0, "state": {"terminated": {"exitCode": 3, "x": 1}}},
                ],
            },
            {
                "phase": "Failed",
                "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}],
            },
            id="which-container-took-the-pod-down",
        ),
        pytest.param(
            {
                "initContainerStatuses": [_started("before", "6")],
                "containerStatuses": [_started("a", "4"), _started("b", "5"), _started("c", "3")],
            },
            {},
            id="no-times-of-kubelets",
        ),
    ],
)
def test_trimmed_status_of_a_pod(status: dict[str, Any], expected: dict[str, Any]) -> None:
    assert trim(_pod(**status))["status"] == {"phase": "Running", "conditions": []} | expected


def test_pods_keep_which_restarted_init_containers_are_sidecars() -> None:
    pod = _pod(
        initContainerStatuses=[
            {"name": name, "restartCount": count} for name, count in (("s", 1), ("calm", 0), ("once", 1))
        ]
    )
    pod["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "image": "x"},
        {"name": "calm", "restartPolicy": "Always", "image": "x"},
        {"name": "once", "image": "x"},
    ]
    assert trim(pod)["spec"] == {
        "nodeName": "n-1",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
    }


def test_a_pod_without_spec_and_status_is_pending() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u"}}
    assert trim(pod) == {**pod, "spec": {}, "status": {"phase": "Pending", "conditions": []}}


def test_pods_keep_their_controller_revision_hash() -> None:
    pod = _pod()
    pod["metadata"]["labels"]["controller-revision-hash"] = "demo-6f"
    assert trim(pod)["metadata"]["labels"]["controller-revision-hash"] == "demo-6f"


def test_worker_statefulsets_keep_their_numbers() -> None:
    workers = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(ownerReferences=_owned_by("Pod")),
        "spec": {"replicas": 3, "ordinals": {"start": 1}, "template": {"spec": {}}, "serviceName": "demo"},
        "status": {
            "observedGeneration": 2,
            "replicas": 3,
            "availableReplicas": 2,
            "readyReplicas": 2,
            "currentRevision": "a",
            "updateRevision": "b",
            "collisionCount": 0,
        },
    }
    assert trim(workers) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": KEPT | TOOLS | {"generation": 2, "ownerReferences": _owned_by("Pod")},
        "spec": {"replicas": 3, "ordinals": {"start": 1}},
        "status": {
            "observedGeneration": 2,
            "replicas": 3,
            "availableReplicas": 2,
            "currentRevision": "a",
            "updateRevision": "b",
        },
    }


@pytest.mark.parametrize(("when_deleted", "keeps_policy"), [("Delete", True), ("Retain", False)])
def test_worker_statefulsets_keep_that_their_claims_are_deleted_with_them(
    when_deleted: str, keeps_policy: bool
) -> None:
    policy = {"whenDeleted": when_deleted, "whenScaled": "Retain"}
    workers = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(ownerReferences=_owned_by("Pod")),
        "spec": {"persistentVolumeClaimRetentionPolicy": policy},
    }
    expected = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}} if keeps_policy else {}
    assert trim(workers)["spec"] == expected


def test_pods_keep_their_deletion_cost() -> None:
    pod = _pod()
    pod["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-1", "x": "y"}
    assert trim(pod)["metadata"]["annotations"] == {"controller.kubernetes.io/pod-deletion-cost": "-1"}


def test_services_for_clients_keep_their_ports() -> None:
    ports = [{"port": 80, "protocol": "TCP", "nodePort": 30080}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(),
        "spec": {"clusterIP": "10.0.0.1", "ports": ports, "type": "NodePort", "selector": {"a": "b"}},
    }
    spec = service["spec"]
    assert trim(service)["spec"] == spec
    service["metadata"]["ownerReferences"] = _owned_by("LeaderWorkerSet")
    assert trim(service)["spec"] == spec
    service["spec"] = {
        "clusterIP": "None",
        "type": "ClusterIP",
        "publishNotReadyAddresses": True,
        "selector": {},
    }
    assert trim(service)["spec"] == {"publishNotReadyAddresses": True, "selector": {}}
    service["spec"] = {"type": "ExternalName", "externalName": "elsewhere"}
    assert trim(service)["spec"] == {"type": "ExternalName", "selector": {}}


@pytest.mark.parametrize(
    "owners", [_owned_by("LeaderWorkerSet"), [], None], ids=["of-a-set", "orphan", "none"]
)
def test_other_statefulsets_keep_all_but_foreign_managed_fields(
    owners: list[dict[str, Any]] | None,
) -> None:
    leaders = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(ownerReferences=owners),
        "spec": {"replicas": 3, "template": {"spec": {"containers": []}}},
        "status": {"replicas": 3, "collisionCount": 0},
    }
    managed = [{"manager": "lws", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
    assert trim(leaders) == {**leaders, "metadata": leaders["metadata"] | {"managedFields": managed}}


@pytest.mark.parametrize("selector", [{"a": "b"}, None])
def test_services_keep_their_selector_and_orphans_their_managed_fields(
    selector: dict[str, str] | None,
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(ownerReferences=_owned_by("LeaderWorkerSet")),
        "spec": {"clusterIP": "None", "ports": [], "selector": selector},
    }
    assert trim(service) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": KEPT | ADOPTABLE | {"ownerReferences": _owned_by("LeaderWorkerSet")},
        "spec": {"selector": selector or {}},
    }
    entries = [entry for entry in _metadata()["managedFields"] if entry["manager"] == "lws"]
    assert trim({**service, "metadata": _metadata()}) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": KEPT | ADOPTABLE | {"managedFields": entries},
        "spec": {"selector": selector or {}, "clusterIP": "None"},
    }


def test_disruption_budgets_keep_their_spec() -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(), "spec": spec}
    entries = [entry for entry in _metadata()["managedFields"] if entry["manager"] == "lws"]
    for whose, expected in (
        (
            {"ownerReferences": _owned_by("LeaderWorkerSet")},
            {"ownerReferences": _owned_by("LeaderWorkerSet")},
        ),
        ({}, {"managedFields": entries}),
    ):
        stored = {**budget, "metadata": _metadata(**whose), "status": {"disruptionsAllowed": 1}}
        assert trim(stored) == {**budget, "metadata": KEPT | ADOPTABLE | expected}


@pytest.mark.parametrize(
    ("data", "is_kept"),
    [
        pytest.param({"spec": {"leaderWorkerTemplate": {"size": 2}}}, True, id="ours"),
        pytest.param({"spec": {"template": {}}}, False, id="of-a-StatefulSet"),
        pytest.param({"spec": None}, False, id="of-something-else"),
        pytest.param(["a"], False, id="of-another-owner"),
        pytest.param(None, False, id="none"),
    ],
)
def test_revisions_keep_their_data_only_if_it_is_of_a_set(data: Any, is_kept: bool) -> None:
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": _metadata(labels={NAME_LABEL: "demo", REVISION_LABEL: "k", "app": "x"}),
        "revision": 4,
        "data": data,
    }
    trimmed = trim(revision)
    assert trimmed["revision"] == 4
    assert trimmed["metadata"]["labels"] == {NAME_LABEL: "demo", REVISION_LABEL: "k", "app": "x"}
    assert "managedFields" not in trimmed["metadata"]
    assert trimmed.get("data") == (data if is_kept else None)


def test_sets_keep_all_but_their_managed_fields() -> None:
    metadata = _metadata(annotations={"of": "a user"})
    lws = {"apiVersion": "x/v1", "kind": "LeaderWorkerSet", "metadata": metadata, "spec": {"a": 1}}
    expected = {field: value for field, value in metadata.items() if field != "managedFields"}
    assert "managedFields" in metadata and trim(lws) == {**lws, "metadata": expected}


def test_a_kind_that_is_not_watched_is_not_trimmed() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": _metadata(), "spec": {"a": 1}}
    assert trim(node) == node


ALL = [
    _pod(
        containerStatuses=[{"name": "main", "restartCount": 1, "lastState": {"terminated": {"exitCode": 1}}}]
    ),
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _metadata(ownerReferences=_owned_by("Pod")),
        "spec": {"replicas": 3},
        "status": {"replicas": 3},
    },
    {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _metadata(), "spec": {}, "status": {}},
    {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(), "spec": {"selector": {"a": "b"}}},
    {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": _metadata(),
        "revision": 1,
        "data": {"spec": {"leaderWorkerTemplate": {}}},
    },
    {"apiVersion": "x/v1", "kind": "LeaderWorkerSet", "metadata": _metadata(), "spec": {}},
]


@pytest.mark.parametrize("obj", ALL, ids=lambda obj: obj["kind"])
def test_trimming_is_idempotent_and_does_not_mutate(obj: dict[str, Any]) -> None:
    before = copy.deepcopy(obj)
    once = trim(obj)
    assert trim(once) == once
    assert obj == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pod: pod["status"].update(podIP="10.0.0.2"), id="address"),
        pytest.param(lambda pod: pod["metadata"]["labels"].update(app="y"), id="label-of-the-user"),
        pytest.param(lambda pod: pod["metadata"]["managedFields"].clear(), id="managed-fields"),
        pytest.param(
            lambda pod: pod["status"].update(conditions=[{"type": "Initialized", "status": "True"}]),
            id="other-condition",
        ),
        pytest.param(
            lambda pod: pod["status"].update(
                containerStatuses=[{"name": "m", "restartCount": 0, "started": True}]
            ),
            id="container-started",
        ),
    ],
)
def test_changes_that_no_decision_reads_are_trimmed(change: Any) -> None:
    before, after = _pod(), _pod()
    change(after)
    assert trim(before) == trim(after)


def test_unreadable_fields_of_a_status_become_null() -> None:
    lws = {"apiVersion": "a/v1", "kind": "LeaderWorkerSet", "metadata": _metadata(), "status": "text"}
    assert trim(lws)["status"] == {}
    status = {"members": ["0"], "restarts": {"0": "1.1.1.a"}}
    assert trim({**lws, "status": status})["status"] == {**status, "members": None}


def test_data_that_is_too_deep_to_compare_is_dropped() -> None:
    deep: Any = "leaf"
    for _ in range(500):
        deep = {"a": [deep]}
    data = {"spec": {"leaderWorkerTemplate": {"size": deep}}}
    revision = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": _metadata(), "data": data}
    assert "data" not in trim(revision)


@pytest.mark.parametrize("owner", ["LeaderWorkerSet", "Pod"])
@pytest.mark.parametrize(
    ("annotations", "woken"),
    [
        pytest.param({SIZE_ANNOTATION: "4", PODS_RETRIED_AT_ANNOTATION: "now"}, Wakes.NONE, id="retried"),
        pytest.param({SIZE_ANNOTATION: "4"}, Wakes.NONE, id="same"),
        pytest.param({SIZE_ANNOTATION: "5", PODS_RETRIED_AT_ANNOTATION: "now"}, Wakes.ALL, id="edited too"),
        pytest.param(None, Wakes.ALL, id="all are gone"),
    ],
)
def test_the_retry_annotation_of_a_statefulset_wakes_no_pass(
    owner: str, annotations: dict[str, str] | None, woken: Wakes
) -> None:
    before, after = (
        trim(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": _metadata(
                    ownerReferences=_owned_by(owner), annotations=values, resourceVersion=at
                ),
                "spec": {"replicas": 3},
                "status": {"replicas": 2},
            }
        )
        for values, at in (({SIZE_ANNOTATION: "4"}, "7"), (annotations, "8"))
    )
    assert wakes(before, after) is woken
    assert wakes(after, before) is woken
    if annotations:
        assert after["metadata"]["annotations"] == annotations, "the next pass knows it"


@pytest.mark.parametrize(
    ("annotations", "woken"),
    [
        pytest.param({SIZE_ANNOTATION: "4", INITIAL_REPLICAS_ANNOTATION: "2"}, Wakes.NONE, id="baseline"),
        pytest.param({INITIAL_REPLICAS_ANNOTATION: "2"}, Wakes.ALL, id="another is gone"),
    ],
)
def test_annotations_of_a_disaggregatedset_on_a_set_wake_no_group(
    annotations: dict[str, str], woken: Wakes
) -> None:
    before, after = (
        trim(
            {
                "apiVersion": "x/v1",
                "kind": "LeaderWorkerSet",
                "metadata": _metadata(annotations=values, resourceVersion=at),
                "spec": {"replicas": 3},
            }
        )
        for values, at in (({SIZE_ANNOTATION: "4"}, "7"), (annotations, "8"))
    )
    assert wakes(before, after) is woken


@pytest.mark.parametrize(
    ("status", "woken"),
    [
        pytest.param({"readyReplicas": 2, "availableReplicas": 2}, Wakes.NONE, id="ready ones"),
        pytest.param({"currentReplicas": 2, "updatedReplicas": 2}, Wakes.NONE, id="by revision"),
        pytest.param({"replicas": 2}, Wakes.SET, id="that are there"),
        pytest.param({"observedGeneration": 3}, Wakes.SET, id="acted on"),
        pytest.param({"currentRevision": "b"}, Wakes.SET, id="all moved"),
        pytest.param({"updateRevision": "b"}, Wakes.SET, id="a new template"),
    ],
)
def test_counts_of_the_leader_statefulset_that_its_pods_show_wake_no_pass(
    status: dict[str, Any], woken: Wakes
) -> None:
    stored = {"replicas": 1, "observedGeneration": 2, "currentRevision": "a", "updateRevision": "a"}
    before, after = (
        trim(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": _metadata(ownerReferences=_owned_by("LeaderWorkerSet"), resourceVersion=at),
                "spec": {"replicas": 3},
                "status": {**stored, **update},
            }
        )
        for update, at in (({}, "7"), (status, "8"))
    )
    assert wakes(before, after) is wakes(after, before) is woken


def test_ready_containers_of_a_hash_leader_are_a_step_of_its_start() -> None:
    """Under LeaderReady, workers wait for the leader's containers. Unready ones are news for the group."""
    owner = {"kind": "ReplicaSet", "name": "demo-abc", "controller": True}
    pods = []
    for status in ("False", "True"):
        pod = make_leader_pod(ready=False)
        pod["metadata"]["ownerReferences"] = [owner]
        pod["status"]["conditions"] = [{"type": "ContainersReady", "status": status}]
        pods.append(trim(pod))
    starting, up = pods
    assert (wakes(starting, up), wakes(up, starting)) == (Wakes.LATER, Wakes.ALL)
