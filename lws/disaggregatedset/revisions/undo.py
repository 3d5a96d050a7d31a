"""Build the JSON Patch that rolls a DisaggregatedSet back to a recorded revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lws.disaggregatedset.names import hash_identity
from lws.disaggregatedset.revisions.record import RolesRecord, record
from lws.leaderworkerset import fields
from lws.leaderworkerset.revisions.encoding import LIVE
from lws.runtime.actions import Object
from lws_api.disaggregatedset.v1 import ScalingMode

_TEMPLATE = "leaderWorkerTemplate"


def operations(obj: Object, desired: RolesRecord, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902). It fails if the set changes in between.

    Existing roles only get their templates; removed roles are restored as recorded, with the numbers of
    groups in `counts`.
    """
    version = obj["metadata"]["resourceVersion"]
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    roles = obj["spec"]["roles"]
    if [role["name"] for role in roles] == list(desired.roles):
        return [test, *_templates(obj, desired)]
    return [test, {"op": "replace", "path": "/spec/roles", "value": list(_roles(roles, desired, counts))}]


def _templates(obj: Object, desired: RolesRecord) -> Iterator[dict[str, Any]]:
    now = record(obj).forms
    for index, role in enumerate(obj["spec"]["roles"]):
        name = role["name"]
        if now[name] != desired.forms[name]:
            path = f"/spec/roles/{index}/spec/{_TEMPLATE}"
            yield {"op": "replace", "path": path, "value": _template(role, desired.roles[name])}
            for field, value in _identity(role["spec"], desired.roles[name]).items():
                yield {"op": "add", "path": f"/spec/roles/{index}/spec/{field}", "value": value}


def _roles(
    roles: Iterable[Object], desired: RolesRecord, counts: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """In the recorded order, so that upstream computes the same key."""
    live = {each["name"]: each for each in roles}
    for part in desired.parts:
        name = part["name"]
        if name in live:
            spec = {
                **live[name]["spec"],
                _TEMPLATE: _template(live[name], part["spec"]),
                **_identity(live[name]["spec"], part["spec"]),
            }
            role = {**live[name], "spec": spec}
        else:
            role = _returned(part, live.values(), counts)
        if role.get("startAfter"):
            role["startAfter"] = [role_name for role_name in role["startAfter"] if role_name in desired.roles]
        yield role


def _template(role: Object, recorded: Object) -> dict[str, Any]:
    """The recorded template; fields that take effect at once keep their value."""
    now = role["spec"][_TEMPLATE]
    template = {field: value for field, value in recorded[_TEMPLATE].items() if field not in LIVE}
    return {**template, **{field: now[field] for field in LIVE if field in now}}


def _identity(now: Object, recorded: Object) -> dict[str, str]:
    """The recorded `groupIdentity`, if it is another one."""
    if hash_identity(now) == hash_identity(recorded):
        return {}
    return {fields.GROUP_IDENTITY.name: hash_identity(recorded) or fields.GROUP_IDENTITY.stored_default}


def _returned(part: Object, live: Iterable[Object], counts: Mapping[str, int]) -> dict[str, Any]:
    """The API server requires that all roles or none are at 0, except roles with external scaling."""
    if _is_external(part):
        return dict(part)
    static = [each["spec"].get("replicas") for each in live if not _is_external(each)]
    is_at_rest = bool(static) and all(count == 0 for count in static)
    count = 0 if is_at_rest else max(counts.get(part["name"], 1), 1)
    return {**part, "spec": {"replicas": count, **part["spec"]}}


def _is_external(role: Object) -> bool:
    return bool((role.get("scaling") or {}).get("mode") == ScalingMode.EXTERNAL)
