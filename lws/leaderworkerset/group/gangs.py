"""Request gang scheduling of a group from each supported scheduler: the gang providers (KEP-407, KEP-666)."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lws.kube.metadata import annotations_of, child_metadata, labels_of
from lws.kube.names import LABEL_LENGTH
from lws.kube.quantities import of_many, of_pod, total, whole_number
from lws.leaderworkerset.fields import SCHEDULING
from lws.leaderworkerset.pod_identity import group_size_of, is_leader
from lws.leaderworkerset.scheduling import (
    Level,
    pod_group_name_in,
    pod_group_of_leader,
    pod_group_of_set,
    pod_group_of_workers,
)
from lws.leaderworkerset.spec import SetSpec, group_topology
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_REPLACEMENT_GATE,
    NAME_LABEL,
    REVISION_LABEL,
    SCHEDULING_LEVEL_ANNOTATION,
    WORKLOAD_NAME_ANNOTATION,
    StartupPolicy,
)

KIND = "PodGroup"
PLURAL = "podgroups"

_POD_GROUP_LABELS = (NAME_LABEL, GROUP_INDEX_LABEL, REVISION_LABEL)


@dataclass(frozen=True, slots=True)
class Marks:
    """The fields by which a pod names its gang.
    scheduling_group: the value of `spec.schedulingGroup.podGroupName`. gate: a scheduling gate to add.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduling_group: str = ""
    gate: str = ""


@dataclass(frozen=True, slots=True)
class GangProvider(ABC):
    """One API of PodGroups, in one version.

    Users name the scheduler in their templates. A PodGroup is never updated: changes apply to the next one.
    api_version: the version in use. versions: the supported versions, best first. remedy: how to install the
    API if no version is served, as a command without a subject. keeps_in_use: whether a terminating PodGroup
    remains in effect until no pod names it. needs_field: whether new groups are gangs only with
    `spec.scheduling`, as in upstream.
    """

    api_version: str
    versions: Sequence[str]
    remedy: str
    keeps_in_use: bool = False
    needs_field: bool = False

    @abstractmethod
    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        """Return the marks for a pod that is being created. labels: the labels of the pod. size: the number
        of pods of its group. unique: letters and digits that no other pod gets.
        """

    @abstractmethod
    def name_of(self, leader: Object) -> str:
        """Return the name of the PodGroup that the group of this leader pod needs; empty if it needs none."""

    @abstractmethod
    def pod_group(self, restored: Object, leader: Object) -> Object:
        """Build the PodGroup of a group, owned by the leader pod; with `spec.scheduling` and Volcano, by the
        set. restored: the set as recorded in the revision of the group, with current annotations.
        """


def name_by_labels(labels: Mapping[str, str]) -> str:
    """Return a name built from set, group and revision, so that groups of two revisions are two gangs."""
    return "-".join(labels.get(key, "") for key in _POD_GROUP_LABELS)


def first_members(spec: SetSpec, is_marked: bool) -> int:
    """Return the largest number of pods that can exist before any of them is scheduled.

    A gang with more members would wait indefinitely. All pods of the group count, or only the leader if
    workers are created after the leader is ready (LeaderReady) or scheduled (KEP-115).
    is_marked: whether the leader names its PodGroup. In a group that was created before gang scheduling was
    enabled, no pod does until the group is recreated.
    """
    is_ready_first = spec.startup_policy == StartupPolicy.LEADER_READY
    is_leader_alone = is_ready_first or bool(group_topology(spec.placement)) or not is_marked
    return 1 if is_leader_alone else spec.size


def requests_of_group(spec: SetSpec) -> dict[str, str]:
    """Return the sum of the requests of all pods of a group, as resource quantities."""
    workers = of_many(of_pod(spec.worker_template.get("spec") or {}), spec.size - 1)
    everyone = total([of_pod(spec.leader_template.get("spec") or {}), workers])
    return {name: str(amount) for name, amount in everyone.items()}


def gang_of_group(restored: Object, is_marked: bool) -> dict[str, Any]:
    """Return the spec of a PodGroup: the number of pods to schedule together, and their requests."""
    spec = SetSpec.of(restored)
    return {"minMember": first_members(spec, is_marked), "minResources": requests_of_group(spec)}


def build_pod_group(
    api_version: str, name: str, leader: Object, spec: Mapping[str, Any], owner: Object | None = None
) -> dict[str, Any]:
    """Build a PodGroup in the leader's namespace with the labels of its group. owner: the leader if None."""
    labels = {key: labels_of(leader)[key] for key in _POD_GROUP_LABELS}
    metadata = child_metadata(leader if owner is None else owner, name, labels)
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": dict(spec)}


