"""Tests of groups whose revision is gone: rebuilt as they ran, or moved to the current one, never stuck."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.metadata import labels_of
from lws.runtime.actions import Action, Create, Delete, Merge, Plan, Reference
from lws_api.leaderworkerset.v1 import REVISION_LABEL
from test.unit.compat.observed import Observed
from test.unit.compat.states import Object, State, load

OLD_KEY = "7c54ff9c85"
OLD_TEMPLATE = "ControllerRevision web-7d4b9c5f66"
"""The leader StatefulSet's own revision, which groups 0 to 2 were created from."""


def without(state: State, *titles: str) -> list[Object]:
    """Return the objects of the state without those named, each as `Kind name`."""
    by_title = {f"{obj['kind']} {obj['metadata']['name']}": obj for obj in state.objects}
    assert set(titles) <= by_title.keys()
    return [obj for title, obj in by_title.items() if title not in titles]


def actions_of(plan: Plan) -> list[Action]:
    return [action for sequence in plan.sequences for action in sequence]


def recorded(plan: Plan, key: str = OLD_KEY) -> Create | None:
    """Return the action that records the revision of this key, or None."""
    creates = [action for action in actions_of(plan) if isinstance(action, Create)]
    return next(
        (create for create in creates if create.intent["metadata"]["labels"][REVISION_LABEL] == key), None
    )


def image_of(statefulset: Any) -> str:
    return str(statefulset["spec"]["template"]["spec"]["containers"][0]["image"])


def workers_of(*indices: int) -> list[str]:
    return [f"StatefulSet web-{index}" for index in indices] + [f"Pod web-{index}-1" for index in indices]


@pytest.fixture
def state() -> State:
    return load("mid-rollout-lost-revision")


async def test_a_complete_group_needs_nothing(state: State) -> None:
    plans = await Observed(state.objects).plan_groups()
    assert all(plan.is_empty for plan in plans.values())


async def test_lost_workers_are_recreated_like_those_of_a_sibling(state: State) -> None:
    observed = Observed(without(state, *workers_of(0)))
    (create,) = actions_of((await observed.plan_groups())[0])
    assert isinstance(create, Create)
    assert create.intent["metadata"]["name"] == "web-0"
    assert create.intent["metadata"]["labels"][REVISION_LABEL] == OLD_KEY
    assert image_of(create.intent) == "server:1", "not what the set asks for now"
    assert create.intent["spec"]["template"]["metadata"]["annotations"] == {
        "leaderworkerset.sigs.k8s.io/leader-address": "web-0.web.default",
        "leaderworkerset.sigs.k8s.io/leader-name": "web-0",
        "leaderworkerset.sigs.k8s.io/size": "2",
    }


async def test_a_leader_without_workers_proves_the_old_template_too(state: State) -> None:
    """All nodes of the old groups were drained: their leaders were recreated with the old template."""
    observed = Observed(without(state, *workers_of(0, 1, 2)))
    plan = await observed.plan_set()
    create = recorded(plan)
    assert create is not None
    warning = create.announce[1]
    assert (warning.type, warning.reason) == ("Warning", "RevisionIncomplete")
    assert "the template of its workers" in warning.note
    text = create.intent["data"].text
    assert '"leaderTemplate":{"metadata":{"labels":{"role":"leader"}},"spec":{"containers":[{"args"' in text
    assert (
        text.index('"image":"server:1"') < text.index('"workerTemplate"') < text.index('"image":"server:2"')
    )
    (workers,) = actions_of((await observed.plan_groups())[0])
    assert isinstance(workers, Create)
    assert image_of(workers.intent) == "server:2"


async def test_a_template_that_recreated_leaders_would_lack_is_not_recorded(state: State) -> None:
    """The StatefulSet of the leaders has lost the template. Templates of workers can still be read."""
    objects = without(state, OLD_TEMPLATE)
    assert recorded(await Observed(objects).plan_set()) is None
    plans = await Observed(objects).plan_groups()
    assert all(plan.is_empty for plan in plans.values())


async def test_a_group_whose_template_is_lost_moves_to_the_current_revision(state: State) -> None:
    observed = Observed(without(state, OLD_TEMPLATE, *workers_of(0, 1, 2)))
    plans = await observed.plan_groups()
    for index in (0, 1, 2):
        (delete,) = actions_of(plans[index])
        assert isinstance(delete, Delete)
        assert delete.target == Reference.to(state.get("Pod", f"web-{index}"))
        assert delete.propagation == "Foreground"
        (event,) = delete.announce
        assert (event.type, event.reason) == ("Warning", "MissingRevision")
        assert event.note == (
            f"leader pod web-{index} has revision key '{OLD_KEY}', of which no ControllerRevision is left, "
            f"nor a StatefulSet: group {index} is recreated from the current revision"
        )
    assert plans[3].is_empty
    assert plans[4].is_empty


async def test_a_group_of_one_pod_needs_no_revision() -> None:
    state = load("at-rest-one-template")
    objects = [obj for obj in state.objects if obj not in state.revisions]
    leaders = state.leaders
    for obj in (leaders, leaders["spec"]["template"]):
        obj["metadata"]["labels"][REVISION_LABEL] = "another"
    plans = await Observed(objects).plan_groups()
    assert all(plan.is_empty for plan in plans.values())


async def test_pods_without_a_key_wait_for_a_rollout(state: State) -> None:
    """Pods that lost their key are another case: here the templates of the pods have no key, either."""
    templates = [statefulset["spec"]["template"] for statefulset in state.of_kind("StatefulSet")]
    templates += [
        revision["data"]["spec"]["template"]
        for revision in state.of_kind("ControllerRevision")
        if "template" in revision["data"]["spec"]
    ]
    for obj in (
        *templates,
        *(labelled for labelled in state.objects if REVISION_LABEL in labels_of(labelled)),
    ):
        is_record = obj.get("kind") == "ControllerRevision" and "template" not in obj["data"]["spec"]
        if not is_record:
            obj["metadata"]["labels"].pop(REVISION_LABEL, None)
    plans = await Observed(state.objects).plan_groups()
    assert all(plan.is_empty for plan in plans.values())
    assert plans[0].waiting_for == "a rollout: the group belongs to no revision"


async def test_a_container_restart_still_recreates_the_group(state: State) -> None:
    pod = state.get("Pod", "web-1-1")
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    remember, delete, workers = actions_of((await Observed(without(state, OLD_TEMPLATE)).plan_groups())[1])
    assert isinstance(remember, Merge) and isinstance(delete, Delete) and isinstance(workers, Delete)
    assert delete.target.name == "web-1"
    assert delete.why.startswith("pod web-1-1: container ")


async def test_a_revision_that_only_the_cache_lacks_is_not_written_again(state: State) -> None:
    """A list that bypasses every cache finds the revision."""
    complete = load("mid-rollout-surge")
    lost = [revision for revision in complete.revisions if revision["revision"] == 1]
    late = Observed(complete.objects, late=lost)
    plan = await late.plan_set()
    assert recorded(plan) is None
    snapshot = await Observed(complete.objects, late=lost).of_group(0)
    assert snapshot.revision is not None
    assert snapshot.revision.name == lost[0]["metadata"]["name"]
    assert snapshot.unrecorded_templates is None
