"""Read level and scheduler of `spec.scheduling` (KEP-666), and build its Workload and PodGroups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lws.kube.metadata import (
    annotations_of,
    child_metadata,
    controller_of,
    is_controlled_by,
    is_mapping,
    labels_of,
    name_of,
    uid_of,
)
from lws.kube.names import fnv_1a, safe_encoded
from lws.leaderworkerset.fields import SCHEDULING, Field, value_at
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    API_GROUP,
    GROUP_INDEX_LABEL,
    NAME_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    SCHEDULING_LEVEL_ANNOTATION,
    SCHEDULING_LEVEL_LABEL,
    WORKLOAD_NAME_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import LEADER as OF_LEADER
from lws_api.leaderworkerset.v1 import WORKER as OF_WORKERS

REPLICA = SCHEDULING.child("replica")
LEADER, WORKER = REPLICA.child("leader"), REPLICA.child("worker")
_LEVEL_FIELDS = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")

GROUP_TEMPLATE_ANNOTATION = "scheduling.k8s.io/group-template-name"
PARENT_GROUP_ANNOTATION = "scheduling.k8s.io/parent-compositepodgroup"
"""Annotations of sets whose parent has the Workload (delegated scheduling)."""

KUBERNETES = "kubernetes"
PROVIDERS = (KUBERNETES, "volcano")
"""Gang schedulers that can serve `spec.scheduling`."""

API_VERSION = "scheduling.k8s.io/v1beta1"
"""API version of Workloads and of their PodGroups."""

UNAVAILABLE = (
    f"{API_VERSION} Workload API is not available: start Kubernetes 1.37 or later with the feature gate "
    f"GenericWorkload, and the API server with --runtime-config={API_VERSION}=true"
)


class Level(StrEnum):
    """Unit that pods are scheduled in, with upstream's names: all pods of the set, those of each group, or
    the leader and the workers of each group separately.
    """

    SET = "lws"
    REPLICA = "replica"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The scheduler for `spec.scheduling`.
    is_enabled: whether the feature gate WorkloadAwareScheduling is on. provider: the configured gang
    scheduler; empty for none. lacks_workloads: whether the API server is known not to serve Workloads.
    """

    is_enabled: bool = False
    provider: str = ""
    lacks_workloads: bool = False

    @property
    def has_workloads(self) -> bool:
        """Whether sets with `spec.scheduling` have Workloads of Kubernetes."""
        return self.is_enabled and self.provider == KUBERNETES


NO_SCHEDULER = Scheduler()
ASSUMED = Scheduler(is_enabled=True, provider=KUBERNETES)
"""For callers that do not know the configuration of the manager."""


def levels_of(raw: Mapping[str, Any]) -> tuple[Level, ...]:
    """Return the levels that have fields; `Level.REPLICA` if none has."""
    has_roles = any(section.stored_in(raw) is not None for section in (LEADER, WORKER))
    replica = REPLICA.stored_in(raw)
    active = {
        Level.SET: _has_own(SCHEDULING, raw),
        Level.REPLICA: _has_own(REPLICA, raw) or (replica is not None and not has_roles),
        Level.ROLE: has_roles,
    }
    return tuple(level for level, is_active in active.items() if is_active) or (Level.REPLICA,)


def _has_own(section: Field, raw: Mapping[str, Any]) -> bool:
    return any(section.child(name).stored_in(raw) is not None for name in _LEVEL_FIELDS)


