"""With spec.rolloutStrategy.prewarm, nodes pull new images before a rollout replaces the first group."""

from __future__ import annotations

from typing import Any

from lws_api.leaderworkerset.v1 import NAME_LABEL, PREWARM_LABEL, PREWARM_NODE_ANNOTATION
from test.harness.events import events_of, wait_for_events
from test.harness.groups import annotations_of, images_of, labels_of, pod_uids, pods_of, settle
from test.harness.manifests import a_set, new_image, pod_template
from test.harness.product import Product
from test.harness.refusal import MESSAGE as REFUSAL
from test.harness.refusal import prewarm_pods_refused
from test.harness.waiting import eventually, stays
from test.harness.world import SET, World

SLOW = "server:2-pulls-300s"
"""An image that pods of Jobs pull for 300 s. Pods of the set become ready by their annotation."""


def a_warm_set(name: str, replicas: int = 2, **prewarm: Any) -> dict[str, Any]:
    workers = pod_template(annotations={"localcluster/ready-after": "1s"})
    return a_set(name, replicas, workers=workers, rolloutStrategy={"prewarm": prewarm})


def jobs_of(world: World, name: str) -> list[dict[str, Any]]:
    return world.list("Job", f"{NAME_LABEL}={name}")


def pods_of_jobs(world: World, name: str) -> list[dict[str, Any]]:
    return world.list("Pod", f"{PREWARM_LABEL}={name}")


def nodes_of(pods: list[dict[str, Any]]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


def wait_until_nothing_is_left(world: World, name: str) -> None:
    eventually(
        f"Jobs of {name} and their pods are gone",
        lambda: (jobs_of(world, name), pods_of_jobs(world, name)),
        lambda remaining: remaining == ([], []),
    )


def wait_for_prewarming(world: World, name: str, nodes: int) -> None:
    """Wait until the rollout waits for `nodes` nodes."""
    eventually(
        f"{name} waits for {nodes} nodes",
        lambda: world.get(SET, name)["status"].get("prewarm") or {},
        lambda progress: progress.get("nodes") == nodes and "completionTime" not in progress,
    )


def test_the_rollout_starts_after_the_images_are_pulled(world: World) -> None:
    world.create(a_warm_set("warm"))
    settle(world, "warm")
    before, homes = pod_uids(world, "warm"), nodes_of(pods_of(world, "warm"))
    world.patch(SET, "warm", new_image("server:2-pulls-3s"))
    wait_for_prewarming(world, "warm", len(homes))
    warming = eventually(
        "each node has a pod", lambda: pods_of_jobs(world, "warm"), lambda p: nodes_of(p) == homes
    )
    assert pod_uids(world, "warm") == before
    # A pod with this label would count as a pod of the set for its PodDisruptionBudget, webhook and
    # controller.
    assert not any(NAME_LABEL in labels_of(pod) for pod in warming)
    assert {c["image"] for pod in warming for c in pod["spec"]["containers"]} == {"server:2-pulls-3s"}
    by_job = {
        job["metadata"]["name"]: annotations_of(job)[PREWARM_NODE_ANNOTATION]
        for job in jobs_of(world, "warm")
    }
    assert {by_job[labels_of(pod)["job-name"]] == pod["spec"]["nodeName"] for pod in warming} == {True}

    settle(world, "warm")
    assert images_of(world, "warm") == {0: {"server:2-pulls-3s"}, 1: {"server:2-pulls-3s"}}
    (event,) = wait_for_events(world, "warm", "Prewarmed")
    assert event.note.startswith(f"{len(homes)} of {len(homes)} nodes are prewarmed for revision warm-")
    wait_until_nothing_is_left(world, "warm")
    assert "prewarm" not in world.get(SET, "warm")["status"]
    # The next rollout has no new image.
    world.patch(
        SET, "warm", {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"priority": 0}}}}}
    )
    settle(world, "warm")
    assert len([event for event in events_of(world, "warm") if event.reason == "Prewarmed"]) == 1


