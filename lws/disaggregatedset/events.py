"""Build the Events of a DisaggregatedSet, with upstream's reasons and texts."""

from __future__ import annotations

from dataclasses import replace

from lws.disaggregatedset.snapshot import ChildFacts
from lws.runtime.actions import Announce, Fold, Object, Reference


def rollout_started(obj: Object, key: str) -> Announce:
    """Announce that a revision's first child is about to be created while other revisions have children."""
    note = f"Started rolling update to revision {key}"
    return replace(_event(obj, "RollingUpdateStarted", "Update", note), ends=True)


def rollout_completed(obj: Object, key: str) -> Announce:
    """Announce that all slices are on the revision and no child of another revision exists."""
    note = f"Completed rolling update to revision {key}"
    return replace(_event(obj, "RollingUpdateCompleted", "Update", note), ends=True)


def scaled(obj: Object, child: ChildFacts, replicas: int) -> Announce:
    """Announce that a step of a rollout changes the number of groups of a child.

    Changes of several roles in one step, or in steps shortly after one another, share an Event.
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
    return _deleted(obj, child, "Deleted drained LWS {}")


def deleted_with_slice(obj: Object, child: ChildFacts) -> Announce:
    return _deleted(obj, child, f"Deleted LWS {{}} for removed slice {child.slice_index}")


def deleted_legacy(obj: Object, child: ChildFacts) -> Announce:
    """Announce the deletion of a child of the first slice that was named before slices existed."""
    note = f"Deleted legacy slice-0 LWS {child.name} to recreate it in slice-aware form"
    return _event(obj, "LWSDeleted", "Migrate", note, Reference.to(child.obj))


def _deleted(obj: Object, child: ChildFacts, template: str) -> Announce:
    """Announce the deletion of a child; `{}` in `template` stands for the names of the children."""
    fold = Fold(template, child.name, Reference.to(obj), waits=True)
    note = template.format(child.name)
    return replace(_event(obj, "LWSDeleted", "Delete", note, Reference.to(child.obj)), fold=fold)


def _event(obj: Object, reason: str, action: str, note: str, related: Reference | None = None) -> Announce:
    return Announce(Reference.to(obj), reason, action, note, "Normal", related)
