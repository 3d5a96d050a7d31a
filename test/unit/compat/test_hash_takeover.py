"""Tests of a set with Hash groups that upstream's controller left, settled or in the middle of a rollout.

A state with a leader StatefulSet is converted to what 0.11 and 1.0 have instead: a Deployment of leaders,
ReplicaSets, keys instead of indices, and workers named by host (1.0) or by leader pod (0.11).
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.kube.conditions import is_true
from lws.kube.metadata import labels_of, name_of, owner_reference, uid_of
from lws.leaderworkerset.pod_identity import group_key, hash_host_name
from lws.runtime.actions import Action, Apply, Create
from lws_api.leaderworkerset.v1 import (
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_READY_CONDITION,
    GROUP_REPLACEMENT_GATE,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    ROLE_LABEL,
)
from test.unit.compat.states import State, load
from test.unit.stories.hash_cluster import HashCluster

Object = dict[str, Any]
READY_GATE = {"conditionType": GROUP_READY_CONDITION}


class Recorded(HashCluster):
    """A cluster that records our actions.

    wrote: every action on anything but the set and its history.
    """

    def __init__(self, lws: Object) -> None:
        super().__init__(lws)
        self.wrote: list[str] = []

    def _do(self, action: Action) -> None:
        kind = action.intent["kind"] if isinstance(action, Apply | Create) else action.target.kind
        self.wrote += [f"{type(action).__name__} {kind}"] * (
            kind not in ("LeaderWorkerSet", "ControllerRevision")
        )
        super()._do(action)


def _deployment(state: State) -> Object:
    deployment = copy.deepcopy(state.leaders)
    template, spec = deployment["spec"]["template"], deployment["spec"]
    template["metadata"]["annotations"][GROUP_IDENTITY_ANNOTATION] = "Hash"
    template["spec"] |= {"subdomain": "web", "readinessGates": [READY_GATE]}
    deployment["metadata"]["labels"][ROLE_LABEL] = "leader"
    deployment["metadata"] |= {"generation": 2, "uid": "uid-of-deployment"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
    deployment |= {"kind": "Deployment", "status": {"observedGeneration": 2}}
    deployment["spec"] = {
        "replicas": 4,
        "selector": spec["selector"],
        "strategy": strategy,
        "template": template,
        "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 10,
    }
    deployment["metadata"]["annotations"][REPLICAS_ANNOTATION] = "4"
    owned = deployment["metadata"]["managedFields"][0]["fieldsV1"]
    of_template = owned["f:spec"]["f:template"]
    of_template["f:metadata"]["f:annotations"][f"f:{GROUP_IDENTITY_ANNOTATION}"] = {}
    of_template["f:spec"] |= {"f:subdomain": {}, "f:readinessGates": {}}
    rolling = {"f:maxUnavailable": {}, "f:maxSurge": {}}
    owned["f:metadata"]["f:labels"][f"f:{ROLE_LABEL}"] = {}
    owned["f:spec"] = {"f:replicas": {}, "f:selector": {}, "f:template": of_template}
    owned["f:spec"]["f:strategy"] = {"f:type": {}, "f:rollingUpdate": rolling}
    return deployment


def _replica_set(deployment: Object, key: str, replicas: int) -> Object:
    template = copy.deepcopy(deployment["spec"]["template"])
    template["metadata"]["labels"][REVISION_LABEL] = key
    metadata = {"name": f"web-{key[:6]}1", "namespace": "default", "uid": f"uid-of-{key}", "generation": 1}
    metadata |= {"labels": labels_of(template), "ownerReferences": [owner_reference(deployment)]}
    spec = {"replicas": replicas, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def _group(state: State, replica_set: Object, index: int, by_host: bool) -> list[Object]:
    """Return a ready leader, its StatefulSet and its worker."""
    leader, workers, worker = copy.deepcopy(state.group(index, labels_of(replica_set)[REVISION_LABEL]))
    key, name = group_key("default", f"random-{index}"), f"{name_of(replica_set)}-x{index}"
    host = hash_host_name("web", key)
    of_workers = host if by_host else name
    for metadata in (obj["metadata"] for obj in (leader, workers, worker, workers["spec"]["template"])):
        metadata["labels"] |= {GROUP_INDEX_LABEL: key, GROUP_KEY_LABEL: key}
    workers["spec"]["selector"]["matchLabels"] |= {GROUP_INDEX_LABEL: key, GROUP_KEY_LABEL: key}
    for metadata in (leader["metadata"], workers["spec"]["template"]["metadata"], worker["metadata"]):
        metadata["annotations"][GROUP_IDENTITY_ANNOTATION] = "Hash"
    for metadata in (workers["spec"]["template"]["metadata"], worker["metadata"]):
        address = f"{host}.web.default"
        metadata["annotations"] |= {LEADER_NAME_ANNOTATION: name, LEADER_ADDRESS_ANNOTATION: address}
    leader["metadata"] |= {"name": name, "ownerReferences": [owner_reference(replica_set)]}
    leader["metadata"]["labels"].pop("controller-revision-hash")
    leader["spec"] |= {"hostname": host, "readinessGates": [READY_GATE]}
    true = [
        {"type": condition, "status": "True"}
        for condition in ("Ready", "ContainersReady", GROUP_READY_CONDITION)
    ]
    leader["status"]["conditions"] = true
    workers["metadata"] |= {"name": of_workers, "ownerReferences": [owner_reference(leader)]}
    workers["metadata"]["labels"][ROLE_LABEL] = "worker"
    worker["metadata"] |= {"name": f"{of_workers}-1", "ownerReferences": [owner_reference(workers)]}
    worker["spec"]["hostname"] = f"{of_workers}-1"
    return [leader, workers, worker]


def taken_over(by_host: bool, is_rolling: bool) -> Recorded:
    """Return a set of 4 groups with surge 1.

    is_rolling: whether 2 old groups are ready, another one terminates, 2 new ones are ready and the fifth
    leader is gated.
    """
    state = load("mid-rollout-surge" if is_rolling else "at-rest-v1.0")
    lws = copy.deepcopy(state.lws)
    lws["spec"] |= {"groupIdentity": "Hash", "groupReplacementPolicy": "PostTermination", "replicas": 4}
    lws["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"] = {"maxUnavailable": 1, "maxSurge": 1}
    world = Recorded(lws)
    deployment = _deployment(state)
    new_key = labels_of(deployment["spec"]["template"])[REVISION_LABEL]
    new = _replica_set(deployment, new_key, 3 if is_rolling else 4)
    objects = [*state.revisions, state.get("Service", "web"), deployment, new]
    objects += [obj for index in range(2 if is_rolling else 4) for obj in _group(state, new, index, by_host)]
    if is_rolling:
        old_key = min({labels_of(pod)[REVISION_LABEL] for pod in state.of_kind("Pod")} - {new_key})
        old = _replica_set(deployment, old_key, 2)
        groups = [_group(state, old, index, by_host) for index in (2, 3, 4)]
        gated = copy.deepcopy(_group(state, new, 7, by_host)[0])
        gated["spec"] |= {"schedulingGates": [{"name": GROUP_REPLACEMENT_GATE}], "nodeName": ""}
        gated["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = "-100"
        gated["status"] = {"phase": "Pending", "conditions": []}
        objects += [old, gated, *(obj for group in groups for obj in group)]
    for obj in objects:
        world.put(copy.deepcopy(obj))
    if is_rolling:
        world.delete(world.objects["Pod", name_of(groups[-1][0])], is_foreground=True)
    return world


def uids(world: HashCluster, *keys: str) -> dict[str, str]:
    pods = [obj for (kind, _), obj in world.objects.items() if kind == "Pod"]
    return {name_of(pod): uid_of(pod) for pod in pods if not keys or labels_of(pod)[REVISION_LABEL] in keys}


both_names = pytest.mark.parametrize("by_host", [True, False], ids=["1.0", "0.11"])


@both_names
async def test_at_rest_only_the_status_is_written(by_host: bool) -> None:
    world = taken_over(by_host, is_rolling=False)
    before = uids(world)
    assert len(before) == 8
    await world.settle()
    assert (world.wrote, uids(world)) == ([], before)
    status = world.lws["status"]
    assert status["currentRevision"] == status["updateRevision"] and is_true(
        status["conditions"], "Available"
    )


@both_names
async def test_mid_rollout_only_gates_are_lifted_and_no_new_group_is_recreated(by_host: bool) -> None:
    world = taken_over(by_host, is_rolling=True)
    key = labels_of(world.objects["Deployment", "web"]["spec"]["template"])[REVISION_LABEL]
    before, everything = uids(world, key), uids(world)
    await world.passes()
    assert world.wrote == [] and uids(world) == everything
    assert len(world.gated()) == 1, "the former group terminates"
    status = world.lws["status"]
    assert is_true(status["conditions"], "UpdateInProgress")
    assert status["currentRevision"] != status["updateRevision"]
    await world.settle()
    after = uids(world, key)
    assert before.items() <= after.items() and len(after) == len(uids(world)) == 8
    assert not {write for write in world.wrote if write.split()[1] in ("Deployment", "ReplicaSet")}
    assert is_true(world.lws["status"]["conditions"], "Available")


@both_names
async def test_workers_of_a_statefulset_without_its_label_get_no_second_one(by_host: bool) -> None:
    """The streams do not show the StatefulSet any more. Another name would not clash with it."""
    world = taken_over(by_host, is_rolling=False)
    await world.settle()
    before = uids(world)
    workers = next(obj for (kind, _), obj in world.objects.items() if kind == "StatefulSet")
    labels = {key: value for key, value in labels_of(workers).items() if key != NAME_LABEL}
    gone = copy.deepcopy(workers)
    world.put({**workers, "metadata": {**workers["metadata"], "labels": labels}})
    version = world.objects["StatefulSet", name_of(workers)]["metadata"]["resourceVersion"]
    world._store.drop({**gone, "metadata": {**gone["metadata"], "resourceVersion": version}})
    await world.settle()
    assert world.wrote == ["Merge StatefulSet"] and uids(world) == before
    assert labels_of(world.objects["StatefulSet", name_of(workers)])[NAME_LABEL] == "web"
