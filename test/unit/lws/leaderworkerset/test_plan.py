"""Tests of the decisions of a pass over a set: ownership of objects, and which writes happen in which order.

How far a rollout may go, what the status contains and which revision is chosen have tests of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lws.kube.conditions import find, timestamp
from lws.kube.metadata import owner_reference
from lws.kube.patches import digest
from lws.kube.pods import NodeWait
from lws.leaderworkerset.group_records import KEPT, Restarts, record_patch
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Action, Announce, Apply, Create, Delete, Merge, Plan, Reference, SetOwner
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_RESTART_COUNTS_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
    SIZE_ANNOTATION,
)
from test.unit import api_server
from test.unit.builders import NOW, make_group, make_leader_statefulset, make_set
from test.unit.set_world import (
    actions_of,
    carried_out,
    settled,
    with_groups,
    with_reported,
    with_spec,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OTHER = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "theirs", "uid": "u-9", "controller": True}
Change = Callable[[dict[str, Any]], Any]


def shapes(planned: Plan) -> list[list[str]]:
    """Return what each sequence writes, in order, as in `apply StatefulSet demo`."""
    return [[shape(action) for action in sequence] for sequence in planned.sequences]


def shape(action: Action) -> str:
    kind = type(action).__name__.lower()
    target = Reference.to(action.intent) if isinstance(action, Apply | Create) else action.target
    return f"{kind} {target.kind} {target.name}"


def the_apply(planned: Plan) -> Apply:
    (apply,) = (action for action in actions_of(planned) if isinstance(action, Apply))
    return apply


def notes(planned: Plan) -> list[str]:
    """Return the texts of Events, in the order in which they are emitted."""
    announced: list[Announce] = [event for action in actions_of(planned) for event in action.announce]
    announced += [event for status in planned.statuses for event in status.announce]
    return [event.note for event in (*announced, *planned.announce)]


def status_of(planned: Plan) -> dict[str, Any]:
    (status,) = planned.statuses
    return dict(status.patch)


def problem_of(planned: Plan) -> tuple[str, str] | None:
    """Return reason and message of the condition that reports a problem; None if there is none."""
    condition = find(status_of(planned).get("conditions"), "ReplicaFailure") if planned.statuses else None
    return (condition["reason"], condition["message"]) if condition is not None else None


def changed(obj: Any, change: Change) -> dict[str, Any]:
    edited: dict[str, Any] = copy.deepcopy(dict(obj))
    change(edited)
    return edited


def owned_by(*owners: dict[str, Any]) -> Change:
    return lambda obj: obj["metadata"].update(ownerReferences=list(owners))


def terminating(obj: dict[str, Any]) -> None:
    obj["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"


def replica_count(planned: Plan) -> int:
    count: int = the_apply(planned).intent["spec"]["replicas"]
    return count


def test_the_deadline_does_not_expire_while_a_pod_of_an_unready_group_is_gated() -> None:
    lws = make_set(replicas=2, progressDeadlineSeconds=60)
    gated = NodeWait(NOW - timedelta(hours=1))
    first, second = make_group(lws, 0), replace(make_group(lws, 1, ready=False), waits=(gated,))
    leader = make_leader_statefulset(lws)
    lws["status"] = {
        "lastProgressTime": timestamp(NOW - timedelta(hours=1)),
        "conditions": [{"type": "Progressing", "status": "True"}],
        "observedGeneration": 1,
        "groups": {"counts": {"Ready": 1}},
    }
    for group, stalls in ((second, False), (replace(second, waits=()), True)):
        status = status_of(plan(SetSnapshot(lws, NOW, leader, groups=(first, group))))
        assert (find(status["conditions"], "Stalled") is not None) == stalls
    # Nothing is awaited from a group that is ready.
    status = status_of(plan(SetSnapshot(lws, NOW, leader, groups=(replace(first, waits=(gated,)),))))
    assert find(status["conditions"], "Stalled") is not None


# --- The first pass ---------------------------------------------------------------------------------------


def test_creation_records_the_revision_before_anything_uses_it() -> None:
    lws = make_set(replicas=3)
    planned = plan(SetSnapshot(lws, NOW))
    assert len(planned.sequences) == 2
    (record, leaders), (service,) = planned.sequences
    assert isinstance(record, Create) and isinstance(leaders, Apply) and isinstance(service, Create)

    key = record.intent["metadata"]["labels"][REVISION_LABEL]
    name = f"demo-{key}-1"
    assert record.intent["metadata"]["name"] == name
    assert record.why == "the first revision of the set"
    assert leaders.uid == "", "an object that no stream has shown must not be overwritten"
    assert leaders.why == "3 groups to be created"
    assert leaders.intent["metadata"]["labels"][REVISION_LABEL] == key
    assert leaders.intent["spec"]["replicas"] == 3
    assert service.intent["spec"]["selector"] == {NAME_LABEL: "demo"}
    assert notes(planned) == [
        f"Creating revision with key {key} for a newly created LeaderWorkerSet",
        "Created leader statefulset demo",
        "Replicas are progressing, with 0 groups ready of total 3 groups",
    ]
    assert leaders.failure is not None and leaders.failure.reason == "FailedCreate"
    status = status_of(planned)
    assert (status["currentRevision"], status["updateRevision"]) == (name, name)
    assert "replicas" not in status
    assert (planned.again_after, planned.announce) == (None, ()), "the StatefulSet will wake it"


def test_a_new_set_settles() -> None:
    snapshot = SetSnapshot(make_set(replicas=3), NOW)
    snapshot = carried_out(snapshot, plan(snapshot))
    assert plan(snapshot).is_empty, "nothing to do before the first pods exist"
    snapshot = with_groups(snapshot)
    assert shapes(plan(snapshot)) == [] and len(plan(snapshot).statuses) == 1
    snapshot = carried_out(snapshot, plan(snapshot))
    assert replace(plan(snapshot), figures=None) == Plan()
    assert (snapshot.lws["status"]["readyReplicas"], snapshot.lws["status"]["replicas"]) == (3, 3)


CONTAINER = {
    "name": "main",
    "image": "app:1",
    "command": ["sh", "-c", "serve $(LWS_LEADER_ADDRESS)"],
    "env": [
        {"name": "B", "value": "2"},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ],
    "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
    "resources": {"limits": {"nvidia.com/gpu": 8, "cpu": "1500m", "memory": "1024Mi"}, "requests": {}},
    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    "securityContext": {"runAsUser": 0, "privileged": False},
}
RICH = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"note": "pod"}, "creationTimestamp": None},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{"name": "init", "image": "init:1", "resources": {}}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "0.5Gi"}}],
        "nodeSelector": {},
        "tolerations": [],
        "hostNetwork": False,
        "terminationGracePeriodSeconds": 0,
    },
}
CLAIMS = {
    "volumeClaimTemplates": [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
        }
    ],
    "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
}


@pytest.mark.parametrize(
    "lws",
    [
        pytest.param(make_set(), id="plain"),
        pytest.param(make_set(size=1), id="no workers"),
        pytest.param(make_set(replicas=0), id="no groups"),
        pytest.param(make_set(replicas=4, partition=2), id="partition"),
        pytest.param(make_set(replicas=4, max_unavailable="50%", max_surge="30%"), id="percentages"),
        pytest.param(make_set(template={"workerTemplate": RICH}), id="all kinds of spellings"),
        pytest.param(make_set(template={"leaderTemplate": RICH}), id="leaders of their own"),
        pytest.param(make_set(template=CLAIMS), id="claims"),
        pytest.param(make_set(networkConfig={"subdomainPolicy": "UniquePerReplica"}), id="own subdomains"),
        pytest.param(make_set(networkConfig=None), id="no network configuration"),
        pytest.param(
            make_set(labels={"team": "a"}, annotations={"note": "x", LAST_APPLIED: "{}"}),
            id="labels, annotations",
        ),
        pytest.param(
            make_set(
                annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "zone"},
                template={"subGroupPolicy": {"subGroupPolicyType": "LeaderWorker", "subGroupSize": 1}},
            ),
            id="topology, subgroups",
        ),
        pytest.param(make_set(template={"restartPolicy": "Default"}), id="legacy restart policy"),
    ],
)
def test_a_settled_set_causes_no_writes(lws: dict[str, Any]) -> None:
    assert replace(plan(settled(lws)), figures=None) == Plan()


def test_a_terminating_set_is_left_to_the_garbage_collector() -> None:
    snapshot = settled(make_set())
    planned = plan(replace(snapshot, lws=changed(snapshot.lws, terminating), leaders=None, service=None))
    assert planned.is_empty and planned.again_after is None


def test_pods_that_become_available_one_by_one_cause_no_status_writes() -> None:
    snapshot = settled(make_set(replicas=3, size=8))
    (first, *others) = snapshot.groups
    workers = changed(first.worker_statefulset, lambda obj: obj["status"].update(availableReplicas=0))
    snapshot = replace(snapshot, groups=(replace(first, worker_statefulset=workers, worker_uids=()), *others))
    snapshot = carried_out(snapshot, plan(snapshot))
    assert snapshot.lws["status"]["groups"]["unsettled"][0]["reason"] == "workers are not ready"
    for count in range(7):
        coming = changed(workers, lambda obj, count=count: obj["status"].update(availableReplicas=count))
        group = replace(first, worker_statefulset=coming, worker_uids=first.worker_uids[:count])
        assert plan(replace(snapshot, groups=(group, *others))).is_empty


def test_members_are_recorded_with_the_counters_once_all_pods_are_seen() -> None:
    snapshot = settled(make_set(replicas=2, size=3))
    members = snapshot.lws["status"]["members"]
    assert sorted(members) == ["0", "1"]
    (first, second) = snapshot.groups
    again = changed(second.leader, lambda obj: obj["metadata"].update(uid="uid-of-another"))
    behind = replace(second, leader=again, worker_uids=second.worker_uids[:1])
    planned = plan(replace(snapshot, groups=(first, behind)))
    assert (planned.statuses, planned.again_after) == ((), 30), "a pod is ready, its stream is behind"
    planned = plan(replace(snapshot, groups=(first, replace(behind, worker_uids=second.worker_uids))))
    assert status_of(planned)["members"].keys() == {"1"}


# --- Edits of the leader StatefulSet ------------------------------------------------------------------------


MAIN = ("spec", "template", "spec", "containers", 0)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        pytest.param(("spec", "replicas"), 7, "groups 3 to 6 on top of 3 no longer needed", id="replicas"),
        pytest.param(
            (*MAIN, "image"), "hacked:1", "changed: spec.template.spec.containers.0.image", id="image"
        ),
        pytest.param(
            ("spec", "template", "metadata", "annotations", SIZE_ANNOTATION),
            None,
            f"changed: spec.template.metadata.annotations.{SIZE_ANNOTATION}",
            id="annotation of pods, removed",
        ),
        pytest.param(
            ("metadata", "labels", NAME_LABEL),
            None,
            f"changed: metadata.labels.{NAME_LABEL}",
            id="label, removed",
        ),
        pytest.param(
            ("metadata", "annotations", REPLICAS_ANNOTATION),
            "99",
            f"changed: metadata.annotations.{REPLICAS_ANNOTATION}",
            id="our annotation",
        ),
        pytest.param(
            ("spec", "updateStrategy", "type"), "OnDelete", "changed: spec.updateStrategy.type", id="strategy"
        ),
    ],
)
def test_edits_by_other_clients_are_repaired_once(path: tuple[Any, ...], value: Any, why: str) -> None:
    snapshot = settled(make_set(replicas=3))
    edited = with_reported(replace(snapshot, leaders=edited_by_others(snapshot.leaders, path, value)))
    planned = plan(edited)
    action = the_apply(planned)
    assert shapes(planned) == [["apply StatefulSet demo"]]
    assert snapshot.leaders is not None and action.uid == snapshot.leaders["metadata"]["uid"]
    assert action.why == why
    assert api_server.applied(dict(action.intent))["spec"] == snapshot.leaders["spec"]
    assert shapes(plan(with_reported(carried_out(edited, planned)))) == []


def edited_by_others(stored: Any, path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the object after an edit by another client, which takes the ownership of the field from us.

    value: the new value; None removes the field.
    """
    edited: dict[str, Any] = copy.deepcopy(stored)
    obj, owned = edited, edited["metadata"]["managedFields"][0]["fieldsV1"]
    for key in path[:-1]:
        selector = 'k:{"name":"main"}' if isinstance(key, int) else f"f:{key}"
        obj, owned = obj[key], owned[selector]
    del owned[f"f:{path[-1]}"]
    if value is None:
        del obj[path[-1]]
    else:
        obj[path[-1]] = value
    edited["metadata"]["generation"] += 1
    return edited


