"""Tests of ambiguous revisions: the one that costs no restart is chosen, and the desired one comes last."""

from __future__ import annotations

import copy
from typing import Any

from lws.runtime.actions import Action, Apply, Create, Merge, Plan
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.compat.observed import Observed
from test.unit.compat.states import load

HASH = "7c54ff9c85"
HASH_OF_NEW = "76b787f5df"


def actions_of(plan: Plan) -> list[Action]:
    return [action for sequence in plan.sequences for action in sequence]


def recorded_under_its_hash(number: int) -> dict[str, Any]:
    """Return a revision of the settled set under another key than its pods have."""
    revision = copy.deepcopy(load("at-rest-v0.10").revisions[0])
    revision["metadata"] |= {"name": f"web-{HASH}-{number}", "uid": f"uid-of-revision-{number}"}
    return revision | {"revision": number}


async def test_the_running_one_of_two_equal_revisions_is_chosen() -> None:
    state = load("at-rest-key-of-v0.4")
    (raised,) = actions_of(await Observed([*state.objects, recorded_under_its_hash(2)]).plan_set())
    assert isinstance(raised, Merge)
    assert (raised.target.uid, raised.patch) == ("uid-of-revision-1", {"revision": 3})


async def test_the_running_revision_is_chosen_even_if_only_an_equal_one_is_recorded() -> None:
    state = load("at-rest-without-history")
    (create,) = actions_of(await Observed([*state.objects, recorded_under_its_hash(4)]).plan_set())
    assert isinstance(create, Create)
    labels = create.intent["metadata"]["labels"]
    assert labels[REVISION_LABEL] == state.leaders["metadata"]["labels"][REVISION_LABEL]
    assert create.intent["revision"] == 5


async def test_the_desired_one_of_several_revisions_recorded_again_is_the_newest() -> None:
    state = load("mid-rollout-surge")
    lost = [revision["metadata"]["name"] for revision in state.revisions]
    objects = [obj for obj in state.objects if obj["metadata"]["name"] not in lost]
    old, new, _, apply = actions_of(await Observed(objects).plan_set())
    assert isinstance(old, Create)
    assert isinstance(new, Create)
    keys = [create.intent["metadata"]["labels"][REVISION_LABEL] for create in (old, new)]
    numbers = [create.intent["revision"] for create in (old, new)]
    assert (keys, numbers) == ([HASH, HASH_OF_NEW], [1, 2])
    assert isinstance(apply, Apply)
    assert apply.intent["metadata"]["labels"][REVISION_LABEL] == HASH_OF_NEW


async def test_an_edited_label_of_the_statefulset_is_not_taken_for_a_key() -> None:
    """The template of the StatefulSet contains the key of its pods."""
    state = load("at-rest-v0.10")
    state.leaders["metadata"]["labels"][REVISION_LABEL] = "edited"
    *_, apply = actions_of(await Observed(state.objects).plan_set())
    assert isinstance(apply, Apply)
    assert apply.intent["metadata"]["labels"][REVISION_LABEL] == HASH
    assert apply.intent["spec"]["template"]["metadata"]["labels"][REVISION_LABEL] == HASH
    state.lws["spec"]["leaderWorkerTemplate"]["size"] = 3
    create, *_ = actions_of(await Observed(state.objects).plan_set())
    assert isinstance(create, Create)
    assert create.why == "template changed: size: 2 → 3"
