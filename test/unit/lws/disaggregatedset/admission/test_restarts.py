"""Tests of lws.disaggregatedset.admission.validation: warnings about groups that an update restarts."""

from __future__ import annotations

from typing import Any

import pytest

from lws.cli.commands.plan import roles_impact, roles_impact_lines
from lws.disaggregatedset.admission.validation import warnings_in
from lws.disaggregatedset.names import Identity, key_of
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from test.unit.builders import NOW
from test.unit.disaggregated import make_disaggregated, make_facts, make_role


def a_set(image: str = "app:1", *, slices: int = 1, names: Any = ("prefill", "decode"), **spec: Any) -> Any:
    roles = [make_role(name, 2, image) for name in names]
    return make_disaggregated(roles=roles, slices=slices, **spec)


def standing(obj: Any, updated: int | None = None, **status: Any) -> Any:
    """Return the set with a status that counts all groups of two roles.

    updated: for each role, the groups on the target revision.
    """
    groups = 2 * obj["spec"]["slices"]
    counts = {"replicas": groups, "readyReplicas": groups, "updatedReplicas": groups}
    counts |= {"updatedReplicas": updated} if updated is not None else {}
    role_statuses = [{"name": name, **counts} for name in ("prefill", "decode")]
    return {**obj, "status": {"roleStatuses": role_statuses, **status}}


IMAGE = "worker template container main image: app:1 → app:2"
BOTH = f"role prefill {IMAGE}; role decode {IMAGE}"
IN_STEP = "by a rollout of all roles in step"
PAUSED = {"rolloutStrategy": {"paused": True}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            standing(a_set()),
            a_set("app:2"),
            f"4 groups (prefill 2, decode 2) restart, {IN_STEP}: {BOTH}",
            id="another image",
        ),
        pytest.param(
            standing(a_set(slices=3)),
            a_set("app:2", slices=2),
            f"8 groups (prefill 4, decode 4) restart, {IN_STEP}: {BOTH}",
            id="removed slices do not restart",
        ),
        pytest.param(
            standing(a_set()),
            a_set("app:2", **PAUSED),
            f"4 groups (prefill 2, decode 2) restart once the rollout is resumed: {BOTH}",
            id="paused",
        ),
        pytest.param(
            standing(a_set(**PAUSED), updated=1),
            a_set(),
            f"2 groups (prefill 1, decode 1) restart, {IN_STEP}: the rollout is resumed",
            id="resumed",
        ),
        pytest.param(
            standing(a_set(), currentRevision="demo-a-1", updateRevision="demo-b-2"),
            a_set("app:2"),
            f"4 groups (prefill 2, decode 2) restart, {IN_STEP}, unless they have these templates already: "
            f"{BOTH}",
            id="in a rollout",
        ),
        pytest.param(
            standing(a_set()),
            a_set(names=("prefill", "router")),
            f"2 groups (prefill 2) restart, {IN_STEP}: role decode removed; role router added",
            id="a role is replaced by another",
        ),
        pytest.param(
            standing(a_set(names=("prefill", "decode", "a", "b"))),
            a_set("app:2", names=("prefill", "decode", "a", "b")),
            f"4 groups (prefill 2, decode 2) restart, {IN_STEP}: {BOTH}; role a {IMAGE}; and 1 more",
            id="many changes",
        ),
    ],
)
def test_a_warning_lists_the_restarts(before: Any, after: Any, expected: str) -> None:
    assert warnings_in(after, before) == [expected]


@pytest.mark.parametrize("path", [(), ("roles", 0), ("roles", 0, "spec")])
def test_removing_an_unknown_field_causes_the_warning_too(path: tuple[str | int, ...]) -> None:
    """The set was left alone until then, so its changed templates start a rollout now."""
    before = standing(a_set())
    struct = before["spec"]
    for key in path:
        struct = struct[key]
    struct["later"] = 1
    (warning,) = warnings_in(a_set("app:2"), before)
    assert warning.startswith(f"4 groups (prefill 2, decode 2) restart, {IN_STEP}: ")


def spelled(obj: Any) -> Any:
    """Return an equivalent set with a default written out and the roles in another order."""
    roles = [
        {**role, "spec": {**role["spec"], "startupPolicy": "LeaderCreated"}} for role in obj["spec"]["roles"]
    ]
    return {**obj, "spec": {**obj["spec"], "roles": roles[::-1]}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(standing(a_set()), spelled(a_set()), id="another spelling"),
        pytest.param(standing(a_set()), a_set(slices=2), id="more slices"),
        pytest.param(standing(a_set()), a_set(**PAUSED), id="paused at rest"),
        pytest.param(standing(a_set(**PAUSED)), a_set(), id="resumed at rest"),
        pytest.param(a_set(), a_set("app:2"), id="nothing runs"),
        pytest.param({**a_set(), "status": {"roleStatuses": 7}}, a_set("app:2"), id="unreadable status"),
        pytest.param(
            {**a_set(), "status": {"roleStatuses": [{"name": ["prefill"], "replicas": 2}]}},
            a_set("app:2"),
            id="no names of roles in the status",
        ),
        pytest.param(None, a_set(), id="a new set"),
    ],
)
def test_there_is_no_warning_without_restarts(before: Any, after: Any) -> None:
    assert warnings_in(after, before) == []


def test_lws_plan_reports_the_same_text() -> None:
    before, after = a_set(), a_set("app:2")
    key = key_of(record(before).roles)
    children = tuple(make_facts(before, Identity(0, key, role), 2) for role in ("prefill", "decode"))
    verdict, *_ = roles_impact_lines(roles_impact(DisaggregatedSnapshot(before, NOW, children), after))
    (warning,) = warnings_in(after, standing(before))
    assert warning.startswith(f"{verdict.text}: ")
