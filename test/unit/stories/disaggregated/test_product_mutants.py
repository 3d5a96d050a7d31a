"""Tests that a pass that breaks a promise is caught by that promise when the whole product is played, too."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from lws.disaggregatedset import plan
from lws.runtime.actions import Object, Plan
from lws.runtime.children import repair
from lws_api.leaderworkerset.v1 import EXCLUSIVE_TOPOLOGY_ANNOTATION
from test.unit.stories.disaggregated.test_mutants import MUTANTS
from test.unit.stories.disaggregated.test_product_machine import BUDGETS, Machine
from test.unit.stories.disaggregated_world import CHILD
from test.unit.stories.test_disaggregated_attacks import begin, image

MOST_SEEDS = 60

whole = plan._plan_whole


def recorded_last(snapshot: Any, target: Any) -> Plan:
    """Create children of a revision before the revision is recorded."""
    planned = whole(snapshot, target)
    if not target.actions:
        return planned
    (sequence,) = planned.sequences
    recording = len(target.actions)
    return replace(planned, sequences=((*sequence[recording:], *sequence[:recording]),))


def rolling(_: str, child: Object, *__: Any) -> Plan:
    """Write edits of a role into the template of running children."""
    metadata = {"labels": {"edited": "true"}}
    template = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"metadata": metadata}}}}
    return repair(child, {"edited": template})


def moving(_: str, child: Object, *__: Any) -> Plan:
    """Write edits of the placement into running children."""
    return repair(child, {"edited": {"metadata": {"annotations": {EXCLUSIVE_TOPOLOGY_ANNOTATION: "rack"}}}})


@pytest.mark.parametrize(
    ("name", "mutant", "promise"),
    [
        pytest.param("_plan_whole", recorded_last, "record", id="a revision is recorded after its children"),
        pytest.param("plan_role_upkeep", rolling, "reason", id="an edit of a role restarts running pods"),
        pytest.param(
            "plan_role_upkeep", moving, "reason", id="an edit of the placement restarts running pods"
        ),
    ],
)
def test_a_mutant_breaks_the_promise_of_its_rule(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, name: str, mutant: Any, promise: str
) -> None:
    attack = begin(loop, BUDGETS[0])
    monkeypatch.setattr(plan, name, mutant)
    attack.world.edit(image("b"))
    with pytest.raises(AssertionError, match=f"^{promise}: "):
        attack.go()


def play(seed: int) -> None:
    """Play a set with random events, then until it settles."""
    dice, machine = random.Random(seed), Machine()
    roles = [(dice.choice((1, 2, 3, 4)), dice.choice(BUDGETS)) for _ in range(dice.choice((2, 2, 3)))]
    try:
        machine.begin(roles=roles, slices=1, most_updating=None, is_new=False, course=0)
        for _ in range(dice.randint(1, 4)):
            course = dice.randrange(2**20)
            match dice.randrange(5):
                case 0 | 1:
                    machine.change_image(image=dice.choice("abc"), course=course)
                case 2:
                    machine.scale(count=dice.randint(1, 4), course=course)
                case 3:
                    machine.lose_readiness(failure=dice.choice(("crash", "hang", "fail")), course=course)
                case 4:
                    machine.lose(kind=CHILD, course=course)
        machine.teardown()
    finally:
        machine.loop.close()


@pytest.mark.parametrize(
    "name",
    [
        "groups that terminate are no surge",
        "old groups cost nothing",
        "every group counts as ready",
        "new roles are created one by one",
        "all new groups are created at once",
        "old groups are deleted two steps at a time",
        "the oldest revision is deleted first",
        "missing roles of old revisions are recreated",
        "new counts fall too far",
        "the last group of a role is never deleted",
        "unready is done",
        "waiting says nothing",
    ],
)
def test_a_planner_that_breaks_a_rule_is_caught_by_its_writes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, attribute, replacement, promise = MUTANTS[name]
    monkeypatch.setattr(target, attribute, replacement)
    caught = set()
    for seed in range(MOST_SEEDS):
        try:
            play(seed)
        except AssertionError as error:
            caught.add(str(error).partition(":")[0])
            if promise in caught:
                return
    raise AssertionError(f"{name} broke only {caught or 'nothing'}")
