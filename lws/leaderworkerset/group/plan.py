"""Plan one group: restart it, create its Service, PodGroup and workers, or report what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from lws import timing
from lws.kube.conditions import elapsed, is_true, moment_of, timestamp
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
    without_tool_keys,
)
from lws.kube.nodes import end_of_grace, node_of
from lws.kube.ownership import Ownership, may_adopt
from lws.kube.pods import (
    are_containers_ready,
    has_ended,
    has_gate,
    is_failed,
    is_ready,
    wait_for_node,
)
from lws.kube.statefulsets import is_settled
from lws.leaderworkerset.assessment.ownership import (
    ownership_of_pod_group,
    ownership_of_service,
    ownership_of_workers,
)
from lws.leaderworkerset.children.services import build_group_service
from lws.leaderworkerset.children.workload import drift_of
from lws.leaderworkerset.group.exhaustion import (
    Abandoned,
    plan_abandoned,
    plan_exhaustion,
    plan_kept,
    plan_kept_alone,
    plan_termination,
    plan_termination_annotation,
)
from lws.leaderworkerset.group.gangs import name_pod_group_of_leader
from lws.leaderworkerset.group.marks import EditedPod, lacks_group
from lws.leaderworkerset.group.objects import build_worker_statefulset
from lws.leaderworkerset.group.placement import Placement, restored_for, topology_of, worker_placement
from lws.leaderworkerset.group.restart import plan_restart
from lws.leaderworkerset.group.snapshot import GroupSnapshot, group_event
from lws.leaderworkerset.pod_identity import group_id, is_of_hash_group
from lws.leaderworkerset.restart_counts import is_exhausted
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import as_recorded, reconstruct
from lws.leaderworkerset.rollout.replacement import admit, deferral_of_index
from lws.leaderworkerset.scheduling import (
    Scheduled,
    build_pod_group,
    parts_of,
    pod_groups_of_group,
)
from lws.leaderworkerset.snapshot import child_owner
from lws.leaderworkerset.spec import SetSpec, other_manager
from lws.leaderworkerset.status.problems import force_delete, is_forced
from lws.leaderworkerset.status.status import MISSING_REVISION, POD_FAILED, recreation_tally
from lws.runtime.actions import Announce, Create, Delete, Fold, Merge, Object, Plan, Reference, merge_plans
from lws.runtime.children import Child, Repairs, label_patches, plan_child, repair, repair_service
from lws_api.leaderworkerset.v1 import (
    FORMER_GROUP_GONE_LABEL,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_READY_CONDITION,
    GROUP_REPLACEMENT_GATE,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    RestartPolicy,
    StartupPolicy,
    SubdomainPolicy,
)


def plan(group: GroupSnapshot | Abandoned) -> Plan:
    """Plan one step towards a complete group."""
    if isinstance(group, Abandoned):
        return plan_abandoned(group)
    if group.left_alone is not None:
        return merge_plans(plan_kept_alone(group, group.left_alone.message), _plan_admission_alone(group))
    # If another controller runs the set, all of its pods are left to that controller.
    losses = plan_node_loss(group) if not other_manager(group.lws) else Plan()
    return merge_plans(plan_label_repairs(group.edited_pods), plan_kept(group) or _plan_group(group), losses)


def _plan_group(group: GroupSnapshot) -> Plan:
    if is_terminating(group.leader) or is_terminating(group.lws):
        waiting = Plan(waiting_for="the leader pod or the set to be gone")
        return merge_plans(plan_termination(group.leader, group.worker_statefulset, group.lws), waiting)
    if is_exhausted(group.leader):
        return plan_exhaustion(group)
    if LEADER_NAME_ANNOTATION in annotations_of(group.leader):
        return _report_worker_as_leader(group)
    if lacks_group(group.leader):
        return _wait_for_labels_of_leader(group)
    revision = group.revision
    if revision is None and group.unrecorded_templates is not None:
        # The pass over the set records the rebuilt revision if it can.
        rebuilt = reconstruct(group.lws, group.unrecorded_templates)
        revision = as_recorded(group.lws, rebuilt) if rebuilt is not None else None
    if revision is None:
        missing = _report_missing_revision(group)
        return missing if _deletes(missing) else merge_plans(missing, _plan_admission(group))
    restored = SetSpec.of(restored_for(group.lws, revision, group.leader))
    keeps_failed = group.spec.restart_policy == RestartPolicy.NONE or not is_failed(group.leader)
    if is_of_hash_group(group.leader) and has_ended(group.leader) and keeps_failed:
        # The ReplicaSet does not delete an ended leader, and its successor waits for this deletion.
        return _recreate(group, "the leader pod has ended, and its ReplicaSet has replaced it", POD_FAILED)
    restart = plan_restart(group, restored.size) or Plan()
    if _deletes(restart):
        return restart
    scheduled = group.scheduled
    gang = _plan_gang(group, restored) if scheduled is None else _plan_pod_groups(group, scheduled, restored)
    service = _plan_service(group, restored)
    if gang.waiting_for and group.worker_statefulset is None:
        return merge_plans(restart, service, gang)
    left = _left_without_owner(group)
    admission = _plan_admission(group) if left or not gang.waiting_for else Plan()
    released = _without_gate(group) if admission.sequences and not left else group
    workers = _plan_workers(released, restored) if restored.size > 1 and not left else Plan()
    # Keep this order: pods that are created before their PodGroup would be scheduled without it, or by a
    # terminating one.
    chained = tuple(
        action for part in (gang, admission, workers) for sequence in part.sequences for action in sequence
    )
    scheduling_retry = plan_scheduling_retry(group, topology_of(restored.lws))
    group_ready = plan_group_ready(group, restored.size)
    children = replace(merge_plans(gang, admission, workers), sequences=(chained,))
    return merge_plans(
        restart, service, children, scheduling_retry, group_ready, plan_termination_annotation(group)
    )


def _recreate(group: GroupSnapshot, why: str, reason: str, announce: tuple[Announce, ...] = ()) -> Plan:
    """Recreate the group: delete the leader and its workers. reason: one of `RECREATION_REASONS`."""
    tallies = (recreation_tally(group.lws, reason),)
    return Plan(((Delete(Reference.to(group.leader), "Foreground", why, announce, tallies=tallies),),))


def _deletes(restart: Plan) -> bool:
    return any(isinstance(action, Delete) for sequence in restart.sequences for action in sequence)


def _plan_service(group: GroupSnapshot, restored: SetSpec) -> Plan:
    if restored.subdomain_policy != SubdomainPolicy.UNIQUE_PER_REPLICA:
        return Plan()
    service = build_group_service(name_of(group.lws), group.leader)
    uid = group.leader["metadata"]["uid"]
    ownership = ownership_of_service(group.service, uid, service, group.owners_alive)
    failure = _failed_create(group, "Failed to create headless service for error")
    create = Create(service, why="the group has a subdomain of its own", failure=failure)
    return _plan_group_child(group, ownership, group.service, create, repair_service)


def _plan_gang(group: GroupSnapshot, restored: SetSpec) -> Plan:
    if group.gang is None or not group.gang.name_of(group.leader):
        return Plan()
    leader = group.leader["metadata"]
    pod_group = group.gang.pod_group(restored.lws, group.leader)
    owner = pod_group["metadata"]["ownerReferences"][0]["uid"]
    if is_controlled_by(group.pod_group or {}, leader["uid"]):
        # In earlier releases the leader owned the PodGroup, even with `spec.scheduling`.
        owner = leader["uid"]
    ownership = ownership_of_pod_group(group.pod_group, owner, name_of(group.lws), group.owners_alive)
    if group.gang.keeps_in_use and is_controlled_by(group.pod_group or {}, leader["uid"]):
        # A terminating PodGroup is ours, too: it remains until its pods are gone.
        ownership = Ownership.OURS
    failure = _failed_create(group, f"Failed to create PodGroup for leader pod {leader['name']}")
    create = Create(pod_group, why="the scheduler places the group as one", failure=failure)
    return _report_owner(group, ownership, _plan_group_child(group, ownership, group.pod_group, create))


def _plan_pod_groups(group: GroupSnapshot, scheduled: Scheduled, restored: SetSpec) -> Plan:
    """Create the PodGroups that `spec.scheduling` requires. The set owns them, not the leader."""
    if scheduled.workload is None:
        return Plan(again_after=timing.RECHECK_SECONDS, waiting_for="the Workload of the set")
    names, plans = pod_groups_of_group(group.lws, group.leader), []
    for part in parts_of(restored):
        if not (name := names.get(part.name, "")):
            continue
        stored, uid = scheduled.named(name), uid_of(group.lws)
        intent = build_pod_group(restored, part, name, scheduled.workload, group.leader)
        ownership = ownership_of_pod_group(stored, uid, name_of(group.lws), group.owners_alive)
        if is_controlled_by(stored or {}, uid):
            # A terminating PodGroup is ours, too: it remains until its pods are gone.
            ownership = Ownership.OURS
        note = f"Failed to create PodGroup for leader pod {name_of(group.leader)}"
        failure = group_event(group, "PodGroupCreateFailed", "Create", note, "Warning")
        why = "the scheduler places its pods as one"
        create = Create(intent, why=why, failure=failure)
        planned = _plan_group_child(group, ownership, stored, create, partial(_pod_group_repairs, group))
        plans.append(_report_owner(group, ownership, planned))
    return merge_plans(*plans)


def _report_owner(group: GroupSnapshot, ownership: Ownership, planned: Plan) -> Plan:
    """Report for the pod, as upstream does, that the PodGroup of a plan belongs to another owner."""
    if ownership != Ownership.NAME_CLASH:
        return planned
    about, note = Reference.to(group.leader), planned.waiting_for
    warning = Announce(about, "UnexpectedPodGroupOwner", "Create", note, "Warning", Reference.to(group.lws))
    return replace(planned, announce=(warning,))


def _pod_group_repairs(group: GroupSnapshot, stored: Object, intent: Object) -> Mapping[str, Object] | Plan:
    if fault := drift_of(stored, intent):
        warning = group_event(group, fault.reason, "Create", fault.message, "Warning")
        return Plan(announce=(warning,), waiting_for=fault.message)
    return {}


def _plan_admission(group: GroupSnapshot) -> Plan:
    """Remove the scheduling gate of a leader with an index once no other pod of its group exists, and delete
    those that no garbage collector deletes. The pass over the set admits leaders of Hash groups, because they
    replace groups of other keys.
    """
    leader, index = group.leader, group_id(group.leader)
    if is_of_hash_group(leader) or not has_gate(leader, GROUP_REPLACEMENT_GATE):
        return Plan()
    # Without spec.scheduling every recreated group has the gate, usually until its former pods have ended.
    since = moment_of(leader["metadata"].get("creationTimestamp"))
    is_announced = (
        group.scheduled is not None or since is None or elapsed(since, group.now) >= timing.GATE_WAIT_IS_LONG
    )
    if group.former_workers or _is_of_former_leader(group):
        why = "its leader was deleted without it, and the next leader gets workers of its own"
        return Plan(
            sequences=tuple(
                (Delete(Reference.to(obj), "Background", why),) for obj in _left_without_owner(group)
            ),
            announce=(deferral_of_index(group.lws, leader, index),) if is_announced else (),
            again_after=timing.RECHECK_SECONDS,
            waiting_for=f"the pods of the previous group {index} to be gone",
        )
    admitting = admit(group.lws, leader)
    return Plan(((admitting if is_announced else replace(admitting, announce=()),),))


def _plan_admission_alone(group: GroupSnapshot) -> Plan:
    """Remove the gate of a leader whose set is left alone, once no other pod of its group exists. The pod
    webhook gates such a leader only while its store is not current.
    """
    is_gated = has_gate(group.leader, GROUP_REPLACEMENT_GATE) and not is_terminating(group.leader)
    if not is_gated or other_manager(group.lws):
        return Plan()
    if group.former_workers or _is_of_former_leader(group):
        return Plan(again_after=timing.RECHECK_SECONDS)
    return Plan(((admit(group.lws, group.leader),),))


def _left_without_owner(group: GroupSnapshot) -> list[Object]:
    """Return the workers of a former leader that was deleted without them (`--cascade=orphan`). A gated
    leader has no workers yet, so they are not its own.
    """
    if is_of_hash_group(group.leader) or not has_gate(group.leader, GROUP_REPLACEMENT_GATE):
        return []
    left = [pod for pod in group.former_workers if controller_of(pod) is None and not is_terminating(pod)]
    return [*([workers] if (workers := _orphaned_workers(group)) is not None else []), *left]


def _orphaned_workers(group: GroupSnapshot) -> Object | None:
    """Return the worker StatefulSet if it has no owner."""
    workers, set_name = group.worker_statefulset, name_of(group.lws)
    ownership = ownership_of_workers(workers, group.leader, set_name, group.owners_alive)
    return workers if ownership == Ownership.ORPHAN else None


def _without_gate(group: GroupSnapshot) -> GroupSnapshot:
    """Return the group as it will be once its gate is removed."""
    spec = group.leader["spec"]
    gates = [gate for gate in spec["schedulingGates"] if gate != {"name": GROUP_REPLACEMENT_GATE}]
    return replace(group, leader={**group.leader, "spec": {**spec, "schedulingGates": gates}})


def _is_of_former_leader(group: GroupSnapshot) -> bool:
    """Return whether a former leader's worker StatefulSet is left, which continues to create pods."""
    owner = controller_of(group.worker_statefulset) if group.worker_statefulset is not None else None
    if owner is None:
        return _orphaned_workers(group) is not None
    return owner["kind"] == "Pod" and owner["uid"] not in {uid_of(group.leader), *group.owners_alive}


