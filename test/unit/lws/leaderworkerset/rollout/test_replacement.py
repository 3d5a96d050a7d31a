"""Tests of which leaders we delete ourselves.

Some are deleted before the partition is lowered, others once the StatefulSet controller has reported it.
"""

from __future__ import annotations

import dataclasses

import pytest

from lws.leaderworkerset.rollout.groups import GroupState, LeaderStatefulSet
from lws.leaderworkerset.rollout.plan import leaders_to_replace, plan_rollout
from lws.leaderworkerset.rollout.state import Budget, Rollout, RolloutFacts, RolloutState
from test.unit.stories.letters import groups


def replaced(letters: str, stored: LeaderStatefulSet, limits: Budget, replicas: int | None = None) -> Rollout:
    replicas = stored.replicas if replicas is None else replicas
    return plan_rollout(RolloutState(replicas, limits, 0, groups(letters), stored))


@pytest.mark.parametrize(
    ("letters", "partition", "limits", "lowered_to", "expected"),
    [
        pytest.param("rrrr", 4, Budget(1, 0), 3, (3,), id="the one that it would take"),
        pytest.param("rrrr", 4, Budget(2, 0), 2, (3,), id="of two only the one that it would take"),
        pytest.param("rrrt", 3, Budget(2, 0), 2, (), id="one above is terminating: it takes none"),
        pytest.param("rrr-", 3, Budget(2, 0), 2, (), id="one above is missing: it takes none"),
        pytest.param("rrru", 3, Budget(2, 0), 2, (), id="one above is starting: it takes none"),
        pytest.param("rrrR", 3, Budget(1, 0), 2, (2,), id="one above is finished: it takes the next"),
        pytest.param("rxxx", 4, Budget(1, 0), 1, (3,), id="broken ones one by one too"),
        pytest.param("rrrr", 3, Budget(3, 0), 1, (3,), id="one above is deleted now: it takes none"),
    ],
)
def test_leaders_deleted_before_the_partition_is_lowered(
    letters: str, partition: int, limits: Budget, lowered_to: int, expected: tuple[int, ...]
) -> None:
    rollout = replaced(letters, LeaderStatefulSet(4, partition), limits)
    assert (rollout.partition, rollout.replace) == (lowered_to, expected)


@pytest.mark.parametrize(
    ("letters", "limit", "expected"),
    [
        pytest.param("rrrrrr", 3, (5, 4, 3), id="as many as it may"),
        pytest.param("rrrrrr", 9, (5, 4, 3, 2), id="no more than the window has"),
        pytest.param("rrrrRt", 3, (3, 2), id="those that are down count"),
        pytest.param("urrrrr", 3, (5, 4), id="those below the partition count too"),
        pytest.param("uurrrr", 2, (), id="none where too many are down"),
        pytest.param("rrrxxx", 2, (5, 4, 3), id="all that are not available, though too many are down"),
        pytest.param("rrrrrx", 2, (5, 4), id="those that are not available, and healthy ones with the rest"),
        pytest.param("rrrrxr", 2, (5, 4), id="a healthy one above one that is not available"),
    ],
)
def test_leaders_deleted_before_the_partition_is_lowered_with_max_unavailable(
    letters: str, limit: int, expected: tuple[int, ...]
) -> None:
    facts = RolloutFacts(
        RolloutState(6, Budget(4, 0), 0, groups(letters)), LeaderStatefulSet(6, 6, max_unavailable=limit)
    )
    assert leaders_to_replace(facts, partition=2, replicas=6, starts=99) == expected


@pytest.mark.parametrize(
    ("letters", "partition", "limits", "expected"),
    [
        pytest.param("rrrt", 1, Budget(3, 0), (2, 1), id="all others of the window at once"),
        pytest.param("rrru", 2, Budget(2, 0), (2,), id="behind one that is starting, where it would wait"),
        pytest.param("rrru", 2, Budget(1, 0), (), id="not beyond the budget"),
        pytest.param("rxxu", 1, Budget(1, 0), (2, 1), id="broken ones at no cost"),
        pytest.param("rxru", 1, Budget(2, 0), (1,), id="broken ones first in the budget, healthy ones wait"),
        pytest.param(
            "rxrR", 1, Budget(1, 0), (1,), id="broken ones before the one that may go beyond the budget"
        ),
        pytest.param("tttt", 0, Budget(4, 0), (), id="nothing twice"),
        pytest.param("RRuu", 0, Budget(1, 0), (), id="nothing that is updated"),
        pytest.param("rRRR", 0, Budget(1, 0), (0,), id="at rest: one that came back old"),
    ],
)
def test_leaders_deleted_after_the_controller_has_reported(
    letters: str, partition: int, limits: Budget, expected: tuple[int, ...]
) -> None:
    assert replaced(letters, LeaderStatefulSet(4, partition), limits).replace == expected


