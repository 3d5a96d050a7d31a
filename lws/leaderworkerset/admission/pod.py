"""Mutate a pod of a set on creation: labels, annotations, host name, affinity, nodes, gates and environment.

A rejected pod is left unchanged. The API server may not have generated the name of the pod yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lws.kube.field_errors import Refused, rendered
from lws.kube.metadata import annotations_of, controller_of, labels_of, metadata_of
from lws.kube.names import SUBDOMAIN_LENGTH, parent_and_ordinal
from lws.kube.nodes import node_of, why_unfit
from lws.kube.pods import REQUIRED, terms_of, with_preferred_node, with_required_node
from lws.kube.quantities import INT32, whole_number
from lws.leaderworkerset.group.gangs import Marks
from lws.leaderworkerset.group.placement import (
    add_exclusive_affinity,
    add_peer_affinity,
    members_of,
    peers_of,
    subgroup_key,
    subgroup_of,
)
from lws.leaderworkerset.group.tpu import MOST_PODS, is_configured, tpu_containers, variables
from lws.leaderworkerset.pod_identity import (
    GATED_DELETION_COST,
    group_key,
    hash_host_name,
    is_hash_key,
    is_leader,
    is_marked_hash,
    leader_address,
    leader_name,
)
from lws.leaderworkerset.rollout.scale_down import DELETION_COST_ANNOTATION
from lws.leaderworkerset.spec import EXCLUSIVE_ANNOTATIONS
from lws.leaderworkerset.templates.node_selection import (
    ANNOTATIONS_BY_INDEX,
    nodes_of_group,
    selects_by_group,
    with_tolerations,
)
from lws_api.leaderworkerset.placement import (
    PLACEMENT_GATE,
    RETURNS_TO_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_REPLACEMENT_GATE,
    GROUP_SIZE_ENV,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_ADDRESS_ENV,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_ENV,
    WORKER_INDEX_LABEL,
    SubdomainPolicy,
    SubGroupPolicyType,
)

_REMEDY = f"remove the label {NAME_LABEL} from pods that no LeaderWorkerSet created"
_CONTAINERS = ("initContainers", "containers")
MOST_CONTAINERS = 4000
"""The maximum number of containers of a pod. No API server could store the states of more."""
MOST_ADDED_BYTES = 1536 * 1024
"""The maximum size of the variables that are added to a pod: that of an object in etcd."""

GangMarks = Callable[[Mapping[str, str], Mapping[str, str], int], Marks]
"""Function that returns the marks by which a gang scheduler recognises a pod.