def _plan_workers(group: GroupSnapshot, restored: SetSpec) -> Plan:
    placement = worker_placement(restored.lws, group.leader, group.leader_node)
    stored = group.worker_statefulset
    if stored is None and (delay := plan_delay(group, placement)) is not None:
        return delay
    ownership = ownership_of_workers(stored, group.leader, name_of(group.lws), group.owners_alive)
    intent = name_pod_group_of_leader(
        build_worker_statefulset(restored, group.leader, placement), group.lws, group.leader
    )
    note = f"Failed to create worker statefulset for leader pod {name_of(group.leader)}"
    create = Create(
        intent,
        why="the leader pod has no workers yet",
        announce=(_created_workers(group),) if stored is None else (),
        failure=_failed_create(group, note),
    )
    return _plan_group_child(group, ownership, stored, create, plan_existing_workers)


def _created_workers(group: GroupSnapshot) -> Announce:
    leader = group.leader["metadata"]["name"]
    note = f"Created worker statefulset for leader pod {leader}"
    # `of_all` is the StatefulSet that all leader pods of the set belong to.
    owner, of_all = controller_of(group.leader), None
    if owner is not None:
        namespace = namespace_of(group.leader)
        of_all = Reference(owner["apiVersion"], owner["kind"], namespace, owner["name"], owner["uid"])
    fold = Fold("Created worker statefulsets for leader pods {}", leader, of_all)
    return replace(group_event(group, "GroupsProgressing", "Create", note), fold=fold)


