"""The gang providers by the names that the configuration has for them, and the one for Volcano."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

from lws.kube.metadata import annotations_of, labels_of, owner_reference
from lws.kube.names import LABEL_LENGTH
from lws.kube.quantities import of_many, of_pod, total, whole_number
from lws.leaderworkerset.group.labels import group_size_of, is_leader
from lws.leaderworkerset.spec import SetSpec, group_topology
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, StartupPolicy

# --- The interface of a gang provider: how a group asks a scheduler to be placed as a whole (KEP-407,
# KEP-666).


KIND = "PodGroup"
PLURAL = "podgroups"

_IDENTITY = (NAME_LABEL, GROUP_INDEX_LABEL, REVISION_LABEL)


@dataclass(frozen=True, slots=True)
class Marks:
    """How a pod names its gang: labels, annotations, `spec.schedulingGroup.podGroupName`."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduling_group: str = ""


class GangProvider(Protocol):
    """One API of PodGroups, in one version.

    Users name the scheduler in their templates. A PodGroup is never changed once it is there: whatever it
    says is news for the next leader.
    """

    @property
    def versions(self) -> Sequence[str]:
        """The API versions that it can speak, best first: group and version."""
        ...

    @property
    def remedy(self) -> str:
        """How to install the API if none is served, as a command without a subject."""
        ...

    @property
    def api_version(self) -> str:
        """The one that it speaks."""
        ...

    @property
    def keeps_in_use(self) -> bool:
        """Whether a PodGroup that is deleted stays, and serves, for as long as pods name it."""
        ...

    def speaking(self, api_version: str) -> GangProvider:
        """The same provider in another of its versions."""
        ...

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        """Labels and annotations for a pod that is being created.

        labels: its own. size: pods of its group. unique: letters and digits that no other pod is given.
        """
        ...

    def name_of(self, leader: Object) -> str:
        """The name of the PodGroup that the group of this leader pod needs; empty where it needs none."""
        ...

    def pod_group(self, restored: Object, leader: Object) -> Object:
        """The PodGroup of a group, owned by its leader pod.

        restored: the set as the revision of the group had it, with live annotations.
        """
        ...


def name_by_labels(labels: Mapping[str, str]) -> str:
    """Set, group and revision: groups of two revisions are two gangs."""
    return "-".join(labels.get(key, "") for key in _IDENTITY)


def first_members(spec: SetSpec, is_marked: bool) -> int:
    """How many pods can be there before any of them is placed: a gang of more would wait for ever.

    All, but for workers that are made once their leader is ready (LeaderReady), or has a node whose
    neighbours they become (KEP-115). is_marked: the leader names its PodGroup; in a group from before gangs
    were switched on it does not, nor do the others until they are made anew, one after the other.
    """
    is_ready_first = spec.startup_policy == StartupPolicy.LEADER_READY
    is_apart = is_ready_first or bool(group_topology(spec.placement)) or not is_marked
    return 1 if is_apart else spec.size


def requests_of_group(spec: SetSpec) -> dict[str, str]:
    """The sum of the requests of all pods of a group, as resource quantities."""
    workers = of_many(of_pod(spec.worker_template.get("spec") or {}), spec.size - 1)
    everyone = total([of_pod(spec.leader_template.get("spec") or {}), workers])
    return {name: str(amount) for name, amount in everyone.items()}


def build_pod_group(api_version: str, name: str, leader: Object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Build a PodGroup in the leader's namespace with the labels of its group. wanted: its spec."""
    labels = labels_of(leader)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": leader["metadata"]["namespace"],
        "labels": {key: labels[key] for key in _IDENTITY},
        "ownerReferences": [owner_reference(leader)],
    }
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": dict(wanted)}


_GROUP_NAME_ANNOTATION = "scheduling.k8s.io/group-name"
_QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
_PASSED_ON = "volcano.sh/"


@dataclass(frozen=True, slots=True)
class Volcano:
    """Pods find their PodGroup by an annotation; groups of one pod have one too."""

    api_version: str = "scheduling.volcano.sh/v1beta1"
    versions: Sequence[str] = ("scheduling.volcano.sh/v1beta1",)
    remedy: str = "install volcano"
    keeps_in_use: bool = False

    def speaking(self, api_version: str) -> Volcano:
        return replace(self, api_version=api_version)

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        return Marks(annotations={_GROUP_NAME_ANNOTATION: name_by_labels(labels)})

    def name_of(self, leader: Object) -> str:
        return name_by_labels(labels_of(leader))

    def pod_group(self, restored: Object, leader: Object) -> Object:
        spec, told = SetSpec.of(restored), annotations_of(restored)
        is_marked = _GROUP_NAME_ANNOTATION in annotations_of(leader)
        wanted: dict[str, Any] = {
            "minMember": first_members(spec, is_marked),
            "minResources": requests_of_group(spec),
        }
        if _QUEUE_ANNOTATION in told:
            wanted["queue"] = told[_QUEUE_ANNOTATION]
        made = build_pod_group(self.api_version, self.name_of(leader), leader, wanted)
        passed_on = {key: value for key, value in told.items() if key.startswith(_PASSED_ON)}
        made["metadata"] |= {"annotations": passed_on} if passed_on else {}
        return made


# --- The PodGroup, and the labels of pods, for the coscheduling plugin of scheduler-plugins
# (scheduling.x-k8s.io/v1alpha1).


TIMEOUT_ANNOTATION = "scheduling.x-k8s.io/schedule-timeout-seconds"
"""On a set: how many seconds a group that is being placed may hold places while others are missing."""

_POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_DIGEST_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Coscheduling:
    """Pods find their PodGroup by a label; a group of one pod needs none."""

    api_version: str = "scheduling.x-k8s.io/v1alpha1"
    versions: Sequence[str] = ("scheduling.x-k8s.io/v1alpha1",)
    remedy: str = "install scheduler-plugins with its CustomResourceDefinitions"
    keeps_in_use: bool = False

    def speaking(self, api_version: str) -> Coscheduling:
        return replace(self, api_version=api_version)

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        return Marks(labels={_POD_GROUP_LABEL: _name(labels)}) if size > 1 else Marks()

    def name_of(self, leader: Object) -> str:
        return "" if group_size_of(leader) == 1 else _name(labels_of(leader))

    def pod_group(self, restored: Object, leader: Object) -> Object:
        spec, is_marked = SetSpec.of(restored), _POD_GROUP_LABEL in labels_of(leader)
        wanted: dict[str, Any] = {
            "minMember": first_members(spec, is_marked),
            "minResources": requests_of_group(spec),
        }
        seconds = timeout_seconds(annotations_of(restored).get(TIMEOUT_ANNOTATION))
        if seconds is not None:
            wanted["scheduleTimeoutSeconds"] = seconds
        return build_pod_group(self.api_version, self.name_of(leader), leader, wanted)


def timeout_seconds(value: object) -> int | None:
    """The value of the annotation; None where it is no whole number above 0, of nine digits at most."""
    return whole_number(value, least=1, most=999_999_999)


def _name(labels: Mapping[str, str]) -> str:
    """It must fit a label; keys of old releases are long."""
    name = name_by_labels(labels)
    if len(name) <= LABEL_LENGTH:
        return name
    digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: LABEL_LENGTH - _DIGEST_LENGTH - 1]}-{digest}"


# --- The PodGroup, and `spec.schedulingGroup` of pods, for the scheduler of Kubernetes (scheduling.k8s.io,
# KEP-4671 and KEP-666). The version of the PodGroup is the one that the API server has.


_GROUP = "scheduling.k8s.io"
# Until then PodGroups have a priority only where a feature gate of alpha quality says so.
_WITHOUT_PRIORITY = f"{_GROUP}/v1alpha2"


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The leader is given the name of its PodGroup when it is created, and hands it on to its workers.

    No two leaders get the same: Kubernetes keeps a PodGroup for as long as some pod names it, so that one of
    a former leader would never go once the next leader waited for it. A group of one pod needs none.
    """

    api_version: str = f"{_GROUP}/v1alpha2"
    versions: Sequence[str] = (f"{_GROUP}/v1beta1", f"{_GROUP}/v1alpha3", f"{_GROUP}/v1alpha2")
    remedy: str = (
        "start Kubernetes 1.36 or later with the feature gate GenericWorkload (1.36: GangScheduling too), "
        "and the API server with --runtime-config for one of them"
    )
    keeps_in_use: bool = True

    def speaking(self, api_version: str) -> Kubernetes:
        return replace(self, api_version=api_version)

    def marks(self, labels: Mapping[str, str], size: int, unique: str) -> Marks:
        if size == 1 or not is_leader({"metadata": {"labels": labels}}):
            return Marks()
        return Marks(scheduling_group=f"{name_by_labels(labels)}-{unique}")

    def name_of(self, leader: Object) -> str:
        """Empty too where users have given their pods a group of their own, or nobody has given one."""
        name = _scheduling_group(leader)
        return name if name.startswith(f"{name_by_labels(labels_of(leader))}-") else ""

    def pod_group(self, restored: Object, leader: Object) -> Object:
        """Deleting the leader does not wait for it: a pod on a lost node would keep it, and it the leader."""
        spec = SetSpec.of(restored)
        members = first_members(spec, is_marked=True)
        wanted: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": members}}}
        pod = spec.leader_template.get("spec") or {}
        if pod.get("priorityClassName") and self.api_version != _WITHOUT_PRIORITY:
            wanted["priorityClassName"] = pod["priorityClassName"]
        made = build_pod_group(self.api_version, self.name_of(leader), leader, wanted)
        made["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
        return made


def hand_on(statefulset: Object, leader: Object) -> Object:
    """Make the pods of a worker StatefulSet name the PodGroup of their leader.

    Whether PodGroups are made at the moment plays no part: the leader waits for the whole group. A group that
    the template names stays.
    """
    name = Kubernetes().name_of(leader)
    template = statefulset["spec"]["template"]
    if not name or (template.get("spec") or {}).get("schedulingGroup"):
        return statefulset
    pod = {**(template.get("spec") or {}), "schedulingGroup": {"podGroupName": name}}
    return {**statefulset, "spec": {**statefulset["spec"], "template": {**template, "spec": pod}}}


def _scheduling_group(pod: Object) -> str:
    group = (pod.get("spec") or {}).get("schedulingGroup") or {}
    return str(group.get("podGroupName") or "")


PROVIDERS: Mapping[str, GangProvider] = MappingProxyType(
    {"volcano": Volcano(), "scheduler-plugins": Coscheduling(), "kubernetes": Kubernetes()}
)
"""By `gangSchedulingManagement.schedulerProvider`."""

_POD_GROUP_VERBS = frozenset({"get", "list", "watch", "create", "patch", "delete"})

GANG_VERBS: Mapping[str, Mapping[tuple[str, str], frozenset[str]]] = MappingProxyType(
    {
        name: {(version.rpartition("/")[0], PLURAL): _POD_GROUP_VERBS for version in provider.versions}
        for name, provider in PROVIDERS.items()
    }
)
"""`gangSchedulingManagement.schedulerProvider` → (API group, resource) → verbs that the code uses
cluster-wide where that is configured. Which version of PodGroup there is, is known at run time only
(`Cluster.learn`).
"""
