"""Read metadata of objects of any shape, and build it for new ones. No function changes its arguments."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

# Domains (and their subdomains) of labels and annotations by which deployment tools recognise their objects.
# On a child, they would make the tool delete the child as an object that it no longer applies. Domains of
# descriptive labels and annotations are not included (app.kubernetes.io/*, helm.sh/chart,
# skaffold.dev/run-id), because users select by them. app.kubernetes.io/instance is not included either: Argo
# CD before 3.0 finds its objects by it, but ignores objects that have an owner.
_TOOLS = frozenset(
    {
        "addon.kops.k8s.io",
        "addonmanager.kubernetes.io",
        "applyset.kubernetes.io",  # kubectl apply --applyset, kro
        "apps.open-cluster-management.io",
        "argocd.argoproj.io",
        "aws.cdk.eks",
        "cli-utils.sigs.k8s.io",
        "config.k8s.io",  # kpt, Config Sync, the agent of GitLab
        "config.kubernetes.io",
        "configmanagement.gke.io",
        "configsync.gke.io",
        "fleet.cattle.io",
        "fluxcd.controlplane.io",
        "fluxcd.io",  # its toolkit too
        "hnc.x-k8s.io",  # hierarchical namespaces: a copy without its source is deleted
        "kapp.k14s.io",
        "karmada.io",
        "kluctl.io",
        "kro.run",
        "meta.helm.sh",
        "objectset.rio.cattle.io",  # Rancher Fleet, K3s, RKE2
        "projectsveltos.io",
        "resources.gardener.cloud",
        "tanka.dev",
        "vcluster.loft.sh",
    }
)
RESTARTED_AT_ANNOTATION = "kubectl.kubernetes.io/restartedAt"
"""The annotation of pod templates with which users restart pods, as `kubectl rollout restart` does."""
ORPHAN_FINALIZER = "orphan"
"""Finalizer of a deleted object whose dependents are kept (`kubectl delete --cascade=orphan`)."""

LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the labels of an object; an empty mapping if they are missing, null or not an object."""
    return _strings_at(obj, "labels")


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of an object; an empty mapping if they are missing, null or not an object."""
    return _strings_at(obj, "annotations")


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Return whether the object is being deleted, and waits for finalizers or the end of its grace period."""
    return bool(metadata_of(obj).get("deletionTimestamp"))


def metadata_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of an object; an empty mapping if it is missing, null or not an object."""
    metadata = obj.get("metadata")
    # Checked inline, because this runs several times per pod in every pass.
    if type(metadata) is dict:
        return metadata
    return metadata if isinstance(metadata, Mapping) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    """Return the name of a stored object."""
    name: str = obj["metadata"]["name"]
    return name


def namespace_of(obj: Mapping[str, Any]) -> str:
    """Return the namespace of a stored, namespaced object."""
    namespace: str = obj["metadata"]["namespace"]
    return namespace


def uid_of(obj: Mapping[str, Any]) -> str:
    """Return the UID of a stored object."""
    uid: str = obj["metadata"]["uid"]
    return uid


def version_number(version: str) -> int:
    """Return a resourceVersion as a number (KEP-5504); 0 if it is not a number."""
    return int(version) if version.isdigit() else 0


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference with `controller: true`; None for an orphan (ControllerRef rules)."""
    references = metadata_of(obj).get("ownerReferences")
    if not isinstance(references, list):
        return None
    for reference in references:
        if is_mapping(reference) and reference.get("controller") is True:
            return reference
    return None


def is_controlled_by(obj: Mapping[str, Any], uid: str) -> bool:
    """Return whether the controller of the object has this UID. Names are not compared."""
    controller = controller_of(obj)
    return controller is not None and bool(uid) and controller.get("uid") == uid


def owner_reference(owner: Mapping[str, Any], blocks_deletion: bool = True) -> dict[str, Any]:
    """Build the reference by which `owner` controls a child. Raises KeyError if the owner lacks a part of it.

    blocks_deletion: whether a foreground deletion of the owner waits for the child.
    """
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {**reference, "blockOwnerDeletion": True} if blocks_deletion else reference


