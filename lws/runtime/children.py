"""Reconcile one child: create, adopt, repair, delete, wait for it, or leave it to its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lws import timing
from lws.kube.metadata import (
    deep_merged,
    is_controlled_by,
    is_terminating,
    labels_of,
    missing_labels,
    without_tool_keys,
)
from lws.kube.ownership import Ownership, name_clash_note
from lws.kube.patches import covers, merge_patch
from lws.runtime.actions import Create, Delete, Merge, Object, Plan, Problem, Reference, SetOwner

_HEADLESS, _CLUSTER_IP = "None", "ClusterIP"
_SERVICE_DEFAULTS: Mapping[str, Any] = {
    "type": _CLUSTER_IP,
    "selector": {},
    "ports": [],
    "publishNotReadyAddresses": False,
}
"""Fields that decide which pods a Service routes to, with their defaults."""

LABELS_DIFFER = "its labels differ from the desired ones"
"""The reason to repair labels: they were edited, or the desired ones have changed."""


@dataclass(frozen=True, slots=True)
class ChildOwner:
    """The workload that a child belongs to, and the object that controls the child.

    kind, name: of the workload, for messages.
    owner_reference: names the controller, which is the workload or the leader pod of a group.
    is_alive: whether the controller was read live and is not being deleted, so that it may adopt.
    adoption: the reason for an adoption, with {kind} for the kind of the child.
    until_alive: what an adoption waits for while `is_alive` is false.
    """

    kind: str
    name: str
    owner_reference: Object
    is_alive: bool
    adoption: str
    until_alive: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """The stored object with the name of a child, and its relation to the owner.

    former: how messages name an existing object that must disappear first, such as 'the former Service'.
    """

    ownership: Ownership
    stored: Object | None
    former: str


Repairs = Callable[[Object, Object], "Mapping[str, Object] | Plan"]
"""A function from (stored, intent) to merge patches of a child by reason, or to a plan to follow instead."""


def plan_child(owner: ChildOwner, child: Child, create: Create, repairs: Repairs | None = None) -> Plan:
    """Create, adopt or repair a child that should exist, and repair its labels (`label_patches`)."""
    if (blocked := plan_obstacle(owner, child)) is not None:
        return blocked
    if child.stored is None:
        return Plan(((create,),))
    patches = repairs(child.stored, create.intent) if repairs is not None else {}
    if isinstance(patches, Plan):
        return patches
    return repair(child.stored, {**patches, **label_patches(child.stored, labels_of(create.intent))})


def plan_unwanted(owner: ChildOwner, stored: Object | None, why: str) -> Plan:
    """Delete a child that is not desired. Objects of other owners are left alone."""
    uid = owner.owner_reference["uid"]
    if stored is None or not is_controlled_by(stored, uid) or is_terminating(stored):
        return Plan()
    return Plan(((Delete(Reference.to(stored), "Background", why=why),),))


def plan_obstacle(owner: ChildOwner, child: Child) -> Plan | None:
    """Return what to do about an object that blocks the name; None if nothing does."""
    stored, ownership = child.stored, child.ownership
    if stored is None or ownership == Ownership.OURS:
        return None
    if ownership == Ownership.TERMINATING:
        return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=f"{child.former} to be gone")
    if ownership == Ownership.ORPHAN:
        return adopt(owner, stored)
    if ownership == Ownership.SUFFICIENT:
        return Plan(again_after=timing.RECHECK_SECONDS)
    note = name_clash_note(stored, owner.kind, owner.name)
    return Plan(again_after=timing.RECHECK_SECONDS, waiting_for=note, problems=(Problem("NameClash", note),))


def adopt(owner: ChildOwner, orphan: Object) -> Plan:
    """Set the owner of an orphan, and remove metadata of deployment tools that it must not keep."""
    if not owner.is_alive:
        return Plan(waiting_for=owner.until_alive)
    why = owner.adoption.format(kind=orphan["kind"])
    patch = without_tool_keys(orphan, {})
    return Plan(((SetOwner(Reference.to(orphan), owner.owner_reference, why, patch=patch),),))


def repair(stored: Object, patches: Mapping[str, Object]) -> Plan:
    """Repair all differing fields in one write, from merge patches by reason. Empty ones are ignored."""
    needed = {why: patch for why, patch in patches.items() if patch}
    if not needed:
        return Plan()
    return Plan(
        ((Merge(Reference.to(stored), reduce(deep_merged, needed.values()), why="; ".join(needed)),),)
    )


def label_patches(stored: Object, desired: Mapping[str, str]) -> dict[str, Object]:
    """Return patches that repair the labels of a child, by reason (see `repair`).

    Watches select objects by the name label. These patches only add and correct labels: labels that another
    client added stay. To remove a label, return a patch that sets it to None from the child's `Repairs`.
    """
    labels = missing_labels(stored, desired)
    return {LABELS_DIFFER: {"metadata": {"labels": labels}}} if labels else {}


def difference_reason(fields: Iterable[str]) -> str:
    """Return the reason to write these fields of a child: an edit, or a change of the desired state."""
    return f"differs from the desired state: {', '.join(fields)}"


def repair_service(stored: Object, intent: Object) -> Mapping[str, Object] | Plan:
    """Return the patches that repair the fields of a Service's intent (see `Repairs`).

    Other fields stay as the API server or other clients set them: addresses, families, node ports, sessions.
    A cluster IP cannot be removed, so a Service that must be headless is deleted and recreated.
    """
    spec, desired = stored.get("spec") or {}, {**_SERVICE_DEFAULTS, **intent["spec"]}
    is_headless = desired.get("clusterIP") == _HEADLESS
    if is_headless and spec.get("clusterIP", _HEADLESS) not in (_HEADLESS, "", None):
        why = "it has a cluster IP, which cannot be removed: it is recreated"
        return Plan(((Delete(Reference.to(stored), "Background", why=why),),))
    current = {field: spec.get(field) or default for field, default in _SERVICE_DEFAULTS.items()}
    edited = [field for field in _SERVICE_DEFAULTS if not _is_as_desired(field, current, desired)]
    patch = {field: desired[field] for field in edited}
    if "selector" in patch:
        patch["selector"] = merge_patch(current["selector"], desired["selector"])
    if "type" in patch or "ports" in patch:
        patch["ports"] = _with_node_ports(desired, current) or None
    if "type" in patch and is_headless:
        patch |= {"clusterIP": _HEADLESS, "externalName": None}
    return {difference_reason(edited): {"spec": patch}} if patch else {}


def _is_as_desired(field: str, current: Object, desired: Object) -> bool:
    if field != "ports":
        return bool(current[field] == desired[field])
    # The API server adds node ports.
    return covers({field: desired[field]}, {field: current[field]})


def _with_node_ports(desired: Object, current: Object) -> list[dict[str, Any]]:
    """Return the desired ports with their allocated node ports: a merge patch replaces the whole list."""
    if desired["type"] == _CLUSTER_IP:
        return list(desired["ports"])
    allocated = {
        (port.get("port"), port.get("protocol")): {"nodePort": port["nodePort"]}
        for port in current["ports"]
        if port.get("nodePort")
    }
    return [{**port, **allocated.get((port["port"], port["protocol"]), {})} for port in desired["ports"]]