Its arguments are the labels of the pod, its annotations, and the size of its group.
"""


@dataclass(frozen=True, slots=True)
class FormerNode:
    """The node of the previous pod of the same name.
    required: the node object, if the new pod must run on this node; None if the node is only a preference.
    """

    name: str
    required: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Member:
    """The fields of one pod that admission changes. Each rule returns a changed copy, and only the last copy
    is written to the pod.
    name: the name of the pod; for leaders with groupIdentity Hash, which have no name yet, their host name.
    scheduling_group: the name of the pod's PodGroup in Kubernetes. is_hash: whether the set has groupIdentity
    Hash. gate: the scheduling gate to add; empty for none.
    """

    name: str
    namespace: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    subdomain: str
    affinity: Mapping[str, Any] = field(default_factory=dict)
    scheduling_group: str = ""
    is_hash: bool = False
    gate: str = ""


def admit(
    raw: dict[str, Any],
    namespace: str,
    gang: GangMarks | None = None,
    unique: str = "",
    former: FormerNode | None = None,
    has_former: bool = False,
    is_run: bool = True,
) -> None:
    """Make a pod with the name label a member of its set, in place. Pods without the label are not changed.

    Admitting a pod again changes nothing. Raises `Refused`, with the pod unchanged, if it cannot be a member.
    namespace: the namespace of the request, for pods without one. gang: the function that returns marks for
    gang scheduling. unique: 16 random characters, for the key of a Hash group. former: the node to return to;
    ignored with exclusive topologies, and for pods that name their node. has_former: whether pods of the
    former group of a leader with an index may still exist. is_run: whether a pass would remove the gate of a
    Hash leader; if not, the leader gets no gate.
    """
    if NAME_LABEL not in labels_of(raw):
        return
    size = _group_size(raw)
    containers = _containers_of(raw)
    # A template may set worker index 0 on all workers; the controller's annotation marks them as workers.
    is_created_leader = is_leader(raw) and LEADER_NAME_ANNOTATION not in annotations_of(raw)
    is_hash_leader = is_created_leader and is_marked_hash(raw) and not _is_of_statefulset(raw)
    member = _hash_leader(raw, namespace, unique, is_run) if is_hash_leader else _member(raw, namespace)
    if not is_created_leader:
        member = replace(member, labels={**member.labels, WORKER_INDEX_LABEL: _ordinal(member)})
    # Other clients treat any pod with worker index 0 as a leader, and so would this webhook on its next call.
    leads = member.labels[WORKER_INDEX_LABEL] == "0"
    member = _in_subgroup(_as_leader(member) if leads else member, int(size), leads)
    if gang is not None:
        member = _in_gang(member, gang(member.labels, member.annotations, int(size)))
    if has_former and leads and not is_hash_leader:
        member = _held_back(member, raw)
    variables = _variables(member, size, is_worker=not leads)
    if len(containers) * sum(map(len, variables.values())) > MOST_ADDED_BYTES:
        raise Refused(
            f"pod {_title(raw)[:SUBDOMAIN_LENGTH]} would be too large to store with the names that each "
            f"of its {len(containers)} containers gets: shorten them"
        )
    added = _tpu_variables(raw, member)
    if is_hash_leader:
        _refuse_nodes_by_index(raw)
        fields = {"hostname": member.name, **(_gated(raw, {}, GROUP_REPLACEMENT_GATE) if is_run else {})}
    else:
        fields = node_fields(raw, member.namespace) if is_created_leader else {}
        fields |= _gated(raw, fields, member.gate) if member.gate else {}
    if former is not None and not _is_placed_elsewhere(member, raw):
        member = _returning(member, {**(raw.get("spec") or {}), **fields}, former)
    _write(member, raw, fields)
    for container in containers:
        entries = [*(container.get("env") or []), *added.get(id(container), ())]
        container["env"] = _environment(variables, entries)


def copy_to_admit(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a pod, which `admit` changes without changing the original. It shares parts that no
    rule changes in place and the JSON Patch need not compare: this takes 26 instead of 69 µs per pod.
    """
    copy = {**raw}
    metadata, spec = raw.get("metadata"), raw.get("spec")
    if isinstance(metadata, Mapping):
        copy["metadata"] = {**metadata}
    if isinstance(spec, Mapping):
        copy["spec"] = {
            name: [{**container} if isinstance(container, dict) else container for container in value]
            if name in _CONTAINERS and isinstance(value, list)
            else value
            for name, value in spec.items()
        }
    return copy


def _is_hash_worker(raw: Mapping[str, Any]) -> bool:
    labels = labels_of(raw)
    key = labels.get(GROUP_KEY_LABEL)
    return is_marked_hash(raw) and is_hash_key(key) and labels.get(GROUP_INDEX_LABEL) == key


def _is_of_statefulset(raw: Mapping[str, Any]) -> bool:
    """Return whether a StatefulSet controls the pod, which is never so for leaders of groupIdentity Hash."""
    owner = controller_of(raw)
    return owner is not None and owner.get("kind") == "StatefulSet"


def _group_size(raw: Mapping[str, Any]) -> str:
    size = annotations_of(raw).get(SIZE_ANNOTATION)
    if size is None:
        raise Refused(f"size annotation is unexpectedly missing for pod {_title(raw)}")
    if whole_number(size, least=-INT32) is None:
        raise Refused(
            f"annotation {SIZE_ANNOTATION} of pod {_title(raw)} must be an integer, not {rendered(size)}; "
            "the controller sets it, templates must not"
        )
    return size


def _member(raw: Mapping[str, Any], namespace: str) -> _Member:
    metadata = metadata_of(raw)
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise Refused(f"pod {_title(raw)} has no name yet, so its place in the set is unknown; {_REMEDY}")
    return replace(_named(raw, name, namespace), is_hash=_is_hash_worker(raw))


