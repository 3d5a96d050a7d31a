"""Tests of what upstream's documents and tests say about Hash groups and no other test here covers."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.conditions import find, is_true
from lws.kube.metadata import annotations_of, controller_of, labels_of, name_of
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import build_leader_deployment
from lws.runtime.actions import Apply
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
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.builders import make_pod_template
from test.unit.stories.hash_cluster import HashCluster
from test.unit.stories.test_hash_sets import keys_of, make_hash_set, new_image, settled


def test_the_deployment_has_the_expected_fields() -> None:
    """Budgets are copied unchanged: a surge may exceed the replicas."""
    lws = make_hash_set(replicas=2, max_surge=5, max_unavailable="25%", labels={"team": "a"})
    deployment = build_leader_deployment(SetSpec.of(lws), "k1", is_paused=False)
    metadata, spec = deployment["metadata"], deployment["spec"]
    assert metadata["labels"] == {"team": "a", NAME_LABEL: "demo", REVISION_LABEL: "k1", ROLE_LABEL: "leader"}
    assert metadata["annotations"] == {REPLICAS_ANNOTATION: "2"}
    (owner,) = metadata["ownerReferences"]
    assert owner["kind"] == "LeaderWorkerSet" and owner["controller"] and owner["blockOwnerDeletion"]
    assert spec.keys() == {"replicas", "selector", "strategy", "template"} and spec["replicas"] == 2
    assert spec["selector"] == {"matchLabels": {NAME_LABEL: "demo", WORKER_INDEX_LABEL: "0"}}
    rolling = {"maxUnavailable": "25%", "maxSurge": 5}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    template = spec["template"]
    assert template["metadata"]["labels"] == {
        NAME_LABEL: "demo",
        WORKER_INDEX_LABEL: "0",
        REVISION_LABEL: "k1",
    }
    assert template["metadata"]["annotations"] == {SIZE_ANNOTATION: "3", GROUP_IDENTITY_ANNOTATION: "Hash"}
    assert template["spec"]["subdomain"] == "demo"
    assert template["spec"]["readinessGates"] == [{"conditionType": GROUP_READY_CONDITION}]


def test_amounts_beyond_int32_are_written_as_the_largest_int32() -> None:
    """The CRD has no upper limit for them, but the API server rejects a Deployment with a larger number."""
    lws = make_hash_set(max_surge=2**31, max_unavailable=3_000_000_000)
    strategy = build_leader_deployment(SetSpec.of(lws), "k1", is_paused=False)["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": 2**31 - 1, "maxSurge": 2**31 - 1}


@pytest.mark.parametrize(
    ("unavailable", "surge", "written"),
    [
        (0, 0, 1),
        ("0%", 0, 1),
        (0, "00%", 1),
        ("20%", 0, "20%"),
        (0, "10%", 0),
        (0, 10, 0),
        ("10%", "0%", "10%"),
    ],
)
def test_limits_that_are_both_zero_are_written_as_one_unavailable_group(
    unavailable: int | str, surge: int | str, written: int | str
) -> None:
    """A set of no groups may have them, but the API server rejects such a Deployment."""
    lws = make_hash_set(replicas=0, max_surge=surge, max_unavailable=unavailable)
    strategy = build_leader_deployment(SetSpec.of(lws), "k1", is_paused=False)["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": written, "maxSurge": surge}


async def test_a_new_set_is_announced_by_events() -> None:
    world = HashCluster(make_hash_set())
    planned = plan(await world.observed())
    actions = [action for sequence in planned.sequences for action in sequence]
    notes = {announce.reason: announce.note for action in actions for announce in action.announce}
    key = labels_of(next(action for action in actions if isinstance(action, Apply)).intent)[REVISION_LABEL]
    assert notes == {
        "CreatingRevision": f"Creating revision with key {key} for a newly created LeaderWorkerSet",
        "GroupsProgressing": "Created leader deployment demo",
    }
    failures = [
        action.failure for action in actions if isinstance(action, Apply) and action.failure is not None
    ]
    assert ("FailedCreate", "Failed to create leader deployment demo") in {
        (failure.reason, failure.note) for failure in failures
    }


async def test_a_set_waits_for_a_terminating_deployment() -> None:
    world = await settled()
    deletion = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": ["foregroundDeletion"]}
    world.change("Deployment", "demo", {"metadata": deletion})
    new_image(world)
    planned = plan(await world.observed())
    assert not any(isinstance(action, Apply) for sequence in planned.sequences for action in sequence)
    assert planned.waiting_for == "the former leader Deployment to be gone" and planned.again_after


async def test_worker_statefulsets_are_named_after_the_host_of_their_leader() -> None:
    world = await settled()
    for leader in world.leaders():
        host = leader["spec"]["hostname"]
        statefulset = world.objects["StatefulSet", host]
        key = {label: labels_of(leader)[label] for label in (GROUP_INDEX_LABEL, GROUP_KEY_LABEL)}
        assert statefulset["spec"]["serviceName"] == leader["spec"]["subdomain"] == "demo"
        assert statefulset["spec"]["selector"]["matchLabels"] == {NAME_LABEL: "demo", **key}
        assert labels_of(statefulset)[ROLE_LABEL] == "worker" and statefulset["spec"]["replicas"] == 2
        owner = controller_of(statefulset)
        assert owner is not None and (owner["kind"], owner["name"]) == ("Pod", name_of(leader))
        annotations = annotations_of(statefulset["spec"]["template"])
        assert annotations[LEADER_ADDRESS_ANNOTATION] == f"{host}.demo.default"
        assert annotations[GROUP_IDENTITY_ANNOTATION] == "Hash"
        assert annotations[LEADER_NAME_ANNOTATION] == name_of(leader)
        assert ROLE_LABEL not in labels_of(statefulset["spec"]["template"])


async def test_the_leader_condition_shows_whether_its_workers_are_ready() -> None:
    world = await settled(template={"restartPolicy": "None"})
    leader = name_of(world.leaders()[0])

    def group_ready() -> tuple[str, str]:
        condition = find(world.objects["Pod", leader]["status"]["conditions"], GROUP_READY_CONDITION)
        assert condition is not None
        return condition["status"], condition["reason"]

    assert group_ready() == ("True", "WorkerStatefulSetReady")
    host = world.objects["Pod", leader]["spec"]["hostname"]
    world.change("StatefulSet", host, {"status": {"availableReplicas": 1}})
    await world.passes()
    assert group_ready() == ("False", "WorkerStatefulSetNotReady")
    # Kubernetes treats a missing condition as False, so it is not written first.
    others = [
        condition
        for condition in world.objects["Pod", leader]["status"]["conditions"]
        if condition["type"] != GROUP_READY_CONDITION
    ]
    world.change("Pod", leader, {"status": {"conditions": others}})
    await world.passes()
    assert world.objects["Pod", leader]["status"]["conditions"] == others


async def test_workers_are_created_once_the_containers_of_their_leader_are_ready() -> None:
    """The leader pod becomes ready only with its workers."""
    world = HashCluster(make_hash_set(startupPolicy="LeaderReady"))
    world.failing.add("app:1")
    for _ in range(5):
        await world.turn()
    assert not [name for kind, name in world.objects if kind == "StatefulSet"]
    world.failing.clear()
    await world.settle()
    assert world.lws["status"]["readyReplicas"] == 2


async def test_a_group_has_the_size_of_its_revision() -> None:
    world = await settled()
    sizes = {"size": 2, "workerTemplate": make_pod_template("app:2")}
    world.edit(leaderWorkerTemplate=sizes, rolloutStrategy={"paused": True})
    await world.settle()
    leader = world.leaders()[0]
    world.delete(world.objects["Pod", f"{leader['spec']['hostname']}-1"])
    await world.settle()
    assert labels_of(leader)[GROUP_INDEX_LABEL] not in keys_of(world)
    assert [len(world.pods_of(leader)) for leader in world.leaders()] == [3, 3]
    world.edit(rolloutStrategy={"paused": False})
    await world.settle()
    assert [len(world.pods_of(leader)) for leader in world.leaders()] == [2, 2]


async def test_a_group_of_one_pod_has_no_workers() -> None:
    world = await settled(size=1)
    assert not [name for kind, name in world.objects if kind == "StatefulSet"]
    assert world.lws["status"]["readyReplicas"] == 2


async def test_a_changed_replacement_policy_takes_effect_at_once() -> None:
    world = await settled()
    leader = world.leaders()[0]
    world.stay(leader, turns=10)
    world.delete(leader)
    await world.turn()
    await world.turn()
    (waiting,) = world.gated()
    world.edit(groupReplacementPolicy="Immediate")
    await world.turn()
    assert not world.gated()
    admitted = world.objects["Pod", name_of(waiting)]
    assert {"name": GROUP_REPLACEMENT_GATE} not in (admitted["spec"].get("schedulingGates") or ())


async def test_template_and_replicas_change_in_one_apply() -> None:
    world = await settled()
    new_image(world, replicas=3)
    planned = plan(await world.observed())
    applies = [
        action.intent
        for sequence in planned.sequences
        for action in sequence
        if isinstance(action, Apply) and action.intent["kind"] == "Deployment"
    ]
    (intent,) = applies
    assert intent["spec"]["replicas"] == 3
    assert intent["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"


@pytest.mark.parametrize(
    ("status", "counters"),
    [
        pytest.param({"replicas": 3, "readyReplicas": 1, "updatedReplicas": 2}, (3, 1, 2), id="all three"),
        pytest.param({"replicas": 2}, (2, 0, 0), id="zero is left out"),
    ],
)
async def test_status_counters_match_the_deployment(
    status: dict[str, Any], counters: tuple[int, ...]
) -> None:
    world = await settled()
    deployment = world.objects["Deployment", "demo"]
    world.put({**deployment, "status": {"observedGeneration": 1, **status}})
    await world.passes()
    lws_status = world.lws["status"]
    assert (
        tuple(lws_status.get(field, 0) for field in ("replicas", "readyReplicas", "updatedReplicas"))
        == counters
    )
    assert lws_status["hpaPodSelector"] == f"{NAME_LABEL}=demo,{WORKER_INDEX_LABEL}=0"


async def test_a_set_is_not_available_before_its_deployment_has_observed_the_template() -> None:
    """Until then the Deployment counts pods of the former template."""
    world = await settled()
    new_image(world)
    await world.passes()
    stale = world.objects["Deployment", "demo"]
    assert stale["status"]["updatedReplicas"] == 2
    await world.passes()
    conditions = world.lws["status"]["conditions"]
    assert is_true(conditions, "UpdateInProgress") and not is_true(conditions, "Available")
