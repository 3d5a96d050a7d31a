"""Build the PVC templates of a set's StatefulSets, and plan the owners of its PVCs (KEP-622).

The claim templates of an existing StatefulSet cannot be changed.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lws.kube import patches
from lws.kube.metadata import (
    controller_of,
    is_terminating,
    labels_of,
    metadata_of,
    namespace_of,
    owner_reference,
)
from lws.leaderworkerset import fields
from lws.runtime.actions import Object, Reference, SetOwner
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, GROUP_KEY_LABEL, WORKER_INDEX_LABEL

DELETE, RETAIN = "Delete", "Retain"
_CLAIMS, _RETENTION = fields.VOLUME_CLAIM_TEMPLATES.name, fields.PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY.name


def build_leader_storage(lws: Object, stored: Object | None = None) -> dict[str, Any]:
    """Build the PVC fields of the leader StatefulSet's spec; empty if the set has none. stored: the existing
    one, whose claims cannot be changed: earlier releases copied only some of their fields.
    """
    storage = _claims(lws)
    if storage and stored is not None and not patches.covers(storage, stored["spec"]):
        namespace = namespace_of(lws)
        earlier = {_CLAIMS: [common_claim(claim, namespace) for claim in claims_of(lws)]}
        storage = earlier if patches.covers(earlier, stored["spec"]) else storage
    retention = retention_of(lws)
    return {**storage, _RETENTION: dict(retention)} if retention is not None else storage


def build_worker_storage(restored: Object) -> dict[str, Any]:
    """Build the PVC fields of a worker StatefulSet, whose PVCs remain when its leader pod is deleted."""
    storage = _claims(restored)
    if retention_of(restored) is None:
        return storage
    return {**storage, _RETENTION: {"whenDeleted": RETAIN, "whenScaled": RETAIN}}


def claims_of(lws: Object) -> list[Mapping[str, Any]]:
    """Return the claim templates as the user wrote them."""
    return list(fields.VOLUME_CLAIM_TEMPLATES.stored_in(lws) or ())


def retention_of(lws: Object) -> Mapping[str, str] | None:
    """Return the retention policy of PVCs: whenDeleted and whenScaled, each Retain by default; None if unset.
    Both are always present because upstream owns both: an owned field without a value would cause a write.
    """
    policy = fields.PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY.stored_in(lws)
    if policy is None:
        return None
    return {field: policy.get(field) or RETAIN for field in ("whenDeleted", "whenScaled")}


def common_claim(claim: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return a claim template with only the fields that every release has copied."""
    claimed = claim.get("spec") or {}
    copied = ("accessModes", "storageClassName", "volumeMode", "resources")
    desired = {field: claimed[field] for field in copied if field in claimed}
    return _claim({"metadata": {"name": metadata_of(claim).get("name", "")}, "spec": desired}, namespace)


def claims_at_risk(lws: Object, workers: Iterable[Object | None]) -> list[str]:
    """Return the names of worker StatefulSets whose PVCs are deleted whenever their group is recreated.
    Upstream creates such StatefulSets if the set has `whenDeleted: Delete`. The controller does not edit
    them, because the user of the set has not requested it.
    """
    if not claims_of(lws):
        return []
    return [
        statefulset["metadata"]["name"]
        for statefulset in workers
        if statefulset is not None
        and (statefulset["spec"].get(_RETENTION) or {}).get("whenDeleted") == DELETE
    ]


def risk_of_claims(statefulsets: Sequence[str]) -> str:
    """Return the warning about these worker StatefulSets (names, at least one), whose PVCs are at risk."""
    more = f" and {len(statefulsets) - 1} more" if len(statefulsets) > 1 else ""
    return (
        f"worker StatefulSet {statefulsets[0]}{more}: whenDeleted is Delete, as upstream created it: PVCs of "
        f"workers and their data are deleted when their group is recreated. Groups that are created from now "
        f"on keep them until the set is deleted"
    )


def plan_owners(lws: Object, groups: Iterable[int], claims: Collection[Object]) -> tuple[SetOwner, ...]:
    """Make the set an owner of its workers' PVCs if they are to be deleted with it, and otherwise not. PVCs
    that a StatefulSet controls are left to it.
    groups: the indices of existing groups; PVCs of other indices may belong to an earlier set of this name.
    claims: all PVCs with the name label of the set.
    """
    is_desired = (retention_of(lws) or {}).get("whenDeleted") == DELETE
    if not claims:
        return ()
    existing = {str(index) for index in groups}
    reference = {key: owner_reference(lws)[key] for key in ("apiVersion", "kind", "name", "uid")}
    changes = []
    for claim in claims:
        owners = metadata_of(claim).get("ownerReferences") or []
        is_owned = any(owner["uid"] == reference["uid"] for owner in owners)
        # StatefulSets label PVCs with the selector of their pods.
        labels = labels_of(claim)
        is_of_workers = GROUP_KEY_LABEL in labels and WORKER_INDEX_LABEL not in labels
        if is_terminating(claim) or controller_of(claim) is not None or not is_of_workers:
            continue
        if is_desired and not is_owned and labels_of(claim).get(GROUP_INDEX_LABEL) in existing:
            why = "the set asks that it goes when the set goes"
            changes.append(SetOwner(Reference.to(claim), reference, why))
        elif is_owned and not is_desired:
            why = "the set does not ask any more that it goes with the set"
            changes.append(SetOwner(Reference.to(claim), reference, why, is_owner=False))
    return tuple(changes)


def _claims(lws: Object) -> dict[str, Any]:
    claims = claims_of(lws)
    return {_CLAIMS: [_claim(claim, namespace_of(lws)) for claim in claims]} if claims else {}


def _claim(claim: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    stored, claimed = metadata_of(claim), claim.get("spec") or {}
    resources = claimed.get("resources") or {}
    metadata = {"name": stored.get("name", ""), "namespace": namespace}
    metadata |= {field: dict(stored[field]) for field in ("labels", "annotations") if stored.get(field)}
    desired = {field: copy.deepcopy(value) for field, value in claimed.items() if value is not None}
    desired["resources"] = {
        field: dict(resources[field]) for field in ("requests", "limits") if resources.get(field)
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": desired}
