"""lws.cli.views.plan: how the steps of a rollout read."""

from __future__ import annotations

from lws.cli.blocks import plain
from lws.cli.views.plan import steps_blocks
from lws.leaderworkerset.rollout.groups import LeaderStatefulSet
from lws.leaderworkerset.rollout.simulation import Simulation, simulate
from lws.leaderworkerset.rollout.state import RolloutState, budget
from test.unit.stories.letters import groups


def test_a_rollout() -> None:
    stored = LeaderStatefulSet(replicas=2, partition=0, last_replicas=2, is_current=False)
    state = RolloutState(2, budget(2, 1, 0), groups=groups("rr"), statefulset=stored)
    assert list(plain(steps_blocks(simulate(state)))) == [
        "steps, if every new group gets ready:",
        "STEP   READY   UPDATED   PARTITION   REPLICAS   WHAT",
        "1      2       0         0 → 2       2          there is a new revision: groups move to it from the "
        "highest index down",
        "2      2       0         2 → 1       2          group 1 may move to the new revision: 2 groups are "
        "ready, 1 must stay; replacing group 1",
        "3      2       1         1 → 0       2          group 0 may move to the new revision: 2 groups are "
        "ready, 1 must stay; replacing group 0",
    ]


def test_a_creation() -> None:
    lines = list(plain(steps_blocks(simulate(RolloutState(2, budget(2, 1, 0))))))
    assert lines[2] == "1      0       0         0           2          2 groups to be created"


def test_nothing_to_do() -> None:
    assert list(plain(steps_blocks(Simulation((), (), "")))) == ["no steps: everything is as the set asks"]


def test_the_last_word() -> None:
    stored = LeaderStatefulSet(replicas=2, partition=0, last_replicas=2, is_current=False)
    state = RolloutState(2, budget(2, 1, 0), groups=groups("rr"), statefulset=stored, paused=True)
    assert list(plain(steps_blocks(simulate(state))))[-1] == "and then waits for the rollout to be resumed"
