"""Tests of how the spec of a DisaggregatedSet is read."""

from __future__ import annotations

from typing import Any

import pytest

from lws.disaggregatedset.spec import (
    DisaggregatedSpec,
    Role,
    SlicePlacement,
    fault_of,
    parse,
    placement_of,
)
from lws_api.disaggregatedset.v1 import PlacementStrength, PlacementType

TEMPLATE = {"workerTemplate": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}}
SPEC = {"leaderWorkerTemplate": TEMPLATE}


def make(*roles: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"roles": list(roles) or [role("prefill"), role("decode")], **spec}}


def role(name: str = "prefill", spec: Any = SPEC, **fields: Any) -> dict[str, Any]:
    return {"name": name, "spec": spec, **fields}


def test_defaults_of_the_api() -> None:
    nulls = {
        "slices": None,
        "placementPolicy": None,
        "rolloutStrategy": None,
        "revisionHistoryLimit": None,
        "progressDeadlineSeconds": None,
    }
    expected = DisaggregatedSpec((Role("prefill", SPEC), Role("decode", SPEC)))
    assert parse(make()) == parse(make(**nulls)) == expected
    assert (expected.slices, expected.history_limit, expected.placement) == (1, 10, None)
    assert fault_of(make()) == fault_of(make(**nulls)) == ""


def test_all_fields_are_read() -> None:
    rolling = {"maxSurge": "50%", "maxUnavailable": 0}
    strategy = {"rollingUpdateConfiguration": rolling}
    external = role(
        spec={**SPEC, "replicas": 3, "rolloutStrategy": strategy},
        scaling={"mode": "External"},
        metadata={"labels": {"a": "b"}},
        startAfter=["decode"],
    )
    obj = make(
        external,
        role("decode", {**SPEC, "replicas": 0}, scaling={"mode": "Static"}),
        slices=3,
        placementPolicy={"type": "ExclusiveSlice", "topology": "zone", "strength": "Preferred"},
        rolloutStrategy={"paused": True, "maxUpdatingSlices": 2},
        revisionHistoryLimit=0,
        progressDeadlineSeconds=600,
    )
    assert fault_of(obj) == ""
    parsed = parse(obj)
    first, second = parsed.roles
    assert (first.is_external, first.replicas, first.rolling) == (True, 3, rolling)
    assert (first.metadata, first.start_after) == ({"labels": {"a": "b"}}, ("decode",))
    assert (second.is_external, second.replicas, second.rolling) == (False, 0, None)
    assert parsed.role("decode") == second
    assert parsed.role("router") is None
    assert (parsed.slices, parsed.paused, parsed.max_updating_slices) == (3, True, 2)
    assert (parsed.history_limit, parsed.progress_deadline) == (0, 600)
    assert parsed.placement == SlicePlacement(
        PlacementType.EXCLUSIVE_SLICE, "zone", PlacementStrength.PREFERRED
    )


def test_an_empty_budget_differs_from_an_absent_one() -> None:
    spec = {**SPEC, "rolloutStrategy": {"rollingUpdateConfiguration": {}}}
    assert parse(make(role(spec=spec))).roles[0].rolling == {}


@pytest.mark.parametrize(
    "policy",
    [None, {}, {"type": "None", "topology": "zone"}, {"topology": "zone"}, {"type": "ExclusiveSlice"}],
)
def test_a_placement_without_effect_is_ignored(policy: dict[str, Any] | None) -> None:
    assert placement_of(policy) is None


