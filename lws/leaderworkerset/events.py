"""Build the Events of a set: upstream's, word for word, and those that report problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lws.history.revision import Revision
from lws.kube.statefulsets import desired_replicas, partition_of
from lws.leaderworkerset.pod_identity import group_id
from lws.leaderworkerset.rollout.scale_down import RankedGroup
from lws.leaderworkerset.rollout.state import Rollout
from lws.leaderworkerset.spec import leaders_kind
from lws.leaderworkerset.templates.claims import risk_of_claims
from lws.runtime.actions import Announce, Fold, Object, Problem, Reference

# The note of an Event holds 1 KiB, and each name up to 63 characters.
_MOST_NAMED = 5
_LEADERS = {"StatefulSet": "leader statefulset", "Deployment": "leader deployment"}


def creating_revision(lws: Object, revision: Reference, key: str, occasion: str) -> Announce:
    """Return the Event about a new ControllerRevision. occasion: its purpose, which ends the sentence."""
    missing = "missing " if occasion.startswith("existing") else ""
    note = f"Creating {missing}revision with key {key} for {occasion}"
    return _event(lws, "CreatingRevision", "Create", note, revision)


def guessed_revision(lws: Object, revision: Reference, key: str, guessed: str) -> Announce:
    """Return the Event about a revision rebuilt from running pods of which some fields are unreadable."""
    note = (
        f"No StatefulSet is left that shows {guessed} under key {key}: its current value in the set was "
        f"used, and groups with this key that are recreated get it"
    )
    return _warning(lws, "RevisionIncomplete", "Create", note, revision)


def edited_revision(lws: Object, revision: Reference, fields: Iterable[str]) -> Announce:
    """Return the Event about a revision whose labels and annotations in `fields` were edited."""
    note = (
        f"ControllerRevision {revision.name} was edited: {', '.join(sorted(fields))}. The recorded "
        f"content stays in effect, and the edit is reverted"
    )
    return _warning(lws, "RevisionEdited", "Update", note, revision)


def created_leaders(lws: Object, revision: Reference | None) -> tuple[Announce, ...]:
    """Return the Event that the leader StatefulSet or Deployment was created."""
    note = f"Created {_LEADERS[leaders_kind(lws)]} {lws['metadata']['name']}"
    return (_event(lws, "GroupsProgressing", "Create", note, revision),)


def moved_leaders(
    lws: Object, stored: Object, rollout: Rollout, revision: Reference, is_begun: bool
) -> tuple[Announce, ...]:
    """Return the Events for a lower partition and for the removal of surge groups. is_begun: whether the
    StatefulSet already has the template. If not, no group has moved so far, and surplus groups never will.
    """
    announcements = []
    partition, replicas = rollout.partition, rollout.replicas
    before = partition_of(stored) if is_begun else min(replicas, desired_replicas(stored))
    if partition < before:
        note = f"Updating replicas {partition} to {before - 1} (inclusive)"
        if partition + 1 == before:
            note = f"Updating replica {partition}"
        announcements.append(_event(lws, "GroupsUpdating", "Update", note, revision))
    existing, name = desired_replicas(stored), lws["metadata"]["name"]
    if replicas < existing:
        note = f"deleting surge replicas from {name}-{replicas} to {name}-{existing - 1}"
        if replicas + 1 == existing:
            note = f"deleting surge replica {name}-{replicas}"
        announcements.append(_event(lws, "GroupsProgressing", "Delete", note))
    return tuple(announcements)


def failed_leaders(lws: Object, verb: str) -> Announce:
    """Return the Event for a rejected leader StatefulSet or Deployment. verb: create or update."""
    note = f"Failed to {verb} {_LEADERS[leaders_kind(lws)]} {lws['metadata']['name']}"
    reason = "FailedCreate" if verb == "create" else "FailedUpdate"
    return _warning(lws, reason, verb.capitalize(), note)


def failed_create(lws: Object, child: str) -> Announce:
    """Return the Event for a rejected child. child: kind and name, in upstream's words if it has them."""
    return _warning(lws, "FailedCreate", "Create", f"Failed to create {child}")


def left_behind(
    lws: Object, replicas: int, existing: int, leftovers: Mapping[int, str]
) -> tuple[Announce, ...]:
    """Return the Event that a scale-down deletes ready groups and keeps groups that are not ready. leftovers:
    the groups that are kept, by index, each with a few words about it.
    """
    if not leftovers:
        return ()
    name = lws["metadata"]["name"]
    removed = (
        f"{name}-{replicas}" if replicas + 1 == existing else f"{name}-{replicas} to {name}-{existing - 1}"
    )
    staying = [f"{name}-{index} ({why})" for index, why in leftovers.items()]
    more = f" and {len(staying) - _MOST_NAMED} more" if len(staying) > _MOST_NAMED else ""
    note = (
        f"Scaling down removes {removed}, because StatefulSets remove the highest index first, ready or not; "
        f"{', '.join(staying[:_MOST_NAMED])}{more} are kept. Delete a leader pod to recreate its group, "
        f"perhaps elsewhere"
    )
    return (_warning(lws, "UnreadyGroupsStay", "Delete", note),)


def deleted_first(lws: Object, candidate: RankedGroup) -> Announce:
    """Return the Event that a Deployment will delete this group before others whose leaders are as good."""
    group, why = group_id(candidate.leader), candidate.rank.why
    note = f"Group {group} {why}: deleted before better groups"
    event = _event(lws, "GroupDeletedFirst", "Delete", note, Reference.to(candidate.leader))
    fold = Fold(f"Groups {{}} are deleted before better ones: each {why}", group, event.regarding)
    return replace(event, fold=fold)


def claims_at_risk(lws: Object, statefulsets: Sequence[str]) -> Announce:
    """Return the Event that workers of an adopted set lose their PVCs whenever their group is recreated."""
    return _warning(lws, "ClaimsGoWithGroups", "Update", risk_of_claims(statefulsets))


def broken_revisions(obj: Object, revisions: Iterable[Revision[Any]]) -> tuple[Announce, ...]:
    """Return one Event for each revision from which nothing can be created."""
    return tuple(
        replace(_warning(obj, "BrokenRevision", "Read", revision.broken, revision.reference), once=True)
        for revision in revisions
        if revision.broken
    )


def problems(lws: Object, current: Iterable[Problem]) -> tuple[Announce, ...]:
    """Return one Event for each new message about a problem that keeps the set from creating its groups."""
    conditions = (lws.get("status") or {}).get("conditions") or ()
    reported = "; ".join(
        str(condition.get("message", ""))
        for condition in conditions
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
    )
    return tuple(
        _warning(lws, problem.reason, problem.action, problem.message)
        for problem in current
        if not problem.is_reported and problem.message not in reported
    )


def _event(lws: Object, reason: str, action: str, note: str, related: Reference | None = None) -> Announce:
    return Announce(Reference.to(lws), reason, action, note, "Normal", related)


def _warning(lws: Object, reason: str, action: str, note: str, related: Reference | None = None) -> Announce:
    return Announce(Reference.to(lws), reason, action, note, "Warning", related)
