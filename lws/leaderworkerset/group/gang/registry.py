"""The gang providers by the names that the configuration has for them, and the one for Volcano."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lws.kube.metadata import annotations_of, labels_of
from lws.leaderworkerset.group.gang.coscheduling import Coscheduling
from lws.leaderworkerset.group.gang.kubernetes import Kubernetes
from lws.leaderworkerset.group.gang.provider import (
    PLURAL,
    GangProvider,
    Marks,
    build_pod_group,
    first_members,
    name_by_labels,
    requests_of_group,
)
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object

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
