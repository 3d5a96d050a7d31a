"""Tests that reviews of the largest accepted objects are quick enough: all share one event loop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

import pytest

from lws.disaggregatedset.admission.validation import errors_in, warnings_in
from lws.kube.field_errors import Refused
from lws.kube.metadata import copied
from lws.leaderworkerset.admission import validation as leaderworkerset
from lws.leaderworkerset.admission.identity import (
    identity_change_errors,
    identity_errors,
    restart_errors,
)
from lws.leaderworkerset.admission.pod import admit, copy_to_admit
from lws.leaderworkerset.admission.scheduling import scheduling_errors
from lws.leaderworkerset.admission.templates import (
    placement_errors,
    placement_warnings,
    template_errors,
    template_warnings,
)
from lws.leaderworkerset.admission.validation import (
    MOST_REPORTED,
    claim_change_errors,
    clash_errors,
    leader_service_errors,
    restart_warnings,
    storage_errors,
    storage_warnings,
    subgroup_errors,
    unsupported_errors,
)
from lws.leaderworkerset.children.services import build_leader_service
from lws.leaderworkerset.revisions.shape import number_faults
from lws.leaderworkerset.spec import SetSpec
from lws_api.leaderworkerset.placement import GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION
from lws_api.leaderworkerset.v1 import NAME_LABEL, SIZE_ANNOTATION, WORKER_INDEX_LABEL
from test.unit.builders import make_set

Object = dict[str, Any]

LARGEST, MOST_ANNOTATIONS = 1_500_000, 250_000
"""Largest size of an object in etcd and of its annotations in the API server, in bytes."""
LIMIT = 10.0
"""Half a second, in multiples of `loop()`, which takes a twentieth of one. A quadratic review takes 20."""
TPUS = {"limits": {"google.com/tpu": "1"}}
CLAIM = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}


def a_set(
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    lws = make_set(size=2, **spec)
    containers = [{"name": "w", "image": "a:1", **(container or {})}]
    worker = {"spec": {"containers": containers, **(pod or {})}}
    lws["spec"]["leaderWorkerTemplate"] |= {"workerTemplate": worker, **(template or {})}
    return lws


def with_annotation(key: str, item: Callable[[int], str]) -> Callable[[int], Object]:
    return lambda count: make_set(annotations={key: ",".join(map(item, range(count)))})


def named(letter: str, count: int, **more: Any) -> list[Object]:
    return [{"name": f"{letter}{index}", **more} for index in range(count)]


LARGE: Mapping[str, Callable[[int], Object]] = {
    "claims": lambda count: a_set(
        template={"volumeClaimTemplates": [{"metadata": metadata, **CLAIM} for metadata in named("c", count)]}
    ),
    "claims of one name": lambda count: a_set(
        template={"volumeClaimTemplates": [{"metadata": {"name": "c"}}] * count}
    ),
    "empty claims": lambda count: a_set(template={"volumeClaimTemplates": [{}] * count}),
    "volumes": lambda count: a_set(pod={"volumes": named("v", count, emptyDir={})}),
    "mounts": lambda count: a_set({"volumeMounts": named("m", count, mountPath="/m")}),
    "containers": lambda count: a_set(pod={"containers": named("c", count)}),
    "containers with TPUs": lambda count: a_set(pod={"containers": named("c", count, resources=TPUS)}),
    "variables": lambda count: a_set({"env": named("E", count, value="x")}),
    "ports": lambda count: a_set(
        {"ports": [{"containerPort": 1 + index % 65535, "name": "p"} for index in range(count)]},
        leaderService={},
    ),
    "ports of the Service": lambda count: a_set(
        leaderService={"ports": [{"name": f"p{index}", "port": index} for index in range(count)]}
    ),
    "limits": lambda count: a_set(
        {"resources": {"limits": {f"a.b/r{index}": "1" for index in range(count)}}}
    ),
    "tolerations": lambda count: a_set(pod={"tolerations": [{"key": f"k{index}"} for index in range(count)]}),
    "tolerations of groups": with_annotation(GROUP_TOLERATIONS_ANNOTATION, lambda index: f"k{index}"),
    "one toleration of groups": with_annotation(GROUP_TOLERATIONS_ANNOTATION, lambda index: "k"),
    "labels of nodes of groups": with_annotation(GROUP_NODE_SELECTOR_ANNOTATION, lambda index: f"k{index}=v"),
}


def large(kind: str, share: float = 1.0) -> Object:
    """Return the largest object that is accepted, or one of a share of its size."""
    make = LARGE[kind]
    least, more = (len(json.dumps(make(count))) for count in (1, 101))
    size = MOST_ANNOTATIONS if kind.endswith("of groups") else LARGEST
    return make(max(1, int((size * share - least) * 100 / (more - least))))


def changed(obj: Object) -> Object:
    """Return the running set with another image."""
    updated = copied(obj)
    updated["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "b:1"
    return {**updated, "status": {"replicas": 2}}


def scheduled(lws: Object) -> Object:
    claims = {"resourceClaims": [{"name": name} for name in "abcd"]}
    return {**lws, "spec": {**lws["spec"], "scheduling": {"replica": {"leader": claims, "worker": claims}}}}


RULES: Mapping[str, Callable[[Object, Object, SetSpec], Iterable[object]]] = {
    "changed claims": lambda new, old, spec: claim_change_errors(new, old),
    "changed identity": lambda new, old, spec: identity_change_errors(new, old),
    "claims": lambda new, old, spec: islice(storage_errors(new), MOST_REPORTED),
    "fields of later releases": lambda new, old, spec: unsupported_errors(new),
    "identity": lambda new, old, spec: identity_errors(new, spec),
    "names": lambda new, old, spec: clash_errors(new, None, [{**old, "metadata": {"name": "demo-1"}}] * 200),
    "numbers": lambda new, old, spec: number_faults(new["spec"]),
    "placement": lambda new, old, spec: placement_errors(new, spec),
    "restart limits": lambda new, old, spec: restart_errors(new),
    "restarts": lambda new, old, spec: restart_warnings(new, old, spec, SetSpec.of(old)),
    "Service of leaders": lambda new, old, spec: leader_service_errors(new),
    "scheduling": lambda new, old, spec: scheduling_errors(scheduled(new), scheduled(old), spec),
    "subgroups": lambda new, old, spec: subgroup_errors(new, spec),
    "templates": lambda new, old, spec: template_errors(new, spec),
    "unwise claims": lambda new, old, spec: islice(storage_warnings(new), MOST_REPORTED),
    "unwise placement": lambda new, old, spec: placement_warnings(new, spec),
    "unwise templates": lambda new, old, spec: template_warnings(new, spec),
}


def cost_of(call: Callable[[], object]) -> float:
    """Return the processor time of a call, in multiples of `loop()` at the same moment.

    Machines differ in speed, and so does the load of other processes.
    """
    return seconds(call) / min(seconds(loop) for _ in range(3))


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def loop() -> None:
    seen: dict[str, int] = {}
    for number in range(250_000):
        seen[str(number & 1023)] = len(seen)


def _read(
    rule: Callable[[Object, Object, SetSpec], Iterable[object]], new: Object, old: Object, spec: SetSpec
) -> None:
    list(rule(new, old, spec))


@pytest.mark.parametrize("kind", LARGE)
def test_no_rule_is_slow(kind: str) -> None:
    new = large(kind)
    old, spec = changed(new), SetSpec.of(new)
    for name, rule in RULES.items():
        costs = (cost_of(partial(_read, rule, new, old, spec)) for _ in range(3))
        assert any(cost < LIMIT for cost in costs), name


def reviews(kind: str, share: float) -> Mapping[str, Callable[[], object]]:
    new = large(kind, share)
    old = changed(new)
    roles = [
        [{"name": "a", "spec": lws["spec"]}, {"name": "b", "spec": make_set()["spec"]}] for lws in (new, old)
    ]
    of_roles, before = ({"metadata": {"name": "d"}, "spec": {"roles": role_specs}} for role_specs in roles)
    template = new["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    pod = {
        "metadata": {
            "name": "demo-0",
            "labels": {NAME_LABEL: "demo", WORKER_INDEX_LABEL: "0"},
            "annotations": {**(new["metadata"].get("annotations") or {}), SIZE_ANNOTATION: "2"},
        },
        "spec": template["spec"],
    }
    return {
        "a set": lambda: leaderworkerset.errors_in(new, old),
        "warnings of a set": lambda: leaderworkerset.warnings_in(new, old),
        "a set of roles": lambda: errors_in(of_roles, before),
        "warnings of a set of roles": lambda: warnings_in(of_roles, before),
        "the Service of leaders": lambda: build_leader_service(new),
        "a leader": lambda: rejection_of(pod),
    }


def rejection_of(pod: Object) -> None:
    try:
        admit(copy_to_admit(pod), "default")
    except Refused:
        # Pods with too many TPU containers are rejected.
        return


@pytest.mark.parametrize("kind", LARGE)
def test_cost_of_a_review_is_linear_in_the_size_of_the_object(kind: str) -> None:
    """Four times the size may take four times as long, with room for noise. Sixteen times could block a
    manager.
    """
    larger, smaller = reviews(kind, 0.2), reviews(kind, 0.05)
    for name, review in larger.items():
        if (cost := cost_of(review)) > LIMIT / 5:
            cost = min(cost, cost_of(review))
            assert cost < 8 * min(cost_of(smaller[name]) for _ in range(2)), name
