"""Tests that a paused rollout replaces no group, and that the set still scales."""

from __future__ import annotations

import pytest

from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import plan_rollout
from lws.leaderworkerset.rollout.state import RolloutState, make_budget


def groups(letters: str) -> tuple[GroupState, ...]:
    """Return groups by letter.

    R: ready on the target revision, u: unready on it, r: ready and outdated, x: broken and outdated, t:
    terminating and outdated, -: missing.
    """
    return tuple(
        GroupState(
            index=index,
            ready=letter in "Rr",
            leader_ready=letter in "Rr",
            outdated=letter in "rxt",
            terminating=letter == "t",
            replaceable=letter in "rxt",
        )
        for index, letter in enumerate(letters)
        if letter != "-"
    )


@pytest.mark.parametrize(
    ("letters", "stored", "replicas", "floor", "expected"),
    [
        pytest.param(
            "rrrr", LeaderStatefulSet(4, 0, 4, is_current=False), 4, 0, (4, 4), id="new revision: none moves"
        ),
        pytest.param(
            "rrrR", LeaderStatefulSet(4, 2, 4), 4, 0, (3, 4), id="the window closes above what is left"
        ),
        pytest.param(
            "rruR", LeaderStatefulSet(4, 1, 4), 4, 0, (2, 4), id="a group that is being replaced counts"
        ),
        pytest.param("rxuR", LeaderStatefulSet(4, 1, 4), 4, 0, (2, 4), id="broken ones wait too"),
        pytest.param("RRRR", LeaderStatefulSet(4, 0, 4), 4, 0, (0, 4), id="nothing to hold"),
        pytest.param(
            "RRRt", LeaderStatefulSet(4, 2, 4), 4, 0, (4, 4), id="a terminating group is recreated unchanged"
        ),
        pytest.param(
            "rrRR", LeaderStatefulSet(4, 3, 4), 4, 3, (3, 4), id="never below the user's own partition"
        ),
        pytest.param("rrRR", LeaderStatefulSet(4, 2, 4), 6, 0, (2, 6), id="scaling up continues"),
        pytest.param("rrRR", LeaderStatefulSet(4, 2, 4), 2, 0, (2, 2), id="scaling down continues"),
        pytest.param("rrrRR", LeaderStatefulSet(5, 3, 4), 3, 0, (3, 4), id="the surge stays as it is"),
        pytest.param("uuRRR", LeaderStatefulSet(5, 0, 4), 1, 0, (0, 3), id="serving groups are kept"),
        pytest.param(
            "rrr", LeaderStatefulSet(0, 6, 0), 2, 0, (2, 2), id="to zero and back: existing groups are kept"
        ),
        pytest.param(
            "rrrrRRR", LeaderStatefulSet(7, 4, 4), 4, 0, (4, 5), id="a surge above the limit is deleted"
        ),
    ],
)
def test_a_paused_rollout_is_held(
    letters: str, stored: LeaderStatefulSet, replicas: int, floor: int, expected: tuple[int, int]
) -> None:
    state = RolloutState(replicas, make_budget(replicas, 1, 1), floor, groups(letters), stored, paused=True)
    rollout = plan_rollout(state)
    assert (rollout.partition, rollout.replicas) == expected
    assert rollout.replace == ()
    assert rollout.why.startswith("the rollout is paused")


def test_a_set_is_created_although_its_rollouts_are_paused() -> None:
    rollout = plan_rollout(RolloutState(3, make_budget(3, 1, 0), paused=True))
    assert (rollout.partition, rollout.replicas) == (0, 3)


def test_a_resumed_rollout_continues_where_it_stopped() -> None:
    held = LeaderStatefulSet(4, 3, 4)
    rollout = plan_rollout(RolloutState(4, make_budget(4, 1, 0), 0, groups("rrrR"), held))
    assert rollout.partition == 2
    assert rollout.replace == (2,)


@pytest.mark.parametrize("is_current", [False, True])
def test_a_revert_while_paused_moves_no_group(is_current: bool) -> None:
    stored = LeaderStatefulSet(replicas=6, partition=3, last_replicas=6, is_current=is_current)
    state = RolloutState(6, make_budget(6, 1, 0), groups=groups("RRRTrr"), statefulset=stored, paused=True)
    rollout = plan_rollout(state)
    assert (rollout.partition, rollout.replicas, rollout.replace) == (6, 6, ())
