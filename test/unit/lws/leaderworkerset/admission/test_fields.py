"""Tests of lws.leaderworkerset.admission.templates: values of wrong types, as any client may write them.

Each such value gets an error, and never reaches the rules.
"""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.admission.templates import shape_errors


def make_strategy(**fields: Any) -> dict[str, Any]:
    return {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": fields}}}


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
        pytest.param(
            {"spec": {"progressDeadlineSeconds": "1", "leaderWorkerTemplate": {"maxGroupRestarts": "2"}}},
            [
                'spec.leaderWorkerTemplate.maxGroupRestarts: Invalid value: "2": must be an integer',
                'spec.progressDeadlineSeconds: Invalid value: "1": must be an integer',
            ],
            id="unknown fields in known objects",
        ),
        pytest.param({"metadata": None, "spec": {"replicas": None}}, [], id="null values"),
        pytest.param({}, [], id="empty object"),
    ],
)
def test_shape_errors(raw: dict[str, Any], expected: list[str]) -> None:
    assert [str(error) for error in shape_errors(raw)] == expected
