"""The PodGroup, and the labels of pods, for the coscheduling plugin of scheduler-plugins
(scheduling.x-k8s.io/v1alpha1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lws.kube.metadata import annotations_of, labels_of
from lws.kube.names import LABEL_LENGTH
from lws.kube.quantities import whole_number
from lws.leaderworkerset.group.gang.provider import (
    Marks,
    build_pod_group,
    first_members,
    name_by_labels,
    requests_of_group,
)
from lws.leaderworkerset.group.identity import group_size_of
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object

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
