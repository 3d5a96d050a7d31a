"""Tests of lws.leaderworkerset.templates.node_selection: node selector and tolerations by group."""

from __future__ import annotations

import re

import pytest

from lws.leaderworkerset.templates.node_selection import (
    GroupNodes,
    nodes_of_group,
    selects_by_group,
    with_tolerations,
    without_group_nodes,
)
from lws_api.leaderworkerset.placement import (
    GROUP_NODE_SELECTOR_ANNOTATION,
    GROUP_TOLERATIONS_ANNOTATION,
    PLACEMENT_GATE,
)

SELECTOR, TOLERATIONS = GROUP_NODE_SELECTOR_ANNOTATION, GROUP_TOLERATIONS_ANNOTATION
EQUAL = {"key": "example.com/group", "operator": "Equal", "value": "demo-7", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, GroupNodes({}), id="nothing"),
        pytest.param({SELECTOR: "", TOLERATIONS: ""}, GroupNodes({}), id="empty"),
        pytest.param(
            {SELECTOR: "example.com/pool=pool-$(GROUP_INDEX)"},
            GroupNodes({"example.com/pool": "pool-7"}),
            id="index",
        ),
        pytest.param(
            {SELECTOR: "a=$(GROUP_NAME), b=$(NAMESPACE)_$(GROUP_INDEX),c="},
            GroupNodes({"a": "demo-7", "b": "prod_7", "c": ""}),
            id="several, spaces, an empty value",
        ),
        pytest.param(
            {TOLERATIONS: "example.com/group=$(GROUP_NAME):NoSchedule"},
            GroupNodes({}, (EQUAL,)),
            id="a taint",
        ),
        pytest.param(
            {TOLERATIONS: "a:NoExecute,b=x,c"},
            GroupNodes(
                {},
                (
                    {"key": "a", "operator": "Exists", "effect": "NoExecute"},
                    {"key": "b", "operator": "Equal", "value": "x"},
                    {"key": "c", "operator": "Exists"},
                ),
            ),
            id="any value, any effect, anything",
        ),
    ],
)
def test_nodes(annotations: dict[str, str], expected: GroupNodes) -> None:
    assert nodes_of_group(annotations, "prod", "demo", 7) == expected
    assert selects_by_group(annotations) is any(annotations.values())


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        pytest.param({SELECTOR: "pool"}, "'pool' must be <label>=<value>", id="no value"),
        pytest.param({SELECTOR: "a=b,"}, "'' must be <label>=<value>", id="a comma too many"),
        pytest.param({SELECTOR: "a b=c"}, "'a b' is no key of a label or taint", id="a key"),
        pytest.param({SELECTOR: "=c"}, "'' is no key of a label or taint", id="no key"),
        pytest.param({SELECTOR: "a=-"}, "'-', for a, is no value of a label", id="a value"),
        pytest.param({SELECTOR: "a=" + 64 * "x"}, "is no value of a label: must be no more", id="too long"),
        pytest.param(
            {SELECTOR: "a=$(INDEX)"}, "a=$(INDEX) has a reference that is none of", id="a reference"
        ),
        pytest.param({TOLERATIONS: "a=b:Never"}, "the effect of 'a=b:Never' must be", id="an effect"),
        pytest.param({TOLERATIONS: "a:"}, "the effect of 'a:' must be", id="no effect"),
    ],
)
def test_invalid_annotations_are_rejected(annotations: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        nodes_of_group(annotations, "prod", "demo", 7)


def test_tolerations_are_added_once() -> None:
    own = [{"key": "mine"}, EQUAL]
    assert with_tolerations(own, [EQUAL, {"key": "b"}]) == [*own, {"key": "b"}]


def test_node_selection_of_a_group_is_removed_from_a_template() -> None:
    annotations = {SELECTOR: "pool=$(GROUP_INDEX)", TOLERATIONS: "t=$(GROUP_NAME)"}
    got = {
        "containers": [],
        "nodeSelector": {"pool": "7", "own": "x"},
        "tolerations": [{"key": "own"}, {"key": "t", "operator": "Equal", "value": "demo-7"}],
        "schedulingGates": [{"name": PLACEMENT_GATE}],
    }
    assert without_group_nodes(got, annotations) == {
        "containers": [],
        "nodeSelector": {"own": "x"},
        "tolerations": [{"key": "own"}],
    }
    assert without_group_nodes(got, {SELECTOR: "nonsense"}) == got
