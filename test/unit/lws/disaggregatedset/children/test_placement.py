"""Tests of the affinity terms that `placementPolicy` adds to pods."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.children.role_sets import placed
from lws.disaggregatedset.spec import SlicePlacement
from lws.kube.pods import PREFERRED, REQUIRED
from lws_api.disaggregatedset.v1 import PlacementStrength, PlacementType

NAME, SLICE = "disaggregatedset.x-k8s.io/name", "disaggregatedset.x-k8s.io/slice"
SLICES = SlicePlacement(PlacementType.EXCLUSIVE_SLICE, "zone")
TOPOLOGY = SlicePlacement(PlacementType.EXCLUSIVE_TOPOLOGY, "zone")

OWN = {"key": NAME, "operator": "In", "values": ["llm"]}
STRANGERS = [
    {"key": NAME, "operator": "Exists"},
    {"key": NAME, "operator": "NotIn", "values": ["llm"]},
    {"key": SLICE, "operator": "Exists"},
]


def term(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": list(expressions)}, "topologyKey": "zone"}


def slices(operator: str, index: int) -> dict[str, Any]:
    return {"key": SLICE, "operator": operator, "values": [str(index)]}


FIRST = term(OWN, {"key": SLICE, "operator": "Exists"}, slices("NotIn", 0))
THIRD = term(OWN, slices("NotIn", 2))


@pytest.mark.parametrize(
    ("placement", "index", "apart"),
    [
        pytest.param(SLICES, 0, [FIRST], id="the first slice"),
        pytest.param(SLICES, 2, [THIRD], id="another slice"),
        pytest.param(TOPOLOGY, 0, [FIRST, term(*STRANGERS)], id="the first slice, exclusive"),
        pytest.param(TOPOLOGY, 2, [THIRD, term(*STRANGERS)], id="another slice, exclusive"),
    ],
)
def test_the_affinity_terms_match_upstream(
    placement: SlicePlacement, index: int, apart: list[dict[str, Any]]
) -> None:
    assert placed(None, placement, "llm", index) == {
        "podAffinity": {REQUIRED: [term(OWN, slices("In", index))]},
        "podAntiAffinity": {REQUIRED: apart},
    }


def test_affinity_terms_of_users_are_kept_in_front() -> None:
    own = {"topologyKey": "rack"}
    affinity_of_user = {
        "nodeAffinity": {},
        "podAffinity": {REQUIRED: [own], PREFERRED: [1]},
        "podAntiAffinity": None,
    }
    affinity = placed(affinity_of_user, SLICES, "llm", 2)
    assert affinity["nodeAffinity"] == {}
    assert affinity["podAffinity"] == {REQUIRED: [own, term(OWN, slices("In", 2))], PREFERRED: [1]}
    assert affinity["podAntiAffinity"] == {REQUIRED: [THIRD]}
    assert affinity_of_user["podAffinity"] == {REQUIRED: [own], PREFERRED: [1]}


def test_preferred_terms_have_full_weight() -> None:
    preferred = SlicePlacement(PlacementType.EXCLUSIVE_TOPOLOGY, "zone", PlacementStrength.PREFERRED)
    weighted = [
        {"weight": 100, "podAffinityTerm": affinity_term} for affinity_term in (THIRD, term(*STRANGERS))
    ]
    affinity = placed({"podAntiAffinity": {REQUIRED: [1], PREFERRED: [2]}}, preferred, "llm", 2)
    assert affinity["podAntiAffinity"] == {REQUIRED: [1], PREFERRED: [2, *weighted]}
    assert affinity["podAffinity"] == {
        PREFERRED: [{"weight": 100, "podAffinityTerm": term(OWN, slices("In", 2))}]
    }
