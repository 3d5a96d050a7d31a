"""Reconcile one child: create, adopt, restore, delete, wait for it, or leave it to its owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lws import timing
from lws.kube.metadata import is_controlled_by, is_terminating, missing_labels, united, without_tools_own
from lws.kube.ownership import Ownership, clash_note
from lws.kube.patches import covers, merge_patch
from lws.runtime.actions import Create, Delete, Merge, Object, Plan, Problem, Reference, SetOwner
from lws_api.leaderworkerset.v1 import NAME_LABEL

_HEADLESS, _CLUSTER_IP = "None", "ClusterIP"
_UNSAID: Mapping[str, Any] = {
    "type": _CLUSTER_IP,
    "selector": {},
    "ports": [],
    "publishNotReadyAddresses": False,
}
"""What decides where a Service leads, and what it says where nothing is said."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a child: a workload, or the leader pod of a group.

    kind, name: the workload that needs the child. reference: by which the child is controlled. is_alive: as
    `may_adopt` says. adoption: why it adopts, with {kind} for that of the child. until_alive: what is waited
    for before it may.
    """

    kind: str
    name: str
    reference: Object
    is_alive: bool
    adoption: str
    until_alive: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """An object with the name of a child. former: how to call one that must be deleted first."""

    ownership: Ownership
    stored: Object | None
    former: str


def relabelled(stored: Object, intent: Object) -> Plan:
    """All that is put back on a child of which nothing else is edited."""
    return repair(stored, {"its name label was edited": name_label(stored, intent)})


def plan_child(
    owner: Owner, child: Child, create: Create, keep_up: Callable[[Object, Object], Plan] = relabelled
) -> Plan:
    """Reconcile a desired child. keep_up: plans repairs of our object, given the intent."""
    if (blocked := plan_obstacle(owner, child)) is not None:
        return blocked
    return Plan(((create,),)) if child.stored is None else keep_up(child.stored, create.intent)


def plan_unwanted(owner: Owner, stored: Object | None, why: str) -> Plan:
    """Delete a child that is not wanted; objects of other owners are left alone."""
    uid = owner.reference["uid"]
    if stored is None or not is_controlled_by(stored, uid) or is_terminating(stored):
        return Plan()
    return Plan(((Delete(Reference.to(stored), "Background", why=why),),))


def plan_obstacle(owner: Owner, child: Child) -> Plan | None:
    """What to do about any object with the name of a child; None if the child itself can be written."""
    stored, ownership = child.stored, child.ownership
    if stored is None or ownership == Ownership.OURS:
        return None
    if ownership == Ownership.LEAVING:
        return Plan(again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=f"{child.former} to be gone")
    if ownership == Ownership.ORPHAN:
        return adopt(owner, stored)
    if ownership == Ownership.SUFFICIENT:
        return Plan(again_after=timing.LOOK_AGAIN_SECONDS)
    note = clash_note(stored, owner.kind, owner.name)
    return Plan(
        again_after=timing.LOOK_AGAIN_SECONDS, waiting_for=note, problems=(Problem("NameClash", note),)
    )


def adopt(owner: Owner, orphan: Object) -> Plan:
    """Change nothing of an orphan but its owner, and remove what it must not inherit."""
    if not owner.is_alive:
        return Plan(waiting_for=owner.until_alive)
    why = owner.adoption.format(kind=orphan["kind"])
    patch = without_tools_own(orphan, {})
    return Plan(((SetOwner(Reference.to(orphan), owner.reference, why, patch=patch),),))


def repair(stored: Object, patches: Mapping[str, Object]) -> Plan:
    """One write for everything that others edited. patches: by reason; empty if not needed."""
    due = {why: patch for why, patch in patches.items() if patch}
    if not due:
        return Plan()
    return Plan(((Merge(Reference.to(stored), reduce(united, due.values()), why="; ".join(due)),),))


def name_label(stored: Object, intent: Object) -> Object:
    """The patch that brings a lost name label back: without it the object would drop out of every stream."""
    labels = missing_labels(stored, intent["metadata"]["labels"], (NAME_LABEL,))
    return {"metadata": {"labels": labels}} if labels else {}


def put_back_service(stored: Object, intent: Object) -> Plan:
    """Restore edited fields and labels that a Service's intent sets.

    What the API server or others add beside that stays: addresses, families, node ports, sessions.
    """
    spec, wanted = stored.get("spec") or {}, {**_UNSAID, **intent["spec"]}
    is_headless = wanted.get("clusterIP") == _HEADLESS
    if is_headless and spec.get("clusterIP", _HEADLESS) not in (_HEADLESS, "", None):
        why = "it was given an address, which no write takes away: it is made anew"
        return Plan(((Delete(Reference.to(stored), "Background", why=why),),))
    known = {field: spec.get(field) or unsaid for field, unsaid in _UNSAID.items()}
    edited = [field for field in _UNSAID if not _is_as_wanted(field, known, wanted)]
    patch = {field: wanted[field] for field in edited}
    if "selector" in patch:
        patch["selector"] = merge_patch(known["selector"], wanted["selector"])
    if "type" in patch or "ports" in patch:
        patch["ports"] = _with_node_ports(wanted, known) or None
    if "type" in patch and is_headless:
        patch |= {"clusterIP": _HEADLESS, "externalName": None}
    labels = missing_labels(stored, intent["metadata"]["labels"], intent["metadata"]["labels"])
    return repair(
        stored,
        {
            f"it is not as it was made: {', '.join(edited)}": {"spec": patch} if patch else {},
            "its labels were edited": {"metadata": {"labels": labels}} if labels else {},
        },
    )


def _is_as_wanted(field: str, known: Object, wanted: Object) -> bool:
    if field != "ports":
        return bool(known[field] == wanted[field])
    # Ports that are there may have more than was asked for: the API server's own numbers.
    return covers({field: wanted[field]}, {field: known[field]})


def _with_node_ports(wanted: Object, known: Object) -> list[dict[str, Any]]:
    """Keep allocated node ports: a merge patch replaces the list."""
    if wanted["type"] == _CLUSTER_IP:
        return list(wanted["ports"])
    allocated = {
        (each.get("port"), each.get("protocol")): {"nodePort": each["nodePort"]}
        for each in known["ports"]
        if each.get("nodePort")
    }
    return [{**each, **allocated.get((each["port"], each["protocol"]), {})} for each in wanted["ports"]]