def child_metadata(
    owner: Mapping[str, Any],
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    blocks_deletion: bool = True,
) -> dict[str, Any]:
    """Build the metadata of an object that we create for its controller `owner`, in the same namespace."""
    return {
        "name": name,
        "namespace": namespace_of(owner),
        "labels": dict(labels),
        **({"annotations": dict(annotations)} if annotations else {}),
        "ownerReferences": [owner_reference(owner, blocks_deletion)],
    }


def missing_labels(obj: Mapping[str, Any], desired: Mapping[str, str]) -> dict[str, str]:
    """Return the desired labels that the object lacks or has with another value."""
    carried = labels_of(obj)
    return {key: value for key, value in desired.items() if carried.get(key) != value}


@lru_cache(maxsize=4096)
def belongs_to_a_tool(key: str) -> bool:
    """Return whether a deployment tool tracks or prunes objects by this label or annotation."""
    domain, slash, _ = key.partition("/")
    while slash and domain:
        if domain in _TOOLS:
            return True
        domain = domain.partition(".")[2]
    return key == LAST_APPLIED_ANNOTATION


def inherited(values: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations of an owner, except those of deployment tools."""
    return {key: value for key, value in (values or {}).items() if not belongs_to_a_tool(key)}


def without_tool_keys(child: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Extend a merge patch so that it also removes labels and annotations of deployment tools from a child.

    Earlier releases and upstream copied them from the owner. They are removed only along with another change.
    """
    metadata = dict(patch.get("metadata") or {})
    for field in ("labels", "annotations"):
        if removed := {key: None for key in _strings_at(child, field) if belongs_to_a_tool(key)}:
            metadata[field] = {**removed, **(metadata.get(field) or {})}
    return {**patch, "metadata": metadata} if metadata else dict(patch)


def deep_merged(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; the override takes precedence."""
    nested = {
        name: deep_merged(base[name], value)
        for name, value in override.items()
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping)
    }
    return {**base, **override, **nested}


def without(values: Mapping[str, Any], keys: Container[str]) -> dict[str, Any]:
    """Return the values without these keys."""
    return {key: value for key, value in values.items() if key not in keys}


def copied(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of JSON data, which shares no mapping or list with `obj`."""
    return {key: _copied_value(value) for key, value in obj.items()}


def _copied_value(value: Any) -> Any:
    if type(value) is str:
        return value
    if is_mapping(value):
        return copied(value)
    if isinstance(value, list):
        return [_copied_value(item) for item in value]
    return value


def _strings_at(obj: Mapping[str, Any], field: str) -> Mapping[str, str]:
    values = metadata_of(obj).get(field)
    if type(values) is dict:
        return values
    return values if isinstance(values, Mapping) else {}


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether the value is a JSON object, of any mapping type."""
    # The check of the exact type is ten times as fast.
    return type(value) is dict or isinstance(value, Mapping)


def mappings_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a JSON list; empty if the value is not a list."""
    return [item for item in value if is_mapping(item)] if isinstance(value, list) else []


# --- Convert label selectors of the API to the text form of queries.


def as_query(selector: Mapping[str, Any]) -> str:
    """Convert a label selector to the text form of queries; empty if it selects everything.

    Raises ValueError for an operator unknown to the API, because a query without it would select more.
    """
    return ",".join(_requirements(selector))


def _requirements(selector: Mapping[str, Any]) -> Iterator[str]:
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        yield f"{key}={value}"
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(expression.get("values") or ())
        match operator:
            case "In":
                yield f"{key} in ({values})"
            case "NotIn":
                yield f"{key} notin ({values})"
            case "Exists":
                yield key
            case "DoesNotExist":
                yield f"!{key}"
            case _:
                raise ValueError(f"label selectors have no operator {operator!r}")
