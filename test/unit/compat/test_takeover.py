"""Tests of a set that upstream's controller left: settled groups stay, a rollout makes its next step."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from lws.leaderworkerset.revisions.encoding import key_of, serialised
from lws.runtime.actions import Action, Apply, Create, Merge, Plan
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.compat.observed import Observed
from test.unit.compat.states import load, names

AT_REST = [name for name in names() if name.startswith("at-rest")]
WITHOUT_HISTORY = [name for name in AT_REST if name.endswith("without-history")]
WITH_HISTORY = [name for name in AT_REST if name not in WITHOUT_HISTORY]

OURS_IN_STATUS = {
    "currentRevision",
    "updateRevision",
    "conditions",
    "groups",
    "lastProgressTime",
    "members",
    "rollout",
}
REMEMBER = "Merge LeaderWorkerSet"


def actions_of(plan: Plan) -> list[Action]:
    return [action for sequence in plan.sequences for action in sequence]


def what(action: Action) -> str:
    """Return the type of the action and the kind of its object."""
    kind = action.intent["kind"] if isinstance(action, Apply | Create) else action.target.kind
    return f"{type(action).__name__} {kind}"


def key_in(obj: Any) -> str:
    return str(obj["metadata"]["labels"][REVISION_LABEL])


@pytest.mark.parametrize("name", names())
def test_states_are_consistent(name: str) -> None:
    """Revisions are named after their data, and pods have keys of templates that their StatefulSet holds."""
    state = load(name)
    for revision in state.revisions:
        stem, number = revision["metadata"]["name"].rsplit("-", 1)
        assert (stem, int(number)) == (f"web-{key_of(serialised(revision['data']))}", revision["revision"])
    assert key_in(state.leaders) == key_in(state.leaders["spec"]["template"])
    held = [revision for revision in state.of_kind("ControllerRevision") if revision not in state.revisions]
    for held_revision in held:
        assert key_in(held_revision) == key_in(held_revision["data"]["spec"]["template"])
    assert {key_in(pod) for pod in state.of_kind("Pod")} <= {key_in(held_revision) for held_revision in held}


@pytest.mark.parametrize("name", names())
async def test_statuses_without_observed_generation_change_nothing(name: str) -> None:
    """The field is optional, and simulators omit it: the counters yield the same plans."""
    state = load(name)
    bare = copy.deepcopy(list(state.objects))
    for obj in bare:
        if obj["kind"] == "StatefulSet":
            obj["status"].pop("observedGeneration", None)
    without, usual = Observed(bare), Observed(state.objects)
    assert await without.plan_set() == await usual.plan_set()
    assert await without.plan_groups() == await usual.plan_groups()


@pytest.mark.parametrize("name", WITH_HISTORY)
async def test_at_rest_only_the_status_is_written(name: str) -> None:
    observed = Observed(load(name).objects)
    plan = await observed.plan_set()
    # Making a revision the newest again changes only its number.
    expected = ["Merge ControllerRevision"] if name == "at-rest-with-duplicates" else []
    assert [what(action) for action in actions_of(plan)] == expected
    assert (plan.announce, plan.again_after) == ((), None)
    (status,) = plan.statuses
    assert status.patch.keys() <= OURS_IN_STATUS
    for index, group in (await observed.plan_groups()).items():
        assert group.is_empty, (index, group)
        assert (group.again_after, group.waiting_for) == (None, "")


@pytest.mark.parametrize("name", WITHOUT_HISTORY)
async def test_at_rest_without_history_only_history_and_status_are_written(name: str) -> None:
    state = load(name)
    observed = Observed(state.objects)
    plan = await observed.plan_set()
    (create,) = actions_of(plan)
    assert isinstance(create, Create)
    assert what(create) == "Create ControllerRevision"
    key = key_in(state.leaders)
    assert key_in(create.intent) == key, "the pods keep their key"
    notes = [announce.note for announce in create.announce]
    assert notes == [f"Creating missing revision with key {key} for existing LeaderWorkerSet"]
    (status,) = plan.statuses
    recorded = create.intent["metadata"]["name"]
    assert status.patch["currentRevision"] == status.patch["updateRevision"] == recorded
    assert status.patch.keys() <= OURS_IN_STATUS
    assert all(group.is_empty for group in (await observed.plan_groups()).values())


@pytest.mark.parametrize("name", WITHOUT_HISTORY)
async def test_the_revision_recorded_at_rest_equals_the_revision_of_upstream(name: str) -> None:
    """The state with history contains the same bytes."""
    described = name.removesuffix("-without-history")
    (recorded,) = load("at-rest-v0.10" if described == "at-rest" else described).revisions
    (create,) = actions_of(await Observed(load(name).objects).plan_set())
    assert isinstance(create, Create)
    assert create.intent["data"].text == serialised(recorded["data"])
    assert create.intent["metadata"]["name"] == recorded["metadata"]["name"]


@pytest.mark.parametrize(
    ("name", "partition", "replicas", "why"),
    [
        # States and steps as upstream's controller takes them: first example of its rollout, in letters.
        ("mid-rollout-recorded", 4, 5, "rrrr, new revision"),
        ("mid-rollout-surge", 2, 5, "rrruR"),
        ("mid-rollout-last-step", 0, 4, "uRRRR"),
    ],
    ids=["recorded", "surge", "last step"],
)
async def test_mid_rollout_only_the_next_step_is_taken(
    name: str, partition: int, replicas: int, why: str
) -> None:
    observed = Observed(load(name).objects)
    *memory, apply = actions_of(await observed.plan_set())
    assert [what(action) for action in memory] == ([REMEMBER] if name != "mid-rollout-last-step" else [])
    assert isinstance(apply, Apply), why
    spec = apply.intent["spec"]
    actual = (spec["updateStrategy"]["rollingUpdate"]["partition"], spec["replicas"])
    assert actual == (partition, replicas), why
    assert apply.uid == "uid-of-leaders"
    assert all(group.is_empty for group in (await observed.plan_groups()).values())


@pytest.mark.parametrize("name", ["mid-rollout-surge", "mid-rollout-waiting", "mid-rollout-last-step"])
async def test_mid_rollout_the_status_names_the_old_revision(name: str) -> None:
    """In the last step only the leader StatefulSet still shows the old revision."""
    (status,) = (await Observed(load(name).objects).plan_set()).statuses
    assert status.patch["currentRevision"] == "web-7c54ff9c85-1"
    assert status.patch["updateRevision"] == "web-76b787f5df-2"


async def test_mid_rollout_the_plan_waits_for_the_current_step() -> None:
    observed = Observed(load("mid-rollout-waiting").objects)
    plan = await observed.plan_set()
    assert actions_of(plan) == []
    assert plan.waiting_for == "groups 1 to 2 to be ready"
    assert all(group.is_empty for group in (await observed.plan_groups()).values())


async def test_mid_rollout_a_deleted_revision_is_recorded_again() -> None:
    state = load("mid-rollout-lost-revision")
    create, raise_number, memory, apply = actions_of(await Observed(state.objects).plan_set())
    assert what(memory) == REMEMBER
    assert isinstance(create, Create)
    assert (key_in(create.intent), create.intent["revision"]) == ("7c54ff9c85", 3)
    assert isinstance(raise_number, Merge)
    assert raise_number.patch == {"revision": 4}, "what the set asks for stays the newest"
    assert raise_number.target.name == "web-76b787f5df-2"
    assert what(apply) == "Apply StatefulSet"
    assert [announce.note for announce in apply.announce] == ["Updating replica 2"]


async def test_an_unobserved_edit_is_rolled_out() -> None:
    """First the running revision is recorded, so that groups can be rebuilt; then the target revision; then a
    step.
    """
    state = load("edited-without-history")
    observed = Observed(state.objects)
    plan = await observed.plan_set()
    running, target, memory, apply = actions_of(plan)
    assert what(memory) == REMEMBER
    assert isinstance(running, Create)
    assert (key_in(running.intent), running.intent["revision"]) == (key_in(state.leaders), 1)
    assert '"image":"server:1"' in running.intent["data"].text
    assert "server:2" not in running.intent["data"].text
    assert isinstance(target, Create)
    assert target.intent["revision"] == 2
    assert '"image":"server:2"' in target.intent["data"].text
    assert target.why == "template changed: worker template container server image: server:1 → server:2"
    assert isinstance(apply, Apply)
    strategy = apply.intent["spec"]["updateStrategy"]["rollingUpdate"]
    assert (strategy["partition"], key_in(apply.intent)) == (2, key_in(target.intent))
    (status,) = plan.statuses
    assert status.patch["currentRevision"] == running.intent["metadata"]["name"]
    assert status.patch["updateRevision"] == target.intent["metadata"]["name"]
    assert all(group.is_empty for group in (await observed.plan_groups()).values())


@pytest.mark.parametrize("name", names())
async def test_the_second_pass_records_no_revision_again(name: str) -> None:
    """The second pass sees the history as the first one leaves it, and records nothing."""
    state = load(name)
    plan = await Observed(state.objects).plan_set()
    recorded = [stored(action) for action in actions_of(plan) if isinstance(action, Create)]
    again = await Observed([*raised(state.objects, plan), *recorded]).plan_set()
    assert not [action for action in actions_of(again) if what(action).endswith("ControllerRevision")]


def stored(create: Create) -> dict[str, Any]:
    """Return a revision as the API server would store it."""
    revision = dict(create.intent) | {"data": json.loads(create.intent["data"].text)}
    name = revision["metadata"]["name"]
    revision["metadata"] = {**revision["metadata"], "uid": f"uid-of-{name}", "resourceVersion": "9000"}
    return revision


def raised(objects: Any, plan: Plan) -> list[dict[str, Any]]:
    """Return the objects with the revision numbers that the plan raises."""
    numbers = {
        action.target.name: action.patch["revision"]
        for action in actions_of(plan)
        if isinstance(action, Merge) and "revision" in action.patch
    }
    return [
        {**obj, "revision": numbers[obj["metadata"]["name"]]} if obj["metadata"]["name"] in numbers else obj
        for obj in objects
    ]
