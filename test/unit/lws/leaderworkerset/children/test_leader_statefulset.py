"""Tests of what is written before the leader StatefulSet gets the next position of a rollout.

Which leaders are replaced and how the partition is chosen have tests of their own. Ownership belongs to the
tests of the whole pass.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lws.kube.statefulsets import desired_replicas, partition_of
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import GroupFacts, SetSnapshot
from lws.runtime.actions import Apply, Delete, Merge, Plan, Tally
from lws_api.leaderworkerset.v1 import REPLICAS_ANNOTATION, REVISION_LABEL
from test.unit.builders import make_group, make_pod_template, make_set
from test.unit.set_world import actions_of, carried_out, settled, with_reported, with_spec


def checkpoints_in(planned: Plan) -> list[Any]:
    """Return the rollout positions that the plan records before anything else."""
    merges = (action for action in actions_of(planned) if isinstance(action, Merge))
    return [merge.patch["status"]["rollout"] for merge in merges if merge.subresource == "status"]


def notes_of(planned: Plan) -> tuple[int, int]:
    """Return the partition and the replicas of the applied StatefulSet."""
    (apply,) = (action for action in actions_of(planned) if isinstance(action, Apply))
    return partition_of(apply.intent), desired_replicas(apply.intent)


def deletions(planned: Plan) -> list[str]:
    return [action.target.name for action in actions_of(planned) if isinstance(action, Delete)]


def test_the_checkpoint_is_written_before_the_step() -> None:
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=3, image="app:2"))
    planned = plan(snapshot)
    kinds = [type(action).__name__ for action in planned.sequences[0]]
    assert kinds == ["Create", "Merge", "Apply"], "a revision, the checkpoint, the StatefulSet"
    (memory,) = checkpoints_in(planned)
    assert memory == {"revision": planned.statuses[0].patch["updateRevision"], "partition": 3}
    assert "rollout" not in planned.statuses[0].patch, "it is written once"


def test_the_checkpoint_of_a_step_is_not_written_twice() -> None:
    """The manager stopped between the two writes."""
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=3, image="app:2"))
    planned = plan(snapshot)
    before = carried_out(snapshot, replace(planned, sequences=(planned.sequences[0][:2],)))
    again = plan(before)
    assert (notes_of(again), checkpoints_in(again)) == ((3, 3), [])


def a_set_of_one_to_roll(**options: Any) -> SetSnapshot:
    return with_spec(settled(make_set(replicas=1, **options)), make_set(replicas=1, image="app:2", **options))


def test_a_set_of_one_gets_template_and_partition_in_one_write() -> None:
    planned = plan(a_set_of_one_to_roll())
    sequence = planned.sequences[0]
    kinds = [type(action).__name__ for action in sequence]
    assert kinds == ["Create", "Merge", "Apply"], "the StatefulSet controller deletes the leader"
    assert notes_of(planned) == (0, 1)
    (memory,) = checkpoints_in(planned)
    assert memory["partition"] == 0
    (apply,) = (action for action in sequence if isinstance(action, Apply))
    assert [event.note for event in apply.announce] == ["Updating replica 0"]


def with_leader_terminating(snapshot: SetSnapshot, index: int, *finalizers: str) -> SetSnapshot:
    group = snapshot.groups[index]
    leader = copy.deepcopy(dict(group.leader))
    leader["metadata"] |= {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": list(finalizers)}
    groups = (*snapshot.groups[:index], replace(group, leader=leader), *snapshot.groups[index + 1 :])
    return replace(snapshot, groups=groups)


def rolled_to_group_1(**spec: Any) -> SetSnapshot:
    """Return a rollout of two groups with partition 1, before the controller deletes leader 1."""
    snapshot = with_spec(settled(make_set(replicas=2, **spec)), make_set(replicas=2, image="app:2", **spec))
    for _ in range(2):
        snapshot = with_reported(carried_out(snapshot, plan(snapshot)))
    assert snapshot.leaders is not None and partition_of(snapshot.leaders) == 1
    return snapshot


def test_workers_of_a_leader_that_the_statefulset_controller_deletes_are_deleted() -> None:
    """The garbage collector would keep the workers until the leader has terminated."""
    snapshot = with_leader_terminating(rolled_to_group_1(), 1)
    deleted = [action for action in actions_of(plan(snapshot)) if isinstance(action, Delete)]
    assert [(delete.target.kind, delete.target.name) for delete in deleted] == [("StatefulSet", "demo-1")]
    after = carried_out(snapshot, plan(snapshot))
    assert deletions(plan(after)) == [], "once"


def test_workers_of_a_leader_below_the_partition_are_left() -> None:
    """Their group is recreated on the same revision."""
    assert deletions(plan(with_leader_terminating(rolled_to_group_1(), 0))) == []


def test_workers_of_a_drained_leader_are_left() -> None:
    """The leader may need them to finish. The drain is to empty its node, not to replace its group."""
    snapshot = with_leader_terminating(rolled_to_group_1(), 1)
    leader = copy.deepcopy(dict(snapshot.groups[1].leader))
    leader["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True"})
    groups = (snapshot.groups[0], replace(snapshot.groups[1], leader=leader))
    assert deletions(plan(replace(snapshot, groups=groups))) == []


def sequence_of_apply(planned: Plan) -> list[tuple[str, str]]:
    """Return type and kind of the actions in the sequence that writes the leader StatefulSet."""
    (sequence,) = (
        sequence for sequence in planned.sequences if any(isinstance(action, Apply) for action in sequence)
    )
    kinds = (
        action.intent["kind"] if isinstance(action, Apply) else action.target.kind for action in sequence
    )
    return [(type(action).__name__, kind) for action, kind in zip(sequence, kinds, strict=True)]


def test_a_deletion_that_may_be_rejected_does_not_block_scaling() -> None:
    scaled = with_spec(rolled_to_group_1(), make_set(replicas=4, image="app:2"))
    broken = copy.deepcopy(dict(scaled.groups[1].leader))
    broken["status"]["conditions"] = []
    scaled = replace(scaled, groups=(scaled.groups[0], replace(scaled.groups[1], leader=broken)))
    planned = plan(scaled)
    assert deletions(planned) == ["demo-1", "demo-1"]
    assert sequence_of_apply(planned) == [("Apply", "StatefulSet")]
    ending = plan(with_leader_terminating(scaled, 1))
    assert deletions(ending) == ["demo-1"]
    assert sequence_of_apply(ending) == [("Apply", "StatefulSet")]


def test_due_leaders_are_deleted_before_the_partition_is_lowered() -> None:
    """The StatefulSet controller counts these leaders, and deletes no others in their place."""
    spec: dict[str, Any] = {"replicas": 4, "max_unavailable": 2}
    snapshot = with_spec(settled(make_set(**spec)), make_set(image="app:2", **spec))
    begun = with_reported(carried_out(snapshot, plan(snapshot)))
    covered = with_reported(carried_out(begun, plan(begun)))
    assert covered.leaders is not None and partition_of(covered.leaders) == 2
    key = covered.leaders["metadata"]["labels"][REVISION_LABEL]
    updated = make_group(dict(covered.lws), 3, key=key)
    planned = plan(
        replace(covered, groups=(*covered.groups[:3], updated), live_keys=covered.live_keys | {key})
    )
    assert notes_of(planned) == (1, 4)
    steps = [step for step in sequence_of_apply(planned) if step[0] != "Merge"]
    assert steps == [("Delete", "Pod"), ("Apply", "StatefulSet"), ("Delete", "StatefulSet")]


def test_workers_of_an_orphaning_leader_are_left() -> None:
    assert deletions(plan(with_leader_terminating(rolled_to_group_1(), 1, "orphan"))) == []


def test_workers_that_terminate_in_parallel_are_deleted_by_the_group_pass() -> None:
    snapshot = rolled_to_group_1(podTerminationPolicy="Parallel")
    assert deletions(plan(with_leader_terminating(snapshot, 1))) == []


def test_no_event_after_the_only_group_is_replaced() -> None:
    snapshot = a_set_of_one_to_roll()
    under_way = with_reported(carried_out(snapshot, plan(snapshot)))
    again = plan(under_way)
    assert not any(isinstance(action, Apply | Merge) for action in actions_of(again))


def test_a_rejected_template_does_not_delete_the_only_group() -> None:
    refused = plan(replace(a_set_of_one_to_roll(), are_leaders_refused=True))
    assert (notes_of(refused), deletions(refused)) == ((0, 1), [])


def test_no_combined_step_while_the_statefulset_controller_is_behind() -> None:
    snapshot = a_set_of_one_to_roll()
    assert snapshot.leaders is not None
    status = {**snapshot.leaders["status"], "observedGeneration": 0}
    behind = plan(replace(snapshot, leaders={**snapshot.leaders, "status": status}))
    assert deletions(behind) == []


def test_a_rejected_step_deletes_no_group_on_retry() -> None:
    """A policy rejects the new StatefulSet: a deleted leader would be recreated with the old template."""
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=3, image="app:2"))
    begun = with_reported(carried_out(snapshot, plan(snapshot)))
    refused = plan(replace(begun, are_leaders_refused=True))
    assert notes_of(plan(begun)) == notes_of(refused) == (2, 3), "it is tried again"
    assert counts_in(plan(begun)) == counts_in(refused), (
        "the groups are counted once the StatefulSet is stored"
    )
    covered = with_reported(carried_out(begun, refused))
    deleted = deletions(plan(replace(covered, are_leaders_refused=True)))
    assert deleted == ["demo-2", "demo-2"], "it is recreated with the new template"


def test_creation_writes_no_checkpoint() -> None:
    planned = plan(replace(settled(make_set()), leaders=None, lws=make_set(), groups=()))
    assert checkpoints_in(planned) == []


def test_scaling_a_settled_set_writes_no_checkpoint() -> None:
    planned = plan(with_spec(settled(make_set(replicas=3)), make_set(replicas=5)))
    assert (notes_of(planned), checkpoints_in(planned)) == ((0, 5), [])


def test_a_rollout_started_by_another_controller_is_recorded_in_the_status() -> None:
    snapshot = with_spec(settled(make_set(replicas=4)), make_set(replicas=4, image="app:2"))
    begun = with_reported(carried_out(snapshot, plan(snapshot)))
    status = {name: value for name, value in begun.lws["status"].items() if name != "rollout"}
    # Group 2 is missing and group 3 is old: no group may be replaced.
    groups = (*begun.groups[:2], begun.groups[3])
    planned = plan(replace(begun, lws={**begun.lws, "status": status}, groups=groups))
    assert checkpoints_in(planned) == []
    assert planned.statuses[0].patch["rollout"] == {"revision": status["updateRevision"], "partition": 4}


def with_dropped_field(lws: dict[str, Any]) -> SetSnapshot:
    """Return a settled set, from whose template a feature gate has dropped a field when it was applied."""
    snapshot = settled(lws)
    leaders = copy.deepcopy(dict(snapshot.leaders or {}))
    del leaders["spec"]["template"]["spec"]["newField"]
    return replace(snapshot, leaders=leaders)


def gated(**options: Any) -> dict[str, Any]:
    template = make_pod_template()
    template["spec"]["newField"] = {"x": 1}
    return make_set(template={"workerTemplate": template}, **options)


def test_enabling_a_feature_gate_updates_no_leader() -> None:
    """If the template were sent, too, a change of replicas would replace every leader."""
    at_rest = with_dropped_field(gated(replicas=3))
    assert actions_of(plan(at_rest)) == []
    labelled = gated(replicas=5, labels={"team.example/name": "a"})
    snapshot = with_spec(at_rest, labelled)
    (scaled,) = actions_of(plan(snapshot))
    assert isinstance(scaled, Merge)
    assert scaled.patch["spec"] == {"replicas": 5}
    assert scaled.patch["metadata"]["labels"] == {"team.example/name": "a"}
    assert set(scaled.patch["metadata"]["annotations"]) == {REPLICAS_ANNOTATION}
    assert [event.reason for event in scaled.announce] == []
    assert actions_of(plan(with_reported(carried_out(snapshot, plan(snapshot))))) == []


def test_a_new_template_contains_fields_that_were_dropped() -> None:
    at_rest = with_dropped_field(gated(replicas=3))
    changed = gated(replicas=3)
    changed["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = "app:2"
    (apply,) = (
        action for action in actions_of(plan(with_spec(at_rest, changed))) if isinstance(action, Apply)
    )
    assert apply.intent["spec"]["template"]["spec"]["newField"] == {"x": 1}


def test_scaling_down_reports_unready_groups_that_are_kept() -> None:
    snapshot = settled(make_set(replicas=4))
    down = copy.deepcopy(dict(snapshot.groups[1].leader))
    down["status"]["conditions"] = []
    groups = (snapshot.groups[0], replace(snapshot.groups[1], leader=down), *snapshot.groups[2:])
    planned = plan(with_spec(replace(snapshot, groups=groups), make_set(replicas=2)))
    (apply,) = actions_of(planned)
    assert isinstance(apply, Apply)
    (warning,) = (event for event in apply.announce if event.type == "Warning")
    assert warning.reason == "UnreadyGroupsStay"
    assert warning.note == (
        "Scaling down removes demo-2 to demo-3, because StatefulSets remove the highest index first, ready "
        "or not; demo-1 (not ready) are kept. Delete a leader pod to recreate its group, perhaps elsewhere"
    )


def test_scaling_down_to_ready_groups_reports_none() -> None:
    (apply,) = actions_of(plan(with_spec(settled(make_set(replicas=4)), make_set(replicas=2))))
    assert isinstance(apply, Apply)
    assert [event.type for event in apply.announce] == ["Normal"]


def counts_in(planned: Plan) -> list[Tally]:
    counted = (action for action in actions_of(planned) if isinstance(action, Apply | Delete))
    return [tally for action in counted for tally in action.tallies]


def test_groups_that_a_rollout_replaces_are_counted() -> None:
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=3, image="app:2"))
    begun = with_reported(carried_out(snapshot, plan(snapshot)))
    assert counts_in(plan(begun)) == [Tally("LeaderWorkerSet", "demo", "recreated", "Rollout")]


def test_a_group_is_counted_once_regardless_of_who_deletes_its_leader() -> None:
    """Kubernetes before 1.37 may leave the deletion to us. Pods may be observed later than StatefulSets."""
    assert deletions(plan(rolled_to_group_1())) == ["demo-1", "demo-1"]
    assert counts_in(plan(rolled_to_group_1())) == []


def test_all_groups_of_a_step_are_counted_with_it() -> None:
    spec: dict[str, Any] = {"replicas": 4, "max_unavailable": 3}
    snapshot = with_spec(settled(make_set(**spec)), make_set(image="app:2", **spec))
    begun = with_reported(carried_out(snapshot, plan(snapshot)))
    assert notes_of(plan(begun)) == (1, 4)
    assert len(counts_in(plan(begun))) == 3


class _Counting(tuple[GroupFacts, ...]):
    """Groups that count how often they are iterated."""

    times = 0

    def __iter__(self) -> Iterator[GroupFacts]:
        type(self).times += 1
        return super().__iter__()


@pytest.mark.parametrize("is_terminating", [False, True])
def test_the_cost_of_a_pass_grows_with_the_groups_not_with_their_square(is_terminating: bool) -> None:
    times = []
    for replicas in (5, 50):
        spec: dict[str, Any] = {"replicas": replicas, "max_unavailable": "100%"}
        snapshot = with_spec(settled(make_set(**spec)), make_set(image="app:2", **spec))
        begun = with_reported(carried_out(snapshot, plan(snapshot)))
        covered = with_reported(carried_out(begun, plan(begun)))
        for index in range(replicas) if is_terminating else ():
            covered = with_leader_terminating(covered, index)
        _Counting.times = 0
        planned = plan(replace(covered, groups=_Counting(covered.groups)))
        assert len(deletions(planned)) == replicas * (1 if is_terminating else 2)
        times.append(_Counting.times)
    assert times[0] == times[1]


def test_groups_replaced_for_different_reasons_are_counted_separately() -> None:
    """Another controller has recorded two revisions for one template."""
    snapshot = with_spec(settled(make_set(replicas=3)), make_set(replicas=3, image="app:2"))
    begun = with_reported(carried_out(snapshot, plan(snapshot)))
    old, new = sorted(begun.revisions, key=lambda revision: revision.number)
    twice = replace(begun, revisions=(replace(old, record=new.record), new))
    words = [(tally.word, tally.label) for tally in counts_in(plan(twice))]
    assert words == [("recreated", "Rollout"), ("spurious", "")]


TOOLS = {"objectset.rio.cattle.io/hash": "h"}


def as_left_by_an_earlier_release(owned: bool, **options: Any) -> SetSnapshot:
    """Return a settled set whose StatefulSet has a label and an annotation of a tool.

    owned: whether our apply owns these.
    """
    snapshot = settled(make_set(labels=TOOLS, annotations=TOOLS, **options))
    leaders = copy.deepcopy(dict(snapshot.leaders or {}))
    entry = next(entry for entry in leaders["metadata"]["managedFields"] if entry["operation"] == "Apply")
    for field in ("labels", "annotations"):
        leaders["metadata"][field] |= TOOLS
        if owned:
            entry["fieldsV1"]["f:metadata"][f"f:{field}"] |= {f"f:{key}": {} for key in TOOLS}
    return replace(snapshot, leaders=leaders)


@pytest.mark.parametrize("owned", [True, False], ids=["applied by us", "written by another client"])
def test_tool_labels_are_removed_with_the_next_write(owned: bool) -> None:
    at_rest = as_left_by_an_earlier_release(owned, replicas=3)
    assert actions_of(plan(at_rest)) == []
    snapshot = with_spec(at_rest, make_set(replicas=2, labels=TOOLS, annotations=TOOLS))
    apply, *merges = actions_of(plan(snapshot))
    assert isinstance(apply, Apply) and apply.intent["metadata"]["labels"].keys().isdisjoint(TOOLS)
    after = carried_out(snapshot, plan(snapshot)).leaders or {}
    assert after["spec"]["template"] == (at_rest.leaders or {})["spec"]["template"], "no pod restarts"
    removal = {"metadata": {field: dict.fromkeys(TOOLS) for field in ("labels", "annotations")}}
    assert [merge.patch for merge in merges if isinstance(merge, Merge)] == ([] if owned else [removal])


def test_tool_labels_are_removed_by_a_patch_too() -> None:
    at_rest = with_dropped_field(gated(replicas=3))
    leaders = copy.deepcopy(dict(at_rest.leaders or {}))
    leaders["metadata"]["labels"] |= TOOLS
    (scaled,) = actions_of(plan(with_spec(replace(at_rest, leaders=leaders), gated(replicas=5))))
    assert isinstance(scaled, Merge)
    assert scaled.patch["metadata"]["labels"] == dict.fromkeys(TOOLS)
