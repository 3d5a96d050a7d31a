"""Every field that some decision reads, kind by kind: what the store keeps, what is news, and for whom.

In: objects as the API server sends them. Out: what is kept of them; whether two states differ; the passes
that a change wakes. Thousands of pods stay in memory, and most of their changes concern nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lws.actions import Object
from lws.cluster.cache import excerpts, pod_start
from lws.cluster.cache.fields import ALL, NOBODY, SET, Field, Table, Wakes
from lws.kube.metadata import annotations_of, controller_of
from lws.kube.statefulsets import is_settled, is_short
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION
from lws_api.leaderworkerset.v1 import PODS_RETRIED_AT_ANNOTATION


def _is_of_group(statefulset: Mapping[str, Any]) -> bool:
    owner = controller_of(statefulset)
    return owner is not None and owner.get("kind") == "Pod"


def _on_count(before: Object, after: Object) -> Wakes:
    """The StatefulSet of workers counts on. Groups are judged by their pods, and the set knows it by whether
    all pods are made, and whether all is settled.
    """
    is_like = is_settled(before) == is_settled(after) and is_short(before) == is_short(after)
    return NOBODY if is_like else SET


# That a StatefulSet was made to try again starts nothing: its controller will say what came of it. What a
# DisaggregatedSet remembers on its children started passes over each of them and all of its groups, six in a
# rollout of two roles.
_REMEMBERED_BY_OTHERS = frozenset(
    {PODS_RETRIED_AT_ANNOTATION, INITIAL_REPLICAS_ANNOTATION, OTHERS_INITIAL_REPLICAS_ANNOTATION}
)


def _on_annotations(before: Object, after: Object) -> Wakes:
    one, two = annotations_of(before), annotations_of(after)
    changed = {key for key in one.keys() | two.keys() if one.get(key) != two.get(key)}
    return NOBODY if changed <= _REMEMBERED_BY_OTHERS else ALL


_IDENTITY = (
    *(Field(f"metadata.{name}") for name in ("name", "namespace", "uid")),
    Field("metadata.resourceVersion", NOBODY),
    *(Field(f"metadata.{name}") for name in ("generation", "creationTimestamp", "deletionTimestamp")),
    Field("metadata.deletionGracePeriodSeconds"),
    Field("metadata.ownerReferences"),
)
_METADATA = (
    *_IDENTITY,
    Field("metadata.labels", excerpt=excerpts.ours),
    Field("metadata.annotations", excerpt=excerpts.ours),
)
# They move with every write, whatever it changes.
_WRITERS_OF_ORPHAN = Field("metadata.managedFields", NOBODY, excerpts.writers_of_orphan)

# Kept whole, because it is what users ask for. The generation tells of the spec. A status is news unless our
# last write has left it so, which is known where changes are routed.
_SET = Table(
    "LeaderWorkerSet",
    (
        Field("metadata.managedFields", NOBODY, excerpts.nothing),
        *(Field(f"metadata.{name}") for name in ("uid", "generation", "labels", "deletionTimestamp")),
        Field("metadata.annotations", _on_annotations),
        Field("status", SET, excerpts.set_status),
    ),
    others=NOBODY,
)
_POD = Table(
    "Pod",
    (
        *_METADATA,
        Field("spec.nodeName", pod_start.on_node),
        Field("spec.schedulingGates", SET, excerpts.first),
        Field("spec.schedulingGroup"),
        Field("spec.containers", excerpt=excerpts.tpu_requests),
        Field("spec.initContainers", excerpt=excerpts.restarted_sidecars),
        Field("status.phase", pod_start.on_phase, default="Pending"),
        Field("status.conditions", pod_start.on_conditions, excerpts.conditions, []),
        Field("status.reason"),
        Field("status.initContainerStatuses", SET, excerpts.eventful),
        Field("status.containerStatuses", SET, excerpts.eventful_or_last),
    ),
    is_undisturbed=pod_start.is_undisturbed,
)
_STATEFULSET_OF_GROUP = Table(
    "StatefulSet",
    (
        *_IDENTITY,
        Field("metadata.labels", excerpt=excerpts.ours_and_tools),
        Field("metadata.annotations", _on_annotations, excerpts.ours_and_tools),
        Field("spec.replicas"),
        Field("spec.ordinals"),
        Field("spec.persistentVolumeClaimRetentionPolicy", excerpt=excerpts.claims_go_too),
        Field("spec.selector", excerpt=excerpts.unlike_selector),
        Field("spec.template", excerpt=excerpts.unlike_template),
        *(Field(f"status.{name}", _on_count) for name in ("observedGeneration", "replicas")),
        *(Field(f"status.{name}", _on_count) for name in ("availableReplicas", "currentRevision")),
        Field("status.updateRevision", _on_count),
    ),
)
# Kept whole, because an intent is compared with it.
_STATEFULSET = Table(
    "StatefulSet",
    (
        Field("metadata.resourceVersion", NOBODY),
        Field("metadata.managedFields", NOBODY, excerpts.our_applies, []),
        Field("metadata.annotations", _on_annotations),
        *(Field(f"status.{name}", SET) for name in ("observedGeneration", "replicas")),
        *(Field(f"status.{name}", SET) for name in ("currentRevision", "updateRevision")),
        # Groups are judged by their pods, which come sooner.
        *(Field(f"status.{name}", NOBODY) for name in ("readyReplicas", "availableReplicas")),
        *(Field(f"status.{name}", NOBODY) for name in ("currentReplicas", "updatedReplicas")),
    ),
    others=ALL,
    variant=(_is_of_group, _STATEFULSET_OF_GROUP),
)
_SERVICE = Table(
    "Service",
    (
        *_METADATA,
        _WRITERS_OF_ORPHAN,
        Field("spec.selector", default={}),
        Field("spec.ports", excerpt=excerpts.ports),
        Field("spec.publishNotReadyAddresses"),
        Field("spec.type", excerpt=excerpts.unlike_type),
        Field("spec.clusterIP", excerpt=excerpts.unlike_address),
    ),
)
# What its own controller reports of it changes with every pod, and decides nothing here.
_DISRUPTION_BUDGET = Table("PodDisruptionBudget", (*_METADATA, _WRITERS_OF_ORPHAN, Field("spec", default={})))
_REVISION = Table(
    "ControllerRevision",
    (
        *_IDENTITY,
        Field("metadata.labels"),
        Field("metadata.annotations"),
        Field("revision", default=0),
        Field("data", excerpt=excerpts.recorded_data),
    ),
)
# Nothing matters but that they are there, and whose they are.
_CLAIM, _POD_GROUP = Table("PersistentVolumeClaim", _METADATA), Table("PodGroup", _METADATA)

_TABLES = {
    table.kind: table
    for table in (_SET, _POD, _STATEFULSET, _SERVICE, _DISRUPTION_BUDGET, _REVISION, _CLAIM, _POD_GROUP)
}


def table_of(obj: Mapping[str, Any]) -> Table | None:
    """The fields that are read of such an object; None of a kind that is not watched."""
    table = _TABLES.get(obj["kind"])
    return table.of(obj) if table is not None else None


def trim(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an object that decisions read; kinds that are not watched come back whole."""
    table = table_of(obj)
    return table.trim(obj) if table is not None else dict(obj)


def is_same(before: Object, after: Object) -> bool:
    """Do two states of an object differ in nothing that wakes anybody?"""
    table = table_of(after)
    return table.is_same(before, after) if table is not None else before == after


def wakes(before: Object, after: Object) -> Wakes:
    """The passes that a change wakes, of those over the sets and groups that the object concerns."""
    table = table_of(after)
    return table.wakes(before, after) if table is not None else ALL
