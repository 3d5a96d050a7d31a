"""Validate the pod templates of a set.

Errors report values that StatefulSets would reject or that TPUs cannot work with. Warnings report values that
have another effect than users expect. `reserved_errors` and `reserved_warnings` check labels and annotations
that belong to the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lws.kube.field_errors import FieldError, invalid, rendered, required, too_many
from lws.kube.metadata import annotations_of, labels_of, metadata_of
from lws.kube.names import byte_length, dns1123_subdomain_errors, label_key_errors
from lws.kube.pods import has_both_terms
from lws.kube.quantities import is_integer, whole_number
from lws.kube.shapes import ListLimits
from lws.kube.typed import Table, most_items_of, types_of
from lws.leaderworkerset import fields
from lws.leaderworkerset.group.placement import count_of
from lws.leaderworkerset.group.tpu import MOST_PODS, PORT_ENV, is_configured, ports_of, tpu_containers
from lws.leaderworkerset.spec import (
    EXCLUSIVE_ANNOTATIONS,
    PLACEMENT_ANNOTATIONS,
    SetSpec,
    has_hash_groups,
    nodes_of_no_return,
)
from lws.leaderworkerset.templates.node_selection import ANNOTATIONS_BY_INDEX, nodes_of_group
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
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


def template_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    """Yield errors of templates from which no pod could be created."""
    for path, template in templates_of(raw):
        if _is_used(path, raw, spec):
            yield from _pod_errors(path, template)
    yield from _host_name_errors(raw, spec)
    yield from reserved_errors(raw)
    yield from _tpu_errors(raw, spec)


def template_warnings(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[str]:
    """Yield warnings for values that have another effect than users may expect."""
    yield from reserved_warnings(raw)
    yield from _tpu_warnings(raw, spec)
    for path, template in templates_of(raw):
        pod = _mapping(template.get("spec"))
        for kind in ("initContainers", "containers"):
            for position, container in enumerate(_mappings(pod.get(kind))):
                names = [entry.get("name") for entry in _mappings(container.get("env"))]
                for name in _VARIABLES:
                    if name in names:
                        yield (
                            f"{path}.spec.{kind}[{position}].env: {name} is set by the controller, which "
                            f"overwrites this value: remove it, or choose another name"
                        )


def _pod_errors(path: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors of a template that lacks containers or has fields that StatefulSets do not support. The
    CRD requires containers only if there is a `spec`.
    """
    if not fields.value_at(template, ("spec", "containers")):
        field = "spec" if template.get("spec") is None else "spec.containers"
        yield required(f"{path}.{field}", "must have at least one container")
    pod = _mapping(template.get("spec"))
    policy, deadline = pod.get("restartPolicy"), pod.get("activeDeadlineSeconds")
    if policy not in (None, "", "Always"):
        why = (
            "must be Always, because StatefulSets support nothing else; set what a restart does to the group "
            "in leaderWorkerTemplate.restartPolicy"
        )
        yield invalid(f"{path}.spec.restartPolicy", policy, why)
    if deadline is not None:
        why = "StatefulSets do not support it: remove it"
        yield invalid(f"{path}.spec.activeDeadlineSeconds", deadline, why)


def _host_name_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    """Yield an error for a host name in the leader template of a Hash set. Workers of a Hash group are named
    after the host name of their leader, which must be unique.
    """
    has_own = fields.LEADER_TEMPLATE.stored_in(raw) is not None
    leaders = fields.LEADER_TEMPLATE if has_own else fields.WORKER_TEMPLATE
    host = leaders.child("spec").child("hostname")
    if has_hash_groups(raw) and spec.size > 1 and host.stored_in(raw):
        why = "all groups would have one host name, and only one could have workers: remove it"
        yield invalid(host, host.stored_in(raw), why)


