"""Tests of lws.leaderworkerset.revisions.shape: stored specs, revisions and statuses, from any writer."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.revisions.shape import is_pod_template, readable_status, recorded_fault, spec_fault
from test.unit.builders import make_pod_template, make_set

STATUS: dict[str, Any] = {
    "collisionCount": 1,
    "conditions": [{"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "currentRevision": "demo-a-1",
    "groups": {"counts": {"Ready": 2}, "unsettled": [{"name": "demo-1", "state": "Missing", "reason": "it"}]},
    "lastProgressTime": "2026-01-01T00:00:00Z",
    "members": {"0": "00000000-11111111"},
    "observedGeneration": 3,
    "replicas": 2,
    "restarts": {"0": "1.1.1.a"},
    "rollout": {"revision": "demo-a-1", "partition": 0},
}


def test_a_valid_stored_spec_has_no_fault() -> None:
    assert spec_fault(make_set(max_unavailable="25%", max_surge=1, podDisruptionBudget={})) == ""
    assert spec_fault({"metadata": {}, "spec": {"leaderWorkerTemplate": {"workerTemplate": {}}}}) == ""


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"replicas": "two"}, "spec.replicas is 'two', not a whole number"),
        ({"replicas": 2_000_000_000}, "spec.replicas is 2000000000, not from 0 to 1000000"),
        ({"progressDeadlineSeconds": 2**40}, "spec.progressDeadlineSeconds is 1099511627776, not from 0 to"),
        ({"leaderWorkerTemplate": None}, "spec.leaderWorkerTemplate is missing"),
        ({"leaderWorkerTemplate": {}}, "spec.leaderWorkerTemplate.workerTemplate is missing"),
        ({"startupPolicy": "Never"}, "spec.startupPolicy is 'Never', not one of LeaderCreated, LeaderReady"),
        ({"rolloutStrategy": []}, "spec.rolloutStrategy is a list, not an object"),
        ({"rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": "many"}}}, "maxSurge: 'many' is"),
        ({"leaderService": {"ports": [{"name": "a"}]}}, "spec.leaderService.ports[0].port is missing"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_spec_accepted_by_another_crd_is_validated(spec: dict[str, Any], fault: str) -> None:
    assert fault in spec_fault(make_set(**spec))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"spread": {"zones": 2}}, "spec.spread", id="of the set"),
        pytest.param(
            {"rolloutStrategy": {"updateOrder": "ScaleFirst"}},
            "spec.rolloutStrategy.updateOrder",
            id="rollout",
        ),
        pytest.param(
            {"template": {"placementPolicy": {"type": "None"}}},
            "spec.leaderWorkerTemplate.placementPolicy",
            id="placement",
        ),
        pytest.param(
            {"template": {"subGroupPolicy": {"subGroupSize": 2, "placementPolicy": {}}}},
            "spec.leaderWorkerTemplate.subGroupPolicy.placementPolicy",
            id="subgroups",
        ),
        pytest.param(
            {"scheduling": {"replica": {"leader": {"priority": 1}}}},
            "spec.scheduling.replica.leader.priority",
            id="scheduling",
        ),
    ],
)
def test_a_field_of_a_later_release_is_a_fault(spec: dict[str, Any], field: str) -> None:
    """The definition of that release accepts the field."""
    assert spec_fault(make_set(**spec)) == f"{field} is unknown to this release"
    in_revision = make_set(**spec)["spec"]["leaderWorkerTemplate"]
    assert recorded_fault({"spec": {"leaderWorkerTemplate": in_revision}}) == "", (
        "groups can be created from it"
    )


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        pytest.param(
            {"groupIdentity": "Name"}, "spec.groupIdentity is 'Name', not one of Ordinal, Hash", id="identity"
        ),
        pytest.param(
            {"groupReplacementPolicy": "Never"},
            "spec.groupReplacementPolicy is 'Never', not one of Immediate, PostTermination",
            id="replacement",
        ),
        pytest.param(
            {"podTerminationPolicy": "LeaderLast"},
            "spec.podTerminationPolicy is 'LeaderLast', not one of Default, Parallel",
            id="termination",
        ),
        pytest.param(
            {"rolloutStrategy": {"type": "OnDelete"}},
            "spec.rolloutStrategy.type is 'OnDelete', not one of RollingUpdate",
            id="rollout",
        ),
        pytest.param(
            {"template": {"subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "Each"}}},
            "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType is 'Each', not one of LeaderWorker, "
            "LeaderExcluded",
            id="subgroups",
        ),
    ],
)
def test_a_value_of_a_later_release_is_a_fault(spec: dict[str, Any], fault: str) -> None:
    assert spec_fault(make_set(**spec)) == fault


def test_pod_templates_may_have_fields_of_a_later_kubernetes() -> None:
    template = make_pod_template()
    template["spec"]["later"] = {"a": 1}
    template["spec"]["containers"][0]["later"] = True
    assert spec_fault(make_set(template={"workerTemplate": template}, later=None)) == ""


def test_a_spec_that_is_too_deep_to_record_is_a_fault() -> None:
    """Otherwise such a spec would be recorded again and again."""
    deep: Any = {}
    for _ in range(80):
        deep = {"a": deep}
    lws = make_set(template={"unknown": deep})
    assert spec_fault(lws) == "spec has more than 64 levels"


def test_data_of_a_revision() -> None:
    template = {"workerTemplate": make_pod_template(), "size": 2, "$patch": "replace"}
    assert recorded_fault({"spec": {"leaderWorkerTemplate": template}}) == ""
    assert recorded_fault({"spec": {"leaderWorkerTemplate": template, "replicas": "not read"}}) == ""
    assert recorded_fault({"x": "\ud800", "spec": {"leaderWorkerTemplate": template}}).startswith(
        "data.x is "
    )
    assert recorded_fault([]) == recorded_fault({"spec": {}}) == "data contains no leaderWorkerTemplate"


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (make_pod_template(), True),
        ({"$patch": "replace", **make_pod_template()}, True),
        (None, False),
        ("text", False),
        ({"metadata": {"labels": []}}, False),
        ({"spec": {"containers": {}}}, False),
    ],
    ids=["template", "with its marker", "null", "text", "labels", "containers"],
)
def test_pod_templates(value: Any, is_one: bool) -> None:
    assert is_pod_template(value) is is_one


def test_a_written_status_is_readable() -> None:
    assert readable_status(STATUS) == STATUS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("collisionCount", "many"),
        ("conditions", "text"),
        ("conditions", [{"status": "True"}]),
        ("conditions", [None]),
        ("currentRevision", 1),
        ("groups", {"counts": {"Ready": "two"}}),
        ("lastProgressTime", True),
        ("members", ["0"]),
        ("members", {"0": 1}),
        ("observedGeneration", {}),
        ("restarts", "text"),
        ("rollout", {"partition": "two"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_unreadable_status_field_becomes_null(field: str, value: Any) -> None:
    assert readable_status({**STATUS, field: value}) == {**STATUS, field: None}


@pytest.mark.parametrize("status", [None, "text", [], 3], ids=str)
def test_an_unreadable_status_becomes_empty(status: Any) -> None:
    assert readable_status(status) == {}


def test_unknown_status_fields_are_kept() -> None:
    assert readable_status({"mine": [None]}) == {"mine": [None]}