def test_additions_by_other_clients_are_kept() -> None:
    snapshot = settled(make_set())

    def add(obj: dict[str, Any]) -> None:
        obj["metadata"]["labels"]["theirs"] = "x"
        obj["metadata"]["annotations"]["theirs"] = "x"
        obj["metadata"]["finalizers"] = ["theirs"]
        obj["metadata"]["ownerReferences"].append({**OTHER, "controller": False})
        obj["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "x:1"})
        obj["spec"]["minReadySeconds"] = 5

    assert plan(replace(snapshot, leaders=changed(snapshot.leaders, add))).is_empty


def test_a_value_that_another_client_rewrites_is_applied_once() -> None:
    snapshot = settled(make_set(annotations={"note": "x"}))
    fought = changed(snapshot.leaders, lambda obj: obj["metadata"]["annotations"].update(note="theirs"))
    snapshot = replace(snapshot, leaders=fought)
    intent, generation = the_apply(plan(snapshot)).intent, fought["metadata"]["generation"]

    assert plan(replace(snapshot, applied_leaders=(digest(intent), generation))).is_empty
    later = plan(replace(snapshot, applied_leaders=(digest(intent), generation - 1)))
    assert shapes(later) == [["apply StatefulSet demo"]], "the spec has changed since then"
    reapplied = plan(replace(snapshot, applied_leaders=("of another intent", generation)))
    assert shapes(reapplied) == [["apply StatefulSet demo"]], "the set has changed since then"


@pytest.mark.parametrize("label", [NAME_LABEL, REVISION_LABEL])
def test_identifying_labels_are_repaired_each_time(label: str) -> None:
    snapshot = settled(make_set())
    bare = edited_by_others(snapshot.leaders, ("metadata", "labels", label), None)
    bare["metadata"]["generation"] -= 1
    snapshot = replace(snapshot, leaders=bare)
    applied = (digest(the_apply(plan(snapshot)).intent), bare["metadata"]["generation"])
    assert the_apply(plan(replace(snapshot, applied_leaders=applied))).uid == bare["metadata"]["uid"]


def test_annotations_that_an_earlier_release_copied_stay_until_the_next_write() -> None:
    snapshot = settled(make_set(annotations={LAST_APPLIED: "{}"}))

    def copy_annotation(obj: dict[str, Any]) -> None:
        obj["metadata"]["annotations"][LAST_APPLIED] = "{}"
        owned = obj["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"]
        owned[f"f:{LAST_APPLIED}"] = {}

    snapshot = replace(snapshot, leaders=changed(snapshot.leaders, copy_annotation))
    assert plan(snapshot).is_empty
    scaled = the_apply(plan(with_spec(snapshot, make_set(replicas=3, annotations={LAST_APPLIED: "{}"}))))
    assert LAST_APPLIED not in scaled.intent["metadata"]["annotations"]


def test_an_annotation_removed_from_the_set_is_removed_from_the_statefulset() -> None:
    snapshot = with_spec(settled(make_set(annotations={"note": "x"})), make_set())
    action = the_apply(plan(snapshot))
    assert action.why == "changed: metadata.annotations.note"
    assert "note" not in action.intent["metadata"]["annotations"]


# --- Ownership of the leader StatefulSet --------------------------------------------------------------------


def without_history(lws: dict[str, Any] | None = None) -> SetSnapshot:
    """Return a set whose objects exist although no revision is recorded."""
    return replace(settled(lws or make_set()), revisions=(), lws=lws or make_set())


# Two sets were created at the same time, and neither review knew the other set. This set has the name of a
# group of the other set.
OF_A_GROUP = {"apiVersion": "v1", "kind": "Pod", "name": "de-0", "uid": "u-8", "controller": True}

CLASHES = [
    pytest.param(owned_by(OTHER), "controlled by Thing theirs", {"u-9"}, id="of an existing owner"),
    pytest.param(owned_by(OF_A_GROUP), "controlled by Pod de-0", {"u-8"}, id="of a group of another set"),
    pytest.param(
        lambda obj: (obj["metadata"].update(ownerReferences=[]), obj["spec"].update(selector={"app": "x"})),
        "not controlled by anything",
        set(),
        id="without an owner, with our label and another selector",
    ),
]


@pytest.mark.parametrize(("change", "owner", "alive"), CLASHES)
def test_a_foreign_statefulset_with_the_name_is_never_changed(
    change: Change, owner: str, alive: set[str]
) -> None:
    snapshot = without_history()
    theirs = changed(snapshot.leaders, change)
    planned = plan(
        replace(snapshot, leaders=theirs, owners_alive=frozenset(alive), set_read_live=snapshot.lws)
    )
    note = (
        f"StatefulSet demo exists and is {owner}: LeaderWorkerSet demo needs this name and leaves it "
        f"untouched; delete or rename one of them"
    )
    assert shapes(planned) == []
    assert problem_of(planned) == ("NameClash", note)
    (warning,) = planned.announce
    assert (warning.type, warning.reason, warning.note) == ("Warning", "NameClash", note)
    assert planned.again_after == 30.0 and planned.waiting_for == note
    status = status_of(planned)
    assert not {"currentRevision", "updateRevision", "replicas"} & status.keys(), "none of these is known"

    again = plan(replace(carried_out(snapshot, planned), leaders=theirs, owners_alive=frozenset(alive)))
    assert again.is_empty and again.again_after == 30.0, "reported once, then rechecked"


def test_a_resolved_name_clash_is_cleared() -> None:
    snapshot = without_history()
    theirs = replace(
        snapshot, leaders=changed(snapshot.leaders, owned_by(OTHER)), owners_alive=frozenset({"u-9"})
    )
    after = replace(carried_out(theirs, plan(theirs)), leaders=None)
    planned = plan(after)
    assert shapes(planned)[0][-1] == "apply StatefulSet demo"
    assert find(status_of(planned)["conditions"], "ReplicaFailure") is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(terminating, id="ours, terminating"),
        pytest.param(owned_by({**OTHER, "kind": "LeaderWorkerSet", "name": "demo"}), id="of a former set"),
        pytest.param(
            lambda obj: (terminating(obj), obj["metadata"].update(ownerReferences=[])),
            id="a terminating orphan",
        ),
    ],
)
def test_a_terminating_statefulset_is_waited_for(change: Change) -> None:
    snapshot = without_history()
    planned = plan(replace(snapshot, leaders=changed(snapshot.leaders, change), set_read_live=snapshot.lws))
    assert shapes(planned) == [] and planned.announce == ()
    assert planned.waiting_for == "the former leader StatefulSet to be gone"
    assert planned.again_after == 30.0
    assert "updateRevision" not in status_of(planned)


