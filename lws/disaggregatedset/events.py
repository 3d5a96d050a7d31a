"""Build the Events of a DisaggregatedSet: upstream's, word for word, and Events about problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lws.disaggregatedset.revisions.record import RecordedRoles
from lws.disaggregatedset.snapshot import ChildFacts
from lws.runtime.actions import Announce, Fold, Object, Problem, Reference


def rollout_started(obj: Object, key: str) -> Announce:
    """The first child of a revision is about to be created while others of another revision exist."""
    note = f"Started rolling update to revision {key}"
    return replace(_event(obj, "RollingUpdateStarted", "Update", note), ends=True)


def rollout_completed(obj: Object, key: str) -> Announce:
    """All slices are on the revision, and no child of another one exists."""
    note = f"Completed rolling update to revision {key}"
    return replace(_event(obj, "RollingUpdateCompleted", "Update", note), ends=True)


def scaled(obj: Object, child: ChildFacts, replicas: int) -> Announce:
    """A step of a rollout changes the number of groups of a child. Changes of roles in one step, or in steps
    shortly after one another, share an Event.
    """
    together = "Scaling up {}" if replicas > child.desired else "Scaling down {}"
    member, owner = f"{child.role} LWS {child.name}", Reference.to(obj)
    note = together.format(f"{member} from {child.desired} to {replicas} replicas")
    fold = Fold(together, member, owner, (child.desired, replicas), waits=True)
    if replicas > child.desired:
        event = _event(obj, "ScalingUp", "Update", note, Reference.to(child.obj))
    else:
        event = _event(obj, "ScalingDown", "Update", note, Reference.to(child.obj))
    return replace(event, fold=fold)


def deleted_drained(obj: Object, child: ChildFacts) -> Announce:
    """A child of an old revision has no more groups."""
    return _deleted(obj, child, "Deleted drained LWS {}")


def deleted_with_slice(obj: Object, child: ChildFacts) -> Announce:
    """A child of a slice that was removed."""
    return _deleted(obj, child, f"Deleted LWS {{}} for removed slice {child.slice_index}")


def deleted_legacy(obj: Object, child: ChildFacts) -> Announce:
    """A child of the first slice, named before slices existed."""
    note = f"Deleted legacy slice-0 LWS {child.name} to recreate it in slice-aware form"
    return _event(obj, "LWSDeleted", "Migrate", note, Reference.to(child.obj))


def failed_create(obj: Object, what: str) -> Announce:
    """The create of an object was rejected. what: its kind and name."""
    return _warning(obj, "FailedCreate", "Create", f"Failed to create {what}")


def broken_revisions(obj: Object, revisions: Iterable[RecordedRoles]) -> tuple[Announce, ...]:
    """Unusable revisions, each reported once."""
    return tuple(
        replace(_warning(obj, "BrokenRevision", "Read", revision.broken, revision.reference), once=True)
        for revision in revisions
        if revision.broken
    )


def problems(obj: Object, current: Iterable[Problem]) -> tuple[Announce, ...]:
    """Problems that keep the set from creating its groups; one Event for each new message."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    known = "; ".join(
        str(condition.get("message", ""))
        for condition in conditions
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
    )
    return tuple(
        _warning(obj, problem.reason, problem.action, problem.message)
        for problem in current
        if not problem.is_reported and problem.message not in known
    )


def stalled(obj: Object, message: str) -> Announce:
    """No progress within the deadline of the set."""
    return _warning(obj, "Stalled", "Update", message)


def _deleted(obj: Object, child: ChildFacts, template: str) -> Announce:
    """template: the text for one or many, with their names at {}."""
    fold = Fold(template, child.name, Reference.to(obj), waits=True)
    note = template.format(child.name)
    return replace(_event(obj, "LWSDeleted", "Delete", note, Reference.to(child.obj)), fold=fold)


def _event(obj: Object, reason: str, action: str, note: str, related: Reference | None = None) -> Announce:
    return Announce(Reference.to(obj), reason, action, note, "Normal", related)


def _warning(obj: Object, reason: str, action: str, note: str, related: Reference | None = None) -> Announce:
    return replace(_event(obj, reason, action, note, related), type="Warning")