def _plan_group_child(
    group: GroupSnapshot,
    ownership: Ownership,
    stored: Object | None,
    create: Create,
    repairs: Repairs | None = None,
) -> Plan:
    """Reconcile an object of the group, which the leader pod or the set controls. Name clashes become Events,
    because a group has no status that could report them.
    """
    kind = create.intent["kind"]
    owner = child_owner(
        group.lws,
        create.intent["metadata"]["ownerReferences"][0],
        is_alive=may_adopt(group.leader, group.leader_read_live),
        adoption="this {kind} of the group has no owner",
    )
    child = Child(ownership, stored, f"the {kind} of the former leader pod")
    planned = plan_child(owner, child, create, repairs)
    if not planned.problems:
        return planned
    return replace(
        planned, announce=tuple(_failed_create(group, problem.message) for problem in planned.problems)
    )


def _report_worker_as_leader(group: GroupSnapshot) -> Plan:
    """Report a worker that looks like a leader, and create nothing for it. An API server without start
    ordinals gives a worker index 0.
    """
    pod = group.leader["metadata"]
    note = (
        f"leader pod {pod['namespace']}/{pod['name']} contains mistake annotation "
        f"'{LEADER_NAME_ANNOTATION}': requires Kubernetes ≥v1.27 or v1.26 with StatefulSetStartOrdinal "
        f"feature"
    )
    return Plan(announce=(_failed_create(group, note),), waiting_for=note)


