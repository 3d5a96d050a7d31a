"""How does a group ask another scheduler to be placed as a whole, or not at all (KEP-407)?

In: the set as the group's revision had it, the leader pod. Out: what pods say of their gang; the PodGroup.
A provider is a scheduler that reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lws.actions import Object
from lws.kube.metadata import annotations_of, labels_of, owner_reference
from lws.kube.requests import Requests, of_many, of_pod, total
from lws.leaderworkerset import spec
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, NAME_LABEL, REVISION_LABEL, StartupPolicy

KIND = "PodGroup"


class GangProvider(Protocol):
    """A scheduler that places the pods of a group together."""

    api_version: str

    def pod_annotations(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """What a pod with these labels says of its gang."""
        ...

    def pod_group(self, restored: Object, leader: Object) -> Object:
        """The PodGroup of a group, owned by its leader pod.

        restored: the set as the revision of the group had it, with live annotations.
        """
        ...

    def name_of(self, labels: Mapping[str, str]) -> str:
        """The name of the PodGroup of a pod with these labels."""
        ...


class Volcano:
    """Volcano (scheduling.volcano.sh/v1beta1). Users name it as the scheduler in their templates."""

    api_version = "scheduling.volcano.sh/v1beta1"

    _GROUP_NAME_ANNOTATION = "scheduling.k8s.io/group-name"
    _QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
    _PASSED_ON = "volcano.sh/"

    def name_of(self, labels: Mapping[str, str]) -> str:
        """With the revision key in it: groups of two revisions are two gangs."""
        parts = (labels.get(key, "") for key in (NAME_LABEL, GROUP_INDEX_LABEL, REVISION_LABEL))
        return "-".join(parts)

    def pod_annotations(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The annotation by which Volcano finds the PodGroup."""
        return {self._GROUP_NAME_ANNOTATION: self.name_of(labels)}

    def pod_group(self, restored: Object, leader: Object) -> Object:
        """Of all pods, but for LeaderReady, where the others do not exist until the leader runs.

        A leader that does not name it was made before gangs were switched on: the others go without it.
        """
        labels, told = labels_of(leader), annotations_of(restored)
        waits = spec.startup_policy_of(restored) == StartupPolicy.LEADER_READY
        members = spec.size_of(restored) - int(self._GROUP_NAME_ANNOTATION not in annotations_of(leader))
        wanted: dict[str, Any] = {
            "minMember": 1 if waits else max(1, members),
            "minResources": {name: str(amount) for name, amount in _requests(restored).items()},
        }
        if self._QUEUE_ANNOTATION in told:
            wanted["queue"] = told[self._QUEUE_ANNOTATION]
        metadata: dict[str, Any] = {
            "name": self.name_of(labels),
            "namespace": spec.namespace_of(restored),
            "labels": {key: labels[key] for key in (NAME_LABEL, GROUP_INDEX_LABEL, REVISION_LABEL)},
            "ownerReferences": [owner_reference(leader)],
        }
        passed_on = {key: value for key, value in told.items() if key.startswith(self._PASSED_ON)}
        metadata |= {"annotations": passed_on} if passed_on else {}
        return {"apiVersion": self.api_version, "kind": KIND, "metadata": metadata, "spec": wanted}


PROVIDERS: Mapping[str, GangProvider] = {"volcano": Volcano()}
"""By the name that the configuration has for them."""


def _requests(restored: Object) -> Requests:
    """Of the whole group."""
    worker: Mapping[str, Any] = spec.template_of(restored)["workerTemplate"]
    workers = of_many(of_pod(worker.get("spec") or {}), spec.size_of(restored) - 1)
    return total([of_pod(spec.leader_template_of(restored).get("spec") or {}), workers])
