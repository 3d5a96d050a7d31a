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
    if facts is None or facts.replicas != goal.replicas or not is_at_rest(view, goal.name):
        return False
    return all(pod.image == goal.image and pod.uid not in goal.gone for pod in view.pods(goal.name))


def is_at_rest(view: View, name: str, least: int = 0) -> bool:
    """Whatever it asks for, the set has it, and nothing moves. least: groups that it will have in the end."""
    facts = view.set(name)
    if facts is None or facts.replicas < least or not _is_settled(facts):
        return False
    pods = view.pods(name)
    good = len(pods) == facts.pods and all(pod.is_ready for pod in pods)
    return good and all(_has_finished(each) for each in view.objects[Kind.STATEFULSET])


def is_empty(view: View, kept: Collection[str]) -> bool:
    """Nothing of a set is left but what was there before."""
    kinds = (Kind.SET, Kind.POD, Kind.STATEFULSET, Kind.SERVICE, Kind.REVISION)
    return all(each["metadata"]["uid"] in kept for kind in kinds for each in view.objects[kind])


def _is_settled(facts: SetFacts) -> bool:
    counted = facts.ready == facts.updated == facts.replicas
    moving = facts.holds("Progressing") or facts.holds("UpdateInProgress")
    return facts.is_observed and counted and facts.holds("Available") and not moving


def _has_finished(statefulset: Object) -> bool:
    """Its controller has seen the spec, has all pods available, and has written so."""
    metadata, spec, status = statefulset["metadata"], statefulset["spec"], statefulset.get("status") or {}
    counts = {status.get(count, 0) for count in _COUNTS}
    return (
        status.get("observedGeneration") == metadata["generation"]
        and counts == {spec["replicas"]}
        and status.get("currentRevision") == status.get("updateRevision")
    )