def test_nothing_is_deleted_before_the_controller_has_reported() -> None:
    for letters, partition in (("rrrr", 4), ("rrru", 1), ("xxxx", 0)):
        stored = LeaderStatefulSet(4, partition, observed=False)
        assert replaced(letters, stored, Budget(3, 0)).replace == ()


def test_no_leader_is_deleted_that_would_be_recreated_unchanged() -> None:
    same = tuple(dataclasses.replace(group, replaceable=False) for group in groups("rrrr"))
    state = RolloutState(4, Budget(2, 0), 0, same, LeaderStatefulSet(4, 2))
    assert plan_rollout(state).replace == ()


def test_the_old_update_revision_is_ignored_with_a_new_template() -> None:
    """A surge group of the former revision is deleted in the step that stores the new template."""
    same = tuple(dataclasses.replace(group, replaceable=False) for group in groups("rrrrr"))
    state = RolloutState(4, Budget(1, 1), 0, same, LeaderStatefulSet(5, 0, is_current=False))
    rollout = plan_rollout(state)
    assert (rollout.partition, rollout.replicas, rollout.replace) == (4, 5, (4,))


def test_other_leaders_wait_for_the_report_with_a_new_template() -> None:
    state = RolloutState(4, Budget(1, 2), 0, groups("rrrrrr"), LeaderStatefulSet(6, 0, is_current=False))
    rollout = plan_rollout(state)
    assert (rollout.partition, rollout.replicas, rollout.replace) == (4, 6, (5,))


def test_scaled_down_groups_are_left_to_the_controller() -> None:
    rollout = replaced("xxxxxx", LeaderStatefulSet(6, 0, last_replicas=6), Budget(2, 0), replicas=4)
    assert rollout.replicas == 6, "nothing is ready that could stay"
    facts = RolloutFacts(RolloutState(4, Budget(2, 0), 0, groups("xxxxxx")), LeaderStatefulSet(6, 0))
    assert leaders_to_replace(facts, partition=0, replicas=4, starts=99) == (3, 2, 1, 0)


def test_a_raised_floor_protects_groups_that_the_old_partition_covered() -> None:
    state = RolloutState(4, Budget(4, 0), 2, groups("rrrr"), LeaderStatefulSet(4, 0))
    rollout = plan_rollout(state)
    assert (rollout.partition, rollout.replace) == (2, (3, 2))


# --- Groups that have used up their restarts ----------------------------------------------------------------


def kept(letters: str, *indices: int) -> tuple[GroupState, ...]:
    """Return terminating groups. Those with these indices stay until the rollout reaches them."""
    return tuple(
        dataclasses.replace(group, kept=True) if group.index in indices else group
        for group in groups(letters)
    )


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("limits", [Budget(1, 0), Budget(0, 1)], ids=["unavailable", "surge"])
def test_a_rollout_replaces_a_kept_group_without_waiting_for_it(index: int, limits: Budget) -> None:
    letters = ["r"] * 3
    letters[index] = "t"
    stored = LeaderStatefulSet(3, 3)
    for _ in range(12):
        states = kept("".join(letters), *(at for at, letter in enumerate(letters) if letter == "t"))
        rollout = plan_rollout(RolloutState(3, limits, 0, states, stored))
        ready = sum(letter in "rR" for letter in letters) - sum(letters[at] == "r" for at in rollout.replace)
        assert ready >= 2 - limits.unavailable, "no more groups are deleted than allowed"
        assert index not in rollout.replace or letters[index] != "t", "it is being deleted already"
        # The finalizer of a kept pod is removed once the partition has reached the pod.
        deleted = {*rollout.replace, *(at for at, letter in enumerate(letters) if letter == "t")}
        deleted = {at for at in deleted if at >= rollout.partition}
        letters = ["R" if at in deleted else letter for at, letter in enumerate(letters)]
        letters = [*letters, *["R"] * (rollout.replicas - len(letters))][: rollout.replicas]
        stored = LeaderStatefulSet(rollout.replicas, rollout.partition)
    assert letters == ["R"] * 3


def test_a_single_kept_group_is_replaced() -> None:
    rollout = plan_rollout(RolloutState(1, Budget(1, 0), 0, kept("t", 0), LeaderStatefulSet(1, 1)))
    assert (rollout.partition, rollout.replace) == (0, ())


def test_a_kept_group_below_the_partition_stays() -> None:
    rollout = plan_rollout(RolloutState(2, Budget(1, 0), 1, kept("tr", 0), LeaderStatefulSet(2, 2)))
    assert rollout.partition >= 1
