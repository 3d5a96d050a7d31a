"""lws.cli.impact: what a change does to the groups of a set, and the sentences that describe it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.cli.commands.plan import recreated
from lws.cli.impact import Impact, impact, impact_lines
from lws.kube.statefulsets import desired_replicas, partition_of
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.rollout.simulation import simulate
from lws.runtime.actions import Apply
from lws_api.leaderworkerset.placement import NODE_RETURN_ANNOTATION, NODE_RETURN_EXCEPT_ANNOTATION
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.builders import NOW, make_group, make_leader_statefulset, make_set, make_worker_pod
from test.unit.lws.cli.histories import revision_of, sets, snapshot_of, with_status
from test.unit.set_world import actions_of

Object = dict[str, Any]
A, B, C = sets("app:1", "app:2", "app:3", replicas=4)
HISTORY = [revision_of(A, 1), revision_of(B, 2)]
IMAGE = "  worker template container main image: app:1 → app:2"


def change(after: Object, before: Object = A, running: list[Object] | None = None) -> Impact:
    return impact(snapshot_of(before, HISTORY, running), after)


def lines(effect: Impact) -> list[str]:
    return [line.text for line in impact_lines(effect)]


def test_nothing_changes() -> None:
    assert lines(change(A)) == ["no pod is restarted: nothing changes"]


def test_another_spelling_changes_nothing() -> None:
    spelled = make_set(image="app:1", replicas=4)
    container = spelled["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
    container |= {"resources": {}, "env": [], "imagePullPolicy": "IfNotPresent"}
    assert lines(change(spelled)) == ["no pod is restarted: nothing changes"]


def test_a_set_that_is_not_reconciled() -> None:
    """A later release of upstream stored the set, so no change of it is reconciled."""
    reported = {"type": "ReplicaFailure", "status": "True", "reason": "UnsupportedField"}
    hashed = {**B, "spec": {**B["spec"], "scheduling": {}}, "status": {"conditions": [reported]}}
    (line,) = lines(change(hashed, before=hashed))
    assert line.startswith("nothing happens: spec.scheduling: the feature gate")


def test_a_set_of_another_controller() -> None:
    others = {**B, "spec": {**B["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}
    assert lines(change(others, before=others)) == [
        "nothing happens: kueue.x-k8s.io/multikueue runs this set (spec.managedBy)"
    ]


def test_a_revision_of_a_later_release_is_no_rollout() -> None:
    """An undo can restore such a revision, with fields that the controller of this release cannot handle."""
    later = {
        **B,
        "spec": {**B["spec"], "leaderWorkerTemplate": {**B["spec"]["leaderWorkerTemplate"], "x": 1}},
    }
    (line,) = lines(change(later))
    assert line.startswith("nothing happens: spec.leaderWorkerTemplate.x is unknown to this release")


def test_nothing_is_predicted_for_a_set_of_another_controller() -> None:
    before, after = ({**lws, "spec": {**lws["spec"], "managedBy": "example.com/another"}} for lws in (A, B))
    result = change({**after, "spec": {**after["spec"], "replicas": 9}}, before=before)
    assert (result.restarts, result.recreated, list(result.added), list(result.removed)) == ((), {}, [], [])
    assert result.template == (IMAGE.strip(),), "the change of the template is shown"


def test_a_limit_of_restarts_takes_effect_at_once() -> None:
    limited = make_set(image="app:1", replicas=4, template={"maxGroupRestarts": 3})
    assert lines(change(limited))[0] == "no pod is restarted"
    assert any("maxGroupRestarts" in line and "(at once)" in line for line in lines(change(limited)))


def test_the_pod_termination_policy_takes_effect_at_once() -> None:
    text = lines(change(make_set(image="app:1", replicas=4, podTerminationPolicy="Parallel")))
    assert text == ["no pod is restarted", "  podTerminationPolicy added: Parallel (at once)"]


def test_a_new_template() -> None:
    assert lines(change(B)) == ["groups 0 to 3 restart, by a rollout, one at a time", IMAGE]
    assert lines(change(sets("app:2", replicas=1)[0], sets("app:1", replicas=1)[0])) == [
        "group 0 restarts, by a rollout",
        IMAGE,
    ]


def test_reverting_to_a_template_that_some_groups_run() -> None:
    back = change(A, before=B, running=[A, A, B, B])
    assert (back.restarts, back.staying) == ((2, 3), (0, 1))
    expected = "groups 2 to 3 restart, by a rollout, one at a time; groups 0 to 1 stay as they are"
    assert lines(back)[0] == expected


def test_a_third_template_during_a_rollout() -> None:
    assert change(C, before=B, running=[A, A, B, B]).restarts == (0, 1, 2, 3)


def test_an_unchanged_template_during_a_rollout() -> None:
    assert lines(change(B, before=B, running=[A, A, B, B])) == [
        "still to restart, by the rollout: groups 0 to 1",
    ]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"replicas": 4, "startupPolicy": "LeaderReady"},
         "  startupPolicy: LeaderCreated → LeaderReady (at once)"),
        ({"replicas": 4, "template": {"restartPolicy": "None"}},
         "  restartPolicy: RecreateGroupOnPodRestart → None (at once)"),
        ({"replicas": 4, "max_unavailable": 2},
         "  rolloutStrategy rollingUpdateConfiguration added (at once)"),
        ({"replicas": 4, "annotations": {NODE_RETURN_ANNOTATION: "Required"}},
         "  annotation leaderworkerset.sigs.k8s.io/node-return added: Required (at once)"),
        ({"replicas": 4, "annotations": {NODE_RETURN_EXCEPT_ANNOTATION: "node-1"}},
         "  annotation leaderworkerset.sigs.k8s.io/node-return-except added: node-1 (at once)"),
        ({"replicas": 4, "labels": {"team": "serving"}}, "  label team added: serving (at once)"),
    ],
)  # fmt: skip
def test_fields_that_take_effect_at_once(spec: Object, line: str) -> None:
    assert lines(change(make_set(image="app:1", **spec))) == ["no pod is restarted", line]


def test_a_placement_annotation_takes_effect_by_a_rollout_only() -> None:
    after = make_set(image="app:1", replicas=4, annotations={EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"})
    assert lines(change(after)) == [
        "groups 0 to 3 restart, by a rollout, one at a time",
        "  annotation leaderworkerset.sigs.k8s.io/exclusive-topology added: rack",
    ]


def test_scaling() -> None:
    up = change(make_set(image="app:1", replicas=6))
    assert lines(up) == [
        "no pod is restarted",
        "  groups 4 to 5 will be created",
        "  replicas: 4 → 6 (at once)",
    ]
    down = change(make_set(image="app:1", replicas=3))
    assert lines(down) == ["group 3 is removed", "  replicas: 4 → 3 (at once)"]


def test_a_partition_limits_the_rollout() -> None:
    assert lines(change(make_set(image="app:2", replicas=4, partition=3)))[:2] == [
        "group 3 restarts, by a rollout",
        "  groups 0 to 2 keep their revision until the partition is lowered",
    ]


def test_a_lowered_partition_updates_groups() -> None:
    before = make_set(image="app:2", replicas=4, partition=3)
    after = make_set(image="app:2", replicas=4, partition=1)
    result = change(after, before, running=[A, A, A, B])
    assert lines(result)[0] == "groups 1 to 2 restart, by a rollout, one at a time"
    assert "  group 0 keeps its revision until the partition is lowered" in lines(result)


def test_images_are_pulled_before_the_rollout() -> None:
    before, after = make_set(image="app:1", replicas=4), make_set(image="app:2", replicas=4)
    after["spec"]["rolloutStrategy"]["prewarm"] = {"deadlineSeconds": 60, "command": ["load"]}
    assert lines(change(after, before))[:2] == [
        "groups 0 to 3 restart, by a rollout, one at a time",
        "  their nodes first pull app:2 and run the command, for at most 60 s",
    ]
    before["spec"]["rolloutStrategy"]["prewarm"] = {}
    restarted = copy.deepcopy(before)
    restarted["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["args"] = ["x"]
    assert not any("nodes" in line for line in lines(change(restarted, before)))


def test_a_paused_set() -> None:
    paused = {"rolloutStrategy": {"type": "RollingUpdate", "paused": True}}
    after = make_set(image="app:2", replicas=4, **paused)
    assert lines(change(after))[0] == "groups 0 to 3 restart once the rollout is resumed"
    resumed = change(B, before=after, running=[A, A, A, B])
    assert lines(resumed)[0] == "groups 0 to 2 restart, by a rollout, one at a time"


def test_a_restart_policy_that_takes_effect_at_once() -> None:
    before = make_set(image="app:1", replicas=1, template={"restartPolicy": "None"})
    after = make_set(image="app:1", replicas=1)
    snapshot = snapshot_of(before, HISTORY)
    (facts,) = snapshot.groups
    assert facts.worker_statefulset is not None
    restarted = {"containerStatuses": [{"name": "main", "restartCount": 1}]}
    group = GroupSnapshot(
        lws=before,
        leader=facts.leader,
        now=NOW,
        revision=snapshot.revisions[0],
        worker_statefulset=facts.worker_statefulset,
        worker_pods=(make_worker_pod(dict(facts.worker_statefulset), status=restarted),),
    )
    result = impact(snapshot, after, recreated({0: group}, after))
    assert lines(result)[:2] == [
        "group 0 restarts at once",
        "  group 0 is recreated at once: pod demo-0-1: container main ended and was restarted; the group is "
        "recreated as one",
    ]
    assert not recreated({0: group}, before)


def test_a_missing_group_is_not_restarted() -> None:
    snapshot = snapshot_of(A, HISTORY, [A, A])
    assert make_group(A).index == 0
    assert impact(snapshot, B).restarts == (0, 1)


def test_the_steps_start_at_the_partition_of_the_controller() -> None:
    """The leader StatefulSet was lost at partition 2 of the rollout, and recreated with the old template."""
    old, new = (revision["metadata"]["name"] for revision in HISTORY)
    status = {"currentRevision": old, "rollout": {"revision": new, "partition": 2}}
    leader = make_leader_statefulset(A, key=record(A).key, partition=4)
    snapshot = with_status(snapshot_of(B, HISTORY, [A, A, A, B], leader=leader), **status)
    first = simulate(impact(snapshot, snapshot.lws).after.rollout).steps[0].rollout
    (apply,) = (action for action in actions_of(plan(snapshot)) if isinstance(action, Apply))
    assert partition_of(apply.intent) == 2
    assert (first.partition, first.replicas) == (2, desired_replicas(apply.intent))