def _wait_for_labels_of_leader(group: GroupSnapshot) -> Plan:
    """Report a leader without index and key, which must be recreated: only a new pod gets them."""
    pod = group.leader["metadata"]["name"]
    note = (
        f"leader pod {pod} lacks the labels of its group, and its containers may lack their environment: the "
        f"pod webhook of lws was not in place when it was created, or the labels were removed; check the "
        f"webhook configuration, then delete the pod"
    )
    return Plan(announce=(_failed_create(group, note),), again_after=timing.RECHECK_SECONDS, waiting_for=note)


def _report_missing_revision(group: GroupSnapshot) -> Plan:
    """Plan a group whose revision is neither recorded nor shown by a StatefulSet: restart, wait, or recreate.
    Without a failure, it is recreated only if another source than the label confirms its revision key.
    """
    key, leader = labels_of(group.leader).get(REVISION_LABEL, ""), group.leader["metadata"]["name"]
    size = group.size
    restart = plan_restart(group, size)
    if restart is not None or size == 1:
        return restart or Plan()
    if not key:
        return Plan(waiting_for="a rollout: the group belongs to no revision")
    note = f"leader pod {leader} has revision key {key!r}, of which no ControllerRevision is left"
    if group.unrecorded_templates is None:
        return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=note)
    if not group.is_revision_shown:
        # The label may have been edited, and an edited label never causes the deletion of a pod.
        note = f"{note}, and nothing else shows its revision: delete pod {leader} to recreate its group"
        warning = group_event(group, "MissingRevision", "Wait", note, "Warning")
        return Plan(announce=(warning,), again_after=timing.RECHECK_SECONDS, waiting_for=note)
    note = f"{note}, nor a StatefulSet: group {group_id(group.leader)} is recreated from the current revision"
    announce = (group_event(group, "MissingRevision", "Delete", note, "Warning"),)
    return _recreate(group, "nothing shows the revision of its workers", MISSING_REVISION, announce)


