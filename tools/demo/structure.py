"""Check that a set consists of what its spec requests, that its status agrees, and that it rests. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lws_api.leaderworkerset.v1 import GROUP_SIZE_ENV, LEADER_ADDRESS_ENV, REVISION_LABEL, WORKER_INDEX_ENV
from tools.demo.check import Check, equal, none_of, same_members
from tools.demo.facts import Kind, Object, Pod, SetFacts, View, name_of, owner_of

_COUNTS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


@dataclass(frozen=True, slots=True)
class Goal:
    """The desired state of a set: the image of every pod, and UIDs of pods that must be replaced by then."""

    name: str
    replicas: int
    image: str
    gone: Collection[str] = ()


def is_reached(view: View, goal: Goal) -> bool:
    """Report whether the set is Available, every pod is ready, and StatefulSets have no pending work."""
    facts = view.set(goal.name)
    if facts is None or facts.replicas != goal.replicas or not is_at_rest(view, goal.name):
        return False
    return all(pod.image == goal.image and pod.uid not in goal.gone for pod in view.pods(goal.name))


def is_at_rest(view: View, name: str, least: int = 0) -> bool:
    """Report whether a set of at least `least` groups has all that its spec requests and is not changing."""
    facts = view.set(name)
    if facts is None or not facts.replicas == facts.ready == facts.updated >= least:
        return False
    moving = facts.holds("Progressing") or facts.holds("UpdateInProgress")
    if moving or not facts.is_observed or not facts.holds("Available"):
        return False
    pods = view.pods(name)
    good = len(pods) == facts.pods and all(pod.is_ready for pod in pods)
    return good and all(_has_finished(statefulset) for statefulset in view.objects[Kind.STATEFULSET])


def is_empty(view: View, older: Collection[str]) -> bool:
    """Report whether nothing of a set is left, apart from objects that existed before."""
    kinds = (Kind.SET, Kind.POD, Kind.STATEFULSET, Kind.SERVICE, Kind.REVISION)
    return all(obj["metadata"]["uid"] in older for kind in kinds for obj in view.objects[kind])


def _has_finished(statefulset: Object) -> bool:
    """Report whether a StatefulSet's status is about its spec, and all its pods are available."""
    metadata, spec, status = statefulset["metadata"], statefulset["spec"], statefulset.get("status") or {}
    counts = {status.get(count, 0) for count in _COUNTS}
    return (
        status.get("observedGeneration") == metadata["generation"]
        and counts == {spec["replicas"]}
        and status.get("currentRevision") == status.get("updateRevision")
    )


def verify_pods(view: View, facts: SetFacts) -> list[Check]:
    """Verify that every pod exists under its name and is ready, and that there are no other pods."""
    workers = facts.pods - facts.replicas
    ready = [pod for pod in view.pods(facts.name) if pod.is_ready]
    leaders = {f"{facts.name}-{group}": f"{facts.name}-{group}" for group in range(facts.replicas)}
    if not facts.has_indices:
        leaders = {pod.host: pod.name for pod in ready if pod.is_leader}
        # Their names are random, so only their number is known.
        leaders |= {f"group {number}": "no pod" for number in range(len(leaders), facts.replicas)}
    expected = [
        f"{host}-{index}" if index else name for host, name in leaders.items() for index in range(facts.size)
    ]
    claim = f"{facts.pods} pods are ready: {facts.replicas} leaders and {workers} workers"
    return [same_members(claim, expected, [pod.name for pod in ready])]


def verify_environment(view: View, facts: SetFacts, namespace: str) -> list[Check]:
    """Verify that every container knows its leader, the size of its group and its place in the group."""
    pods = view.pods(facts.name)
    workers = [pod for pod in pods if not pod.is_leader]

    def address_of(pod: Pod) -> str:
        return f"{facts.name}-{pod.group}.{facts.name}.{namespace}"

    astray = [
        f"{pod.name} has {pod.environment.get(LEADER_ADDRESS_ENV)}"
        for pod in workers
        if pod.environment.get(LEADER_ADDRESS_ENV) != address_of(pod)
    ]
    wrong = [
        f"{pod.name} has {pod.environment.get(GROUP_SIZE_ENV)} and {pod.environment.get(WORKER_INDEX_ENV)}"
        for pod in pods
        if (pod.environment.get(GROUP_SIZE_ENV), pod.environment.get(WORKER_INDEX_ENV))
        != (str(facts.size), str(pod.index))
    ]
    example = f", {workers[0].name}: {address_of(workers[0])}" if workers else ""
    claim = f"{len(workers)} worker pods carry {LEADER_ADDRESS_ENV} of their own leader{example}"
    indices = f"{len(pods)} pods carry {GROUP_SIZE_ENV}={facts.size} and {WORKER_INDEX_ENV} as in their name"
    return [none_of(claim, astray, len(workers)), none_of(indices, wrong, len(pods))]


def verify_objects(view: View, facts: SetFacts) -> list[Check]:
    """Verify the StatefulSets with owners, the headless Service, and the revision whose key all pods have."""
    pods = view.pods(facts.name)
    leaders = {f"{pod.name} owned by {pod.uid}" for pod in pods if pod.is_leader}
    statefulsets = view.objects[Kind.STATEFULSET]
    owned = {f"{name_of(statefulset)} owned by {owner_of(statefulset)}" for statefulset in statefulsets}
    claim = f"1 StatefulSet of leaders, {facts.replicas} of workers, each owned by its leader pod"
    return [
        same_members(claim, leaders | {f"{facts.name} owned by {facts.uid}"}, owned),
        _verify_service(view, facts),
        verify_revision(view, facts, pods),
    ]


def verify_status(facts: SetFacts) -> list[Check]:
    """Verify that the status of the set agrees."""
    count = facts.replicas
    available = facts.holds("Available") and facts.is_observed
    expected = (count, count, True)
    claim = f"the status says {count} of {count} groups ready, {count} up to date, Available"
    return [equal(claim, expected, (facts.ready, facts.updated, available))]


def _verify_service(view: View, facts: SetFacts) -> Check:
    headless = [
        f"{name_of(obj)}: publishNotReadyAddresses {obj['spec'].get('publishNotReadyAddresses', False)}"
        for obj in view.objects[Kind.SERVICE]
        if obj["spec"].get("clusterIP") == "None"
    ]
    claim = f"headless Service {facts.name} publishes addresses of pods before they are ready"
    return same_members(claim, [f"{facts.name}: publishNotReadyAddresses True"], headless)


def verify_revision(view: View, facts: SetFacts, pods: Sequence[Pod]) -> Check:
    """Verify that all pods have the key of one recorded revision."""
    keys = {pod.revision for pod in pods}
    # StatefulSets record revisions of their own under the same labels.
    recorded = {
        revision["metadata"]["labels"].get(REVISION_LABEL, ""): name_of(revision)
        for revision in view.objects[Kind.REVISION]
        if owner_of(revision) == facts.uid
    }
    named = ", ".join(recorded.get(key, f"none for {key}") for key in sorted(keys))
    claim = f"all {len(pods)} pods carry one revision key, which ControllerRevision {named} records"
    return Check(claim, len(keys) == 1 and keys <= recorded.keys(), "one recorded key", f"{sorted(keys)}")