@pytest.mark.parametrize(
    ("obj", "fault"),
    [
        pytest.param(None, "spec.roles is missing", id="nothing"),
        pytest.param({"spec": []}, "spec.roles is missing", id="an empty list"),
        pytest.param({"spec": 7}, "spec is 7, not an object", id="a number"),
        pytest.param(make({"name": "a"}), "spec.roles[0].spec is missing", id="role without spec"),
        pytest.param({"spec": {"roles": []}}, "spec.roles is empty", id="no roles"),
        pytest.param(make(role("A")), "spec.roles[0].name is 'A', not a name", id="name"),
        pytest.param(make(role("")), "spec.roles[0].name is '', not a name", id="empty name"),
        pytest.param(make(role("a" * 64)), f"spec.roles[0].name is '{'a' * 63}', not a name", id="long"),
        pytest.param(
            make(role("a"), role("a")), "spec.roles[1].name is 'a', as that of another role", id="twice"
        ),
        pytest.param(
            make(role(scaling={"mode": "Magic"})),
            "spec.roles[0].scaling.mode is 'Magic', not one of Static, External",
            id="mode",
        ),
        pytest.param(
            make(role(spec={})), "spec.roles[0].spec.leaderWorkerTemplate is missing", id="no template"
        ),
        pytest.param(
            make(role(spec={**SPEC, "replicas": -1})),
            "spec.roles[0].spec.replicas is -1, not from 0 to 1000000",
            id="replicas",
        ),
        pytest.param(make(role(metadata={"labels": 1})), None, id="labels"),
        pytest.param(make(role(startAfter="decode")), None, id="start after"),
        pytest.param(
            make(role(subRoles=[{"name": "long"}])),
            "spec.roles[0].subRoles is set: pools within a role are not supported by this release",
            id="pools",
        ),
        pytest.param(
            make({**role(), "spec": {**role()["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}),
            "spec.roles[0].spec.managedBy is set: the LeaderWorkerSets of roles are run by the controller of "
            "their DisaggregatedSet",
            id="another controller",
        ),
        pytest.param(make(later=1), "spec.later is unknown to this release", id="a field of a later release"),
        pytest.param(
            make(rolloutStrategy={"order": "ScaleFirst"}),
            "spec.rolloutStrategy.order is unknown to this release",
            id="a rollout of a later release",
        ),
        pytest.param(
            make(role(later=1)), "spec.roles[0].later is unknown to this release", id="a later role"
        ),
        pytest.param(make(slices=0), "spec.slices is 0, not from 1 to 100", id="no slices"),
        pytest.param(make(slices=101), "spec.slices is 101, not from 1 to 100", id="slices"),
        pytest.param(make(slices=True), "spec.slices is true, not a whole number", id="true"),
        pytest.param(make(revisionHistoryLimit=-1), None, id="history"),
        pytest.param(make(rolloutStrategy={"maxUpdatingSlices": 0}), None, id="updating slices"),
        pytest.param(
            make(placementPolicy={"type": "Magic"}),
            "spec.placementPolicy.type is 'Magic', not one of None, ExclusiveSlice, ExclusiveTopology",
            id="placement",
        ),
        pytest.param(make(placementPolicy={"strength": "Weak"}), None, id="strength"),
    ],
)
def test_an_unreadable_field_is_a_fault(obj: Any, fault: str | None) -> None:
    assert fault_of(obj) == fault if fault is not None else fault_of(obj)


@pytest.mark.parametrize("value", ["2", "-50%", "a%", "", True, 1.5, [], {}])
@pytest.mark.parametrize("field", ["maxSurge", "maxUnavailable"])
def test_a_budget_that_is_no_number_of_groups_is_a_fault(field: str, value: Any) -> None:
    strategy = {"rollingUpdateConfiguration": {field: value}}
    assert field in fault_of(make(role(spec={**SPEC, "rolloutStrategy": strategy})))


@pytest.mark.parametrize("configuration", ["", 3, [], True])
def test_a_budget_that_is_no_object_is_a_fault(configuration: Any) -> None:
    strategy = {"rollingUpdateConfiguration": configuration}
    assert "rollingUpdateConfiguration" in fault_of(make(role(spec={**SPEC, "rolloutStrategy": strategy})))


def test_a_recorded_spec_may_have_fields_of_a_later_release() -> None:
    """Roles can be created from such a revision."""
    recorded = role(later=1)
    obj = make({**recorded, "spec": {**recorded["spec"], "later": 1}}, later=1)
    assert fault_of(obj, is_recorded=True) == ""


def test_malformed_input_never_raises() -> None:
    garbage: list[Any] = [None, 0, 1, -1, 1.5, True, "", "x", [], [None], {}, {"a": None}, [[]], [{}]]
    for value in garbage:
        fault_of(value)
        for field in ("roles", "slices", "placementPolicy", "rolloutStrategy", "progressDeadlineSeconds"):
            fault_of({"spec": {**make()["spec"], field: value}})
        for field in ("name", "spec", "metadata", "scaling", "startAfter", "subRoles"):
            fault_of(make({**role(), field: value}))
        for field in ("type", "topology", "strength"):
            fault_of(make(placementPolicy={field: value}))