def _failed_create(group: GroupSnapshot, note: str) -> Announce:
    return group_event(group, "FailedCreate", "Create", note, "Warning")


def plan_delay(group: GroupSnapshot, placement: Placement) -> Plan | None:
    """Return the first reason not to create the workers yet; None if there is none."""
    if has_gate(group.leader, GROUP_REPLACEMENT_GATE):
        # Of a Hash group the pass over the set knows why: previous groups, a limit of restarts, or a wave.
        return Plan(waiting_for="the scheduling gate of the leader to be removed")
    # The leader of a Hash group does not become Ready before its workers are ready.
    is_up = are_containers_ready if is_of_hash_group(group.leader) else is_ready
    if group.spec.startup_policy == StartupPolicy.LEADER_READY and not is_up(group.leader):
        return Plan(waiting_for="the leader pod to be ready (startupPolicy LeaderReady)")
    if group.drops_start_ordinal:
        return Plan(
            again_after=timing.RECHECK_SECONDS,
            waiting_for="an API server that keeps spec.ordinals.start of StatefulSets",
        )
    if placement.waiting_for:
        return _wait_for_node(group, placement)
    return _wait_for_former_workers(group)


def plan_scheduling_retry(group: GroupSnapshot, topology: str) -> Plan:
    """Make the scheduler retry a leader, once, when no pod of the previous group is left.

    A leader has affinity to the pods of its group, so previous workers tie it to their topology domain, which
    may have no room for it. When these workers are gone, the scheduler does not retry the leader for minutes:
    for an affinity to pods, only new pods or changed labels of the leader trigger a retry.
    topology: the topology label of the group; empty for none.
    """
    # Hash groups need no retry: no previous worker has the key of a new Hash group.
    is_tied = topology and group.size != 1 and not is_of_hash_group(group.leader)
    has_workers = group.worker_statefulset is not None or group.former_workers or group.terminating_pods
    if not is_tied or has_workers or FORMER_GROUP_GONE_LABEL in labels_of(group.leader):
        return Plan()
    wait = wait_for_node(group.leader)
    if wait is None or wait.until is not None or wait.gate:
        return Plan()
    patch = {"metadata": {"labels": {FORMER_GROUP_GONE_LABEL: "true"}}}
    why = "no pod of the previous group is left: the scheduler retries the leader"
    return Plan(sequences=((Merge(Reference.to(group.leader), patch, why=why),),))


def plan_group_ready(group: GroupSnapshot, size: int) -> Plan:
    """Report in a condition of a Hash leader whether its workers are ready. The condition is a readiness gate
    of the leader, so that the Deployment counts groups.
    """
    if size == 1 or not is_of_hash_group(group.leader):
        return Plan()
    are_ready = group.own_workers is not None and is_settled(group.own_workers)
    if are_ready == is_true((group.leader.get("status") or {}).get("conditions"), GROUP_READY_CONDITION):
        return Plan()
    condition = {
        "type": GROUP_READY_CONDITION,
        "status": str(are_ready),
        "reason": f"WorkerStatefulSet{'Ready' if are_ready else 'NotReady'}",
        "message": "",
        "lastTransitionTime": timestamp(group.now),
    }
    merge = Merge(
        Reference.to(group.leader),
        {"status": {"conditions": [condition]}},
        why="its workers are ready" if are_ready else "its workers are not ready",
        subresource="status",
        is_strategic=True,
    )
    return Plan(((merge,),))


