"""Tests that a pass over a DisaggregatedSet observes the store.

It reads from the API server only if it must.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.observe import recent_writes
from lws.disaggregatedset.observe.observer import DisaggregatedObserver
from lws.disaggregatedset.observe.recent_writes import DisaggregatedMemory
from lws.disaggregatedset.revisions.record import record, template_hash
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.disaggregatedset.status import RoleCounts, role_counts
from lws.disaggregatedset.tables import TABLES
from lws.kube.metadata import owner_reference
from lws.leaderworkerset.tables import TABLES as SET_TABLES
from lws.runtime.errors import NotFound
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import NAME_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import (
    GROUP_REPLACEMENT_GATE,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
)
from lws_api.leaderworkerset.v1 import NAME_LABEL as CHILD_NAME_LABEL
from test.unit import api_server
from test.unit.builders import NOW, make_group, make_leader_pod, make_leader_statefulset
from test.unit.disaggregated import build_revision, make_child, make_disaggregated, make_role

KEY = "1" * 8
PREFILL, DECODE = Identity(0, KEY, "prefill"), Identity(0, KEY, "decode")


class World:
    """A store with one set, and an API server that has more objects."""

    def __init__(self, obj: dict[str, Any]) -> None:
        self.store = Store(lambda before, after: None, [*SET_TABLES, *TABLES])
        self.live: dict[tuple[str, str], dict[str, Any]] = {}
        self.reads: list[tuple[str, str]] = []
        self.obj = self.put(obj)
        memory = DisaggregatedMemory(self.store)
        cluster: Any = self
        self.observer = DisaggregatedObserver(cluster, self.store, memory)

    def put(self, obj: dict[str, Any], is_seen: bool = True) -> dict[str, Any]:
        stored = copy.deepcopy(obj)
        stored["metadata"].setdefault("resourceVersion", "1")
        stored["metadata"].setdefault("uid", f"uid-{stored['kind']}-{stored['metadata']['name']}")
        self.live[stored["kind"], stored["metadata"]["name"]] = stored
        if is_seen:
            self.store.put(stored)
        return stored

    def record(self, number: int = 1) -> None:
        self.put(api_server.stored(build_revision(self.obj, record(self.obj), KEY, number)))

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        self.reads.append((kind, name))
        if (kind, name) not in self.live:
            raise NotFound(404, "NotFound", name)
        return self.live[kind, name]

    async def look(self) -> DisaggregatedSnapshot:
        snapshot = await self.observer.observe("default", "demo", NOW)
        assert snapshot is not None
        return snapshot


async def test_a_set_at_rest_is_not_read() -> None:
    obj = make_disaggregated()
    world = World({**obj, "status": {"observedGeneration": obj["metadata"]["generation"]}})
    world.record()
    for identity in (PREFILL, DECODE):
        world.put(make_child(world.obj, identity))
    snapshot = await world.look()
    assert [(child.role, child.slice_index, child.key) for child in snapshot.children] == [
        ("decode", 0, KEY),
        ("prefill", 0, KEY),
    ]
    assert [revision.key for revision in snapshot.revisions] == [KEY]
    assert not world.reads and snapshot.set_read_live is None and not snapshot.strangers


async def test_an_edited_set_is_read_again() -> None:
    """The pass records and creates what the edit requires."""
    obj = make_disaggregated()
    world = World({**obj, "status": {"observedGeneration": obj["metadata"]["generation"] - 1}})
    world.record()
    for identity in (PREFILL, DECODE):
        world.put(make_child(world.obj, identity))
    assert (await world.look()).set_read_live is not None and world.reads == [("DisaggregatedSet", "demo")]


async def test_the_set_is_read_again_before_objects_are_created() -> None:
    world = World(make_disaggregated())
    world.record()
    assert (await world.look()).set_read_live is not None and world.reads == [("DisaggregatedSet", "demo")]
    del world.live["DisaggregatedSet", "demo"]
    assert await world.observer.observe("default", "demo", NOW) is None


async def test_the_set_is_read_again_if_a_scaler_is_missing() -> None:
    world = World(make_disaggregated(roles=[make_role("prefill"), make_role("decode", None)]))
    world.record()
    for identity in (PREFILL, DECODE):
        world.put(make_child(world.obj, identity))
    assert (await world.look()).set_read_live is not None


async def test_children_of_a_terminating_or_unreadable_set_are_not_observed() -> None:
    terminating = make_disaggregated()
    terminating["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert not (await World(terminating).look()).children
    garbled = await World(make_disaggregated(roles=[])).look()
    assert garbled.fault and not garbled.children
    assert await World(terminating).observer.observe("default", "other", NOW) is None


async def test_orphans_match_by_name_and_label_and_strangers_by_name() -> None:
    world = World(make_disaggregated())
    world.record()
    orphan, stranger = make_child(world.obj, PREFILL), make_child(world.obj, DECODE)
    del orphan["metadata"]["ownerReferences"]
    stranger["metadata"]["ownerReferences"][0]["uid"] = "another"
    world.put(orphan)
    world.put(stranger)
    foreign = copy.deepcopy(orphan)
    foreign["metadata"] |= {"name": "demo-of-somebody", "uid": "u-2"}
    world.put(foreign)
    snapshot = await world.look()
    assert [obj["metadata"]["name"] for obj in snapshot.orphans] == [f"demo-0-{KEY}-prefill"]
    assert ("LeaderWorkerSet", f"demo-0-{KEY}-decode") in snapshot.strangers
    assert not snapshot.children
    # If the store may be behind, the API server is read.
    assert ("LeaderWorkerSet", f"demo-0-{KEY}-decode") in world.reads


async def test_controlled_objects_count_regardless_of_their_labels() -> None:
    world = World(make_disaggregated())
    child = make_child(world.obj, PREFILL)
    child["metadata"]["labels"] = {}
    world.put(child)
    assert len((await world.look()).children) == 1


@pytest.mark.parametrize(
    ("status", "ready", "is_settled"),
    [
        pytest.param({}, 0, False, id="no status yet"),
        pytest.param({"observedGeneration": 1, "readyReplicas": 1}, 1, False, id="counters"),
        pytest.param(
            {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]},
            2,
            True,
            id="condition updated before counters",
        ),
        pytest.param(
            {"observedGeneration": 0, "conditions": [{"type": "Available", "status": "True"}]},
            0,
            False,
            id="generation not observed",
        ),
    ],
)
async def test_a_child_whose_groups_are_not_watched_is_judged_by_its_status(
    status: dict[str, Any], ready: int, is_settled: bool
) -> None:
    world = World(make_disaggregated())
    world.put(make_child(world.obj, PREFILL, 2, status=status))
    (child,) = (await world.look()).children
    assert (child.ready, child.is_settled, child.present) == (ready, is_settled, 2)


@pytest.mark.parametrize(
    ("indices", "not_ready", "expected"),
    [
        pytest.param((0, 1), (), (2, 2, True, 0), id="all serve"),
        pytest.param((0, 1), (1,), (1, 2, False, 1), id="the last does not"),
        pytest.param((0, 1), (0,), (1, 2, False, 0), id="the first does not"),
        pytest.param((0,), (), (1, 2, False, 1), id="one group is missing"),
        pytest.param((0, 1, 2), (), (3, 3, True, 0), id="one excess group"),
    ],
)
async def test_a_child_is_judged_by_its_own_groups(
    indices: tuple[int, ...], not_ready: tuple[int, ...], expected: tuple[int, int, bool, int]
) -> None:
    world = World(make_disaggregated())
    child = world.put(make_child(world.obj, PREFILL, 2, status={"observedGeneration": 1}))
    leader = world.put(make_leader_statefulset(child))
    for index in indices:
        facts = make_group(child, index, ready=index not in not_ready)
        pod = copy.deepcopy(dict(facts.leader))
        pod["metadata"]["ownerReferences"][0] |= {"name": leader["metadata"]["name"]}
        pod["metadata"]["ownerReferences"][0]["uid"] = leader["metadata"]["uid"]
        world.put(pod)
    (judged,) = (await world.look()).children
    assert (judged.ready, judged.present, judged.is_settled, judged.broken_on_top) == expected


def put_hash_leaders(world: World, child: dict[str, Any], *leaders: dict[str, Any]) -> None:
    """Make these leader pods Hash leaders of a child."""
    name, label = child["metadata"]["name"], {CHILD_NAME_LABEL: child["metadata"]["name"]}
    owner = child
    for kind, own_name in (("Deployment", name), ("ReplicaSet", f"{name}-x")):
        metadata = {"name": own_name, "namespace": "default", "labels": label}
        metadata["ownerReferences"] = [owner_reference(owner)]
        owner = world.put({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {}})
    for letter, leader in zip("abc", leaders, strict=False):
        pod = copy.deepcopy(leader)
        pod["metadata"] |= {"name": f"{name}-x-{letter}", "ownerReferences": [owner_reference(owner)]}
        world.put(pod)


async def test_terminating_and_waiting_groups_without_an_index_are_seen() -> None:
    """The status of a Deployment leaves out terminating pods."""
    world = World(make_disaggregated())
    status = {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1}
    child = make_child(world.obj, PREFILL, 2, status=status)
    child["spec"]["groupIdentity"] = "Hash"
    child = world.put(child)
    waiting = make_leader_pod(child, 1, ready=False, phase="Pending")
    waiting["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]
    leaving = make_leader_pod(child, 2, terminating=True)
    put_hash_leaders(world, child, make_leader_pod(child, 0), waiting, leaving)
    (facts,) = (await world.look()).children
    assert (facts.ready, facts.present, len(facts.waits)) == (1, 3, 1)


CHANGES = ["the new leader is gated", "the pods of the former group are kept", "the former leader has ended"]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_group_without_an_index_counts_once_while_it_is_replaced(change: str) -> None:
    world = World(make_disaggregated())
    child = make_child(world.obj, PREFILL, 1, status={"observedGeneration": 1, "replicas": 1})
    child["spec"]["groupIdentity"] = "Hash"
    child = world.put(child)
    former, successor = make_leader_pod(child, 0, terminating=True), make_leader_pod(child, 1)
    if change == "the new leader is gated":
        successor["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    elif change == "the former leader has ended":
        former = make_leader_pod(child, 0, phase="Failed")
    else:
        former["metadata"]["annotations"][RESTART_BUDGET_EXHAUSTED_ANNOTATION] = "true"
        former["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]
    put_hash_leaders(world, child, former, successor)
    (facts,) = (await world.look()).children
    assert facts.present == 1


async def test_a_terminating_group_without_an_index_counts_only_in_the_surge() -> None:
    """With groupReplacementPolicy Immediate its successor serves at once. As upstream's, the status counts
    what the child's status counts.
    """
    world = World(make_disaggregated())
    conditions = [{"type": "Available", "status": "True"}]
    status = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "conditions": conditions}
    child = make_child(world.obj, PREFILL, 1, status=status)
    child["spec"] |= {"groupIdentity": "Hash", "groupReplacementPolicy": "Immediate"}
    child = world.put(child)
    put_hash_leaders(world, child, make_leader_pod(child, 0, terminating=True), make_leader_pod(child, 1))
    (facts,) = (await world.look()).children
    assert (facts.present, facts.existing, facts.ready, facts.is_settled) == (2, 1, 1, True)
    assert role_counts(["prefill"], [facts], KEY) == (RoleCounts("prefill", 1, 1, 1),)


FORMER = "former"
PODS_OF_THREE = 3


@pytest.mark.parametrize(
    ("leaders", "lingering", "orphaned", "present"),
    [
        pytest.param("Deployment", 3, 0, 3, id="Deployment creates pods until its deletion"),
        pytest.param("orphaned Deployment", 0, 3, 3, id="orphaned Deployment"),
        pytest.param("pods", 2, 0, 2, id="only pods are left, one of which is gated"),
        pytest.param("nothing", 0, 0, 1, id="nothing is left"),
    ],
)
async def test_remaining_groups_without_an_index_of_a_deleted_child_count(
    leaders: str, lingering: int, orphaned: int, present: int
) -> None:
    """Their leader pods, which the child's name does not show, may terminate for a long time."""
    rollouts = {"0": {"revision": KEY, "initialReplicas": {f"demo-0-{KEY}-prefill": PODS_OF_THREE}}}
    world = World({**make_disaggregated(), "status": {"rollouts": rollouts}})
    former = make_child(world.obj, PREFILL, PODS_OF_THREE)
    former["metadata"]["uid"], name = FORMER, former["metadata"]["name"]
    former["spec"]["groupIdentity"] = "Hash"
    if leaders != "nothing":
        gated = make_leader_pod(former, 2)
        gated["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
        pods = [make_leader_pod(former, index, terminating=True) for index in (0, 1)]
        put_hash_leaders(world, former, *pods, gated)
        deployment, replica_set = (
            world.live[kind] for kind in (("Deployment", name), ("ReplicaSet", f"{name}-x"))
        )
        deployment["spec"]["replicas"] = PODS_OF_THREE
        if leaders == "orphaned Deployment":
            del deployment["metadata"]["ownerReferences"]
        deployment["metadata"]["resourceVersion"] = "2"
        world.store.put(deployment)
        if leaders == "pods":
            world.store.drop(deployment)
            world.store.drop(replica_set)
    lost = await world.look()
    assert dict(lost.lingering) == ({name: lingering} if lingering else {})
    assert dict(lost.orphaned) == ({name: orphaned} if orphaned else {})
    again = make_child(world.obj, PREFILL, 1)
    again["spec"]["groupIdentity"] = "Hash"
    world.put(again)
    (made_anew,) = (await world.look()).children
    assert (made_anew.desired, made_anew.existing, made_anew.present) == (1, 0, present)


@pytest.mark.parametrize(
    ("owner", "lingering", "present"),
    [
        pytest.param("demo-0-11111111-prefill", 3, 3, id="StatefulSet creates pods until its deletion"),
        pytest.param(None, 0, 3, id="orphaned StatefulSet"),
        pytest.param("somebody-else", 0, 1, id="a stranger's"),
    ],
)
async def test_remaining_groups_of_a_deleted_child_count(
    owner: str | None, lingering: int, present: int
) -> None:
    """The garbage collector runs a while after the deletion. Until then the StatefulSet controller creates
    pods.
    """
    rollouts = {"0": {"revision": KEY, "initialReplicas": {"demo-0-11111111-prefill": PODS_OF_THREE}}}
    world = World({**make_disaggregated(), "status": {"rollouts": rollouts}})
    former = make_child(world.obj, PREFILL, PODS_OF_THREE)
    former["metadata"]["uid"] = FORMER
    leader = make_leader_statefulset(former)
    leader["metadata"]["ownerReferences"][0]["name"] = owner
    if owner is None:
        del leader["metadata"]["ownerReferences"]
    world.put(leader)
    lost = await world.look()
    assert dict(lost.lingering) == ({former["metadata"]["name"]: lingering} if lingering else {})
    world.put(make_child(world.obj, PREFILL, 1))
    (made_anew,) = (await world.look()).children
    assert (made_anew.desired, made_anew.present) == (1, present)


@pytest.mark.parametrize(
    ("began", "present"),
    [
        pytest.param({f"demo-0-{KEY}-prefill": PODS_OF_THREE}, 3, id="a rollout began with three"),
        pytest.param({f"demo-0-{KEY}-prefill": 1}, 3, id="outdated status at the start of the rollout"),
        pytest.param({}, 1, id="no read at rest"),
    ],
)
async def test_remaining_groups_of_a_deleted_child_count_in_addition_to_those_of_a_scaled_down_one(
    began: dict[str, int], present: int
) -> None:
    rollouts = {"0": {"revision": KEY, "initialReplicas": began}}
    world = World({**make_disaggregated(), "status": {"rollouts": rollouts}})
    child = world.put(make_child(world.obj, PREFILL, 1))
    leader = world.put(make_leader_statefulset(child))
    for index in range(PODS_OF_THREE):
        pod = copy.deepcopy(dict(make_group(child, index, ready=False).leader))
        owner = leader["metadata"]["uid"] if index == 0 else FORMER
        pod["metadata"]["ownerReferences"][0] |= {"name": leader["metadata"]["name"], "uid": owner}
        world.put(pod)
    (facts,) = (await world.look()).children
    assert (facts.desired, facts.present) == (1, present)


@pytest.mark.parametrize(
    ("began", "present"),
    [
        pytest.param({f"demo-0-{KEY}-prefill": 0}, 2, id="in a rollout"),
        pytest.param({}, 0, id="no read at rest"),
    ],
)
async def test_pods_that_the_statefulset_of_a_scaled_down_child_may_still_create_count(
    began: dict[str, int], present: int
) -> None:
    rollouts = {"0": {"revision": KEY, "initialReplicas": began}}
    world = World({**make_disaggregated(), "status": {"rollouts": rollouts}})
    child = world.put(make_child(world.obj, PREFILL, 0))
    leader = make_leader_statefulset(child)
    world.put({**leader, "spec": {**leader["spec"], "replicas": 2}})
    (facts,) = (await world.look()).children
    assert (facts.desired, facts.present) == (0, present)


async def test_scalers_and_services_are_those_with_the_set_as_controller() -> None:
    world = World(make_disaggregated())
    reference = make_child(world.obj, PREFILL)["metadata"]["ownerReferences"]
    for kind in ("Service", SCALER_KIND):
        for name, owners in (("demo-prefill", reference), ("theirs", [])):
            metadata = {"name": name, "namespace": "default", "labels": {NAME_LABEL: "demo"}}
            metadata |= {"ownerReferences": owners, "resourceVersion": "1"}
            world.put({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}})
    snapshot = await world.look()
    for owned in (snapshot.services, snapshot.scalers):
        assert [scaler["metadata"]["name"] for scaler in owned] == ["demo-prefill"]


async def test_templates_of_children_are_hashed_once_per_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(spec: dict[str, Any]) -> str:
        hashed.append(template_hash(spec))
        return hashed[-1]

    monkeypatch.setattr(recent_writes, "template_hash", counted)
    world = World(make_disaggregated())
    child = world.put(make_child(world.obj, PREFILL))
    for _ in range(2):
        (facts,) = (await world.look()).children
    assert [facts.template_hash] == hashed
    child["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "other"
    child["metadata"] |= {"generation": child["metadata"]["generation"] + 1, "resourceVersion": "2"}
    world.put(child)
    (facts,) = (await world.look()).children
    assert len(set(hashed)) == 2
    assert facts.template_hash == hashed[-1]
