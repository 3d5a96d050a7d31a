"""Are the templates of a set such that pods can be made of them, and mean what the user thinks?

In: a set with values of the right types. Out: errors about what StatefulSets would refuse, or TPUs could not
work with; warnings about what is not as it seems. Labels and annotations of the controller: see `reserved`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lws.admission.errors import FieldError, invalid, required
from lws.admission.fields import templates_of
from lws.admission.rules.reserved import reserved_errors, reserved_warnings
from lws.group.tpu import MOST_PODS, PORT_ENV, is_configured, ports_of, tpu_containers
from lws.leaderworkerset import fields
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.v1 import (
    GROUP_SIZE_ENV,
    LEADER_ADDRESS_ENV,
    WORKER_INDEX_ENV,
    SubGroupPolicyType,
)

_VARIABLES = (LEADER_ADDRESS_ENV, GROUP_SIZE_ENV, WORKER_INDEX_ENV)


def template_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """What no pod of the set could be made with."""
    errors: list[FieldError] = []
    for path, template in templates_of(raw):
        if _is_used(path, raw, spec):
            errors += [*_missing(path, template), *_refused_by_statefulsets(path, template)]
    return [*errors, *reserved_errors(raw), *_tpu_errors(raw, spec)]


def template_warnings(raw: Mapping[str, Any], spec: SetSpec) -> list[str]:
    """What is not as its author may think."""
    found = [*reserved_warnings(raw), *_tpu_warnings(raw, spec)]
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


def _missing(path: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    """The definition asks for containers only where there is a `spec`."""
    if template.get("spec") is None:
        yield required(f"{path}.spec", "say what its pods run: at least one container")
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


def _is_used(path: str, raw: Mapping[str, Any], spec: SetSpec) -> bool:
    """Groups of one pod have no workers: nothing is made of their template where leaders have their own."""
    return spec.size > 1 or path == str(fields.LEADER_TEMPLATE) or fields.LEADER_TEMPLATE.of(raw) is None


def _tpu_errors(raw: Mapping[str, Any], spec: SetSpec) -> list[FieldError]:
    """Sets whose pods could not be told which pods their TPUs work with."""
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
    """What every pod tells of the others by what it has itself."""
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
    told = {template: ports_of(containers) for template, containers in pods.items() if containers}
    if len(told) == 2 and told[fields.LEADER_TEMPLATE] != told[fields.WORKER_TEMPLATE]:
        yield (
            f"{fields.WORKER_TEMPLATE}.spec.containers: TPU containers of workers are on the ports "
            f"{', '.join(told[fields.WORKER_TEMPLATE])}, those of leaders on "
            f"{', '.join(told[fields.LEADER_TEMPLATE])}: each pod counts and addresses all others as if they "
            f"were like itself; give both the same TPU containers, or set the TPU_… variables yourself"
        )


def _tpu_pods(raw: Mapping[str, Any]) -> dict[fields.Field, list[dict[str, Any]]]:
    """The TPU containers of leaders and of workers."""
    pods: dict[fields.Field, list[dict[str, Any]]]
    pods = {each: _tpu_containers(raw, each) for each in (fields.LEADER_TEMPLATE, fields.WORKER_TEMPLATE)}
    if not isinstance(fields.LEADER_TEMPLATE.of(raw), Mapping):
        pods[fields.LEADER_TEMPLATE] = pods[fields.WORKER_TEMPLATE]
    return pods


def _tpu_containers(raw: Mapping[str, Any], template: fields.Field) -> list[dict[str, Any]]:
    """Empty where nothing uses TPUs, or the user has configured them."""
    containers = tpu_containers(_mapping(template.field("spec").of(raw)))
    return [] if not containers or is_configured(containers) else containers


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [_mapping(each) for each in value] if isinstance(value, list) else []
