"""The interface of a gang provider: how a group asks a scheduler to be placed as a whole (KEP-407, KEP-666).

In: the set as of the group's revision, the leader pod. Out: marks of pods; the PodGroup. A provider is one
API of PodGroups; a scheduler reads both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lws.kube.metadata import labels_of, owner_reference
from lws.kube.requests import of_many, of_pod, total
from lws.leaderworkerset.spec import SetSpec, group_topology
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, StartupPolicy

KIND = "PodGroup"
PLURAL = "podgroups"

_IDENTITY = (NAME_LABEL, GROUP_INDEX_LABEL, REVISION_LABEL)


@dataclass(frozen=True, slots=True)
class Marks:
    """What a pod says of its gang: labels, annotations, `spec.schedulingGroup.podGroupName`."""

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
        """What has to be done where none of them is served, as a command without a subject."""
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
        """What a pod that is being created gets.

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
    """What all pods of the group ask for together, as the API has it."""
    workers = of_many(of_pod(spec.worker_template.get("spec") or {}), spec.size - 1)
    everyone = total([of_pod(spec.leader_template.get("spec") or {}), workers])
    return {name: str(amount) for name, amount in everyone.items()}


def build_pod_group(api_version: str, name: str, leader: Object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """A PodGroup of the leader's namespace with the labels of its group. wanted: its spec."""
    labels = labels_of(leader)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": leader["metadata"]["namespace"],
        "labels": {key: labels[key] for key in _IDENTITY},
        "ownerReferences": [owner_reference(leader)],
    }
    return {"apiVersion": api_version, "kind": KIND, "metadata": metadata, "spec": dict(wanted)}
