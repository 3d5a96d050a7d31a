"""Tests of a rollout while labels and annotations of all pods are edited: it keeps its budget, and ends."""

from __future__ import annotations

import asyncio

import pytest

from lws.kube.metadata import controller_of, is_terminating
from lws.leaderworkerset.revisions.keys import STATEFULSET_REVISION_LABEL
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, GROUP_KEY_LABEL, REVISION_LABEL, SIZE_ANNOTATION
from test.unit.stories.fake_cluster import NAME
from test.unit.stories.world import World

GROUPS, MOMENTS = 3, range(1, 6)
# Labels by which StatefulSets select their pods are left out: an edit would release the pods.
OF_GROUP = (GROUP_INDEX_LABEL, GROUP_KEY_LABEL)


def edit(world: World, value: str | None) -> None:
    """Set the group and revision labels and the size annotation of all pods to `value`; None removes them."""
    for pod in [obj for obj in world.cluster.of_kind("Pod") if not is_terminating(obj)]:
        owner, metadata = controller_of(pod), pod["metadata"]
        is_leader = owner is not None and owner["name"] == NAME
        labels = {REVISION_LABEL: value, **(dict.fromkeys(OF_GROUP, value) if is_leader else {})}
        edited = {"labels": {**metadata["labels"], **labels}}
        edited["annotations"] = {**metadata["annotations"], SIZE_ANNOTATION: value}
        metadata_patch = {
            field: {k: v for k, v in values.items() if v is not None} for field, values in edited.items()
        }
        world.cluster.change(pod, metadata_patch)


def keys(world: World) -> set[str]:
    """Return the keys of all revisions of the set."""
    return {
        revision["metadata"]["labels"][REVISION_LABEL]
        for revision in world.cluster.of_kind("ControllerRevision")
    }


@pytest.mark.parametrize("value", ["garbage", None, "older", "newer"])
@pytest.mark.parametrize("revisions", ["AB", "CE", "EC"])
def test_a_rollout_with_edited_labels_keeps_its_budget_and_completes(
    revisions: str, value: str | None
) -> None:
    """Every pass is checked against what the manager could see (promises.py)."""
    with asyncio.Runner() as runner:
        for moment in MOMENTS:
            world = World.settled(runner.get_loop(), False, revisions[0], GROUPS)
            old = keys(world)
            world.configure(maxUnavailable=1 + moment % 2)
            world.change(revisions[1])
            try:
                world.go_on_fairly(moment)
                named = {"older": old, "newer": keys(world) - old or old}
                edit(world, min(named[value]) if value in named else value)
                world.settle()
            except AssertionError as error:
                error.add_note(f"at moment {moment}")
                raise


@pytest.mark.parametrize("value", ["garbage", "1", None])
@pytest.mark.parametrize("revision", ["A", "E"])
def test_an_edited_label_deletes_no_pod_of_a_settled_set(revision: str, value: str | None) -> None:
    with asyncio.Runner() as runner:
        world = World.settled(runner.get_loop(), False, revision, GROUPS)
        before = {pod["metadata"]["name"]: pod["metadata"] for pod in world.cluster.of_kind("Pod")}
        edit(world, value)
        world.settle()
        after = {pod["metadata"]["name"]: pod["metadata"] for pod in world.cluster.of_kind("Pod")}
        for field in ("uid", "labels", "annotations"):
            assert {name: metadata[field] for name, metadata in after.items()} == {
                name: metadata[field] for name, metadata in before.items()
            }


@pytest.mark.parametrize("value", ["garbage", "1", None])
@pytest.mark.parametrize("revision", ["A", "E"])
def test_an_edited_label_and_a_lost_history_delete_no_pod(revision: str, value: str | None) -> None:
    with asyncio.Runner() as runner:
        world = World.settled(runner.get_loop(), False, revision, GROUPS)
        before = pods(world)
        for recorded in world.cluster.owned_by(world.lws["metadata"]["uid"], "ControllerRevision"):
            world.cluster.end(recorded)
        edit(world, value)
        world.restart()
        world.settle()
        assert pods(world) == before


def pods(world: World) -> dict[str, tuple[object, ...]]:
    """Return all pods with their UIDs, labels and annotations."""
    all_metadata = [pod["metadata"] for pod in world.cluster.of_kind("Pod")]
    return {
        metadata["name"]: (metadata["uid"], metadata["labels"], metadata["annotations"])
        for metadata in all_metadata
    }


@pytest.mark.parametrize("revisions", ["CE", "EC"])
def test_a_rollout_completes_although_old_leaders_are_labelled_as_updated(revisions: str) -> None:
    """The StatefulSet controller itself skips these leaders from then on."""
    with asyncio.Runner() as runner:
        for moment in MOMENTS:
            world = World.settled(runner.get_loop(), False, revisions[0], GROUPS)
            world.change(revisions[1])
            world.go_on_fairly(moment)
            statefulset = world.cluster.find("StatefulSet", NAME)
            assert statefulset is not None
            noted = {STATEFULSET_REVISION_LABEL: statefulset["status"]["updateRevision"]}
            for pod in world.cluster.owned_by(statefulset["metadata"]["uid"], "Pod"):
                if not is_terminating(pod):
                    world.cluster.change(pod, {"labels": {**pod["metadata"]["labels"], **noted}})
            world.settle()
