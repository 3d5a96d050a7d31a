"""Are the CustomResourceDefinitions those of this release, and does the API server serve them?

In: an installation. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.actions import Object
from lws.cli.facts.doctor.finding import Finding, Result, Unchecked
from lws.cli.facts.doctor.installation import Installation
from lws.cli.facts.doctor.reading import Denied, ReadMany
from lws.kube import conditions
from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import LEADER_WORKER_SET

CHECK = "definitions"
_SHOWN = 3
_NO_CONVERSION = '[{"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}}]'
_UPGRADE = (
    "apply the definitions of this release: upgrade the chart with crds.enabled=true, or "
    "`kubectl apply --server-side` the files of charts/lws/templates/crds"
)


def check(facts: Installation) -> Iterator[Result]:
    """Definitions of kinds that are optional may be missing."""
    wanted = {each["metadata"]["name"]: each for each in definitions().values()}
    for name, stored in facts.definitions.items():
        if isinstance(stored, Denied):
            yield Unchecked(CHECK, f"CustomResourceDefinition {name}", stored.permission)
        elif stored is not None:
            yield from _of_one(stored, wanted[name], facts.all_definitions)
        elif name == LEADER_WORKER_SET.crd_name:
            where = f"CustomResourceDefinition {name}"
            yield Finding(CHECK, where, "is missing: there can be no LeaderWorkerSets", "install the chart")


def _of_one(stored: Object, wanted: Mapping[str, Any], others: ReadMany) -> Iterator[Finding]:
    where = f"CustomResourceDefinition {stored['metadata']['name']}"
    spec, status = stored["spec"], stored.get("status") or {}
    yield from _acceptance(where, stored, others)
    if stored["metadata"].get("deletionTimestamp"):
        yield Finding(
            CHECK,
            where,
            "is being deleted, and all its objects with it",
            "make a backup of the sets, let the deletion end, and install the chart again",
        )
    yield from _versions(where, spec, status, wanted["spec"]["versions"])


def _acceptance(where: str, stored: Object, others: ReadMany) -> Iterator[Finding]:
    said = (stored.get("status") or {}).get("conditions") or ()
    lacking = [kind for kind in ("NamesAccepted", "Established") if not conditions.is_true(said, kind)]
    if not lacking:
        return
    # Without its names it is not established either: that is one trouble, not two.
    found = conditions.find(said, lacking[0]) or {}
    why = f": {found['message']}" if found.get("message") else ""
    name = stored["metadata"]["name"]
    do = f"wait a moment and look again; if it stays so: kubectl describe crd {name}"
    if conditions.is_false(said, "NamesAccepted"):
        do = _make_room(stored, others)
    yield Finding(CHECK, where, f"is not {lacking[0]}{why}", do)


def _make_room(stored: Object, others: ReadMany) -> str:
    group = stored["spec"]["group"]
    holders = [
        each["metadata"]["name"]
        for each in (() if isinstance(others, Denied) else others)
        if each["metadata"]["name"] != stored["metadata"]["name"]
        and each["spec"]["group"] == group
        and _names(each) & _names(stored)
    ]
    if holders:
        which = f"CustomResourceDefinition {', '.join(sorted(holders))}, which has its names"
    else:
        which = f"the definition of group {group} that has its names (kubectl get crd | grep {group})"
    return f"delete {which}: all objects of that kind go with it, so save what is needed"


def _names(definition: Object) -> set[str]:
    """What no two definitions of a group may both be called."""
    names = definition["spec"]["names"]
    said = (names.get("plural"), names.get("singular"), names.get("kind"), names.get("listKind"))
    return {each for each in (*said, *(names.get("shortNames") or ())) if each}


def _versions(
    where: str, spec: Mapping[str, Any], status: Mapping[str, Any], wanted: list[Mapping[str, Any]]
) -> Iterator[Finding]:
    there = {each["name"]: each for each in spec["versions"]}
    for version in wanted:
        name, ours = version["name"], there.get(version["name"])
        if ours is None or not ours.get("served"):
            yield Finding(CHECK, where, f"does not serve version {name}", _UPGRADE)
            continue
        if not ours.get("storage"):
            yield Finding(CHECK, where, f"stores another version than {name}", _UPGRADE)
        lacking = sorted(_fields(_schema(version)) - _fields(_schema(ours)))
        if lacking:
            more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
            what = f"is older or of another release: it lacks {', '.join(lacking[:_SHOWN])}{more}"
            yield Finding(CHECK, where, f"{what}; the API server drops what it lacks", _UPGRADE)
    old = sorted(set(status.get("storedVersions") or ()) - {each["name"] for each in wanted})
    if old:
        yield Finding(
            CHECK,
            where,
            f"may have objects stored as {', '.join(old)}",
            "write every set once (`kubectl get lws -A -o json | kubectl replace -f -`), then remove "
            "these from status.storedVersions",
        )
    # With one version, as the original leaves the definition, it is never asked.
    if len(there) > 1 and (spec.get("conversion") or {}).get("strategy", "None") != "None":
        what = "asks a webhook to convert, which this manager does not serve"
        do = f"{_UPGRADE}; then `kubectl patch crd {where.split()[-1]} --type=json -p='{_NO_CONVERSION}'`"
        yield Finding(CHECK, where, what, do)


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _fields(schema: Mapping[str, Any], path: str = "") -> set[str]:
    """Paths of fields outside of pod templates, whose fields depend on the release of Kubernetes."""
    found: set[str] = set()
    for name, each in (schema.get("properties") or {}).items():
        here = f"{path}.{name}".lstrip(".")
        found.add(here)
        is_of_pods = name.endswith(("Template", "Templates"))
        if not is_of_pods or "leaderTemplate" in (each.get("properties") or {}):
            found |= _fields(each, here) | _fields(each.get("items") or {}, f"{here}[]")
    return found