def test_jobs_that_are_deleted_after_their_end_are_not_created_again(world: World, product: Product) -> None:
    """A cleaner deletes each Job as soon as it has ended; the manager restarts meanwhile."""
    world.create(a_warm_set("cleaned", deadlineSeconds=300, parallelism=1))
    settle(world, "cleaned")
    homes, created = nodes_of(pods_of(world, "cleaned")), dict[str, str]()
    assert len(homes) > 1

    def recorded_results() -> dict[str, str]:
        """Delete the Jobs that have ended, and return the results that the status records."""
        for job in jobs_of(world, "cleaned"):
            metadata = job["metadata"]
            created[metadata["uid"]] = annotations_of(job)[PREWARM_NODE_ANNOTATION]
            ended = {
                c["type"] for c in job.get("status", {}).get("conditions") or () if c["status"] == "True"
            }
            results = (world.get(SET, "cleaned")["status"].get("prewarm") or {}).get("results") or {}
            if "Complete" in ended and metadata["name"].rpartition("-")[2] in results:
                world.delete("Job", metadata["name"])
        return dict((world.get(SET, "cleaned")["status"].get("prewarm") or {}).get("results") or {})

    world.patch(SET, "cleaned", new_image("server:2-pulls-2s"))
    eventually("a node is done", recorded_results, bool)
    product.restart()
    # Without a memory, the first node would get Jobs until the deadline.
    eventually("the rollout begins", recorded_results, lambda results: not results)
    settle(world, "cleaned")
    assert sorted(created.values()) == sorted(homes)
    (event,) = wait_for_events(world, "cleaned", "Prewarmed")
    assert event.note.startswith(f"{len(homes)} of {len(homes)} nodes are prewarmed")


def test_the_rollout_starts_at_the_deadline(world: World) -> None:
    world.create(a_warm_set("late", deadlineSeconds=8))
    settle(world, "late")
    before, homes = pod_uids(world, "late"), nodes_of(pods_of(world, "late"))
    world.patch(SET, "late", new_image(SLOW))
    wait_for_prewarming(world, "late", len(homes))
    assert pod_uids(world, "late") == before
    settle(world, "late")
    (event,) = wait_for_events(world, "late", "PrewarmIncomplete")
    assert (event.type, event.note[:5]) == ("Warning", "0 of ")
    assert "DeadlineExceeded" in event.note
    wait_until_nothing_is_left(world, "late")


def test_rejected_jobs_are_reported_and_do_not_block_the_rollout(world: World) -> None:
    world.create(a_warm_set("refused"))
    settle(world, "refused")
    with prewarm_pods_refused(world):
        world.patch(SET, "refused", new_image("server:2"))
        settle(world, "refused")
        (event,) = wait_for_events(world, "refused", "PrewarmIncomplete")
    assert REFUSAL in event.note
    wait_until_nothing_is_left(world, "refused")


def test_a_rollback_and_a_deletion_delete_the_jobs(world: World) -> None:
    world.create(a_warm_set("undone", 1))
    settle(world, "undone")
    before, homes = pod_uids(world, "undone"), nodes_of(pods_of(world, "undone"))
    world.patch(SET, "undone", new_image(SLOW))
    wait_for_prewarming(world, "undone", len(homes))
    world.patch(SET, "undone", new_image("server:1"))
    wait_until_nothing_is_left(world, "undone")
    settle(world, "undone")
    assert pod_uids(world, "undone") == before

    world.patch(SET, "undone", new_image(SLOW))
    eventually("prewarming pods exist", lambda: pods_of_jobs(world, "undone"), bool)
    world.delete(SET, "undone")
    wait_until_nothing_is_left(world, "undone")


def test_a_set_is_scaled_during_prewarming(world: World) -> None:
    world.create(a_warm_set("scaled", 1))
    settle(world, "scaled")
    before, homes = pod_uids(world, "scaled"), nodes_of(pods_of(world, "scaled"))
    world.patch(SET, "scaled", new_image(SLOW))
    wait_for_prewarming(world, "scaled", len(homes))
    world.patch(SET, "scaled", {"spec": {"replicas": 2}})
    eventually(
        "the second group is ready",
        lambda: world.get(SET, "scaled")["status"],
        lambda status: status.get("readyReplicas") == 2,
    )
    stays("the first group is kept", lambda: before.items() <= pod_uids(world, "scaled").items(), 2)
