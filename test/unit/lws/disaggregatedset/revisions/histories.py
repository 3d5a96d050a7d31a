"""Build DisaggregatedSets, their children and ControllerRevisions as an API server would store them."""

from __future__ import annotations

import copy
import json
from typing import Any

from lws.disaggregatedset.names import key_of
from lws.disaggregatedset.revisions.record import RecordedRoles, read, record
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.runtime.actions import Create, Object, Verbatim
from lws_api.disaggregatedset.v1 import (
    API_VERSION,
    APP_LABEL,
    KIND,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SLICE_LABEL,
)
from test.unit.disaggregated import build_revision, make_snapshot

CREATED = "2026-01-01T00:00:00Z"


def make_role(name: str, image: str = "app:1", **spec: Any) -> dict[str, Any]:
    """Return a role as the definition stores it.

    spec: more fields of its spec, or `labels` of its pods.
    """
    labels = spec.pop("labels", None)
    worker: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": image}]}}
    if labels:
        worker["metadata"] = {"labels": labels}
    template = {"workerTemplate": worker, "size": 2, "restartPolicy": "RecreateGroupOnPodRestart"}
    return {
        "name": name,
        "spec": {"replicas": 2, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": template, **spec},
    }


def make_dset(*roles: dict[str, Any], name: str = "llm", **spec: Any) -> dict[str, Any]:
    """Return a DisaggregatedSet.

    spec: more fields of its spec.
    """
    chosen = roles or (make_role("prefill"), make_role("decode"))
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "generation": 4,
        },
        "spec": {"roles": copy.deepcopy(list(chosen)), "slices": 1, **spec},
    }


def key_by_hash(obj: Object) -> str:
    """Return the key that upstream computes for the set."""
    return key_of(record(obj).roles)


def make_child(
    obj: Object,
    role: str,
    slice_index: int = 0,
    key: str = "",
    is_legacy: bool = False,
    created: str = CREATED,
) -> ChildFacts:
    """Return the child that upstream creates for a role of the set as it is now."""
    name, key = obj["metadata"]["name"], key or key_by_hash(obj)
    part = copy.deepcopy(next(candidate for candidate in obj["spec"]["roles"] if candidate["name"] == role))
    labels = {NAME_LABEL: name, ROLE_LABEL: role, REVISION_LABEL: key}
    labels |= {APP_LABEL: f"{name}-{role}"} if is_legacy else {SLICE_LABEL: str(slice_index)}
    labels.setdefault(APP_LABEL, f"{name}-{slice_index}-{role}")
    template = part["spec"]["leaderWorkerTemplate"]
    for template_name in ("workerTemplate", "leaderTemplate"):
        if template_name in template:
            metadata = template[template_name].setdefault("metadata", {})
            metadata["labels"] = {**metadata.get("labels", {}), **labels}
            _apply_placement(template[template_name]["spec"], obj, slice_index)
    part["spec"] |= {"networkConfig": {"subdomainPolicy": "Shared"}}
    middle = f"{key}-{role}" if is_legacy else f"{slice_index}-{key}-{role}"
    metadata_of_role = part.get("metadata") or {}
    child = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            "name": f"{name}-{middle}",
            "namespace": "default",
            "uid": f"uid-of-{name}-{middle}",
            "creationTimestamp": created,
            "labels": {**metadata_of_role.get("labels", {}), **labels},
            "annotations": dict(metadata_of_role.get("annotations", {})),
        },
        "spec": part["spec"],
    }
    return ChildFacts(child, role, slice_index, key)


def children_of(obj: Object, slices: int = 1, key: str = "", **more: Any) -> tuple[ChildFacts, ...]:
    """Return a child for every role of the set as it is now, in each slice."""
    names = [role["name"] for role in obj["spec"]["roles"]]
    return tuple(make_child(obj, name, index, key, **more) for index in range(slices) for name in names)


def _apply_placement(pod: dict[str, Any], obj: Object, index: int) -> None:
    policy = obj["spec"].get("placementPolicy") or {}
    if policy.get("type", "None") == "None":
        return
    name = obj["metadata"]["name"]
    own = {"key": NAME_LABEL, "operator": "In", "values": [name]}
    same_slice = {"key": SLICE_LABEL, "operator": "In", "values": [str(index)]}
    elsewhere = {"key": SLICE_LABEL, "operator": "NotIn", "values": [str(index)]}
    together, apart = [[own, same_slice]], [[own, elsewhere]]
    if policy["type"] == "ExclusiveTopology":
        others = {"key": NAME_LABEL, "operator": "NotIn", "values": [name]}
        apart.append([{"key": NAME_LABEL, "operator": "Exists"}, others])
    affinity = pod.setdefault("affinity", {})
    for kind, rules in (("podAffinity", together), ("podAntiAffinity", apart)):
        terms = [
            {"labelSelector": {"matchExpressions": rule}, "topologyKey": policy["topology"]} for rule in rules
        ]
        listed, field_name = terms, "requiredDuringSchedulingIgnoredDuringExecution"
        if policy.get("strength") == "Preferred":
            listed = [{"weight": 100, "podAffinityTerm": affinity_term} for affinity_term in terms]
            field_name = "preferredDuringSchedulingIgnoredDuringExecution"
        terms_of_kind = affinity.setdefault(kind, {})
        terms_of_kind[field_name] = [*terms_of_kind.get(field_name, []), *listed]


def stored(revision: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a ControllerRevision as the API server returns it."""
    result = {**revision, "metadata": dict(revision["metadata"])}
    if isinstance(result["data"], Verbatim):
        result["data"] = json.loads(result["data"].text)
    name = result["metadata"]["name"]
    server_fields = {"uid": f"uid-of-{name}", "resourceVersion": "1", "creationTimestamp": CREATED}
    result["metadata"] |= server_fields | metadata
    return result


def revision_of(obj: Object, number: int = 1, key: str = "", **metadata: Any) -> dict[str, Any]:
    """Return the stored revision of the set as it is now."""
    content = record(obj)
    return stored(build_revision(obj, content, key or key_of(content.roles), number), **metadata)


def recorded(obj: Object, number: int = 1, key: str = "", **metadata: Any) -> RecordedRoles:
    """Return the decoded revision of the set as it is now."""
    return read(revision_of(obj, number, key, **metadata))


def snapshot_of(
    obj: dict[str, Any],
    revisions: tuple[RecordedRoles, ...] = (),
    children: tuple[ChildFacts, ...] = (),
    **more: Any,
) -> DisaggregatedSnapshot:
    """Return the snapshot of a set. more: other facts, and `is_alive`."""
    return make_snapshot(obj, children, revisions=revisions, **more)


def created(actions: Any) -> list[RecordedRoles]:
    """Return the revisions that these actions record."""
    return [read(stored(dict(action.intent))) for action in actions if isinstance(action, Create)]