_GROUP_NAME_ANNOTATION = "scheduling.k8s.io/group-name"
_QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
_PASSED_ON = "volcano.sh/"


def may_be_gangs_of(pod: Object) -> set[str]:
    """Return the names of Volcano PodGroups that a pod may belong to, by annotation and labels: either may be
    edited.
    """
    return {name_by_labels(labels_of(pod)), annotations_of(pod).get(_GROUP_NAME_ANNOTATION, "")}


@dataclass(frozen=True, slots=True)
class Volcano(GangProvider):
    """The PodGroups of Volcano: pods find theirs by an annotation, and even a group of one pod has one. With
    `spec.scheduling` the set owns the PodGroup, as in upstream. The next leader of the same name reuses it,
    and the pass over the set deletes it when no pod of the group is left.
    """

    api_version: str = "scheduling.volcano.sh/v1beta1"
    versions: Sequence[str] = ("scheduling.volcano.sh/v1beta1",)
    remedy: str = "install volcano"

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        return Marks(annotations={_GROUP_NAME_ANNOTATION: name_by_labels(labels)})

    def name_of(self, leader: Object) -> str:
        return name_by_labels(labels_of(leader))

    def pod_group(self, restored: Object, leader: Object) -> Object:
        annotations = annotations_of(restored)
        spec = gang_of_group(restored, _GROUP_NAME_ANNOTATION in annotations_of(leader))
        if _QUEUE_ANNOTATION in annotations:
            spec["queue"] = annotations[_QUEUE_ANNOTATION]
        owner = None if SCHEDULING.stored_in(restored) is None else restored
        pod_group = build_pod_group(self.api_version, self.name_of(leader), leader, spec, owner)
        passed_on = {key: value for key, value in annotations.items() if key.startswith(_PASSED_ON)}
        pod_group["metadata"] |= {"annotations": passed_on} if passed_on else {}
        return pod_group


# --- PodGroups and pod labels for the coscheduling plugin of scheduler-plugins
# (scheduling.x-k8s.io/v1alpha1).


TIMEOUT_ANNOTATION = "scheduling.x-k8s.io/schedule-timeout-seconds"
"""Annotation of a set: seconds that pods of a group may reserve nodes while others cannot be scheduled."""

_POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_DIGEST_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Coscheduling(GangProvider):
    """The PodGroups of scheduler-plugins: pods find theirs by a label, and a group of one pod needs none."""

    api_version: str = "scheduling.x-k8s.io/v1alpha1"
    versions: Sequence[str] = ("scheduling.x-k8s.io/v1alpha1",)
    remedy: str = "install scheduler-plugins with its CustomResourceDefinitions"

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        return Marks(labels={_POD_GROUP_LABEL: _name(labels)}) if size > 1 else Marks()

    def name_of(self, leader: Object) -> str:
        return "" if group_size_of(leader) == 1 else _name(labels_of(leader))

    def pod_group(self, restored: Object, leader: Object) -> Object:
        spec = gang_of_group(restored, _POD_GROUP_LABEL in labels_of(leader))
        seconds = timeout_seconds(annotations_of(restored).get(TIMEOUT_ANNOTATION))
        if seconds is not None:
            spec["scheduleTimeoutSeconds"] = seconds
        return build_pod_group(self.api_version, self.name_of(leader), leader, spec)


def timeout_seconds(value: object) -> int | None:
    """Return the value of the annotation in seconds; None unless it is a whole number from 1 to 999999999."""
    return whole_number(value, least=1, most=999_999_999)


def _name(labels: Mapping[str, str]) -> str:
    """Return the name of the PodGroup, shortened to fit into a label value: keys of old releases may be too
    long.
    """
    name = name_by_labels(labels)
    if len(name) <= LABEL_LENGTH:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: LABEL_LENGTH - _DIGEST_LENGTH - 1]}-{digest}"


# --- PodGroups and `spec.schedulingGroup` of pods for the scheduler of Kubernetes (scheduling.k8s.io,
# KEP-4671 and KEP-666), in the version that the API server serves.


_GROUP = "scheduling.k8s.io"
# In this version, the priority and disruption mode of PodGroups need another alpha feature gate.
_WITHOUT_PREEMPTION = f"{_GROUP}/v1alpha2"


