"""Validate the pod templates of a set.

Errors report what StatefulSets would reject or TPUs cannot work with; warnings report what has another effect
than it seems. `reserved_errors` and `reserved_warnings` check labels and annotations that belong to the
controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.field_errors import FieldError, invalid, rendered, required
from lws.kube.metadata import annotations_of, labels_of, metadata_of
from lws.kube.names import byte_length, dns1123_subdomain_errors, label_key_errors
from lws.kube.pods import has_both_terms
from lws.kube.quantities import is_integer, whole_number
from lws.kube.typed import types_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.group.placement import count_of
from lws.leaderworkerset.group.tpu import MOST_PODS, PORT_ENV, is_configured, ports_of, tpu_containers
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS, SetSpec, has_hash_groups, nodes_of_no_return
from lws.leaderworkerset.templates.node_selection import nodes_of_group
from lws_api.leaderworkerset.identity import GroupIdentity
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
    ExclusiveTopologyScope,
    NodeReturn,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_IDENTITY_ANNOTATION,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_SIZE_ENV,
    LEADER_ADDRESS_ANNOTATION,
    LEADER_ADDRESS_ENV,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_ENV,
    WORKER_INDEX_LABEL,
    LeaderWorkerSetSpec,
    SubdomainPolicy,
    SubGroupPolicyType,
)

_VARIABLES = (LEADER_ADDRESS_ENV, GROUP_SIZE_ENV, WORKER_INDEX_ENV)


def template_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """Problems with which pods of the set could not be created."""
    errors: list[FieldError] = []
    for path, template in templates_of(raw):
        if _is_used(path, raw, spec):
            errors += [*_missing(path, template), *_refused_by_statefulsets(path, template)]
    return [*errors, *_host_name_errors(raw, spec), *reserved_errors(raw), *_tpu_errors(raw, spec)]


def template_warnings(raw: Mapping[str, Any], spec: SetSpec) -> list[str]:
    """Values that have another effect than the user may expect."""
    warnings = [*reserved_warnings(raw), *_tpu_warnings(raw, spec)]
    for path, template in templates_of(raw):
        pod = _mapping(template.get("spec"))
        for kind in ("initContainers", "containers"):
            for place, container in enumerate(_mappings(pod.get(kind))):
                names = [entry.get("name") for entry in _mappings(container.get("env"))]
                warnings += [
                    f"{path}.spec.{kind}[{place}].env: {name} is set by the controller, and this value is "
                    f"never seen: remove it, or choose another name"
                    for name in _VARIABLES
                    if name in names
                ]
    return warnings


def _missing(path: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    """Missing containers: the CRD requires them only if there is a `spec`."""
    if template.get("spec") is None:
        yield required(f"{path}.spec", "must have at least one container")
    elif not fields.value_at(template, ("spec", "containers")):
        yield required(f"{path}.spec.containers", "a pod has at least one")


def _refused_by_statefulsets(path: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    pod = _mapping(template.get("spec"))
    policy, deadline = pod.get("restartPolicy"), pod.get("activeDeadlineSeconds")
    if policy not in (None, "", "Always"):
        why = (
            "must be Always: StatefulSets take no other; what a restart does to the group is in restartPolicy"
        )
        yield invalid(f"{path}.spec.restartPolicy", policy, f"{why} of the leaderWorkerTemplate")
    if deadline is not None:
        why = "StatefulSets do not take it: remove it"
        yield invalid(f"{path}.spec.activeDeadlineSeconds", deadline, why)


def _host_name_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    """Workers of a Hash group are named by the host of their leader."""
    leaders = fields.LEADER_TEMPLATE if fields.LEADER_TEMPLATE.of(raw) is not None else fields.WORKER_TEMPLATE
    host = leaders.field("spec").field("hostname")
    if has_hash_groups(raw) and spec.size > 1 and host.of(raw):
        why = "all groups would have one host name, and only one could have workers: remove it"
        yield invalid(host, host.of(raw), why)


def _is_used(path: str, raw: Mapping[str, Any], spec: SetSpec) -> bool:
    """Whether pods are created from the template. Groups of one pod do not use a separate worker template."""
    return spec.size > 1 or path == str(fields.LEADER_TEMPLATE) or fields.LEADER_TEMPLATE.of(raw) is None


def _tpu_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """Errors of sets for whose pods the list of TPU workers cannot be computed."""
    pods = _tpu_pods(raw)
    errors = []
    if any(pods.values()) and spec.size > MOST_PODS:
        why = f"groups whose pods request google.com/tpu have {MOST_PODS} pods at most: each is told of all"
        errors.append(invalid(fields.SIZE, spec.size, why))
    policy = fields.SUBGROUP_TYPE.of(raw)
    if pods[fields.LEADER_TEMPLATE] and policy == SubGroupPolicyType.LEADER_EXCLUDED:
        why = (
            "leaders request google.com/tpu and would be in no subgroup, so they could not be told whom to "
            "work with: give the set a leaderTemplate without it, or use LeaderWorker"
        )
        errors.append(invalid(fields.SUBGROUP_TYPE, policy, why))
    return errors


def _tpu_warnings(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[str]:
    """Each pod assumes that all others have the same TPU containers and ports as itself."""
    pods = _tpu_pods(raw)
    if spec.size < 2:
        pods[fields.WORKER_TEMPLATE] = []
    for template, containers in pods.items():
        ports = ports_of(containers)
        if "" in ports and template.of(raw) is not None:
            unknown = containers[ports.index("")].get("name")
            yield (
                f"{template}.spec.containers: {PORT_ENV} of {unknown} is empty, or not known when a "
                f"pod is made, so that the addresses of its TPU containers lack the port: write it as a value"
            )
    port_lists = {template: ports_of(containers) for template, containers in pods.items() if containers}
    if len(port_lists) == 2 and port_lists[fields.LEADER_TEMPLATE] != port_lists[fields.WORKER_TEMPLATE]:
        yield (
            f"{fields.WORKER_TEMPLATE}.spec.containers: TPU containers of workers are on the ports "
            f"{', '.join(port_lists[fields.WORKER_TEMPLATE])}, those of leaders on "
            f"{', '.join(port_lists[fields.LEADER_TEMPLATE])}: each pod counts and addresses all others as "
            "if they were like itself; give both the same TPU containers, or set the TPU_… variables yourself"
        )


def _tpu_pods(raw: Mapping[str, Any]) -> dict[fields.Field, list[dict[str, Any]]]:
    """The TPU containers of leaders and of workers."""
    pods: dict[fields.Field, list[dict[str, Any]]]
    pods = {
        template: _tpu_containers(raw, template)
        for template in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE)
    }
    if not isinstance(fields.LEADER_TEMPLATE.of(raw), Mapping):
        pods[fields.LEADER_TEMPLATE] = pods[fields.WORKER_TEMPLATE]
    return pods


def _tpu_containers(raw: Mapping[str, Any], template: fields.Field) -> list[dict[str, Any]]:
    """Empty if nothing uses TPUs, or if the user has configured them."""
    containers = tpu_containers(_mapping(template.field("spec").of(raw)))
    return [] if not containers or is_configured(containers) else containers


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [_mapping(item) for item in value] if isinstance(value, list) else []


_NOT_IN_LEADERS = {
    GROUP_INDEX_LABEL: "leaders keep it, so that all groups would have one index",
    GROUP_KEY_LABEL: "leaders keep it, so that all groups would have one key",
    GROUP_IDENTITY_ANNOTATION: "it marks leaders of sets with groupIdentity Hash, which get no index",
    LEADER_NAME_ANNOTATION: "it is what tells a worker, so that no leader would get any",
}
_ALWAYS_SET = (
    NAME_LABEL,
    WORKER_INDEX_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    LEADER_ADDRESS_ANNOTATION,
    *_NOT_IN_LEADERS,
)
_OF_THE_ORIGINAL = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)

_MISPLACED = "counts on the LeaderWorkerSet only: move it to metadata.annotations of the set"
_OVERWRITTEN = "is set by the controller, and this value is never seen: remove it from the template"
_WITHOUT_EFFECT = "has no effect here: remove it from the template"
_LEADERS_ONLY = (
    "is honoured, for leaders only: their workers do not follow them; move it to metadata.annotations of the "
    "set, where it places whole groups"
)
_THESE_PODS_ONLY = (
    "is honoured, for pods of this template only; move it to metadata.annotations of the set, where it "
    "places all of a subgroup"
)
_SUBGROUPS_OF_ITS_OWN = (
    "is honoured although the set has no subGroupPolicy: say it there, where it is checked against the size"
)
_ONE_SUBGROUP = (
    "is honoured: all pods of this template are in this subgroup, and none gets its key or its place; remove "
    "it from the template"
)
_OWN_SUBDOMAIN = (
    "is honoured: leaders get a host name of which there is no Service, so that their workers do not find "
    "them; say it in networkConfig.subdomainPolicy"
)
_LEADER_USES_TPUS = (
    "is honoured where the leader requests no google.com/tpu: TPU workers count it among them if this is true"
)


@dataclass(frozen=True, slots=True)
class _Template:
    """One pod template and its use.

    leads, works: whether leaders and workers are created from it. given: annotations of the set.
    has_policy: the set has a `subGroupPolicy`.
    """

    path: str
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    leads: bool
    works: bool
    given: Mapping[str, Any]
    has_policy: bool
    has_own_subdomain: bool

    @property
    def entries(self) -> Iterator[tuple[str, str, Any]]:
        """Path, key and value of each label and annotation."""
        for kind, values in (("labels", self.labels), ("annotations", self.annotations)):
            for key, value in values.items():
                yield f"{self.path}.metadata.{kind}[{key}]", key, value

    @property
    def has_subgroups(self) -> bool:
        return self.has_policy or SUBGROUP_SIZE_ANNOTATION in self.annotations


def reserved_errors(raw: Mapping[str, Any]) -> Iterator[FieldError]:
    """Labels and annotations that would leave groups incomplete, or that belong on the set itself."""
    for template in _templates(raw):
        for path, key, value in template.entries:
            if not isinstance(value, str):
                # Happens only in commands that run without a cluster: the CRD requires strings too.
                yield invalid(path, value, "must be a string: put it in quotes")
            elif template.leads and key in _NOT_IN_LEADERS:
                yield invalid(path, value, f"{_NOT_IN_LEADERS[key]}: remove it from the template")
            elif key in PLACEMENT_ANNOTATIONS and key not in _OF_THE_ORIGINAL:
                yield invalid(path, value, _MISPLACED)
            elif key == SUBGROUP_SIZE_ANNOTATION and not (
                template.has_policy or whole_number(value, least=1)
            ):
                yield invalid(path, value, "must be a number above 0, or no pod can be made: remove it")


def reserved_warnings(raw: Mapping[str, Any]) -> Iterator[str]:
    """Reserved labels and annotations that are overwritten, ineffective or risky."""
    for template in _templates(raw):
        for path, key, value in template.entries:
            if isinstance(value, str) and (fate := _fate(template, key, value)):
                yield f"{path}: {rendered(value)} {fate}"


def _templates(raw: Mapping[str, Any]) -> Iterator[_Template]:
    policy = fields.SUBDOMAIN_POLICY.of(raw)
    templates = list(templates_of(raw))
    for path, template in templates:
        yield _Template(
            path=path,
            labels=labels_of(template),
            annotations=annotations_of(template),
            leads=path == str(fields.LEADER_TEMPLATE) or len(templates) == 1,
            works=path == str(fields.WORKER_TEMPLATE),
            given=annotations_of(raw),
            has_policy=fields.SUBGROUP.of(raw) is not None,
            has_own_subdomain=policy == SubdomainPolicy.UNIQUE_PER_REPLICA,
        )


def _fate(template: _Template, key: str, value: Any) -> str:
    """What happens to one entry, in words; empty if it stays as it is or is rejected."""
    if key in _ALWAYS_SET:
        return "" if template.leads and key in _NOT_IN_LEADERS else _OVERWRITTEN
    if key == REPLICAS_ANNOTATION:
        return _WITHOUT_EFFECT
    if key == LEADER_REQUESTS_TPUS_ANNOTATION:
        return _LEADER_USES_TPUS if template.works else _WITHOUT_EFFECT
    if key == SUBDOMAIN_POLICY_ANNOTATION:
        return _fate_of_subdomain(template, value)
    if key == EXCLUSIVE_TOPOLOGY_ANNOTATION:
        if template.given.get(key):
            return _OVERWRITTEN
        return _LEADERS_ONLY if template.leads and value else _WITHOUT_EFFECT
    return _fate_in_subgroups(template, key, value)


def _fate_of_subdomain(template: _Template, value: Any) -> str:
    if not template.leads or value != SubdomainPolicy.UNIQUE_PER_REPLICA:
        return _WITHOUT_EFFECT if not template.has_own_subdomain else _OVERWRITTEN
    return _OVERWRITTEN if template.has_own_subdomain else _OWN_SUBDOMAIN


def _fate_in_subgroups(template: _Template, key: str, value: Any) -> str:
    if key in (SUBGROUP_SIZE_ANNOTATION, SUBGROUP_POLICY_TYPE_ANNOTATION) and template.has_policy:
        return _OVERWRITTEN
    if key == SUBGROUP_SIZE_ANNOTATION:
        return _SUBGROUPS_OF_ITS_OWN if whole_number(value, least=1) else ""
    if key == SUBGROUP_POLICY_TYPE_ANNOTATION:
        return _SUBGROUPS_OF_ITS_OWN if template.has_subgroups else _WITHOUT_EFFECT
    if key == SUBGROUP_INDEX_LABEL:
        return _ONE_SUBGROUP if template.has_subgroups and value else ""
    if key == SUBGROUP_KEY_LABEL:
        is_kept = not template.has_subgroups or template.labels.get(SUBGROUP_INDEX_LABEL)
        return "" if is_kept else _OVERWRITTEN
    if key == SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION:
        if template.has_policy and template.given.get(key):
            return _OVERWRITTEN
        return _THESE_PODS_ONLY if template.has_subgroups and value else _WITHOUT_EFFECT
    return ""


# --- Validate the placement annotations of a set. Errors report what the scheduler can never satisfy;
# warnings report what it may be unable to satisfy.


_TOPOLOGIES = (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
_EXCLUSIVE = (EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)
_LONGEST, _SHOWN = 8192, 40
"""Maximum bytes of a placement annotation, and how many of its characters an error shows."""
_EITHER = (
    (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION),
    (SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION),
)


def placement_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """Placement that the scheduler can never satisfy, or that is invalid."""
    annotations = annotations_of(raw)
    if too_long := [*_too_long_errors(annotations)]:
        return too_long
    errors = [*_one_domain_errors(annotations, spec), *_group_node_errors(raw, annotations, spec)]
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope is not None and scope not in tuple(ExclusiveTopologyScope):
        why = f"must be one of {', '.join(ExclusiveTopologyScope)}"
        errors.append(invalid(_path(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION), scope, why))
    returns = annotations.get(NODE_RETURN_ANNOTATION)
    if returns is not None and returns not in tuple(NodeReturn):
        why = f"must be one of {', '.join(NodeReturn)}"
        errors.append(invalid(_path(NODE_RETURN_ANNOTATION), returns, why))
    if returns == NodeReturn.REQUIRED and fields.GROUP_IDENTITY.of(raw) == GroupIdentity.HASH:
        why = "cannot be with groupIdentity Hash: a recreated group has other names; remove it"
        errors.append(invalid(_path(NODE_RETURN_ANNOTATION), returns, why))
    for name in nodes_of_no_return(raw):
        errors += [
            invalid(_path(NODE_RETURN_EXCEPT_ANNOTATION), name, why) for why in dns1123_subdomain_errors(name)
        ]
    for exclusive, shared in _EITHER:
        if annotations.get(exclusive) and annotations.get(shared):
            why = f"conflicts with {exclusive}, which requires the same and more: remove one of them"
            errors.append(invalid(_path(shared), annotations[shared], why))
    subgroup = annotations.get(SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
    if subgroup is not None and spec.subgroup is None:
        why = "cannot have subgroup-shared-topology without subGroupSize set"
        errors.append(invalid(_path(SUBGROUP_SHARED_TOPOLOGY_ANNOTATION), subgroup, why))
    return errors


def _too_long_errors(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    """The annotations are read for each created pod. Longer ones that are already stored are kept."""
    for annotation in PLACEMENT_ANNOTATIONS:
        value = annotations.get(annotation)
        if isinstance(value, str) and byte_length(value) > _LONGEST:
            why = f"has {byte_length(value)} bytes, at most {_LONGEST} are possible: it is read for every pod"
            yield invalid(_path(annotation), f"{value[:_SHOWN]}…", why)


def _one_domain_errors(annotations: Mapping[str, str], spec: SetSpec) -> Iterator[FieldError]:
    """A group in one domain cannot have several subgroups that each need such a domain exclusively."""
    subgroup = annotations.get(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION)
    policy = spec.subgroup or {}
    size = policy.get("subGroupSize")
    if not isinstance(size, int) or size < 1:
        return
    excluded = policy.get("subGroupPolicyType") == SubGroupPolicyType.LEADER_EXCLUDED
    for annotation in (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION):
        group = annotations.get(annotation)
        if group and group == subgroup and count_of(spec.size, size, leader_excluded=excluded) > 1:
            why = (
                f"is the topology of {annotation} too: the subgroups of a group cannot be apart "
                f"in the one domain that the group has; use a smaller topology here"
            )
            yield invalid(_path(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION), subgroup, why)


def _group_node_errors(
    raw: Mapping[str, Any], annotations: Mapping[str, str], spec: SetSpec
) -> Iterator[FieldError]:
    """Invalid node selectors and tolerations, checked for the group with the longest name."""
    # In manifests that no API server has processed, both may be missing.
    name, namespace = (str(metadata_of(raw).get(field) or "default") for field in ("name", "namespace"))
    index = max(spec.replicas + (spec.surge_groups or 0) - 1, 0)
    for annotation in (GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION):
        value = annotations.get(annotation)
        if not isinstance(value, str):
            continue
        if fields.GROUP_IDENTITY.of(raw) == GroupIdentity.HASH:
            why = "selects nodes by group index, and groups with groupIdentity Hash have none: remove it"
            yield invalid(_path(annotation), value, why)
            continue
        try:
            nodes_of_group({annotation: value}, namespace, name, index)
        except ValueError as error:
            yield invalid(_path(annotation), value, str(error))


def _path(annotation: str) -> str:
    return f"metadata.annotations.{annotation}"


def placement_warnings(raw: Mapping[str, Any], spec: SetSpec) -> list[str]:
    """Placement that the scheduler may be unable to satisfy."""
    if any(_too_long_errors(annotations_of(raw))):
        return []
    warnings = []
    for annotation in _TOPOLOGIES:
        topology = annotations_of(raw).get(annotation)
        if isinstance(topology, str):
            warnings += _topology_warnings(raw, annotation, topology)
    warnings += [*_surge_warnings(annotations_of(raw), spec), *_without_effect(raw)]
    return warnings


def _surge_warnings(annotations: Mapping[str, str], spec: SetSpec) -> Iterator[str]:
    if not spec.surge_groups:
        return
    if topology := annotations.get(EXCLUSIVE_TOPOLOGY_ANNOTATION):
        yield (
            f"{fields.MAX_SURGE}: {spec.max_surge} with {EXCLUSIVE_TOPOLOGY_ANNOTATION}: every group on top "
            f"needs a {topology} of its own during updates; where none is free, it waits"
        )
    if annotations.get(GROUP_NODE_SELECTOR_ANNOTATION):
        last = spec.replicas + spec.surge_groups - 1
        yield (
            f"{fields.MAX_SURGE}: {spec.max_surge} with {GROUP_NODE_SELECTOR_ANNOTATION}: during updates "
            f"there are groups up to index {last}, which wait where there are no nodes for them"
        )


def _return_warnings(raw: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[str]:
    path, returns = _path(NODE_RETURN_ANNOTATION), annotations.get(NODE_RETURN_ANNOTATION)
    if not returns:
        if annotations.get(NODE_RETURN_EXCEPT_ANNOTATION):
            yield f"{_path(NODE_RETURN_EXCEPT_ANNOTATION)}: has no effect without {NODE_RETURN_ANNOTATION}"
        return
    if fields.GROUP_IDENTITY.of(raw) == GroupIdentity.HASH:
        yield f"{path}: has no effect with groupIdentity Hash: a recreated group has other names"
    for annotation in _EXCLUSIVE:
        if annotations.get(annotation):
            yield f"{path}: has no effect with {annotation}, which decides where pods run"
    for _, annotation in _EITHER:
        if annotations.get(annotation) and returns == NodeReturn.REQUIRED:
            yield f"{path}: is a preference for pods that {annotation} places near others"


def _without_effect(raw: Mapping[str, Any]) -> Iterator[str]:
    annotations = annotations_of(raw)
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope is not None and not any(annotations.get(annotation) for annotation in _EXCLUSIVE):
        yield (
            f"{_path(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)}: {rendered(scope)} has no effect without "
            f"{EXCLUSIVE_TOPOLOGY_ANNOTATION}"
        )
    yield from _return_warnings(raw, annotations)
    try:
        nodes = nodes_of_group(annotations, "namespace", "name", 0)
    except ValueError:
        return
    for where, template in templates_of(raw):
        node_selector = fields.value_at(template, ("spec", "nodeSelector"))
        for key in sorted(nodes.node_selector):
            if isinstance(node_selector, Mapping) and key in node_selector:
                yield (
                    f"{where}.spec.nodeSelector[{key}]: {rendered(node_selector[key])} is never seen: "
                    f"{GROUP_NODE_SELECTOR_ANNOTATION} says what nodes of groups have"
                )


def _topology_warnings(raw: Mapping[str, Any], annotation: str, topology: str) -> list[str]:
    path = f"{_path(annotation)}: {rendered(topology)}"
    if not topology:
        return [f"{path} says nothing: pods are placed anywhere; name a label of nodes, or remove it"]
    if problems := label_key_errors(topology):
        return [f"{path} is a label that no node can have, so that no pod will be placed: {problems[0]}"]
    if annotation not in _EXCLUSIVE:
        return []
    # Only leaders carry the anti-affinity of groups; all pods of a subgroup carry that of subgroups.
    concerned = {str(fields.LEADER_TEMPLATE), str(fields.WORKER_TEMPLATE)}
    if annotation == EXCLUSIVE_TOPOLOGY_ANNOTATION and fields.LEADER_TEMPLATE.of(raw):
        concerned = {str(fields.LEADER_TEMPLATE)}
    paths = [
        where
        for where, template in templates_of(raw)
        if where in concerned and _has_own_terms(template, topology)
    ]
    return [
        f"{path} has no effect on pods of {where}: their affinity has required terms about it already, which "
        f"stay as they are"
        for where in paths
    ]


def _has_own_terms(template: Mapping[str, Any], topology: str) -> bool:
    affinity = fields.value_at(template, ("spec", "affinity"))
    return isinstance(affinity, Mapping) and has_both_terms(affinity, topology)


# --- Check the types of a LeaderWorkerSet's values, and list its pod templates. A CRD of another version
# may have admitted values of any type. The rules run only if there are no errors here.


_TYPES = types_of(LeaderWorkerSetSpec)
_NO_OBJECT = "must be an object"
_NUMBERS = {"i": "must be an integer", "x": "must be an integer or a percentage"}


def shape_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """An error for each value of the wrong type; normally the CRD's schema has already rejected them."""
    given = (
        ("metadata", raw.get("metadata")),
        ("metadata.annotations", fields.value_at(raw, ("metadata", "annotations"))),
    )
    errors = [invalid(path, value, _NO_OBJECT) for path, value in given if not _is_object(value)]
    return [*errors, *_shape_errors("LeaderWorkerSetSpec", raw.get("spec"), "spec")]


def _shape_errors(kind: str, value: Any, path: str) -> Iterator[FieldError]:
    if not _is_object(value):
        yield invalid(path, value, _NO_OBJECT)
        return
    for name, code in _TYPES[kind].items():
        item = (value or {}).get(name)
        if code in _TYPES:
            yield from _shape_errors(code, item, f"{path}.{name}")
        elif code in _NUMBERS and not (
            item is None or is_integer(item) or (code == "x" and isinstance(item, str))
        ):
            yield invalid(f"{path}.{name}", item, _NUMBERS[code])


def _is_object(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def templates_of(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path and value of the pod templates in the set, the leader template first."""
    for field in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        template = field.of(raw)
        if isinstance(template, Mapping):
            yield str(field), template