# --- The Workload and its PodGroups, for the scheduler of Kubernetes.


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Workload and PodGroups of a set.
    is_served, is_missing: whether the API server serves Workloads or not; both False while that is unknown.
    workload: the Workload with the name that the set needs, regardless of owner. pod_groups: PodGroups that
    the set controls or whose names it needs, regardless of owner.
    """

    is_served: bool = False
    is_missing: bool = False
    workload: Object | None = None
    pod_groups: tuple[Object, ...] = ()

    def named(self, name: str) -> Object | None:
        """Return the PodGroup with this name; None if there is none."""
        return next((pod_group for pod_group in self.pod_groups if name_of(pod_group) == name), None)


@dataclass(frozen=True, slots=True)
class Part:
    """Pods that are scheduled as a unit. name: name of their template in the Workload. place: the field of
    the set that configures them. members: number of pods.
    """

    name: str
    place: Field
    members: int


def needs_workload(lws: Object, scheduler: Scheduler) -> bool:
    return scheduler.has_workloads and SCHEDULING.stored_in(lws) is not None


def level_of(lws: Object) -> Level:
    """Return the level of a set; admission allows only one."""
    return levels_of(lws)[0]


def workload_name(lws: Object, leaders: Object | None = None) -> str:
    """Return the name of the Workload of a set. It contains a hash of the UID, so a recreated set of the same
    name gets a Workload of another name, unless it adopts the leaders of the former set: another name in
    their template would restart all pods.
    leaders: the StatefulSet or Deployment with the name of the set, regardless of owner.
    """
    if leaders is not None and (controller_of(leaders) is None or is_controlled_by(leaders, uid_of(lws))):
        template = value_at(leaders, ("spec", "template")) or {}
        named = annotations_of(template).get(WORKLOAD_NAME_ANNOTATION) or ""
        # Another name can only be an edit, which is undone.
        if re.fullmatch(rf"{re.escape(name_of(lws))}-[a-z0-9]{{1,10}}", named):
            return named
    # Upstream hashes Go's notation of the UID, with its type.
    return f"{name_of(lws)}-{safe_encoded(str(fnv_1a(f'(types.UID){uid_of(lws)}', bits=32)))}"


def template_annotations(lws: Object, leaders: Object | None = None) -> dict[str, str]:
    """Return the annotations of the pod templates of a set with `spec.scheduling`. leaders: as in
    `workload_name`.
    """
    if SCHEDULING.stored_in(lws) is None:
        return {}
    name = workload_name(lws, leaders)
    return {SCHEDULING_LEVEL_ANNOTATION: level_of(lws).value, WORKLOAD_NAME_ANNOTATION: name}


def pod_group_of_set(workload: str) -> str:
    """Return the name of the PodGroup of all pods of a set."""
    return f"{workload}-{Level.SET}"


def pod_group_of_leader(workload: str, level: Level, labels: Mapping[str, str]) -> str:
    """Return the name of a leader's PodGroup, by the Workload in its annotation and its labels."""
    if level is Level.SET:
        return pod_group_of_set(workload)
    role = (OF_LEADER,) if level is Level.ROLE else ()
    return "-".join((workload, labels.get(GROUP_INDEX_LABEL, ""), *role, labels.get(REVISION_LABEL, "")))


def pod_group_of_workers(lws: Object, leader: Object) -> str:
    """Return the name of the PodGroup of the workers of a leader; empty if the leader names none."""
    name = pod_group_name_in(leader)
    if SCHEDULING.stored_in(lws) is None or level_of(lws) is not Level.ROLE:
        return name
    key = labels_of(leader).get(REVISION_LABEL, "")
    prefix = name.removesuffix(f"-{OF_LEADER}-{key}")
    return f"{prefix}-{OF_WORKERS}-{key}" if prefix != name else ""


def pod_groups_of_group(lws: Object, leader: Object) -> dict[str, str]:
    """Return the names of the PodGroups that the group of this leader needs, by part. Empty if all pods of
    the set share one PodGroup, or if the API server has dropped the name from the leader.
    """
    name, level = pod_group_name_in(leader), level_of(lws)
    if not name or level is Level.SET:
        return {}
    if level is Level.REPLICA:
        return {Level.REPLICA.value: name}
    workers = pod_group_of_workers(lws, leader)
    return {OF_LEADER: name, OF_WORKERS: workers} if workers else {}


