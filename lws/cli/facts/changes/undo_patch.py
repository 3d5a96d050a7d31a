"""Build the JSON Patch that rolls a set back to a recorded revision, or raise a `Refusal`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.cli.refusal import Refusal
from lws.kube.metadata import annotations_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import LIVE, equality_tree
from lws.leaderworkerset.revisions.history import Recorded, restore
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object

FIELD_MANAGER = "lws-undo"
# They keep their own record of what they applied, and write as anybody does.
_CLIENT_SIDE_APPLIERS = ("argocd-controller", "helm", "kubectl-client-side-apply")

_TEMPLATE, _NETWORK = "leaderWorkerTemplate", "networkConfig"
_ROLES = "roles"


def check(lws: Object, target: Recorded) -> None:
    """Raises Refusal where going back is impossible."""
    if SetSpec.of(lws).paused:
        name = lws["metadata"]["name"]
        raise Refusal(f"set {name} is paused: let it go on first (resume {name}), then undo")
    old, new = equality_tree(lws["spec"])[_TEMPLATE], equality_tree(target.spec)[_TEMPLATE]
    if old.get("volumeClaimTemplates") != new.get("volumeClaimTemplates"):
        raise Refusal(
            f"revision {target.number} has other volumeClaimTemplates, and those of a StatefulSet cannot be "
            f"changed: make a new set, or put the templates of pods back by hand"
        )
    if (old.get("subGroupPolicy") is None) != (new.get("subGroupPolicy") is None):
        has = "no subGroupPolicy" if new.get("subGroupPolicy") is None else "a subGroupPolicy"
        raise Refusal(
            f"revision {target.number} has {has}, and that can be neither added nor removed: make a new set"
        )


def operations(lws: Object, target: Recorded) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902). It fails if somebody else writes the set in between."""
    now = lws["spec"]
    template = {key: value for key, value in target.spec[_TEMPLATE].items() if key not in LIVE}
    template |= {key: now[_TEMPLATE][key] for key in LIVE if key in now[_TEMPLATE]}
    policy = fields.SUBDOMAIN_POLICY
    network = target.spec.get(_NETWORK) or {policy.name: policy.stored_default}
    version = lws["metadata"]["resourceVersion"]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": f"/spec/{_TEMPLATE}", "value": template},
        {"op": "replace" if _NETWORK in now else "add", "path": f"/spec/{_NETWORK}", "value": network},
        *_annotations(lws, target),
    ]


def _annotations(lws: Object, target: Recorded) -> Iterator[dict[str, Any]]:
    """Those that ask for exclusive placement are part of a revision: without them it would be another."""
    now = dict(annotations_of(lws))
    then = dict(annotations_of(restore(lws, target)))
    if now == then:
        return
    if not now:
        yield {"op": "add", "path": "/metadata/annotations", "value": {}}
    for key in sorted(now.keys() - then.keys()):
        yield {"op": "remove", "path": f"/metadata/annotations/{_escaped(key)}"}
    for key in sorted(then):
        if now.get(key) != then[key]:
            yield {"op": "add", "path": f"/metadata/annotations/{_escaped(key)}", "value": then[key]}


def _escaped(key: str) -> str:
    """A key in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def appliers(lws: Object) -> list[str]:
    """Who applies the fields that undo writes, and so would undo the undo: names of field managers."""
    managers = set()
    for entry in lws["metadata"].get("managedFields") or ():
        if entry.get("subresource") or entry.get("manager") == FIELD_MANAGER:
            continue
        is_applier = entry.get("operation") == "Apply" or entry.get("manager") in _CLIENT_SIDE_APPLIERS
        if is_applier and _owns_template(entry.get("fieldsV1") or {}):
            managers.add(str(entry["manager"]))
    return sorted(managers)


def _owns_template(fields: Mapping[str, Any]) -> bool:
    owned = fields.get("f:spec") or {}
    return any(f"f:{part}" in owned for part in (_TEMPLATE, _NETWORK, _ROLES))
