"""Answers: does each feature that a set uses do what it is for?

In: a set, its pods, its Services, its claims and the nodes, as the API server has them. Out: checks; none for
features that the set does not use. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lws.leaderworkerset.group.subgroups import subgroup_of
from lws_api.leaderworkerset import v1
from tools.demo.check import Check, none_of, same_members
from tools.demo.facts import Object

_WHOLE, _PART = v1.GROUP_KEY_LABEL, v1.SUBGROUP_KEY_LABEL
_TPU_HOSTS, _TPU_ID = "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"


@dataclass(frozen=True, slots=True)
class Scenery:
    """A set and what is there. services, claims: of its namespace. nodes: labels by name."""

    lws: Object
    pods: Sequence[Object]
    services: Sequence[Object]
    claims: Sequence[Object]
    nodes: Mapping[str, Mapping[str, str]]

    @property
    def name(self) -> str:
        return str(self.lws["metadata"]["name"])

    @property
    def template(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.lws["spec"]["leaderWorkerTemplate"]
        return found


def verify_features(seen: Scenery) -> list[Check]:
    """Addresses of every set; of the other features those that this one uses."""
    return [check for verify in _FEATURES for check in verify(seen)]


def _verify_addresses(seen: Scenery) -> list[Check]:
    """Pods find their leader, under a name that a headless Service answers."""
    headless = {_name(each) for each in seen.services if each["spec"].get("clusterIP") == "None"}
    astray = [
        _name(pod)
        for pod in seen.pods
        if pod["spec"].get("subdomain") not in headless
        or _variable(pod, v1.LEADER_ADDRESS_ENV)
        != f"{seen.name}-{_label(pod, v1.GROUP_INDEX_LABEL)}.{pod['spec']['subdomain']}."
        f"{pod['metadata']['namespace']}"
    ]
    claim = f"{len(seen.pods)} pods carry {v1.LEADER_ADDRESS_ENV} of their own leader, in a headless Service"
    return [none_of(claim, astray, len(seen.pods))]


def _verify_subdomains(seen: Scenery) -> list[Check]:
    policy = (seen.lws["spec"].get("networkConfig") or {}).get("subdomainPolicy")
    if policy != v1.SubdomainPolicy.UNIQUE_PER_REPLICA:
        return []
    groups = {f"{seen.name}-{_label(pod, v1.GROUP_INDEX_LABEL)}" for pod in seen.pods}
    found = {_name(each) for each in seen.services if _label(each, v1.NAME_LABEL) == seen.name}
    return [same_members(f"each of {len(groups)} groups has a Service of its own", groups, found)]


def _verify_subgroups(seen: Scenery) -> list[Check]:
    policy = seen.template.get("subGroupPolicy")
    if not policy:
        return []
    excluded = policy.get("subGroupPolicyType") == v1.SubGroupPolicyType.LEADER_EXCLUDED
    size, part = seen.template["size"], policy["subGroupSize"]

    def expected(pod: Object) -> str:
        worker = int(_label(pod, v1.WORKER_INDEX_LABEL))
        return "" if excluded and worker == 0 else str(subgroup_of(worker, size, part))

    astray = [_name(pod) for pod in seen.pods if _label(pod, v1.SUBGROUP_INDEX_LABEL) != expected(pod)]
    whose = "workers" if excluded else "pods"
    return [none_of(f"{whose} of each group are in subgroups of {part}, in order", astray, len(seen.pods))]


def _verify_placement(seen: Scenery) -> list[Check]:
    annotations = seen.lws["metadata"].get("annotations") or {}
    asked = ((v1.EXCLUSIVE_TOPOLOGY_ANNOTATION, _WHOLE), (v1.SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, _PART))
    return [
        check
        for annotation, label in asked
        if (topology := annotations.get(annotation))
        for check in _verify_apart(seen, label, topology)
    ]


def _verify_apart(seen: Scenery, label: str, topology: str) -> list[Check]:
    """label: that tells groups, or subgroups, apart."""
    domains: dict[str, set[str]] = {}
    for pod in seen.pods:
        if key := _label(pod, label):
            node = str(pod["spec"].get("nodeName", ""))
            domains.setdefault(key, set()).add(seen.nodes.get(node, {}).get(topology, f"nowhere ({node})"))
    scattered = [f"{key}: {', '.join(sorted(found))}" for key, found in domains.items() if len(found) != 1]
    counts = Counter(domain for found in domains.values() for domain in found)
    shared = [domain for domain, count in counts.items() if count > 1]
    what = "groups" if label == _WHOLE else "subgroups"
    return [
        none_of(f"each of {len(domains)} {what} is in one {topology}", scattered, len(domains)),
        none_of(f"no two {what} share a {topology}", shared, len(domains)),
    ]


def _verify_claims(seen: Scenery) -> list[Check]:
    templates = [_name(each) for each in seen.template.get("volumeClaimTemplates") or ()]
    if not templates:
        return []
    wanted = [f"{template}-{_name(pod)}" for template in templates for pod in seen.pods]
    bound = [_name(each) for each in seen.claims if (each.get("status") or {}).get("phase") == "Bound"]
    claim = f"each of {len(seen.pods)} pods has its volumes: {len(wanted)} claims are bound"
    return [same_members(claim, wanted, [name for name in bound if name in wanted])]


def _verify_tpus(seen: Scenery) -> list[Check]:
    """What uses no TPUs is told of none."""
    told: dict[str, list[Object]] = {}
    for pod in seen.pods:
        if hosts := _variable(pod, _TPU_HOSTS):
            told.setdefault(hosts, []).append(pod)
    if not told:
        return []
    wrong = [
        f"{', '.join(map(_name, pods))} of {hosts}"
        for hosts, pods in told.items()
        if sorted(_variable(pod, _TPU_ID) for pod in pods)
        != sorted(str(number) for number in range(len(hosts.split(","))))
    ]
    claim = f"pods of {len(told)} TPU slices name the same hosts, each with its own {_TPU_ID}"
    return [none_of(claim, wrong, len(told))]


_FEATURES: tuple[Callable[[Scenery], list[Check]], ...] = (
    _verify_addresses,
    _verify_subdomains,
    _verify_subgroups,
    _verify_placement,
    _verify_claims,
    _verify_tpus,
)


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _label(found: Object, key: str) -> str:
    return str((found["metadata"].get("labels") or {}).get(key, ""))


def _variable(pod: Object, name: str) -> str:
    """Of any of its containers."""
    entries = [entry for each in pod["spec"]["containers"] for entry in each.get("env") or ()]
    return next((str(entry.get("value", "")) for entry in entries if entry["name"] == name), "")