def _named(raw: Mapping[str, Any], name: str, namespace: str) -> _Member:
    return _Member(
        name=name,
        namespace=metadata_of(raw).get("namespace") or namespace,
        annotations=annotations_of(raw),
        labels=labels_of(raw),
        subdomain=(raw.get("spec") or {}).get("subdomain") or "",
        affinity=_affinity_of(raw),
        scheduling_group=_scheduling_group_of(raw),
    )


def _hash_leader(raw: Mapping[str, Any], namespace: str, unique: str, is_gated: bool) -> _Member:
    """Return the leader of a new Hash group, with its group key. The API server generates the name of the pod
    after admission. The key of an earlier call is kept, because host name and affinity contain it.
    """
    labels = labels_of(raw)
    key = labels.get(GROUP_KEY_LABEL)
    if not is_hash_key(key) or labels.get(GROUP_INDEX_LABEL) != key:
        key = group_key(metadata_of(raw).get("namespace") or namespace, unique)
    host_name = (raw.get("spec") or {}).get("hostname") or hash_host_name(labels[NAME_LABEL], key)
    member = _named(raw, str(host_name), namespace)
    cost = {DELETION_COST_ANNOTATION: GATED_DELETION_COST} if is_gated else {}
    return replace(
        member,
        labels={**labels, GROUP_KEY_LABEL: key, GROUP_INDEX_LABEL: key},
        annotations={**cost, **member.annotations},
        is_hash=True,
    )


def _as_leader(member: _Member) -> _Member:
    labels = dict(member.labels)
    if GROUP_INDEX_LABEL not in labels:
        labels[GROUP_INDEX_LABEL] = _ordinal(member)
    labels.setdefault(GROUP_KEY_LABEL, group_key(member.namespace, member.name))
    policy = member.annotations.get(SUBDOMAIN_POLICY_ANNOTATION)
    subdomain = member.name if policy == SubdomainPolicy.UNIQUE_PER_REPLICA else member.subdomain
    member = replace(member, labels=labels, subdomain=subdomain)
    return _placed(member, GROUP_KEY_LABEL, EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION)


def _in_subgroup(member: _Member, size: int, leads: bool) -> _Member:
    """Add the pod to its subgroup, if the set has subgroups that include the pod."""
    annotations = member.annotations
    subgroup_size = annotations.get(SUBGROUP_SIZE_ANNOTATION)
    if subgroup_size is None or member.labels.get(SUBGROUP_INDEX_LABEL):
        return member
    if leads and annotations.get(SUBGROUP_POLICY_TYPE_ANNOTATION) == SubGroupPolicyType.LEADER_EXCLUDED:
        return member
    pods_per_subgroup = whole_number(subgroup_size, least=1)
    if pods_per_subgroup is None:
        raise Refused(
            f"annotation {SUBGROUP_SIZE_ANNOTATION} of pod {member.name} must be a number above 0, not "
            f"{rendered(subgroup_size)}; the controller sets it, templates must not"
        )
    worker = 0 if leads else int(member.labels[WORKER_INDEX_LABEL])
    index = subgroup_of(worker, size, pods_per_subgroup)
    key = subgroup_key(_group_of(member, leads), index)
    labels = {**member.labels, SUBGROUP_INDEX_LABEL: str(index), SUBGROUP_KEY_LABEL: key}
    member = replace(member, labels=labels)
    topologies = SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION
    return _placed(member, SUBGROUP_KEY_LABEL, *topologies)


def _group_of(member: _Member, leads: bool) -> str:
    if member.is_hash:
        return member.labels[GROUP_KEY_LABEL]
    leader = member.name if leads else member.annotations.get(LEADER_NAME_ANNOTATION)
    return leader or parent_and_ordinal(member.name)[0]


