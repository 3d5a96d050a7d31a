"""Build the claim templates of StatefulSets, and decide what becomes of claims (KEP-622).

The claim templates of a StatefulSet that exists can never change. Out: parts of StatefulSet specs; writes
that set the owners of claims.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from lws.actions import Object, Reference, SetOwner
from lws.kube.differences import patches
from lws.kube.metadata import (
    controller_of,
    is_terminating,
    labels_of,
    metadata_of,
    namespace_of,
    owner_reference,
)
from lws.leaderworkerset import fields
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, GROUP_KEY_LABEL, WORKER_INDEX_LABEL

DELETE, RETAIN = "Delete", "Retain"
_CLAIMS, _RETENTION = fields.CLAIMS.name, fields.CLAIM_RETENTION.name


def build_leader_storage(lws: Object, stored: Object | None = None) -> dict[str, Any]:
    """What concerns claims in the spec of the leader StatefulSet; empty where the set has none.

    stored: that StatefulSet, if it exists. Earlier releases gave claims a few of their fields only.
    """
    storage = _claims(lws)
    if storage and stored is not None and not patches.covers(storage, stored["spec"]):
        namespace = namespace_of(lws)
        earlier = {_CLAIMS: [common_claim(claim, namespace) for claim in claims_of(lws)]}
        storage = earlier if patches.covers(earlier, stored["spec"]) else storage
    retention = retention_of(lws)
    return {**storage, _RETENTION: dict(retention)} if retention is not None else storage


def build_worker_storage(restored: Object) -> dict[str, Any]:
    """The same for worker StatefulSets: each goes with its leader pod, and the claims outlive it."""
    storage = _claims(restored)
    if retention_of(restored) is None:
        return storage
    return {**storage, _RETENTION: {"whenDeleted": RETAIN, "whenScaled": RETAIN}}


def claims_of(lws: Object) -> list[Mapping[str, Any]]:
    """The claim templates, as users wrote them."""
    return list(fields.CLAIMS.of(lws) or ())


def retention_of(lws: Object) -> Mapping[str, str] | None:
    """whenDeleted and whenScaled, Retain where one is missing; None where the set says nothing.

    Always both, because the original controller owns both: what is owned and not intended would be written.
    """
    policy = fields.CLAIM_RETENTION.of(lws)
    if policy is None:
        return None
    return {field: policy.get(field) or RETAIN for field in ("whenDeleted", "whenScaled")}


def common_claim(claim: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """A claim template with the fields that every release has passed on."""
    claimed = claim.get("spec") or {}
    kept = ("accessModes", "storageClassName", "volumeMode", "resources")
    wanted = {field: claimed[field] for field in kept if field in claimed}
    return _claim({"metadata": {"name": metadata_of(claim).get("name", "")}, "spec": wanted}, namespace)


def claims_at_risk(lws: Object, workers: Iterable[Object | None]) -> list[str]:
    """Names of worker StatefulSets whose claims go each time their group is made anew.

    The original controller made them so where the set says `whenDeleted: Delete`. They keep it, because an
    edit is nothing that a user of the set has asked for.
    """
    if not claims_of(lws):
        return []
    return [
        each["metadata"]["name"]
        for each in workers
        if each is not None and (each["spec"].get(_RETENTION) or {}).get("whenDeleted") == DELETE
    ]


def risk_of_claims(statefulsets: Sequence[str]) -> str:
    """What users should know about them; by name, at least one."""
    more = f" and {len(statefulsets) - 1} more" if len(statefulsets) > 1 else ""
    return (
        f"worker StatefulSet {statefulsets[0]}{more}: whenDeleted is Delete, as the original controller made "
        f"it: claims of workers, and what they hold, go when their group is made anew. Groups that are made "
        f"from now on keep them until the set is deleted"
    )


def plan_owners(lws: Object, groups: Iterable[int], claims: Collection[Object]) -> tuple[SetOwner, ...]:
    """Have claims of workers go with the set where it says so, and stay where it does not.

    groups: indices of those that exist: claims of others may be left from another set of this name. claims:
    all that carry the name of the set. Claims that a StatefulSet controls follow that alone.
    """
    is_wanted = (retention_of(lws) or {}).get("whenDeleted") == DELETE
    if not claims:
        return ()
    existing = {str(index) for index in groups}
    reference = {key: owner_reference(lws)[key] for key in ("apiVersion", "kind", "name", "uid")}
    found = []
    for claim in claims:
        owners = metadata_of(claim).get("ownerReferences") or []
        is_owned = any(owner["uid"] == reference["uid"] for owner in owners)
        if is_terminating(claim) or controller_of(claim) is not None or not _is_of_workers(claim):
            continue
        if is_wanted and not is_owned and labels_of(claim).get(GROUP_INDEX_LABEL) in existing:
            why = "the set asks that it goes when the set goes"
            found.append(SetOwner(Reference.to(claim), reference, why))
        elif is_owned and not is_wanted:
            why = "the set does not ask any more that it goes with the set"
            found.append(SetOwner(Reference.to(claim), reference, why, is_owner=False))
    return tuple(found)


def _claims(lws: Object) -> dict[str, Any]:
    claims = claims_of(lws)
    return {_CLAIMS: [_claim(claim, namespace_of(lws)) for claim in claims]} if claims else {}


def _claim(claim: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    told, claimed = metadata_of(claim), claim.get("spec") or {}
    resources = claimed.get("resources") or {}
    metadata = {"name": told.get("name", ""), "namespace": namespace}
    metadata |= {field: dict(told[field]) for field in ("labels", "annotations") if told.get(field)}
    wanted = {field: copy.deepcopy(value) for field, value in claimed.items() if value is not None}
    wanted["resources"] = {
        field: dict(resources[field]) for field in ("requests", "limits") if resources.get(field)
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wanted}


def _is_of_workers(claim: Object) -> bool:
    """By the labels that StatefulSets give their claims: the selector of their pods."""
    labels = labels_of(claim)
    return GROUP_KEY_LABEL in labels and WORKER_INDEX_LABEL not in labels
