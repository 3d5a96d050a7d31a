"""Answers: is the set made of what it asks for, and does everything say so?

In: what the API server has, and which set is meant. Out: checks. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from lws_api.leaderworkerset.v1 import GROUP_SIZE_ENV, LEADER_ADDRESS_ENV, REVISION_LABEL, WORKER_INDEX_ENV
from tools.demo.check import Check, equal, none_of, same_members
from tools.demo.facts import Object, Pod, SetFacts, owner_of
from tools.demo.record import Kind, View


def verify_pods(view: View, wanted: SetFacts) -> list[Check]:
    """Every pod exists under its name and is ready, and no other."""
    workers = wanted.pods - wanted.replicas
    expected = [
        f"{wanted.name}-{group}" + (f"-{index}" if index else "")
        for group in range(wanted.replicas)
        for index in range(wanted.size)
    ]
    claim = f"{wanted.pods} pods are ready: {wanted.replicas} leaders and {workers} workers"
    return [same_members(claim, expected, [pod.name for pod in view.pods(wanted.name) if pod.is_ready])]


def verify_environment(view: View, wanted: SetFacts, namespace: str) -> list[Check]:
    """Every container knows its leader, the size of its group and its place in it."""
    pods = view.pods(wanted.name)
    workers = [pod for pod in pods if not pod.is_leader]

    def address_of(pod: Pod) -> str:
        return f"{wanted.name}-{pod.group}.{wanted.name}.{namespace}"

    astray = [
        f"{pod.name} has {pod.environment.get(LEADER_ADDRESS_ENV)}"
        for pod in workers
        if pod.environment.get(LEADER_ADDRESS_ENV) != address_of(pod)
    ]
    wrong = [
        f"{pod.name} has {pod.environment.get(GROUP_SIZE_ENV)} and {pod.environment.get(WORKER_INDEX_ENV)}"
        for pod in pods
        if (pod.environment.get(GROUP_SIZE_ENV), pod.environment.get(WORKER_INDEX_ENV))
        != (str(wanted.size), str(pod.index))
    ]
    example = f", {workers[0].name}: {address_of(workers[0])}" if workers else ""
    claim = f"{len(workers)} worker pods carry {LEADER_ADDRESS_ENV} of their own leader{example}"
    place = f"{len(pods)} pods carry {GROUP_SIZE_ENV}={wanted.size} and {WORKER_INDEX_ENV} as in their name"
    return [none_of(claim, astray, len(workers)), none_of(place, wrong, len(pods))]


def verify_objects(view: View, wanted: SetFacts) -> list[Check]:
    """StatefulSets with their owners, one headless Service, one revision whose key is on every pod."""
    pods = view.pods(wanted.name)
    leaders = {f"{pod.name} owned by {pod.uid}" for pod in pods if pod.is_leader}
    statefulsets = view.objects[Kind.STATEFULSET]
    found = {f"{_name(each)} owned by {owner_of(each)}" for each in statefulsets}
    claim = f"1 StatefulSet of leaders, {wanted.replicas} of workers, each owned by its leader pod"
    return [
        same_members(claim, leaders | {f"{wanted.name} owned by {wanted.uid}"}, found),
        _verify_service(view, wanted),
        verify_revision(view, wanted, pods),
    ]


def verify_status(wanted: SetFacts) -> list[Check]:
    """The status of the set agrees."""
    count = wanted.replicas
    available = wanted.holds("Available") and wanted.is_observed
    expected = (count, count, True)
    claim = f"the status says {count} of {count} groups ready, {count} up to date, Available"
    return [equal(claim, expected, (wanted.ready, wanted.updated, available))]


def _verify_service(view: View, wanted: SetFacts) -> Check:
    headless = [
        f"{_name(each)}: publishNotReadyAddresses {each['spec'].get('publishNotReadyAddresses', False)}"
        for each in view.objects[Kind.SERVICE]
        if each["spec"].get("clusterIP") == "None"
    ]
    claim = f"headless Service {wanted.name} publishes addresses of pods before they are ready"
    return same_members(claim, [f"{wanted.name}: publishNotReadyAddresses True"], headless)


def verify_revision(view: View, wanted: SetFacts, pods: Sequence[Pod]) -> Check:
    """All pods carry the key of one revision, which is recorded."""
    keys = {pod.revision for pod in pods}
    # StatefulSets record revisions of their own under the same labels.
    recorded = {
        each["metadata"]["labels"].get(REVISION_LABEL, ""): _name(each)
        for each in view.objects[Kind.REVISION]
        if owner_of(each) == wanted.uid
    }
    named = ", ".join(recorded.get(key, f"none for {key}") for key in sorted(keys))
    claim = f"all {len(pods)} pods carry one revision key, which ControllerRevision {named} records"
    return Check(claim, len(keys) == 1 and keys <= recorded.keys(), "one recorded key", f"{sorted(keys)}")


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])