def orphaned(snapshot: SetSnapshot, field: str, *others: dict[str, Any]) -> SetSnapshot:
    return replace(snapshot, **{field: changed(getattr(snapshot, field), owned_by(*others))})


@pytest.mark.parametrize("field", ["leaders", "service"])
@pytest.mark.parametrize(
    ("reread", "is_adopted"),
    [
        pytest.param(None, False, id="the set is deleted"),
        pytest.param(make_set(terminating=True), False, id="the set is terminating"),
        pytest.param(
            changed(make_set(), lambda lws: lws["metadata"].update(uid="u-new")),
            False,
            id="it is another set",
        ),
        pytest.param(make_set(), True, id="the set exists"),
    ],
)
def test_orphans_are_adopted_only_by_a_set_that_still_exists(
    field: str, reread: dict[str, Any] | None, is_adopted: bool
) -> None:
    other_owner = {**OTHER, "controller": False}
    snapshot = orphaned(replace(settled(make_set()), set_read_live=reread), field, other_owner)
    planned = plan(snapshot)
    orphan = getattr(snapshot, field)
    assert shapes(planned) == ([[f"setowner {orphan['kind']} demo"]] if is_adopted else [])
    if is_adopted:
        (adoption,) = actions_of(planned)
        assert isinstance(adoption, SetOwner) and adoption.target.uid == orphan["metadata"]["uid"]
        assert (adoption.owner, adoption.is_owner) == (owner_reference(make_set()), True)
        assert adoption.patch == {}, "nothing else changes"
        assert shapes(plan(carried_out(snapshot, planned))) == []
    else:
        assert planned.waiting_for == "the set to be seen alive before it adopts anything"


