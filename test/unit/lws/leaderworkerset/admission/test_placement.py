"""Tests of lws.leaderworkerset.admission.validation: errors and warnings about the placement of groups."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.names import dns1123_subdomain_errors
from lws.leaderworkerset.admission.validation import errors_in, warnings_in
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    NODE_RETURN_ANNOTATION,
    NODE_RETURN_EXCEPT_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
    SUBGROUP_SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.lws.leaderworkerset.admission.test_validation import make_set, make_subgroup

EXCLUSIVE, SHARED = EXCLUSIVE_TOPOLOGY_ANNOTATION, SHARED_TOPOLOGY_ANNOTATION
SUB_EXCLUSIVE, SUB_SHARED = SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_SHARED_TOPOLOGY_ANNOTATION
SCOPE, RETURN = EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION, NODE_RETURN_ANNOTATION
EXCEPT = NODE_RETURN_EXCEPT_ANNOTATION
SELECTOR, TOLERATIONS = GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION
IN_TWOS = make_subgroup(2)


def of_hash_groups(annotations: dict[str, str]) -> dict[str, Any]:
    lws = make_set(annotations=annotations)
    return {**lws, "spec": {**lws["spec"], "groupIdentity": "Hash"}}


def error(annotation: str, value: str, why: str) -> str:
    return f'metadata.annotations.{annotation}: Invalid value: "{value}": {why}'


@pytest.mark.parametrize(
    ("annotations", "subgroup", "expected"),
    [
        pytest.param({EXCLUSIVE: "rack", SCOPE: "LeaderWorkerSet"}, None, [], id="one set"),
        pytest.param({EXCLUSIVE: "rack", SCOPE: "Cluster"}, None, [], id="all namespaces"),
        pytest.param({EXCLUSIVE: "rack", SCOPE: "Namespace"}, None, [], id="explicit default scope"),
        pytest.param(
            {EXCLUSIVE: "rack", SCOPE: "set"},
            None,
            [error(SCOPE, "set", "must be one of LeaderWorkerSet, Namespace, Cluster")],
            id="unknown scope",
        ),
        pytest.param({RETURN: "Preferred"}, None, [], id="node return"),
        pytest.param(
            {RETURN: "Required", EXCEPT: "node-1, node-2"}, None, [], id="node return with two excluded nodes"
        ),
        pytest.param(
            {RETURN: "Always"},
            None,
            [error(RETURN, "Always", "must be one of Preferred, Required")],
            id="unknown node return",
        ),
        pytest.param(
            {RETURN: "Required", EXCEPT: "node-1,Node_2"},
            None,
            [error(EXCEPT, "Node_2", dns1123_subdomain_errors("Node_2")[0])],
            id="invalid node name",
        ),
        pytest.param({SHARED: "zone"}, None, [], id="shared"),
        pytest.param({SHARED: "zone", SUB_EXCLUSIVE: "rack"}, IN_TWOS, [], id="racks of a shared zone"),
        pytest.param({EXCLUSIVE: "zone", SUB_SHARED: "rack"}, IN_TWOS, [], id="shared racks of a zone"),
        pytest.param(
            {EXCLUSIVE: "rack", SHARED: "zone"},
            None,
            [
                error(
                    SHARED,
                    "zone",
                    f"conflicts with {EXCLUSIVE}, which requires the same and more: remove one of them",
                )
            ],
            id="exclusive and shared",
        ),
        pytest.param(
            {SUB_EXCLUSIVE: "rack", SUB_SHARED: "zone"},
            IN_TWOS,
            [
                error(
                    SUB_SHARED,
                    "zone",
                    f"conflicts with {SUB_EXCLUSIVE}, which requires the same and more: remove one of them",
                )
            ],
            id="exclusive and shared subgroup topology",
        ),
        pytest.param(
            {SUB_SHARED: "zone"},
            None,
            [error(SUB_SHARED, "zone", "cannot have subgroup-shared-topology without subGroupSize set")],
            id="subgroup topology without subgroups",
        ),
        pytest.param(
            {SHARED: "rack", SUB_EXCLUSIVE: "rack"},
            IN_TWOS,
            [
                error(
                    SUB_EXCLUSIVE,
                    "rack",
                    f"is also the topology of {SHARED}: subgroups cannot be in different domains if their "
                    f"group is in one; use a smaller topology here",
                )
            ],
            id="subgroups apart in one shared domain",
        ),
        pytest.param({SHARED: "rack", SUB_SHARED: "rack"}, IN_TWOS, [], id="both levels in one domain"),
        pytest.param(
            {SELECTOR: "pool=p-$(GROUP_INDEX)", TOLERATIONS: "p:NoExecute"}, None, [], id="own nodes"
        ),
        pytest.param({SELECTOR: "p=$(NAMESPACE)_$(GROUP_NAME)"}, None, [], id="namespace unknown"),
        pytest.param(
            {SELECTOR: "pool"},
            None,
            [
                error(
                    SELECTOR,
                    "pool",
                    "'pool' must be <label>=<value>, as in example.com/pool=pool-$(GROUP_INDEX)",
                )
            ],
            id="a selector without value",
        ),
        pytest.param(
            {TOLERATIONS: "a:Now"},
            None,
            [
                error(
                    TOLERATIONS,
                    "a:Now",
                    "the effect of 'a:Now' must be one of NoSchedule, PreferNoSchedule, NoExecute",
                )
            ],
            id="unknown taint effect",
        ),
    ],
)
def test_placement_annotations(
    annotations: dict[str, str], subgroup: dict[str, Any] | None, expected: list[str]
) -> None:
    raw = make_set(annotations=annotations, subgroup=subgroup)
    assert [str(err) for err in errors_in(raw)] == expected
    old = make_set(subgroup=subgroup)
    assert [str(err) for err in errors_in(raw, old)] == expected, "annotations are read in updates too"
    later = {**raw, "spec": {**raw["spec"], "replicas": 1}}
    assert errors_in(later, raw) == [], "stored annotations do not block updates"


def test_required_node_return_is_rejected_for_hash_groups() -> None:
    assert [str(err) for err in errors_in(of_hash_groups({RETURN: "Required"}))] == [
        error(
            RETURN,
            "Required",
            "cannot be with groupIdentity Hash: a recreated group has other names; remove it",
        )
    ]


def test_label_length_is_checked_for_the_longest_group_name() -> None:
    annotations = {SELECTOR: f"pool={'x' * 58}-$(GROUP_INDEX)"}
    assert errors_in(make_set(replicas=1000, max_unavailable=1, annotations=annotations)) == []
    assert [err.path for err in errors_in(make_set(replicas=100_001, annotations=annotations))] == [
        f"metadata.annotations.{SELECTOR}"
    ]


def own_selector(annotations: dict[str, str]) -> dict[str, Any]:
    raw = make_set(annotations=annotations)
    raw["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["nodeSelector"] = {"pool": "mine"}
    return raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(make_set(annotations={SHARED: "zone", SELECTOR: "pool=a"}), [], id="no warning"),
        pytest.param(
            make_set(annotations={SHARED: "a zone"}),
            ['shared-topology: "a zone" is a label that no node can have'],
            id="not a label key",
        ),
        pytest.param(
            make_set(annotations={SCOPE: "Cluster"}),
            [f'{SCOPE}: "Cluster" has no effect without {EXCLUSIVE}'],
            id="scope without a topology",
        ),
        pytest.param(
            make_set(annotations={RETURN: "Preferred", EXCLUSIVE: "rack"}),
            [f"{RETURN}: has no effect with {EXCLUSIVE}, which decides where pods run"],
            id="node return with exclusive topology",
        ),
        pytest.param(
            of_hash_groups({RETURN: "Preferred"}),
            [f"{RETURN}: has no effect with groupIdentity Hash: a recreated group has other names"],
            id="node return with hash identity",
        ),
        pytest.param(
            make_set(annotations={RETURN: "Required", SHARED: "rack"}),
            [f"{RETURN}: is a preference for pods that {SHARED} places near others"],
            id="node return with shared topology",
        ),
        pytest.param(
            make_set(annotations={EXCEPT: "node-1"}),
            [f"{EXCEPT}: has no effect without {RETURN}"],
            id="excluded nodes without node return",
        ),
        pytest.param(
            make_set(annotations={SELECTOR: "pool=$(GROUP_INDEX)"}, max_surge=1),
            [f"maxSurge: 1 with {SELECTOR}: during updates there are groups up to index 2"],
            id="node pools and surge",
        ),
        pytest.param(
            own_selector({SELECTOR: "pool=$(GROUP_NAME)"}),
            ['workerTemplate.spec.nodeSelector[pool]: "mine" is overwritten'],
            id="overwritten node selector",
        ),
        pytest.param(own_selector({SELECTOR: "disk=ssd"}), [], id="kept node selector"),
    ],
)
def test_warnings(raw: dict[str, Any], expected: list[str]) -> None:
    warnings = warnings_in(raw)
    assert len(warnings) == len(expected)
    for message, part in zip(warnings, expected, strict=True):
        assert part in message
    assert errors_in(raw) == []


@pytest.mark.parametrize("key", [GROUP_TOLERATIONS_ANNOTATION, NODE_RETURN_EXCEPT_ANNOTATION])
def test_length_of_placement_annotations_is_limited(key: str) -> None:
    value = ",".join(["k"] * 4096)
    assert errors_in(make_set(annotations={key: value[:8192]})) == []
    (err,) = errors_in(make_set(annotations={key: value + ",k"}))
    why = f"has {len(value) + 2} bytes, at most 8192 are allowed: it is read for every pod"
    assert str(err) == error(key, f"{value[:40]}…", why)
    stored = make_set(annotations={key: value + ",k"})
    assert errors_in({**stored, "spec": {**stored["spec"], "replicas": 7}}, stored) == [], (
        "it was stored before"
    )


def test_a_stored_annotation_that_is_too_long_does_not_disable_other_checks() -> None:
    stored = make_set(annotations={RETURN: "Required", EXCEPT: ",".join(["k"] * 4097)})
    annotations = {**stored["metadata"]["annotations"], RETURN: "Always", SHARED: "a zone"}
    changed = {**stored, "metadata": {**stored["metadata"], "annotations": annotations}}
    why = "must be one of Preferred, Required"
    assert [str(err) for err in errors_in(changed, stored)] == [error(RETURN, "Always", why)]
    assert any("is a label that no node can have" in warning for warning in warnings_in(changed, stored))