def _placed(member: _Member, label: str, apart: str, together: str) -> _Member:
    """Add affinity to pods with the same value of `label`, and anti-affinity to pods with other values.
    Shared placement adds the affinity only.
    apart, together: the annotations that name the topology for exclusive and for shared placement.
    """
    annotations = member.annotations
    if not annotations.get(apart) and not annotations.get(together):
        return member
    peers = peers_of(annotations, member.labels, label, member.namespace)
    if topology := annotations.get(apart):
        return replace(member, affinity=add_exclusive_affinity(member.affinity, peers, topology))
    return replace(member, affinity=add_peer_affinity(member.affinity, peers, annotations[together]))


def _in_gang(member: _Member, marks: Marks) -> _Member:
    """Add the fields that a gang scheduler reads. If the spec already names a PodGroup, that name is kept: it
    comes from an earlier call or from the user.
    """
    return replace(
        member,
        labels={**member.labels, **marks.labels},
        annotations={**member.annotations, **marks.annotations},
        scheduling_group=member.scheduling_group or marks.scheduling_group,
        gate=marks.gate,
    )


def _held_back(member: _Member, raw: Mapping[str, Any]) -> _Member:
    """Add the group replacement gate. A pod that names its node cannot have a gate: it is rejected, and its
    StatefulSet retries.
    """
    if node := (raw.get("spec") or {}).get("nodeName"):
        raise Refused(
            f"pod {member.name} is admitted once the pods of its former group are deleted: with "
            f"spec.nodeName {rendered(node)} it cannot wait behind a scheduling gate"
        )
    return replace(member, gate=GROUP_REPLACEMENT_GATE)


def _is_placed_elsewhere(member: _Member, raw: Mapping[str, Any]) -> bool:
    """Return whether an exclusive topology or a node name already decides where the pod runs. If a pod names
    a node and has an affinity to another one, the kubelet of the named node fails the pod.
    """
    is_exclusive = any(member.annotations.get(key) for key in EXCLUSIVE_ANNOTATIONS)
    return is_exclusive or bool(node_of(raw))


def _returning(member: _Member, spec: Mapping[str, Any], former: FormerNode) -> _Member:
    """Add affinity to the node of the former pod. A required return to a node that cannot take the pod would
    leave it pending indefinitely; so might that of a pod that must be near others, which may be elsewhere. In
    both cases the node is a preference. spec: the spec of the pod, except its affinity.
    """
    path, affinity = "spec.affinity.nodeAffinity", member.affinity
    required = object_in(f"{path}.{REQUIRED}", object_in(path, affinity.get("nodeAffinity")).get(REQUIRED))
    preferred = replace(member, affinity=with_preferred_node(affinity, former.name))
    if former.required is None or terms_of(affinity.get("podAffinity")):
        return preferred
    objects_in(f"{path}.{REQUIRED}.nodeSelectorTerms", required.get("nodeSelectorTerms"))
    if why_unfit(former.name, former.required, {**spec, "affinity": affinity}):
        return preferred
    return replace(
        member,
        affinity=with_required_node(affinity, former.name),
        annotations={**member.annotations, RETURNS_TO_ANNOTATION: former.name},
    )


def _ordinal(member: _Member) -> str:
    _, ordinal = parent_and_ordinal(member.name)
    if ordinal < 0:
        raise Refused(
            f"pod {member.name} has no index: its name must end in a dash and a number, as in StatefulSets; "
            f"{_REMEDY}"
        )
    return str(ordinal)


def _variables(member: _Member, size: str, is_worker: bool) -> dict[str, str]:
    """Return the environment of every container of the pod, in order."""
    group_index = member.labels.get(GROUP_INDEX_LABEL)
    if group_index is None:
        raise Refused(
            f"no group index label found for pod {member.name} ({GROUP_INDEX_LABEL}), so its group is "
            f"unknown; {_REMEDY}"
        )
    leader = leader_name(member.labels[NAME_LABEL], group_index)
    if member.is_hash:
        host_name = hash_host_name(member.labels[NAME_LABEL], member.labels[GROUP_KEY_LABEL])
        leader = host_name if is_worker else member.name
    address = leader_address(leader, member.subdomain, member.namespace)
    # Worker templates of former releases lack this annotation. On leaders, only users can have set it.
    annotated = member.annotations.get(LEADER_ADDRESS_ANNOTATION) if is_worker else None
    return {
        LEADER_ADDRESS_ENV: annotated or address,
        GROUP_SIZE_ENV: size,
        WORKER_INDEX_ENV: member.labels[WORKER_INDEX_LABEL],
    }