def test_an_orphan_in_a_rollout_is_adopted_unchanged() -> None:
    old, new = make_set(replicas=4), make_set(replicas=4, image="app:2")
    rolling = with_spec(settled(old), new)
    rolling = with_reported(carried_out(rolling, plan(rolling)))
    # The observer would see the same: pods of a StatefulSet without an owner belong to no set.
    lost = replace(orphaned(rolling, "leaders"), groups=(), set_read_live=new)
    assert shapes(plan(lost)) == [["setowner StatefulSet demo"]]


def test_orphaned_revisions_are_adopted() -> None:
    snapshot = settled(make_set())
    snapshot = with_spec(snapshot, make_set(image="app:2"))
    snapshot = carried_out(snapshot, plan(snapshot))
    orphans = tuple(replace(revision, is_orphan=True) for revision in snapshot.revisions)
    snapshot = with_reported(replace(snapshot, revisions=orphans))
    assert not any("ControllerRevision" in write for shape in shapes(plan(snapshot)) for write in shape)

    planned = plan(replace(snapshot, set_read_live=snapshot.lws))
    merged = adoptions(planned)
    assert {action.target.name for action in merged} == {revision.name for revision in orphans}
    assert all(action.owner["uid"] == "uid-of-set-demo" for action in merged)
    after = carried_out(replace(snapshot, set_read_live=snapshot.lws), planned)
    assert not any(revision.is_orphan for revision in after.revisions)
    assert adoptions(plan(with_reported(after))) == []


def adoptions(planned: Plan) -> list[SetOwner]:
    adopted = (action for action in actions_of(planned) if isinstance(action, SetOwner))
    return [action for action in adopted if action.target.kind == "ControllerRevision"]


# --- The Service --------------------------------------------------------------------------------------------


def test_a_lost_service_is_recreated_and_nothing_else_changes() -> None:
    planned = plan(replace(settled(make_set()), service=None))
    assert shapes(planned) == [["create Service demo"]]
    (create,) = actions_of(planned)
    assert isinstance(create, Create) and create.failure is not None
    assert create.failure.note == "Failed to create headless service for error"


@pytest.mark.parametrize(("change", "owner", "alive"), CLASHES)
def test_a_foreign_service_with_the_name_is_never_changed(
    change: Change, owner: str, alive: set[str]
) -> None:
    snapshot = settled(make_set())
    theirs = changed(snapshot.service, change)
    planned = plan(
        replace(snapshot, service=theirs, owners_alive=frozenset(alive), set_read_live=snapshot.lws)
    )
    assert shapes(planned) == [] and planned.again_after == 30.0
    problem = problem_of(planned)
    assert problem is not None and problem[0] == "NameClash"
    assert problem[1].startswith(f"Service demo exists and is {owner}: LeaderWorkerSet demo needs this name")
    assert [event.note for event in planned.announce] == [problem[1]]


@pytest.mark.parametrize(
    "change", [terminating, owned_by({**OTHER, "kind": "LeaderWorkerSet", "name": "demo"})]
)
def test_a_terminating_service_is_waited_for(change: Change) -> None:
    snapshot = settled(make_set())
    planned = plan(replace(snapshot, service=changed(snapshot.service, change)))
    assert planned.is_empty and planned.waiting_for == "the former Service to be gone"


def test_the_name_label_of_a_service_is_repaired() -> None:
    snapshot = settled(make_set())
    bare = changed(snapshot.service, lambda obj: obj["metadata"].pop("labels"))
    planned = plan(replace(snapshot, service=bare))
    (merge,) = actions_of(planned)
    assert isinstance(merge, Merge) and merge.patch == {"metadata": {"labels": {NAME_LABEL: "demo"}}}


def test_an_edited_service_is_repaired() -> None:
    snapshot = settled(make_set())
    edited = changed(snapshot.service, lambda obj: obj["spec"].update(publishNotReadyAddresses=False))
    (merge,) = actions_of(plan(replace(snapshot, service=edited)))
    assert isinstance(merge, Merge) and merge.patch == {"spec": {"publishNotReadyAddresses": True}}


def test_groups_that_still_use_the_shared_service_keep_it() -> None:
    unique = {"subdomainPolicy": "UniquePerReplica"}
    never = replace(settled(make_set(networkConfig=unique)), service=None)
    assert plan(never).is_empty

    rolling = with_spec(settled(make_set()), make_set(networkConfig=unique))
    lost = replace(carried_out(rolling, plan(rolling)), service=None)
    assert ["create Service demo"] in shapes(plan(lost))

    (key,) = {group.leader["metadata"]["labels"][REVISION_LABEL] for group in lost.groups}
    done = replace(with_groups(lost), live_keys=lost.live_keys - {key})
    assert ["create Service demo"] not in shapes(plan(done))


def test_claims_of_workers_are_owned_by_the_set_if_it_deletes_them() -> None:
    template = {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
    }
    labels = {NAME_LABEL: "demo", GROUP_INDEX_LABEL: "1", GROUP_KEY_LABEL: "k"}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-demo-1-1",
            "namespace": "default",
            "labels": labels,
            "resourceVersion": "1",
        },
    }
    at_rest = settled(make_set(template=template))
    planned = plan(replace(at_rest, claims=(claim,)))
    assert shapes(planned) == [["setowner PersistentVolumeClaim data-demo-1-1"]]
    assert plan(at_rest).is_empty


