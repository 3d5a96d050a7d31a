"""A second kind of workload, which the runtime knows only through its registration.

A Fleet creates one LeaderWorkerSet, maintains its `replicas`, and reports the number of ready replicas in its
status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lws.config import Settings
from lws.kube.metadata import controller_of, is_controlled_by, is_terminating, owner_reference
from lws.runtime.actions import Announce, Create, Key, Merge, Object, Plan, Reference, Status, Wake
from lws.runtime.apply import Applier, WriteHooks
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import LEADERWORKERSETS, Resource, Workload
from lws.runtime.leadership.election import Scope
from lws.runtime.lookup import Lookup
from lws.runtime.loop import Kind, Term
from lws.runtime.registration import Controller, Parts, Registration
from lws.runtime.store import Store
from lws.runtime.stored_fields import StoredField, StoredFields, Wakes
from lws.runtime.webhooks.handlers import Handler, refuse
from test.unit.builders import make_set

FLEETS = Resource("example.com/v1", "Fleet", "fleets")
LABEL = "example.com/fleet"
VALIDATE = "validate-example-com-v1-fleet"
SET = "LeaderWorkerSet"


def make_fleet(name: str, replicas: int, namespace: str = "default") -> dict[str, Any]:
    """Return a Fleet as a user writes it."""
    metadata = {"name": name, "namespace": namespace}
    fleet = {"apiVersion": FLEETS.api_version, "kind": "Fleet", "metadata": metadata}
    return {**fleet, "spec": {"replicas": replicas}}


def definition() -> dict[str, Any]:
    """Return the CRD of Fleet."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{FLEETS.plural}.{FLEETS.group}"},
        "spec": {
            "group": FLEETS.group,
            "scope": "Namespaced",
            "names": {"kind": "Fleet", "plural": FLEETS.plural, "singular": "fleet"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


@dataclass(frozen=True, slots=True)
class Snapshot:
    fleet: Object
    child: Object | None

    @property
    def is_own(self) -> bool:
        return self.child is not None and is_controlled_by(self.child, self.fleet["metadata"]["uid"])


class _Observer:
    def __init__(self, parts: Parts, cluster: Cluster) -> None:
        self._store = parts.store
        self._lookup = Lookup(cluster, parts.store, LABEL)

    async def observe(self, namespace: str, name: str, now: datetime) -> Snapshot | None:
        fleet = self._store.get("Fleet", namespace, name)
        if fleet is None or is_terminating(fleet):
            return None
        uid = fleet["metadata"]["uid"]
        return Snapshot(fleet, await self._lookup.named(SET, namespace, name, uid, look_when_absent=True))


def plan(snapshot: Snapshot) -> Plan:
    """Create or resize the LeaderWorkerSet of a Fleet, unless it has another owner."""
    fleet, child = snapshot.fleet, snapshot.child
    target, replicas = Reference.to(fleet), fleet["spec"]["replicas"]
    if child is None:
        launched = Announce(target, "Launched", "Create", f"LeaderWorkerSet {target.name} of {replicas}")
        return Plan(((Create(_child(fleet), why="it is missing", announce=(launched,)),),))
    if not snapshot.is_own:
        name_taken = Announce(target, "NameTaken", "Create", "somebody else's", "Warning", once=True)
        return Plan(announce=(name_taken,))
    resize = Merge(Reference.to(child), {"spec": {"replicas": replicas}}, why="the size was changed")
    ready = (child.get("status") or {}).get("readyReplicas", 0)
    status = Status(target, {"ready": ready})
    return Plan(
        ((resize,),) if child["spec"]["replicas"] != replicas else (),
        (status,) if (fleet.get("status") or {}).get("ready") != ready else (),
    )


def _child(fleet: Object) -> dict[str, Any]:
    name, namespace = fleet["metadata"]["name"], fleet["metadata"]["namespace"]
    lws = make_set(name, namespace=namespace, replicas=fleet["spec"]["replicas"], size=2)
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {LABEL: name},
        "ownerReferences": [owner_reference(fleet, blocks_deletion=False)],
    }
    return {**{part: lws[part] for part in ("apiVersion", "kind", "spec")}, "metadata": metadata}


def _of_fleet(before: Object | None, after: Object | None) -> Iterator[Wake]:
    metadata = (after or before or {})["metadata"]
    yield Key("fleet", metadata["namespace"], metadata["name"]), 0.0


def _of_child(before: Object | None, after: Object | None) -> Iterable[Wake]:
    owners = {owner["name"] for obj in (before, after) if obj and (owner := _fleet_of(obj))}
    namespace = (after or before or {})["metadata"]["namespace"]
    return [(Key("fleet", namespace, name), 0.0) for name in sorted(owners)]


def _fleet_of(obj: Object) -> Mapping[str, Any] | None:
    owner = controller_of(obj)
    return owner if owner is not None and owner["kind"] == "Fleet" else None


def _build(parts: Parts) -> Controller:
    def keys(scope: Scope) -> Iterator[Key]:
        for fleet in parts.store.of_kind("Fleet"):
            if scope(fleet["metadata"]["namespace"]):
                yield Key("fleet", fleet["metadata"]["namespace"], fleet["metadata"]["name"])

    def begin(cluster: Cluster) -> Term:
        applier = Applier(cluster, parts.recorder, WriteHooks(parts.store.put), parts.locks)
        return Term({"fleet": Kind(_Observer(parts, cluster).observe, plan, applier.apply, "fleet")}, routes)

    routes = {"Fleet": _of_fleet, SET: _of_child}
    return Controller(begin, keys)


def _handlers(settings: Settings, store: Store, cluster: Cluster) -> Mapping[str, Handler]:
    async def validate(*, new: Mapping[str, Any] | None, **_: Any) -> None:
        if new is not None and new["spec"]["replicas"] < 1:
            refuse("spec.replicas: a Fleet has at least one")

    return {VALIDATE: validate}


REGISTRATION = Registration(
    workload=Workload(FLEETS, LABEL, (LEADERWORKERSETS,)),
    reporter="fleet-controller",
    build=_build,
    endpoints={VALIDATE: FLEETS},
    handlers=_handlers,
    # Passes over the LeaderWorkerSet itself read no counts.
    reads=(
        StoredFields(
            SET,
            (StoredField("metadata.generation"), StoredField("status.readyReplicas")),
            others=Wakes.NONE,
        ),
    ),
)
