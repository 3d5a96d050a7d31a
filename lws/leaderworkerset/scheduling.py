"""Read `spec.scheduling` (KEP-666): at which level it says something, who serves it, and which Workload and
PodGroups of Kubernetes it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lws.kube.metadata import is_mapping, labels_of, name_of, namespace_of, owner_reference, uid_of
from lws.kube.names import fnv_1a, safe_encoded
from lws.leaderworkerset.fields import SCHEDULING, Field
from lws.leaderworkerset.spec import SetSpec
from lws.runtime.actions import Object
from lws_api.leaderworkerset.v1 import (
    GROUP,
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

REPLICA = SCHEDULING.field("replica")
LEADER, WORKER = REPLICA.field("leader"), REPLICA.field("worker")
_OF_A_LEVEL = ("schedulingPolicy", "schedulingConstraints", "disruptionMode")

GROUP_TEMPLATE_ANNOTATION = "scheduling.k8s.io/group-template-name"
PARENT_GROUP_ANNOTATION = "scheduling.k8s.io/parent-compositepodgroup"
"""Of sets whose parent has the Workload (delegated scheduling)."""

KUBERNETES = "kubernetes"
PROVIDERS = (KUBERNETES, "volcano")
"""Gang schedulers that `spec.scheduling` is served by."""

API_VERSION = "scheduling.k8s.io/v1beta1"
"""Of Workloads and of their PodGroups."""

UNAVAILABLE = (
    f"{API_VERSION} Workload API is not available: start Kubernetes 1.37 or later with the feature gate "
    f"GenericWorkload, and the API server with --runtime-config={API_VERSION}=true"
)


class Level(StrEnum):
    """What is scheduled as one, under upstream's names: the set, each group, the leader and the workers."""

    SET = "lws"
    REPLICA = "replica"
    ROLE = "role"


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Who serves `spec.scheduling`. is_enabled: the feature gate WorkloadAwareScheduling is on. provider: the
    configured gang scheduler; empty for none. lacks_workloads: the API server is known not to serve them.
    """

    is_enabled: bool = False
    provider: str = ""
    lacks_workloads: bool = False


NOBODY = Scheduler()
ASSUMED = Scheduler(is_enabled=True, provider=KUBERNETES)
"""For who cannot know how the manager is configured."""


def levels_of(raw: Mapping[str, Any]) -> tuple[Level, ...]:
    """The levels that have fields; groups where none has."""
    has_roles = any(place.of(raw) is not None for place in (LEADER, WORKER))
    replica = REPLICA.of(raw)
    active = {
        Level.SET: _has_own(SCHEDULING, raw),
        Level.REPLICA: _has_own(REPLICA, raw) or (replica is not None and not has_roles),
        Level.ROLE: has_roles,
    }
    return tuple(level for level, is_active in active.items() if is_active) or (Level.REPLICA,)


def _has_own(place: Field, raw: Mapping[str, Any]) -> bool:
    return any(place.field(name).of(raw) is not None for name in _OF_A_LEVEL)


# --- The Workload and its PodGroups, for the scheduler of Kubernetes.


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What there is of it. is_served, is_missing: whether the API server serves Workloads; neither while that
    is not known. workload: the one of the name
    that the set needs. pod_groups: those that the set controls, and those of names that it needs. Both
    regardless of owner.
    """

    is_served: bool = False
    is_missing: bool = False
    workload: Object | None = None
    pod_groups: tuple[Object, ...] = ()

    def named(self, name: str) -> Object | None:
        """The PodGroup of a name."""
        return next((each for each in self.pod_groups if name_of(each) == name), None)


@dataclass(frozen=True, slots=True)
class Part:
    """Pods that are scheduled as one. name: of the template in the Workload. place: what the set says about
    them. members: how many they are.
    """

    name: str
    place: Field
    members: int


def needs_workload(lws: Object, scheduler: Scheduler) -> bool:
    """Whether the set has a Workload of Kubernetes."""
    return scheduler.is_enabled and scheduler.provider == KUBERNETES and SCHEDULING.of(lws) is not None


