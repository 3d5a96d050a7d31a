"""Hash groups of upstream 0.11.0, whose worker StatefulSets have the names of their leader pods."""

from __future__ import annotations

from typing import Any

from lws.kube.conditions import is_true
from lws.kube.pods import has_gate
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.templates.objects import build_leader_deployment
from lws_api.leaderworkerset.v1 import GROUP_READY_CONDITION, GROUP_REPLACEMENT_GATE
from test.harness.groups import leaders_of, name_of, pod_uids, settle
from test.harness.manifests import a_set
from test.harness.product import Product
from test.harness.waiting import eventually
from test.harness.world import World
from test.integration.takeover.lease import lease_held_by_upstream
from tools.localcluster import Api, Pods
from tools.localcluster.api import Call

Object = dict[str, Any]


def created_by_upstream(world: World) -> Object:
    """Create a set of one group of two as upstream 0.11.0 does, and return its leader pod."""
    lws = world.create(a_set("web", 1, 2, groupIdentity="Hash"))
    deployment = build_leader_deployment(SetSpec.of(lws), record(lws).key, is_paused=False)
    query = {"fieldManager": "lws", "force": "true"}
    path, kind = world.path("Deployment", "web"), "application/apply-patch+yaml"
    world.api.send(Call("PATCH", path, deployment, query, content_type=kind))
    (leader,) = eventually("there is a leader", lambda: leaders_of(world, "web"))
    if has_gate(leader, GROUP_REPLACEMENT_GATE):
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GROUP_REPLACEMENT_GATE}]}}
        kind = "application/strategic-merge-patch+json"
        world.api.send(Call("PATCH", world.path("Pod", name_of(leader)), patch, content_type=kind))
    workers = build_worker_statefulset(SetSpec.of(lws), {"apiVersion": "v1", "kind": "Pod", **leader})
    workers["metadata"]["name"] = name_of(leader)
    world.kubectl("create", "--field-manager=lws", "-f", "-", input=workers)
    return leader


def test_readiness_of_workers_reaches_their_leader(
    world: World, api: Api, product: Product, pods: Pods
) -> None:
    with lease_held_by_upstream(api, product):
        leader = name_of(created_by_upstream(world))
        worker = f"{leader}-1"
        eventually("there is a worker", lambda: world.find("Pod", worker))
    settle(world, "web")
    before = pod_uids(world, "web")
    assert before.keys() == {leader, worker}

    def is_group_ready() -> bool:
        return is_true(world.get("Pod", leader)["status"].get("conditions"), GROUP_READY_CONDITION)

    for is_ready in (False, True):
        pods.set_ready(world.namespace, worker, is_ready)
        eventually(
            f"the leader knows that its worker is {'ready' if is_ready else 'not ready'}",
            is_group_ready,
            lambda now, is_ready=is_ready: now == is_ready,
            seconds=60,
        )
    assert pod_uids(world, "web") == before
    assert {name_of(statefulset) for statefulset in world.list("StatefulSet")} == {leader}
