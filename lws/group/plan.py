"""What must be done for one group: restart it, give it its Service and its workers, or wait and say for what.

In: a GroupSnapshot. Out: a Plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lws import timing
from lws.actions import Announce, Create, Delete, Fold, Object, Plan, Reference, together
from lws.children import Child, Owner, plan_child, put_back_service, relabelled
from lws.group.edits import plan_existing_workers, put_back
from lws.group.gang.kubernetes import hand_on
from lws.group.identity import group_index_of
from lws.group.node_loss import plan_node_loss
from lws.group.objects import build_group_service, build_worker_statefulset
from lws.group.placement import restored_for, topology_of, worker_placement
from lws.group.restart import plan_restart
from lws.group.snapshot import GroupSnapshot, group_event
from lws.group.start_conditions import plan_delay, plan_second_look
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
)
from lws.kube.ownership import Ownership, may_adopt
from lws.leaderworkerset.assessment.likeness import (
    ownership_of_pod_group,
    ownership_of_service,
    ownership_of_workers,
)
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.recovery import as_recorded, reconstruct
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.status.figures import MISSING_REVISION, recreated
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    KIND,
    LEADER_NAME_ANNOTATION,
    REVISION_LABEL,
    SubdomainPolicy,
)

_NEEDS_START_ORDINAL = "requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal feature"


def plan(group: GroupSnapshot) -> Plan:
    """One step towards a complete group."""
    problem = why_left_alone(group.lws, group.is_covered)
    if problem is not None:
        return Plan(waiting_for=problem.message)
    return together(put_back(group.edited), _plan_group(group), plan_node_loss(group))


def _plan_group(group: GroupSnapshot) -> Plan:
    if is_terminating(group.leader) or is_terminating(group.lws):
        return Plan(waiting_for="the leader pod or the set to be gone")
    if LEADER_NAME_ANNOTATION in annotations_of(group.leader):
        return _mistaken_leader(group)
    if not {GROUP_INDEX_LABEL, GROUP_KEY_LABEL} <= labels_of(group.leader).keys():
        return _unlabelled_leader(group)
    revision = group.revision if group.revision is not None else _rebuilt_revision(group)
    if revision is None:
        return _missing_revision(group)
    restored = SetSpec.of(restored_for(group.lws, revision, group.leader))
    restart = plan_restart(group, restored.size) or Plan()
    if _deletes(restart):
        return restart
    # A group that has to wait for its end, or is kept as it is, is kept whole.
    gang = _plan_gang(group, restored)
    service = _plan_service(group, restored)
    if gang.waiting_for and group.worker_statefulset is None:
        return together(restart, service, gang)
    workers = _plan_workers(group, restored) if restored.size > 1 else Plan()
    # Pods that come before their PodGroup would be placed without it, or by one that is going.
    chained = tuple(action for each in (gang, workers) for sequence in each.sequences for action in sequence)
    second_look = plan_second_look(group, topology_of(restored.lws))
    return together(restart, service, replace(together(gang, workers), sequences=(chained,)), second_look)


def _deletes(restart: Plan) -> bool:
    return any(isinstance(action, Delete) for sequence in restart.sequences for action in sequence)


def _plan_service(group: GroupSnapshot, restored: SetSpec) -> Plan:
    if restored.subdomain_policy != SubdomainPolicy.UNIQUE_PER_REPLICA:
        return Plan()
    service = build_group_service(name_of(group.lws), group.leader)
    uid = group.leader["metadata"]["uid"]
    ownership = ownership_of_service(group.service, uid, service, group.owners_alive)
    failure = _failed(group, "Failed to create headless service for error")
    create = Create(service, why="the group has a subdomain of its own", failure=failure)
    return _plan_child(group, ownership, group.service, create, put_back_service)


def _plan_gang(group: GroupSnapshot, restored: SetSpec) -> Plan:
    if group.gang is None or not group.gang.name_of(group.leader):
        return Plan()
    leader = group.leader["metadata"]
    name = name_of(group.lws)
    ownership = ownership_of_pod_group(group.pod_group, group.leader, name, group.owners_alive)
    if group.gang.keeps_in_use and is_controlled_by(group.pod_group or {}, leader["uid"]):
        # Deleted or not, it is there for as long as its pods are.
        ownership = Ownership.OURS
    failure = _failed(group, f"Failed to create PodGroup for leader pod {leader['name']}")
    pod_group = group.gang.pod_group(restored.lws, group.leader)
    create = Create(pod_group, why="the scheduler places the group as one", failure=failure)
    return _plan_child(group, ownership, group.pod_group, create)


def _plan_workers(group: GroupSnapshot, restored: SetSpec) -> Plan:
    placement = worker_placement(restored.lws, group.leader, group.node)
    delay = plan_delay(group, placement) if group.worker_statefulset is None else None
    if delay is not None:
        return delay
    leader = group.leader["metadata"]["name"]
    stored = group.worker_statefulset
    ownership = ownership_of_workers(stored, group.leader, name_of(group.lws), group.owners_alive)
    intent = hand_on(build_worker_statefulset(restored, group.leader, placement), group.leader)
    create = Create(
        intent,
        why="the leader pod has no workers yet",
        announce=(_created_workers(group),) if stored is None else (),
        failure=_failed(group, f"Failed to create worker statefulset for leader pod {leader}"),
    )
    return _plan_child(group, ownership, stored, create, plan_existing_workers)


def _created_workers(group: GroupSnapshot) -> Announce:
    leader = group.leader["metadata"]["name"]
    created = f"Created worker statefulset for leader pod {leader}"
    fold = Fold("Created worker statefulsets for leader pods {}", leader, _leaders(group))
    return replace(group_event(group, "GroupsProgressing", "Create", created), fold=fold)


def _leaders(group: GroupSnapshot) -> Reference | None:
    """The StatefulSet that all leader pods of the set belong to."""
    owner, namespace = controller_of(group.leader), group.leader["metadata"]["namespace"]
    if owner is None:
        return None
    return Reference(owner["apiVersion"], owner["kind"], namespace, owner["name"], owner["uid"])


def _plan_child(
    group: GroupSnapshot,
    ownership: Ownership,
    stored: Object | None,
    create: Create,
    keep_up: Callable[[Object, Object], Plan] = relabelled,
) -> Plan:
    """A child of the leader pod. What stands in its way is told at once: groups have no condition."""
    kind = create.intent["kind"]
    owner = Owner(
        KIND,
        name_of(group.lws),
        reference=create.intent["metadata"]["ownerReferences"][0],
        is_alive=may_adopt(group.leader, group.reread),
        adoption="this {kind} of the group has no owner",
    )
    child = Child(ownership, stored, f"the {kind} of the former leader pod")
    planned = plan_child(owner, child, create, keep_up)
    if not planned.problems:
        return planned
    return replace(planned, announce=tuple(_failed(group, each.message) for each in planned.problems))


def _mistaken_leader(group: GroupSnapshot) -> Plan:
    """Without start ordinals a worker gets index 0 and looks like a leader: never build on it."""
    pod = group.leader["metadata"]
    note = (
        f"leader pod {pod['namespace']}/{pod['name']} contains mistake annotation "
        f"'{LEADER_NAME_ANNOTATION}': {_NEEDS_START_ORDINAL}"
    )
    return Plan(announce=(_failed(group, note),), waiting_for=note)


def _unlabelled_leader(group: GroupSnapshot) -> Plan:
    """Without index and key a group cannot be told from others; only a pod that is made anew gets them."""
    pod = group.leader["metadata"]["name"]
    note = (
        f"leader pod {pod} lacks the labels of its group, and its containers may lack their environment: the "
        f"pod webhook of lws was not in place when it was created, or the labels were removed; check the "
        f"webhook configuration, then delete the pod"
    )
    return Plan(announce=(_failed(group, note),), again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=note)


def _rebuilt_revision(group: GroupSnapshot) -> Recorded | None:
    """What the group was made from, read off StatefulSets; the pass over the set records it where it can."""
    made = reconstruct(group.lws, group.unrecorded) if group.unrecorded is not None else None
    return as_recorded(group.lws, made) if made is not None else None


def _missing_revision(group: GroupSnapshot) -> Plan:
    """Nothing is left that shows what its workers were: the group gets what new leaders get."""
    key, leader = labels_of(group.leader).get(REVISION_LABEL, ""), group.leader["metadata"]["name"]
    size = group.size
    restart = plan_restart(group, size)
    if restart is not None or size == 1:
        return restart or Plan()
    if not key:
        return Plan(waiting_for="a rollout: the group belongs to no revision")
    note = f"leader pod {leader} has revision key {key!r}, of which no ControllerRevision is left"
    if group.unrecorded is None:
        return Plan(again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=note)
    if not group.is_shown:
        return _unknown_revision(group, note)
    index = group_index_of(group.leader)
    note = f"{note}, nor a StatefulSet: group {index} is recreated from the current revision"
    announce = (group_event(group, "MissingRevision", "Delete", note, "Warning"),)
    why = "nothing shows what its workers were"
    tallies = (recreated(group.lws, MISSING_REVISION),)
    return Plan(((Delete(Reference.to(group.leader), "Foreground", why, announce, tallies=tallies),),))


def _unknown_revision(group: GroupSnapshot, note: str) -> Plan:
    """The label may have been edited, and no pod goes for that."""
    leader = group.leader["metadata"]["name"]
    said = (
        f"{note}, and nothing else says what it was made from: delete pod {leader} and its group is made anew"
    )
    warning = group_event(group, "MissingRevision", "Wait", said, "Warning")
    return Plan(announce=(warning,), again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=said)


def _failed(group: GroupSnapshot, note: str) -> Announce:
    return group_event(group, "FailedCreate", "Create", note, "Warning")