def _write(member: _Member, raw: dict[str, Any], fields: Mapping[str, Any]) -> None:
    """Write the changed fields to the pod, and replace these further fields of its spec."""
    raw["metadata"]["labels"] = dict(member.labels)
    if member.annotations != annotations_of(raw):
        raw["metadata"]["annotations"] = dict(member.annotations)
    changed = {"subdomain": member.subdomain, "affinity": member.affinity}
    spec_fields = {**{name: value for name, value in changed.items() if value}, **fields}
    if member.scheduling_group and not _scheduling_group_of(raw):
        spec_fields["schedulingGroup"] = {"podGroupName": member.scheduling_group}
    if spec_fields:
        raw["spec"] = raw.get("spec") or {}
        raw["spec"].update(spec_fields)


def _environment(variables: Mapping[str, str], own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put our variables first, so that other variables may use `$(LWS_LEADER_ADDRESS)`. If a name occurs more
    than once, its first entry is kept.
    """
    environment: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in variables.items()]
    names = set(variables)
    for entry in own:
        name = entry.get("name")
        if isinstance(name, str):
            if name in names:
                continue
            names.add(name)
        environment.append(entry)
    return environment


def _containers_of(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return containers and init containers; ephemeral containers are only added to existing pods."""
    spec = raw.get("spec")
    if spec is not None and not isinstance(spec, dict):
        raise Refused(f"spec must be an object, not {rendered(spec)}")
    containers: list[dict[str, Any]] = []
    for kind in _CONTAINERS:
        path = f"spec.{kind}"
        of_kind = objects_in(path, (spec or {}).get(kind))
        if len(containers) + len(of_kind) > MOST_CONTAINERS:
            raise Refused(f"{path}: a pod of a group has at most {MOST_CONTAINERS} containers: remove some")
        for index, container in enumerate(of_kind):
            objects_in(f"{path}[{index}].env", container.get("env"))
            containers.append(container)
    return containers


def _affinity_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    affinity = object_in("spec.affinity", (raw.get("spec") or {}).get("affinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        path = f"spec.affinity.{kind}"
        objects_in(f"{path}.{REQUIRED}", object_in(path, affinity.get(kind)).get(REQUIRED))
    return affinity


def _scheduling_group_of(raw: Mapping[str, Any]) -> str:
    group = object_in("spec.schedulingGroup", (raw.get("spec") or {}).get("schedulingGroup"))
    return str(group.get("podGroupName") or "")


def _title(raw: Mapping[str, Any]) -> str:
    """Return the name of a pod for messages; the pod may have no name yet."""
    metadata = metadata_of(raw)
    return str(metadata.get("name") or metadata.get("generateName") or "(unnamed)")


def node_fields(raw: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return replacements for fields of a leader pod's spec; empty if its set does not select nodes by group.
    The placement gate is removed, because a pod with these fields may be scheduled.
    """
    annotations = annotations_of(raw)
    if not selects_by_group(annotations):
        return {}
    name, set_name = metadata_of(raw)["name"], labels_of(raw)[NAME_LABEL]
    pod = object_in("spec", raw.get("spec"))
    tolerations = objects_in("spec.tolerations", pod.get("tolerations"))
    try:
        nodes = nodes_of_group(annotations, namespace, set_name, parent_and_ordinal(name)[1])
    except ValueError as error:
        raise Refused(f"nodes for pod {name}: {error}; fix LeaderWorkerSet {set_name}") from error
    replaced: dict[str, Any] = {}
    if nodes.node_selector:
        replaced["nodeSelector"] = {
            **object_in("spec.nodeSelector", pod.get("nodeSelector")),
            **nodes.node_selector,
        }
    if nodes.tolerations:
        replaced["tolerations"] = with_tolerations(tolerations, nodes.tolerations)
    if gates := objects_in("spec.schedulingGates", pod.get("schedulingGates")):
        replaced["schedulingGates"] = [gate for gate in gates if gate != {"name": PLACEMENT_GATE}]
    return replaced


def _refuse_nodes_by_index(raw: Mapping[str, Any]) -> None:
    """Raise `Refused` for a Hash leader whose set selects nodes by index."""
    if by_index := [key for key in ANNOTATIONS_BY_INDEX if annotations_of(raw).get(key)]:
        set_name = labels_of(raw)[NAME_LABEL]
        raise Refused(
            f"pod {_title(raw)} has annotation {by_index[0]}, which selects nodes by group index, and groups "
            f"with groupIdentity Hash have no index; remove it from LeaderWorkerSet {set_name}"
        )


def _gated(raw: Mapping[str, Any], replaced: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the scheduling gates of a pod, from its `replaced` fields if they are there, plus this one."""
    stored = replaced.get("schedulingGates", (raw.get("spec") or {}).get("schedulingGates"))
    gates, gate = objects_in("spec.schedulingGates", stored), {"name": name}
    return {"schedulingGates": gates if gate in gates else [*gates, gate]}


def _tpu_variables(raw: Mapping[str, Any], member: _Member) -> Mapping[int, Sequence[dict[str, Any]]]:
    """Return TPU variables to append to the environment of each container, by `id` of the container. The
    result is empty if no container uses TPUs, or if the user has configured them. Raises `Refused` if the
    pod's TPU peers cannot be determined.
    """
    containers = tpu_containers(raw.get("spec") or {})
    if not containers or is_configured(containers):
        return {}
    worker = _number(raw, member.labels, WORKER_INDEX_LABEL)
    leader = member.name if worker == 0 else parent_and_ordinal(member.name)[0]
    pods = _members(raw, worker, member.labels, member.annotations)
    try:
        entries_by_container = variables(leader, member.subdomain, pods, worker, containers)
    except ValueError as error:
        raise Refused(f"pod {member.name} cannot get its TPU environment: {error}") from error
    return {
        id(container): entries for container, entries in zip(containers, entries_by_container, strict=True)
    }


def _members(
    raw: Mapping[str, Any], worker: int, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> range:
    """Return the indices of the pods of the group, or of the subgroup, that use TPUs."""
    size = _number(raw, annotations, SIZE_ANNOTATION)
    if size > MOST_PODS:
        raise Refused(f"pod {_title(raw)} uses TPUs in a group of {size} pods: at most {MOST_PODS} can")
    members = range(size)
    if SUBGROUP_SIZE_ANNOTATION in annotations:
        index = _number(raw, labels, SUBGROUP_INDEX_LABEL)
        members = members_of(index, size, _number(raw, annotations, SUBGROUP_SIZE_ANNOTATION) or 1)
    excluded = annotations.get(SUBGROUP_POLICY_TYPE_ANNOTATION) == SubGroupPolicyType.LEADER_EXCLUDED
    leader_uses_tpus = worker == 0 or annotations.get(LEADER_REQUESTS_TPUS_ANNOTATION) == "true"
    if leader_uses_tpus and not (excluded and SUBGROUP_SIZE_ANNOTATION in annotations):
        return members
    return range(max(members.start, 1), members.stop)


def _number(raw: Mapping[str, Any], values: Mapping[str, str], key: str) -> int:
    value = values.get(key)
    if (number := whole_number(value)) is not None:
        return number
    name = _title(raw)
    if key == SUBGROUP_INDEX_LABEL and value is None:
        raise Refused(
            f"leader pod {name} uses TPUs and is in no subgroup (subGroupPolicyType LeaderExcluded): give "
            "the set a leaderTemplate that does not request google.com/tpu, or use LeaderWorker"
        )
    raise Refused(f"{key} of pod {name} must be a number for pods that use TPUs, not {rendered(value)}")


def object_in(path: str, value: Any) -> Mapping[str, Any]:
    """Return `value` if it is an object, an empty object for null; raises `Refused` for other types."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refused(f"{path} must be an object, not {rendered(value)}")
    return value


def objects_in(path: str, value: Any) -> list[dict[str, Any]]:
    """Return `value` if it is a list of objects, an empty list for null; raises `Refused` for other types."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(f"{path} must be a list, not {rendered(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise Refused(f"{path}[{index}] must be an object, not {rendered(item)}")
    return value
