"""Tests of what a pass observes: whose objects count, and what it reads from the API server."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

from lws.kube.conditions import timestamp
from lws.kube.metadata import owner_reference
from lws.kube.nodes import NodeLossPolicy
from lws.kube.patches import digest
from lws.leaderworkerset.children.disruption_budget import build_disruption_budget
from lws.leaderworkerset.children.services import build_leader_service, build_service
from lws.leaderworkerset.group.gangs import PROVIDERS, GangProvider
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.observe.observer import Environment, Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.scheduling import (
    ASSUMED,
    NO_SCHEDULER,
    Scheduled,
    Scheduler,
    build_pod_group,
    build_workload,
    parts_of,
    workload_name,
)
from lws.leaderworkerset.snapshot import NodesOfGroup, PrewarmFacts
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.tables import TABLES
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws.policies import Policies
from lws.runtime.actions import Apply, Create, Reference
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import Forbidden, NotFound
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
    SUBDOMAIN_POLICY_ANNOTATION,
)
from test.unit import api_server
from test.unit.builders import (
    NOW,
    build_revision,
    make_leader_pod,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
    trim,
)
from test.unit.lws.leaderworkerset.observe.fake_events import Background, at, event

LWS = make_set(size=3)
KEY = record(LWS).key
OTHER = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}
Change = Callable[[dict[str, Any]], Any]


@dataclass
class FakeCluster:
    """An API server that is only read.

    requests: the requests in order. forbidden: lists that it rejects.
    """

    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        self.requests.append(f"{kind} {namespace}/{name}")
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", f"{kind} {name} not found")
        return copy.deepcopy(self.objects[kind, name])

    async def list_page(self, resource: Any, query: Mapping[str, str], **_: Any) -> dict[str, Any]:
        self.requests.append(f"list {resource.plural}")
        if resource.plural in self.forbidden:
            raise Forbidden(403, "Forbidden", "no")
        items = [copy.deepcopy(obj) for (kind, _name), obj in self.objects.items() if kind == resource.kind]
        return {"metadata": {"resourceVersion": "1"}, "items": items}


async def everywhere(namespace: str) -> bool:
    return True


class World:
    """A store with the objects that streams have shown, and an API server with these and others."""

    def __init__(
        self, *shown: dict[str, Any], scheduler: Scheduler = NO_SCHEDULER, policies: Policies | None = None
    ) -> None:
        self.cluster = FakeCluster()
        self.store = Store(lambda before, after: None, TABLES)
        self.seconds = 0.0
        self.memory = SetWrites(self.store, lambda: self.seconds)
        self.covers = everywhere
        self.gang: GangProvider | None = None
        self.workloads = Scheduled()
        self.background = Background()
        environment = Environment(
            policies=policies or Policies(),
            covers=lambda namespace: self.covers(namespace),
            gang=lambda: self.gang,
            start=self.background.start,
            wake=self.background.wake,
            scheduler=scheduler,
            workloads=lambda: self.workloads,
        )
        self.observer = Observer(cast(Cluster, self.cluster), self.store, self.memory, environment)
        for obj in shown:
            self.show(obj)

    def show(self, obj: dict[str, Any]) -> None:
        self.hide(obj)
        self.store.put(obj)

    def hide(self, obj: dict[str, Any]) -> None:
        """Create an object that no stream shows."""
        self.cluster.objects[obj["kind"], obj["metadata"]["name"]] = obj

    async def of_set(self, name: str = "demo") -> Any:
        return await self.observer.observe_set("default", name, NOW)

    async def of_group(self, name: str = "demo-0") -> Any:
        return await self.observer.observe_group("default", name, NOW)


def changed(obj: dict[str, Any], change: Change) -> dict[str, Any]:
    edited = copy.deepcopy(obj)
    edited["metadata"]["resourceVersion"] = str(int(edited["metadata"]["resourceVersion"]) + 1000)
    change(edited)
    return edited


def owned_by(*owners: dict[str, Any]) -> Change:
    return lambda obj: obj["metadata"].update(ownerReferences=list(owners))


# The builders of pods refer to these UIDs and owners.
LEADERS = api_server.applied(
    build_leader_statefulset(SetSpec.of(LWS), KEY, RollingUpdate(0, 2, 1)), "uid-of-leaders-demo"
)
SERVICE = api_server.stored(build_service("demo", "demo", {NAME_LABEL: "demo"}, LWS))
REVISION = api_server.stored(dict(build_revision(LWS, record(LWS), 1)))
PODS = [make_leader_pod(LWS, index, key=KEY) for index in (1, 0)]
WORKERS = [make_worker_statefulset(pod) for pod in PODS]
WORKER_PODS = [make_worker_pod(WORKERS[1], index) for index in (1, 2)]
EVERYTHING = (LWS, LEADERS, SERVICE, REVISION, *PODS, *WORKERS, *WORKER_PODS)


def names(objects: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


# --- Sets ---------------------------------------------------------------------------------------------------


async def test_missing_set() -> None:
    world = World()
    assert await world.of_set() is None
    assert world.cluster.requests == []


async def test_snapshots_contain_the_policies() -> None:
    policies = Policies(NodeLossPolicy(timedelta(hours=2), force_delete=True))
    world = World(*EVERYTHING, policies=policies)
    assert (await world.of_set()).policies is policies
    assert (await world.of_group()).policies is policies


async def test_a_new_set_reads_once_what_no_stream_shows() -> None:
    world = World(LWS)
    snapshot = await world.of_set()
    assert (snapshot.lws, snapshot.now) == (LWS, NOW)
    assert (snapshot.leaders, snapshot.service, snapshot.groups, snapshot.revisions) == (None, None, (), ())
    assert (snapshot.set_read_live, snapshot.applied_leaders, snapshot.drops_start_ordinal) == (
        LWS,
        None,
        False,
    )
    assert world.cluster.requests == ["StatefulSet default/demo", "LeaderWorkerSet default/demo"]


async def test_a_taken_revision_name_is_in_the_snapshot_and_is_read_once() -> None:
    world = World(*EVERYTHING)
    create = Create(build_revision(LWS, record(LWS), 2), why="because")
    stranger = copy.deepcopy(REVISION)
    stranger["metadata"] |= {"name": create.intent["metadata"]["name"], "uid": "u-9", "ownerReferences": []}
    del stranger["metadata"]["labels"]
    assert (await world.of_set()).taken_revisions == ()
    world.memory.put(stranger)
    world.memory.taken.record(create)
    snapshot = await world.of_set()
    assert names(snapshot.taken_revisions) == [create.intent["metadata"]["name"]]
    assert len(snapshot.revisions) == 1
    assert world.cluster.requests == [], "no pass reads it again"


async def test_live_keys_are_unknown_until_reported_revisions_are_seen() -> None:
    assert (await World(LWS).of_set()).knows_live_keys
    world = World(*EVERYTHING)
    assert (await world.of_set()).knows_live_keys, "the StatefulSet has not reported yet"
    own = {**copy.deepcopy(REVISION), "data": {"spec": {"template": {}}}}
    own["metadata"] |= {"name": "demo-own", "uid": "u-own", "ownerReferences": [owner_reference(LEADERS)]}
    reported = changed(LEADERS, lambda obj: obj.update(status={"currentRevision": "demo-own"}))
    world.show(reported)
    assert not (await world.of_set()).knows_live_keys
    world.show(own)
    snapshot = await world.of_set()
    assert snapshot.knows_live_keys and snapshot.live_keys == {KEY}


async def test_nodes_are_observed_only_for_a_rollout_with_prewarm() -> None:
    assert (await World(*EVERYTHING).of_set()).prewarm is None
    warm = changed(LWS, lambda lws: lws["spec"]["rolloutStrategy"].update(prewarm={}))
    world = World(*EVERYTHING)
    world.show(warm)
    facts = (await world.of_set()).prewarm
    assert facts.nodes[0] == NodesOfGroup("node-1", frozenset({"node-1"}))
    at_rest = {"observedGeneration": 1, "updateRevision": "r", "currentRevision": "r"}
    world.show(changed(warm, lambda lws: lws.update(status=at_rest)))
    assert (await world.of_set()).prewarm == PrewarmFacts()
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "demo-prewarm-1", "namespace": "default", "uid": "u"},
    }
    job["metadata"] |= {"ownerReferences": [owner_reference(LWS)], "resourceVersion": "1"}
    world.show(job)
    world.show(changed(job, lambda obj: obj["metadata"].update(name="of-another-owner", uid="v")))
    assert names((await world.of_set()).prewarm.jobs) == ["demo-prewarm-1"]
    # The Job is observed even if the field has been removed meanwhile.
    world.show(changed(warm, lambda lws: lws["spec"].update(LWS["spec"])))
    assert names((await world.of_set()).prewarm.jobs) == ["demo-prewarm-1"]


async def test_nodes_are_observed_for_an_undo_that_waits_for_them() -> None:
    """The set returns to its current revision while groups are on another one."""
    world = World(*EVERYTHING)
    status = {"observedGeneration": 1, "updateRevision": "r", "currentRevision": "r"}
    undone = changed(LWS, lambda lws: lws.update(status={**status, "prewarm": {"revision": "r"}}))
    undone["spec"]["rolloutStrategy"]["prewarm"] = {}
    world.show(undone)
    assert (await world.of_set()).prewarm.nodes


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 0), ({"startStrategy": {}}, 2), ({"startStrategy": {}, "max_surge": 2}, 3)],
)
async def test_leaders_that_a_lost_statefulset_has_left(changes: dict[str, Any], count: int) -> None:
    """Those of the surge count too, as far as the surge goes."""
    lws = make_set(size=3, **changes)
    leaders = [make_leader_pod(lws, index, key=KEY) for index in (1, 2, 4)]
    snapshot = await World(lws, REVISION, *leaders).of_set()
    assert (snapshot.occupied_index_count, snapshot.left_keys) == (count, {KEY})


async def test_keys_of_groups_of_a_lost_statefulset_are_live() -> None:
    world = World(LWS, REVISION, *PODS, *WORKERS)
    assert (await world.of_set()).live_keys == {KEY}
    alone = await World(LWS, REVISION, *PODS).of_set()
    assert alone.live_keys == {KEY}, "groups of one pod have no workers"


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param(LEADERS, id="leader StatefulSet"),
        pytest.param(SERVICE, id="Service"),
        pytest.param(REVISION, id="revision"),
    ],
)
@pytest.mark.parametrize(
    "successor", [None, make_set("demo") | {"metadata": {"name": "demo", "uid": "other"}}]
)
async def test_no_children_for_a_set_whose_deletion_was_missed(
    missing: dict[str, Any], successor: dict[str, Any] | None
) -> None:
    world = World(*(obj for obj in EVERYTHING if obj is not missing))
    assert await world.of_set() is not None
    world.cluster.objects.pop(("LeaderWorkerSet", "demo"))
    if successor is not None:
        world.hide(successor)
    assert await world.of_set() is None
    assert world.store.of_kind("LeaderWorkerSet") == ()


@pytest.mark.parametrize(
    ("budget", "is_reread"),
    [
        pytest.param(None, False, id="not requested"),
        pytest.param({}, True, id="requested"),
        pytest.param({"maxUnavailableGroups": "many"}, False, id="invalid value"),
    ],
)
async def test_a_set_without_its_requested_disruption_budget_is_reread_live(
    budget: Any, is_reread: bool
) -> None:
    lws = copy.deepcopy(LWS)
    lws["spec"]["podDisruptionBudget"] = budget
    world = World(lws, *(obj for obj in EVERYTHING if obj is not LWS))
    snapshot = await world.of_set()
    assert snapshot.pod_disruption_budget is None
    assert world.cluster.requests == (["LeaderWorkerSet default/demo"] if is_reread else [])


async def test_the_disruption_budget_is_observed_regardless_of_its_owner() -> None:
    ours = api_server.stored(build_disruption_budget(LWS, 1))
    world = World(*EVERYTHING, ours)
    assert (await world.of_set()).pod_disruption_budget == trim(ours)
    assert world.cluster.requests == []
    stranger = {**ours, "metadata": {**ours["metadata"], "ownerReferences": [OTHER], "labels": {}}}
    world = World(*EVERYTHING, stranger)
    snapshot = await world.of_set()
    assert snapshot.pod_disruption_budget == trim(stranger) and "u-9" in snapshot.owners_alive


@pytest.mark.parametrize("is_requested", [True, False])
async def test_a_foreign_leader_service_is_observed_only_if_the_set_requests_one(is_requested: bool) -> None:
    lws = copy.deepcopy(LWS)
    lws["spec"]["leaderService"] = {"ports": [{"port": 80}]}
    ours = api_server.stored(build_leader_service(lws))
    stranger = {**ours, "metadata": {**ours["metadata"], "ownerReferences": [OTHER], "labels": {}}}
    the_set = lws if is_requested else LWS
    others = [obj for obj in EVERYTHING if obj is not LWS]
    world = World(the_set, *others, ours)
    assert (await world.of_set()).leader_service == trim(ours)
    assert world.cluster.requests == []
    world = World(the_set, *others, stranger)
    snapshot = await world.of_set()
    # A Service of that name matters only if the set needs one.
    assert snapshot.leader_service == (trim(stranger) if is_requested else None)
    assert ("u-9" in snapshot.owners_alive) is is_requested


async def test_nodes_of_overdue_pods_are_read() -> None:
    stuck = copy.deepcopy(PODS[0])
    stuck["metadata"] |= {"deletionTimestamp": "2026-03-01T11:59:00Z", "deletionGracePeriodSeconds": 30}
    world = World(*EVERYTHING)
    world.show({**stuck, "metadata": {**stuck["metadata"], "resourceVersion": "9"}})
    world.hide({"kind": "Node", "metadata": {"name": "node-1"}})
    for snapshot in (await world.of_set(), await world.of_group(stuck["metadata"]["name"])):
        assert list(snapshot.nodes) == ["node-1"]
    assert world.cluster.requests == ["Node /node-1", "Node /node-1"]


async def test_a_settled_set_causes_no_reads() -> None:
    world = World(*EVERYTHING)
    snapshot = await world.of_set()
    assert world.cluster.requests == []
    assert names([snapshot.leaders, snapshot.service]) == ["demo", "demo"]
    assert [group.index for group in snapshot.groups] == [0, 1]
    assert names(group.leader for group in snapshot.groups) == ["demo-0", "demo-1"]
    assert names(group.worker_statefulset for group in snapshot.groups) == ["demo-0", "demo-1"]
    assert [group.name_clash for group in snapshot.groups] == [None, None]
    assert [revision.name for revision in snapshot.revisions] == [f"demo-{KEY}-1"]
    assert snapshot.live_keys == {KEY}
    assert (snapshot.set_read_live, snapshot.unrecorded_templates) == (None, ())


async def test_worker_uids_of_each_group_are_in_the_snapshot() -> None:
    snapshot = await World(*EVERYTHING).of_set()
    uids = [sorted(group.worker_uids) for group in snapshot.groups]
    assert uids == [["uid-of-pod-demo-0-1", "uid-of-pod-demo-0-2"], []]
    terminating = make_worker_pod(WORKERS[1], 2, terminating=True)
    snapshot = await World(*EVERYTHING[:-1], terminating).of_set()
    assert snapshot.groups[0].worker_uids == ("uid-of-pod-demo-0-1",)
    theirs = changed(WORKERS[1], owned_by(OTHER))
    snapshot = await World(LWS, LEADERS, SERVICE, REVISION, *PODS, theirs, *WORKER_PODS).of_set()
    assert snapshot.groups[0].worker_uids == (), "of workers that are not the group's own"


async def test_rejections_are_in_the_snapshot() -> None:
    world = World(*EVERYTHING)
    service = Create(build_service("demo-1", "demo", {}, LWS), why="because")
    world.memory.refusals.record(
        service, Forbidden(403, "Forbidden", "exceeded quota: few"), Reference.to(LWS)
    )
    snapshot = await world.of_set()
    assert [rejection.message for rejection in snapshot.rejections] == [
        "cannot create Service demo-1: exceeded quota: few"
    ]
    assert snapshot.recheck_after == 30


async def test_a_statefulset_short_of_pods_is_rechecked() -> None:
    leaders = changed(LEADERS, lambda obj: obj.update(status={"observedGeneration": 1, "replicas": 1}))
    world = World(LWS, leaders, SERVICE, REVISION, PODS[1], WORKERS[1], *WORKER_PODS)
    snapshot = await world.of_set()
    assert (snapshot.rejections, snapshot.recheck_after) == ((), 5)
    assert world.cluster.requests == []


async def test_rejections_of_pods_and_of_the_set_are_in_the_snapshot() -> None:
    leaders = changed(LEADERS, lambda obj: obj.update(status={"observedGeneration": 1, "replicas": 1}))
    world = World(LWS, leaders, SERVICE, REVISION, PODS[1], WORKERS[1], *WORKER_PODS)
    service = Create(build_service("demo-1", "demo", {}, LWS), why="because")
    world.memory.refusals.record(
        service, Forbidden(403, "Forbidden", "exceeded quota: few"), Reference.to(LWS)
    )
    world.hide({**event(), "kind": "Event", "regarding": {"uid": leaders["metadata"]["uid"]}})
    await world.of_set()
    world.seconds = 5.0
    await world.observer.observe_set("default", "demo", at(5))
    await world.background.over()
    assert world.background.woken == [("default", "demo")]
    snapshot = await world.observer.observe_set("default", "demo", at(5))
    assert snapshot is not None
    assert [rejection.reason for rejection in snapshot.rejections] == ["QuotaExceeded", "QuotaExceeded"]
    assert snapshot.pods_refused_at == {leaders["metadata"]["uid"]: NOW}


async def test_terminating_leaders_are_observed() -> None:
    terminating = make_leader_pod(LWS, 1, key=KEY, terminating=True)
    snapshot = await World(LWS, LEADERS, REVISION, terminating).of_set()
    assert names(group.leader for group in snapshot.groups) == ["demo-1"]


@pytest.mark.parametrize(
    "strangers",
    [
        pytest.param([changed(pod, owned_by(OTHER)) for pod in PODS], id="foreign pods with our labels"),
        pytest.param([changed(pod, owned_by()) for pod in PODS], id="pods without an owner, with our labels"),
        pytest.param(
            [changed(PODS[0], lambda pod: pod["metadata"]["ownerReferences"][0].update(uid="u-former"))],
            id="a pod of a former StatefulSet of this name",
        ),
        pytest.param(
            [changed(PODS[0], lambda pod: pod["metadata"].update(name="demo-x"))], id="no ordinal in its name"
        ),
        pytest.param(
            [changed(PODS[0], lambda pod: pod["metadata"].update(name="other-1"))],
            id="the name of another set",
        ),
    ],
)
async def test_foreign_pods_are_no_leaders_of_the_set(strangers: list[dict[str, Any]]) -> None:
    snapshot = await World(LWS, LEADERS, SERVICE, REVISION, *strangers).of_set()
    assert snapshot.groups == ()


async def test_groups_of_a_foreign_statefulset_are_ignored() -> None:
    theirs = changed(LEADERS, owned_by(OTHER))
    snapshot = await World(LWS, theirs, SERVICE, REVISION, *PODS).of_set()
    assert snapshot.groups == () and snapshot.leaders is not None


@pytest.mark.parametrize(
    ("change", "name_clash"),
    [
        pytest.param(
            lambda obj: obj["metadata"]["ownerReferences"][0].update(uid="u-former"), None, id="former"
        ),
        pytest.param(owned_by(OTHER), "demo-0", id="of an existing owner"),
        pytest.param(owned_by(), None, id="an orphan like ours: its group may adopt it"),
        pytest.param(
            lambda obj: obj["metadata"].update(ownerReferences=[], labels={}),
            "demo-0",
            id="without an owner, different",
        ),
    ],
)
async def test_workers_count_only_if_their_leader_controls_them(
    change: Change, name_clash: str | None
) -> None:
    world = World(LWS, LEADERS, SERVICE, REVISION, PODS[1], changed(WORKERS[1], change))
    (group,) = (await world.of_set()).groups
    assert group.worker_statefulset is None
    assert (group.name_clash["metadata"]["name"] if group.name_clash else None) == name_clash


@pytest.mark.parametrize(
    ("policy", "owners", "name_clash"),
    [
        pytest.param("UniquePerReplica", [], "Service demo-0", id="without an owner"),
        pytest.param("UniquePerReplica", [OTHER], "Service demo-0", id="of an existing owner"),
        pytest.param("UniquePerReplica", [owner_reference(PODS[1])], None, id="the group's own"),
        pytest.param("Shared", [], None, id="not needed"),
    ],
)
async def test_a_foreign_service_with_the_name_of_a_group_service_is_a_conflict(
    policy: str, owners: list[dict[str, Any]], name_clash: str | None
) -> None:
    annotation = {SUBDOMAIN_POLICY_ANNOTATION: policy}
    pod = changed(PODS[1], lambda obj: obj["metadata"].setdefault("annotations", {}).update(annotation))
    service = changed(
        SERVICE,
        lambda obj: obj["metadata"].update(name="demo-0", uid="u-service", labels={}, ownerReferences=owners),
    )
    (group,) = (await World(LWS, LEADERS, SERVICE, REVISION, pod, service).of_set()).groups
    conflicting = group.name_clash
    assert (f"{conflicting['kind']} {conflicting['metadata']['name']}" if conflicting else None) == name_clash


@pytest.mark.parametrize("ordinals", [None, {}, {"start": 1}])
async def test_workers_without_a_start_ordinal_are_recognised(ordinals: dict[str, int] | None) -> None:
    def change(obj: dict[str, Any]) -> None:
        obj["spec"].pop("ordinals")
        obj["spec"].update({} if ordinals is None else {"ordinals": ordinals})

    snapshot = await World(LWS, LEADERS, SERVICE, REVISION, PODS[1], changed(WORKERS[1], change)).of_set()
    (group,) = snapshot.groups
    assert group.lacks_start_ordinal is not bool(ordinals)


async def test_revisions_of_other_owners_are_ignored() -> None:
    # StatefulSets copy the labels of their pod template to their own revisions.
    of_statefulset = changed(
        REVISION,
        lambda obj: obj.update(
            data={"spec": {"template": {"$patch": "replace"}}},
            metadata={
                **obj["metadata"],
                "name": "demo-7d4f",
                "uid": "u-7",
                "ownerReferences": [{**OTHER, "kind": "StatefulSet", "uid": "uid-of-leaders-demo"}],
            },
        ),
    )
    of_others = changed(
        REVISION, lambda obj: obj["metadata"].update(name="x", uid="u-8", ownerReferences=[OTHER])
    )
    snapshot = await World(*EVERYTHING, of_statefulset, of_others).of_set()
    assert [revision.name for revision in snapshot.revisions] == [f"demo-{KEY}-1"]


async def test_live_keys_include_the_revisions_of_pods_and_workers() -> None:
    old_pod = changed(PODS[1], lambda obj: obj["metadata"]["labels"].update({REVISION_LABEL: "old-pod"}))
    old_workers = changed(
        WORKERS[0],
        lambda obj: obj["spec"]["template"]["metadata"]["labels"].update({REVISION_LABEL: "old-workers"}),
    )
    snapshot = await World(LWS, LEADERS, SERVICE, REVISION, PODS[0], old_pod, old_workers).of_set()
    assert snapshot.live_keys == {KEY, "old-pod", "old-workers"}


# --- What streams do not show -------------------------------------------------------------------------------


async def test_a_foreign_object_with_the_name_is_read_before_a_create() -> None:
    theirs = changed(
        LEADERS, lambda obj: obj["metadata"].update(labels={"app": "x"}, ownerReferences=[OTHER])
    )
    world = World(LWS)
    world.hide(theirs)
    snapshot = await world.of_set()
    assert snapshot.leaders["metadata"]["uid"] == "uid-of-leaders-demo"
    assert snapshot.owners_alive == {"u-9"}
    assert world.cluster.requests == ["StatefulSet default/demo", "LeaderWorkerSet default/demo"]

    # No event reports the deletion of this StatefulSet: each pass reads it.
    del world.cluster.objects["StatefulSet", "demo"]
    assert (await world.of_set()).leaders is None
    assert world.store.get("StatefulSet", "default", "demo") is None


@pytest.mark.parametrize("kind", ["StatefulSet", "Service"])
async def test_an_owned_object_without_its_label_is_read_in_each_pass(kind: str) -> None:
    world = World(*EVERYTHING)
    original = {"StatefulSet": LEADERS, "Service": SERVICE}[kind]
    for generation in (1, 2, 3):
        bare = changed(
            original,
            lambda obj, generation=generation: obj["metadata"].update(
                labels={}, generation=generation, resourceVersion=str(10_000 + generation)
            ),
        )
        world.hide(bare)
        if generation == 1:
            world.store.put(bare)
        snapshot = await world.of_set()
        seen = snapshot.leaders if kind == "StatefulSet" else snapshot.service
        assert seen["metadata"]["resourceVersion"] == str(10_000 + generation)
    assert world.cluster.requests == [f"{kind} default/demo"] * 3


async def test_a_deleted_service_is_not_read() -> None:
    world = World(LWS, LEADERS, REVISION, *PODS, *WORKERS)
    assert (await world.of_set()).service is None
    assert world.cluster.requests == ["LeaderWorkerSet default/demo"]


# --- Owners and orphans -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "labels", "is_alive"),
    [
        pytest.param(OTHER, {}, True, id="of a kind that we do not watch"),
        pytest.param({**OTHER, "kind": "LeaderWorkerSet", "name": "demo"}, {}, False, id="a former set"),
        pytest.param({**OTHER, "kind": "LeaderWorkerSet", "name": "gone"}, {}, False, id="a deleted set"),
        pytest.param(
            {**OTHER, "kind": "LeaderWorkerSet", "name": "alive", "uid": "uid-of-set-alive"},
            {},
            True,
            id="another set",
        ),
        pytest.param(
            {**OTHER, "kind": "Pod", "name": "alive-0", "uid": "uid-of-pod-alive-0"},
            {NAME_LABEL: "alive"},
            True,
            id="a leader pod of another set",
        ),
        pytest.param(
            {**OTHER, "kind": "Pod", "name": "demo-0"}, {NAME_LABEL: "demo"}, False, id="a former leader pod"
        ),
        pytest.param(
            {**OTHER, "kind": "Pod", "name": "x"}, {NAME_LABEL: "x"}, False, id="a deleted leader pod"
        ),
        pytest.param(
            {**OTHER, "kind": "Pod", "name": "x"}, {"app": "x"}, True, id="a pod that we would not see"
        ),
    ],
)
async def test_live_owners(owner: dict[str, Any], labels: dict[str, str], is_alive: bool) -> None:
    alive = make_set("alive", size=1)
    theirs = changed(SERVICE, lambda obj: obj["metadata"].update(labels=labels, ownerReferences=[owner]))
    snapshot = await World(LWS, LEADERS, REVISION, alive, make_leader_pod(alive), PODS[1], theirs).of_set()
    assert (owner["uid"] in snapshot.owners_alive) is is_alive


ORPHANED = [
    pytest.param(LEADERS, id="leader StatefulSet"),
    pytest.param(SERVICE, id="Service"),
    pytest.param(REVISION, id="revision"),
]


@pytest.mark.parametrize("obj", ORPHANED)
async def test_the_set_is_reread_live_before_it_adopts(obj: dict[str, Any]) -> None:
    world = World(*EVERYTHING)
    world.show(changed(obj, owned_by()))
    snapshot = await world.of_set()
    assert world.cluster.requests.count("LeaderWorkerSet default/demo") == 1
    assert snapshot.set_read_live == LWS and snapshot.owner.is_alive

    del world.cluster.objects["LeaderWorkerSet", "demo"]
    assert await world.of_set() is None


def terminating_copy(obj: dict[str, Any]) -> dict[str, Any]:
    return changed(obj, lambda it: it["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z"))


@pytest.mark.parametrize("obj", ORPHANED)
@pytest.mark.parametrize("change", [None, owned_by()], ids=["missing", "orphaned"])
async def test_a_set_that_a_live_read_shows_as_terminating_gets_no_write(
    obj: dict[str, Any], change: Change | None
) -> None:
    """The status is not written, either."""
    world = World(*(item for item in EVERYTHING if item is not obj))
    if change is not None:
        world.show(changed(obj, change))
    assert not plan(await world.of_set()).is_empty
    world.hide(terminating_copy(LWS))
    assert plan(await world.of_set()).is_empty
    assert world.store.get("LeaderWorkerSet", "default", "demo") == trim(terminating_copy(LWS))

    world.cluster.requests.clear()
    assert plan(await world.of_set()).is_empty
    assert world.cluster.requests == [], "nothing more is read for it"


async def test_a_live_read_of_a_set_updates_the_store() -> None:
    world = World(*(obj for obj in EVERYTHING if obj is not SERVICE))
    world.hide(scaled := changed(LWS, lambda lws: lws["spec"].update(replicas=7)))
    await world.of_set()
    assert world.store.get("LeaderWorkerSet", "default", "demo") == trim(scaled)


async def test_results_of_our_own_writes_are_in_the_snapshot() -> None:
    world = World(*EVERYTHING)
    action = Apply(LEADERS, why="")
    world.memory.record_apply(action, LEADERS)
    stored = changed(WORKERS[0], lambda obj: obj["spec"].pop("ordinals"))
    world.memory.record_create(Create(WORKERS[0], why=""), stored)
    snapshot = await world.of_set()
    assert snapshot.applied_leaders == (digest(LEADERS), LEADERS["metadata"]["generation"])
    assert snapshot.drops_start_ordinal
    assert (await world.of_group()).drops_start_ordinal


# --- Groups -------------------------------------------------------------------------------------------------


async def test_a_complete_group_causes_no_reads() -> None:
    world = World(*EVERYTHING)
    snapshot = await world.of_group()
    assert world.cluster.requests == []
    assert snapshot.lws == LWS
    assert names([snapshot.leader, snapshot.worker_statefulset]) == ["demo-0", "demo-0"]
    assert sorted(names(snapshot.worker_pods)) == ["demo-0-1", "demo-0-2"]
    assert (snapshot.revision.key, snapshot.service, snapshot.leader_read_live) == (KEY, None, None)
    assert snapshot.replaced_workers == ()


def created(pod: dict[str, Any], seconds: int, **metadata: Any) -> dict[str, Any]:
    """Return the pod as if it was created some seconds ago."""
    moment = timestamp(NOW - timedelta(seconds=seconds))
    return changed(pod, lambda obj: obj["metadata"].update(creationTimestamp=moment, **metadata))


async def test_a_new_group_causes_no_reads() -> None:
    world = World(LWS, LEADERS, SERVICE, REVISION, created(PODS[1], 1))
    snapshot = await world.of_group()
    assert (snapshot.worker_statefulset, snapshot.worker_pods, snapshot.service) == (None, (), None)
    assert world.cluster.requests == [], "a create fails if a foreign object has the name"


async def test_former_workers_are_observed_only_without_a_worker_statefulset() -> None:
    new = created(PODS[1], 1, uid="u-new")
    world = World(LWS, LEADERS, SERVICE, REVISION, new, *WORKER_PODS)
    assert names((await world.of_group()).former_workers) == ["demo-0-1", "demo-0-2"]
    assert world.cluster.requests == ["StatefulSet default/demo-0"], "it may only have lost its label"
    world.show(WORKERS[1])
    assert (await world.of_group()).former_workers == ()


@pytest.mark.parametrize("owner", ["this leader", "its predecessor"])
async def test_the_pod_group_of_a_group_is_observed_only_if_gangs_are_served(owner: str) -> None:
    volcano = PROVIDERS["volcano"]
    pod_group = api_server.stored(dict(volcano.pod_group(LWS, PODS[1])))
    if owner == "its predecessor":
        pod_group = changed(
            pod_group, owned_by({"kind": "Pod", "name": "demo-0", "uid": "u-8", "controller": True})
        )
    world = World(*EVERYTHING, pod_group)
    assert (await world.of_group()).pod_group is None
    world.gang = volcano
    snapshot = await world.of_group()
    assert snapshot.gang is volcano
    assert names([snapshot.pod_group]) == [f"demo-0-{KEY}"]
    # A PodGroup that may be in the way is read past the cache.
    read = [] if owner == "this leader" else [f"PodGroup default/demo-0-{KEY}"]
    assert world.cluster.requests == read


@pytest.mark.parametrize(
    ("carried", "expected"),
    [
        pytest.param(f"demo-0-{KEY}-0a1b2c3d", f"demo-0-{KEY}-0a1b2c3d", id="that of the leader"),
        pytest.param("mine", None, id="none where users have their own"),
    ],
)
async def test_the_pod_group_that_a_leader_names_is_observed(carried: str, expected: str | None) -> None:
    native = PROVIDERS["kubernetes"]
    leader = changed(PODS[1], lambda pod: pod["spec"].update(schedulingGroup={"podGroupName": carried}))
    pod_group = api_server.stored(dict(native.pod_group(LWS, leader)))
    pod_group["metadata"]["name"] = carried
    others = [obj for obj in EVERYTHING if obj is not PODS[1]]
    world = World(*others, leader, pod_group)
    world.gang = native
    observed = (await world.of_group()).pod_group
    assert (observed["metadata"]["name"] if observed is not None else None) == expected


SCHEDULED = changed(LWS, lambda lws: lws["spec"].update(scheduling={}))
OF_LEADER = f"{workload_name(LWS)}.0a1b2-0-{KEY}"


async def test_a_set_with_scheduling_has_a_workload_and_groups_with_pod_groups_of_it() -> None:
    workload = api_server.stored(build_workload(SetSpec.of(SCHEDULED)))
    (part,) = parts_of(SetSpec.of(SCHEDULED))
    named = changed(PODS[1], lambda pod: pod["spec"].update(schedulingGroup={"podGroupName": OF_LEADER}))
    current, former = (
        api_server.stored(build_pod_group(SetSpec.of(SCHEDULED), part, name, workload, named))
        for name in (OF_LEADER, "former")
    )
    others = [obj for obj in EVERYTHING if obj not in (LWS, PODS[1])]
    world = World(SCHEDULED, *others, named, workload, current, former, scheduler=ASSUMED)
    assert (await world.of_set()).scheduled == Scheduled(), "not known yet"
    world.workloads = Scheduled(is_served=True)
    of_set, of_group = await world.of_set(), await world.of_group()
    assert names([of_set.scheduled.workload]) == [workload_name(LWS)]
    assert sorted(names(of_set.scheduled.pod_groups)) == sorted([OF_LEADER, "former"])
    assert names(of_group.scheduled.pod_groups) == [OF_LEADER]
    assert of_group.gang is None
    world.workloads = Scheduled(is_missing=True)
    assert (await world.of_set()).scheduled == Scheduled(is_missing=True)


async def test_a_recreated_set_finds_the_workload_that_its_orphaned_leaders_name() -> None:
    former = SetSpec.of(changed(SCHEDULED, lambda lws: lws["metadata"].update(uid="uid-of-the-former-set")))
    workload, leaders = (
        changed(obj, owned_by())
        for obj in (
            api_server.stored(build_workload(former)),
            api_server.applied(build_leader_statefulset(former, KEY, RollingUpdate(0, 2, 1))),
        )
    )
    world = World(SCHEDULED, leaders, workload, scheduler=ASSUMED)
    world.workloads = Scheduled(is_served=True)
    assert names([(await world.of_set()).scheduled.workload]) == names([workload])


async def test_volcano_pod_groups_without_their_leader_are_observed() -> None:
    volcano, others = PROVIDERS["volcano"], [obj for obj in EVERYTHING if obj is not LWS]
    in_use = api_server.stored(dict(volcano.pod_group(SCHEDULED, PODS[1])))

    def named(name: str, index: int, **metadata: Any) -> dict[str, Any]:
        leader = make_leader_pod(LWS, index)
        leader["metadata"]["labels"] |= {REVISION_LABEL: KEY}
        pod_group = dict(volcano.pod_group(SCHEDULED, leader))
        return api_server.stored(
            {**pod_group, "metadata": {**pod_group["metadata"], "name": name, **metadata}}
        )

    orphaned = changed(WORKER_PODS[0], lambda pod: pod["metadata"].update(name="demo-7-1"))
    orphaned["metadata"]["labels"] |= {GROUP_INDEX_LABEL: "7", REVISION_LABEL: KEY}
    world = World(
        SCHEDULED,
        *others,
        in_use,
        orphaned,
        named(f"demo-7-{KEY}", 7),
        named(f"demo-8-{KEY}", 8),
        named("of-another-owner", 9),
        named(f"demo-10-{KEY}", 10, ownerReferences=[OTHER]),
        named(f"demo-11-{KEY}", 11, deletionTimestamp="2026-01-01T00:00:00Z"),
        scheduler=Scheduler(is_enabled=True, provider="volcano"),
    )
    world.gang = volcano
    assert names([(await world.of_group()).pod_group]) == names([in_use])
    assert world.cluster.requests == [], "one that the set owns comes from the store"
    former = (await world.of_set()).former_gangs
    assert {(gang.pod_group["metadata"]["name"], gang.has_pods) for gang in former} == {
        (f"demo-7-{KEY}", True),
        (f"demo-8-{KEY}", False),
    }
    world.show(changed(SCHEDULED, lambda lws: lws["spec"].pop("scheduling")))
    assert (await world.of_set()).former_gangs == (), "without scheduling their leaders own them"


async def test_an_edited_label_of_a_leader_deletes_no_pod_group() -> None:
    """The label is repaired by the pass over the group, which may run later."""
    volcano, lws = PROVIDERS["volcano"], changed(SCHEDULED, lambda lws: lws["spec"].update(replicas=1))
    leader = changed(PODS[1], lambda pod: pod["metadata"]["labels"].update({GROUP_INDEX_LABEL: "9"}))
    leader["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = f"demo-0-{KEY}"
    pod_group = api_server.stored(dict(volcano.pod_group(SCHEDULED, PODS[1])))
    world = World(lws, LEADERS, leader, pod_group, scheduler=Scheduler(is_enabled=True, provider="volcano"))
    world.gang = volcano
    assert (await world.of_set()).former_gangs == ()


async def test_sets_without_scheduling_cause_no_reads_of_workloads() -> None:
    world = World(*EVERYTHING, scheduler=ASSUMED)
    world.workloads = Scheduled(is_served=True)
    assert ((await world.of_set()).scheduled, (await world.of_group()).scheduled) == (None, None)
    assert world.cluster.requests == []


async def test_a_workload_that_no_stream_shows_is_read_before_one_is_created() -> None:
    others = [obj for obj in EVERYTHING if obj is not LWS]
    world = World(SCHEDULED, *others, scheduler=ASSUMED)
    world.workloads = Scheduled(is_served=True)
    snapshot = await world.of_set()
    assert (snapshot.scheduled.workload, snapshot.set_read_live is not None) == (None, True)
    assert f"Workload default/{workload_name(LWS)}" in world.cluster.requests


EXCLUSIVE = {EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"zone": "z-1"}}}


@pytest.mark.parametrize(
    ("cached", "uncached", "requests", "node"),
    [
        pytest.param([], [NODE], ["Node /node-1"], NODE, id="a new group"),
        pytest.param([], [], ["Node /node-1"], None, id="a deleted node"),
        pytest.param([WORKERS[1]], [NODE], [], None, id="workers are placed once"),
    ],
)
async def test_the_node_of_a_leader_is_read_if_new_workers_follow_it(
    cached: list[dict[str, Any]], uncached: list[dict[str, Any]], requests: list[str], node: Any
) -> None:
    lws = make_set(size=3, annotations=EXCLUSIVE)
    revision = api_server.stored(dict(build_revision(lws, record(lws), 1)))
    leader = make_leader_pod(
        lws, 0, key=revision["metadata"]["labels"][REVISION_LABEL], annotations=EXCLUSIVE
    )
    world = World(lws, LEADERS, SERVICE, revision, created(leader, 1), *cached)
    for obj in uncached:
        world.hide(obj)
    snapshot = await world.of_group()
    assert snapshot.leader_node == node
    assert world.cluster.requests == requests


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([LWS, LEADERS], id="no such pod"),
        pytest.param([LEADERS, PODS[1]], id="no such set"),
        pytest.param([LWS, PODS[1]], id="no StatefulSet"),
        pytest.param([LWS, LEADERS, changed(PODS[1], owned_by())], id="a pod without an owner"),
        pytest.param([LWS, LEADERS, changed(PODS[1], owned_by(OTHER))], id="a foreign pod"),
        pytest.param([LWS, changed(LEADERS, owned_by()), PODS[1]], id="a StatefulSet without an owner"),
        pytest.param([LWS, changed(LEADERS, owned_by(OTHER)), PODS[1]], id="a foreign StatefulSet"),
        pytest.param(
            [LWS, changed(LEADERS, lambda obj: obj["metadata"].update(uid="u-new")), PODS[1]],
            id="a pod of a former StatefulSet",
        ),
        pytest.param(
            [make_set("demo"), make_set("demo-0"), *EVERYTHING[1:]], id="a set named like the worker"
        ),
    ],
)
async def test_a_pod_is_a_leader_only_by_uid_at_each_step(objects: list[dict[str, Any]]) -> None:
    world = World(*objects)
    name = "demo-0-1" if len(objects) > len(EVERYTHING) else "demo-0"
    assert await world.of_group(name) is None
    assert world.cluster.requests == []


async def test_workers_of_a_former_leader_are_read_live() -> None:
    new = changed(PODS[1], lambda obj: obj["metadata"].update(uid="u-new"))
    world = World(LWS, LEADERS, SERVICE, REVISION, new, WORKERS[1], *WORKER_PODS)
    snapshot = await world.of_group()
    assert snapshot.worker_statefulset is not None and snapshot.owners_alive == frozenset()
    assert world.cluster.requests == ["StatefulSet default/demo-0"]

    del world.cluster.objects["StatefulSet", "demo-0"]
    snapshot = await world.of_group()
    assert snapshot.worker_statefulset is None, "it was deleted, and its event has not arrived yet"


async def test_workers_that_a_gated_leader_waits_for_are_not_read_live() -> None:
    """The watch shows their end. A leader without the gate is about to create workers of the same name."""
    new = changed(PODS[1], lambda obj: obj["metadata"].update(uid="u-new"))
    new["spec"]["schedulingGates"] = [{"name": GROUP_REPLACEMENT_GATE}]
    world = World(LWS, LEADERS, SERVICE, REVISION, new, WORKERS[1], *WORKER_PODS)
    snapshot = await world.of_group()
    assert snapshot.worker_statefulset is not None and world.cluster.requests == []


@pytest.mark.parametrize("orphan", ["StatefulSet", "Service"])
async def test_the_leader_is_reread_live_before_it_adopts(orphan: str) -> None:
    world = World(*EVERYTHING)
    bare = changed(WORKERS[1], owned_by())
    if orphan == "Service":
        service = changed(SERVICE, owned_by())
        metadata = {**service["metadata"], "name": "demo-0", "uid": "u-5"}
        bare = {**service, "metadata": metadata}
    world.show(bare)
    snapshot = await world.of_group()
    assert snapshot.leader_read_live["metadata"]["uid"] == PODS[1]["metadata"]["uid"]
    assert world.cluster.requests.count("Pod default/demo-0") == 1


@pytest.mark.parametrize("seconds", [5, 60, -3600])
async def test_an_old_leader_without_workers_is_read_live(seconds: int) -> None:
    """The stream of pods may lag behind that of StatefulSets: leader and workers may have ended together. A
    leader that seems to be created in the future may be old: the clock of the API server is ahead.
    """
    world = World(LWS, LEADERS, SERVICE, REVISION, created(PODS[1], seconds))
    world.cluster.objects["Pod", "demo-0"] = changed(PODS[1], lambda obj: obj["metadata"].update(uid="u-new"))
    snapshot = await world.of_group()
    if seconds != 5:
        assert snapshot is None, "nothing is created for it"
        assert world.cluster.requests == ["Pod default/demo-0"]
    else:
        assert snapshot is not None and world.cluster.requests == [], "workers of a new leader are created"


async def test_a_users_own_service_causes_no_live_read_of_set_or_leader() -> None:
    """The Service may stay indefinitely. Only the Service is read, as no stream may show it."""
    own = changed(SERVICE, lambda obj: obj["metadata"].update(ownerReferences=[], managedFields=[]))
    of_group = {**own, "metadata": {**own["metadata"], "name": "demo-0", "uid": "u-5"}}
    world = World(*(obj for obj in EVERYTHING if obj is not SERVICE), own, of_group)
    assert (await world.of_set()).service == trim(own)
    assert (await world.of_group()).service == trim(of_group)
    assert world.cluster.requests == ["Service default/demo", "Service default/demo-0"]


@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "terminating"])
async def test_a_leader_that_a_live_read_shows_as_terminating_gets_no_write(is_gone: bool) -> None:
    unique = {SUBDOMAIN_POLICY_ANNOTATION: "UniquePerReplica"}
    pod = changed(PODS[1], lambda obj: obj["metadata"].setdefault("annotations", {}).update(unique))
    world = World(LWS, LEADERS, SERVICE, REVISION, pod, changed(WORKERS[1], owned_by()))
    if is_gone:
        del world.cluster.objects["Pod", "demo-0"]
        assert await world.of_group() is None
    else:
        world.hide(terminating_copy(pod))
        assert plan_group(await world.of_group()).is_empty
    stored = world.store.get("Pod", "default", "demo-0")
    assert stored == (None if is_gone else trim(terminating_copy(pod)))


async def test_a_replaced_worker_is_detected() -> None:
    world = World(*EVERYTHING)
    assert (await world.of_group()).replaced_workers == ()
    again = changed(WORKER_PODS[0], lambda pod: pod["metadata"].update(uid="u-again"))
    world.show(again)
    assert (await world.of_group()).replaced_workers == ("demo-0-1",)


async def test_pods_beyond_the_size_of_a_group_are_not_lost() -> None:
    world = World(*EVERYTHING)
    extra = make_worker_pod(WORKERS[1], 5)
    world.show(extra)
    await world.of_group()
    world.show(changed(extra, lambda pod: pod["metadata"].update(uid="u-again")))
    assert (await world.of_group()).replaced_workers == ()


async def test_sibling_groups_are_read_only_for_a_possible_restart() -> None:
    world = World(*EVERYTHING)
    assert (await world.of_group()).siblings == ()
    restarted = {"containerStatuses": [{"name": "main", "restartCount": 1}]}
    world.show(changed(WORKER_PODS[0], lambda pod: pod["status"].update(restarted)))
    snapshot = await world.of_group()
    assert [group.index for group in snapshot.siblings] == [0, 1]
    assert snapshot.target_key == KEY
    assert world.cluster.requests == []


async def test_a_leader_being_deleted_by_another_pass_counts_as_terminating() -> None:
    world = World(*EVERYTHING)
    world.memory.deleting.add(PODS[1]["metadata"]["uid"])
    snapshot = await world.of_set()
    deleting = {group.leader["metadata"]["name"]: group.is_being_deleted for group in snapshot.groups}
    assert deleting == {"demo-0": True, "demo-1": False}


async def test_losses_under_restart_policy_none_are_ignored_later() -> None:
    calm = make_set(size=3, template={"restartPolicy": "None"})
    world = World(calm, *EVERYTHING[1:])
    await world.of_group()
    world.show(changed(WORKER_PODS[0], lambda pod: pod["metadata"].update(uid="u-again")))
    await world.of_group()
    world.show(changed(LWS, lambda lws: lws["metadata"].update(generation=2)))
    assert (await world.of_group()).replaced_workers == ()


async def test_a_missing_revision_is_read_before_it_counts_as_lost() -> None:
    world = World(*(obj for obj in EVERYTHING if obj is not REVISION))
    world.hide(REVISION)
    snapshot = await world.of_group()
    assert snapshot.revision is not None and snapshot.revision.key == KEY
    assert snapshot.unrecorded_templates is None
    assert world.cluster.requests == ["list controllerrevisions"]
    assert (await world.of_group()).revision is not None
    assert len(world.cluster.requests) == 1, "it is known afterwards"


async def test_a_set_with_an_unsupported_field_causes_no_reads() -> None:
    world = World(*EVERYTHING)
    world.show(changed(LWS, lambda obj: obj["spec"].update(scheduling={})))
    of_set, of_group = await world.of_set(), await world.of_group()
    assert of_set.leaders is None and of_group.worker_statefulset is None
    assert world.cluster.requests == []


async def test_a_set_in_an_uncovered_namespace_causes_no_reads() -> None:
    world = World(*EVERYTHING)

    async def covers(namespace: str) -> bool:
        return namespace != "default"

    world.covers = covers
    of_set, of_group = await world.of_set(), await world.of_group()
    assert of_set.left_alone.reason == "NamespaceNotCovered" and of_set.leaders is None
    assert of_group.left_alone == of_set.left_alone and of_group.worker_statefulset is None
    assert world.cluster.requests == []


async def test_a_set_with_an_invalid_spec_causes_no_reads() -> None:
    world = World(*EVERYTHING)
    world.show(changed(make_set(size=3, generation=2), lambda lws: lws["spec"].update(replicas="two")))
    snapshot = await world.of_set()
    assert snapshot.leaders is None
    assert snapshot.left_alone.message.startswith("spec.replicas is 'two', not a whole number: ")
    group = await world.of_group()
    assert (group.worker_statefulset, group.left_alone) == (None, snapshot.left_alone)
    assert world.cluster.requests == []


# --- Pods of groups that have used up their restarts --------------------------------------------------------


def kept_of(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod, terminating, with the annotation and the finalizer of a kept group."""

    def change(obj: dict[str, Any]) -> None:
        obj["metadata"]["finalizers"] = ["foregroundDeletion", RESTART_BUDGET_FINALIZER]
        obj["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"
        obj["metadata"]["annotations"][RESTART_BUDGET_EXHAUSTED_ANNOTATION] = "true"

    return changed(pod, change)


KEPT = (kept_of(PODS[1]), *map(kept_of, WORKER_PODS))


async def test_kept_pods_and_their_leader_statefulset_are_observed() -> None:
    snapshot = await World(LWS, LEADERS, *KEPT, WORKERS[1]).of_group()
    assert names(snapshot.kept_workers) == ["demo-0-1", "demo-0-2"]
    assert snapshot.leaders == trim(LEADERS) and snapshot.leader == trim(KEPT[0])
    world = World(*EVERYTHING)
    at_rest = await world.of_group()
    assert (at_rest.kept_workers, at_rest.leaders) == ((), None)
    assert "list namespaces" not in world.cluster.requests


async def test_the_terminating_namespace_of_kept_pods_is_observed() -> None:
    world = World(LWS, LEADERS, *KEPT, WORKERS[1])
    namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    world.cluster.objects["Namespace", "default"] = namespace
    assert [(await world.of_group()).is_namespace_ending for _ in range(2)] == [False, False]
    assert world.cluster.requests.count("list namespaces") == 1
    namespace["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    world.seconds = 11.0
    assert (await world.of_group()).is_namespace_ending


async def test_no_namespace_is_terminating_without_read_access() -> None:
    world = World(LWS, LEADERS, *KEPT, WORKERS[1])
    world.cluster.forbidden.add("namespaces")
    assert not (await world.of_group()).is_namespace_ending


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((LEADERS, *KEPT), id="without the set"),
        pytest.param((LWS, *KEPT), id="without the StatefulSet"),
        pytest.param(
            (LWS, changed(LEADERS, lambda obj: obj["metadata"].update(uid="u-next")), *KEPT),
            id="with another StatefulSet",
        ),
        pytest.param(KEPT, id="without both"),
    ],
)
async def test_kept_pods_without_an_owner_are_abandoned_with_their_leader_last(objects: Any) -> None:
    abandoned = await World(*objects).of_group()
    assert names(abandoned.pods) == ["demo-0-1", "demo-0-2", "demo-0"]


