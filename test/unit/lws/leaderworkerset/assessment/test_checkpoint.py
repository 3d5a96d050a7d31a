"""Tests of the position of a rollout: how it is recorded, and how it restores a lost leader StatefulSet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.kube.statefulsets import desired_replicas, partition_of
from lws.leaderworkerset.assessment.assessment import Position, record_position, recorded_position
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.snapshot import SetSnapshot
from lws.runtime.actions import Apply, Delete, Merge, Plan
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.builders import make_group, make_set
from test.unit.set_world import actions_of, carried_out, settled, with_groups, with_reported, with_spec


@pytest.mark.parametrize(
    ("stored", "position"),
    [
        pytest.param({"revision": "demo-a-1", "partition": 3}, Position("demo-a-1", 3), id="known"),
        pytest.param({"revision": "demo-a-1"}, Position("demo-a-1", 0), id="zero left out"),
        pytest.param(None, None, id="no rollout yet"),
        pytest.param("demo-a-1", None, id="no object"),
        pytest.param({}, None, id="empty"),
        pytest.param({"partition": 3}, None, id="no revision"),
        pytest.param({"revision": "", "partition": 3}, None, id="empty revision"),
        pytest.param({"revision": 7, "partition": 3}, None, id="revision is a number"),
        pytest.param({"revision": "demo-a-1", "partition": "3"}, None, id="partition is a string"),
        pytest.param({"revision": "demo-a-1", "partition": -1}, None, id="negative"),
        pytest.param({"revision": "demo-a-1", "partition": True}, None, id="partition is a boolean"),
    ],
)
def test_stored_checkpoint_is_parsed(stored: Any, position: Position | None) -> None:
    assert recorded_position(make_set(status={"rollout": stored})) == position
    assert recorded_position(make_set()) is None


def test_checkpoint_round_trip() -> None:
    written = record_position(make_set(), Position("demo-a-1", 2))
    assert (written.subresource, written.target.name, written.target.uid) == (
        "status",
        "demo",
        "uid-of-set-demo",
    )
    assert recorded_position(make_set(status=written.patch["status"])) == Position("demo-a-1", 2)


# --- A lost leader StatefulSet ------------------------------------------------------------------------------


def the_apply(planned: Plan) -> Apply:
    (apply,) = (action for action in actions_of(planned) if isinstance(action, Apply))
    return apply


def checkpoints_in(planned: Plan) -> list[Any]:
    """Return the rollout positions that the plan records before anything else."""
    merges = (action for action in actions_of(planned) if isinstance(action, Merge))
    return [merge.patch["status"]["rollout"] for merge in merges if merge.subresource == "status"]


def notes_of(planned: Plan) -> tuple[str, int, int]:
    """Return image of the leaders, partition and replicas of the applied StatefulSet."""
    intent = the_apply(planned).intent
    image = intent["spec"]["template"]["spec"]["containers"][0]["image"]
    return image, partition_of(intent), desired_replicas(intent)


def set_during_a_rollout(replicas: int = 4, **spec: Any) -> SetSnapshot:
    """Return a rollout from app:1 to app:2: group 3 is replaced and ready, the next partition is 2."""
    snapshot = settled(make_set(replicas=replicas, **spec))
    snapshot = with_spec(snapshot, make_set(replicas=replicas, image="app:2", **spec))
    snapshot = carried_out(snapshot, plan(snapshot))
    assert snapshot.leaders is not None
    new = snapshot.leaders["metadata"]["labels"][REVISION_LABEL]
    status = dict(snapshot.lws["status"])
    position = {"revision": status["updateRevision"], "partition": 2}
    return replace(
        snapshot,
        lws={**snapshot.lws, "status": {**status, "rollout": position}},
        groups=(
            *snapshot.groups[:3],
            make_group(dict(snapshot.lws), 3, key=new),
            *snapshot.groups[4:],
        ),
    )


def with_deleted_leader(snapshot: SetSnapshot, **status: Any) -> SetSnapshot:
    """Return the snapshot without the leader StatefulSet and its groups.

    status: fields with other values; None removes one.
    """
    stored = {**snapshot.lws["status"], **status}
    fields = {name: value for name, value in stored.items() if value is not None}
    lws = {**snapshot.lws, "status": fields}
    return replace(snapshot, leaders=None, groups=(), lws=lws, live_keys=frozenset(), set_read_live=lws)


def test_a_statefulset_lost_during_a_rollout_is_recreated_with_the_old_revision() -> None:
    snapshot = with_deleted_leader(set_during_a_rollout())
    planned = plan(snapshot)
    assert notes_of(planned) == ("app:1", 4, 4), "no remaining pod is moved back"
    apply = the_apply(planned)
    former = next(
        revision
        for revision in snapshot.revisions
        if revision.name == snapshot.lws["status"]["currentRevision"]
    )
    assert apply.intent["metadata"]["labels"][REVISION_LABEL] == former.key
    assert apply.intent["spec"]["template"]["metadata"]["labels"][REVISION_LABEL] == former.key
    assert apply.why == (
        "the leader StatefulSet was lost in a rollout: 4 groups of revision 1 first, "
        "then the rollout continues from partition 2"
    )
    assert checkpoints_in(planned) == []
    assert "currentRevision" not in (planned.statuses[0].patch if planned.statuses else {})


def test_a_recreated_statefulset_waits_for_its_update_revision() -> None:
    snapshot = with_deleted_leader(set_during_a_rollout())
    recreated = carried_out(snapshot, plan(snapshot))
    waiting = plan(recreated)
    assert [action for action in actions_of(waiting) if isinstance(action, Apply | Delete)] == []
    assert (
        waiting.waiting_for == "the StatefulSet controller to report on the revision that the set came from"
    )
    assert waiting.again_after == 10


def test_a_recreated_statefulset_continues_within_the_budget() -> None:
    before = set_during_a_rollout()
    recreated = carried_out(with_deleted_leader(before), plan(with_deleted_leader(before)))
    # The pods were left behind and adopted: three old, one new.
    adopted = with_reported(replace(recreated, groups=before.groups))
    planned = plan(adopted)
    assert notes_of(planned) == ("app:2", 2, 4), "one of three old groups may be replaced"
    assert checkpoints_in(planned) == [], "the checkpoint is unchanged"


def test_pods_lost_with_the_statefulset_are_recreated_with_the_old_revision() -> None:
    before = with_deleted_leader(set_during_a_rollout())
    planned = plan(with_groups(carried_out(before, plan(before))))
    assert notes_of(planned) == ("app:2", 3, 4), "all four are old again: one may be replaced"
    assert checkpoints_in(planned) == [{"revision": before.lws["status"]["updateRevision"], "partition": 3}]


def test_surge_groups_are_kept_until_the_statefulset_has_reported() -> None:
    assert notes_of(plan(with_deleted_leader(set_during_a_rollout(replicas=4, max_surge=1)))) == (
        "app:1",
        5,
        5,
    )


@pytest.mark.parametrize(("occupied", "groups"), [(0, 1), (3, 3), (5, 5)])
def test_a_statefulset_lost_during_a_rollout_is_recreated_in_waves(occupied: int, groups: int) -> None:
    """It keeps groups whose leaders are left, the surge included."""
    strategy = {"seedGroups": 1, "growthFactor": 2}
    before = set_during_a_rollout(replicas=4, max_surge=1, startStrategy=strategy)
    lost = replace(with_deleted_leader(before), occupied_index_count=occupied)
    planned = plan(lost)
    assert notes_of(planned) == ("app:1", 5, groups)
    assert the_apply(planned).why.endswith("the rollout continues from partition 2")


@pytest.mark.parametrize(
    ("image", "paused", "partition"),
    [("app:2", False, 2), ("app:2", True, 4), ("app:3", False, 4), ("app:3", True, 4)],
)
def test_groups_that_start_later_than_a_lost_statefulset_follow_the_position(
    image: str, paused: bool, partition: int
) -> None:
    waves = {"startStrategy": {"seedGroups": 1, "growthFactor": 2}}
    changed = make_set(replicas=4, image=image, rolloutStrategy={"paused": paused}, **waves)
    lost = with_deleted_leader(with_spec(set_during_a_rollout(replicas=4, **waves), changed))
    snapshot = with_groups(carried_out(lost, plan(lost)))
    assert snapshot.leaders is not None
    former = snapshot.leaders["metadata"]["labels"][REVISION_LABEL]
    for replicas in (2, 3, 4):
        planned = plan(snapshot)
        assert notes_of(planned) == (image, partition, replicas)
        applied = carried_out(snapshot, planned)
        assert checkpoint_of(applied)[1] == partition
        target = applied.lws["status"]["updateRevision"].split("-")[1]
        keys = [former if index < partition else target for index in range(replicas)]
        groups = tuple(make_group(dict(applied.lws), index, key=key) for index, key in enumerate(keys))
        snapshot = with_reported(replace(applied, groups=groups))


def test_a_statefulset_lost_after_a_rollback_is_recreated_in_waves() -> None:
    strategy = {"seedGroups": 1, "growthFactor": 2}
    back = with_spec(
        set_during_a_rollout(startStrategy=strategy), make_set(replicas=4, startStrategy=strategy)
    )
    changed = carried_out(back, plan(back))
    assert notes_of(plan(with_deleted_leader(changed))) == ("app:1", 1, 1)


def test_the_partition_of_the_set_is_respected() -> None:
    before = set_during_a_rollout(replicas=4, partition=3)
    recreated = carried_out(with_deleted_leader(before), plan(with_deleted_leader(before)))
    planned = plan(with_reported(replace(recreated, groups=before.groups)))
    assert notes_of(planned) == ("app:2", 3, 4)
    assert notes_of(plan(with_deleted_leader(set_during_a_rollout(replicas=4, partition=9)))) == (
        "app:1",
        9,
        4,
    )


UNKNOWN = [
    pytest.param({"rollout": None}, id="no checkpoint"),
    pytest.param({"rollout": {"revision": 3, "partition": "x"}}, id="invalid checkpoint"),
    pytest.param({"currentRevision": "demo-unknown-9"}, id="the former revision is deleted"),
]


@pytest.mark.parametrize("status", UNKNOWN)
def test_without_a_checkpoint_no_group_is_updated_at_once(status: dict[str, Any]) -> None:
    assert notes_of(plan(with_deleted_leader(set_during_a_rollout(), **status))) == ("app:2", 4, 4)


def test_a_rollout_to_yet_another_revision_begins_from_the_top() -> None:
    changed = with_spec(set_during_a_rollout(), make_set(replicas=4, image="app:3"))
    snapshot = with_deleted_leader(changed)
    first = plan(snapshot)
    assert notes_of(first) == ("app:1", 4, 4)


def test_a_rollback_updates_no_pod_at_once() -> None:
    """From app:1 to app:2 and back: groups that already run app:2 may be left behind."""
    back = with_spec(set_during_a_rollout(), make_set(replicas=4))
    changed = carried_out(back, plan(back))
    assert checkpoint_of(changed) == (changed.lws["status"]["currentRevision"], 4)
    assert notes_of(plan(with_deleted_leader(changed))) == ("app:1", 4, 4)


def checkpoint_of(snapshot: SetSnapshot) -> tuple[str, int]:
    stored = snapshot.lws["status"]["rollout"]
    return stored["revision"], stored["partition"]


@pytest.mark.parametrize("status", [{}, {"currentRevision": None, "rollout": None}])
def test_a_statefulset_lost_while_settled_is_recreated_unchanged(status: dict[str, Any]) -> None:
    assert notes_of(plan(with_deleted_leader(settled(make_set(replicas=3)), **status))) == ("app:1", 0, 3)


def claims(size: str) -> dict[str, Any]:
    """Return fields of leaderWorkerTemplate with a claim of this size."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}


