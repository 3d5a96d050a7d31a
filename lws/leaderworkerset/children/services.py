"""Plan the Services of a set: the headless Service of its pods, and the Service of its leaders. It also
builds the headless Services of groups.

Pods resolve each other through a headless Service before they are ready. Clients reach ready leaders through
the Service of the leaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, count
from typing import Any

from lws.history.revision import find
from lws.kube.metadata import child_metadata, name_of, uid_of
from lws.leaderworkerset import events, fields
from lws.leaderworkerset.assessment.ownership import ownership_of_service
from lws.leaderworkerset.fields import Field
from lws.leaderworkerset.pod_identity import group_name
from lws.leaderworkerset.revisions.history import Recorded, restore
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.leaderworkerset.spec import SetSpec, subdomain_policy_of
from lws.runtime.actions import Create, Object, Plan, Problem
from lws.runtime.children import Child, plan_child, plan_obstacle, plan_unwanted, repair_service
from lws_api.leaderworkerset.service import LeaderServicePort, LeaderServiceProtocol
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, WORKER_INDEX_LABEL, SubdomainPolicy

# Only defaults of these fields are used. Stored values are passed on: the API server rejects unknown ones.
_TYPE = fields.LEADER_SERVICE.child("type")
PORT_PROTOCOL = Field((), model=LeaderServicePort).child("protocol")


def leader_service_name(set_name: str) -> str:
    return f"{set_name}-leader"


def plan_leader_service(snapshot: SetSnapshot) -> Plan:
    """Plan to create, update or delete the Service of the leaders as the spec requests."""
    lws, owner, stored = snapshot.lws, snapshot.owner, snapshot.leader_service
    if snapshot.spec.leader_service is None:
        return plan_unwanted(owner, stored, "spec.leaderService is not set")
    intent = build_leader_service(lws)
    ownership = ownership_of_service(stored, uid_of(lws), intent, snapshot.owners_alive)
    child = Child(ownership, stored, "the former Service of the leaders")
    if not intent["spec"]["ports"]:
        return plan_obstacle(owner, child) or _plan_missing_ports()
    failure = events.failed_create(lws, f"leader service {intent['metadata']['name']}")
    create = Create(intent, why="clients reach the leaders through it", failure=failure)
    return plan_child(owner, child, create, repair_service)


def build_leader_service(lws: Object) -> dict[str, Any]:
    """Build the Service of the leaders of all groups, surge included."""
    name, spec = name_of(lws), SetSpec.of(lws)
    requested = spec.leader_service or {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(lws, leader_service_name(name), {NAME_LABEL: name}),
        "spec": {
            "type": requested.get(_TYPE.name) or _TYPE.stored_default,
            "selector": {NAME_LABEL: name, WORKER_INDEX_LABEL: "0"},
            "ports": ports_of(requested, spec.leader_template),
        },
    }


def ports_of(requested: Mapping[str, Any], template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the requested ports; if none are requested, the ports that containers of the leader template
    declare. Declared ports are targeted by name, so their numbers may differ between revisions. If several
    have the same number and protocol, the first is used.
    """
    if ports := requested.get("ports"):
        return [_port(port) for port in ports]
    ports_by_number: dict[tuple[int, str], dict[str, Any]] = {}
    for container in (template.get("spec") or {}).get("containers") or ():
        for declared in container.get("ports") or ():
            number = declared["containerPort"]
            protocol = declared.get("protocol") or LeaderServiceProtocol.TCP.value
            name = declared.get("name") or f"{protocol.lower()}-{number}"
            port = {
                "name": name,
                "port": number,
                "protocol": protocol,
                "targetPort": declared.get("name") or number,
            }
            ports_by_number.setdefault((number, protocol), port)
    return _named_once(ports_by_number.values())


