"""What must be done for one group: restart it, give it its Service and its workers, or wait and say for what.

In: a GroupSnapshot. Out: a Plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from lws import timing
from lws.kube.conditions import moment_of, timestamp
from lws.kube.metadata import (
    annotations_of,
    controller_of,
    is_controlled_by,
    is_terminating,
    labels_of,
    missing_labels,
    name_of,
    without_tools_own,
)
from lws.kube.nodes import StuckPod, end_of_grace, look_again_after, stuck_pods
from lws.kube.ownership import Ownership, may_adopt
from lws.kube.pods import is_ready, wait_for_node
from lws.leaderworkerset.assessment.likeness import (
    ownership_of_pod_group,
    ownership_of_service,
    ownership_of_workers,
)
from lws.leaderworkerset.group.gangs import hand_on
from lws.leaderworkerset.group.labels import Edited, group_index_of
from lws.leaderworkerset.group.objects import build_group_service, build_worker_statefulset
from lws.leaderworkerset.group.placement import Placement, restored_for, topology_of, worker_placement
from lws.leaderworkerset.group.restart import plan_restart
from lws.leaderworkerset.group.snapshot import GroupSnapshot, group_event
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.keys import key_of_template
from lws.leaderworkerset.revisions.recovery import as_recorded, reconstruct
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.status.status import MISSING_REVISION, recreated
from lws.runtime.actions import Announce, Create, Delete, Fold, Merge, Object, Plan, Reference, together
from lws.runtime.children import Child, Owner, plan_child, put_back_service, relabelled, repair
from lws_api.leaderworkerset.v1 import (
    FORMER_GROUP_GONE_LABEL,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    KIND,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    StartupPolicy,
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
    """Reconcile a child of the leader pod. Conflicts become Events, because groups have no conditions."""
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
    return replace(planned, announce=tuple(_failed(group, problem.message) for problem in planned.problems))


def _mistaken_leader(group: GroupSnapshot) -> Plan:
    """Without start ordinals a worker gets index 0 and looks like a leader: never build on it."""
    pod = group.leader["metadata"]
    note = (
        f"leader pod {pod['namespace']}/{pod['name']} contains mistake annotation "
        f"'{LEADER_NAME_ANNOTATION}': {_NEEDS_START_ORDINAL}"
    )
    return Plan(announce=(_failed(group, note),), waiting_for=note)


def _unlabelled_leader(group: GroupSnapshot) -> Plan:
    """Recreate a leader without index and key: only a new pod gets them."""
    pod = group.leader["metadata"]["name"]
    note = (
        f"leader pod {pod} lacks the labels of its group, and its containers may lack their environment: the "
        f"pod webhook of lws was not in place when it was created, or the labels were removed; check the "
        f"webhook configuration, then delete the pod"
    )
    return Plan(announce=(_failed(group, note),), again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=note)


def _rebuilt_revision(group: GroupSnapshot) -> Recorded | None:
    """The revision read from StatefulSets; the pass over the set records it if it can."""
    made = reconstruct(group.lws, group.unrecorded) if group.unrecorded is not None else None
    return as_recorded(group.lws, made) if made is not None else None


def _missing_revision(group: GroupSnapshot) -> Plan:
    """Without any trace of its workers' revision, the group gets that of new leaders."""
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
    """The label may have been edited, and no pod is deleted for that."""
    leader = group.leader["metadata"]["name"]
    said = (
        f"{note}, and nothing else says what it was made from: delete pod {leader} and its group is made anew"
    )
    warning = group_event(group, "MissingRevision", "Wait", said, "Warning")
    return Plan(announce=(warning,), again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=said)


def _failed(group: GroupSnapshot, note: str) -> Announce:
    return group_event(group, "FailedCreate", "Create", note, "Warning")


def plan_delay(group: GroupSnapshot, placement: Placement) -> Plan | None:
    """The first of the reasons not to create the workers yet."""
    if group.spec.startup_policy == StartupPolicy.LEADER_READY and not is_ready(group.leader):
        return Plan(waiting_for="the leader pod to be ready (startupPolicy LeaderReady)")
    if group.drops_start_ordinal:
        return Plan(
            again_after=timing.LOOK_AGAIN_SECONDS,
            waiting_for="an API server that keeps spec.ordinals.start of StatefulSets",
        )
    if placement.waiting_for:
        return _unplaced(group, placement)
    return _names_taken(group)


def plan_second_look(group: GroupSnapshot, topology: str) -> Plan:
    """Have the scheduler look again at a leader, once, when no pod of its former group is left.

    A leader runs beside the pods of its group, so former workers tie it to their place, where there may be no
    room for it. When they go, the scheduler does not look again for minutes: of an affinity to pods it only
    expects more from new ones, or from other labels of the pod itself. topology: of the group, "" for none.
    """
    if not topology or group.size == 1 or FORMER_GROUP_GONE_LABEL in labels_of(group.leader):
        return Plan()
    wait = wait_for_node(group.leader)
    is_turned_away = wait is not None and wait.until is None and not wait.gate
    if not is_turned_away or group.worker_statefulset is not None or group.former_workers or group.leaving:
        return Plan()
    patch = {"metadata": {"labels": {FORMER_GROUP_GONE_LABEL: "true"}}}
    why = "the leader found no node, and no pod of its former group is left: the scheduler looks again"
    return Plan(sequences=((Merge(Reference.to(group.leader), patch, why=why),),))


