"""Build the JSON Patch that rolls a DisaggregatedSet back to a recorded revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lws.disaggregatedset.revisions.record import RolesRecord, record
from lws.leaderworkerset.revisions.encoding import LIVE
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import ScalingMode

_TEMPLATE = "leaderWorkerTemplate"


def operations(obj: Object, wanted: RolesRecord, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902). It fails if the set is written in between.

    Roles that are there keep all but their templates; those that come back do so as they were, with as many
    groups as `counts` says.
    """
    version = obj["metadata"]["resourceVersion"]
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    roles = obj["spec"]["roles"]
    if [role["name"] for role in roles] == list(wanted.roles):
        return [test, *_templates(obj, wanted)]
    return [test, {"op": "replace", "path": "/spec/roles", "value": list(_roles(roles, wanted, counts))}]


def _templates(obj: Object, wanted: RolesRecord) -> Iterator[dict[str, Any]]:
    now = record(obj).forms
    for index, role in enumerate(obj["spec"]["roles"]):
        name = role["name"]
        if now[name] != wanted.forms[name]:
            path = f"/spec/roles/{index}/spec/{_TEMPLATE}"
            yield {"op": "replace", "path": path, "value": _template(role, wanted.roles[name])}


def _roles(
    roles: Iterable[Object], wanted: RolesRecord, counts: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """In the order that was recorded, so that the original computes the same key."""
    live = {each["name"]: each for each in roles}
    for part in wanted.parts:
        name = part["name"]
        if name in live:
            spec = {**live[name]["spec"], _TEMPLATE: _template(live[name], part["spec"])}
            role = {**live[name], "spec": spec}
        else:
            role = _returned(part, live.values(), counts)
        if role.get("startAfter"):
            role["startAfter"] = [role_name for role_name in role["startAfter"] if role_name in wanted.roles]
        yield role


def _template(role: Object, recorded: Object) -> dict[str, Any]:
    """The recorded template; fields that take effect at once keep their value."""
    now = role["spec"][_TEMPLATE]
    template = {field: value for field, value in recorded[_TEMPLATE].items() if field not in LIVE}
    return {**template, **{field: now[field] for field in LIVE if field in now}}


def _returned(part: Object, live: Iterable[Object], counts: Mapping[str, int]) -> dict[str, Any]:
    """The API server demands that either all roles or none are at 0, but for those that scalers scale."""
    if _is_external(part):
        return dict(part)
    static = [each["spec"].get("replicas") for each in live if not _is_external(each)]
    is_at_rest = bool(static) and all(count == 0 for count in static)
    count = 0 if is_at_rest else max(counts.get(part["name"], 1), 1)
    return {**part, "spec": {"replicas": count, **part["spec"]}}


def _is_external(role: Object) -> bool:
    return bool((role.get("scaling") or {}).get("mode") == ScalingMode.EXTERNAL)
