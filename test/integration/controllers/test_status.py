"""The status reports a problem for as long as it exists, and records facts that no other object shows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from lws.leaderworkerset.group_records import Members
from test.harness.events import wait_for_events
from test.harness.groups import (
    condition,
    is_leader,
    name_of,
    pods_of,
    settle,
    uids_of_group,
)
from test.harness.manifests import a_set, new_image, pod_template
from test.harness.never_ready import hold_unready, never_ready, ready_again, running_unready
from test.harness.refusal import MESSAGE as REFUSAL
from test.harness.refusal import deletions_refused
from test.harness.waiting import eventually
from test.harness.world import SET, World


def status_of(world: World, name: str) -> dict[str, Any]:
    return dict(world.get(SET, name).get("status") or {})


def failure(world: World, name: str, reason: str) -> str:
    """Wait until ReplicaFailure has this reason, and return its message."""
    reported = eventually(
        f"{name} reports {reason}",
        lambda: condition(world.get(SET, name), "ReplicaFailure"),
        lambda reported: (reported.get("status"), reported.get("reason")) == ("True", reason),
    )
    return str(reported["message"])


def test_a_set_without_progress_is_stalled_and_reported_once(world: World) -> None:
    world.create(a_set("stuck", replicas=2, workers=running_unready()))

    def counts() -> dict[str, int]:
        return dict(status_of(world, "stuck").get("groups", {}).get("counts", {}))

    hold_unready(world, "stuck", 4)
    eventually("the status counts both groups", counts, lambda now: now == {"NotReady": 2})
    # Set only now, because the steps above take an unknown time.
    world.patch(SET, "stuck", {"spec": {"progressDeadlineSeconds": 4}})

    stalled = eventually(
        "the set is stalled",
        lambda: condition(world.get(SET, "stuck"), "Stalled"),
        lambda now: now.get("status") == "True",
    )
    assert stalled["reason"] == "ProgressDeadlineExceeded"
    assert "group 0: " in stalled["message"]
    groups = status_of(world, "stuck")["groups"]
    assert groups["counts"] == {"NotReady": 2}
    assert [group["name"] for group in groups["unsettled"]] == ["stuck-0", "stuck-1"]

    world.patch(SET, "stuck", {"spec": {"leaderWorkerTemplate": {"workerTemplate": ready_again({})}}})
    settle(world, "stuck")
    assert condition(world.get(SET, "stuck"), "Stalled")["status"] == "False"
    assert status_of(world, "stuck")["groups"] == {"counts": {"Ready": 2}}
    events = wait_for_events(world, "stuck", "Stalled")
    assert [(event.type, event.note) for event in events] == [("Warning", stalled["message"])]


@pytest.mark.our_simulation
def test_a_set_is_not_stalled_without_a_deadline_or_while_its_pods_are_gated(world: World) -> None:
    """The pods of the set without a deadline get a node and stay unready there."""
    gated = never_ready(schedulingGates=[{"name": "example.com/quota"}])
    never = never_ready()
    world.create(a_set("free", replicas=1, workers=never))
    world.create(a_set("gated", replicas=1, workers=gated, progressDeadlineSeconds=2))
    world.create(a_set("measure", replicas=1, workers=never, progressDeadlineSeconds=4))

    def stall_of(name: str) -> str:
        return str(condition(world.get(SET, name), "Stalled").get("status", ""))

    eventually("both pods exist", lambda: len(pods_of(world, "gated")), lambda count: count == 2)
    eventually("the set with a deadline is stalled", lambda: stall_of("measure"), "True".__eq__)
    assert (stall_of("free"), stall_of("gated")) == ("", "")

    for pod in pods_of(world, "gated"):
        world.patch("Pod", name_of(pod), {"spec": {"schedulingGates": None}})
    eventually("the set is stalled after its pods have nodes", lambda: stall_of("gated"), "True".__eq__)
    placed = max(condition(pod, "PodScheduled")["lastTransitionTime"] for pod in pods_of(world, "gated"))
    stalled_at = condition(world.get(SET, "gated"), "Stalled")["lastTransitionTime"]
    waited = datetime.fromisoformat(stalled_at) - datetime.fromisoformat(placed)
    assert waited >= timedelta(seconds=1), "the deadline is two seconds, and times are in whole seconds"

    world.patch(SET, "measure", {"spec": {"progressDeadlineSeconds": None}})
    eventually("the condition is removed with the deadline", lambda: stall_of("measure"), "".__eq__)


def test_the_members_of_complete_groups_are_recorded(world: World) -> None:
    world.create(a_set("kept", replicas=2, size=3))
    settle(world, "kept")
    before = members(world, "kept")
    eventually("the members are recorded", lambda: status_of(world, "kept").get("members"), before.__eq__)

    old = uids_of_group(world, "kept", 1)
    world.delete("Pod", "kept-1-2")
    eventually(
        "the group is recreated",
        lambda: uids_of_group(world, "kept", 1),
        lambda now: len(now) == 3 and not set(now.values()) & set(old.values()),
    )
    settle(world, "kept")
    after = members(world, "kept")
    eventually("the new members are recorded", lambda: status_of(world, "kept").get("members"), after.__eq__)
    assert (after["0"], after["1"] != before["1"]) == (before["0"], True)


def members(world: World, name: str) -> dict[str, str]:
    """Return the members as the status should record them."""
    pods = pods_of(world, name)
    leaders = {name_of(pod): pod["metadata"]["uid"] for pod in pods if is_leader(pod)}
    return {
        leader.rpartition("-")[2]: str(
            Members.of(
                uid,
                (
                    pod["metadata"]["uid"]
                    for pod in pods
                    if not is_leader(pod) and name_of(pod).startswith(f"{leader}-")
                ),
            )
        )
        for leader, uid in leaders.items()
    }


def test_an_emptied_restored_or_edited_status_is_repaired_at_once(world: World) -> None:
    """A user may do this with `kubectl patch --subresource=status`, or with a tool that restores a backup."""
    world.create(a_set("told", replicas=1))
    early = eventually("the first status is written", lambda: status_of(world, "told"))
    settle(world, "told")
    expected = recomputed_status(world, "told")
    assert expected["hpaPodSelector"]
    foreign = {**condition(world.get(SET, "told"), "Available"), "type": "example.com/Checked"}
    emptied = dict.fromkeys([*expected, "members", "lastProgressTime"])
    for edit in (None, emptied, emptied | early, {"hpaPodSelector": "a=b", "conditions": [foreign]}):
        patch = json.dumps({"status": edit})
        world.kubectl("patch", "lws", "told", "--subresource=status", "--type=merge", "-p", patch)
        eventually(
            f"the status is repaired after {patch}", lambda: recomputed_status(world, "told"), expected.__eq__
        )
    assert condition(world.get(SET, "told"), "example.com/Checked")["status"] == "True"


def recomputed_status(world: World, name: str) -> dict[str, Any]:
    """Return the part of the status that a pass recomputes.

    It has no records, no times, and only our true conditions.
    """
    status = status_of(world, name)
    true = {entry["type"] for entry in status.get("conditions", ()) if entry["status"] == "True"}
    recomputed = {
        field: value for field, value in status.items() if field not in ("lastProgressTime", "members")
    }
    return {**recomputed, "conditions": true - {"example.com/Checked"}}


def test_an_exceeded_quota_is_reported(world: World) -> None:
    world.kubectl("create", "quota", "few", "--hard=pods=2")
    world.create(a_set("many", replicas=2))
    assert "exceeded quota: few" in failure(world, "many", "QuotaExceeded")
    assert wait_for_events(world, "many", "QuotaExceeded")[0].type == "Warning"

    world.kubectl("delete", "quota", "few")
    settle(world, "many")
    eventually("the condition is cleared", lambda: not condition(world.get(SET, "many"), "ReplicaFailure"))


def test_rejected_writes_are_reported(world: World) -> None:
    world.kubectl("create", "quota", "one", "--hard=count/statefulsets.apps=1")
    world.create(a_set("led", replicas=1))
    message = failure(world, "led", "QuotaExceeded")
    assert message.startswith("cannot create StatefulSet led-0: ")
    assert "exceeded quota: one" in message

    world.kubectl("delete", "quota", "one")
    settle(world, "led")
    eventually("the condition is cleared", lambda: not condition(world.get(SET, "led"), "ReplicaFailure"))


def test_a_missing_service_account_is_reported(world: World) -> None:
    world.create(a_set("alone", replicas=1, workers=pod_template(serviceAccountName="nobody")))
    assert 'serviceaccount "nobody" not found' in failure(world, "alone", "ServiceAccountMissing")

    world.kubectl("create", "serviceaccount", "nobody")
    settle(world, "alone")
    eventually("the condition is cleared", lambda: not condition(world.get(SET, "alone"), "ReplicaFailure"))


def test_rejected_deletions_are_reported_and_the_rollout_continues_afterwards(world: World) -> None:
    world.create(a_set("frozen"))
    settle(world, "frozen")
    before = uids_of_group(world, "frozen", 1)

    with deletions_refused(world, "frozen-1"):
        world.patch(SET, "frozen", new_image("server:2"))
        message = failure(world, "frozen", "AdmissionDenied")
        assert message.startswith("cannot delete Pod frozen-1: ") and REFUSAL in message
        reasons = eventually(
            "the groups report what blocks them",
            lambda: [
                group["reason"] for group in status_of(world, "frozen").get("groups", {}).get("unsettled", ())
            ],
        )
        held_up = "the API server rejects the next step: cannot delete Pod frozen-1"
        assert reasons == [f"the rollout is blocked, {held_up}"] * 2
        assert uids_of_group(world, "frozen", 1) == before
    settle(world, "frozen", updated=2)

    eventually(
        "the condition is cleared",
        lambda: condition(world.get(SET, "frozen"), "ReplicaFailure").get("status") != "True",
    )
    (event,) = wait_for_events(world, "frozen", "AdmissionDenied")
    assert (event.type, event.action) == ("Warning", "Delete") and REFUSAL in event.note
