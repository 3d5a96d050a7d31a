"""Check every promise of a pass by its objects alone, before anything is written.

Nothing here calls the product's own decisions.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from lws.kube.metadata import controller_of, is_terminating
from lws.kube.nodes import node_of
from lws.kube.pods import gate_of
from lws.leaderworkerset.assessment.prewarm import has_ended
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.restart_counts import is_exhausted
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.runtime.actions import Action, Apply, Create, Delete, Plan
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REPLICAS_ANNOTATION, REVISION_LABEL

SIZES = {"A": 1, "B": 1, "C": 2, "D": 1, "E": 3, "F": 1, "other": 1}
"""Pods per group of each revision. A revision is named by the image of its containers. The last is that of
another role of a DisaggregatedSet.
"""
REVISIONS = tuple(SIZES)[:-1]

Images = Mapping[str, str]
"""The revision by UID of a leader pod: the store keeps no containers."""


def check_set_pass(snapshot: SetSnapshot, plan: Plan, images: Images) -> None:
    """Check ceiling and floor, and that a healthy group is replaced only by another revision."""
    apply = next((action for action in _actions(plan) if isinstance(action, Apply)), None)
    deleted = [
        action for action in _actions(plan) if isinstance(action, Delete) and action.target.kind == "Pod"
    ]
    waiting = {pod["metadata"]["uid"] for pod in snapshot.returning_pods if not node_of(pod)}
    # Pods that wait for a node that takes no pod.
    released = [delete for delete in deleted if delete.version and delete.target.uid in waiting]
    deleted = [delete for delete in deleted if delete not in released]
    groups = {group.leader["metadata"]["uid"]: group for group in snapshot.groups}
    target = revision_of(snapshot.lws["spec"]["leaderWorkerTemplate"]["workerTemplate"])
    replaced = {groups[delete.target.uid].index for delete in deleted}
    for delete in deleted:
        assert images[delete.target.uid] != target, f"{delete.target} is replaced without a reason"

    def outdated(group: GroupFacts) -> bool:
        return images[group.leader["metadata"]["uid"]] != target

    spec = snapshot.lws["spec"]
    unavailable, surge = limits(spec)
    if snapshot.leaders is None:
        # A lost StatefulSet is recreated in the middle of a rollout, and with its surge.
        most = spec["replicas"] + (surge if snapshot.lws.get("status") else 0)
        assert apply is None or apply.intent["spec"]["replicas"] <= most, "surge on creation"
        return
    stored, partition = _position(snapshot.leaders)
    replicas, lowered = (stored, partition) if apply is None else _position(apply.intent)
    assert replicas <= max(spec["replicas"] + surge, stored), f"{replicas} groups are more than the ceiling"
    reported = snapshot.leaders.get("status", {}).get("observedGeneration")
    is_observed = reported == snapshot.leaders["metadata"]["generation"]
    assert is_observed or not deleted, "deleted before the StatefulSet controller has reported"
    is_current = revision_of(snapshot.leaders["spec"]["template"]) == target
    early = {index for index in replaced if index < partition or not is_current}
    assert not early, f"{early} are deleted, and could be recreated unchanged"
    removed = replaced | set(range(replicas, stored))
    if spec["rolloutStrategy"].get("paused"):
        assert not replaced, "a paused rollout replaces groups"
        covered = range(lowered, min(partition, replicas))
        moved = [group.index for group in snapshot.groups if group.index in covered and outdated(group)]
        assert not is_current or not moved, f"a paused rollout continues with {moved}"
    elif is_prewarming(snapshot, plan):
        assert not replaced, "a rollout that waits for nodes replaces groups"
        covered = range(lowered, min(partition, replicas))
        moved = [group.index for group in snapshot.groups if group.index in covered and outdated(group)]
        assert not is_current or not moved, f"a rollout that waits for nodes continues with {moved}"
    elif is_current and is_observed and not spec.get("startStrategy"):
        broken = {group.index for group in snapshot.groups if outdated(group) and is_down(group, images)}
        unreplaced = {index for index in broken - replaced if max(partition, lowered) <= index < replicas}
        assert not unreplaced, f"groups {unreplaced} are broken and not replaced"
        # A step of its own reacts to the change of replicas.
        recorded = (snapshot.leaders["metadata"].get("annotations") or {}).get(REPLICAS_ANNOTATION)
        if stored == replicas == spec["replicas"] and recorded == str(stored):
            serving = {group.index: outdated(group) for group in snapshot.groups if is_ready(group, images)}
            check_broken(broken, serving, spec, partition, lowered)
    stored_revision = revision_of((snapshot.leaders if apply is None else apply.intent)["spec"]["template"])
    if lowered < partition or stored_revision != revision_of(snapshot.leaders["spec"]["template"]):
        # The StatefulSet controller may take any group that is not on its current template.
        covered_now = [group for group in snapshot.groups if group.index >= lowered]
        removed |= {
            group.index for group in covered_now if images[group.leader["metadata"]["uid"]] != stored_revision
        }
    # Groups that the user scales away are not missed, as long as they are no surge.
    recorded = snapshot.leaders["metadata"].get("annotations", {}).get(REPLICAS_ANNOTATION)
    counted = replicas if recorded == str(stored) and stored > spec["replicas"] else stored
    ready = {group.index for group in snapshot.groups if group.index < counted and is_ready(group, images)}
    remaining, must_stay = len(ready - removed), spec["replicas"] - unavailable
    if not ready & removed or remaining >= must_stay:
        return
    message = f"{remaining} groups stay ready of {len(ready)}, {must_stay} must; {removed} go"
    assert remaining == len(ready) - 1 < must_stay, message
    # If broken old groups alone use up the budget, one healthy group may go after all.
    present = [group for group in snapshot.groups if group.index < stored]
    broken = {
        group.index
        for group in present
        # A group without restarts left stays as it is until its user wants another one.
        if outdated(group) and (not is_terminating(group.leader) or is_exhausted(group.leader))
    }
    assert broken - ready and ready | broken == set(range(stored)), f"{message}; {broken - ready} are broken"


def check_broken(
    broken: set[int], serving: Mapping[int, bool], spec: Any, partition: int, lowered: int
) -> None:
    """Replacing a broken group costs nothing: those above every healthy one are reached first. But while a
    group that has moved is not ready, no more than the budget move: the new revision may be what is broken,
    and they may only have lost a node.

    broken: outdated groups. serving: ready groups, and whether each is outdated. lowered: new partition.
    """
    unproved = sum(serving.get(index, True) for index in range(partition, spec["replicas"]))
    most = max(0, limits(spec)[0] - unproved) if unproved else spec["replicas"]
    moved = {index for index in broken if lowered <= index < partition}
    assert len(moved) <= most, f"groups {moved} are broken, and move before others are ready"
    healthy = max((index for index, is_outdated in serving.items() if is_outdated), default=-1)
    first = sorted((index for index in broken if healthy < index < partition), reverse=True)[:most]
    floor = spec["rolloutStrategy"].get("rollingUpdateConfiguration", {}).get("partition", 0)
    assert not first or lowered <= max(floor, first[-1]), f"groups {first} are broken, and not the first"


def is_prewarming(snapshot: SetSnapshot, plan: Plan) -> bool:
    """Return whether a Job for a node is created or running, and the pass does not end the prewarming."""
    if any((status.patch.get("prewarm") or {}).get("completionTime") for status in plan.statuses):
        return False
    created = [
        action for action in _actions(plan) if isinstance(action, Create) and action.intent["kind"] == "Job"
    ]
    deleted = {action.target.uid for action in _actions(plan) if isinstance(action, Delete)}
    jobs = snapshot.prewarm.jobs if snapshot.prewarm is not None else ()
    running = [job for job in jobs if job["metadata"]["uid"] not in deleted and not has_ended(job)]
    return bool(created or running)


def check_group_pass(snapshot: GroupSnapshot, plan: Plan, images: Images, incidents: Container[str]) -> None:
    """Check that no group is restarted without an incident, and that workers have the revision of their
    leader.
    """
    for action in _actions(plan):
        if isinstance(action, Delete) and action.target.kind == "Pod":
            assert action.target.uid in incidents, f"{action.target} is restarted without a reason"
        if isinstance(action, Delete) and action.target.kind == "StatefulSet":
            deleted = {action.target.uid for action in _actions(plan) if isinstance(action, Delete)}
            is_going = is_terminating(snapshot.leader) or snapshot.leader["metadata"]["uid"] in deleted
            assert is_going, f"{action.target} is deleted without its leader"
        if isinstance(action, Create) and action.intent["kind"] == "StatefulSet":
            check_workers(action.intent, snapshot.leader, images)


def check_workers(workers: Any, leader: Any, images: Images) -> None:
    """Check that leader and workers have one revision: template, key and size."""
    revision = images[leader["metadata"]["uid"]]
    assert revision_of(workers["spec"]["template"]) == revision, "workers of another revision"
    assert workers["spec"]["replicas"] == SIZES[revision] - 1, "workers of another size"
    keys = {
        obj["metadata"]["labels"].get(REVISION_LABEL)
        for obj in (workers, workers["spec"]["template"], leader)
    }
    assert len(keys) == 1, f"keys {keys} in one group"


def check_meetings(pods: Iterable[Any], made_for: Mapping[str, str]) -> None:
    """Check that no worker meets a leader newer than its own, unless the worker is newer still.

    made_for: by UID of a StatefulSet, the UID of its owner.
    """
    pods = list(pods)
    leaders = {pod["metadata"]["name"]: pod for pod in pods if not gate_of(pod)}
    for pod in pods:
        owner = controller_of(pod) or {"name": "", "uid": ""}
        leader, former = leaders.get(owner["name"]), made_for.get(owner["uid"])
        if leader is None or not former or former == leader["metadata"]["uid"]:
            continue
        name, since = leader["metadata"]["name"], _order(leader)
        assert _order(pod) > since, f"{pod['metadata']['name']} of a former leader meets {name}"


def groups_with_nodes(pods: Iterable[Any]) -> set[tuple[str, str]]:
    """Return set and group of each group that holds a node, or may get one."""
    return {
        (labels[NAME_LABEL], labels[GROUP_INDEX_LABEL])
        for pod in pods
        for labels in (pod["metadata"]["labels"],)
        if not gate_of(pod)
    }


def _order(pod: Any) -> int:
    return int(pod["metadata"]["uid"].rpartition("-")[2])


def limits(spec: Any) -> tuple[int, int]:
    """Return the effective maxUnavailable and maxSurge, in groups."""
    replicas = spec["replicas"]
    rolling = spec["rolloutStrategy"].get("rollingUpdateConfiguration", {})
    unavailable = _scaled(rolling.get("maxUnavailable", 1), replicas, 0)
    surge = min(_scaled(rolling.get("maxSurge", 0), replicas, 99), replicas)
    return (min(unavailable, replicas - 1), surge) if surge else (max(1, unavailable), 0)


def revision_of(podlike: Any) -> str:
    """Return the revision of a pod or a template: its image."""
    image: str = podlike["spec"]["containers"][0]["image"]
    return image


def is_ready(group: GroupFacts, images: Images) -> bool:
    """Return whether leader and workers serve and none of them is terminating."""
    leader, workers = group.leader, group.worker_statefulset
    status = leader["status"]
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
    if is_terminating(leader) or status["phase"] != "Running" or conditions.get("Ready") != "True":
        return False
    if SIZES[images[leader["metadata"]["uid"]]] == 1:
        return True
    if workers is None or (controller_of(workers) or {}).get("uid") != leader["metadata"]["uid"]:
        return False
    worker_status = workers.get("status", {})
    is_observed = worker_status.get("observedGeneration") == workers["metadata"]["generation"]
    return is_observed and worker_status["availableReplicas"] == workers["spec"]["replicas"]


def is_down(group: GroupFacts, images: Images) -> bool:
    """Return whether the group does not serve and its leader is not terminating."""
    return not is_terminating(group.leader) and not is_ready(group, images)


def _position(statefulset: Any) -> tuple[int, int]:
    return statefulset["spec"]["replicas"], statefulset["spec"]["updateStrategy"]["rollingUpdate"][
        "partition"
    ]


def _scaled(limit: int | str, replicas: int, rounding: int) -> int:
    if isinstance(limit, int):
        return limit
    return (int(limit[:-1]) * replicas + rounding) // 100


def _actions(plan: Plan) -> Iterable[Action]:
    return (action for sequence in plan.sequences for action in sequence)
