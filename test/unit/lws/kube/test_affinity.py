"""lws.kube.pods: required affinity terms are added to every shape of user-defined affinity."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.pods import (
    PREFERRED,
    REQUIRED,
    has_both_terms,
    term,
    terms_of,
    with_preferred,
    with_terms,
)

ZONE = "topology.kubernetes.io/zone"
OWN = term([{"key": "app", "operator": "Exists"}], ZONE)


@pytest.mark.parametrize("kind", [None, "x", [], {}, {REQUIRED: None}, {REQUIRED: "x"}, {REQUIRED: ["x", 1]}])
def test_invalid_terms_count_as_absent(kind: Any) -> None:
    assert terms_of(kind) == []


def test_terms_are_appended_to_existing_ones() -> None:
    stored = {"preferred": [1], REQUIRED: [OWN]}
    added = term([], "rack")
    assert with_terms(stored, [added]) == {"preferred": [1], REQUIRED: [OWN, added]}
    assert with_terms(None, [added]) == {REQUIRED: [added]}
    assert stored == {"preferred": [1], REQUIRED: [OWN]}


def test_preferred_terms_are_added_with_full_weight() -> None:
    stored = {REQUIRED: [OWN], PREFERRED: [1]}
    added = [{"weight": 100, "podAffinityTerm": OWN}]
    assert with_preferred(stored, [OWN]) == {REQUIRED: [OWN], PREFERRED: [1, *added]}
    assert with_preferred(None, [OWN]) == with_preferred({PREFERRED: None}, [OWN]) == {PREFERRED: added}
    assert stored == {REQUIRED: [OWN], PREFERRED: [1]}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        pytest.param(
            {"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [OWN]}}, True, id="both"
        ),
        pytest.param({"podAffinity": {REQUIRED: [OWN]}}, False, id="one"),
        pytest.param(
            {"podAffinity": {REQUIRED: [OWN]}, "podAntiAffinity": {REQUIRED: [term([], "rack")]}},
            False,
            id="about another topology",
        ),
    ],
)
def test_has_both_terms(affinity: dict[str, Any], expected: bool) -> None:
    assert has_both_terms(affinity, ZONE) is expected
