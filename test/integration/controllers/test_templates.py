"""Leaders, workers and Services follow the set's own leader template, startup policy and subdomain policy."""

from __future__ import annotations

import pytest

from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    SUBDOMAIN_POLICY_ANNOTATION,
)
from test.harness.groups import (
    annotations_of,
    controller_of,
    images_of,
    labels_of,
    names_of,
    pods_of,
    settle,
)
from test.harness.history import History
from test.harness.manifests import a_set, pod_template
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World
from tools.localcluster import Pods
from tools.localcluster.pods import is_ready


def test_leaders_use_the_leader_template(world: World) -> None:
    leader = pod_template("leader:1", serviceAccountName="default")
    leader["metadata"]["labels"] = {"role": "leader"}
    manifest = a_set("two", replicas=2, size=2, group={"leaderTemplate": leader})
    world.create(manifest)
    settle(world, "two")
    for index in ("0", "1"):
        first, worker = world.get("Pod", f"two-{index}"), world.get("Pod", f"two-{index}-1")
        assert [container["image"] for container in first["spec"]["containers"]] == ["leader:1"]
        assert [container["image"] for container in worker["spec"]["containers"]] == ["server:1"]
        assert (labels_of(first).get("role"), labels_of(worker).get("role")) == ("leader", None)

    changed = {
        "spec": {"leaderWorkerTemplate": {"leaderTemplate": {"spec": pod_template("leader:2")["spec"]}}}
    }
    world.patch(SET, "two", changed)
    settle(world, "two")
    assert images_of(world, "two") == {0: {"leader:2", "server:1"}, 1: {"leader:2", "server:1"}}


@pytest.mark.our_simulation
def test_workers_wait_for_a_ready_leader_with_leader_ready(world: World, pods: Pods) -> None:
    leader = pod_template(annotations={"localcluster/ready": "false"})
    world.create(
        a_set("late", replicas=1, size=3, group={"leaderTemplate": leader}, startupPolicy="LeaderReady")
    )
    eventually("the leader runs", lambda: _phase(world, "late-0"), lambda phase: phase == "Running")
    stays(
        "no workers are created while the leader is not ready", lambda: names_of(world.list("StatefulSet")), 2
    )
    assert names_of(pods_of(world, "late")) == {"late-0"}

    history = History(world, "late")
    pods.set_ready(world.namespace, "late-0", True)
    settle(world, "late")
    for frame in history.pods():
        assert len(frame) == 1 or is_ready(frame["late-0"])

    # Readiness gates only the creation of workers: they stay if the leader becomes unready again.
    pods.set_ready(world.namespace, "late-0", False)
    eventually(
        "the set says so", lambda: world.get(SET, "late")["status"], lambda now: not now.get("readyReplicas")
    )
    assert len(pods_of(world, "late")) == 3


def test_each_group_has_its_own_service_with_unique_per_replica(world: World) -> None:
    world.create(a_set("own", networkConfig={"subdomainPolicy": "UniquePerReplica"}))
    settle(world, "own")
    assert names_of(world.list("Service")) == {"own-0", "own-1"}
    for index in ("0", "1"):
        name = f"own-{index}"
        service, leader = world.get("Service", name), world.get("Pod", name)
        assert service["spec"]["selector"] == {NAME_LABEL: "own", GROUP_INDEX_LABEL: index}
        assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
        assert labels_of(service) == {NAME_LABEL: "own"}
        assert controller_of(service)["uid"] == leader["metadata"]["uid"]
        assert annotations_of(leader)[SUBDOMAIN_POLICY_ANNOTATION] == "UniquePerReplica"
        for pod in (leader, world.get("Pod", f"{name}-1")):
            assert pod["spec"]["subdomain"] == name
            variable = pod["spec"]["containers"][0]["env"][0]
            assert variable == {"name": "LWS_LEADER_ADDRESS", "value": f"{name}.{name}.{world.namespace}"}


def test_a_changed_subdomain_policy_starts_a_rollout(world: World) -> None:
    world.create(a_set("moves"))
    settle(world, "moves")
    before = names_of(world.list("Service"))

    world.patch(SET, "moves", {"spec": {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}})
    settle(world, "moves")
    own = {"moves-0", "moves-1"}
    eventually(
        "only Services of groups exist", lambda: names_of(world.list("Service")), lambda now: now == own
    )
    assert {pod["spec"]["subdomain"] for pod in pods_of(world, "moves")} == {"moves-0", "moves-1"}

    world.patch(SET, "moves", {"spec": {"networkConfig": {"subdomainPolicy": "Shared"}}})
    settle(world, "moves")
    eventually(
        "Services of groups are gone", lambda: names_of(world.list("Service")), lambda now: now == before
    )
    assert {pod["spec"]["subdomain"] for pod in pods_of(world, "moves")} == {"moves"}


def _phase(world: World, pod: str) -> str:
    obj = world.find("Pod", pod)
    return obj["status"]["phase"] if obj else ""
