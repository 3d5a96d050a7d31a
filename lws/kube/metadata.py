"""Read metadata of objects of any shape: labels, annotations, owners, deletion. Build that of objects that we
create. Objects are never changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

# Domains, with subdomains, whose labels and annotations assign an object to a deployment tool. On a child,
# they would make the tool delete the child as one that it no longer applies. Descriptive ones are not
# included (app.kubernetes.io/*, helm.sh/chart, skaffold.dev/run-id), because users select by them. Neither is
# app.kubernetes.io/instance, by which Argo CD before 3.0 finds its objects: it ignores objects with an owner.
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
ORPHAN_FINALIZER = "orphan"
"""Of an object whose dependents are to stay (`kubectl delete --cascade=orphan`)."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Labels of an object; empty if they are missing, null or no object."""
    return _strings_at(obj, "labels")


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Annotations of an object; empty if they are missing, null or no object."""
    return _strings_at(obj, "annotations")


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """True once the deletion of the object is accepted: it waits for finalizers or its grace period."""
    return bool(metadata_of(obj).get("deletionTimestamp"))


def metadata_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object; empty if it is missing, null or no object."""
    metadata = obj.get("metadata")
    # Without another call: this is called for every pod, several times in every pass.
    if type(metadata) is dict:
        return metadata
    return metadata if isinstance(metadata, Mapping) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    """The name of a stored object."""
    name: str = obj["metadata"]["name"]
    return name


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The namespace of a stored, namespaced object."""
    namespace: str = obj["metadata"]["namespace"]
    return namespace


def uid_of(obj: Mapping[str, Any]) -> str:
    """The UID of a stored object."""
    uid: str = obj["metadata"]["uid"]
    return uid


def version_number(version: str) -> int:
    """A resourceVersion as a number (KEP-5504); 0 if it is none."""
    return int(version) if version.isdigit() else 0


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one owner reference with `controller: true`, or None for an orphan (ControllerRef rules)."""
    references = metadata_of(obj).get("ownerReferences")
    if not isinstance(references, list):
        return None
    for reference in references:
        if is_mapping(reference) and reference.get("controller") is True:
            return reference
    return None


def is_controlled_by(obj: Mapping[str, Any], uid: str) -> bool:
    """True if the controller of the object has this UID; names do not count."""
    controller = controller_of(obj)
    return controller is not None and bool(uid) and controller.get("uid") == uid


def owner_reference(owner: Mapping[str, Any], blocks_deletion: bool = True) -> dict[str, Any]:
    """The reference by which `owner` controls a child. blocks_deletion: foreground deletion waits for it.

    `owner` must have apiVersion, kind, metadata.name and metadata.uid (KeyError otherwise), which the API
    server requires.
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
    """The metadata of every object that we create. owner: its controller, in the same namespace.
    blocks_deletion: as in `owner_reference`.
    """
    return {
        "name": name,
        "namespace": namespace_of(owner),
        "labels": dict(labels),
        **({"annotations": dict(annotations)} if annotations else {}),
        "ownerReferences": [owner_reference(owner, blocks_deletion)],
    }


def missing_labels(obj: Mapping[str, Any], desired: Mapping[str, str]) -> dict[str, str]:
    """Desired labels that the object lacks or has with another value."""
    carried = labels_of(obj)
    return {key: value for key, value in desired.items() if carried.get(key) != value}


@lru_cache(maxsize=4096)
def belongs_to_a_tool(key: str) -> bool:
    """Report whether a deployment tool tracks or prunes objects by this label or annotation."""
    domain, slash, _ = key.partition("/")
    while slash and domain:
        if domain in _TOOLS:
            return True
        domain = domain.partition(".")[2]
    return key == _LAST_APPLIED


def inherited(values: Mapping[str, str] | None) -> dict[str, str]:
    """Labels or annotations of an owner that may be copied to a child: all but those of deployment tools."""
    return {key: value for key, value in (values or {}).items() if not belongs_to_a_tool(key)}


def without_tool_keys(child: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that also removes labels and annotations of tools from a child.

    Earlier releases and upstream copied them. They alone are not worth a write.
    """
    metadata = dict(patch.get("metadata") or {})
    for field in ("labels", "annotations"):
        if removed := {key: None for key in _strings_at(child, field) if belongs_to_a_tool(key)}:
            metadata[field] = {**removed, **(metadata.get(field) or {})}
    return {**patch, "metadata": metadata} if metadata else dict(patch)


def merged(*maps: Mapping[str, str] | None) -> dict[str, str]:
    """A new dict of all maps, later ones winning; None counts as empty."""
    result: dict[str, str] = {}
    for mapping in maps:
        result.update(mapping or {})
    return result


def united(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; the second takes precedence."""
    nested = {
        name: united(one[name], value)
        for name, value in two.items()
        if isinstance(value, Mapping) and isinstance(one.get(name), Mapping)
    }
    return {**one, **two, **nested}


def without(values: Mapping[str, Any], keys: Container[str]) -> dict[str, Any]:
    """The values without these keys."""
    return {key: value for key, value in values.items() if key not in keys}


def copied(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of JSON data that shares no mapping or list with `obj`."""
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
    """True for a JSON object in any mapping type."""
    # The first check is ten times as fast.
    return type(value) is dict or isinstance(value, Mapping)


# --- Convert label selectors of the API to the text form of queries.


def as_query(selector: Mapping[str, Any]) -> str:
    """The selector as text; empty for one that selects everything.

    Raises ValueError for an operator that the API does not have: to leave it out would select more.
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
