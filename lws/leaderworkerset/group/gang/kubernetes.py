"""The PodGroup, and `spec.schedulingGroup` of pods, for the scheduler of Kubernetes (scheduling.k8s.io,
KEP-4671 and KEP-666).

The version of the PodGroup is the one that the API server has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lws.kube.metadata import labels_of
from lws.leaderworkerset.group.gang.provider import Marks, build_pod_group, first_members, name_by_labels
from lws.leaderworkerset.group.identity import is_leader
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object

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
    """The StatefulSet of a group's workers, whose pods name the PodGroup of their leader.

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
