"""One pass of the StatefulSet controller (Kubernetes 1.37, podManagementPolicy Parallel).

test_recorded.py compares it with recordings of the real one; the stories and the state machines use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatefulSetSpec:
    """The spec of a StatefulSet.

    current, update: its own revisions, as in its status after the controller has seen the template.
    max_unavailable: the field of that name; None if the feature MaxUnavailableStatefulSet is off.
    """

    replicas: int
    current: str
    update: str
    partition: int = 0
    max_unavailable: int | None = None
    start: int = 0


@dataclass(frozen=True, slots=True)
class SeenPod:
    """One pod.

    ready: whether it is Running and Ready, even if terminating. ended: whether its phase is Failed or
    Succeeded.
    """

    ordinal: int
    revision: str
    ready: bool = False
    terminating: bool = False
    ended: bool = False

    @property
    def is_available(self) -> bool:
        """Whether the pod is ready and not terminating."""
        return self.ready and not self.terminating


@dataclass(frozen=True, slots=True)
class Sync:
    """The decisions of one pass, which takes effect in the order of the fields.

    remove: pods that have ended. create: ordinal and revision of missing pods. surplus: pods beyond the
    replicas. replace: pods that move to the update revision. current: the current revision afterwards.
    """

    remove: tuple[int, ...]
    create: tuple[tuple[int, str], ...]
    surplus: tuple[int, ...]
    replace: tuple[int, ...]
    current: str

    @property
    def deleted(self) -> tuple[int, ...]:
        """Ordinals of all deleted pods, without duplicates."""
        return tuple(dict.fromkeys((*self.remove, *self.surplus, *self.replace)))


def sync(spec: StatefulSetSpec, pods: Iterable[SeenPod]) -> Sync:
    """Decide one pass over `pods`, which are all pods that the StatefulSet controls."""
    seen = {pod.ordinal: pod for pod in pods}
    ordinals = range(spec.start, spec.start + spec.replicas)
    living = {ordinal: seen[ordinal] for ordinal in ordinals if ordinal in seen}
    return Sync(
        remove=tuple(pod.ordinal for pod in living.values() if pod.ended and not pod.terminating),
        create=tuple((ordinal, _revision(spec, ordinal)) for ordinal in ordinals if ordinal not in seen),
        surplus=tuple(
            ordinal
            for ordinal in sorted(seen, reverse=True)
            if ordinal not in ordinals and not seen[ordinal].terminating
        ),
        replace=_replaced(spec, ordinals, living),
        current=spec.update if _is_complete(spec, seen) else spec.current,
    )


def _revision(spec: StatefulSetSpec, ordinal: int) -> str:
    return spec.current if ordinal < spec.start + spec.partition else spec.update


def _replaced(spec: StatefulSetSpec, ordinals: range, living: Mapping[int, SeenPod]) -> tuple[int, ...]:
    targets = [ordinal for ordinal in reversed(ordinals) if ordinal >= spec.start + spec.partition]
    if spec.max_unavailable is None:
        return _one_at_a_time(spec, targets, living)
    down = sum(not (ordinal in living and living[ordinal].is_available) for ordinal in ordinals)
    outdated = [ordinal for ordinal in targets if _is_outdated(spec, living.get(ordinal))]
    available = [ordinal for ordinal in outdated if living[ordinal].is_available]
    replaced = available[: max(0, spec.max_unavailable - down)]
    return (*(ordinal for ordinal in outdated if ordinal not in available), *replaced)


def _one_at_a_time(
    spec: StatefulSetSpec, targets: Iterable[int], living: Mapping[int, SeenPod]
) -> tuple[int, ...]:
    for target in targets:
        pod = living.get(target)
        if _is_outdated(spec, pod):
            return (target,)
        if pod is None or not pod.is_available:
            # A missing pod has only just been created.
            return ()
    return ()


def _is_outdated(spec: StatefulSetSpec, pod: SeenPod | None) -> bool:
    return pod is not None and pod.revision != spec.update and not pod.terminating


def _is_complete(spec: StatefulSetSpec, seen: Mapping[int, SeenPod]) -> bool:
    updated = sum(pod.revision == spec.update and not pod.terminating for pod in seen.values())
    ready = sum(pod.ready for pod in seen.values())
    return len(seen) == updated == ready == spec.replicas
