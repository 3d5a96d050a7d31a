"""Tests of lws.disaggregatedset.revisions.record: undo to a revision, and diff."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.disaggregatedset.revisions.record import describe, record
from lws.disaggregatedset.revisions.record import undo_operations as operations
from test.unit.lws.disaggregatedset.revisions.histories import key_by_hash, make_dset, make_role

A = make_dset(make_role("prefill", image="a"), make_role("decode", image="a"))
B = make_dset(make_role("prefill", image="b", replicas=5), make_role("decode", image="a", replicas=3))
ROUTER = {**make_role("router", replicas=4), "metadata": {"labels": {"x": "y"}}, "startAfter": ["decode"]}
THREE = make_dset(*A["spec"]["roles"], ROUTER)
HASHED = make_dset(make_role("prefill", image="a", groupIdentity="Hash"), make_role("decode", image="a"))
TURNED = make_dset(*reversed(B["spec"]["roles"]))


def undone(obj: dict[str, Any], target: dict[str, Any], **counts: int) -> dict[str, Any]:
    """Return the set after the undo."""
    result = copy.deepcopy(obj)
    test, *edits = operations(obj, record(target), counts)
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    for edit in edits:
        *parents, last = edit["path"].split("/")[1:]
        parent: Any = result
        for step in parents:
            parent = parent[int(step) if isinstance(parent, list) else step]
        assert edit["op"] == "add" or last in parent, "a replacement needs something to replace"
        parent[last] = edit["value"]
    return result


def role_of(obj: dict[str, Any], name: str) -> dict[str, Any]:
    role: dict[str, Any] = next(candidate for candidate in obj["spec"]["roles"] if candidate["name"] == name)
    return role


@pytest.mark.parametrize("now", [A, B, THREE, HASHED, TURNED])
@pytest.mark.parametrize("then", [A, B, THREE, HASHED, TURNED])
def test_the_result_is_the_recorded_state(now: dict[str, Any], then: dict[str, Any]) -> None:
    after = undone(now, then)
    assert record(after).forms == record(then).forms
    assert key_by_hash(after) == key_by_hash(then), "so upstream would start no rollout either"


def test_only_changed_templates_are_written() -> None:
    _, only = operations(B, record(A), {})
    assert only["path"] == "/spec/roles/0/spec/leaderWorkerTemplate"
    after = undone(B, A)
    assert [role["spec"]["replicas"] for role in after["spec"]["roles"]] == [5, 3], (
        "scaling creates no revision"
    )


def test_fields_outside_the_revision_are_not_changed() -> None:
    now = copy.deepcopy(B)
    for role in now["spec"]["roles"]:
        role["spec"]["leaderWorkerTemplate"] |= {"restartPolicy": "None", "maxGroupRestarts": 3}
        role["spec"]["rolloutStrategy"] = {"type": "RollingUpdate"}
    template = role_of(undone(now, A), "prefill")["spec"]["leaderWorkerTemplate"]
    assert (template["restartPolicy"], template["maxGroupRestarts"]) == ("None", 3)
    assert "rolloutStrategy" in role_of(undone(now, A), "prefill")["spec"]


def test_a_removed_role_is_restored_completely() -> None:
    assert role_of(undone(B, THREE, router=4), "router") == ROUTER
    assert role_of(undone(B, THREE), "router")["spec"]["replicas"] == 1
    resting = make_dset(*(make_role(name, replicas=0) for name in ("prefill", "decode")))
    assert role_of(undone(resting, THREE, router=4), "router")["spec"]["replicas"] == 0, (
        "all roles are at 0 or none is"
    )


def test_a_role_with_a_scaler_is_restored_without_replicas() -> None:
    then = make_dset(*A["spec"]["roles"], {**ROUTER, "scaling": {"mode": "External"}})
    role = role_of(undone(B, then, router=4), "router")
    assert role["scaling"] == {"mode": "External"}
    assert "replicas" not in role["spec"]


def test_an_added_role_is_removed_from_the_start_order_too() -> None:
    now = copy.deepcopy(THREE)
    now["spec"]["roles"][0]["startAfter"] = ["router", "decode"]
    after = undone(now, A)
    assert [role["name"] for role in after["spec"]["roles"]] == ["prefill", "decode"]
    assert after["spec"]["roles"][0]["startAfter"] == ["decode"]


def test_differences_are_reported_for_each_role() -> None:
    assert describe(record(A), record(A)) == []
    assert describe(record(B), record(TURNED)) == [], "another order of roles is no change"
    assert describe(record(A), record(B)) == ["role prefill worker template container main image: a → b"]
    assert describe(record(A), record(THREE)) == ["role router added"]
    assert describe(record(THREE), record(B)) == [
        "role router removed",
        "role prefill worker template container main image: a → b",
    ]
    larger = make_dset(make_role("prefill", image="a"), make_role("decode", image="a"))
    larger["spec"]["roles"][1]["spec"]["leaderWorkerTemplate"]["size"] = 4
    assert describe(record(A), record(larger)) == ["role decode size: 2 → 4"]