def _wait_for_node(group: GroupSnapshot, placement: Placement) -> Plan:
    """Wait for the node of the leader. Scheduling the leader triggers another pass. Nodes are not watched, so
    a scheduled leader is rechecked.
    """
    return Plan(
        announce=(_failed_create(group, placement.waiting_for),) if placement.is_stuck else (),
        again_after=timing.RECHECK_SECONDS if node_of(group.leader) else None,
        waiting_for=placement.waiting_for,
    )


def _wait_for_former_workers(group: GroupSnapshot) -> Plan | None:
    """Wait for pods of the previous workers, for a limited time. If a leader is deleted in the background,
    the garbage collector deletes the pods of its workers last. A StatefulSet whose pod names they block
    doubles its backoff with each attempt.
    """
    longest = timedelta()
    created = moment_of(group.leader["metadata"].get("creationTimestamp"))
    if created is not None and elapsed(created, group.now) > timing.COLLECTED_WITHIN:
        created = None
    for pod in group.former_workers:
        since, patience = created, timing.COLLECTED_WITHIN
        if is_terminating(pod):
            since, patience = end_of_grace(pod), timing.ENDED_WITHIN
        if since is not None:
            longest = max(longest, since + patience - group.now)
    if not longest:
        return None
    waiting_for = "the pods of the former workers to be gone"
    return Plan(again_after=longest.total_seconds(), waiting_for=waiting_for)


def plan_node_loss(group: GroupSnapshot) -> Plan:
    """Force-delete stuck pods if the policy requests it. The pass over the set reports that they are stuck.
    Pods whose node does not exist or is out of service are left to Kubernetes, which deletes them itself.
    """
    policy, uid, stuck = group.policies.node_loss, uid_of(group.leader), group.node_losses.stuck_pods()
    lost = sorted({f"node {stuck_pod.loss.node}, which {stuck_pod.loss.why}" for stuck_pod in stuck})
    return Plan(
        sequences=tuple((force_delete(group.lws, pod, uid),) for pod in stuck if is_forced(pod, policy)),
        again_after=group.node_losses.recheck_after(),
        waiting_for=f"pods on {'; '.join(lost)}" if lost else "",
        stuck_pods=len(stuck),
    )


_REPAIRED_WORKER_LABELS = (NAME_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL)


def plan_label_repairs(edited: Iterable[EditedPod]) -> Plan:
    """Repair edited labels and annotations. Each repair costs one write and restarts no pod."""
    merges = []
    for pod in edited:
        marks = {"labels": pod.marks.labels, "annotations": pod.marks.annotations}
        names = sorted(name.rpartition("/")[2] for part in marks.values() for name in part)
        patch = {"metadata": {field: dict(part) for field, part in marks.items() if part}}
        why = f"its labels or annotations differ from the desired ones: {', '.join(names)}"
        merges.append((Merge(Reference.to(pod.pod), patch, why=why),))
    return Plan(sequences=tuple(merges))


def plan_existing_workers(existing: Object, intent: Object) -> Plan:
    """Repair replicas, first ordinal and labels of workers; a repaired template would restart pods. Workers
    that were adopted from a previous leader may have another revision, and therefore another number of pods.
    A missing first ordinal is not repaired: the API server dropped it and would drop it again.
    """
    desired_labels = intent["spec"]["template"]["metadata"]["labels"]
    key = key_of_template(existing) or desired_labels[REVISION_LABEL]
    replicas, desired = existing["spec"].get("replicas", 1), intent["spec"]["replicas"]
    spec: dict[str, Any] = {}
    reasons = []
    if replicas != desired and key == desired_labels[REVISION_LABEL]:
        spec["replicas"] = desired
        reasons.append(f"workers were scaled to {replicas} by hand, the group has {desired}")
    ordinals = intent["spec"]["ordinals"]
    start = (existing["spec"].get("ordinals") or ordinals).get("start")
    if start != ordinals["start"]:
        spec["ordinals"] = ordinals
        reasons.append(f"the first ordinal was set to {start} by hand")
    identity = {label: desired_labels[label] for label in _REPAIRED_WORKER_LABELS} | {REVISION_LABEL: key}
    patches = {
        "; ".join(reasons): {"spec": spec} if spec else {},
        **label_patches(existing, identity),
    }
    return repair(
        existing, {why: without_tool_keys(existing, patch) for why, patch in patches.items() if patch}
    )
