"""Tests of partition and replicas: the case table, worked examples, and the deviations one by one."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import is_small_step, plan_rollout
from lws.leaderworkerset.rollout.state import Budget, Rollout, RolloutState, make_budget
from test.unit.lws.leaderworkerset.rollout.reference import Case, planned, planned_step, reference
from test.unit.stories.letters import groups


def case(letters: str, stored: str, desired: int, limits: str, **more: int | bool | None) -> Case:
    """Return a case.

    stored: "replicas,partition". limits: "unavailable,surge". The replicas of the previous pass are `desired`
    by default.
    """
    existing, partition = map(int, stored.split(","))
    unavailable, surge = map(int, limits.split(","))
    return Case(letters, desired, existing, partition, unavailable, surge, **{"last": desired, **more})  # type: ignore[arg-type]


NEW = {"is_new_revision": True}


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(case("rr", "2,0", 5, "1,0", last=2, **NEW), 2, 5, id="2a: new revision, scale up"),
        pytest.param(case("rrrr", "4,0", 4, "1,1", **NEW), 4, 5, id="2b: new revision, with surge"),
        pytest.param(
            case("rr", "2,0", 2, "1,4", **NEW), 2, 3, id="2b: surge of all groups, but budget of one"
        ),
        pytest.param(case("uuuu", "4,0", 4, "1,1"), 0, 4, id="3: at rest although nothing is ready"),
        pytest.param(case("rrrr", "4,2", 6, "1,0", last=4), 2, 6, id="3b: scale up keeps the partition"),
        pytest.param(case("rrrruu", "6,3", 6, "1,2", last=4), 3, 8, id="4: scaled up while rolling, surge 2"),
        pytest.param(
            case("rrrrRRRR", "8,6", 3, "1,1", last=8),
            4,
            4,
            id="4: partition follows down to the ceiling",
        ),
        pytest.param(case("rrrr-", "5,4", 4, "1,1"), 3, 5, id="5: first window"),
        pytest.param(case("RRRR", "4,0", 4, "1,1", floor=6), 6, 4, id="floor above everything"),
        pytest.param(case("rrrRRR", "6,3", 6, "1,0", floor=4), 4, 6, id="floor raised above the position"),
        pytest.param(case("", "0,0", 0, "1,1", **NEW), 0, 0, id="no replicas, new revision"),
        pytest.param(case("", "0,0", 0, "1,1"), 0, 0, id="no replicas"),
        pytest.param(case("rrRR", "4,2", 0, "1,0", last=4), 0, 0, id="scaled to zero while rolling"),
    ],
)
def test_case_table(state: Case, partition: int, replicas: int) -> None:
    assert planned_step(state) == (partition, replicas)
    assert reference(state) == (partition, replicas)


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(case("rrrr", "4,0", 4, "1,1", **NEW), 4, 5, id="new revision"),
        pytest.param(case("rrrr-", "5,4", 4, "1,1"), 3, 5, id="pass 2"),
        pytest.param(case("rrruR", "5,3", 4, "1,1"), 2, 5, id="surge 4 ready"),
        pytest.param(case("rruRR", "5,2", 4, "1,1"), 1, 5, id="group 3 ready"),
        pytest.param(case("ruRRR", "5,1", 4, "1,1"), 0, 5, id="group 2 ready"),
        pytest.param(case("uRRRR", "5,0", 4, "1,1"), 0, 4, id="group 1 ready"),
        pytest.param(case("uRRR", "4,0", 4, "1,1"), 0, 4, id="surge gone"),
        pytest.param(case("RRRR", "4,0", 4, "1,1"), 0, 4, id="group 0 ready"),
    ],
)
def test_four_groups_one_unavailable_one_surge(state: Case, partition: int, replicas: int) -> None:
    assert planned_step(state) == (partition, replicas)


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(case("rxrrrrrrrr", "10,0", 10, "2,3", **NEW), 10, 13, id="new revision"),
        pytest.param(case("rxrrrrrrrr---", "13,10", 10, "2,3"), 9, 13, id="pass 2"),
        pytest.param(case("rxrrrrrrruRRR", "13,9", 10, "2,3"), 6, 13, id="surge ready"),
        pytest.param(case("rxrrrruuuRRRR", "13,6", 10, "2,3"), 5, 13, id="group 9 ready"),
        pytest.param(case("rxrrrRRRRRRRR", "13,5", 10, "2,3"), 0, 13, id="groups 5 to 8 ready"),
        pytest.param(case("uuuRRRRRRRRRR", "13,0", 10, "2,3"), 0, 11, id="groups 3 and 4 ready"),
        pytest.param(case("uuRRRRRRRRR", "11,0", 10, "2,3"), 0, 10, id="group 2 ready"),
    ],
)
def test_ten_groups_with_one_broken_before(state: Case, partition: int, replicas: int) -> None:
    assert planned_step(state) == (partition, replicas)


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(case("rrrrrr", "6,0", 6, "1,0", floor=4, **NEW), 6, 6, id="floor 4: new revision"),
        pytest.param(case("rrrrrr", "6,6", 6, "1,0", floor=4), 5, 6, id="floor 4: first group"),
        pytest.param(case("rrrrrR", "6,5", 6, "1,0", floor=4), 4, 6, id="floor 4: second group"),
        pytest.param(case("rrrrRR", "6,4", 6, "1,0", floor=4), 4, 6, id="floor 4: reached"),
        pytest.param(case("rrrrRR", "6,4", 6, "1,0", floor=2), 3, 6, id="floor lowered: continues"),
        pytest.param(
            case("rrrrRRR", "7,4", 6, "1,1", floor=4), 4, 7, id="surge stays while groups are held back"
        ),
        pytest.param(case("rrr---", "6,3", 6, "1,2", last=6), 3, 8, id="scaled up with surge"),
        pytest.param(case("rrrrrr", "6,0", 3, "1,2", last=6, **NEW), 3, 5, id="scaled down and new revision"),
        pytest.param(case("rr", "2,0", 3, "1,1", last=2, **NEW), 2, 3, id="scaled up and new revision"),
    ],
)
def test_short_sequences(state: Case, partition: int, replicas: int) -> None:
    assert planned_step(state) == (partition, replicas)
    assert reference(state) == (partition, replicas)


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(case("r", "1,0", 1, "1,1", **NEW), 1, 2, id="set of one: surge first"),
        pytest.param(case("ru", "2,1", 1, "1,1"), 1, 2, id="set of one: waits for the surge"),
        pytest.param(case("rR", "2,1", 1, "1,1"), 0, 2, id="set of one: then the group"),
        pytest.param(case("uR", "2,0", 1, "1,1"), 0, 2, id="set of one: surge stays"),
        pytest.param(case("RR", "2,0", 1, "1,1"), 0, 1, id="set of one: done"),
        pytest.param(case("r", "1,0", 1, "1,0", **NEW), 0, 1, id="set of one, no surge: at once"),
        pytest.param(case("x", "1,0", 1, "1,0", **NEW), 0, 1, id="set of one, not ready: at once"),
        pytest.param(
            case("-", "1,0", 1, "1,0", **NEW), 1, 1, id="set of one without its group: a step first"
        ),
        pytest.param(
            case("t", "1,0", 1, "1,0", **NEW), 1, 1, id="set of one, group is terminating: a step first"
        ),
        pytest.param(case("rr", "2,0", 1, "1,0", **NEW), 1, 1, id="scaled down to one: a step first"),
        pytest.param(case("r", "1,1", 1, "1,0"), 0, 1, id="set of one, no surge: the group"),
        pytest.param(case("rrr", "3,3", 3, "0,0"), 2, 3, id="budget of nothing acts as one"),
    ],
)
def test_set_of_one_and_empty_budget(state: Case, partition: int, replicas: int) -> None:
    assert planned_step(state) == (partition, replicas)


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(case("uuuRRRR", "7,0", 4, "2,3"), 0, 5, id="ready surge is kept as far as it is needed"),
        pytest.param(
            case("RRuuuRR", "7,0", 4, "2,3"), 0, 4, id="surge is deleted when enough others are ready"
        ),
        pytest.param(
            case("uuuuuRR", "7,0", 4, "2,3"), 0, 7, id="ready surge at the very top is all there is"
        ),
        pytest.param(case("RRRuuuu", "7,0", 4, "1,3"), 0, 4, id="unready surge is deleted"),
        pytest.param(
            case("xxxxRRRR", "8,4", 4, "1,1", last=8),
            4,
            7,
            id="scaled down while the low ones are broken",
        ),
    ],
)
def test_surge_is_deleted_only_while_enough_groups_stay_ready(
    state: Case, partition: int, replicas: int
) -> None:
    assert planned_step(state) == (partition, replicas)


@pytest.mark.parametrize(
    ("state", "partition", "replicas"),
    [
        pytest.param(
            case("uuuRRRRRRR", "10,0", 4, "1,2", last=10),
            0,
            4,
            id="plain scale-down shrinks at once",
        ),
        pytest.param(
            case("RuuuR", "5,0", 4, "1,2"), 0, 5, id="surge does not grow back without outdated groups"
        ),
        pytest.param(
            case("uuu", "3,2", 3, "1,2", floor=2), 2, 3, id="no surge on first creation with a partition"
        ),
        pytest.param(case("---", "3,2", 3, "1,2", floor=2), 2, 3, id="no surge before the first pod exists"),
    ],
)
def test_surge_is_created_only_while_groups_are_outdated(state: Case, partition: int, replicas: int) -> None:
    assert planned_step(state) == (partition, replicas)


def test_no_surge_on_creation() -> None:
    state = RolloutState(replicas=4, budget=make_budget(4, 1, 2), floor=1)
    rollout = plan_rollout(state)
    assert (rollout.partition, rollout.replicas, rollout.replace) == (1, 4, ())
    assert rollout.why == "4 groups to be created"


@pytest.mark.parametrize(
    ("state", "partition"),
    [
        pytest.param(case("rrrru", "5,4", 5, "2,0"), 3, id="stuck at the top: one more"),
        pytest.param(case("rrrRu", "5,3", 5, "2,0"), 2, id="stuck at the top: and on"),
        pytest.param(case("RRRru", "5,3", 5, "1,0"), 3, id="stuck at the top: no budget left"),
        pytest.param(case("rruRuR", "6,2", 6, "3,0"), 1, id="two stuck, budget of three"),
    ],
)
def test_a_stuck_group_does_not_block_a_rollout_within_the_budget(state: Case, partition: int) -> None:
    assert planned_step(state)[0] == partition


@pytest.mark.parametrize(
    ("state", "partition"),
    [
        pytest.param(case("rrrt", "4,3", 4, "1,0"), 3, id="a terminating leader is not ready"),
        pytest.param(case("rrRt", "4,2", 4, "1,0"), 2, id="a terminating leader is not updated"),
        pytest.param(case("rurur", "5,5", 5, "2,0"), 5, id="unready groups count wherever they are"),
    ],
)
def test_terminating_and_unready_groups_use_the_budget(state: Case, partition: int) -> None:
    assert planned_step(state)[0] == partition


@pytest.mark.parametrize(
    ("state", "partition"),
    [
        pytest.param(case("rrrx", "4,4", 4, "1,0"), 3, id="top: only it is replaced"),
        pytest.param(case("rrru", "4,3", 4, "1,0"), 3, id="top: its successor is awaited"),
        pytest.param(case("rxrr", "4,4", 4, "1,0"), 3, id="middle: one healthy group at a time"),
        pytest.param(case("rxru", "4,3", 4, "1,0"), 3, id="middle: waits until it is ready again"),
        pytest.param(
            case("rxrR", "4,3", 4, "1,0"), 1, id="middle: then the next, and with it the broken one"
        ),
        pytest.param(case("xrrr", "4,4", 4, "1,0"), 3, id="bottom: one healthy group at a time"),
        pytest.param(case("xrRR", "4,2", 4, "1,0"), 0, id="bottom: the last healthy one takes it along"),
        pytest.param(case("xxxx", "4,4", 4, "1,0"), 0, id="all: at once"),
        pytest.param(case("xxxx", "4,4", 4, "0,1"), 0, id="all, no unavailable: at once"),
        pytest.param(case("xxrr", "4,4", 4, "1,0"), 3, id="two at the bottom, budget overdrawn: still one"),
        pytest.param(case("xr-r", "4,4", 4, "1,0"), 4, id="something else is missing: nothing"),
        pytest.param(case("xrtr", "4,4", 4, "1,0"), 4, id="something else is terminating: nothing"),
        pytest.param(case("xrrr", "4,4", 4, "0,1"), 4, id="no budget at all before the surge is there"),
        pytest.param(case("xrrru", "5,4", 4, "0,1"), 4, id="surge not ready: nothing"),
        pytest.param(case("xrrrR", "5,4", 4, "0,1"), 3, id="surge ready: one"),
        pytest.param(case("xrrrrr", "6,6", 6, "1,0", floor=4), 5, id="broken below the floor: one at a time"),
    ],
)
def test_broken_groups_never_block_a_rollout(state: Case, partition: int) -> None:
    assert planned_step(state)[0] == partition


@pytest.mark.parametrize(
    ("state", "partition"),
    [
        pytest.param(case("xxu", "3,2", 3, "1,0"), 2, id="the budget is at stake already"),
        pytest.param(case("xx-", "3,2", 3, "1,0"), 2, id="a group that is missing is not ready"),
        pytest.param(case("xxT", "3,2", 3, "1,0"), 2, id="a terminating group is not ready"),
        pytest.param(case("xxt", "3,2", 3, "1,0"), 2, id="a group being replaced is not ready"),
        pytest.param(case("xxR", "3,2", 3, "1,0"), 0, id="a new one is ready: all"),
        pytest.param(case("xxxxxu", "6,5", 6, "3,0"), 3, id="what is left of a larger budget"),
        pytest.param(case("xxxxRu", "6,4", 6, "2,0"), 3, id="a stuck one, and one for each that is left"),
        pytest.param(case("xxxxu", "5,4", 4, "0,1"), 0, id="a surge group may wait for their room"),
        pytest.param(case("xxxxu", "5,4", 4, "1,1"), 0, id="a surge group, and a budget: the same"),
        pytest.param(case("xxxuu", "5,3", 4, "1,1"), 3, id="a surge group, and one that was replaced"),
    ],
)
def test_a_revision_without_ready_groups_gets_no_more_than_the_budget(state: Case, partition: int) -> None:
    assert planned_step(state)[0] == partition


@pytest.mark.parametrize("last", [None, 4])
def test_a_lost_record_of_replicas_does_not_change_the_step(last: int | None) -> None:
    assert planned_step(case("rrruR", "5,3", 4, "1,1", last=last)) == (2, 5)


def test_the_partition_is_not_lowered_twice_before_the_controller_has_reported() -> None:
    state = case("rrrr-", "5,4", 4, "1,1")
    assert planned(state, observed=False, awaited=True).partition == 4
    assert planned(state, observed=False, awaited=False).partition == 3
    mid_rollout = case("rrrRR", "5,3", 4, "1,1", is_new_revision=True)
    assert planned(mid_rollout, observed=False, awaited=True).partition == 5
    assert planned(mid_rollout).partition == 4


@pytest.mark.parametrize(
    ("letters", "reached", "observed", "partition"),
    [
        pytest.param("rrrr", 2, True, 3, id="all came back old: as far as the budget allows"),
        pytest.param("rrrR", 2, True, 2, id="one was left behind on the new revision"),
        pytest.param("xxxx", 2, True, 2, id="no group is ready"),
        pytest.param("rrRR", 1, False, 4, id="its controller has not reported: no group moves"),
        pytest.param("rrrr", None, True, 4, id="a rollout that begins"),
        pytest.param("rrrr", 9, True, 4, id="a rollout that had not started"),
    ],
)
def test_a_rollout_with_a_lost_statefulset_continues_from_its_position(
    letters: str, reached: int | None, observed: bool, partition: int
) -> None:
    stored = LeaderStatefulSet(4, 4, last_replicas=4, is_current=False, observed=observed)
    state = RolloutState(4, make_budget(4, 1, 0), groups=groups(letters), statefulset=stored, reached=reached)
    assert plan_rollout(state).partition == partition


def _rolling(partition: int = 50, unavailable: int = 10, is_current: bool = True) -> RolloutState:
    stored = LeaderStatefulSet(replicas=100, partition=partition, is_current=is_current)
    return RolloutState(replicas=100, budget=Budget(unavailable, 0), statefulset=stored)


def test_a_step_of_few_groups_is_small() -> None:
    assert is_small_step(_rolling(), Rollout(partition=47, replicas=100, replace=(52, 51, 49)))


@pytest.mark.parametrize(
    ("state", "rollout"),
    [
        pytest.param(_rolling(), Rollout(43, 100), id="most-of-the-budget"),
        pytest.param(_rolling(unavailable=1), Rollout(49, 100), id="a-budget-of-one"),
        pytest.param(_rolling(partition=3), Rollout(0, 100), id="the-last-groups"),
        pytest.param(_rolling(), Rollout(47, 80), id="scaled"),
        pytest.param(_rolling(is_current=False), Rollout(47, 100), id="new-template"),
        pytest.param(_rolling(), Rollout(50, 100), id="no-move"),
        pytest.param(_rolling(), Rollout(60, 100), id="back-up"),
        pytest.param(RolloutState(100, Budget(10, 0)), Rollout(0, 100), id="first"),
    ],
)
def test_other_steps_are_not_small(state: RolloutState, rollout: Rollout) -> None:
    assert not is_small_step(state, rollout)