@pytest.mark.parametrize(("before", "after", "image"), [("1Gi", "5Gi", "app:2"), ("1Gi", "1024Mi", "app:1")])
def test_a_statefulset_that_could_not_get_its_claims_later_is_recreated_with_them(
    before: str, after: str, image: str
) -> None:
    """The API server rejects an apply with other claims, so the rollout could not go on from the former
    revision.
    """
    rolling = settled(make_set(replicas=4, template=claims(before)))
    rolling = with_spec(rolling, make_set(replicas=4, image="app:2", template=claims(after)))
    rolling = carried_out(rolling, plan(rolling))
    lost = replace(with_deleted_leader(rolling), left_keys=rolling.live_keys)
    assert notes_of(plan(lost)) == (image, 4, 4), "no remaining group is moved at once"
    storage = the_apply(plan(lost)).intent["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]
    assert storage["requests"]["storage"] == (after if image == "app:2" else before)


def test_the_groups_of_a_recreated_set_with_another_template_are_moved_by_its_rollout() -> None:
    """Both the set and its StatefulSet were deleted without their dependents. With partition 0, the
    StatefulSet controller would replace leaders at its own pace, whether their groups are ready or not.
    """
    former = settled(make_set(replicas=4))
    recreated = make_set(replicas=4, image="app:2")
    lost = replace(former, lws=recreated, leaders=None, groups=(), set_read_live=recreated)
    assert notes_of(plan(lost)) == ("app:2", 0, 4), "there are no groups"
    left = replace(lost, left_keys=former.live_keys)
    assert notes_of(plan(left)) == ("app:2", 4, 4)
    adopted = with_reported(replace(carried_out(left, plan(left)), groups=former.groups))
    assert notes_of(plan(adopted)) == ("app:2", 3, 4)
    same = replace(left, lws=make_set(replicas=4), set_read_live=make_set(replicas=4))
    assert notes_of(plan(same)) == ("app:1", 0, 4)


def test_a_template_that_was_never_applied_is_not_used_first() -> None:
    """The API server rejected the first StatefulSet; then the user corrected the template."""
    first = SetSnapshot(make_set(replicas=3), set_during_a_rollout().now)
    planned = plan(first)
    refused = replace(carried_out(first, planned), leaders=None)
    corrected = with_spec(refused, make_set(replicas=3, image="app:2"))
    assert notes_of(plan(corrected))[0] == "app:2"
