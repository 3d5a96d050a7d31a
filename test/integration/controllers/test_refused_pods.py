"""Pods that the API server rejected many times are created soon after it accepts them."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from lws_api.leaderworkerset.v1 import PODS_RETRIED_AT_ANNOTATION
from test.harness.audit import AuditLog
from test.harness.groups import annotations_of, pod_uids, pods_of, settle
from test.harness.manifests import a_set, pod_template
from test.harness.quiet import let_time_pass, wait_until_quiet, writes
from test.harness.waiting import eventually
from test.harness.world import World

# The StatefulSet controller waits 5 ms, doubled after each rejection; after one more it would wait for 5
# minutes. It writes 25 Events about one object, and then one every 5 minutes.
REJECTIONS = 16
SOON = 60.0


def test_rejected_pods_are_retried_soon_after_they_are_allowed(world: World, audit: AuditLog) -> None:
    """Tested for a leader, and for a worker of another group."""
    world.kubectl("create", "serviceaccount", "runner")
    template = pod_template(serviceAccountName="runner")
    world.create(a_set("tired", workers=template, group={"restartPolicy": "None"}))
    settle(world, "tired")
    uids = pod_uids(world, "tired")

    world.kubectl("delete", "serviceaccount", "runner")
    for pod in ("tired-0-1", "tired-1"):
        world.delete("Pod", pod)
    for statefulset in ("tired-0", "tired"):
        reject_many_times(world, statefulset)
    for statefulset in ("tired-0", "tired"):
        # By then the StatefulSet controller has finished the retries that it made before the longer waits.
        eventually(f"the manager triggers a retry of {statefulset}", partial(retried_at, world, statefulset))
    world.kubectl("create", "serviceaccount", "runner")
    eventually("all pods exist", lambda: pod_uids(world, "tired").keys(), uids.keys().__eq__, SOON)

    settle(world, "tired")
    assert pod_uids(world, "tired")["tired-0"] == uids["tired-0"]
    assert not any(PODS_RETRIED_AT_ANNOTATION in annotations_of(pod) for pod in pods_of(world, "tired"))
    wait_until_quiet(world, audit)
    let_time_pass(audit)
    assert writes(world, audit) == []


def retried_at(world: World, statefulset: str) -> str | None:
    return annotations_of(world.get("StatefulSet", statefulset)).get(PODS_RETRIED_AT_ANNOTATION)


def reject_many_times(world: World, statefulset: str) -> None:
    """Change the StatefulSet repeatedly; every change makes its controller try again, and fail."""
    numbers = itertools.count()

    def try_again() -> int:
        tried = rejections(world, statefulset)
        change = {"example.com/try": str(next(numbers))}
        world.patch("StatefulSet", statefulset, {"metadata": {"annotations": change}})
        return tried

    eventually(f"many pods of {statefulset} were rejected", try_again, lambda tried: tried >= REJECTIONS)


def rejections(world: World, statefulset: str) -> int:
    events = [event for event in world.list("Event") if event["regarding"]["name"] == statefulset]
    return sum(times(event) for event in events if event["reason"] == "FailedCreate")


def times(event: dict[str, Any]) -> int:
    return int((event.get("series") or {}).get("count") or event.get("deprecatedCount") or 1)
