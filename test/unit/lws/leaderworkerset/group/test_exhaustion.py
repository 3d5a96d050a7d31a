"""Tests of a group that has used up its restarts (KEP-820): how it ends, and how long its pods stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.leaderworkerset.group.exhaustion import Abandoned
from lws.leaderworkerset.group.plan import plan
from lws.leaderworkerset.group.snapshot import GroupSnapshot
from lws.runtime.actions import Action, Delete, Merge, Plan, Reference, SetFinalizer
from lws_api.leaderworkerset.v1 import (
    GROUP_RESTART_COUNTS_ANNOTATION,
    RECOVER_ANNOTATION,
    RESTART_BUDGET_EXHAUSTED_ANNOTATION,
    RESTART_BUDGET_FINALIZER,
    REVISION_LABEL,
)
from test.unit.builders import (
    KEY,
    NOW,
    make_leader_pod,
    make_leader_statefulset,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
)

USED_UP = {RESTART_BUDGET_EXHAUSTED_ANNOTATION: "true"}
COUNTS = {GROUP_RESTART_COUNTS_ANNOTATION: f'{{"{KEY}/0":1,"{KEY}/1":1}}'}
Object = dict[str, Any]


def kept(pod: Object) -> Object:
    pod["metadata"]["finalizers"] = [RESTART_BUDGET_FINALIZER]
    return pod


def group(
    *, terminating: bool = False, annotations: dict[str, str] | None = None, is_kept: bool = False, **lws: Any
) -> GroupSnapshot:
    """Return group 1 of three pods."""
    of = make_set(**{"size": 3, "template": {"maxGroupRestarts": 1}, "annotations": COUNTS, **lws})
    leader = make_leader_pod(of, 1, terminating=terminating, annotations=annotations)
    statefulset = make_worker_statefulset(leader)
    workers = tuple(make_worker_pod(statefulset, index) for index in (1, 2))
    if is_kept:
        kept(leader)
    return GroupSnapshot(of, leader, NOW, worker_statefulset=statefulset, worker_pods=workers)


def with_kept_pods(**more: Any) -> GroupSnapshot:
    """Return a group that has used up its restarts and whose containers have ended."""
    annotations = {**USED_UP, **more.pop("annotations", {})}
    leaders = more.pop("leaders", {})
    snapshot = group(terminating=True, annotations=annotations, is_kept=True, **more)
    statefulset = make_leader_statefulset(dict(snapshot.lws), **leaders)
    return replace(
        snapshot, kept_workers=tuple(kept(dict(pod)) for pod in snapshot.worker_pods), leaders=statefulset
    )


def actions(planned: Plan) -> tuple[Action, ...]:
    (sequence,) = planned.sequences
    return sequence


def note_of(action: Action) -> str:
    if isinstance(action, SetFinalizer):
        assert action.finalizer == RESTART_BUDGET_FINALIZER
        return f"{'keep' if action.is_there else 'release'} {action.target.name}"
    return f"{type(action).__name__.lower()} {action.target.name}"  # type: ignore[union-attr]


# --- The end ------------------------------------------------------------------------------------------------


def ending(is_kept: bool = False, **lws: Any) -> GroupSnapshot:
    """Return a group whose worker has failed once more than it may.

    is_kept: whether the end was interrupted after its first write.
    """
    snapshot = group(annotations=USED_UP if is_kept else None, is_kept=is_kept, **lws)
    snapshot.worker_pods[0]["status"]["phase"] = "Failed"  # type: ignore[index]
    return snapshot


def test_the_leader_is_marked_first_and_deleted_last() -> None:
    snapshot = ending()
    steps = actions(plan(snapshot))
    assert [note_of(action) for action in steps] == [
        "keep demo-1",
        "keep demo-1-1",
        "keep demo-1-2",
        "delete demo-1",
    ]
    delete = steps[-1]
    assert isinstance(delete, Delete)
    assert (delete.target, delete.propagation, delete.tallies) == (
        Reference.to(snapshot.leader),
        "Foreground",
        (),
    )
    (event,) = delete.announce
    assert (event.type, event.reason, event.action) == ("Warning", "ReplicaRestartBudgetExceeded", "Delete")
    assert event.note == "Restart budget exhausted; terminated group 1 and stopped automatic recovery"
    assert (event.regarding, event.related) == (Reference.to(snapshot.lws), Reference.to(snapshot.leader))


def test_finished_steps_are_not_repeated() -> None:
    snapshot = ending(is_kept=True)
    kept(dict(snapshot.worker_pods[0]))
    assert [note_of(action) for action in actions(plan(snapshot))] == ["keep demo-1-2", "delete demo-1"]


def test_pods_of_another_leader_are_not_kept() -> None:
    snapshot = ending()
    terminating, old = snapshot.worker_pods
    terminating["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"  # type: ignore[index]
    old["metadata"]["labels"][REVISION_LABEL] = "key-b"
    assert [note_of(action) for action in actions(plan(snapshot))] == ["keep demo-1", "delete demo-1"]
    of_another = make_worker_statefulset(make_leader_pod(dict(snapshot.lws), 1, uid="u-former"))
    former = replace(ending(is_kept=True), worker_statefulset=of_another)
    assert [note_of(action) for action in actions(plan(former))] == ["delete demo-1"]


def test_an_edited_mark_does_not_end_a_group() -> None:
    """The product writes the mark together with the finalizer."""
    planned = plan(group(annotations=USED_UP))
    assert not [action for sequence in planned.sequences for action in sequence if isinstance(action, Delete)]


@pytest.mark.parametrize("template", [{"maxGroupRestarts": 9}, {}], ids=["raised", "removed"])
def test_a_changed_limit_does_not_resume_the_group(template: dict[str, Any]) -> None:
    assert [note_of(action) for action in actions(plan(ending(True, template=template)))][
        -1
    ] == "delete demo-1"
    assert not plan(with_kept_pods(template=template)).sequences


# --- Afterwards ---------------------------------------------------------------------------------------------


def test_pods_are_kept_until_recovery_is_requested() -> None:
    for value in (None, "True", "yes", ""):
        more = {RECOVER_ANNOTATION: value} if value is not None else {}
        planned = plan(with_kept_pods(annotations=more))
        assert planned.is_empty and planned.again_after == 30.0
        reason = f'the annotation {RECOVER_ANNOTATION}: "true" on pod demo-1, or a new template'
        assert planned.waiting_for == reason


def test_a_recovery_removes_the_count_and_releases_the_leader_last() -> None:
    steps = actions(plan(with_kept_pods(annotations={RECOVER_ANNOTATION: "true"})))
    expected = ["merge demo", "release demo-1-1", "release demo-1-2", "release demo-1"]
    assert [note_of(action) for action in steps] == expected
    assert isinstance(steps[0], Merge)
    annotations = steps[0].patch["metadata"]["annotations"]
    assert annotations == {GROUP_RESTART_COUNTS_ANNOTATION: f'{{"{KEY}/0":1}}'}
    unmarked = {RESTART_BUDGET_EXHAUSTED_ANNOTATION: None, RECOVER_ANNOTATION: None}
    assert isinstance(steps[-1], SetFinalizer)
    assert steps[-1].patch == {"metadata": {"annotations": unmarked}}


def test_an_interrupted_recovery_continues() -> None:
    forgotten = with_kept_pods(annotations={RECOVER_ANNOTATION: "true"})
    lws = {**forgotten.lws, "metadata": {**forgotten.lws["metadata"], "annotations": {}}}
    assert [note_of(action) for action in actions(plan(replace(forgotten, lws=lws, kept_workers=())))] == [
        "release demo-1"
    ]


def test_counts_that_cannot_be_read_stop_a_recovery() -> None:
    garbled = {GROUP_RESTART_COUNTS_ANNOTATION: "{"}
    snapshot = with_kept_pods(annotations={RECOVER_ANNOTATION: "true"})
    lws = {**snapshot.lws, "metadata": {**snapshot.lws["metadata"], "annotations": garbled}}
    planned = plan(replace(snapshot, lws=lws))
    assert planned.is_empty and planned.again_after == 30.0
    assert "invalid group restart counts: expected a JSON object" in planned.waiting_for


RELEASED = ["release demo-1-1", "release demo-1-2", "release demo-1"]


def test_pods_are_released_in_a_terminating_namespace() -> None:
    """Kubernetes deletes the set when no pod is left."""
    assert [
        note_of(action) for action in actions(plan(replace(with_kept_pods(), is_namespace_ending=True)))
    ] == RELEASED


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(with_kept_pods(leaders={"replicas": 1}), id="scaled down"),
        pytest.param(
            with_kept_pods(leaders={"key": "key-b", "partition": 1}), id="the rollout has reached it"
        ),
        pytest.param(with_kept_pods(leaders={"key": "key-b"}), id="the rollout is past it"),
        pytest.param(
            with_kept_pods(annotations={RECOVER_ANNOTATION: "true"}, leaders={"replicas": 1}),
            id="scaled down, and recovery requested",
        ),
    ],
)
def test_pods_of_an_unwanted_group_are_released_and_the_count_is_kept(
    snapshot: GroupSnapshot,
) -> None:
    assert [note_of(action) for action in actions(plan(snapshot))] == RELEASED


@pytest.mark.parametrize(
    "leaders",
    [{"replicas": 2}, {"key": "key-b", "partition": 2}],
    ids=["a group of the surge, or wanted", "the rollout has not come to it"],
)
def test_pods_of_a_wanted_group_are_kept(leaders: dict[str, Any]) -> None:
    assert not plan(with_kept_pods(leaders=leaders)).sequences


@pytest.mark.parametrize("more", [{}, {"groupIdentity": "Hash"}], ids=["ours", "not managed"])
def test_a_set_that_is_deleted_releases_its_pods(more: dict[str, Any]) -> None:
    snapshot = with_kept_pods(**more)
    snapshot.lws["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"  # type: ignore[index]
    assert [note_of(action) for action in actions(plan(snapshot))] == RELEASED


def test_pods_without_a_group_are_released() -> None:
    snapshot = with_kept_pods()
    abandoned = Abandoned((*snapshot.kept_workers, snapshot.leader))
    assert [note_of(action) for action in actions(plan(abandoned))] == RELEASED


@pytest.mark.parametrize(
    ("change", "released"),
    [
        pytest.param({"finalizers": None}, ["demo-1-1", "demo-1-2"], id="the leader was released by hand"),
        pytest.param({"annotations": {}}, ["demo-1-1", "demo-1-2", "demo-1"], id="its mark was removed"),
    ],
)
def test_pods_that_cannot_be_recovered_are_released(change: dict[str, Any], released: list[str]) -> None:
    snapshot = with_kept_pods()
    leader = {**snapshot.leader, "metadata": {**snapshot.leader["metadata"], **change}}
    steps = actions(plan(replace(snapshot, leader=leader)))
    assert [note_of(action) for action in steps] == [f"release {name}" for name in released]