async def test_kept_pods_without_a_leader_are_abandoned() -> None:
    abandoned = await World(LWS, LEADERS, *KEPT[1:]).of_group()
    assert names(abandoned.pods) == ["demo-0-1", "demo-0-2"]
    assert await World(LWS, LEADERS, *WORKER_PODS).of_group() is None


async def test_a_statefulset_that_no_stream_shows_keeps_its_pods() -> None:
    world = World(LWS, *KEPT)
    world.hide(LEADERS)
    assert await world.of_group() is None
    assert names((await world.of_group()).kept_workers) == ["demo-0-1", "demo-0-2"]


async def test_kept_pods_of_a_terminating_set_are_observed_even_if_its_spec_is_invalid() -> None:
    broken = changed(LWS, lambda obj: obj["spec"].update(leaderWorkerTemplate=None))
    broken["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert names((await World(broken, LEADERS, *KEPT).of_group()).kept_workers) == ["demo-0-1", "demo-0-2"]


@pytest.mark.parametrize(
    ("spec", "is_covered"),
    [
        pytest.param({"spread": "zones"}, True, id="a field of a later release"),
        pytest.param({"scheduling": {}}, True, id="a field that no scheduler serves"),
        pytest.param({}, False, id="a namespace that is not covered"),
    ],
)
async def test_kept_pods_of_a_set_that_is_left_alone_do_not_block_their_namespace(
    spec: dict[str, Any], is_covered: bool
) -> None:
    async def covers(namespace: str) -> bool:
        return is_covered

    world = World(changed(LWS, lambda obj: obj["spec"].update(spec)), LEADERS, *KEPT, WORKERS[1])
    world.covers = covers
    namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    world.cluster.objects["Namespace", "default"] = namespace
    planned = plan_group(await world.of_group())
    assert planned.sequences == () and planned.again_after == 30.0, "nothing shows the end of the namespace"
    namespace["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    world.seconds = 30.0
    (released,) = plan_group(await world.of_group()).sequences
    assert [action.target.name for action in released] == ["demo-0-1", "demo-0-2", "demo-0"]  # type: ignore[union-attr]
