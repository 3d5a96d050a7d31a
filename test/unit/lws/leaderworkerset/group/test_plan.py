"""Tests of the decisions of a pass over a group: restart it, complete it, or wait with a reason."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import timestamp
from lws.leaderworkerset.children.services import build_group_service
from lws.leaderworkerset.group.gangs import PROVIDERS
from lws.leaderworkerset.group.plan import plan
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.revisions.history import Recorded, record
from lws.leaderworkerset.revisions.reading import parse
from lws.runtime.actions import Action, Create, Delete, Merge, Plan, Reference, SetOwner
from lws.runtime.children import LABELS_DIFFER
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_REPLACEMENT_GATE,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
)
from test.unit import api_server
from test.unit.builders import (
    KEY,
    NOW,
    build_revision,
    make_leader_pod,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)
from test.unit.set_world import judged

UNIQUE = {"subdomainPolicy": "UniquePerReplica"}
OTHER = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}
FORMER = {"apiVersion": "v1", "kind": "Pod", "name": "demo-1", "uid": "u-former", "controller": True}
Change = Callable[[dict[str, Any]], Any]


def recorded(lws: dict[str, Any], key: str = KEY) -> Recorded:
    return parse(api_server.stored(dict(build_revision(lws, record(lws), 1, key=key))))


def group(
    lws: dict[str, Any] | None = None,
    *,
    of: dict[str, Any] | None = None,
    leader: dict[str, Any] | None = None,
    **facts: Any,
) -> GroupSnapshot:
    """Return group 1, of which only the leader exists.

    of: the set as its revision has it, by default `lws`. leader: fields in which the leader pod differs.
    """
    lws = lws if lws is not None else make_set(size=3)
    revision = recorded(of if of is not None else lws)
    pod = make_leader_pod(of if of is not None else lws, 1, **(leader or {}))
    return GroupSnapshot(lws, pod, NOW, revision, **facts)


def complete(lws: dict[str, Any] | None = None, **options: Any) -> GroupSnapshot:
    """Return the group with all its objects."""
    snapshot = group(lws, **options)
    workers = make_worker_statefulset(dict(snapshot.leader))
    pods = tuple(make_worker_pod(workers, index) for index in range(1, workers["spec"]["replicas"] + 1))
    service = api_server.stored(build_group_service("demo", snapshot.leader))
    return replace(snapshot, worker_statefulset=workers, worker_pods=pods, service=service)


def changed(obj: Any, change: Change) -> dict[str, Any]:
    edited: dict[str, Any] = copy.deepcopy(dict(obj))
    change(edited)
    return edited


def owned_by(*owners: dict[str, Any]) -> Change:
    return lambda obj: obj["metadata"].update(ownerReferences=list(owners))


def terminating(obj: dict[str, Any]) -> None:
    obj["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"


def actions_of(planned: Plan) -> list[Action]:
    return [action for sequence in planned.sequences for action in sequence]


def the_create(planned: Plan) -> Create:
    (action,) = actions_of(planned)
    assert isinstance(action, Create)
    return action


def is_idle(planned: Plan) -> bool:
    return planned.is_empty and planned.again_after is None and not planned.waiting_for


# --- Nothing to do ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(complete(), id="complete"),
        pytest.param(complete(make_set(size=3, networkConfig=UNIQUE)), id="with a service of its own"),
        pytest.param(group(make_set(size=1)), id="a group of one needs no workers"),
        pytest.param(complete(make_set(size=3, startupPolicy="LeaderReady")), id="leader ready"),
        pytest.param(
            complete(make_set(size=3, startupPolicy="LeaderReady"), leader={"ready": False}),
            id="a leader that is not ready any more keeps its workers",
        ),
        pytest.param(complete(drops_start_ordinal=True), id="workers that exist stay"),
    ],
)
def test_nothing_to_do(snapshot: GroupSnapshot) -> None:
    assert is_idle(plan(snapshot))


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(group(leader={"terminating": True}), id="the leader is terminating"),
        pytest.param(group(make_set(size=3, terminating=True)), id="the set is terminating"),
        pytest.param(
            complete(leader={"terminating": True}), id="the leader is terminating, its workers exist"
        ),
    ],
)
def test_terminating_objects_are_left_alone(snapshot: GroupSnapshot) -> None:
    planned = plan(snapshot)
    assert planned.is_empty and planned.waiting_for == "the leader pod or the set to be gone"


# --- Workers ------------------------------------------------------------------------------------------------


def test_a_new_group_gets_its_workers() -> None:
    snapshot = group()
    create = the_create(plan(snapshot))
    assert Reference.to(create.intent) == Reference("apps/v1", "StatefulSet", "default", "demo-1")
    assert create.intent["spec"]["replicas"] == 2
    (announce,) = create.announce
    assert create.failure is not None
    assert [(event.type, event.reason, event.action, event.note) for event in (announce, create.failure)] == [
        ("Normal", "GroupsProgressing", "Create", "Created worker statefulset for leader pod demo-1"),
        ("Warning", "FailedCreate", "Create", "Failed to create worker statefulset for leader pod demo-1"),
    ]
    assert announce.regarding == Reference.to(snapshot.lws)
    assert announce.related == create.failure.related == Reference.to(snapshot.leader)
    assert announce.fold is not None and announce.fold.related is not None
    leaders = announce.fold.related
    assert (leaders.kind, leaders.namespace, leaders.name) == ("StatefulSet", "default", "demo")


@pytest.mark.parametrize(
    ("lws", "of", "replicas"),
    [
        pytest.param(make_set(size=5), make_set(size=3), 2, id="its own size"),
        pytest.param(make_set(size=1), make_set(size=3), 2, id="workers, although new groups have none"),
        pytest.param(make_set(size=3), make_set(size=1), None, id="none, although new groups have some"),
    ],
)
def test_an_old_group_is_completed_from_its_own_revision(
    lws: dict[str, Any], of: dict[str, Any], replicas: int | None
) -> None:
    planned = plan(group(lws, of=of))
    created = [
        action.intent["spec"]["replicas"] for action in actions_of(planned) if isinstance(action, Create)
    ]
    assert created == ([] if replicas is None else [replicas])


@pytest.mark.parametrize(
    ("policy", "is_ready", "creates"),
    [
        ("LeaderCreated", False, True),
        ("LeaderCreated", True, True),
        ("LeaderReady", False, False),
        ("LeaderReady", True, True),
    ],
)
def test_workers_wait_for_a_ready_leader_with_leader_ready(
    policy: str, is_ready: bool, creates: bool
) -> None:
    planned = plan(group(make_set(size=3, startupPolicy=policy), leader={"ready": is_ready}))
    assert bool(actions_of(planned)) is creates
    waiting = "" if creates else "the leader pod to be ready (startupPolicy LeaderReady)"
    assert planned.waiting_for == waiting


def test_no_workers_without_start_ordinals() -> None:
    planned = plan(group(drops_start_ordinal=True))
    assert planned.is_empty
    assert planned.waiting_for == "an API server that keeps spec.ordinals.start of StatefulSets"


ZONE = "topology.kubernetes.io/zone"
EXCLUSIVE = {EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE}
NODE = {"metadata": {"name": "node-1", "labels": {ZONE: "z-1"}}}


@pytest.mark.parametrize(
    ("live", "own", "selector"),
    [
        pytest.param(EXCLUSIVE, EXCLUSIVE, {ZONE: "z-1"}, id="beside the leader"),
        pytest.param({EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}, EXCLUSIVE, {ZONE: "z-1"}, id="as its revision"),
        pytest.param({}, EXCLUSIVE, {ZONE: "z-1"}, id="although new groups go anywhere"),
        pytest.param(EXCLUSIVE, {}, None, id="anywhere, although new groups do not"),
    ],
)
def test_workers_follow_their_leader_with_exclusive_topology(
    live: dict[str, str], own: dict[str, str], selector: dict[str, str] | None
) -> None:
    snapshot = group(make_set(annotations=live), of=make_set(annotations=own), leader_node=NODE)
    template = the_create(plan(snapshot)).intent["spec"]["template"]
    assert template["spec"].get("nodeSelector") == selector
    topology = template["metadata"]["annotations"].get(EXCLUSIVE_TOPOLOGY_ANNOTATION)
    assert topology == own.get(EXCLUSIVE_TOPOLOGY_ANNOTATION)


@pytest.mark.parametrize(
    ("scheduled", "node", "announces", "rechecks"),
    [
        pytest.param(False, None, False, False, id="the leader is not scheduled"),
        pytest.param(True, None, False, True, id="the node is unknown"),
        pytest.param(True, {"metadata": {"name": "node-1"}}, True, True, id="the node has no such label"),
    ],
)
def test_workers_wait_for_the_node_of_their_leader(
    scheduled: bool, node: Any, announces: bool, rechecks: bool
) -> None:
    snapshot = group(make_set(annotations=EXCLUSIVE), leader_node=node)
    pod = dict(snapshot.leader) | ({} if scheduled else {"spec": {}})
    planned = plan(replace(snapshot, leader=pod))
    assert planned.sequences == ()
    assert planned.waiting_for
    assert [event.note for event in planned.announce] == ([planned.waiting_for] if announces else [])
    assert (planned.again_after is not None) is rechecks


# --- Gangs --------------------------------------------------------------------------------------------------

VOLCANO = PROVIDERS["volcano"]


def of_gang(lws: dict[str, Any] | None = None, **facts: Any) -> GroupSnapshot:
    return replace(group(lws), gang=VOLCANO, **facts)


def pod_group_of(snapshot: GroupSnapshot) -> dict[str, Any]:
    return api_server.stored(dict(VOLCANO.pod_group(snapshot.lws, snapshot.leader)))


def test_a_pod_group_comes_before_the_pods_that_need_it() -> None:
    planned = plan(of_gang())
    ((first, second),) = planned.sequences
    assert isinstance(first, Create) and isinstance(second, Create)
    assert Reference.to(first.intent).kind == "PodGroup"
    assert Reference.to(first.intent).name == f"demo-1-{KEY}"
    assert Reference.to(second.intent).kind == "StatefulSet"
    assert first.failure is not None
    assert first.failure.note == "Failed to create PodGroup for leader pod demo-1"


@pytest.mark.parametrize(
    "lws",
    [
        pytest.param(make_set(size=1), id="no workers"),
        pytest.param(make_set(size=3, startupPolicy="LeaderReady"), id="workers that come later"),
    ],
)
def test_a_leader_alone_needs_its_pod_group_too(lws: dict[str, Any]) -> None:
    snapshot = of_gang(lws)
    pending = {**snapshot.leader, "status": {"phase": "Pending"}}
    planned = plan(replace(snapshot, leader=pending))
    assert Reference.to(the_create(planned).intent).kind == "PodGroup"


def test_a_pod_group_of_the_former_leader_is_waited_for() -> None:
    snapshot = of_gang()
    former = changed(pod_group_of(snapshot), owned_by(FORMER))
    planned = plan(replace(snapshot, pod_group=former))
    assert planned.sequences == ()
    assert planned.waiting_for == "the PodGroup of the former leader pod to be gone"


def test_a_pod_group_is_kept_and_a_deleted_one_is_recreated() -> None:
    at_rest = replace(complete(), gang=VOLCANO)
    assert plan(replace(at_rest, pod_group=pod_group_of(at_rest))).is_empty
    assert [
        Reference.to(action.intent).kind for action in actions_of(plan(at_rest)) if isinstance(action, Create)
    ] == ["PodGroup"]


def created_kinds(planned: Plan) -> list[str]:
    return [Reference.to(action.intent).kind for action in actions_of(planned) if isinstance(action, Create)]


def test_with_scheduling_the_set_owns_a_pod_group_and_the_next_leader_reuses_it() -> None:
    snapshot = of_gang(make_set(size=3, scheduling={}))
    stored = pod_group_of(snapshot)
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("LeaderWorkerSet", snapshot.lws["metadata"]["uid"])
    assert created_kinds(plan(snapshot)) == ["PodGroup", "StatefulSet"]
    assert created_kinds(plan(replace(snapshot, pod_group=stored))) == ["StatefulSet"]


def test_with_scheduling_a_pod_group_that_its_leader_owns_is_kept() -> None:
    """Earlier releases created this PodGroup."""
    snapshot, own = of_gang(make_set(size=3, scheduling={})), pod_group_of(of_gang())
    assert created_kinds(plan(replace(snapshot, pod_group=own))) == ["StatefulSet"]
    former = changed(own, owned_by(FORMER))
    planned = plan(replace(snapshot, pod_group=former))
    assert created_kinds(planned) == []
    assert planned.waiting_for == "the PodGroup of the former leader pod to be gone"


NATIVE = PROVIDERS["kubernetes"]
NAME = f"demo-1-{KEY}-0a1b2c3d"


def named(snapshot: GroupSnapshot, name: str = NAME) -> GroupSnapshot:
    """Return a group whose leader has the name of its PodGroup."""
    leader = {**snapshot.leader, "spec": {"schedulingGroup": {"podGroupName": name}}}
    return replace(snapshot, leader=leader, gang=NATIVE)


def native_pod_group(snapshot: GroupSnapshot) -> dict[str, Any]:
    return api_server.stored(dict(NATIVE.pod_group(snapshot.lws, snapshot.leader)))


def test_a_pod_group_is_passed_to_the_next_leader() -> None:
    planned = plan(named(group()))
    ((first, second),) = planned.sequences
    assert isinstance(first, Create) and isinstance(second, Create)
    assert (first.intent["kind"], first.intent["metadata"]["name"]) == ("PodGroup", NAME)
    assert second.intent["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": NAME}


def test_workers_join_the_gang_of_their_leader_without_a_provider() -> None:
    """The PodGroup may be served in a moment, and would wait for all workers."""
    create = the_create(plan(replace(named(group()), gang=None)))
    assert create.intent["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": NAME}


@pytest.mark.parametrize("name", ["", "mine"], ids=["from before gangs", "with a group of users"])
def test_a_leader_without_our_pod_group_name_has_no_pod_group(name: str) -> None:
    create = the_create(plan(named(group(), name)))
    assert create.intent["kind"] == "StatefulSet"
    assert "schedulingGroup" not in create.intent["spec"]["template"]["spec"]


def test_a_terminating_pod_group_that_protects_its_pods_blocks_nothing() -> None:
    snapshot = named(group())
    protected = changed(native_pod_group(snapshot), terminating)
    planned = plan(replace(snapshot, pod_group=protected))
    assert the_create(planned).intent["kind"] == "StatefulSet"
    assert not planned.waiting_for
    # With other providers the PodGroup is gone in a moment, and workers would be placed without it.
    leaving = changed(pod_group_of(of_gang()), terminating)
    assert plan(of_gang(pod_group=leaving)).sequences == ()


@pytest.mark.parametrize("provider", [VOLCANO, NATIVE], ids=["Volcano", "Kubernetes"])
def test_a_foreign_pod_group_is_left_alone_and_reported(provider: Any) -> None:
    snapshot = replace(named(group()), gang=provider)
    theirs = changed(
        api_server.stored(dict(provider.pod_group(snapshot.lws, snapshot.leader))),
        owned_by(OTHER),
    )
    planned = plan(replace(snapshot, pod_group=theirs, owners_alive=frozenset({"u-9"})))
    assert planned.sequences == ()
    assert "exists and is controlled by Thing theirs" in planned.waiting_for
    assert [event.reason for event in planned.announce] == ["UnexpectedPodGroupOwner"]


def test_an_orphaned_pod_group_is_adopted() -> None:
    snapshot = named(group())
    pod_group = native_pod_group(snapshot)
    orphan = changed(pod_group, owned_by())
    actions = actions_of(plan(replace(snapshot, pod_group=orphan, leader_read_live=snapshot.leader)))
    adoption = next(action for action in actions if isinstance(action, SetOwner))
    assert [adoption.owner] == pod_group["metadata"]["ownerReferences"]


@pytest.mark.parametrize(
    ("change", "patch", "why"),
    [
        pytest.param(
            lambda obj: obj["spec"].update(replicas=7),
            {"spec": {"replicas": 2}},
            "workers were scaled to 7 by hand, the group has 2",
            id="scaled up",
        ),
        pytest.param(
            lambda obj: obj["spec"].update(replicas=0),
            {"spec": {"replicas": 2}},
            "workers were scaled to 0 by hand, the group has 2",
            id="scaled to zero",
        ),
        pytest.param(
            lambda obj: obj["spec"].update(replicas=3, ordinals={"start": 0}),
            {"spec": {"replicas": 2, "ordinals": {"start": 1}}},
            "workers were scaled to 3 by hand, the group has 2; the first ordinal was set to 0 by hand",
            id="ordinals start at 0",
        ),
        pytest.param(
            lambda obj: obj["metadata"]["labels"].pop(NAME_LABEL),
            {"metadata": {"labels": {NAME_LABEL: "demo"}}},
            LABELS_DIFFER,
            id="a label removed",
        ),
        pytest.param(
            lambda obj: (
                obj["spec"].update(replicas=3),
                obj["metadata"]["labels"].update({REVISION_LABEL: "x"}),
            ),
            {"spec": {"replicas": 2}, "metadata": {"labels": {REVISION_LABEL: KEY}}},
            f"workers were scaled to 3 by hand, the group has 2; {LABELS_DIFFER}",
            id="both",
        ),
    ],
)
def test_edits_of_worker_statefulsets_are_repaired(change: Change, patch: dict[str, Any], why: str) -> None:
    snapshot = complete()
    planned = plan(replace(snapshot, worker_statefulset=changed(snapshot.worker_statefulset, change)))
    (merge,) = actions_of(planned)
    assert isinstance(merge, Merge)
    assert (merge.target.kind, merge.target.uid) == ("StatefulSet", "uid-of-workers-demo-1")
    assert (merge.patch, merge.why) == (patch, why)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda obj: obj["spec"]["template"]["spec"]["containers"][0].update(image="x:1"),
            id="another template",
        ),
        pytest.param(lambda obj: obj["metadata"]["labels"].update(theirs="x"), id="a foreign label"),
        pytest.param(lambda obj: obj["metadata"].update(annotations={"theirs": "x"}), id="an annotation"),
        pytest.param(lambda obj: obj["spec"].pop("ordinals"), id="dropped by the API server"),
        pytest.param(lambda obj: obj["spec"].pop("template"), id="a trimmed object"),
    ],
)
def test_other_edits_of_worker_statefulsets_are_kept(change: Change) -> None:
    snapshot = complete()
    assert is_idle(plan(replace(snapshot, worker_statefulset=changed(snapshot.worker_statefulset, change))))


# --- The Service of a group ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("live", "own", "creates"),
    [
        pytest.param(None, None, False, id="shared"),
        pytest.param(UNIQUE, UNIQUE, True, id="its own"),
        pytest.param(None, UNIQUE, True, id="an old group keeps its own subdomain"),
        pytest.param(UNIQUE, None, False, id="an old group keeps to the shared one"),
    ],
)
def test_service_of_a_group_follows_its_revision(live: Any, own: Any, creates: bool) -> None:
    snapshot = complete(make_set(size=3, networkConfig=live), of=make_set(size=3, networkConfig=own))
    planned = plan(replace(snapshot, service=None))
    assert bool(actions_of(planned)) is creates
    if creates:
        create = the_create(planned)
        assert create.intent["kind"] == "Service"
        assert create.intent["spec"]["selector"] == {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1"}
        assert create.failure is not None
        assert create.failure.note == "Failed to create headless service for error"


def test_service_and_workers_are_created_concurrently() -> None:
    planned = plan(group(make_set(size=3, networkConfig=UNIQUE)))
    assert [[type(action) for action in sequence] for sequence in planned.sequences] == [[Create], [Create]]


def test_name_label_of_a_service_is_repaired() -> None:
    snapshot = complete(make_set(size=3, networkConfig=UNIQUE))
    bare = changed(snapshot.service, lambda obj: obj["metadata"].pop("labels"))
    (merge,) = actions_of(plan(replace(snapshot, service=bare)))
    assert isinstance(merge, Merge) and merge.patch == {"metadata": {"labels": {NAME_LABEL: "demo"}}}


def test_an_edited_service_is_repaired() -> None:
    snapshot = complete(make_set(size=3, networkConfig=UNIQUE))
    edited = changed(snapshot.service, lambda obj: obj["spec"].update(publishNotReadyAddresses=False))
    (merge,) = actions_of(plan(replace(snapshot, service=edited)))
    assert isinstance(merge, Merge) and merge.patch == {"spec": {"publishNotReadyAddresses": True}}


# --- Owners of the objects ----------------------------------------------------------------------------------


FIELDS = [pytest.param("worker_statefulset", id="workers"), pytest.param("service", id="service")]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(owned_by(FORMER), id="of a former leader"),
        pytest.param(terminating, id="ours, terminating"),
        pytest.param(lambda obj: (terminating(obj), owned_by()(obj)), id="an orphan, terminating"),
    ],
)
def test_terminating_children_are_waited_for_without_a_problem(field: str, change: Change) -> None:
    snapshot = complete(make_set(size=3, networkConfig=UNIQUE))
    obj = changed(getattr(snapshot, field), change)
    planned = plan(replace(snapshot, **{field: obj}, leader_read_live=snapshot.leader))
    # Regardless of the owner: no event of ours may report that the object is gone.
    assert planned.is_empty and planned.again_after == 30.0
    assert planned.waiting_for == f"the {obj['kind']} of the former leader pod to be gone"


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("change", "owner", "alive"),
    [
        pytest.param(owned_by(OTHER), "controlled by Thing theirs", {"u-9"}, id="of an existing owner"),
        pytest.param(
            lambda obj: (owned_by()(obj), obj["spec"].update(selector={"app": "x"})),
            "not controlled by anything",
            set(),
            id="without an owner, with our label and another selector",
        ),
    ],
)
def test_foreign_children_are_never_changed(field: str, change: Change, owner: str, alive: set[str]) -> None:
    snapshot = complete(make_set(size=3, networkConfig=UNIQUE))
    obj = changed(getattr(snapshot, field), change)
    planned = plan(
        replace(snapshot, **{field: obj}, owners_alive=frozenset(alive), leader_read_live=snapshot.leader)
    )
    note = (
        f"{obj['kind']} demo-1 exists and is {owner}: LeaderWorkerSet demo needs this name and leaves it "
        f"untouched; delete or rename one of them"
    )
    (warning,) = planned.announce
    assert (warning.type, warning.reason, warning.note) == ("Warning", "FailedCreate", note)
    assert planned.sequences == () and planned.again_after == 30.0 and planned.waiting_for == note


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("change", "is_adopted"),
    [
        pytest.param(None, False, id="the leader is gone"),
        pytest.param(terminating, False, id="the leader is terminating"),
        pytest.param(lambda pod: pod["metadata"].update(uid="u-new"), False, id="the leader is another pod"),
        pytest.param(lambda pod: None, True, id="the leader exists"),
    ],
)
def test_orphans_are_adopted_only_by_a_leader_that_still_exists(
    field: str, change: Change | None, is_adopted: bool
) -> None:
    snapshot = complete(make_set(size=3, networkConfig=UNIQUE))
    orphan = changed(getattr(snapshot, field), owned_by({**OTHER, "controller": False}))
    reread = changed(snapshot.leader, change) if change is not None else None
    planned = plan(replace(snapshot, **{field: orphan}, leader_read_live=reread))
    assert len(actions_of(planned)) == is_adopted
    for action in actions_of(planned):
        assert isinstance(action, SetOwner)
        assert action.target == Reference.to(orphan)
        assert (action.owner["uid"], action.is_owner, action.patch) == ("uid-of-pod-demo-1", True, {})


def test_a_clash_does_not_block_other_children() -> None:
    snapshot = group(make_set(size=3, networkConfig=UNIQUE))
    theirs = changed(api_server.stored(build_group_service("demo", snapshot.leader)), owned_by(OTHER))
    planned = plan(replace(snapshot, service=theirs, owners_alive=frozenset({"u-9"})))
    (create,) = actions_of(planned)
    assert isinstance(create, Create) and create.intent["kind"] == "StatefulSet"
    assert len(planned.announce) == 1 and planned.again_after == 30.0


# --- Restarts -----------------------------------------------------------------------------------------------


def deletions(planned: Plan) -> list[Delete]:
    return [action for action in actions_of(planned) if isinstance(action, Delete)]


def test_a_lost_worker_deletes_the_leader_only() -> None:
    snapshot = complete(make_set(size=3, networkConfig=UNIQUE))
    lost = (changed(snapshot.worker_pods[0], terminating), snapshot.worker_pods[1])
    remember, delete, workers = actions_of(plan(replace(snapshot, worker_pods=lost, service=None)))
    assert isinstance(remember, Merge) and remember.subresource == "status"
    assert isinstance(delete, Delete) and isinstance(workers, Delete)
    assert (delete.target, delete.propagation) == (Reference.to(snapshot.leader), "Background")
    assert workers.target == Reference.to(snapshot.worker_statefulset or {})
    assert delete.target.uid == "uid-of-pod-demo-1"
    assert delete.why == "pod demo-1-1: it is being deleted; the group is recreated as one"


def test_a_restarted_leader_has_the_same_event() -> None:
    snapshot = complete(leader={"status": {"containerStatuses": [{"name": "main", "restartCount": 1}]}})
    delete, _ = deletions(plan(snapshot))
    (announce,) = delete.announce
    note = "Worker pod demo-1 failed, deleted leader pod demo-1 to recreate group 1"
    assert announce.note == f"{note}: container main ended and was restarted"


def test_a_group_is_kept_while_its_restart_is_delayed_or_exhausted() -> None:
    spec = {"size": 3, "networkConfig": UNIQUE, "maxGroupRestarts": 1}
    for count, waits in ((0, True), (1, False)):
        record = f"{count}.1.{int(NOW.timestamp())}.{KEY}"
        snapshot = complete(make_set(**spec, status={"restarts": {"1": record}}))
        lost = (changed(snapshot.worker_pods[0], terminating), snapshot.worker_pods[1])
        planned = plan(replace(snapshot, worker_pods=lost, service=None))
        assert deletions(planned) == []
        assert [action.intent["kind"] for action in actions_of(planned) if isinstance(action, Create)] == [
            "Service"
        ]
        assert planned.again_after == (10.0 if waits else None)


def test_the_live_restart_policy_is_used() -> None:
    on, off = make_set(size=3), make_set(size=3, template={"restartPolicy": "None"})
    for lws, of, restarts in ((on, off, True), (off, on, False)):
        snapshot = complete(lws, of=of)
        lost = replace(
            snapshot, worker_pods=(changed(snapshot.worker_pods[0], terminating), snapshot.worker_pods[1])
        )
        assert bool(actions_of(plan(lost))) is restarts


def test_a_group_is_complete_by_the_size_of_its_own_revision() -> None:
    after_start = {"restartPolicy": "RecreateGroupAfterStart"}
    snapshot = complete(make_set(size=5, template=after_start), of=make_set(size=3, template=after_start))
    lost = (changed(snapshot.worker_pods[0], terminating), snapshot.worker_pods[1])
    assert deletions(plan(replace(snapshot, worker_pods=lost)))


def test_a_delayed_restart_does_not_block_the_workers() -> None:
    lws = make_set(size=3, template={"restartPolicy": "RecreateGroupAfterStart"})
    restarted = {"status": {"containerStatuses": [{"name": "main", "restartCount": 1}]}}
    assert isinstance(actions_of(plan(group(lws, leader=restarted)))[0], Create)


# --- Leaders without required labels ------------------------------------------------------------------------


def test_no_children_for_a_worker_labelled_as_leader() -> None:
    planned = plan(group(leader={"annotations": {LEADER_NAME_ANNOTATION: "demo-0"}}))
    note = (
        "leader pod default/demo-1 contains mistake annotation 'leaderworkerset.sigs.k8s.io/leader-name': "
        "requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature"
    )
    (warning,) = planned.announce
    assert (warning.type, warning.reason, warning.action) == ("Warning", "FailedCreate", "Create")
    assert warning.note == note
    assert planned.sequences == ()


@pytest.mark.parametrize("label", [GROUP_KEY_LABEL, GROUP_INDEX_LABEL])
def test_a_leader_without_webhook_labels_is_reported(label: str) -> None:
    snapshot = group()
    bare = changed(snapshot.leader, lambda pod: pod["metadata"]["labels"].pop(label))
    planned = plan(replace(snapshot, leader=bare))
    (warning,) = planned.announce
    assert warning.type == "Warning" and warning.note.startswith(
        "leader pod demo-1 lacks the labels of its group"
    )
    assert planned.sequences == () and planned.again_after == 30.0


def test_a_group_of_a_lost_revision_waits_for_its_recovery() -> None:
    planned = plan(replace(group(), revision=None))
    assert planned.sequences == () and planned.again_after == 30.0
    reason = f"leader pod demo-1 has revision key '{KEY}', of which no ControllerRevision is left"
    assert planned.waiting_for == reason


def test_a_group_of_a_lost_revision_is_still_restarted() -> None:
    snapshot = complete()
    lost = (changed(snapshot.worker_pods[0], terminating), snapshot.worker_pods[1])
    delete, workers = deletions(plan(replace(snapshot, revision=None, worker_pods=lost)))
    assert delete.target == Reference.to(snapshot.leader)
    assert workers.target == Reference.to(snapshot.worker_statefulset or {})


def test_the_size_of_a_lost_revision_is_read_from_the_leader() -> None:
    snapshot = group(leader={"annotations": {SIZE_ANNOTATION: "1"}})
    assert is_idle(plan(replace(snapshot, revision=None)))


def test_a_group_in_an_uncovered_namespace_is_left_alone() -> None:
    planned = plan(judged(group(), is_covered=False))
    assert (planned.sequences, planned.announce) == ((), ())
    assert "does not select namespace default" in planned.waiting_for


def gated_group(**facts: Any) -> GroupSnapshot:
    """Return group 1, whose leader replaces another one.

    facts: fields of the snapshot about the former group.
    """
    snapshot = group()
    gates = [{"name": GROUP_REPLACEMENT_GATE}]
    leader = changed(snapshot.leader, lambda pod: pod.setdefault("spec", {}).update(schedulingGates=gates))
    return replace(snapshot, leader=leader, **facts)


def test_a_gated_leader_is_released_before_it_gets_workers() -> None:
    planned = plan(gated_group())
    ((lift, create),) = planned.sequences
    assert isinstance(lift, Merge) and lift.is_strategic
    assert isinstance(create, Create) and create.intent["kind"] == "StatefulSet"
    assert lift.patch["spec"] == {"schedulingGates": [{"$patch": "delete", "name": GROUP_REPLACEMENT_GATE}]}
    assert [event.reason for event in lift.announce] == ["GroupReplacementAdmitted"]


def test_a_leader_gated_for_no_longer_than_its_former_pods_take_to_end_is_not_reported() -> None:
    snapshot = gated_group()
    metadata = {"creationTimestamp": timestamp(NOW - timedelta(seconds=29))}
    new = replace(snapshot, leader=changed(snapshot.leader, lambda pod: pod["metadata"].update(metadata)))
    lift = actions_of(plan(new))[0]
    assert isinstance(lift, Merge) and lift.announce == ()
    former = (make_worker_pod(make_worker_statefulset(snapshot.leader)),)
    assert plan(replace(new, former_workers=former)).announce == ()
    waits = plan(replace(snapshot, former_workers=former))
    assert [event.reason for event in waits.announce] == ["GroupReplacementDeferred"]


def test_a_gated_leader_waits_for_the_statefulset_of_its_predecessor() -> None:
    snapshot = gated_group()
    former = make_worker_statefulset(changed(snapshot.leader, lambda pod: pod["metadata"].update(uid="u-0")))
    planned = plan(replace(snapshot, worker_statefulset=former))
    assert actions_of(planned) == []
    assert "the pods of the previous group 1 to be gone" in planned.waiting_for
    assert planned.again_after == 30.0, "in case its delete event is missed"


def test_a_gated_leader_deletes_workers_without_an_owner() -> None:
    """Its predecessor was deleted without them. An ungated leader adopts them: only a new one is gated."""
    left = make_worker_statefulset(gated_group().leader)
    pods = make_worker_pod(left, 1), make_worker_pod(left, 2)
    left["metadata"]["ownerReferences"] = pods[1]["metadata"]["ownerReferences"] = []
    planned = plan(gated_group(worker_statefulset=left, former_workers=pods))
    assert [(type(action), action.target) for action in deletions(planned)] == [
        (Delete, Reference.to(left)),
        (Delete, Reference.to(pods[1])),
    ]
    assert len(actions_of(planned)) == 2 and "the pods of the previous group 1" in planned.waiting_for


@pytest.mark.parametrize(
    ("spec", "is_admitted"),
    [
        pytest.param({"spread": "zones"}, True, id="a field of a later release"),
        pytest.param({"managedBy": "example.com/another"}, False, id="another controller runs the set"),
    ],
)
def test_a_gated_leader_of_a_set_that_is_left_alone_is_admitted(
    spec: dict[str, Any], is_admitted: bool
) -> None:
    """The pod webhook did not know the set yet. Otherwise it would not have gated the leader."""
    lws = make_set()
    alone = replace(gated_group(), lws={**lws, "spec": {**lws["spec"], **spec}})
    alone = judged(alone, fault="" if "managedBy" in spec else "spec.spread is unknown")
    assert [type(action) for action in actions_of(plan(alone))] == [Merge] * is_admitted
    former = (make_worker_pod(make_worker_statefulset(alone.leader)),)
    assert actions_of(plan(replace(alone, former_workers=former))) == []


def test_a_gated_leader_does_not_wait_for_a_kept_statefulset() -> None:
    """An object of another owner has the name. A condition of the set reports it, and only users can resolve
    it.
    """
    stranger = make_worker_statefulset(gated_group().leader)
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u-9", "controller": True}
    stranger["metadata"]["ownerReferences"] = [owner]
    planned = plan(gated_group(worker_statefulset=stranger, owners_alive=frozenset({"u-9"})))
    assert [type(action) for action in actions_of(planned)] == [Merge]


@pytest.mark.parametrize("size", ["1", "3"])
def test_a_gated_leader_of_a_lost_revision_is_released_too(size: str) -> None:
    snapshot = replace(gated_group(), revision=None)
    leader = changed(
        snapshot.leader, lambda pod: pod["metadata"]["annotations"].update({SIZE_ANNOTATION: size})
    )
    assert [type(action) for action in actions_of(plan(replace(snapshot, leader=leader)))] == [Merge]