def pod_group_name_in(pod: Object) -> str:
    """Return the PodGroup that the spec of a pod names; empty for none."""
    return str(((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName") or "")


def parts_of(spec: SetSpec) -> tuple[Part, ...]:
    """Return the units that the set is scheduled in."""
    match level_of(spec.lws):
        case Level.SET:
            return (Part(Level.SET.value, SCHEDULING, max(spec.replicas * spec.size, 1)),)
        case Level.REPLICA:
            return (Part(Level.REPLICA.value, REPLICA, spec.size),)
    return (Part(OF_LEADER, LEADER, 1), Part(OF_WORKERS, WORKER, max(spec.size - 1, 1)))


def build_workload(spec: SetSpec, leaders: Object | None = None) -> dict[str, Any]:
    """Build the Workload of a set. leaders: as in `workload_name`."""
    lws = spec.lws
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": child_metadata(lws, workload_name(lws, leaders), {NAME_LABEL: name_of(lws)}),
        "spec": {
            "controllerRef": {"apiGroup": API_GROUP, "kind": lws["kind"], "name": name_of(lws)},
            "podGroupTemplates": [
                {"name": part.name, **_common_fields(spec, part, part.members)} for part in parts_of(spec)
            ],
        },
    }


def build_pod_group(
    spec: SetSpec, part: Part, name: str, workload: Object, leader: Object | None = None, members: int = 0
) -> dict[str, Any]:
    """Build a PodGroup, owned by the set.
    workload: the Workload of the set. leader: the leader of the group; None for the PodGroup of all pods.
    members: number of pods; 0 for the number of the part. The deletion of the set does not wait for the
    PodGroup, which Kubernetes keeps as long as its pods exist.
    """
    lws = spec.lws
    labels = {NAME_LABEL: name_of(lws), SCHEDULING_LEVEL_LABEL: level_of(lws).value}
    if leader is not None:
        own = labels_of(leader)
        labels |= {key: own[key] for key in (GROUP_INDEX_LABEL, REVISION_LABEL) if key in own}
        labels |= {ROLE_LABEL: part.name} if part.name in (OF_LEADER, OF_WORKERS) else {}
    workload_owner = {key: workload[key] for key in ("apiVersion", "kind")} | {
        key: workload["metadata"][key] for key in ("name", "uid")
    }
    metadata = child_metadata(lws, name, labels)
    metadata["ownerReferences"][0]["blockOwnerDeletion"] = False
    metadata["ownerReferences"].append(workload_owner)
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {
            "workloadRef": {"workloadName": name_of(workload), "templateName": part.name},
            **_common_fields(spec, part, members or part.members),
        },
    }


def _common_fields(spec: SetSpec, part: Part, members: int) -> dict[str, Any]:
    """Return the fields that a template of a Workload and its PodGroups have in common."""
    is_gang = _is_gang(spec.lws, part.place)
    common: dict[str, Any] = {
        "schedulingPolicy": {"gang": {"minCount": members}} if is_gang else {"basic": {}}
    }
    for name in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if value := part.place.child(name).stored_in(spec.lws):
            common[name] = value
    if priority := (spec.leader_template.get("spec") or {}).get("priorityClassName"):
        common["priorityClassName"] = priority
    return common


def _is_gang(lws: Object, section: Field) -> bool:
    policy = section.child("schedulingPolicy").stored_in(lws)
    if not is_mapping(policy) or not policy:
        return section == REPLICA
    return policy.get("gang") is not None


def dropped_fields(stored: Object, intent: Object) -> list[str]:
    """Return fields of a Workload or PodGroup that the API server dropped: their feature gate is off."""
    pairs = _template_pairs(stored, intent)
    return sorted({name for desired, actual in pairs for name in desired if actual.get(name) is None})


def has_drifted(stored: Object, intent: Object) -> bool:
    """Return whether immutable fields of a Workload or PodGroup (all but `minCount`) are not as intended.
    Values that the API server adds, and empty lists that it drops, are no difference.
    """
    return len(_templates(stored)) != len(_templates(intent)) or any(
        actual.get(name) is not None and not _holds(actual[name], _without_count(value))
        for desired, actual in _template_pairs(stored, intent)
        for name, value in desired.items()
    )


def count_patch(stored: Object, intent: Object) -> dict[str, Any]:
    """Return the patch that sets the intended `minCount`; empty if nothing differs."""
    pairs = _template_pairs(stored, intent)
    templates = [_with_count(actual, desired) for desired, actual in pairs]
    if templates == [actual for _, actual in pairs]:
        return {}
    if stored["kind"] == "Workload":
        return {"spec": {"podGroupTemplates": templates}}
    return {"spec": {"schedulingPolicy": templates[0]["schedulingPolicy"]}}


def _templates(obj: Object) -> list[Mapping[str, Any]]:
    spec = obj.get("spec") or {}
    return list(spec.get("podGroupTemplates") or ()) if obj["kind"] == "Workload" else [spec]


def _template_pairs(stored: Object, intent: Object) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the desired and the actual template or spec of each part."""
    return list(zip(_templates(intent), _templates(stored), strict=False))


def _without_count(value: Any) -> Any:
    return {**value, "gang": {}} if is_mapping(value) and "gang" in value else value


def _holds(actual: Any, desired: Any) -> bool:
    """Return whether a stored value has all that is desired. An empty mapping is a choice (`all: {}`)."""
    if is_mapping(desired):
        needed = {key: value for key, value in desired.items() if value not in (None, [])}
        return is_mapping(actual) and all(
            key in actual and _holds(actual[key], value) for key, value in needed.items()
        )
    if isinstance(desired, list) and isinstance(actual, list):
        return len(desired) == len(actual) and all(map(_holds, actual, desired))
    return bool(actual == desired)


def _with_count(stored: Mapping[str, Any], intent: Mapping[str, Any]) -> dict[str, Any]:
    policy, stored_policy = intent["schedulingPolicy"], stored.get("schedulingPolicy") or {}
    if "gang" not in policy:
        return dict(stored)
    gang = {**(stored_policy.get("gang") or {}), **policy["gang"]}
    return {**stored, "schedulingPolicy": {"gang": gang}}
