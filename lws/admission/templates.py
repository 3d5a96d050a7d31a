"""Are the templates of a set such that pods can be made of them, and mean what the user thinks?

In: a set with values of the right types. Out: errors and warnings about what controllers would overwrite,
StatefulSets would refuse, or TPUs could not work with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid
from lws.admission.fields import TEMPLATE, Facts, value_at
from lws.group.tpu import MOST_PODS, is_configured, ports_of, tpu_containers
from lws.kube.metadata import annotations_of, labels_of
from lws.leaderworkerset.spec import PLACEMENT_ANNOTATIONS
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    GROUP_SIZE_ENV,
    LEADER_ADDRESS_ENV,
    LEADER_NAME_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    NAME_LABEL,
    REPLICAS_ANNOTATION,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    WORKER_INDEX_ENV,
    WORKER_INDEX_LABEL,
    SubGroupPolicyType,
)

LEADER, WORKER = "leaderTemplate", "workerTemplate"

_LABELS = (
    NAME_LABEL,
    WORKER_INDEX_LABEL,
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    REVISION_LABEL,
    SUBGROUP_INDEX_LABEL,
    SUBGROUP_KEY_LABEL,
)
_ANNOTATIONS = (
    SIZE_ANNOTATION,
    REPLICAS_ANNOTATION,
    LEADER_NAME_ANNOTATION,
    SUBGROUP_SIZE_ANNOTATION,
    SUBGROUP_POLICY_TYPE_ANNOTATION,
    SUBDOMAIN_POLICY_ANNOTATION,
    LEADER_REQUESTS_TPUS_ANNOTATION,
    *PLACEMENT_ANNOTATIONS,
)
_VARIABLES = (LEADER_ADDRESS_ENV, GROUP_SIZE_ENV, WORKER_INDEX_ENV)

_OVERWRITTEN = "is set by the controller, which tells pods by it: remove it from the template"
_MISPLACED = "counts on the LeaderWorkerSet only: move it to metadata.annotations of the set"


def template_errors(raw: Mapping[str, Any], facts: Facts) -> list[FieldError]:
    """What no pod of the set could be made with."""
    errors: list[FieldError] = []
    for path, template in templates_of(raw):
        errors += _reserved(path, template)
        errors += _refused_by_statefulsets(path, template)
    return [*errors, *_tpu_errors(raw, facts)]


def template_warnings(raw: Mapping[str, Any]) -> list[str]:
    """What is not as its author may think."""
    found = []
    for path, template in templates_of(raw):
        pod = _mapping(template.get("spec"))
        for kind in ("initContainers", "containers"):
            for place, container in enumerate(_mappings(pod.get(kind))):
                names = [entry.get("name") for entry in _mappings(container.get("env"))]
                found += [
                    f"{path}.spec.{kind}[{place}].env: {name} is set by the controller, and this value is "
                    f"never seen: remove it, or choose another name"
                    for name in _VARIABLES
                    if name in names
                ]
    return found


def templates_of(raw: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path and value of the pod templates that the user wrote, the leaders' first."""
    for name in (LEADER, WORKER):
        template = value_at(raw, (*TEMPLATE, name))
        if isinstance(template, Mapping):
            yield ".".join((*TEMPLATE, name)), template


def _reserved(path: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    labels, annotations = labels_of(template), annotations_of(template)
    for key in _LABELS:
        if key in labels:
            yield invalid(f"{path}.metadata.labels[{key}]", labels[key], _OVERWRITTEN)
    for key in _ANNOTATIONS:
        if key in annotations:
            why = _MISPLACED if key in PLACEMENT_ANNOTATIONS else _OVERWRITTEN
            yield invalid(f"{path}.metadata.annotations[{key}]", annotations[key], why)


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


def _tpu_errors(raw: Mapping[str, Any], facts: Facts) -> list[FieldError]:
    """Sets whose pods could not be told which pods their TPUs work with."""
    pods = {name: _tpu_containers(raw, name) for name in (LEADER, WORKER)}
    if not isinstance(value_at(raw, (*TEMPLATE, LEADER)), Mapping):
        pods[LEADER] = pods[WORKER]
    errors = []
    if any(pods.values()) and facts.size > MOST_PODS:
        why = f"groups whose pods request google.com/tpu have {MOST_PODS} pods at most: each is told of all"
        errors.append(invalid(".".join((*TEMPLATE, "size")), facts.size, why))
    policy = (facts.subgroup or {}).get("subGroupPolicyType")
    if pods[LEADER] and policy == SubGroupPolicyType.LEADER_EXCLUDED:
        why = (
            "leaders request google.com/tpu and would be in no subgroup, so they could not be told whom to "
            "work with: give the set a leaderTemplate without it, or use LeaderWorker"
        )
        errors.append(invalid(".".join((*TEMPLATE, "subGroupPolicy", "subGroupPolicyType")), policy, why))
    ports = []
    for name, containers in pods.items():
        if not containers or (name == WORKER and facts.size < 2):
            continue
        try:
            ports.append(ports_of(containers))
        except ValueError as error:
            path = ".".join((*TEMPLATE, name if value_at(raw, (*TEMPLATE, name)) else WORKER))
            errors.append(
                invalid(f"{path}.spec.containers", [each.get("name") for each in containers], str(error))
            )
    if len(ports) == 2 and ports[0] != ports[1]:
        why = (
            f"leaders have TPU containers on the ports {', '.join(ports[0])}: every pod tells the addresses "
            f"of all by its own ports, so leaders and workers need the same number of them on the same ports"
        )
        errors.append(invalid(".".join((*TEMPLATE, WORKER, "spec", "containers")), ", ".join(ports[1]), why))
    return list({str(error): error for error in errors}.values())


def _tpu_containers(raw: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Empty where nothing uses TPUs, or the user has configured them."""
    containers = tpu_containers(_mapping(value_at(raw, (*TEMPLATE, name, "spec"))))
    return [] if not containers or is_configured(containers) else containers


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [_mapping(each) for each in value] if isinstance(value, list) else []
