"""Tests of lws.leaderworkerset.left_alone: sets with fields of later upstream releases are not run.

Fields with values that describe what the controller does anyway are exempt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.kube.conditions import find
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.left_alone import scheduler_seen, why_left_alone, why_unscheduled
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.scheduling import NO_SCHEDULER, Scheduler
from lws.leaderworkerset.snapshot import SetSnapshot
from test.unit.builders import NOW, make_leader_pod, make_set
from test.unit.set_world import judged, settled

LATER: dict[str, dict[str, Any]] = {
    "spec.scheduling": {"scheduling": {}},
}


def stored_with(fields: dict[str, Any]) -> SetSnapshot:
    """Return a settled set with these additional fields."""
    plain = settled(make_set())
    return judged(replace(plain, lws={**plain.lws, "spec": {**plain.lws["spec"], **fields}}))


@pytest.mark.parametrize(("path", "fields"), LATER.items(), ids=LATER.keys())
@pytest.mark.parametrize("runs", [True, False], ids=["a running set", "a new set"])
def test_a_set_with_a_later_field_is_left_alone_and_reported(
    path: str, fields: dict[str, Any], runs: bool
) -> None:
    planned = plan(stored_with(fields) if runs else judged(SetSnapshot(make_set(**fields), NOW)))
    assert planned.sequences == ()
    (status,) = planned.statuses
    assert status.patch.keys() == {"conditions"}
    condition = find(status.patch["conditions"], "ReplicaFailure")
    assert condition is not None and (condition["status"], condition["reason"]) == (
        "True",
        "UnsupportedField",
    )
    assert condition["message"].startswith(f"{path}: ")
    assert "nothing of this set is created, changed or deleted" in condition["message"]
    (event,) = planned.announce
    assert (event.type, event.reason) == ("Warning", "UnsupportedField")


@pytest.mark.parametrize("fields", LATER.values(), ids=LATER.keys())
def test_groups_of_a_set_with_a_later_field_are_left_alone(fields: dict[str, Any]) -> None:
    lws = make_set(**fields)
    leader = make_leader_pod(lws, 0)
    leader["status"] |= {"phase": "Failed"}
    planned = plan_group(judged(GroupSnapshot(lws, leader, NOW)))
    assert (planned.sequences, planned.announce, planned.statuses) == ((), (), ())
    assert "UnsupportedField" not in planned.waiting_for and "spec." in planned.waiting_for


PARENT = {"scheduling.k8s.io/group-template-name": "prefill"}


@pytest.mark.parametrize(
    ("scheduler", "annotations", "reason"),
    [
        pytest.param(NO_SCHEDULER, {}, "the feature gate WorkloadAwareScheduling is off", id="gate off"),
        pytest.param(Scheduler(False, "volcano"), {}, "the feature gate", id="gate off, with a scheduler"),
        pytest.param(Scheduler(True), {}, "no configured gang scheduler serves it", id="no scheduler"),
        pytest.param(Scheduler(True, "scheduler-plugins"), {}, "no configured gang", id="another one"),
        pytest.param(
            Scheduler(True, "volcano"), PARENT, "joining the Workload of a parent", id="of a parent"
        ),
        pytest.param(Scheduler(True, "volcano"), {}, "", id="served"),
    ],
)
def test_reason_of_unsupported_scheduling(
    scheduler: Scheduler, annotations: dict[str, str], reason: str
) -> None:
    lws = make_set(scheduling={}, annotations=annotations)
    unscheduled = why_unscheduled(lws, scheduler)
    assert unscheduled[0].startswith(reason) if unscheduled is not None else not reason
    problem = why_left_alone(lws, is_covered=True, scheduler=scheduler)
    assert (problem.reason if problem else "") == ("UnsupportedField" if reason else "")


def test_commands_read_from_the_status_whether_scheduling_is_served() -> None:
    lws = make_set(scheduling={})
    assert scheduler_seen(lws).is_enabled
    (status,) = plan(judged(SetSnapshot(lws, NOW))).statuses
    assert scheduler_seen({**lws, "status": status.patch}) == NO_SCHEDULER


def test_a_terminating_set_needs_no_writes() -> None:
    lws = make_set(groupIdentity="Hash", terminating=True)
    assert plan(SetSnapshot(lws, NOW)).is_empty


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"groupIdentity": "Ordinal", "groupReplacementPolicy": "PostTermination"},
        {"groupIdentity": "", "groupReplacementPolicy": None, "scheduling": None},
    ],
    ids=["none", "defaults", "empty"],
)
def test_fields_with_the_default_behaviour_are_supported(fields: dict[str, Any]) -> None:
    """Upstream's webhook writes these fields into every set."""
    snapshot = stored_with(fields)
    assert why_unscheduled(snapshot.lws, NO_SCHEDULER) is None
    assert plan(snapshot) == plan(settled(make_set()))
