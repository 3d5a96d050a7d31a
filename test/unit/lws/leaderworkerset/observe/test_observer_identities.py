"""Tests that edited labels and annotations of pods and StatefulSets are restored, and no pod is deleted.

The tests edit all that identifies a pod or a StatefulSet, in sets as they ran under upstream.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.kube.metadata import labels_of
from lws.kube.statefulsets import partition_of
from lws.leaderworkerset.group.plan import plan as plan_group
from lws.runtime.actions import Action, Apply, Create, Delete, Merge, Plan
from lws_api.leaderworkerset.v1 import (
    GROUP_INDEX_LABEL,
    GROUP_KEY_LABEL,
    LEADER_NAME_ANNOTATION,
    NAME_LABEL,
    REVISION_LABEL,
    SIZE_ANNOTATION,
    WORKER_INDEX_LABEL,
)
from test.unit.compat.observed import Observed
from test.unit.compat.states import Object, State, load

NOTE = "controller-revision-hash"
LABELS = (NAME_LABEL, WORKER_INDEX_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL)
MARKS = [*(("labels", label) for label in LABELS)]
MARKS += [("annotations", annotation) for annotation in (SIZE_ANNOTATION, LEADER_NAME_ANNOTATION)]
AT_REST, ROLLING, PER_REPLICA = "at-rest-v0.10", "mid-rollout-surge", "at-rest-per-replica"
# Upstream copies this annotation to StatefulSets. The next write removes it.
LEFT_BY_TOOLS = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": None}}


def edited(state: State, kind: str, name: str, mark: tuple[str, str], value: str | None) -> list[Object]:
    """Return all objects, one of them edited."""
    objects = copy.deepcopy(list(state.objects))
    obj = next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))
    values = obj["metadata"].setdefault(mark[0], {})
    if value is None:
        values.pop(mark[1], None)
    else:
        values[mark[1]] = value
    return objects


def actions_of(plan: Plan) -> list[Action]:
    return [action for sequence in plan.sequences for action in sequence]


def merged(stored: Any, patch: Any) -> Any:
    """Return the object after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(stored) if isinstance(stored, dict) else {}
    for key, value in patch.items():
        result = {name: result[name] for name in result if name != key}
        if value is not None:
            result[key] = merged(stored.get(key) if isinstance(stored, dict) else None, value)
    return result


def values_of(state: State) -> list[str | None]:
    """Return the values that labels are edited to: none, garbage, and every other key."""
    return [
        None,
        "garbage",
        "7",
        *sorted({labels_of(revision)[REVISION_LABEL] for revision in state.revisions}),
    ]


async def assert_repaired(state: State, objects: list[Object], name: str) -> None:
    """Assert that the edit is undone, and that the plans for set and groups are unchanged otherwise."""
    before, after = Observed(state.objects), Observed(objects)
    was = state.get("Pod", name)
    now = next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("Pod", name))
    repairs = []
    for leader in _leaders(state):
        index = int(labels_of(leader)[GROUP_INDEX_LABEL])
        usual = actions_of(plan_group(await before.of_group(index)))
        planned = actions_of(plan_group(await after.of_group(index)))
        repairs += [action for action in planned if action not in usual]
        assert [action for action in planned if action in usual] == usual
    assert len(repairs) == (now != was)
    for action in repairs:
        assert isinstance(action, Merge)
        assert (action.target.name, action.target.uid) == (name, was["metadata"]["uid"])
        now = merged(now, action.patch)
    assert now == was
    assert actions_of(await after.plan_set()) == actions_of(await before.plan_set())


@pytest.mark.parametrize("name", [AT_REST, ROLLING, PER_REPLICA])
@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: str(mark[1].rpartition("/")[2]))
async def test_an_edited_leader_is_repaired_and_nothing_else_changes(
    name: str, mark: tuple[str, str]
) -> None:
    state = load(name)
    first, *_, last = _leaders(state)
    for leader in (first, last):
        pod = leader["metadata"]["name"]
        for value in values_of(state):
            objects = edited(state, "Pod", pod, mark, value)
            if mark[1] == NAME_LABEL and value is None:
                continue  # The pod disappears from every stream.
            await assert_repaired(state, objects, pod)


@pytest.mark.parametrize("name", [AT_REST, ROLLING])
@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: str(mark[1].rpartition("/")[2]))
async def test_an_edited_worker_is_repaired_and_nothing_else_changes(
    name: str, mark: tuple[str, str]
) -> None:
    state = load(name)
    for value in values_of(state):
        if mark[1] == NAME_LABEL and value is None:
            continue
        worker = f"{state.lws['metadata']['name']}-0-1"
        await assert_repaired(state, edited(state, "Pod", worker, mark, value), worker)


