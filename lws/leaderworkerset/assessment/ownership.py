"""Decide who owns an object with a name that the set needs, and whether the set may adopt it.

Labels alone are no proof, because users copy them. An adopted object is deleted with the set, so an object
without a controller is adopted only if it has the shape that this controller or upstream writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from lws.kube.metadata import annotations_of, controller_of, labels_of, name_of, uid_of
from lws.kube.ownership import Ownership, ownership_of
from lws.kube.patches import covers
from lws.leaderworkerset.pod_identity import group_name, hash_host_name, is_hash_key
from lws.leaderworkerset.rollout.groups import FIELD_MANAGER
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    WORKER_INDEX_LABEL,
)


def ownership_of_leaders(snapshot: SetSnapshot) -> Ownership:
    """Return the ownership of the StatefulSet or Deployment with the name of the set."""
    set_name = name_of(snapshot.lws)

    def is_like(leaders: Object) -> bool:
        selector = {NAME_LABEL: set_name, WORKER_INDEX_LABEL: "0"}
        if leaders["kind"] == "Deployment":
            return _is_like_pod_maker(leaders, selector)
        return _is_like_statefulset(leaders, selector, {set_name})

    return ownership_of(snapshot.leaders, uid_of(snapshot.lws), is_like, snapshot.owners_alive)


def ownership_of_workers(
    statefulset: Object | None, leader: Object, set_name: str, owners_alive: Collection[str]
) -> Ownership:
    """Return the ownership of the StatefulSet with the name of a leader pod."""

    def is_like(workers: Object) -> bool:
        return _is_like_workers(workers, set_name, labels_of(leader), group_name(leader))

    return ownership_of(statefulset, leader["metadata"]["uid"], is_like, owners_alive)


def are_orphaned_workers(statefulset: Object) -> bool:
    """Return whether a StatefulSet has no controller, and shape and name of the workers of a group. A copy
    under another name belongs to the user who made it.
    """
    labels, name = labels_of(statefulset), name_of(statefulset)
    is_of_group = GROUP_KEY_LABEL in labels and NAME_LABEL in labels and controller_of(statefulset) is None
    if not is_of_group or not _is_like_workers(statefulset, labels[NAME_LABEL], labels, name):
        return False
    key = labels.get(GROUP_INDEX_LABEL, "")
    host = hash_host_name(labels[NAME_LABEL], key) if is_hash_key(key) else ""
    return name in (leader_named_by(statefulset), host)


def leader_named_by(workers: Object) -> str:
    """Return the name of the leader pod for which a StatefulSet of workers was created; empty if unknown."""
    return annotations_of((workers.get("spec") or {}).get("template") or {}).get(LEADER_NAME_ANNOTATION, "")


def ownership_of_service(
    service: Object | None, owner_uid: str, intent: Object, owners_alive: Collection[str]
) -> Ownership:
    """Return the ownership of a Service with a name that the set needs. intent: the desired Service."""
    is_like = partial(_is_like_service, intent=intent)
    ownership = ownership_of(service, owner_uid, is_like, owners_alive)
    if service is None or ownership != Ownership.NAME_CLASH or controller_of(service) is not None:
        return ownership
    # The owner of the Service decides whether it publishes unready pods.
    left_to_owner = ("selector", "publishNotReadyAddresses")
    desired = {field: value for field, value in intent["spec"].items() if field not in left_to_owner}
    is_sufficient = _selects_the_same(service, intent) and covers(desired, service.get("spec") or {})
    return Ownership.SUFFICIENT if is_sufficient else Ownership.NAME_CLASH


def ownership_of_disruption_budget(snapshot: SetSnapshot) -> Ownership:
    """Return the ownership of the PodDisruptionBudget with the name of the set."""
    set_name = name_of(snapshot.lws)

    def is_like(budget: Object) -> bool:
        selector = (budget.get("spec") or {}).get("selector")
        selects_set = selector == {"matchLabels": {NAME_LABEL: set_name}}
        return selects_set and _is_labelled(budget, set_name) and _is_written_by_us(budget)

    return ownership_of(snapshot.pod_disruption_budget, uid_of(snapshot.lws), is_like, snapshot.owners_alive)


def ownership_of_pod_group(
    pod_group: Object | None, owner_uid: str, set_name: str, owners_alive: Collection[str]
) -> Ownership:
    """Return the ownership of the PodGroup with the name that a set, or the group of a leader pod, needs."""
    is_like = partial(_is_labelled, set_name=set_name)
    return ownership_of(pod_group, owner_uid, is_like, owners_alive)


def may_be_adopted(obj: Object) -> bool:
    """Return whether an object has no controller and may be ours. Users' objects may never have one."""
    if controller_of(obj) is not None:
        return False
    return obj["kind"] not in ("Service", "PodDisruptionBudget") or (
        NAME_LABEL in labels_of(obj) and _is_written_by_us(obj)
    )


def _is_like_workers(workers: Object, set_name: str, group: Mapping[str, str], name: str) -> bool:
    """Return whether a StatefulSet creates the workers of a group with these labels and this name."""
    of_group = {key: group.get(key, "") for key in (GROUP_INDEX_LABEL, GROUP_KEY_LABEL)}
    # The StatefulSet may belong to a revision with another subdomain policy.
    return _is_like_statefulset(workers, {NAME_LABEL: set_name, **of_group}, {set_name, name})


def _is_like_statefulset(statefulset: Object, selector: Mapping[str, str], services: Collection[str]) -> bool:
    spec = statefulset.get("spec") or {}
    return (
        _is_like_pod_maker(statefulset, selector)
        and spec.get("serviceName") in services
        and spec.get("podManagementPolicy") == "Parallel"
    )


def _is_like_pod_maker(obj: Object, selector: Mapping[str, str]) -> bool:
    """Return whether the object is a StatefulSet or Deployment that creates pods of the set."""
    spec = obj.get("spec") or {}
    return (
        _is_labelled(obj, selector[NAME_LABEL])
        and spec.get("selector") == {"matchLabels": selector}
        and REVISION_LABEL in labels_of(spec.get("template") or {})
    )


def _is_like_service(service: Object, intent: Object) -> bool:
    # A user may have created an identical Service; only the field manager distinguishes them.
    return (
        _is_labelled(service, labels_of(intent)[NAME_LABEL])
        and _selects_the_same(service, intent)
        and _is_written_by_us(service)
    )


def _is_labelled(obj: Object, set_name: str) -> bool:
    return labels_of(obj).get(NAME_LABEL) == set_name


def _selects_the_same(service: Object, intent: Object) -> bool:
    return bool((service.get("spec") or {}).get("selector") == intent["spec"]["selector"])


def _is_written_by_us(obj: Object) -> bool:
    """Return whether this controller or upstream wrote the object; both use the same field manager name."""
    return any(
        entry.get("manager") == FIELD_MANAGER
        and "f:selector" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
        for entry in obj["metadata"].get("managedFields") or ()
    )
