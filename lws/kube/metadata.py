"""What the metadata of any object says: labels, annotations, owners, deletion.

In: objects as plain JSON data, whatever shape a user gave them. Out: answers and new dicts; the objects are
never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

# Domains whose labels and annotations say to which deployment tool an object belongs, with all below them. On
# a child they would make the tool believe that it applied the child, and delete it with the next run, which
# does not ask for it. What only describes (app.kubernetes.io/*, helm.sh/chart, skaffold.dev/run-id) is not
# among them, for users select by it. Nor is app.kubernetes.io/instance, by which Argo CD before 3.0 finds
# what is its own: it passes over whatever has an owner.
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
        "hnc.x-k8s.io",  # hierarchical namespaces: a copy without its original goes
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
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Labels of an object; empty where they are missing, null or no object."""
    return _strings_at(obj, "labels")


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """Annotations of an object; empty where they are missing, null or no object."""
    return _strings_at(obj, "annotations")


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """True once the deletion of the object is accepted and only waits for finalizers or its grace period."""
    return bool(metadata_of(obj).get("deletionTimestamp"))


def metadata_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object; empty where it is missing, null or no object."""
    metadata = obj.get("metadata")
    # Without another call: this is asked for every pod, again and again, in every pass.
    if type(metadata) is dict:
        return metadata
    return metadata if isinstance(metadata, Mapping) else {}


def name_of(obj: Mapping[str, Any]) -> str:
    """The name of an object that was stored."""
    name: str = obj["metadata"]["name"]
    return name


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The namespace of a namespaced object that was stored."""
    namespace: str = obj["metadata"]["namespace"]
    return namespace


def uid_of(obj: Mapping[str, Any]) -> str:
    """The UID of an object that was stored."""
    uid: str = obj["metadata"]["uid"]
    return uid


def version_number(version: str) -> int:
    """A resourceVersion as the number that it is (KEP-5504), 0 for one that is none."""
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
    """True only if the controller of the object is the very object with this UID; names never count."""
    controller = controller_of(obj)
    return controller is not None and bool(uid) and controller.get("uid") == uid


def owner_reference(owner: Mapping[str, Any], blocks_deletion: bool = True) -> dict[str, Any]:
    """The reference by which `owner` controls a child. blocks_deletion: foreground deletion waits for it.

    `owner` must carry apiVersion, kind, metadata.name and metadata.uid (KeyError otherwise): a reference
    without one of them would be refused by the API server or point at nothing.
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


def missing_labels(obj: Mapping[str, Any], wanted: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Labels of `keys` that the object lacks or has with another value, with the desired value."""
    carried = labels_of(obj)
    return {key: wanted[key] for key in keys if carried.get(key) != wanted[key]}


@lru_cache(maxsize=4096)
def is_tools_own(key: str) -> bool:
    """Report whether a deployment tool tracks or prunes objects by this label or annotation."""
    domain, slash, _ = key.partition("/")
    while slash and domain:
        if domain in _TOOLS:
            return True
        domain = domain.partition(".")[2]
    return key == _LAST_APPLIED


def inherited(values: Mapping[str, str] | None) -> dict[str, str]:
    """The labels or annotations of an owner that its children inherit."""
    return {key: value for key, value in (values or {}).items() if not is_tools_own(key)}


def without_tools_own(child: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that also removes from a child what it must not inherit.

    Earlier releases, and the original, copied that. By itself it is worth no write.
    """
    metadata = dict(patch.get("metadata") or {})
    for field in ("labels", "annotations"):
        if gone := {key: None for key in _strings_at(child, field) if is_tools_own(key)}:
            metadata[field] = {**gone, **(metadata.get(field) or {})}
    return {**patch, "metadata": metadata} if metadata else dict(patch)


def merged(*maps: Mapping[str, str] | None) -> dict[str, str]:
    """A new dict of all maps, later ones winning; None counts as empty."""
    result: dict[str, str] = {}
    for mapping in maps:
        result.update(mapping or {})
    return result


def united(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings as one, down to their leaves; of a value in both, the second."""
    nested = {
        name: united(one[name], value)
        for name, value in two.items()
        if isinstance(value, Mapping) and isinstance(one.get(name), Mapping)
    }
    return {**one, **two, **nested}


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
    """True for a JSON object, whatever holds it."""
    # The first question is ten times as quick.
    return type(value) is dict or isinstance(value, Mapping)


# --- Label selectors: the structured form of the API, as the text that a query takes.


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