def _is_used(path: str, raw: Mapping[str, Any], spec: SetSpec) -> bool:
    """Return whether pods are created from the template: with size 1, a worker template is not used."""
    return (
        spec.size > 1 or path == str(fields.LEADER_TEMPLATE) or fields.LEADER_TEMPLATE.stored_in(raw) is None
    )


def _tpu_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    """Yield errors for sets if the list of TPU workers cannot be computed for their pods."""
    pods = _tpu_pods(raw)
    if any(pods.values()) and spec.size > MOST_PODS:
        why = f"groups whose pods request google.com/tpu have {MOST_PODS} pods at most: each pod lists all"
        yield invalid(fields.SIZE, spec.size, why)
    policy = fields.SUB_GROUP_POLICY_TYPE.stored_in(raw)
    if pods[fields.LEADER_TEMPLATE] and policy == SubGroupPolicyType.LEADER_EXCLUDED:
        why = (
            "leaders request google.com/tpu and would be in no subgroup, so they would get no list of TPU "
            "workers: set a leaderTemplate that does not request it, or use LeaderWorker"
        )
        yield invalid(fields.SUB_GROUP_POLICY_TYPE, policy, why)


def _tpu_warnings(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[str]:
    """Yield warnings for TPU containers without a known port, or with different ports in leaders and workers.
    Each pod assumes that all others have the same TPU containers and ports as itself.
    """
    pods = _tpu_pods(raw)
    if spec.size < 2:
        pods[fields.WORKER_TEMPLATE] = []
    port_lists = {template: ports_of(containers) for template, containers in pods.items() if containers}
    for template, ports in port_lists.items():
        if "" in ports and template.stored_in(raw) is not None:
            unknown = pods[template][ports.index("")].get("name")
            yield (
                f"{template}.spec.containers: {PORT_ENV} of {unknown} is empty, or unknown when a pod is "
                f"created, so the addresses of its TPU containers lack the port: set it as a value"
            )
    leaders, workers = port_lists.get(fields.LEADER_TEMPLATE), port_lists.get(fields.WORKER_TEMPLATE)
    if leaders and workers and leaders != workers:
        yield (
            f"{fields.WORKER_TEMPLATE}.spec.containers: TPU containers of workers use the ports "
            f"{', '.join(workers)}, those of leaders {', '.join(leaders)}: each pod assumes that all others "
            f"have its own ones; give both the same TPU containers, or set the TPU_… variables yourself"
        )


def _tpu_pods(raw: Mapping[str, Any]) -> dict[fields.Field, list[Mapping[str, Any]]]:
    """Return the TPU containers of leaders and of workers; none if the user has configured them."""
    pods = {}
    for template in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        containers = tpu_containers(_mapping(template.child("spec").stored_in(raw)))
        pods[template] = [] if not containers or is_configured(containers) else containers
    if not isinstance(fields.LEADER_TEMPLATE.stored_in(raw), Mapping):
        pods[fields.LEADER_TEMPLATE] = pods[fields.WORKER_TEMPLATE]
    return pods


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [_mapping(item) for item in value] if isinstance(value, list) else []


_NOT_IN_LEADERS = {
    GROUP_INDEX_LABEL: "leaders keep it, so all groups would have the same index",
    GROUP_KEY_LABEL: "leaders keep it, so all groups would have the same key",
    GROUP_IDENTITY_ANNOTATION: "it marks leaders of sets with groupIdentity Hash, which get no index",
    LEADER_NAME_ANNOTATION: "it marks a pod as a worker, so leaders would get no workers",
}
_ALWAYS_SET = (
    NAME_LABEL,
    WORKER_INDEX_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    LEADER_ADDRESS_ANNOTATION,
    *_NOT_IN_LEADERS,
)

_MISPLACED = "has an effect on the LeaderWorkerSet only: move it to metadata.annotations of the set"
_OVERWRITTEN = "is set by the controller, which overwrites this value: remove it from the template"
_WITHOUT_EFFECT = "has no effect here: remove it from the template"
_LEADERS_ONLY = (
    "takes effect for leaders only: their workers do not follow them; move it to metadata.annotations of the "
    "set, where it places whole groups"
)
_THESE_PODS_ONLY = (
    "takes effect for pods of this template only; move it to metadata.annotations of the set, where it "
    "places whole subgroups"
)
_SUBGROUPS_OF_ITS_OWN = (
    "takes effect although the set has no subGroupPolicy: set it there, where it is checked against the size"
)
_ONE_SUBGROUP = (
    "takes effect: all pods of this template are in this subgroup, without its key and its placement; remove "
    "it from the template"
)
_OWN_SUBDOMAIN = (
    "takes effect: leaders get a host name without a Service, so their workers do not find them; set "
    "networkConfig.subdomainPolicy instead"
)
_LEADER_USES_TPUS = (
    "takes effect if the leader requests no google.com/tpu: with true, TPU workers count it as one of them"
)


@dataclass(frozen=True, slots=True)
class _Template:
    """One pod template and its use.
    leads, works: whether leaders and workers are created from the template. set_annotations: the annotations
    of the set. has_policy: whether the set has a `subGroupPolicy`. has_own_subdomain: whether each group has
    a subdomain of its own.
    """

    path: str
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    leads: bool
    works: bool
    set_annotations: Mapping[str, Any]
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
    """Yield errors for labels and annotations that leave groups incomplete or that belong on the set."""
    for template in _templates(raw):
        for path, key, value in template.entries:
            if not isinstance(value, str):
                # This occurs only in commands that run without a cluster: the CRD requires strings too.
                yield invalid(path, value, "must be a string: put it in quotes")
            elif template.leads and key in _NOT_IN_LEADERS:
                yield invalid(path, value, f"{_NOT_IN_LEADERS[key]}: remove it from the template")
            elif key in PLACEMENT_ANNOTATIONS and key not in EXCLUSIVE_ANNOTATIONS:
                yield invalid(path, value, _MISPLACED)
            elif key == SUBGROUP_SIZE_ANNOTATION and not (
                template.has_policy or whole_number(value, least=1)
            ):
                yield invalid(path, value, "must be a number above 0, or no pod can be created: remove it")


def reserved_warnings(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings for reserved labels and annotations that are overwritten, ineffective or risky."""
    for template in _templates(raw):
        for path, key, value in template.entries:
            if isinstance(value, str) and (effect := _effect(template, key, value)):
                yield f"{path}: {rendered(value)} {effect}"


def _templates(raw: Mapping[str, Any]) -> Iterator[_Template]:
    policy = fields.SUBDOMAIN_POLICY.stored_in(raw)
    templates = list(templates_of(raw))
    for path, template in templates:
        yield _Template(
            path=path,
            labels=labels_of(template),
            annotations=annotations_of(template),
            leads=path == str(fields.LEADER_TEMPLATE) or len(templates) == 1,
            works=path == str(fields.WORKER_TEMPLATE),
            set_annotations=annotations_of(raw),
            has_policy=fields.SUB_GROUP_POLICY.stored_in(raw) is not None,
            has_own_subdomain=policy == SubdomainPolicy.UNIQUE_PER_REPLICA,
        )


def _effect(template: _Template, key: str, value: Any) -> str:
    """Return the unexpected effect of a label or annotation, in words; empty if none or if it is rejected."""
    if key in _ALWAYS_SET:
        return "" if template.leads and key in _NOT_IN_LEADERS else _OVERWRITTEN
    if key == REPLICAS_ANNOTATION:
        return _WITHOUT_EFFECT
    if key == LEADER_REQUESTS_TPUS_ANNOTATION:
        return _LEADER_USES_TPUS if template.works else _WITHOUT_EFFECT
    if key == SUBDOMAIN_POLICY_ANNOTATION:
        if template.has_own_subdomain:
            return _OVERWRITTEN
        is_unique = value == SubdomainPolicy.UNIQUE_PER_REPLICA
        return _OWN_SUBDOMAIN if template.leads and is_unique else _WITHOUT_EFFECT
    if key == EXCLUSIVE_TOPOLOGY_ANNOTATION:
        if template.set_annotations.get(key):
            return _OVERWRITTEN
        return _LEADERS_ONLY if template.leads and value else _WITHOUT_EFFECT
    return _effect_in_subgroups(template, key, value)


def _effect_in_subgroups(template: _Template, key: str, value: Any) -> str:
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
        if template.has_policy and template.set_annotations.get(key):
            return _OVERWRITTEN
        return _THESE_PODS_ONLY if template.has_subgroups and value else _WITHOUT_EFFECT
    return ""


# --- Validate the placement annotations of a set. Errors report placement that the scheduler can never
# satisfy. Warnings report placement that it may be unable to satisfy.


_TOPOLOGIES = (*EXCLUSIVE_ANNOTATIONS, SHARED_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
_CHOICES = {
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION: tuple(ExclusiveTopologyScope),
    NODE_RETURN_ANNOTATION: tuple(NodeReturn),
}
_LONGEST, _SHOWN = 8192, 40
"""Maximum bytes of a placement annotation, and the number of its characters that an error shows."""
_EITHER = (
    (EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION),
    (SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION),
)


def placement_errors(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[FieldError]:
    """Yield errors for placement that is invalid, or that the scheduler can never satisfy."""
    annotations = annotations_of(raw)
    if too_long := [*_too_long_errors(annotations)]:
        yield from too_long
        return
    yield from _one_domain_errors(annotations, spec)
    yield from _group_node_errors(raw, annotations, spec)
    for annotation, choices in _CHOICES.items():
        value = annotations.get(annotation)
        if value is not None and value not in choices:
            yield invalid(_path(annotation), value, f"must be one of {', '.join(choices)}")
    returns = annotations.get(NODE_RETURN_ANNOTATION)
    if returns == NodeReturn.REQUIRED and has_hash_groups(raw):
        why = "cannot be with groupIdentity Hash: a recreated group has other names; remove it"
        yield invalid(_path(NODE_RETURN_ANNOTATION), returns, why)
    yield from _excepted_errors(raw, annotations)
    for exclusive, shared in _EITHER:
        if annotations.get(exclusive) and annotations.get(shared):
            why = f"conflicts with {exclusive}, which requires the same and more: remove one of them"
            yield invalid(_path(shared), annotations[shared], why)
    subgroup = annotations.get(SUBGROUP_SHARED_TOPOLOGY_ANNOTATION)
    if subgroup is not None and spec.subgroup is None:
        why = "cannot have subgroup-shared-topology without subGroupSize set"
        yield invalid(_path(SUBGROUP_SHARED_TOPOLOGY_ANNOTATION), subgroup, why)


def _excepted_errors(raw: Mapping[str, Any], annotations: Mapping[str, str]) -> list[FieldError]:
    """Return errors of the nodes to which no pod returns. The names in a long list are not checked."""
    if too_long := [*_too_long_errors(annotations, (NODE_RETURN_EXCEPT_ANNOTATION,))]:
        return too_long
    path = _path(NODE_RETURN_EXCEPT_ANNOTATION)
    names = nodes_of_no_return(raw)
    return [invalid(path, name, why) for name in names for why in dns1123_subdomain_errors(name)]


def _too_long_errors(
    annotations: Mapping[str, str], keys: Iterable[str] = PLACEMENT_ANNOTATIONS
) -> Iterator[FieldError]:
    """Yield errors for long annotations, because each is read for every created pod; stored ones are
    accepted.
    """
    for annotation in keys:
        value = annotations.get(annotation)
        if isinstance(value, str) and byte_length(value) > _LONGEST:
            why = f"has {byte_length(value)} bytes, at most {_LONGEST} are allowed: it is read for every pod"
            yield invalid(_path(annotation), f"{value[:_SHOWN]}…", why)


def _one_domain_errors(annotations: Mapping[str, str], spec: SetSpec) -> Iterator[FieldError]:
    """Yield errors if a group must be in one domain, but each subgroup in its own domain of that topology."""
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
                f"is also the topology of {annotation}: subgroups cannot be in different domains if their "
                f"group is in one; use a smaller topology here"
            )
            yield invalid(_path(SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION), subgroup, why)


def _group_node_errors(
    raw: Mapping[str, Any], annotations: Mapping[str, str], spec: SetSpec
) -> Iterator[FieldError]:
    """Yield errors of node selectors and tolerations, checked for the group with the longest name."""
    # Name and namespace may be missing in manifests that no API server has processed.
    name, namespace = (str(metadata_of(raw).get(field) or "default") for field in ("name", "namespace"))
    index = max(spec.replicas + (spec.surge_groups or 0) - 1, 0)
    for annotation in ANNOTATIONS_BY_INDEX:
        value = annotations.get(annotation)
        if not isinstance(value, str):
            continue
        if has_hash_groups(raw):
            why = "selects nodes by group index, and groups with groupIdentity Hash have none: remove it"
            yield invalid(_path(annotation), value, why)
            continue
        try:
            nodes_of_group({annotation: value}, namespace, name, index)
        except ValueError as error:
            yield invalid(_path(annotation), value, str(error))


def _path(annotation: str) -> str:
    return f"metadata.annotations.{annotation}"


def placement_warnings(raw: Mapping[str, Any], spec: SetSpec) -> Iterator[str]:
    """Yield warnings for placement that the scheduler may be unable to satisfy."""
    if any(_too_long_errors(annotations_of(raw))):
        return
    for annotation in _TOPOLOGIES:
        topology = annotations_of(raw).get(annotation)
        if isinstance(topology, str):
            yield from _topology_warnings(raw, annotation, topology)
    yield from _surge_warnings(annotations_of(raw), spec)
    yield from _without_effect(raw)


def _surge_warnings(annotations: Mapping[str, str], spec: SetSpec) -> Iterator[str]:
    if not spec.surge_groups:
        return
    if topology := annotations.get(EXCLUSIVE_TOPOLOGY_ANNOTATION):
        yield (
            f"{fields.MAX_SURGE}: {spec.max_surge} with {EXCLUSIVE_TOPOLOGY_ANNOTATION}: each surge group "
            f"needs a {topology} of its own during updates; if none is free, it waits"
        )
    if annotations.get(GROUP_NODE_SELECTOR_ANNOTATION):
        last = spec.replicas + spec.surge_groups - 1
        yield (
            f"{fields.MAX_SURGE}: {spec.max_surge} with {GROUP_NODE_SELECTOR_ANNOTATION}: during updates "
            f"there are groups up to index {last}, which wait if there are no nodes for them"
        )


def _return_warnings(raw: Mapping[str, Any], annotations: Mapping[str, str]) -> Iterator[str]:
    path, returns = _path(NODE_RETURN_ANNOTATION), annotations.get(NODE_RETURN_ANNOTATION)
    if not returns:
        if annotations.get(NODE_RETURN_EXCEPT_ANNOTATION):
            yield f"{_path(NODE_RETURN_EXCEPT_ANNOTATION)}: has no effect without {NODE_RETURN_ANNOTATION}"
        return
    if has_hash_groups(raw):
        yield f"{path}: has no effect with groupIdentity Hash: a recreated group has other names"
    for annotation in EXCLUSIVE_ANNOTATIONS:
        if annotations.get(annotation):
            yield f"{path}: has no effect with {annotation}, which decides where pods run"
    for _, annotation in _EITHER:
        if annotations.get(annotation) and returns == NodeReturn.REQUIRED:
            yield f"{path}: is a preference for pods that {annotation} places near others"


def _without_effect(raw: Mapping[str, Any]) -> Iterator[str]:
    annotations = annotations_of(raw)
    scope = annotations.get(EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION)
    if scope is not None and not any(annotations.get(key) for key in EXCLUSIVE_ANNOTATIONS):
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
                    f"{where}.spec.nodeSelector[{key}]: {rendered(node_selector[key])} is overwritten: "
                    f"{GROUP_NODE_SELECTOR_ANNOTATION} sets the same label"
                )


def _topology_warnings(raw: Mapping[str, Any], annotation: str, topology: str) -> Iterator[str]:
    path = f"{_path(annotation)}: {rendered(topology)}"
    if not topology:
        yield f"{path} is empty and has no effect: name a label of nodes, or remove it"
    elif problems := label_key_errors(topology):
        yield f"{path} is a label that no node can have, so no pod will be scheduled: {problems[0]}"
    elif annotation in EXCLUSIVE_ANNOTATIONS:
        # Only leaders get the anti-affinity between groups; all pods get the anti-affinity between subgroups.
        leaders_only = annotation == EXCLUSIVE_TOPOLOGY_ANNOTATION and fields.LEADER_TEMPLATE.stored_in(raw)
        for where, template in templates_of(raw):
            affinity = _mapping(fields.value_at(template, ("spec", "affinity")))
            is_concerned = not leaders_only or where == str(fields.LEADER_TEMPLATE)
            if is_concerned and has_both_terms(affinity, topology):
                yield (
                    f"{path} has no effect on pods of {where}: their affinity already has required terms for "
                    f"it, which are kept"
                )


# --- Check the types of a LeaderWorkerSet's values, and list its pod templates. A CRD of another version may
# have admitted values of any type. Other rules run only if all types are correct.


_TYPES = types_of(LeaderWorkerSetSpec)
_LIST_LIMITS = ListLimits(_TYPES, most_items_of(LeaderWorkerSetSpec))
_NO_OBJECT = "must be an object"
Shape = tuple[Callable[[Any], bool], str]
"""Whether a value has the shape of a type, and the error if it has not."""
INTEGER: Shape = (is_integer, "must be an integer")
_NUMBERS: Mapping[str, Shape] = {
    "i": INTEGER,
    "x": (lambda value: is_integer(value) or isinstance(value, str), "must be an integer or a percentage"),
}


def shape_errors(raw: Mapping[str, Any]) -> list[FieldError]:
    """Return an error for each list with too many items, or else for each value of the wrong type. The CRD's
    schema has normally rejected it already.
    """
    if too_long := [
        too_many(*fault) for fault in _LIST_LIMITS.faults("LeaderWorkerSetSpec", raw.get("spec"), "spec")
    ]:
        return too_long
    objects = (
        ("metadata", raw.get("metadata")),
        ("metadata.annotations", fields.value_at(raw, ("metadata", "annotations"))),
    )
    errors = [invalid(path, value, _NO_OBJECT) for path, value in objects if not _is_object(value)]
    return [*errors, *wrong_shapes(_TYPES, _NUMBERS, "LeaderWorkerSetSpec", raw.get("spec"), "spec")]


def wrong_shapes(
    types: Table, shapes: Mapping[str, Shape], name: str, value: Any, path: str
) -> Iterator[FieldError]:
    """Yield an error for each value below a struct, of the type `name`, that has not the shape of its type.

    shapes: the checked types other than structs. Values of all other types may have any shape.
    """
    if not _is_object(value):
        yield invalid(path, value, _NO_OBJECT)
        return
    for key, code in types[name].items():
        item = (value or {}).get(key)
        if code in types:
            yield from wrong_shapes(types, shapes, code, item, f"{path}.{key}")
        elif code in shapes and item is not None and not shapes[code][0](item):
            yield invalid(f"{path}.{key}", item, shapes[code][1])


def _is_object(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def templates_of(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and value of the pod templates in the set, the leader template first."""
    for field in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE):
        template = field.stored_in(raw)
        if isinstance(template, Mapping):
            yield str(field), template