@pytest.mark.parametrize("name", [AT_REST, ROLLING])
@pytest.mark.parametrize("label", [NAME_LABEL, GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL])
async def test_edited_worker_statefulsets_are_repaired_without_scaling(name: str, label: str) -> None:
    state = load(name)
    workers = f"{state.lws['metadata']['name']}-0"
    was = state.get("StatefulSet", workers)
    for value in values_of(state):
        objects = edited(state, "StatefulSet", workers, ("labels", label), value)
        if value == labels_of(was)[label]:
            continue
        (merge,) = actions_of((await Observed(objects).plan_groups())[0])
        assert isinstance(merge, Merge)
        assert merge.patch == {"metadata": {"labels": {label: labels_of(was)[label]}, **LEFT_BY_TOOLS}}
        assert await Observed(objects).plan_set() == await Observed(state.objects).plan_set()


@pytest.mark.parametrize("name", [AT_REST, ROLLING])
@pytest.mark.parametrize("label", [NAME_LABEL, REVISION_LABEL])
async def test_an_edited_leader_statefulset_replaces_no_group(name: str, label: str) -> None:
    state = load(name)
    usual = actions_of(await Observed(state.objects).plan_set())
    statefulset = next((action.intent for action in usual if isinstance(action, Apply)), state.leaders)
    # A label that is removed by hand also disappears from managedFields; only a real API server shows that.
    for value in filter(None, values_of(state)):
        objects = edited(state, "StatefulSet", state.lws["metadata"]["name"], ("labels", label), value)
        if value == labels_of(state.leaders)[label]:
            continue
        *others, write = actions_of(await Observed(objects).plan_set())
        assert others == usual[:-1]
        assert isinstance(write, Apply)
        assert labels_of(write.intent) == labels_of(state.leaders)
        assert write.intent["spec"]["replicas"] == statefulset["spec"]["replicas"]
        assert partition_of(write.intent) == partition_of(statefulset)


@pytest.mark.parametrize("name", [AT_REST, ROLLING])
async def test_workers_of_a_statefulset_without_its_label_do_not_count_as_lost(name: str) -> None:
    """The StatefulSet has lost its name label. A group that has workers cannot be replaced at no cost."""
    state = load(name)
    workers = f"{state.lws['metadata']['name']}-0"
    objects = edited(state, "StatefulSet", workers, ("labels", NAME_LABEL), None)
    unseen = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("StatefulSet", workers)]
    observed = Observed(objects, late=unseen)
    assert actions_of(await observed.plan_set()) == actions_of(await Observed(state.objects).plan_set())
    (merge,) = actions_of(plan_group(await Observed(objects, late=unseen).of_group(0)))
    assert isinstance(merge, Merge)
    labels = {NAME_LABEL: state.lws["metadata"]["name"]}
    assert merge.patch == {"metadata": {"labels": labels, **LEFT_BY_TOOLS}}


async def test_leaders_edited_at_once_are_repaired_without_deletions() -> None:
    state = load(AT_REST)
    objects = copy.deepcopy(list(state.objects))
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["metadata"]["labels"][REVISION_LABEL] = "garbage"
    observed = Observed(objects)
    planned = [action for plan in (await observed.plan_groups()).values() for action in actions_of(plan)]
    assert all(isinstance(action, Merge) for action in planned)
    assert len(planned) == len(state.of_kind("Pod"))
    assert (await observed.plan_set()).sequences == ()


async def test_workers_are_recreated_from_the_revision_of_their_leader_not_from_its_label() -> None:
    """The StatefulSet of the workers is lost at the same time."""
    state = load(ROLLING)
    lost = {
        ("StatefulSet", f"{state.lws['metadata']['name']}-0"),
        ("Pod", f"{state.lws['metadata']['name']}-0-1"),
    }
    key = labels_of(_leaders(state)[0])[REVISION_LABEL]
    for value in ("garbage", *values_of(state)):
        objects = edited(
            state, "Pod", _leaders(state)[0]["metadata"]["name"], ("labels", REVISION_LABEL), value
        )
        remaining = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) not in lost]
        planned = actions_of((await Observed(remaining).plan_groups())[0])
        (create,) = (action for action in planned if isinstance(action, Create))
        assert labels_of(create.intent)[REVISION_LABEL] == key
        assert not any(isinstance(action, Delete) for action in planned)


async def test_a_leader_of_an_unknown_revision_is_kept_and_reported() -> None:
    """Both labels of the leader were edited, and it has no workers: only a user can decide to delete it."""
    state = load(ROLLING)
    leader = _leaders(state)[0]["metadata"]["name"]
    objects = edited(state, "Pod", leader, ("labels", REVISION_LABEL), "garbage")
    for obj in objects:
        if obj["metadata"]["name"] == leader and obj["kind"] == "Pod":
            obj["metadata"]["labels"][NOTE] = "garbage"
    remaining = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) != ("StatefulSet", leader)]
    plan = (await Observed(remaining).plan_groups())[0]
    assert not any(isinstance(action, Delete | Create) for action in actions_of(plan))
    (warning,) = plan.announce
    assert (warning.type, warning.reason) == ("Warning", "MissingRevision")
    assert f"delete pod {leader}" in warning.note


def _leaders(state: State) -> list[Object]:
    """Return the leaders by index."""
    leaders = [pod for pod in state.of_kind("Pod") if labels_of(pod)[WORKER_INDEX_LABEL] == "0"]
    return sorted(leaders, key=lambda pod: int(labels_of(pod)[GROUP_INDEX_LABEL]))