# --- Rollouts -----------------------------------------------------------------------------------------------


def test_a_rollout_begins_with_its_revision_and_the_reason() -> None:
    snapshot = settled(make_set(replicas=4, size=3))
    snapshot = with_spec(snapshot, make_set(replicas=4, size=3, image="app:2"))
    planned = plan(snapshot)
    (record, *_, leaders) = actions_of(planned)
    assert isinstance(record, Create) and isinstance(leaders, Apply)
    assert record.why == "template changed: worker template container main image: app:1 → app:2"
    key = record.intent["metadata"]["labels"][REVISION_LABEL]
    assert notes(planned)[0] == f"Creating revision with key {key} for updated LWS"
    assert not any(note.startswith("Updating replica") for note in notes(planned))
    rolling = leaders.intent["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling["partition"] == 4, (
        "no group moves before the StatefulSet controller knows the new template"
    )
    status = status_of(planned)
    assert status["updateRevision"] == record.intent["metadata"]["name"]
    assert "currentRevision" not in status, "it moves when the update is done"
    assert find(status["conditions"], "UpdateInProgress")["status"] == "True"


def test_a_step_leaves_the_leader_to_the_statefulset_controller() -> None:
    snapshot = settled(make_set(replicas=3))
    snapshot = with_spec(snapshot, make_set(replicas=3, image="app:2"))
    snapshot = with_reported(carried_out(snapshot, plan(snapshot)))
    snapshot = with_update_revision(snapshot)
    planned = plan(snapshot)
    (memory, leaders) = actions_of(planned)
    assert isinstance(memory, Merge) and memory.subresource == "status"
    assert memory.patch["status"]["rollout"]["partition"] == 2, "recorded before any leader is deleted"
    assert isinstance(leaders, Apply)
    assert leaders.intent["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 2
    assert notes(planned)[0] == "Updating replica 2"
    (announce,) = leaders.announce
    assert announce.related is not None and announce.related.uid.startswith("uid-of-ControllerRevision-demo-")


def with_update_revision(snapshot: SetSnapshot) -> SetSnapshot:
    """Return the snapshot while the StatefulSet controller counts its former revision as the current one."""
    former = snapshot.groups[0].leader["metadata"]["labels"]["controller-revision-hash"]
    leaders = changed(snapshot.leaders, lambda obj: obj["status"].update(currentRevision=former))
    return replace(snapshot, leaders=leaders)


def test_surge_groups_are_created_and_deleted() -> None:
    old, new = make_set(replicas=4, max_surge=2), make_set(replicas=4, max_surge=2, image="app:2")
    snapshot = with_spec(settled(old), new)
    planned = plan(snapshot)
    assert replica_count(planned) == 6
    done = with_groups(carried_out(snapshot, planned))
    planned = plan(done)
    assert replica_count(planned) == 4
    assert "deleting surge replicas from demo-4 to demo-5" in notes(planned)


def test_a_pass_that_records_a_revision_reports_no_updates() -> None:
    snapshot = with_spec(settled(make_set(replicas=4, partition=9)), make_set(replicas=4, image="app:2"))
    planned = plan(snapshot)
    assert the_apply(planned).intent["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 4
    assert not any(note.startswith("Updating replica") for note in notes(planned))


@pytest.mark.parametrize(
    ("replicas", "note"),
    [(5, None), (2, "deleting surge replica demo-2"), (0, "deleting surge replicas from demo-0 to demo-2")],
)
def test_scaling_applies_and_records_nothing(replicas: int, note: str | None) -> None:
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=replicas))
    planned = plan(snapshot)
    assert shapes(planned) == [["apply StatefulSet demo"]]
    assert replica_count(planned) == replicas
    assert the_apply(planned).intent["metadata"]["annotations"][REPLICAS_ANNOTATION] == str(replicas)
    messages = [message for message in notes(planned) if "replica demo" in message or "surge" in message]
    assert messages == ([note] if note is not None else [])


def test_the_restart_policy_takes_effect_without_a_revision() -> None:
    snapshot = with_spec(settled(make_set()), make_set(template={"restartPolicy": "None"}))
    assert shapes(plan(snapshot)) == []


def test_a_rejected_apply_records_no_second_revision() -> None:
    snapshot = with_spec(settled(make_set()), make_set(image="app:2"))
    first = plan(snapshot)
    record = actions_of(first)[0]
    recorded = carried_out(snapshot, Plan(sequences=((record,),)))
    assert len(recorded.revisions) == 2
    for _ in range(3):
        again = plan(recorded)
        assert not any(isinstance(action, Create) for action in actions_of(again))
        assert the_apply(again).intent == the_apply(first).intent
        assert the_apply(again).failure is not None and the_apply(again).failure.reason == "FailedUpdate"


def test_a_rollback_keeps_the_key_and_restarts_no_existing_group() -> None:
    first, second = make_set(replicas=3), make_set(replicas=3, image="app:2")
    snapshot = settled(first)
    (key,) = (revision.key for revision in snapshot.revisions)
    snapshot = with_spec(snapshot, second)
    snapshot = with_reported(carried_out(snapshot, plan(snapshot)))
    snapshot = with_spec(snapshot, first)
    planned = plan(snapshot)
    (raise_, *others) = actions_of(planned)
    assert isinstance(raise_, Merge) and raise_.patch == {"revision": 3}
    assert raise_.why == "the spec matches revision 1 again"
    assert not any(isinstance(action, Delete) for action in others)
    assert the_apply(planned).intent["metadata"]["labels"][REVISION_LABEL] == key
    after = carried_out(snapshot, planned)
    assert sorted(revision.number for revision in after.revisions) == [2, 3]
    leader = after.leaders
    assert leader is not None
    back = with_reported(after)
    assert not any(isinstance(action, Delete) for action in actions_of(plan(back)))
    assert len(carried_out(back, plan(back)).revisions) == 2


def test_a_due_report_is_waited_for() -> None:
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=3, image="app:2"))
    snapshot = carried_out(snapshot, plan(snapshot))
    young = changed(
        snapshot.leaders,
        lambda obj: obj["metadata"]["managedFields"][0].update(time=timestamp(NOW - timedelta(seconds=1))),
    )
    planned = plan(replace(snapshot, leaders=young))
    assert shapes(planned) == [] and planned.again_after == 10.0
    assert planned.waiting_for == "the StatefulSet controller to report on the last change"


