"""Apply plans of a set as an API server would, and return the snapshot of the next pass."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from lws.kube.metadata import name_of, uid_of
from lws.kube.ownership import owners_with
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import why_left_alone
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.history import Recorded
from lws.leaderworkerset.revisions.reading import parse
from lws.leaderworkerset.scheduling import NO_SCHEDULER
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.runtime.actions import Action, Apply, Create, Delete, Merge, Plan, SetOwner
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit import api_server
from test.unit.builders import NOW, make_group, statefulset_revision


def actions_of(planned: Plan) -> list[Action]:
    """Return every write except the status, sequence by sequence."""
    return [action for sequence in planned.sequences for action in sequence]


Snapshot = TypeVar("Snapshot", SetSnapshot, GroupSnapshot)


def judged(snapshot: Snapshot, is_covered: bool = True, fault: str = "") -> Snapshot:
    """Return the snapshot with the reason to leave its set alone, if any. There is no scheduler."""
    problem = why_left_alone(snapshot.lws, is_covered, NO_SCHEDULER, fault)
    return replace(snapshot, left_alone=problem)


def settled(lws: dict[str, Any], **changes: Any) -> SetSnapshot:
    """Return a settled set: our plans created its objects, all groups are ready, its status is written."""
    snapshot = SetSnapshot(lws=copy.deepcopy(lws), now=NOW)
    snapshot = carried_out(snapshot, plan(snapshot))
    snapshot = with_groups(snapshot)
    snapshot = carried_out(snapshot, plan(snapshot))
    return replace(snapshot, **changes)


def with_groups(snapshot: SetSnapshot) -> SetSnapshot:
    """Return the snapshot after the StatefulSet controller created every leader and all pods became ready."""
    assert snapshot.leaders is not None
    key = snapshot.leaders["metadata"]["labels"][REVISION_LABEL]
    count = snapshot.leaders["spec"]["replicas"]
    groups = tuple(make_group(dict(snapshot.lws), index, key=key) for index in range(count))
    return with_reported(replace(snapshot, groups=groups, live_keys=frozenset({key})))


def with_reported(snapshot: SetSnapshot) -> SetSnapshot:
    """Return the snapshot after the StatefulSet controller observed the leader StatefulSet."""
    assert snapshot.leaders is not None
    leaders = copy.deepcopy(dict(snapshot.leaders))
    metadata, replicas = leaders["metadata"], leaders["spec"]["replicas"]
    revision = statefulset_revision(metadata["name"], metadata["labels"][REVISION_LABEL])
    counts = {field: replicas for field in ("replicas", "readyReplicas", "availableReplicas")}
    revisions = {"currentRevision": revision, "updateRevision": revision}
    leaders["status"] = {"observedGeneration": metadata["generation"], **counts, **revisions}
    return replace(snapshot, leaders=leaders)


def with_spec(snapshot: SetSnapshot, lws: dict[str, Any]) -> SetSnapshot:
    """Return the snapshot after a user wrote the spec, labels and annotations of `lws`."""
    changed = {**copy.deepcopy(lws), "status": snapshot.lws.get("status", {})}
    changed["metadata"]["generation"] = snapshot.lws["metadata"]["generation"] + 1
    return replace(snapshot, lws=changed)


def carried_out(snapshot: SetSnapshot, planned: Plan) -> SetSnapshot:
    """Return the snapshot of the next pass if every write of the plan succeeds."""
    for action in actions_of(planned):
        snapshot = _after(snapshot, action)
    for status in planned.statuses:
        snapshot = replace(snapshot, lws=_with_status(dict(snapshot.lws), status.patch))
    return snapshot


def _after(snapshot: SetSnapshot, action: Action) -> SetSnapshot:
    match action:
        case Create():
            created = api_server.stored(dict(action.intent))
            if created["kind"] == "ControllerRevision":
                return replace(snapshot, revisions=(*snapshot.revisions, parse(created)))
            if created["kind"] == "Job":
                assert snapshot.prewarm is not None
                jobs = (*snapshot.prewarm.jobs, created)
                return replace(snapshot, prewarm=replace(snapshot.prewarm, jobs=jobs))
            return replace(snapshot, **{_field(snapshot, created["kind"], name_of(created)): created})
        case Apply():
            return replace(snapshot, leaders=_applied(snapshot.leaders, dict(action.intent)))
        case Delete():
            groups = tuple(_without(group, action.target.uid) for group in snapshot.groups)
            revisions = tuple(
                revision for revision in snapshot.revisions if revision.uid != action.target.uid
            )
            if action.target.kind == "PodDisruptionBudget":
                return replace(snapshot, pod_disruption_budget=None)
            if action.target.kind == "Job":
                assert snapshot.prewarm is not None
                jobs = tuple(job for job in snapshot.prewarm.jobs if uid_of(job) != action.target.uid)
                return replace(snapshot, prewarm=replace(snapshot.prewarm, jobs=jobs))
            return replace(snapshot, groups=groups, revisions=revisions)
        case Merge():
            return _merged(snapshot, action)
        case SetOwner():
            return _owned(snapshot, action)


def _field(snapshot: SetSnapshot, kind: str, name: str) -> str:
    """Return the field of the snapshot for a child of this kind and name."""
    if kind == "Service" and name != name_of(snapshot.lws):
        return "leader_service"
    fields = {"StatefulSet": "leaders", "Service": "service", "PodDisruptionBudget": "pod_disruption_budget"}
    return fields[kind]


def _applied(stored: Any, intent: dict[str, Any]) -> dict[str, Any]:
    if stored is None:
        return api_server.applied(intent)
    applied = api_server.applied(intent, stored["metadata"]["uid"])
    has_changed = applied["spec"] != stored["spec"]
    applied["metadata"]["generation"] = stored["metadata"]["generation"] + has_changed
    return {**applied, "status": stored.get("status", {})}


def _merged(snapshot: SetSnapshot, action: Merge) -> SetSnapshot:
    if action.target.kind == "ControllerRevision":
        revisions = [_patched(revision, action) for revision in snapshot.revisions]
        return replace(snapshot, revisions=tuple(revisions))
    if action.subresource == "status":
        return replace(snapshot, lws=_with_status(dict(snapshot.lws), action.patch["status"]))
    field = _field(snapshot, action.target.kind, action.target.name)
    obj = copy.deepcopy(getattr(snapshot, field))
    assert obj["metadata"]["uid"] == action.target.uid
    obj["metadata"] = _patched_json(obj["metadata"], action.patch.get("metadata", {}))
    obj["spec"] = _patched_json(obj["spec"], action.patch.get("spec", {}))
    return replace(snapshot, **{field: obj})


def _owned(snapshot: SetSnapshot, action: SetOwner) -> SetSnapshot:
    if action.target.kind == "ControllerRevision":
        return replace(
            snapshot, revisions=tuple(_patched(revision, action) for revision in snapshot.revisions)
        )
    obj = getattr(snapshot, _field(snapshot, action.target.kind, action.target.name))
    owners = {"metadata": {"ownerReferences": owners_with(obj, action.owner)}}
    return _merged(snapshot, Merge(action.target, owners, action.why))


def _patched(recorded: Recorded, action: Merge | SetOwner) -> Recorded:
    if recorded.uid != action.target.uid:
        return recorded
    number = action.patch.get("revision", recorded.number)
    return replace(recorded, number=number, is_orphan=recorded.is_orphan and isinstance(action, Merge))


def _without(group: GroupFacts, uid: str) -> GroupFacts:
    """Return the group with its leader or worker StatefulSet, whichever has the UID, terminating."""
    for part in ("leader", "worker_statefulset"):
        obj = getattr(group, part)
        if obj is not None and obj["metadata"]["uid"] == uid:
            metadata = {**obj["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}
            return replace(group, **{part: {**obj, "metadata": metadata}})
    return group


def _with_status(lws: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    return {**lws, "status": _patched_json(lws.get("status", {}), patch)}


def _patched_json(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `before` after a JSON merge patch (RFC 7386)."""
    merged = dict(before)
    for field, value in patch.items():
        current = merged.get(field)
        if isinstance(value, Mapping):
            merged[field] = _patched_json(current if isinstance(current, Mapping) else {}, value)
        else:
            merged[field] = value
    return {field: value for field, value in merged.items() if value is not None}
