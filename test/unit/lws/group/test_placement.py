"""lws.group.placement: where pods of a group may run."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.group.placement import exclusive, exclusive_topology, node_selector, restored_for
from lws.leaderworkerset.revisions import build_revision, parse, record
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_KEY_LABEL,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.builders import KEY, make_leader_pod, make_set

ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TOGETHER = {
    "labelSelector": {"matchExpressions": [{"key": GROUP_KEY_LABEL, "operator": "In", "values": ["k"]}]},
    "topologyKey": ZONE,
}
APART = {
    "labelSelector": {
        "matchExpressions": [
            {"key": GROUP_KEY_LABEL, "operator": "Exists"},
            {"key": GROUP_KEY_LABEL, "operator": "NotIn", "values": ["k"]},
        ]
    },
    "topologyKey": ZONE,
}
OTHER = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
OWN = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": ZONE}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(
            {}, {"podAffinity": {REQUIRED: [TOGETHER]}, "podAntiAffinity": {REQUIRED: [APART]}}, id="none"
        ),
        pytest.param(
            {
                "nodeAffinity": {"a": 1},
                "podAffinity": {"preferred": [1], REQUIRED: [OTHER]},
                "podAntiAffinity": None,
            },
            {
                "nodeAffinity": {"a": 1},
                "podAffinity": {"preferred": [1], REQUIRED: [OTHER, TOGETHER]},
                "podAntiAffinity": {REQUIRED: [APART]},
            },
            id="what is there stays and comes first",
        ),
        pytest.param(
            {"podAffinity": {REQUIRED: [OWN]}},
            {"podAffinity": {REQUIRED: [OWN, TOGETHER]}, "podAntiAffinity": {REQUIRED: [APART]}},
            id="one of two about the same topology",
        ),
        pytest.param(
            {"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [OTHER, OWN]}},
            {"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [OTHER, OWN]}},
            id="both about the same topology: the user decides",
        ),
    ],
)
def test_terms(affinity: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(affinity)
    made = exclusive(affinity, GROUP_KEY_LABEL, "k", ZONE)
    assert made == expected
    assert affinity == before
    assert exclusive(made, GROUP_KEY_LABEL, "k", ZONE) == made


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [({}, ""), ({EXCLUSIVE_TOPOLOGY_ANNOTATION: ""}, ""), ({EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE}, ZONE)],
)
def test_the_topology_of_a_set(annotations: dict[str, str], expected: str) -> None:
    assert exclusive_topology(make_set(annotations=annotations)) == expected


@pytest.mark.parametrize(
    ("labels", "expected"), [({ZONE: "a"}, {ZONE: "a"}), ({ZONE: ""}, {ZONE: ""}), ({"x": "y"}, None)]
)
def test_the_selector_of_workers(labels: dict[str, str], expected: dict[str, str] | None) -> None:
    assert node_selector({"metadata": {"name": "n", "labels": labels}}, ZONE) == expected


@pytest.mark.parametrize("records", [True, False], ids=["recorded", "told by the leader"])
def test_a_group_keeps_the_topology_that_it_was_made_with(records: bool) -> None:
    old = {EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE, "mine": "1"}
    before = make_set(annotations=old)
    revision = dict(build_revision(before, record(before), 1, key=KEY))
    revision |= {"data": {"spec": before["spec"]}, "metadata": dict(revision["metadata"])}
    if not records:
        # As releases before this one wrote it.
        del revision["metadata"]["annotations"]
    live = make_set(
        annotations={
            EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack",
            SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION: "host",
            "mine": "2",
        }
    )
    leader = make_leader_pod(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE})
    restored = restored_for(live, parse(revision), leader)
    assert restored["metadata"]["annotations"] == {EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE, "mine": "2"}
    assert live["metadata"]["annotations"][EXCLUSIVE_TOPOLOGY_ANNOTATION] == "rack"
