"""Plan the Services of the roles of a slice.

A revision has Services while all of its roles have a ready group, so that clients of Services never use a
partial revision. Only Services that the set controls are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lws.disaggregatedset.children.role_sets import initial_of
from lws.disaggregatedset.children.scalers import scaler_counts, share
from lws.disaggregatedset.names import Identity, child_name, identity_of, selected_labels, service_name
from lws.disaggregatedset.snapshot import ChildFacts, DisaggregatedSnapshot
from lws.disaggregatedset.spec import DisaggregatedSpec
from lws.kube.metadata import child_metadata, is_terminating, labels_of
from lws.kube.ownership import ownership_of
from lws.runtime.actions import Create, Delete, Object, Plan, Reference, merge_plans
from lws.runtime.children import Child, plan_child, repair_service

KIND = "Service"
_HEADLESS = "None"

_Owned = tuple[Object, Identity]


def plan_services(
    seen: DisaggregatedSnapshot, spec: DisaggregatedSpec, key: str, recorded: Mapping[str, Collection[str]]
) -> Plan:
    """Plan the Services of all slices; `key` is the target revision.

    recorded: revision key → names of roles. The LeaderWorkerSets show the roles of other revisions.
    """
    totals, owned = scaler_counts(seen), _identified(seen)
    services: dict[int, list[_Owned]] = {}
    for revision in owned:
        services.setdefault(revision[1].slice_index, []).append(revision)
    stored = {service["metadata"]["name"]: service for service in seen.services}
    plans: list[Plan] = []
    for index in range(spec.slices):
        desired = {
            role.name
            for role in spec.roles
            if (share(totals.get(role.name, 0), spec.slices, index) if role.is_external else role.replicas)
        }
        children = [child for child in seen.of_slice(index) if not child.is_terminating]
        by_key: dict[str, dict[str, ChildFacts]] = {}
        for child in sorted(children, key=lambda child: not child.is_legacy):
            by_key.setdefault(child.key, {})[child.role] = child
        complete = {
            revision
            for revision, of_key in by_key.items()
            if _is_complete(
                of_key, desired if revision == key else _roles_in_use(of_key, recorded.get(revision))
            )
        }
        plans += [_plan_service(seen, child, stored) for child in children if child.key in complete]
        if key in complete:
            plans += [
                _delete(service, f"revision {identity.key} does not serve any more")
                for service, identity in services.get(index, ())
                if identity.key not in complete
            ]
    return merge_plans(*plans, *_delete_surplus(seen, owned, spec.slices))


def _delete_surplus(seen: DisaggregatedSnapshot, owned: Iterable[_Owned], slices: int) -> Iterator[Plan]:
    """Delete Services of surplus slices. Also delete Services of earlier releases whose LeaderWorkerSet is
    deleted: without a slice in the selector, they would select pods of all slices.
    """
    children = {child.obj["metadata"]["name"] for child in seen.children}
    for service, identity in owned:
        if identity.slice_index >= slices:
            yield _delete(service, f"slice {identity.slice_index} is not desired")
        elif identity.is_legacy and child_name(seen.owner.name, identity) not in children:
            yield _delete(service, "it knows no slice, and its LeaderWorkerSet is gone")


def build_service(owner: Object, identity: Identity) -> dict[str, Any]:
    """Build the headless Service of a child, without ports. Its name resolves to the ready pods."""
    name = owner["metadata"]["name"]
    labels = selected_labels(name, identity)
    return {
        "apiVersion": "v1",
        "kind": KIND,
        "metadata": child_metadata(
            owner, service_name(child_name(name, identity)), labels, blocks_deletion=False
        ),
        "spec": {"clusterIP": _HEADLESS, "selector": labels},
    }


def _roles_in_use(children: Mapping[str, ChildFacts], recorded: Collection[str] | None) -> set[str]:
    """Return the roles of an old revision that have, or had when the rollout began, desired groups."""
    idle = {role for role, child in children.items() if not child.desired and not initial_of(child.obj)}
    return set(children if recorded is None else recorded) - idle


def _is_complete(children: Mapping[str, ChildFacts], needed: Collection[str]) -> bool:
    return bool(needed) and all(role in children and children[role].ready for role in needed)


def _plan_service(seen: DisaggregatedSnapshot, child: ChildFacts, own: Mapping[str, Object]) -> Plan:
    identity = Identity(child.slice_index, child.key, child.role, child.is_legacy)
    name = service_name(child.obj["metadata"]["name"])
    stored = own.get(name) or seen.strangers.get((KIND, name))
    if name in own and _is_whole(own[name], selected_labels(seen.owner.name, identity)):
        return Plan()
    intent = build_service(seen.obj, identity)
    ownership = ownership_of(
        stored,
        seen.obj["metadata"]["uid"],
        lambda obj: (obj.get("spec") or {}).items() >= intent["spec"].items(),
        seen.owners_alive,
    )
    create = Create(intent, why=f"role {child.role} of revision {child.key} is ready for requests")
    return plan_child(
        seen.owner, Child(ownership, stored, f"the former Service {name}"), create, repair_service
    )


def _is_whole(stored: Object, labels: Mapping[str, str]) -> bool:
    """Return whether a Service of the set is unchanged. This fast check saves a tenth of a pass."""
    spec = stored.get("spec") or {}
    is_like = spec.get("selector") == labels and spec.keys() <= {"selector", "clusterIP"}
    is_like = is_like and spec.get("clusterIP", _HEADLESS) == _HEADLESS
    return is_like and labels_of(stored).items() >= labels.items() and not is_terminating(stored)


def _identified(seen: DisaggregatedSnapshot) -> list[_Owned]:
    suffix = service_name("")
    identified = []
    for service in seen.services:
        name: str = service["metadata"]["name"]
        identity = identity_of(seen.owner.name, name.removesuffix(suffix)) if name.endswith(suffix) else None
        if identity is not None and not is_terminating(service):
            identified.append((service, identity))
    return identified


def _delete(service: Object, why: str) -> Plan:
    return Plan(((Delete(Reference.to(service), "Background", why=why),),))