def level_of(lws: Object) -> Level:
    """The level of a set; admission allows no more than one."""
    return levels_of(lws)[0]


def workload_name(lws: Object) -> str:
    """Sets of one name that come one after the other have different ones."""
    return f"{name_of(lws)}-{safe_encoded(str(fnv_1a(uid_of(lws), bits=32)))}"


def template_annotations(lws: Object) -> dict[str, str]:
    """Annotations of the pod templates of a set with `spec.scheduling`."""
    if SCHEDULING.of(lws) is None:
        return {}
    return {SCHEDULING_LEVEL_ANNOTATION: level_of(lws).value, WORKLOAD_NAME_ANNOTATION: workload_name(lws)}


def pod_group_of_set(workload: str) -> str:
    """Name of the PodGroup of all pods of a set."""
    return f"{workload}-{Level.SET}"


def pod_group_of_leader(workload: str, level: Level, labels: Mapping[str, str]) -> str:
    """Name of the PodGroup of a leader. workload: of its annotation. labels: its own."""
    if level is Level.SET:
        return pod_group_of_set(workload)
    role = (OF_LEADER,) if level is Level.ROLE else ()
    return "-".join((workload, labels.get(GROUP_INDEX_LABEL, ""), *role, labels.get(REVISION_LABEL, "")))


def pod_group_of_workers(lws: Object, leader: Object) -> str:
    """Name of the PodGroup of the workers of a leader; empty where it has none itself."""
    name = named_by(leader)
    if SCHEDULING.of(lws) is None or level_of(lws) is not Level.ROLE:
        return name
    key = labels_of(leader).get(REVISION_LABEL, "")
    head = name.removesuffix(f"-{OF_LEADER}-{key}")
    return f"{head}-{OF_WORKERS}-{key}" if head != name else ""


def pod_groups_of_group(lws: Object, leader: Object) -> dict[str, str]:
    """Part → name of the PodGroup that the group of a leader needs for it. Empty where all pods of the set
    have one, and where the API server has dropped the name from the leader.
    """
    name, level = named_by(leader), level_of(lws)
    if not name or level is Level.SET:
        return {}
    if level is Level.REPLICA:
        return {Level.REPLICA.value: name}
    workers = pod_group_of_workers(lws, leader)
    return {OF_LEADER: name, OF_WORKERS: workers} if workers else {}


def named_by(pod: Object) -> str:
    """Name of the PodGroup that a pod names; empty for none."""
    return str(((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName") or "")


def parts_of(spec: SetSpec) -> tuple[Part, ...]:
    """What the set schedules as one."""
    match level_of(spec.lws):
        case Level.SET:
            return (Part(Level.SET.value, SCHEDULING, max(spec.replicas * spec.size, 1)),)
        case Level.REPLICA:
            return (Part(Level.REPLICA.value, REPLICA, spec.size),)
    return (Part(OF_LEADER, LEADER, 1), Part(OF_WORKERS, WORKER, max(spec.size - 1, 1)))


def build_workload(spec: SetSpec) -> dict[str, Any]:
    """The Workload of a set."""
    lws = spec.lws
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(lws),
            "namespace": namespace_of(lws),
            "labels": {NAME_LABEL: name_of(lws)},
            "ownerReferences": [owner_reference(lws)],
        },
        "spec": {
            "controllerRef": {"apiGroup": GROUP, "kind": lws["kind"], "name": name_of(lws)},
            "podGroupTemplates": [
                {"name": part.name, **_asked(spec, part, part.members)} for part in parts_of(spec)
            ],
        },
    }


def build_pod_group(
    spec: SetSpec, part: Part, name: str, workload: Object, leader: Object | None = None, members: int = 0
) -> dict[str, Any]:
    """A PodGroup, owned by the set. workload: of the set. leader: of the group, None for that of all pods.
    members: those of the part unless they are given. Deleting the set does not wait for it: Kubernetes keeps
    it for as long as its pods.
    """
    lws = spec.lws
    labels = {NAME_LABEL: name_of(lws), SCHEDULING_LEVEL_LABEL: level_of(lws).value}
    if leader is not None:
        carried = labels_of(leader)
        labels |= {key: carried[key] for key in (GROUP_INDEX_LABEL, REVISION_LABEL) if key in carried}
        labels |= {ROLE_LABEL: part.name} if part.name in (OF_LEADER, OF_WORKERS) else {}
    keys = ("apiVersion", "kind")
    of_workload = {key: workload[key] for key in keys} | {
        key: workload["metadata"][key] for key in ("name", "uid")
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace_of(lws),
            "labels": labels,
            "ownerReferences": [{**owner_reference(lws), "blockOwnerDeletion": False}, of_workload],
        },
        "spec": {
            "workloadRef": {"workloadName": name_of(workload), "templateName": part.name},
            **_asked(spec, part, members or part.members),
        },
    }