@dataclass(frozen=True, slots=True)
class Kubernetes(GangProvider):
    """The PodGroups of Kubernetes, whose name a leader gets on creation and passes on to its workers. The
    name is unique to the leader. Kubernetes keeps a PodGroup until no pod names it, so the PodGroup of the
    previous leader would remain if the next leader waited for it. A group of one pod needs none.
    """

    api_version: str = f"{_GROUP}/v1alpha2"
    versions: Sequence[str] = (f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha3", f"{_GROUP}/v1alpha2")
    remedy: str = (
        "start Kubernetes 1.36 or later with the feature gate GenericWorkload (1.36: GangScheduling too), "
        "and the API server with --runtime-config for one of them"
    )
    keeps_in_use: bool = True

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        if size == 1 or not is_leader({"metadata": {"labels": labels}}):
            return Marks()
        return Marks(scheduling_group=f"{name_by_labels(labels)}-{unique}")

    def name_of(self, leader: Object) -> str:
        """Return the name of the PodGroup; also empty if the schedulingGroup is missing or the user's."""
        name = pod_group_name_in(leader)
        return name if name.startswith(f"{name_by_labels(labels_of(leader))}-") else ""

    def pod_group(self, restored: Object, leader: Object) -> Object:
        """Build the PodGroup of a group. It does not block the deletion of its owner, the leader: a pod on a
        lost node may keep it in use.
        """
        set_spec = SetSpec.of(restored)
        members = first_members(set_spec, is_marked=True)
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": members}}}
        if self.api_version != _WITHOUT_PREEMPTION:
            # A group that lacks a pod serves nothing, so preempting all of it frees the other nodes too.
            spec["disruptionMode"] = {"all": {}}
            pod = set_spec.leader_template.get("spec") or {}
            spec |= {key: pod[key] for key in ("priorityClassName",) if pod.get(key)}
        pod_group = build_pod_group(self.api_version, self.name_of(leader), leader, spec)
        pod_group["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
        return pod_group


_INCARNATION_LENGTH = 5


def workload_marks(labels: Mapping[str, str], annotations: Mapping[str, str], unique: str) -> Marks | None:
    """Return the marks of a pod whose set has `spec.scheduling`; None for a pod without a Workload. Workers
    have the marks in their template. A leader adds unique characters to the name of the Workload, for the
    same reason as in `Kubernetes`. unique: as in `GangProvider.marks`.
    """
    workload, stored = annotations.get(WORKLOAD_NAME_ANNOTATION), annotations.get(SCHEDULING_LEVEL_ANNOTATION)
    if not workload or stored is None:
        return None
    if not is_leader({"metadata": {"labels": labels}}):
        return Marks()
    # The first release had only one level and wrote "true".
    level = Level(stored) if stored in tuple(Level) else Level.REPLICA
    if level is Level.SET:
        return Marks(scheduling_group=pod_group_of_set(workload))
    own = workload if "." in workload else f"{workload}.{unique[:_INCARNATION_LENGTH]}"
    return Marks(
        annotations={WORKLOAD_NAME_ANNOTATION: own},
        scheduling_group=pod_group_of_leader(own, level, labels),
        gate=GROUP_REPLACEMENT_GATE,
    )


def name_pod_group_of_leader(statefulset: Object, lws: Object, leader: Object) -> Object:
    """Make the pods of a worker StatefulSet name the PodGroup of their leader or of its workers. This is done
    even while PodGroups are not served, because the leader waits for the whole group. A schedulingGroup that
    the template already has is kept.
    """
    has_workload = WORKLOAD_NAME_ANNOTATION in annotations_of(leader)
    name = pod_group_of_workers(lws, leader) if has_workload else Kubernetes().name_of(leader)
    template = statefulset["spec"]["template"]
    if not name or (template.get("spec") or {}).get("schedulingGroup"):
        return statefulset
    pod = {**(template.get("spec") or {}), "schedulingGroup": {"podGroupName": name}}
    return {**statefulset, "spec": {**statefulset["spec"], "template": {**template, "spec": pod}}}


PROVIDERS: Mapping[str, GangProvider] = MappingProxyType(
    {"volcano": Volcano(), "scheduler-plugins": Coscheduling(), "kubernetes": Kubernetes()}
)
"""Gang providers by `gangSchedulingManagement.schedulerProvider`."""

_POD_GROUP_VERBS = frozenset({"get", "list", "watch", "create", "patch", "delete"})

GANG_VERBS: Mapping[str, Mapping[tuple[str, str], frozenset[str]]] = MappingProxyType(
    {
        name: {(version.rpartition("/")[0], PLURAL): _POD_GROUP_VERBS for version in provider.versions}
        for name, provider in PROVIDERS.items()
    }
)
"""Verbs that the code uses cluster-wide, by provider, then by API group and resource.

The version of PodGroup is only known at run time (`Cluster.learn`).
"""

WORKLOAD_VERBS: Mapping[tuple[str, str], frozenset[str]] = MappingProxyType(
    {(_GROUP, "workloads"): _POD_GROUP_VERBS}
)
"""Verbs for Workloads, which `spec.scheduling` needs with the scheduler of Kubernetes."""