def test_an_invalid_record_of_replicas_does_not_block_scaling() -> None:
    snapshot = settled(make_set(replicas=3))
    bare = changed(
        snapshot.leaders, lambda obj: obj["metadata"]["annotations"].update({REPLICAS_ANNOTATION: "x"})
    )
    planned = plan(replace(with_spec(snapshot, make_set(replicas=5)), leaders=bare))
    assert replica_count(planned) == 5


@pytest.mark.parametrize(
    ("budget", "max_unavailable"),
    [
        pytest.param({}, 1, id="default"),
        pytest.param({"max_unavailable": 2}, 2, id="number"),
        pytest.param({"max_unavailable": "25%", "max_surge": "25%"}, 2 + 3, id="percent: down and up"),
        pytest.param({"max_unavailable": 0, "max_surge": 3}, 3, id="surge only"),
        pytest.param({"max_unavailable": 0, "max_surge": 99}, 10, id="no more surge than groups"),
        pytest.param({"max_unavailable": "5%"}, 1, id="nothing at all counts as one"),
    ],
)
def test_max_unavailable_of_the_leader_statefulset(budget: dict[str, Any], max_unavailable: int) -> None:
    planned = plan(SetSnapshot(make_set(replicas=10, **budget), NOW))
    rolling = the_apply(planned).intent["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"partition": 0, "maxUnavailable": max_unavailable}


def test_the_partition_of_a_new_set_is_applied() -> None:
    planned = plan(SetSnapshot(make_set(replicas=4, partition=2), NOW))
    assert the_apply(planned).intent["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 2


# --- Old revisions ------------------------------------------------------------------------------------------


def with_history(limit: int) -> SetSnapshot:
    """Return a set with three revisions that no group runs, and one that is desired and running."""
    snapshot = settled(make_set(image="app:0"))
    for number in (1, 2, 3):
        snapshot = with_spec(snapshot, make_set(image=f"app:{number}"))
        snapshot = carried_out(snapshot, plan(snapshot))
    return with_groups(with_spec(snapshot, make_set(image="app:3", revisionHistoryLimit=limit)))


def pruned_of(snapshot: SetSnapshot) -> list[int]:
    """Return the numbers of the revisions that a pass deletes."""
    numbers = {revision.uid: revision.number for revision in snapshot.revisions}
    deletes = [action for action in actions_of(plan(snapshot)) if isinstance(action, Delete)]
    return [numbers[delete.target.uid] for delete in deletes if delete.target.kind == "ControllerRevision"]


@pytest.mark.parametrize(("limit", "deleted"), [(0, [1, 2, 3]), (2, [1]), (3, []), (10, [])])
def test_revisions_are_pruned_once_the_rollout_is_done(limit: int, deleted: list[int]) -> None:
    snapshot = with_history(limit)
    deletes = [action for action in actions_of(plan(snapshot)) if isinstance(action, Delete)]
    assert pruned_of(snapshot) == deleted
    assert all(action.propagation == "Background" for action in deletes)


def without_memory(snapshot: SetSnapshot) -> SetSnapshot:
    return replace(snapshot, lws={**snapshot.lws, "status": {}})


def with_limit(snapshot: SetSnapshot, limit: int, **spec: Any) -> SetSnapshot:
    return with_spec(snapshot, make_set(image="app:3", revisionHistoryLimit=limit, **spec))


@pytest.mark.parametrize(
    ("hold_up", "deleted"),
    [
        pytest.param(
            lambda it: with_spec(it, make_set(image="app:9", revisionHistoryLimit=0)), [2, 3], id="it begins"
        ),
        pytest.param(lambda it: replace(it, groups=it.groups[:1]), [2, 3], id="a group is missing"),
        pytest.param(lambda it: with_limit(it, 0, partition=1), [2, 3], id="partition"),
        pytest.param(lambda it: with_limit(it, 1, partition=1), [2], id="partition, one is kept"),
        pytest.param(
            lambda it: with_limit(replace(it, groups=it.groups[:1]), 0, rolloutStrategy={"paused": True}),
            [2, 3],
            id="paused",
        ),
        pytest.param(
            lambda it: without_memory(replace(it, groups=it.groups[:1])), [1, 2, 3], id="nothing names any"
        ),
        pytest.param(
            lambda it: replace(it, live_keys=it.live_keys | {it.revisions[1].key}, groups=it.groups[:1]),
            [3],
            id="a group runs one",
        ),
        pytest.param(lambda it: replace(it, leaders=None, groups=()), [2, 3], id="the StatefulSet is lost"),
        pytest.param(lambda it: orphaned(it, "leaders"), [], id="the StatefulSet is not ours yet"),
        pytest.param(lambda it: replace(it, knows_live_keys=False), [], id="what comes back is not known"),
    ],
)
def test_the_history_limit_holds_in_every_state(
    hold_up: Callable[[SetSnapshot], SetSnapshot], deleted: list[int]
) -> None:
    """The bound covers revisions that neither run nor are desired. The status records 1 as the origin."""
    assert pruned_of(hold_up(with_history(0))) == deleted


# --- Problems -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "replicas", "room"),
    [
        pytest.param("x" * 50, 10, None, id="fits"),
        pytest.param("x" * 50, 11, 49, id="a second digit of the index"),
        pytest.param("x" * 52, 1, 50, id="never fitted"),
        pytest.param("x" * 60, 0, None, id="no groups, no names"),
    ],
)
def test_a_name_that_is_too_long_after_scaling_is_reported(
    name: str, replicas: int, room: int | None
) -> None:
    planned = plan(SetSnapshot(make_set(name, replicas=replicas), NOW))
    problem = problem_of(planned)
    if room is None:
        assert problem is None and planned.announce == ()
        return
    assert problem is not None and problem[0] == "NameTooLong"
    message = f"the name has {len(name)} bytes, at {replicas} replicas it may have {room}: "
    assert problem[1].startswith(message) and problem[1].endswith("; scale down or use a shorter name")
    assert [event.note for event in planned.announce] == [problem[1]]
    assert shapes(planned)[0][-1] == f"apply StatefulSet {name}", "groups that fit are created anyway"


def test_surge_counts_for_the_length_of_names() -> None:
    planned = plan(SetSnapshot(make_set("x" * 50, replicas=10, max_surge=1), NOW))
    problem = problem_of(planned)
    assert problem is not None and problem[0] == "NameTooLong"


@pytest.mark.parametrize(("size", "is_reported"), [(2, True), (1, False)])
def test_an_api_server_without_start_ordinals_is_reported(size: int, is_reported: bool) -> None:
    planned = plan(SetSnapshot(make_set(size=size), NOW, drops_start_ordinal=True))
    problem = problem_of(planned)
    assert (problem is not None) is is_reported
    if problem is not None:
        assert problem[0] == "StartOrdinalUnsupported"
        assert "requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature" in problem[1]


def test_conditions_change_together_with_the_generation() -> None:
    snapshot = with_spec(settled(make_set()), make_set(image="app:2"))
    conditions = {condition["type"]: condition for condition in status_of(plan(snapshot))["conditions"]}
    observed = {
        type_: (condition["status"], condition["observedGeneration"])
        for type_, condition in conditions.items()
    }
    assert observed == {
        "Available": ("False", 2),
        "Degraded": ("False", 2),
        "Progressing": ("True", 2),
        "Reconciling": ("True", 2),
        "UpdateInProgress": ("True", 2),
    }


def test_a_status_of_progress_can_wait() -> None:
    snapshot = settled(make_set(replicas=2))
    losing = replace(snapshot, groups=snapshot.groups[:1])
    # Available becomes False, which is reported at once. The number of groups in its message changes later.
    reported = carried_out(losing, plan(losing))
    assert [status.can_wait for status in plan(losing).statuses] == [False]
    assert [status.can_wait for status in plan(replace(reported, groups=())).statuses] == [True]


@pytest.mark.parametrize(("age", "is_first"), [(1, True), (3600, False)])
def test_an_emptied_status_of_an_old_set_is_no_first_status(age: int, is_first: bool) -> None:
    created = f"{NOW - timedelta(seconds=age):%Y-%m-%dT%H:%M:%SZ}"
    lws = changed(make_set(replicas=2), lambda obj: obj["metadata"].update(creationTimestamp=created))
    emptied = replace(settled(make_set(replicas=2)), lws=lws, groups=())
    (status,) = plan(emptied).statuses
    assert status.is_first is is_first


def test_a_surge_is_reported_at_once_even_without_an_earlier_status() -> None:
    created = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
    lws = changed(make_set(replicas=2), lambda obj: obj["metadata"].update(creationTimestamp=created))
    emptied = replace(settled(make_set(replicas=2)), lws=lws, groups=())
    (status,) = plan(emptied).statuses
    assert status.is_first
    assert emptied.leaders is not None
    leaders = {**emptied.leaders, "status": {**emptied.leaders["status"], "replicas": 3}}
    (status,) = plan(replace(emptied, leaders=leaders)).statuses
    assert not status.is_first and not status.can_wait


@pytest.mark.parametrize(("remaining", "can_wait"), [(3, True), (2, False)])
def test_the_end_of_a_scale_down_is_reported_at_once(remaining: int, can_wait: bool) -> None:
    four = settled(make_set(replicas=4))
    scaled = with_spec(four, make_set(replicas=2))
    scaled = with_reported(carried_out(scaled, plan(scaled)))
    assert scaled.leaders is not None
    status = {**scaled.leaders["status"], "replicas": remaining}
    fewer = replace(scaled, groups=four.groups[:remaining], leaders={**scaled.leaders, "status": status})
    assert [update.can_wait for update in plan(fewer).statuses] == [can_wait]


@pytest.mark.parametrize(("replicas", "can_wait"), [(6, True), (4, False)])
def test_replacements_during_a_surge_are_not_the_end_of_a_scale_down(replicas: int, can_wait: bool) -> None:
    six = settled(make_set(replicas=6))
    scaled = with_spec(six, make_set(replicas=4, max_surge=2))
    scaled = with_reported(carried_out(scaled, plan(scaled)))
    leaders = changed(scaled.leaders, lambda obj: obj["spec"].update(replicas=replicas))
    leaders["status"]["replicas"] = 4
    replaced = replace(scaled, groups=six.groups[:4], leaders=leaders)
    assert [update.can_wait for update in plan(replaced).statuses] == [can_wait]


def test_a_small_rollout_step_can_be_postponed() -> None:
    started = settled(make_set(replicas=20, max_unavailable=6))
    updated = with_spec(started, make_set(replicas=20, max_unavailable=6, image="app:2"))
    begun = with_reported(carried_out(updated, plan(updated)))
    # Four groups are missing, so only two may be replaced.
    moving = replace(begun, groups=begun.groups[4:])
    assert "apply StatefulSet demo" in [shape(action) for action in actions_of(plan(moving))]
    (small,) = plan(moving).postponable
    assert moving.leaders is not None and small.target == Reference.to(moving.leaders)
    assert list(small.actions) == actions_of(plan(moving)), "nothing but the step"
    assert plan(updated).postponable == (), "the first step moves more"


def test_leaders_that_the_stored_partition_covers_do_not_wait_for_the_next_step() -> None:
    started = settled(make_set(replicas=20, max_unavailable=6))
    updated = with_spec(started, make_set(replicas=20, max_unavailable=6, image="app:2"))
    begun = with_reported(carried_out(updated, plan(updated)))
    few = replace(begun, groups=begun.groups[4:])
    # Meanwhile the partition is 18, and no leader has been replaced yet.
    moved = with_reported(carried_out(few, plan(few)))
    planned = plan(replace(moved, groups=begun.groups[3:]))
    (writes,) = shapes(planned)
    assert writes[:2] == ["delete Pod demo-19", "delete Pod demo-18"]
    assert writes[-2:] == ["delete StatefulSet demo-19", "delete StatefulSet demo-18"]
    (small,) = planned.postponable
    assert [shape(action) for action in small.actions] == writes[2:-2]


def test_a_failed_group_is_reported_until_its_leader_is_deleted() -> None:
    lws = make_set(maxGroupRestarts=1)
    snapshot = settled(lws)
    leader = snapshot.groups[1].leader
    restarts = Restarts(1, 1, int(NOW.timestamp()), leader["metadata"]["labels"][REVISION_LABEL])
    # The pass over the group has written this record.
    snapshot.lws["status"] |= record_patch(1, leader, restarts, KEPT)

    def failed_condition(snapshot: SetSnapshot) -> Any:
        return find(carried_out(snapshot, plan(snapshot)).lws["status"]["conditions"], "Failed")

    assert (failed_condition(snapshot)["status"], failed_condition(snapshot)["reason"]) == (
        "True",
        "GroupRestartsExhausted",
    )
    assert failed_condition(snapshot)["message"].startswith("Group 1 has exceeded maxGroupRestarts")
    snapshot = carried_out(snapshot, plan(snapshot))
    assert failed_condition(with_spec(snapshot, make_set(maxGroupRestarts=2)))["status"] == "False"
    assert failed_condition(replace(snapshot, groups=snapshot.groups[:1]))["status"] == "False"


def test_a_takeover_warns_once_that_claims_are_deleted_with_their_group() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    at_rest = settled(make_set(template={"volumeClaimTemplates": [claim]}))
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    groups = tuple(
        replace(
            group,
            worker_statefulset={
                **group.worker_statefulset,
                "spec": {**group.worker_statefulset["spec"], **policy},
            },
        )
        for group in at_rest.groups
        if group.worker_statefulset is not None
    )
    status = {key: value for key, value in at_rest.lws["status"].items() if not key.endswith("Revision")}
    taken_over = replace(at_rest, groups=groups, lws={**at_rest.lws, "status": status})
    planned = plan(taken_over)
    (event,) = (event for event in planned.statuses[0].announce if event.reason == "ClaimsGoWithGroups")
    assert event.type == "Warning"
    assert event.note.startswith("worker StatefulSet demo-0 and 1 more: whenDeleted is Delete")
    after = carried_out(taken_over, planned)
    assert plan(after).is_empty, "it is reported once, with our first status"
    assert not any(update.announce for update in plan(replace(taken_over, groups=at_rest.groups)).statuses)


def test_the_leader_service_is_created_with_the_set() -> None:
    lws = make_set(leaderService={"ports": [{"port": 80}]})
    at_rest = settled(lws)
    assert at_rest.leader_service is not None
    assert plan(at_rest).is_empty
    planned = plan(replace(at_rest, leader_service=None))
    assert shapes(planned) == [["create Service demo-leader"]]


def test_a_broken_revision_is_reported_once_without_writes() -> None:
    snapshot = settled(make_set())
    labels = {NAME_LABEL: "demo", REVISION_LABEL: "other"}
    broken = replace(
        snapshot.revisions[0], key="other", labels=labels, broken="ControllerRevision x: data is wrong"
    )
    planned = plan(replace(snapshot, revisions=(broken, *snapshot.revisions)))
    assert (planned.sequences, planned.statuses) == ((), ())
    (event,) = planned.announce
    assert (event.type, event.reason, event.note) == ("Warning", "BrokenRevision", broken.broken)
    assert (event.once, event.related) == (True, broken.reference)


def test_a_running_broken_revision_is_recorded_again() -> None:
    snapshot = settled(make_set())
    nothing = replace(snapshot.revisions[0].record, spec={})
    broken = replace(snapshot.revisions[0], broken="ControllerRevision x: data is wrong", record=nothing)
    planned = plan(replace(snapshot, revisions=(broken,)))
    (create,) = actions_of(planned)
    assert isinstance(create, Create)
    assert create.intent["metadata"]["labels"][REVISION_LABEL] == broken.key
    assert create.intent["revision"] == broken.number + 1


# --- Restarts by upstream's rules ---------------------------------------------------------------------------


def counted(text: str, **template: Any) -> SetSnapshot:
    """Return two settled groups with these recorded counts."""
    at_rest = settled(make_set(template=template))
    metadata = {**at_rest.lws["metadata"], "annotations": {GROUP_RESTART_COUNTS_ANNOTATION: text}}
    return replace(at_rest, lws={**at_rest.lws, "metadata": metadata})


def counts_written(planned: Plan) -> list[Any]:
    merges = [
        action for action in actions_of(planned) if isinstance(action, Merge) and "metadata" in action.patch
    ]
    return [merge.patch["metadata"]["annotations"][GROUP_RESTART_COUNTS_ANNOTATION] for merge in merges]


def test_counts_of_deleted_groups_and_revisions_are_removed() -> None:
    key = settled(make_set()).groups[0].leader_key
    snapshot = counted(f'{{"{key}/1":1,"{key}/2":1,"old/0":1}}')
    assert counts_written(plan(snapshot)) == [f'{{"{key}/1":1}}']
    surge = changed(snapshot.leaders, lambda obj: obj["spec"].update(replicas=3))
    in_a_rollout = replace(snapshot, leaders=surge, groups=snapshot.groups[:1])
    assert counts_written(plan(in_a_rollout)) == [f'{{"{key}/1":1,"{key}/2":1}}'], "no group has it"
    running = replace(in_a_rollout, live_keys=frozenset({key, "old"}))
    unknown = replace(in_a_rollout, knows_live_keys=False)
    for rollout in (running, unknown):
        assert counts_written(plan(rollout)) == [], "of the surge, and of the revision before it"
    assert counts_written(plan(counted("{}"))) == counts_written(plan(settled(make_set()))) == []


def test_unreadable_counts_are_reported_only_if_they_are_needed() -> None:
    advice = f"fix or remove the annotation {GROUP_RESTART_COUNTS_ANNOTATION} of the set; until then"
    for text, message in (
        (
            "[]",
            f"invalid group restart counts: expected a JSON object: {advice}, groups that fail are neither "
            "recreated nor recovered, except after evictions, preemptions and drains",
        ),
        (
            '{"x":1}',
            f'invalid group restart count key "x": {advice}, counts of deleted groups and former revisions '
            "are not removed",
        ),
    ):
        snapshot = counted(text, maxGroupRestarts=1)
        condition = find(carried_out(snapshot, plan(snapshot)).lws["status"]["conditions"], "ReplicaFailure")
        assert (
            condition is not None
            and condition["reason"] == "InvalidRestartCounts"
            and condition["message"] == message
        )
        assert counts_written(plan(snapshot)) == []
        harmless = counted(text)
        stored = carried_out(harmless, plan(harmless)).lws["status"]["conditions"]
        assert find(stored, "ReplicaFailure") is None


def test_an_exhausted_group_degrades_the_set_and_counts_as_failed() -> None:
    at_rest = settled(make_set(template={"maxGroupRestarts": 1}))
    leader = changed(
        at_rest.groups[1].leader,
        lambda obj: obj["metadata"].update(
            deletionTimestamp="2026-03-01T11:59:00Z",
            finalizers=[RESTART_BUDGET_FINALIZER],
            annotations={RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true"},
        ),
    )
    ended = replace(at_rest, groups=(at_rest.groups[0], replace(at_rest.groups[1], leader=leader)))
    planned = plan(ended)
    status = carried_out(ended, planned).lws["status"]
    assert (find(status["conditions"], "Degraded") or {})["status"] == "True"
    (unsettled,) = status["groups"]["unsettled"]
    assert unsettled["reason"] == (
        "restarts are used up: annotate the leader pod with leaderworkerset.sigs.k8s.io/recover=true"
    )
    assert planned.figures is not None and planned.figures.numbers["failed", ""] == 1
