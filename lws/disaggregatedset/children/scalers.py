"""Plan the DisaggregatedSetRoleScalers of roles with external scaling: creation, first value, status.

Autoscalers write to the scaler of a role through its scale subresource. Its value is the total over all
slices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from lws import timing
from lws.disaggregatedset.children.role_sets import initial_of
from lws.disaggregatedset.names import role_labels, scaler_name
from lws.disaggregatedset.spec import DisaggregatedSpec
from lws.kube.conditions import Condition, find, with_condition
from lws.kube.metadata import is_mapping, is_terminating, missing_labels, owner_reference
from lws.kube.ownership import Ownership, ownership_of
from lws.leaderworkerset.fields import MOST_REPLICAS
from lws.runtime.actions import (
    Announce,
    Create,
    Delete,
    EventType,
    Object,
    Plan,
    Problem,
    Reference,
    Status,
    together,
)
from lws.runtime.children import Child, Owner, plan_child, repair
from lws_api.disaggregatedset.v1 import API_VERSION, NAME_LABEL, ROLE_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import WORKER_INDEX_LABEL

_ACTIONS = {"ScalerCreated": "Create", "ScalerDeleted": "Delete", "ScalerConflict": "Conflict"}
_BOUND = Condition("Ready", True, "Bound", "Scaler bound to a live DisaggregatedSet role")


def plan_scalers(seen: ObservedSet, spec: DisaggregatedSpec, key: str) -> Plan:
    """Each role that is scaled from outside has a scaler, no other has one. key: of the target revision."""
    external = [role.name for role in spec.roles if role.is_external]
    standing = _standing(seen)
    seeds = {role: seed(seen, spec.slices, role, key) for role in external}
    kept = [_keep(seen, standing[role], role, seeds[role]) for role in external if role in standing]
    kept += [_excess(role, standing[role], spec.slices) for role in external if role in standing]
    made = [_make(seen, role, seeds[role]) for role in external if role not in standing]
    gone = [_delete(seen, scaler, role) for role, scaler in standing.items() if role not in external]
    return together(*kept, *made, *gone)


def scaler_counts(seen: ObservedSet) -> dict[str, int]:
    """Groups that scalers request over all slices, by role."""
    counts = {role: _replicas(scaler) for role, scaler in _standing(seen).items()}
    return {role: count for role, count in counts.items() if count is not None}


def share(total: int, slices: int, index: int) -> int:
    """One slice's part of a number of groups over all slices: the first slices get the remainder.

    A scaler takes greater numbers than a LeaderWorkerSet.
    """
    return min(total // slices + (index < total % slices), MOST_REPLICAS)


def seed(seen: ObservedSet, slices: int, role: str, key: str) -> int:
    """With how many groups a scaler begins: as many as the role is to have now, slices that are not wanted
    and surge left out.

    A HorizontalPodAutoscaler leaves alone whatever stands at 0, so that is no beginning, unless a scaler has
    brought the role to 0: without one a role is at 0 only together with all others. No slice in which
    nothing ran begins without the role either: what it has of others would serve nobody.
    """
    children = [child for child in seen.children if child.role == role and not child.is_leaving]
    total = 0
    for index in range(slices):
        of_slice = [child for child in children if child.slice_index == index]
        old = sum(_at_start(child) for child in of_slice if child.key != key)
        total += max(old, sum(child.wanted for child in of_slice if child.key == key))
    was_scaled = any(child.obj["metadata"].get("generation", 1) > 1 for child in children)
    if not total and was_scaled and any(child.wanted for child in seen.children if child.role != role):
        return 0
    is_any_new = not set(range(slices)) <= {child.slice_index for child in children}
    return max(total, slices) if is_any_new or not total else total


def build_scaler(owner: Object, role: str, replicas: int) -> dict[str, Any]:
    """The scaler of a role."""
    name = owner["metadata"]["name"]
    return {
        "apiVersion": API_VERSION,
        "kind": SCALER_KIND,
        "metadata": {
            "name": scaler_name(name, role),
            "namespace": owner["metadata"]["namespace"],
            "labels": role_labels(name, role),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {"replicas": replicas},
    }


def selector_of(set_name: str, role: str) -> str:
    """The leader pods of a role on all slices and revisions, as a label selector."""
    return f"{NAME_LABEL}={set_name},{ROLE_LABEL}={role},{WORKER_INDEX_LABEL}=0"


def _standing(seen: ObservedSet) -> dict[str, Object]:
    """The scalers that the set controls, by role; their names say it, because labels can be edited."""
    prefix = scaler_name(seen.owner.name, "")
    return {
        scaler["metadata"]["name"].removeprefix(prefix): scaler
        for scaler in seen.scalers
        if not is_terminating(scaler)
    }


def _keep(seen: ObservedSet, scaler: Object, role: str, replicas: int) -> Plan:
    intent = build_scaler(seen.obj, role, replicas)
    labels = missing_labels(scaler, intent["metadata"]["labels"], intent["metadata"]["labels"])
    edits = {
        "its labels were edited": {"metadata": {"labels": labels}} if labels else {},
        "nobody could scale it without a number": {"spec": intent["spec"]}
        if _replicas(scaler) is None
        else {},
    }
    return together(repair(scaler, edits), _status(seen, scaler, role))


def _excess(role: str, scaler: Object, slices: int) -> Plan:
    """Report a requested count that is too large for as long as it is requested."""
    total = _replicas(scaler) or 0
    if total <= slices * MOST_REPLICAS:
        return Plan()
    name, asked = scaler["metadata"]["name"], f"{total} groups, {MOST_REPLICAS} are possible in each slice"
    told = f"role {role}: its scaler {name} asks for {asked}; scale it down"
    return Plan(problems=(Problem("TooManyReplicas", told),))


def _make(seen: ObservedSet, role: str, replicas: int) -> Plan:
    intent = build_scaler(seen.obj, role, replicas)
    name = intent["metadata"]["name"]
    leaving = next((scaler for scaler in seen.scalers if scaler["metadata"]["name"] == name), None)
    stored = leaving or seen.strangers.get((SCALER_KIND, name))
    uid = seen.obj["metadata"]["uid"]
    ownership = ownership_of(stored, uid, lambda obj: _is_like(obj, intent), seen.owners_alive)
    if ownership == Ownership.CLASH:
        return _conflict(seen, name)
    created = _event(seen, "ScalerCreated", f"Created scaler {name} for role {role}")
    create = Create(intent, why=f"role {role} is scaled from outside", announce=(created,))
    owner = replace(seen.owner, reference=owner_reference(seen.obj))
    return plan_child(owner, Child(ownership, stored, f"the former scaler {name}"), create)


def _conflict(seen: ObservedSet, name: str) -> Plan:
    note = f"Scaler {name} exists but is not controlled by this DisaggregatedSet; not adopting"
    warning = replace(_event(seen, "ScalerConflict", note, "Warning"), once=True)
    return Plan(
        announce=(warning,),
        again_after=timing.LOOK_AGAIN_SECONDS,
        waiting_for=note,
        problems=(Problem("ScalerConflict", note, is_reported=True),),
    )


def _delete(seen: ObservedSet, scaler: Object, role: str) -> Plan:
    name = scaler["metadata"]["name"]
    note = f"Deleted scaler {name} (role {role} is no longer External)"
    deleted = _event(seen, "ScalerDeleted", note)
    why = f"role {role} is not scaled from outside any more"
    return Plan(((Delete(Reference.to(scaler), "Background", why=why, announce=(deleted,)),),))


def _status(seen: ObservedSet, scaler: Object, role: str) -> Plan:
    stored: Mapping[str, Any] = scaler.get("status") or {}
    conditions, generation = stored.get("conditions"), scaler["metadata"].get("generation", 0)
    wanted = {
        "replicas": sum(child.existing for child in seen.children if child.role == role),
        "selector": selector_of(seen.owner.name, role),
        "observedGeneration": generation,
        "conditions": with_condition(conditions, _BOUND, generation, seen.now),
    }
    patch = {field: value for field, value in wanted.items() if stored.get(field) != value}
    if not patch:
        return Plan()
    # Autoscalers act on the count: the last step to what they asked for is told at once.
    is_reached = "replicas" in patch and patch["replicas"] == _replicas(scaler)
    can_wait = find(conditions, _BOUND.type) is not None and "selector" not in patch and not is_reached
    return Plan(statuses=(Status(Reference.to(scaler), patch, can_wait=can_wait, before=stored),))


def _at_start(child: ObservedChild) -> int:
    initial = initial_of(child.obj)
    return child.wanted if initial is None else initial


def _replicas(scaler: Object) -> int | None:
    spec = scaler.get("spec")
    count = spec.get("replicas") if is_mapping(spec) else None
    return count if type(count) is int and count >= 0 else None


def _is_like(stored: Object, intent: Object) -> bool:
    wanted = intent["metadata"]["labels"]
    return not missing_labels(stored, wanted, wanted)


def _event(seen: ObservedSet, reason: str, note: str, kind: EventType = "Normal") -> Announce:
    return Announce(Reference.to(seen.obj), reason, _ACTIONS[reason], note, kind)


# --- Protocols for what the planners of children read of a snapshot: the set, its children, and name
# holders.


class ObservedChild(Protocol):
    """One LeaderWorkerSet of a set: a role of a slice at a revision.

    wanted: groups that it is to have. existing: groups that are there. ready: groups that serve.
    """

    @property
    def obj(self) -> Object: ...
    @property
    def role(self) -> str: ...
    @property
    def slice_index(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def is_legacy(self) -> bool: ...
    @property
    def wanted(self) -> int: ...
    @property
    def existing(self) -> int: ...
    @property
    def ready(self) -> int: ...
    @property
    def is_leaving(self) -> bool: ...


class ObservedSet(Protocol):
    """What a pass knows of a set. services, scalers: those that it controls. strangers: what else has a name
    that the set gives, by kind and name. owners_alive: UIDs of their controllers that live.
    """

    @property
    def obj(self) -> Object: ...
    @property
    def now(self) -> datetime: ...
    @property
    def owner(self) -> Owner: ...
    @property
    def children(self) -> Sequence[ObservedChild]: ...
    @property
    def services(self) -> Sequence[Object]: ...
    @property
    def scalers(self) -> Sequence[Object]: ...
    @property
    def strangers(self) -> Mapping[tuple[str, str], Object]: ...
    @property
    def owners_alive(self) -> Collection[str]: ...
