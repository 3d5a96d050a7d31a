"""lws.disaggregatedset.plan: which parts of a plan are there, and when?"""

from __future__ import annotations

from lws.actions import Create
from lws.disaggregatedset.plan import plan
from lws.disaggregatedset.snapshot import DisaggregatedSnapshot
from lws.kube.refusals import Obstruction
from test.unit.builders import NOW
from test.unit.disaggregated import make_disaggregated


def kinds(snapshot: DisaggregatedSnapshot) -> list[str]:
    """Of what is created."""
    actions = (action for sequence in plan(snapshot).sequences for action in sequence)
    return [action.intent["kind"] for action in actions if isinstance(action, Create)]


def test_nothing_is_made_before_what_is_wanted_is_recorded() -> None:
    obj = make_disaggregated()
    snapshot = DisaggregatedSnapshot(obj, NOW, reread=obj)
    assert kinds(snapshot) == ["ControllerRevision"] and not plan(snapshot).statuses


def test_a_record_that_is_refused_holds_up_everything_and_is_told() -> None:
    obj = make_disaggregated()
    refused = Obstruction("cannot create ControllerRevision demo-1", "exceeded quota")
    snapshot = DisaggregatedSnapshot(obj, NOW, reread=obj, obstructions=(refused,))
    assert kinds(snapshot) == ["ControllerRevision"]
    (status,) = plan(snapshot).statuses
    (problem,) = [each for each in status.patch["conditions"] if each["type"] == "ReplicaFailure"]
    assert (problem["reason"], problem["message"]) == ("QuotaExceeded", refused.message)


def test_a_set_that_goes_or_cannot_be_read_is_left_alone() -> None:
    going = make_disaggregated()
    going["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert plan(DisaggregatedSnapshot(going, NOW)).is_empty
    planned = plan(DisaggregatedSnapshot(make_disaggregated(), NOW, fault="spec.roles is 7, not a list"))
    assert not planned.sequences and "spec.roles is 7" in planned.waiting_for
    (status,) = planned.statuses
    assert status.patch["conditions"][0]["reason"] == "UnreadableSpec"
