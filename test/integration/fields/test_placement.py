"""The real scheduler gives each group and subgroup its own topology domain."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.metadata import is_terminating
from lws.kube.pods import has_gate
from lws.leaderworkerset.status.status import REPLICA_FAILURE
from lws_api.leaderworkerset.placement import (
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    NodeReturn,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    SIZE_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    WORKER_INDEX_LABEL,
)
from test.harness.drains import cordoned, without_node
from test.harness.events import events_of, wait_for_events
from test.harness.groups import condition, labels_of, name_of, pod_uids, pods_of, settle
from test.harness.manifests import a_set, new_image, pod_template, rolling, scaled_to
from test.harness.waiting import eventually
from test.harness.world import SET, World
from tools.localcluster.nodes import POOL_LABEL

HOST = "kubernetes.io/hostname"
SUBGROUPS = {"subGroupPolicy": {"subGroupPolicyType": "LeaderWorker", "subGroupSize": 2}}


def domains(world: World, name: str, topology: str, *labels: str) -> dict[tuple[str, ...], set[str]]:
    """Return the topology domains of pods, grouped by the values of these labels."""
    nodes = {node["metadata"]["name"]: labels_of(node) for node in world.api.get("/api/v1/nodes")["items"]}
    result: dict[tuple[str, ...], set[str]] = {}
    for pod in pods_of(world, name):
        who = tuple(labels_of(pod)[label] for label in labels)
        result.setdefault(who, set()).add(nodes[pod["spec"]["nodeName"]][topology])
    return result


def assert_apart(domains: dict[tuple[str, ...], set[str]], count: int) -> None:
    assert len(domains) == count
    assert all(len(used) == 1 for used in domains.values()), domains
    assert len(set.union(*domains.values())) == count, domains


def placed(name: str, **options: Any) -> dict[str, Any]:
    return a_set(
        name,
        2,
        4,
        group=SUBGROUPS,
        annotations={
            EXCLUSIVE_TOPOLOGY_ANNOTATION: POOL_LABEL,
            SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: HOST,
        },
        **options,
    )


def test_exclusive_placement_of_groups_and_subgroups_and_a_new_topology(world: World) -> None:
    world.create(placed("apart", rolloutStrategy=rolling(partition=1)))
    settle(world, "apart")
    assert_apart(domains(world, "apart", POOL_LABEL, GROUP_INDEX_LABEL), 2)
    assert_apart(domains(world, "apart", HOST, GROUP_INDEX_LABEL, SUBGROUP_INDEX_LABEL), 4)
    before = pod_uids(world, "apart")

    anywhere = {EXCLUSIVE_TOPOLOGY_ANNOTATION: None}
    world.patch(SET, "apart", {"metadata": {"annotations": anywhere}})
    # The partition keeps group 0 on its revision; an annotation does not bypass it.
    eventually(
        "only group 1 is recreated",
        lambda: {name for name, uid in pod_uids(world, "apart").items() if before.get(name) == uid},
        lambda same: same == {name for name in before if name.startswith("apart-0")},
    )
    settle(world, "apart", updated=1)
    former = world.get("StatefulSet", "apart-0")["spec"]["template"]
    moved = world.get("StatefulSet", "apart-1")["spec"]["template"]
    assert POOL_LABEL in former["spec"]["nodeSelector"]
    assert "nodeSelector" not in moved["spec"]
    assert EXCLUSIVE_TOPOLOGY_ANNOTATION not in moved["metadata"]["annotations"]


def test_a_leader_is_scheduled_on_any_node_after_its_former_group_is_deleted(
    world: World,
) -> None:
    """Before that, the affinity to pods of its group would leave no node for it."""
    world.create(a_set("moved", 1, 2, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: POOL_LABEL}))
    settle(world, "moved")
    (before,) = domains(world, "moved", POOL_LABEL, GROUP_INDEX_LABEL).values()
    leader, worker = world.uid("Pod", "moved-0"), world.uid("Pod", "moved-0-1")
    world.patch("Pod", "moved-0-1", {"metadata": {"finalizers": ["example.com/slow"]}})
    world.kubectl("cordon", f"--selector={POOL_LABEL}={min(before)}")
    try:
        world.kubectl("delete", "pod", "moved-0", "--force", "--grace-period=0")
        eventually("a new leader is gated", lambda: is_gated(world, "moved-0", leader))
        eventually("the former worker is terminating", lambda: is_terminating(world.get("Pod", "moved-0-1")))
        assert is_gated(world, "moved-0", leader)
        world.patch("Pod", "moved-0-1", {"metadata": {"finalizers": None}})
        world.gone_or_replaced("Pod", "moved-0-1", worker)
        settle(world, "moved", seconds=60.0)
    finally:
        world.kubectl("uncordon", f"--selector={POOL_LABEL}={min(before)}")
    (after,) = domains(world, "moved", POOL_LABEL, GROUP_INDEX_LABEL).values()
    assert not after & before


def is_gated(world: World, name: str, former: str) -> bool:
    """Report whether the pod has another UID than `former`, and waits at the gate of group replacement."""
    pod = world.find("Pod", name)
    return pod is not None and pod["metadata"]["uid"] != former and has_gate(pod, GROUP_REPLACEMENT_GATE)


def test_reserved_labels_in_templates(world: World) -> None:
    """As in upstream: identity labels in templates are overwritten, and a topology applies to leaders."""
    of_leaders = {
        "labels": {NAME_LABEL: "mine", WORKER_INDEX_LABEL: "7"},
        "annotations": {SIZE_ANNOTATION: "9", EXCLUSIVE_TOPOLOGY_ANNOTATION: POOL_LABEL},
    }
    leaders = {**pod_template(), "metadata": of_leaders}
    workers = {**pod_template(), "metadata": {"labels": {WORKER_INDEX_LABEL: "0", GROUP_INDEX_LABEL: "7"}}}
    world.create(a_set("marked", 2, 3, workers=workers, group={"leaderTemplate": leaders}))
    settle(world, "marked")
    pods = {name_of(pod): pod for pod in pods_of(world, "marked")}
    for name, pod in pods.items():
        _, group, *worker = name.split("-")
        labels = labels_of(pod)
        assert (labels[GROUP_INDEX_LABEL], labels[WORKER_INDEX_LABEL]) == (group, *(worker or ["0"]))
        assert pod["metadata"]["annotations"][SIZE_ANNOTATION] == "3"
        assert not worker or POOL_LABEL not in pod["spec"].get("nodeSelector", {})
    led = [pod["spec"]["nodeName"] for name, pod in pods.items() if name.count("-") == 1]
    nodes = {name: world.api.get(f"/api/v1/nodes/{name}")["metadata"]["labels"][POOL_LABEL] for name in led}
    assert len(set(nodes.values())) == 2, nodes


def nodes_of(world: World, name: str) -> dict[str, str]:
    """Return the node of each pod."""
    return {name_of(pod): pod["spec"]["nodeName"] for pod in pods_of(world, name)}


@pytest.mark.parametrize("returns", NodeReturn)
def test_preferred_node_return(world: World, returns: NodeReturn) -> None:
    """After a lost leader, a rollout, and a reverted scale-down, but never to a lost node."""
    world.create(a_set("back", 2, 3, annotations={NODE_RETURN_ANNOTATION: returns}))
    settle(world, "back")
    nodes, before = nodes_of(world, "back"), pod_uids(world, "back")

    world.delete("Pod", "back-0")
    eventually(
        "only group 0 is recreated",
        lambda: {name for name, uid in pod_uids(world, "back").items() if before.get(name) != uid},
        lambda new: new == {"back-0", "back-0-1", "back-0-2"},
    )
    settle(world, "back")
    assert nodes_of(world, "back") == nodes

    world.patch(SET, "back", new_image("server:2"))
    settle(world, "back")
    assert not set(before.values()) & set(pod_uids(world, "back").values())
    assert nodes_of(world, "back") == nodes

    world.patch(SET, "back", scaled_to(1))
    settle(world, "back")
    world.patch(SET, "back", scaled_to(2))
    settle(world, "back")
    assert nodes_of(world, "back") == nodes

    world.patch(SET, "back", scaled_to(0))
    settle(world, "back")
    dead = nodes["back-1"]
    with without_node(world, dead):
        world.patch(SET, "back", scaled_to(2))
        settle(world, "back")
        after = nodes_of(world, "back")
    moved = {name for name, node in nodes.items() if node == dead}
    assert {name for name in nodes if after[name] != nodes[name]} == moved


def requesting(cpu: str) -> dict[str, Any]:
    template = pod_template()
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return template


def full(world: World, node: str) -> dict[str, Any]:
    """Return a pod that takes all of a node's CPU."""
    cpu = world.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"]
    spec = requesting(cpu)["spec"] | {"nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"filler-{node}"}, "spec": spec}


def blocked(world: World, name: str, pod: str, node: str) -> dict[str, Any]:
    """Wait for the condition that a pod waits for its node, and return it."""
    return eventually(
        "the condition is set",
        lambda: condition(world.get(SET, name), REPLICA_FAILURE) or {},
        lambda failure: (
            failure.get("reason") == "NodeReturnBlocked" and f"{pod} to node {node}" in failure["message"]
        ),
        seconds=120.0,
    )


def test_a_pod_waits_for_its_required_node(world: World) -> None:
    """The set reports which pod waits for which node, until there is room."""
    required = {NODE_RETURN_ANNOTATION: "Required"}
    world.create(a_set("must", 1, 1, workers=requesting("1"), annotations=required))
    settle(world, "must")
    (node,) = nodes_of(world, "must").values()
    world.create(full(world, node))
    world.delete("Pod", "must-0")
    failure = blocked(world, "must", "must-0", node)
    assert f"must-0 to node {node}; make room there" in failure["message"]
    (waiting,) = world.get(SET, "must")["status"]["groups"]["unsettled"]
    assert waiting["reason"] == f"pod must-0 must return to node {node} and cannot be scheduled there"
    (scheduled,) = (
        entry
        for entry in world.get("Pod", "must-0")["status"]["conditions"]
        if entry["type"] == "PodScheduled"
    )
    assert "1 Insufficient cpu" in scheduled["message"]
    world.delete("Pod", f"filler-{node}")
    settle(world, "must")
    assert nodes_of(world, "must") == {"must-0": node}


def test_a_leader_does_not_wait_for_a_lost_node(world: World) -> None:
    required = {NODE_RETURN_ANNOTATION: "Required"}
    world.create(a_set("dead", 1, 1, workers=requesting("1"), annotations=required))
    settle(world, "dead")
    (node,) = nodes_of(world, "dead").values()
    world.create(full(world, node))
    world.delete("Pod", "dead-0")
    blocked(world, "dead", "dead-0", node)
    with without_node(world, node):
        settle(world, "dead")
        assert nodes_of(world, "dead")["dead-0"] != node
    why = f"Deleted pod dead-0, which had to return to node {node}: the node does not exist any more"
    assert why in [event.note for event in wait_for_events(world, "dead", "NodeReturnBlocked", 2)]
    assert not condition(world.get(SET, "dead"), REPLICA_FAILURE)


def test_a_worker_does_not_wait_for_a_cordoned_node(world: World) -> None:
    """The worker's group is not recreated for that, and the other pods stay."""
    world.create(
        a_set(
            "cordon",
            1,
            3,
            workers=requesting("1"),
            leader=pod_template(),
            annotations={NODE_RETURN_ANNOTATION: "Required"},
        )
    )
    settle(world, "cordon")
    nodes = nodes_of(world, "cordon")
    node = nodes["cordon-0-2"]
    world.create(full(world, node))
    world.delete("Pod", "cordon-0")
    blocked(world, "cordon", "cordon-0-2", node)
    stay = {name for name, assigned in nodes.items() if assigned != node} | {"cordon-0"}
    before = pod_uids(world, "cordon")
    with cordoned(world, {node}):
        settle(world, "cordon")
        after, now = pod_uids(world, "cordon"), nodes_of(world, "cordon")
    assert {name: after[name] for name in stay} == {name: before[name] for name in stay}
    assert after["cordon-0-2"] != before["cordon-0-2"] and now["cordon-0-2"] != node
    events = wait_for_events(world, "cordon", "NodeReturnBlocked", 2)
    assert any(f"had to return to node {node}: the node is cordoned" in event.note for event in events), (
        events
    )
    assert not [event for event in events_of(world, "cordon") if event.reason == "RecreateGroup"]
    assert not (world.get(SET, "cordon")["status"].get("restarts") or {})


def test_pods_do_not_wait_for_an_excluded_node(world: World) -> None:
    """This takes effect at once, without reading the node."""
    required = {NODE_RETURN_ANNOTATION: "Required"}
    world.create(a_set("excepts", 1, 1, workers=requesting("1"), annotations=required))
    settle(world, "excepts")
    (node,) = nodes_of(world, "excepts").values()
    world.create(full(world, node))
    world.delete("Pod", "excepts-0")
    blocked(world, "excepts", "excepts-0", node)
    world.patch(SET, "excepts", {"metadata": {"annotations": {NODE_RETURN_EXCEPT_ANNOTATION: node}}})
    settle(world, "excepts")
    assert nodes_of(world, "excepts")["excepts-0"] != node