def _asked(spec: SetSpec, part: Part, members: int) -> dict[str, Any]:
    """What a template of a Workload and its PodGroups have in common."""
    is_gang = _is_gang(spec.lws, part.place)
    asked: dict[str, Any] = {
        "schedulingPolicy": {"gang": {"minCount": members}} if is_gang else {"basic": {}}
    }
    for name in ("schedulingConstraints", "disruptionMode", "resourceClaims"):
        if value := part.place.field(name).of(spec.lws):
            asked[name] = value
    if priority := (spec.leader_template.get("spec") or {}).get("priorityClassName"):
        asked["priorityClassName"] = priority
    return asked


def _is_gang(lws: Object, place: Field) -> bool:
    policy = place.field("schedulingPolicy").of(lws)
    if not is_mapping(policy) or not policy:
        return place == REPLICA
    return policy.get("gang") is not None


def are_groups_gangs(lws: Object) -> bool:
    """Whether no pod of a group is scheduled before all of them can be."""
    return level_of(lws) is Level.REPLICA and _is_gang(lws, REPLICA)


def dropped_fields(stored: Object, intent: Object) -> list[str]:
    """What the API server has not stored of a Workload or PodGroup, for lack of a feature gate."""
    pairs = _compared(stored, intent)
    return sorted({name for mine, theirs in pairs for name in mine if theirs.get(name) is None})


def has_drifted(stored: Object, intent: Object) -> bool:
    """Whether it says something else than it was created with, but for what may change: numbers of gangs."""
    return len(_templates(stored)) != len(_templates(intent)) or any(
        theirs.get(name) is not None and _without_count(theirs[name]) != _without_count(value)
        for mine, theirs in _compared(stored, intent)
        for name, value in mine.items()
    )


def count_patch(stored: Object, intent: Object) -> dict[str, Any]:
    """The patch for other numbers of members; empty where they are as intended."""
    pairs = _compared(stored, intent)
    wanted = [_counted(theirs, mine) for mine, theirs in pairs]
    if wanted == [theirs for _, theirs in pairs]:
        return {}
    if stored["kind"] == "Workload":
        return {"spec": {"podGroupTemplates": wanted}}
    return {"spec": {"schedulingPolicy": wanted[0]["schedulingPolicy"]}}


def _templates(obj: Object) -> list[Mapping[str, Any]]:
    spec = obj.get("spec") or {}
    return list(spec.get("podGroupTemplates") or ()) if obj["kind"] == "Workload" else [spec]


def _compared(stored: Object, intent: Object) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    return list(zip(_templates(intent), _templates(stored), strict=False))


def _without_count(value: Any) -> Any:
    if is_mapping(value) and "gang" in value:
        return {"gang"}
    return value


def _counted(stored: Mapping[str, Any], intent: Mapping[str, Any]) -> dict[str, Any]:
    policy = intent["schedulingPolicy"]
    return {**stored, "schedulingPolicy": policy} if "gang" in policy else dict(stored)
