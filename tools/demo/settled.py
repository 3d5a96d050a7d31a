"""Answers: is everything at rest, just as the set wants it?

In: a view. Out: yes or no. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tools.demo.facts import Object, SetFacts
from tools.demo.record import Kind, View

_COUNTS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


@dataclass(frozen=True, slots=True)
class Goal:
    """What a set has to look like. image: of every pod. gone: UIDs of pods that must be replaced by then."""

    name: str
    replicas: int
    image: str
    gone: Collection[str] = ()


def is_reached(view: View, goal: Goal) -> bool:
    """The status says Available, every pod is ready, and the StatefulSets have nothing left to do."""
    facts = view.set(goal.name)
    if facts is None or facts.replicas != goal.replicas or not _is_settled(facts):
        return False
    pods = view.pods(goal.name)
    good = all(pod.is_ready and pod.image == goal.image and pod.uid not in goal.gone for pod in pods)
    statefulsets = view.objects[Kind.STATEFULSET]
    return good and len(pods) == facts.pods and all(_is_at_rest(each) for each in statefulsets)


def is_empty(view: View, kept: Collection[str]) -> bool:
    """Nothing of a set is left but what was there before."""
    kinds = (Kind.SET, Kind.POD, Kind.STATEFULSET, Kind.SERVICE, Kind.REVISION)
    return all(each["metadata"]["uid"] in kept for kind in kinds for each in view.objects[kind])


def _is_settled(facts: SetFacts) -> bool:
    counted = facts.ready == facts.updated == facts.replicas
    moving = facts.holds("Progressing") or facts.holds("UpdateInProgress")
    return facts.is_observed and counted and facts.holds("Available") and not moving


def _is_at_rest(statefulset: Object) -> bool:
    """Its controller has seen the spec, has all pods available, and has written so."""
    metadata, spec, status = statefulset["metadata"], statefulset["spec"], statefulset.get("status") or {}
    counts = {status.get(count, 0) for count in _COUNTS}
    return (
        status.get("observedGeneration") == metadata["generation"]
        and counts == {spec["replicas"]}
        and status.get("currentRevision") == status.get("updateRevision")
    )
