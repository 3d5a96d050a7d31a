"""Plan the scalers of roles with external scaling: their creation, first value and status.

Autoscalers write the total over all slices to the scale subresource of a DisaggregatedSetRoleScaler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lws import timing
from lws.disaggregatedset.names import role_labels, scaler_name
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.kube.conditions import Condition, find, with_condition
from lws.kube.metadata import (
    child_metadata,
    is_mapping,
    is_terminating,
    labels_of,
    missing_labels,
    owner_reference,
)
from lws.kube.ownership import Ownership, ownership_of
from lws.leaderworkerset.fields import REPLICAS
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
    merge_plans,
)
from lws.runtime.children import Child, label_patches, plan_child, repair
from lws_api.disaggregatedset.v1 import API_VERSION, NAME_LABEL, ROLE_LABEL, SCALER_KIND
from lws_api.leaderworkerset.v1 import WORKER_INDEX_LABEL

_ACTIONS = {"ScalerCreated": "Create", "ScalerDeleted": "Delete", "ScalerConflict": "Conflict"}
_BOUND = Condition("Ready", True, "Bound", "Scaler bound to a live DisaggregatedSet role")


def plan_scalers(seen: DisaggregatedSnapshot, slices: int, seeds: Mapping[str, int]) -> Plan:
    """Plan a scaler for each role with external scaling, and delete other scalers.

    seeds: these roles → initial value of a new scaler.
    """
    existing = _existing_scalers(seen)
    updates = [_keep(seen, existing[role], role, seeds[role]) for role in seeds if role in existing]
    updates += [_excess(role, existing[role], slices) for role in seeds if role in existing]
    created = [_create(seen, role, seeds[role]) for role in seeds if role not in existing]
    deleted = [_delete(seen, scaler, role) for role, scaler in existing.items() if role not in seeds]
    return merge_plans(*updates, *created, *deleted)


def scaler_counts(seen: DisaggregatedSnapshot) -> dict[str, int]:
    """Return the groups that scalers request over all slices, by role."""
    counts = {role: _replicas(scaler) for role, scaler in _existing_scalers(seen).items()}
    return {role: count for role, count in counts.items() if count is not None}


def share(total: int, slices: int, index: int) -> int:
    """Return one slice's share of a number of groups over all slices. The first slices get the remainder.

    A scaler may request more groups than a LeaderWorkerSet can have, so the share is limited.
    """
    return min(total // slices + (index < total % slices), REPLICAS.maximum)


def build_scaler(owner: Object, role: str, replicas: int) -> dict[str, Any]:
    name = owner["metadata"]["name"]
    return {
        "apiVersion": API_VERSION,
        "kind": SCALER_KIND,
        "metadata": child_metadata(owner, scaler_name(name, role), role_labels(name, role)),
        "spec": {"replicas": replicas},
    }


def _existing_scalers(seen: DisaggregatedSnapshot) -> dict[str, Object]:
    """Return the scalers that the set controls, by role. Their names decide, because labels can be edited."""
    prefix = scaler_name(seen.owner.name, "")
    return {
        scaler["metadata"]["name"].removeprefix(prefix): scaler
        for scaler in seen.scalers
        if not is_terminating(scaler)
    }


def _keep(seen: DisaggregatedSnapshot, scaler: Object, role: str, replicas: int) -> Plan:
    intent = build_scaler(seen.obj, role, replicas)
    edits = {
        **label_patches(scaler, labels_of(intent)),
        "the scaler had no replicas, so it could not be scaled": {"spec": intent["spec"]}
        if _replicas(scaler) is None
        else {},
    }
    return merge_plans(repair(scaler, edits), _status(seen, scaler, role))


def _excess(role: str, scaler: Object, slices: int) -> Plan:
    total = _replicas(scaler) or 0
    if total <= slices * REPLICAS.maximum:
        return Plan()
    name, request = (
        scaler["metadata"]["name"],
        f"{total} groups, {REPLICAS.maximum} are possible in each slice",
    )
    message = f"role {role}: its scaler {name} asks for {request}; scale it down"
    return Plan(problems=(Problem("TooManyReplicas", message),))


def _create(seen: DisaggregatedSnapshot, role: str, replicas: int) -> Plan:
    intent = build_scaler(seen.obj, role, replicas)
    name = intent["metadata"]["name"]
    leaving = next((scaler for scaler in seen.scalers if scaler["metadata"]["name"] == name), None)
    stored = leaving or seen.strangers.get((SCALER_KIND, name))
    uid, labels = seen.obj["metadata"]["uid"], labels_of(intent)
    ownership = ownership_of(stored, uid, lambda obj: not missing_labels(obj, labels), seen.owners_alive)
    if ownership == Ownership.NAME_CLASH:
        return _conflict(seen, name)
    created = _event(seen, "ScalerCreated", f"Created scaler {name} for role {role}")
    create = Create(intent, why=f"role {role} is scaled from outside", announce=(created,))
    owner = replace(seen.owner, owner_reference=owner_reference(seen.obj))
    return plan_child(owner, Child(ownership, stored, f"the former scaler {name}"), create)


def _conflict(seen: DisaggregatedSnapshot, name: str) -> Plan:
    note = f"Scaler {name} exists but is not controlled by this DisaggregatedSet; not adopting"
    warning = replace(_event(seen, "ScalerConflict", note, "Warning"), once=True)
    return Plan(
        announce=(warning,),
        again_after=timing.RECHECK_SECONDS,
        waiting_for=note,
        problems=(Problem("ScalerConflict", note, is_reported=True),),
    )


def _delete(seen: DisaggregatedSnapshot, scaler: Object, role: str) -> Plan:
    name = scaler["metadata"]["name"]
    note = f"Deleted scaler {name} (role {role} is no longer External)"
    deleted = _event(seen, "ScalerDeleted", note)
    why = f"role {role} is not scaled from outside any more"
    return Plan(((Delete(Reference.to(scaler), "Background", why=why, announce=(deleted,)),),))


def _status(seen: DisaggregatedSnapshot, scaler: Object, role: str) -> Plan:
    stored: Mapping[str, Any] = scaler.get("status") or {}
    conditions, generation = stored.get("conditions"), scaler["metadata"].get("generation", 0)
    desired = {
        "replicas": sum(child.existing for child in seen.children if child.role == role),
        # The selector matches the leader pods of all slices and revisions.
        "selector": f"{NAME_LABEL}={seen.owner.name},{ROLE_LABEL}={role},{WORKER_INDEX_LABEL}=0",
        "observedGeneration": generation,
        "conditions": with_condition(conditions, _BOUND, generation, seen.now),
    }
    patch = {field: value for field, value in desired.items() if stored.get(field) != value}
    if not patch:
        return Plan()
    # Autoscalers act on the count, so reaching the requested count is reported at once.
    is_reached = "replicas" in patch and patch["replicas"] == _replicas(scaler)
    can_wait = find(conditions, _BOUND.type) is not None and "selector" not in patch and not is_reached
    return Plan(statuses=(Status(Reference.to(scaler), patch, can_wait=can_wait, before=stored),))


def _replicas(scaler: Object) -> int | None:
    spec = scaler.get("spec")
    count = spec.get("replicas") if is_mapping(spec) else None
    return count if type(count) is int and count >= 0 else None


def _event(seen: DisaggregatedSnapshot, reason: str, note: str, kind: EventType = "Normal") -> Announce:
    return Announce(Reference.to(seen.obj), reason, _ACTIONS[reason], note, kind)
