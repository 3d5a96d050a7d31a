"""Tests of lws.disaggregatedset.admission.validation: roles, validated as LeaderWorkerSets."""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL
from test.unit.lws.disaggregatedset.admission.builders import (
    EXTERNAL,
    Object,
    beside,
    make_role,
    make_set,
    messages,
    warnings,
)

SPEC = "spec.roles[0].spec"
WORKERS = f"{SPEC}.leaderWorkerTemplate.workerTemplate"
ROLLING = f"{SPEC}.rolloutStrategy.rollingUpdateConfiguration"
MU, MS = f"{ROLLING}.maxUnavailable", f"{ROLLING}.maxSurge"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
SUPPORTED = 'supported values: "RollingUpdate", ""'
PARTITION = (
    "partition is not supported by DisaggregatedSet; rolling updates are managed across roles by the "
    "DisaggregatedSet controller"
)


def strategy(kind: Any = None, **rolling: Any) -> Object:
    return {"rolloutStrategy": {"type": kind, "rollingUpdateConfiguration": rolling}}


OF_THE_ORIGINAL = {
    "1: another strategy": (
        strategy("Recreate"),
        [f'{SPEC}.rolloutStrategy.type: Unsupported value: "Recreate": {SUPPORTED}'],
    ),
    "1: an empty strategy": (strategy(""), []),
    "2: a partition": (strategy(partition=3), [f"{ROLLING}.partition: Forbidden: {PARTITION}"]),
    "2: none": (strategy(partition=0), []),
    "3: a negative budget": (
        strategy(maxUnavailable=-1),
        [f"{MU}: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "3: a negative surge": (
        strategy(maxSurge=-1),
        [f"{MS}: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "3: invalid percentage": (
        strategy(maxUnavailable="many"),
        [f'{MU}: Invalid value: "many": {why}' for why in (PERCENT, "invalid value")],
    ),
    "3: more than all": (
        strategy(maxUnavailable="101%", maxSurge="200%"),
        [
            f'{MU}: Invalid value: "101%": must not be greater than 100%',
            f'{MS}: Invalid value: "200%": must not be greater than 100%',
        ],
    ),
    "4: both 0": (
        strategy(maxUnavailable=0, maxSurge=0),
        [f"{MU}: Invalid value: 0: must not be 0 when `maxSurge` is 0"],
    ),
    "4: a percentage of few": (
        strategy(maxUnavailable="20%") | {"replicas": 4},
        [f'{MU}: Invalid value: "20%": must not be 0 when `maxSurge` is 0'],
    ),
    "4: a percentage of more": (strategy(maxUnavailable="20%") | {"replicas": 5}, []),
}


@pytest.mark.parametrize(("spec", "expected"), OF_THE_ORIGINAL.values(), ids=OF_THE_ORIGINAL.keys())
@pytest.mark.parametrize("mode", [{}, EXTERNAL], ids=["Static", "External"])
def test_rules_of_upstream(spec: Object, expected: list[str], mode: Object) -> None:
    assert messages(make_set(*beside(make_role(**spec) | mode))) == expected


def test_roles_without_groups_need_no_budget() -> None:
    nothing = [make_role(name, replicas=0, **strategy(maxUnavailable=0)) for name in ("a", "b")]
    assert messages(make_set(*nothing)) == []


AS_A_SET = {
    "a group without pods": (
        make_role(size=0),
        f"{SPEC}.leaderWorkerTemplate.size: Invalid value: 0: size must be equal or greater than 1",
    ),
    "too many pods": (
        make_role(size=2**30, replicas=2),
        f"{SPEC}.replicas: Invalid value: 2: the product of replicas and worker replicas must not exceed ",
    ),
    "no containers": (
        make_role(pod={"spec": {"containers": []}}),
        f"{WORKERS}.spec.containers: Required value: must have at least one container",
    ),
    "a subgroup that does not divide": (
        make_role(
            size=6,
            leaderWorkerTemplate={"subGroupPolicy": {"subGroupSize": 4}},
        ),
        f"{SPEC}.leaderWorkerTemplate.subGroupPolicy.subGroupSize: Invalid value: 4: ",
    ),
    "a reserved label": (
        make_role(
            pod={"metadata": {"labels": {GROUP_INDEX_LABEL: "1"}}, "spec": {"containers": [{"name": "c"}]}}
        ),
        f'{WORKERS}.metadata.labels[{GROUP_INDEX_LABEL}]: Invalid value: "1": ',
    ),
    "a topology of the role": (
        make_role()
        | {"metadata": {"annotations": {"leaderworkerset.sigs.k8s.io/exclusive-topology-scope": "World"}}},
        "spec.roles[0].metadata.annotations.leaderworkerset.sigs.k8s.io/exclusive-topology-scope: "
        'Invalid value: "World": must be one of ',
    ),
    "a field of later releases": (
        make_role(scheduling={"schedulingPolicy": {"gang": {"minGroupCount": 2}}}),
        f"{SPEC}.scheduling.schedulingPolicy.gang.minGroupCount: Forbidden: minGroupCount is not supported",
    ),
    "no spec": (
        {"name": "prefill", **EXTERNAL},
        f"{SPEC}: Required value: say what its groups are made of: a leaderWorkerTemplate",
    ),
}


@pytest.mark.parametrize(("role", "beginning"), AS_A_SET.values(), ids=AS_A_SET.keys())
def test_a_role_is_validated_as_its_leaderworkerset(role: Object, beginning: str) -> None:
    """Wart 26."""
    (message,) = messages(make_set(*beside(role)))
    assert message.startswith(beginning)


def test_a_role_causes_the_warnings_of_its_leaderworkerset() -> None:
    container = {"name": "c", "env": [{"name": "LWS_GROUP_SIZE", "value": "1"}]}
    (warning,) = warnings(make_set(*beside(make_role(pod={"spec": {"containers": [container]}}))))
    assert warning.startswith(f"{WORKERS}.spec.containers[0].env: LWS_GROUP_SIZE")


def test_fields_without_effect_in_a_role_cause_warnings() -> None:
    role = make_role(revisionHistoryLimit=3, rolloutStrategy={"paused": True})
    assert warnings(make_set(*beside(role))) == [
        f"{SPEC}.{field}: has no effect in a role: say it in spec.{field} of the DisaggregatedSet"
        for field in ("rolloutStrategy.paused", "revisionHistoryLimit")
    ]
    role = make_role(rolloutStrategy={"prewarm": {}})
    assert warnings(make_set(*beside(role))) == [
        f"{SPEC}.rolloutStrategy.prewarm: has no effect in a role: its rollouts create groups on any nodes, "
        "and replace none in its place: leave it out"
    ]


POOLS = [{"name": "long"}, {"name": "short"}]


@pytest.mark.parametrize(
    ("fields", "is_refused"),
    [
        pytest.param({"subRoles": POOLS}, True, id="pools"),
        pytest.param({"subRoles": []}, False, id="none"),
        pytest.param({}, False, id="absent"),
    ],
)
def test_sub_roles_are_rejected(fields: Object, is_refused: bool) -> None:
    """The definition keeps pools. Otherwise they would be dropped, and the role would run as one pool."""
    detail = (
        "pools within a role are not supported by this release: leave the field out, or make each pool a "
        "role of its own"
    )
    errors = messages(make_set(*beside(make_role() | fields)))
    assert [error.partition(": Forbidden: ") for error in errors] == (
        [("spec.roles[0].subRoles", ": Forbidden: ", detail)] if is_refused else []
    )


def test_other_fields_of_a_stored_set_with_sub_roles_can_be_updated() -> None:
    old, new = (make_set(make_role() | {"subRoles": POOLS}, make_role("decode", replicas=n)) for n in (1, 2))
    assert messages(new, old) == []


@pytest.mark.parametrize("name", ["kueue.x-k8s.io/multikueue", "leaderworkerset.sigs.k8s.io/lws-controller"])
def test_managed_by_is_rejected_in_a_role(name: str) -> None:
    """Other roles would wait for such a role in every rollout, and the field is immutable."""
    role = make_role()
    role["spec"]["managedBy"] = name
    detail = (
        "the LeaderWorkerSets of roles are run by the controller of their DisaggregatedSet: leave the field"
    )
    (error,) = messages(make_set(*beside(role)))
    assert error.startswith(f"spec.roles[0].spec.managedBy: Forbidden: {detail}")


def test_one_role_is_enough() -> None:
    assert messages(make_set(make_role())) == []
