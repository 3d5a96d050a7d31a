"""Tests of lws.leaderworkerset.group.placement: where pods of a group may run."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from lws.leaderworkerset.group.placement import (
    Peers,
    Placement,
    add_exclusive_affinity,
    add_peer_affinity,
    is_placed,
    peers_of,
    restored_for,
    topology_of,
    worker_placement,
)
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.revisions.reading import parse
from lws_api.leaderworkerset.placement import (
    EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION,
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    SHARED_TOPOLOGY_ANNOTATION,
)
from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    GROUP_KEY_LABEL,
    NAME_LABEL,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.builders import KEY, build_revision, make_leader_pod, make_set

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
KIN = Peers(GROUP_KEY_LABEL, "k")
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
            id="existing terms stay first",
        ),
        pytest.param(
            {"podAffinity": {REQUIRED: [OWN]}},
            {"podAffinity": {REQUIRED: [OWN, TOGETHER]}, "podAntiAffinity": {REQUIRED: [APART]}},
            id="one existing term for the topology",
        ),
        pytest.param(
            {"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [OTHER, OWN]}},
            {"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [OTHER, OWN]}},
            id="both terms exist: the user's apply",
        ),
    ],
)
def test_terms(affinity: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(affinity)
    actual = add_exclusive_affinity(affinity, KIN, ZONE)
    assert actual == expected
    assert affinity == before
    assert add_exclusive_affinity(actual, KIN, ZONE) == actual


def scoped(scope: str) -> list[dict[str, Any]]:
    """Return the anti-affinity terms of a scope, which keep other pods away."""
    labels = {GROUP_KEY_LABEL: "k", NAME_LABEL: "demo"}
    kin = peers_of({EXCLUSIVE_TOPOLOGY_SCOPE_ANNOTATION: scope}, labels, GROUP_KEY_LABEL, "here")
    affinity = add_exclusive_affinity({}, kin, ZONE)
    assert affinity["podAffinity"] == {REQUIRED: [TOGETHER]}
    assert add_exclusive_affinity(affinity, kin, ZONE) == affinity
    terms: list[dict[str, Any]] = affinity["podAntiAffinity"][REQUIRED]
    return terms


OF_THE_SET = {"key": NAME_LABEL, "operator": "In", "values": ["demo"]}
ELSEWHERE = {
    "labelSelector": {"matchExpressions": [{"key": GROUP_KEY_LABEL, "operator": "Exists"}]},
    "namespaceSelector": {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["here"]}]
    },
    "topologyKey": ZONE,
}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param("", [APART], id="default: the namespace"),
        pytest.param("Namespace", [APART], id="explicit namespace scope"),
        pytest.param("nonsense", [APART], id="invalid scope"),
        pytest.param("Cluster", [APART, ELSEWHERE], id="every namespace"),
        pytest.param(
            "LeaderWorkerSet",
            [
                {
                    "labelSelector": {
                        "matchExpressions": [*APART["labelSelector"]["matchExpressions"], OF_THE_SET]
                    },
                    "topologyKey": ZONE,
                }
            ],
            id="the groups of one set",
        ),
    ],
)
def test_scope_of_exclusive_topology(scope: str, expected: list[dict[str, Any]]) -> None:
    assert scoped(scope) == expected


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        pytest.param({}, [TOGETHER], id="none"),
        pytest.param({"podAffinity": {REQUIRED: [OWN]}}, [OWN, TOGETHER], id="existing terms are kept"),
        pytest.param({"podAffinity": {REQUIRED: [TOGETHER]}}, [TOGETHER], id="not added twice"),
    ],
)
def test_shared_topology_adds_no_anti_affinity(affinity: dict[str, Any], terms: list[dict[str, Any]]) -> None:
    assert add_peer_affinity(affinity, KIN, ZONE) == {"podAffinity": {REQUIRED: terms}}


def test_workers_get_the_node_pool_of_their_group_and_the_topology_of_their_leader() -> None:
    annotations = {
        SHARED_TOPOLOGY_ANNOTATION: ZONE,
        GROUP_NODE_SELECTOR_ANNOTATION: "pool=p-$(GROUP_INDEX)",
        GROUP_TOLERATIONS_ANNOTATION: "group=$(GROUP_NAME):NoSchedule",
    }
    lws = make_set(annotations=annotations)
    leader = make_leader_pod(lws, 1)
    toleration = {"key": "group", "operator": "Equal", "value": "demo-1", "effect": "NoSchedule"}
    del leader["spec"]["nodeName"]
    waiting = worker_placement(lws, leader, None)
    assert waiting.waiting_for == "leader pod demo-1 to be scheduled: its workers follow it"
    leader["spec"]["nodeName"] = "n"
    placement = worker_placement(lws, leader, {"metadata": {"labels": {ZONE: "a"}}})
    assert placement == Placement({"pool": "p-1", ZONE: "a"}, tolerations=(toleration,))
    lws["metadata"]["annotations"] = {GROUP_NODE_SELECTOR_ANNOTATION: "pool"}
    stuck = worker_placement(lws, leader, None)
    assert stuck.is_stuck
    assert stuck.waiting_for.startswith("nodes that group demo-1 may use: 'pool' must be <label>=<value>")


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, ""),
        ({EXCLUSIVE_TOPOLOGY_ANNOTATION: ""}, ""),
        ({EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE}, ZONE),
        ({SHARED_TOPOLOGY_ANNOTATION: ZONE}, ZONE),
    ],
)
def test_the_topology_of_a_set(annotations: dict[str, str], expected: str) -> None:
    assert topology_of(make_set(annotations=annotations)) == expected


@pytest.mark.parametrize(
    ("topology", "node_name", "labels", "expected"),
    [
        pytest.param("", None, None, Placement(), id="anywhere"),
        pytest.param(ZONE, "n", {ZONE: "a"}, Placement({ZONE: "a"}), id="beside the leader"),
        pytest.param(ZONE, "n", {ZONE: ""}, Placement({ZONE: ""}), id="an empty label is one"),
        pytest.param(
            ZONE,
            None,
            None,
            Placement(waiting_for="leader pod demo-0 to be scheduled: its workers follow it"),
            id="not scheduled yet",
        ),
        pytest.param(
            ZONE,
            "n",
            None,
            Placement(waiting_for="node n of leader pod demo-0 to exist"),
            id="unknown node",
        ),
        pytest.param(
            ZONE,
            "n",
            {"x": "y"},
            Placement(
                waiting_for=f"node n of leader pod demo-0 has no label {ZONE}, so its workers cannot be "
                "placed near it: label the node, or give leaders a node selector for the label",
                is_stuck=True,
            ),
            id="a node without the label",
        ),
    ],
)
def test_node_selector_of_workers(topology: str, node_name: Any, labels: Any, expected: Placement) -> None:
    lws = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: topology})
    leader = make_leader_pod()
    leader["spec"]["nodeName"] = node_name
    node = None if labels is None else {"metadata": {"name": "n", "labels": labels}}
    assert worker_placement(lws, leader, node) == expected


@pytest.mark.parametrize("records", [True, False], ids=["recorded", "read from the leader"])
def test_a_group_keeps_the_topology_it_was_created_with(records: bool) -> None:
    old = {EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE, "mine": "1"}
    before = make_set(annotations=old)
    revision = dict(build_revision(before, record(before), 1, key=KEY))
    revision |= {"data": json.loads(revision["data"].text), "metadata": dict(revision["metadata"])}
    if not records:
        # The revision as earlier releases wrote it.
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


def test_a_topology_of_the_leader_template_alone_places_no_workers() -> None:
    """Upstream uses it for the leader, too, and reads the topology of the set for workers."""
    own = {"leaderTemplate": {"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE}}, "spec": {}}}
    lws = make_set(template=own)
    revision = dict(build_revision(lws, record(lws), 1, key=KEY))
    revision |= {"data": json.loads(revision["data"].text), "metadata": dict(revision["metadata"])}
    # The revision as upstream wrote it.
    del revision["metadata"]["annotations"]
    leader = make_leader_pod(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE})
    assert topology_of(restored_for(lws, parse(revision), leader)) == ""
    assert not is_placed(lws, parse(revision), leader)


@pytest.mark.parametrize("is_annotated", [True, False])
def test_topology_of_a_leader_without_a_revision(is_annotated: bool) -> None:
    leader = make_leader_pod(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE} if is_annotated else {})
    assert is_placed(make_set(), None, leader) is is_annotated
    lws = make_set(annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: ZONE} if is_annotated else {})
    revision = dict(build_revision(lws, record(lws), 1, key=KEY))
    revision |= {"data": json.loads(revision["data"].text)}
    assert is_placed(lws, parse(revision), make_leader_pod()) is is_annotated
