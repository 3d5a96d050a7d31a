"""Tests of lws.disaggregatedset.admission.validation: placements that the scheduler may not satisfy."""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import (
    EXCLUSIVE_TOPOLOGY_ANNOTATION,
    SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION,
)
from test.unit.lws.disaggregatedset.admission.builders import (
    Object,
    beside,
    make_role,
    make_set,
    messages,
    warnings,
)

ZONE = "topology.kubernetes.io/zone"
POD: Object = {"spec": {"containers": [{"name": "c"}]}}


def placed(*roles: Object, **policy: Any) -> Object:
    return make_set(*(roles or beside(make_role())), placementPolicy=policy)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, []),
        ({"type": "None"}, []),
        ({"type": "ExclusiveSlice", "topology": ZONE}, []),
        *(
            (
                policy,
                ["spec.placementPolicy.topology: Required value: topology is required when type is not None"],
            )
            for policy in ({"type": "ExclusiveSlice"}, {"type": "ExclusiveTopology", "topology": ""})
        ),
    ],
)
def test_a_topology_is_required(policy: Object, expected: list[str]) -> None:
    """Rule 9."""
    assert messages(placed(**policy)) == expected


def test_an_invalid_topology_key_is_rejected() -> None:
    (message,) = messages(placed(type="ExclusiveSlice", topology="a b"))
    assert message.startswith(
        'spec.placementPolicy.topology: Invalid value: "a b": name part must consist of'
    )


GROUP, SUBGROUP = EXCLUSIVE_TOPOLOGY_ANNOTATION, SUBGROUP_EXCLUSIVE_TOPOLOGY_ANNOTATION


def annotated(*keys: str) -> Object:
    return {"metadata": {"annotations": dict.fromkeys(keys, "")}}


@pytest.mark.parametrize(
    ("role", "key"),
    [
        (make_role() | annotated(SUBGROUP, GROUP), GROUP),
        (make_role(pod=POD | annotated(SUBGROUP)), SUBGROUP),
        (make_role(leaderWorkerTemplate={"leaderTemplate": POD | annotated(GROUP)}), GROUP),
        (make_role() | annotated("other"), ""),
    ],
)
@pytest.mark.parametrize("kind", ["ExclusiveSlice", "ExclusiveTopology"])
def test_placement_policy_excludes_exclusive_topology(role: Object, key: str, kind: str) -> None:
    """Rule 10."""
    expected = (
        f'spec.roles[0]: Forbidden: the "{key}" annotation must not be combined with a non-None '
        f"spec.placementPolicy.type ({kind})"
    )
    errors = messages(placed(*beside(role), type=kind, topology=ZONE))
    assert [error for error in errors if "Forbidden" in error] == ([expected] if key else [])
    assert not [error for error in messages(placed(*beside(role), type="None")) if "Forbidden" in error]


def test_surge_without_room_causes_a_warning() -> None:
    """Wart 23."""
    roles = beside(make_role(max_surge=1))
    (warning,) = warnings(placed(*roles, type="ExclusiveSlice", topology=ZONE))
    assert warning.startswith(
        "spec.roles[0].spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge: 1 with placementPolicy.type "
        f"ExclusiveSlice: during updates groups on top run in the same {ZONE} as their slice"
    )
    assert warnings(placed(*roles, type="ExclusiveSlice", topology=ZONE, strength="Preferred")) == []
    assert warnings(placed(*roles, type="None", topology=ZONE)) == []