def _unplaced(group: GroupSnapshot, placement: Placement) -> Plan:
    """A leader that is not scheduled yet wakes us when it is; nodes are not watched."""
    scheduled = bool((group.leader.get("spec") or {}).get("nodeName"))
    warning = group_event(group, "FailedCreate", "Create", placement.waiting_for, "Warning")
    return Plan(
        announce=(warning,) if placement.is_stuck else (),
        again_after=timing.LOOK_AGAIN_SECONDS if scheduled else None,
        waiting_for=placement.waiting_for,
    )


def _names_taken(group: GroupSnapshot) -> Plan | None:
    """Who deletes a leader in the background leaves the pods of its workers to the garbage collector, which
    comes to them last. A StatefulSet that meets them backs off, twice as long each time.

    Not for ever: it can do without those that never go, and each that goes wakes us.
    """
    left = [(_waited_for_until(group, pod) - group.now).total_seconds() for pod in group.former_workers]
    if max(left, default=0.0) <= 0:
        return None
    return Plan(again_after=max(left), waiting_for="the pods of the former workers to be gone")


def _waited_for_until(group: GroupSnapshot, pod: Object) -> datetime:
    """Its grace period is its own, as where groups go in the foreground."""
    since, patience = moment_of(group.leader["metadata"].get("creationTimestamp")), timing.COLLECTED_WITHIN
    if is_terminating(pod):
        since, patience = end_of_grace(pod), timing.ENDED_WITHIN
    return since + patience if since is not None else group.now


def plan_node_loss(group: GroupSnapshot) -> Plan:
    """Force-delete stuck pods if the policy says so. The pass over the set reports that they are stuck.

    What Kubernetes deletes by itself (nodes that are gone or out of service) is only waited for.
    """
    pods, nodes, policy = group.leaving, group.nodes, group.node_loss
    stuck = stuck_pods(pods, nodes, group.now, policy)
    forced = [stuck_pod for stuck_pod in stuck if policy.force_delete and not stuck_pod.loss.is_collected]
    lost = sorted({f"node {stuck_pod.loss.node}, which {stuck_pod.loss.why}" for stuck_pod in stuck})
    return Plan(
        sequences=tuple((_delete(group, each),) for each in forced),
        again_after=look_again_after(pods, nodes, group.now, policy),
        waiting_for=f"pods on {'; '.join(lost)}" if lost else "",
        stuck_pods=len(stuck),
    )


def _delete(group: GroupSnapshot, stuck: StuckPod) -> Delete:
    name, loss = stuck.pod["metadata"]["name"], stuck.loss
    why = f"it has been terminating since {timestamp(stuck.since)} on node {loss.node}, which {loss.why}"
    is_leader = stuck.pod["metadata"]["uid"] == group.leader["metadata"]["uid"]
    event = Announce(
        regarding=Reference.to(group.lws),
        related=Reference.to(stuck.pod),
        reason="NodeLost",
        action="Delete",
        note=f"Deleted pod {name} by force: {why}",
        type="Warning",
    )
    return Delete(
        target=Reference.to(stuck.pod),
        # As ever, the workers of a leader go before it does, wherever they run.
        propagation="Foreground" if is_leader else "Background",
        why=why,
        announce=(event,),
        grace_seconds=0,
    )


_IDENTITY = (NAME_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL)


def put_back(edited: Iterable[Edited]) -> Plan:
    """Restore edited labels and annotations: this costs a write, never a pod."""
    return Plan(sequences=tuple((_restoring(each),) for each in edited))


def _restoring(edited: Edited) -> Merge:
    marks = {"labels": edited.marks.labels, "annotations": edited.marks.annotations}
    names = sorted(name.rpartition("/")[2] for part in marks.values() for name in part)
    patch = {"metadata": {field: dict(part) for field, part in marks.items() if part}}
    return Merge(
        Reference.to(edited.pod), patch, why=f"what tells who the pod is was edited: {', '.join(names)}"
    )


def plan_existing_workers(existing: Object, intent: Object) -> Plan:
    """Number, first index and labels of workers are put back; a new template would roll pods.

    Workers that came from a former leader may be of another revision: that one says how many they are.
    A first index that is not there was dropped by the API server: writing it would not bring it.
    """
    wanted_labels = intent["spec"]["template"]["metadata"]["labels"]
    key = key_of_template(existing) or wanted_labels[REVISION_LABEL]
    found, wanted = existing["spec"].get("replicas", 1), intent["spec"]["replicas"]
    is_scaled = found != wanted and key == wanted_labels[REVISION_LABEL]
    ordinals = intent["spec"]["ordinals"]
    start = (existing["spec"].get("ordinals") or ordinals).get("start")
    is_moved = start != ordinals["start"]
    numbers = {"replicas": wanted} if is_scaled else {}
    numbers |= {"ordinals": ordinals} if is_moved else {}
    labels = missing_labels(existing, {**wanted_labels, REVISION_LABEL: key}, _IDENTITY)
    why_scaled = f"workers were scaled to {found} by hand, the group has {wanted}"
    why_moved = f"the first worker was made that of index {start} by hand"
    why_numbered = "; ".join(why for why, is_so in ((why_scaled, is_scaled), (why_moved, is_moved)) if is_so)
    why_labelled = "labels that tell whose workers they are were edited"
    patches = {
        why_numbered: {"spec": numbers} if numbers else {},
        why_labelled: {"metadata": {"labels": labels}} if labels else {},
    }
    due = {why: without_tools_own(existing, patch) for why, patch in patches.items() if patch}
    return repair(existing, due)