def _named_once(ports: Collection[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rename ports with duplicate names: two containers may use the same port name, but a Service may not."""
    renamed: list[dict[str, Any]] = []
    declared: set[str] = {port["name"] for port in ports}
    taken: set[str] = set()
    for port in ports:
        if port["name"] in taken:
            plain = f"{port['protocol'].lower()}-{port['port']}"
            names = chain((plain,), (f"{plain}-{number}" for number in count(2)))
            name = next(name for name in names if name not in declared and name not in taken)
            port = {**port, "name": name, "targetPort": port["port"]}
        taken.add(port["name"])
        renamed.append(port)
    return renamed


def _port(requested: Mapping[str, Any]) -> dict[str, Any]:
    port = {
        "port": requested["port"],
        "protocol": requested.get(PORT_PROTOCOL.name) or PORT_PROTOCOL.stored_default,
        "targetPort": requested.get("targetPort") or requested["port"],
    }
    return {"name": requested["name"], **port} if requested.get("name") else port


def _plan_missing_ports() -> Plan:
    note = (
        "spec.leaderService: no ports: set its ports, or declare ports of containers in the leader template"
    )
    return Plan(problems=(Problem("LeaderServiceWithoutPorts", note),), waiting_for=note)


def plan_service(snapshot: SetSnapshot, is_done: bool) -> Plan:
    """Create the headless Service of the set if a group needs it, and delete it with the last such group.
    is_done: whether every group is ready on the target revision.
    """
    lws, service, name = snapshot.lws, snapshot.service, name_of(snapshot.lws)
    if not _is_needed(snapshot):
        why = "every group has a subdomain of its own"
        is_obsolete = is_done and service is not None and _was_needed(snapshot)
        return plan_unwanted(snapshot.owner, service, why) if is_obsolete else Plan()
    intent = build_service(name, name, {NAME_LABEL: name}, lws)
    ownership = ownership_of_service(service, uid_of(lws), intent, snapshot.owners_alive)
    # Upstream's wording.
    failure = events.failed_create(lws, "headless service for error")
    create = Create(intent, why="pods of the set find each other through it", failure=failure)
    return plan_child(snapshot.owner, Child(ownership, service, "the former Service"), create, repair_service)


def _is_needed(snapshot: SetSnapshot) -> bool:
    """Return whether a group needs the set's headless Service: outdated ones keep their own subdomain."""
    if snapshot.spec.subdomain_policy == SubdomainPolicy.SHARED:
        return True
    running = (
        revision
        for revision in snapshot.revisions
        if revision.key in snapshot.live_keys and not revision.broken
    )
    return SubdomainPolicy.SHARED in _subdomain_policies(snapshot, running)


def _was_needed(snapshot: SetSnapshot) -> bool:
    """Return whether the history shows that the policy has changed, with all running revisions known. If the
    history does not show this, an earlier release left the Service behind, and it is kept.
    """
    recorded = [revision for revision in snapshot.revisions if not revision.broken]
    is_known = all(find(recorded, key) is not None for key in snapshot.live_keys)
    return is_known and SubdomainPolicy.SHARED in _subdomain_policies(snapshot, recorded)


def _subdomain_policies(snapshot: SetSnapshot, recorded: Iterable[Recorded]) -> set[SubdomainPolicy]:
    return {subdomain_policy_of(restore(snapshot.lws, revision)) for revision in recorded}


def build_service(name: str, set_name: str, selector: Mapping[str, str], owner: Object) -> dict[str, Any]:
    """Build a headless Service that publishes unready pods, because pods must resolve each other to start."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(owner, name, {NAME_LABEL: set_name}),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)},
    }


def build_group_service(set_name: str, leader: Object) -> dict[str, Any]:
    """Build the headless Service of one group (KEP-173), owned by its leader pod."""
    index = leader["metadata"]["labels"][GROUP_INDEX_LABEL]
    selector = {NAME_LABEL: set_name, GROUP_INDEX_LABEL: index}
    return build_service(group_name(leader), set_name, selector, leader)
