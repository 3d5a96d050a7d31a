"""lws.admission.fields: what rules read from a set, whatever an older CRD or a strange client left in it."""

from __future__ import annotations

from typing import Any

import pytest

from lws.admission.fields import Facts, facts_of, shape_errors

DEFAULTS = Facts(replicas=1, size=1, max_unavailable=1, max_surge=0, partition=0, subgroup=None)


def make_strategy(**fields: Any) -> dict[str, Any]:
    return {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": fields}}}


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"spec": None}, id="null spec"),
        pytest.param({"spec": {}}, id="empty spec"),
        pytest.param({"spec": {"leaderWorkerTemplate": {}, "rolloutStrategy": {}}}, id="empty parts"),
        pytest.param(
            {"spec": {"replicas": None, "leaderWorkerTemplate": {"size": None, "subGroupPolicy": None}}},
            id="nulls",
        ),
        pytest.param(make_strategy(), id="empty configuration"),
        pytest.param(make_strategy(partition=None, maxUnavailable=None, maxSurge=None), id="null budgets"),
        pytest.param({"spec": {"replicas": "3", "leaderWorkerTemplate": {"size": True}}}, id="wrong types"),
        pytest.param({"spec": []}, id="spec of the wrong type"),
    ],
)
def test_missing_fields_have_the_defaults_of_the_api(raw: dict[str, Any]) -> None:
    assert facts_of(raw) == DEFAULTS


def test_given_fields_are_read() -> None:
    raw = {
        "spec": {
            "replicas": 4,
            "leaderWorkerTemplate": {"size": 3, "subGroupPolicy": {"subGroupSize": 2}},
            "rolloutStrategy": {
                "rollingUpdateConfiguration": {"partition": 2, "maxUnavailable": "50%", "maxSurge": 7}
            },
        }
    }
    assert facts_of(raw) == Facts(4, 3, "50%", 7, 2, {"subGroupSize": 2})


@pytest.mark.parametrize(
    ("replicas", "amount", "unavailable", "surge"),
    [
        pytest.param(10, 3, 3, 3, id="number"),
        pytest.param(4, 9, 9, 4, id="surge is capped at the replicas"),
        pytest.param(10, "25%", 2, 3, id="down and up"),
        pytest.param(2, "25%", 0, 1, id="down to nothing"),
        pytest.param(0, "100%", 0, 0, id="of nothing"),
        pytest.param(4, "3", None, None, id="text without percent"),
        pytest.param(4, "x%", None, None, id="no number"),
    ],
)
def test_amounts_in_groups(
    replicas: int, amount: int | str, unavailable: int | None, surge: int | None
) -> None:
    facts = Facts(replicas, size=1, max_unavailable=amount, max_surge=amount, partition=0, subgroup=None)
    assert (facts.unavailable_groups, facts.surge_groups) == (unavailable, surge)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"metadata": "x"}, ['metadata: Invalid value: "x": must be an object'], id="metadata"),
        pytest.param(
            {"metadata": {"annotations": ["a"]}},
            ['metadata.annotations: Invalid value: ["a"]: must be an object'],
            id="annotations",
        ),
        pytest.param({"spec": 1}, ["spec: Invalid value: 1: must be an object"], id="spec"),
        pytest.param(
            {"spec": {"leaderWorkerTemplate": "x", "rolloutStrategy": 1, "networkConfig": []}},
            [
                'spec.leaderWorkerTemplate: Invalid value: "x": must be an object',
                "spec.rolloutStrategy: Invalid value: 1: must be an object",
                "spec.networkConfig: Invalid value: []: must be an object",
            ],
            id="parts of the spec",
        ),
        pytest.param(
            {"spec": {"replicas": "3", "leaderWorkerTemplate": {"size": 1.5}}},
            [
                'spec.replicas: Invalid value: "3": must be an integer',
                "spec.leaderWorkerTemplate.size: Invalid value: 1.5: must be an integer",
            ],
            id="numbers",
        ),
        pytest.param(
            {"spec": {"replicas": True}},
            ["spec.replicas: Invalid value: true: must be an integer"],
            id="bool",
        ),
        pytest.param(
            {"spec": {"leaderWorkerTemplate": {"subGroupPolicy": {"subGroupSize": "2"}}}},
            ['spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize: Invalid value: "2": must be an integer'],
            id="subgroup size",
        ),
        pytest.param(
            make_strategy(partition=[], maxUnavailable=0.5, maxSurge={}),
            [
                "spec.rolloutStrategy.rollingUpdateConfiguration.partition: Invalid value: []: "
                "must be an integer",
                "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable: Invalid value: 0.5: "
                "must be an integer or a percentage",
                "spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge: Invalid value: {}: "
                "must be an integer or a percentage",
            ],
            id="rollout",
        ),
        pytest.param({"metadata": None, "spec": {"replicas": None}}, [], id="nulls are fine"),
        pytest.param({}, [], id="nothing is fine"),
    ],
)
def test_shape_errors(raw: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in shape_errors(raw)] == expected
