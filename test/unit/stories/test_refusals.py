"""Tests that rejections by the API server appear in status and Event, whatever the verb.

Work resumes once the API server accepts the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lws.kube import conditions
from lws.runtime.actions import Reference
from lws.runtime.errors import Forbidden
from lws_api.disaggregatedset.v1 import SCALER_KIND
from test.unit.disaggregated import make_disaggregated, make_role
from test.unit.stories import disaggregated_world
from test.unit.stories.fake_cluster import FakeCluster
from test.unit.stories.test_disaggregated_attacks import image
from test.unit.stories.world import World

MESSAGE = "ValidatingAdmissionPolicy 'freeze' denied request: not before Monday"


@contextmanager
def rejected(cluster: FakeCluster, verb: str, kind: str, subresource: str = "") -> Iterator[list[str]]:
    """Reject writes of this verb and kind. Yield the names of the rejected objects."""
    allowed, tried = getattr(cluster, verb), []

    async def rejecting(target: Any, *arguments: Any, **more: Any) -> Any:
        is_reference = isinstance(target, Reference)
        meant, name = (
            (target.kind, target.name) if is_reference else (target["kind"], target["metadata"]["name"])
        )
        if meant != kind or more.get("subresource", "") != subresource:
            return await allowed(target, *arguments, **more)
        tried.append(name)
        raise Forbidden(403, "Forbidden", f'"{name}" is forbidden: {MESSAGE}')

    setattr(cluster, verb, rejecting)
    yield tried
    setattr(cluster, verb, allowed)


def failure(obj: dict[str, Any]) -> str:
    condition = conditions.find((obj.get("status") or {}).get("conditions"), "ReplicaFailure")
    return str(condition["message"]) if condition is not None and condition["status"] == "True" else ""


@pytest.mark.parametrize(
    ("verb", "kind", "message"),
    [
        ("delete", "Pod", f'cannot delete Pod demo-1: "demo-1" is forbidden: {MESSAGE}'),
        ("apply", "StatefulSet", f'cannot update StatefulSet demo: "demo" is forbidden: {MESSAGE}'),
    ],
)
def test_a_rejected_rollout_is_reported_and_resumes_by_itself(verb: str, kind: str, message: str) -> None:
    with asyncio.Runner() as runner:
        world = World.settled(runner.get_loop(), False, "A", 3)
        if verb == "delete":
            # The StatefulSet controller deletes leader 2, and no other leader until that one is gone.
            world.configure(maxUnavailable=2)
            last = world.cluster.find("Pod", "demo-2")
            assert last is not None
            world.nodes.held.add(last["metadata"]["uid"])
        with rejected(world.cluster, verb, kind) as tried:
            world.change("B")
            for _ in range(6):
                world.go_on_fairly(3)
                world.manager.ring()
            assert len(tried) > 2, "it is tried again"
            assert failure(world.lws) == message
            reasons = {group["reason"] for group in world.lws["status"]["groups"]["unsettled"]}
            held_up = message.partition(":")[0]
            reasons -= {"leader pod is terminating"}
            assert reasons == {f"the rollout is blocked, the API server rejects the next step: {held_up}"}
        warnings = [event for event in world.manager.recorder.announced if event.type == "Warning"]
        assert {event.reason for event in warnings} <= {"AdmissionDenied", "FailedUpdate"}
        assert all(MESSAGE in event.note for event in warnings)
        if verb == "delete":
            assert [(event.action, event.note) for event in warnings] == [("Delete", message)], "once"
        world.settle()
        assert failure(world.lws) == ""


@pytest.mark.parametrize("kind", ["Pod", "StatefulSet"])
@pytest.mark.parametrize("has_feature", [False, True])
def test_rejected_deletions_in_a_rollout_block_no_scaling(kind: str, has_feature: bool) -> None:
    with asyncio.Runner() as runner:
        world = World.settled(runner.get_loop(), has_feature, "E", 3)
        world.configure(maxUnavailable=2)
        for pod in list(world.cluster.of_kind("Pod")):
            world.nodes.held.add(pod["metadata"]["uid"])
        with rejected(world.cluster, "delete", kind) as tried:
            world.change("C")
            world.go_on_fairly(4)
            assert tried or has_feature
            world.scale(5)
            world.go_on_fairly(4)
            leaders = world.cluster.find("StatefulSet", "demo")
            assert leaders is not None and leaders["spec"]["replicas"] == 5
        world.settle()


def test_a_set_reports_rejected_recreations_of_groups_in_one_sentence() -> None:
    """Passes over groups meet the rejections, not the pass over the set."""
    with asyncio.Runner() as runner:
        world = World.settled(runner.get_loop(), False, "C", 3)
        with rejected(world.cluster, "delete", "Pod") as tried:
            pods = [pod["metadata"]["name"] for pod in world.cluster.of_kind("Pod")]
            for name in (pod for pod in pods if pod.endswith(("-1-1", "-2-1"))):
                world.strike("crash", pods.index(name))
            for _ in range(6):
                world.go_on_fairly(3)
                world.manager.ring()
            assert {*tried} == {"demo-1", "demo-2"}
            assert failure(world.lws).count(MESSAGE) == 1
        (event,) = [event for event in world.manager.recorder.announced if MESSAGE in event.note]
        assert event.reason == "AdmissionDenied"
        world.settle()
        assert failure(world.lws) == ""


def scale(spec: dict[str, Any]) -> None:
    spec["roles"][0]["spec"]["replicas"] = 1


@pytest.mark.parametrize(
    ("verb", "kind", "word", "change"),
    [
        pytest.param("merge", "LeaderWorkerSet", "update", scale, id="scaled"),
        pytest.param("delete", "LeaderWorkerSet", "delete", image("app:2"), id="drained"),
        pytest.param("delete", "Service", "delete", image("app:2"), id="Service of a former revision"),
    ],
)
def test_a_disaggregatedset_reports_rejected_writes_to_its_children(
    verb: str, kind: str, word: str, change: Any
) -> None:
    with asyncio.Runner() as runner:
        world = disaggregated_world.World(runner.get_loop())
        obj = make_disaggregated()
        del obj["metadata"]["uid"]
        world.cluster.add(obj)
        world.settle()
        with rejected(world.cluster, verb, kind) as tried:
            world.edit(change)
            for _ in range(8):
                world.settle()
                world.manager.ring()
            assert tried
            assert failure(world.get("DisaggregatedSet")).startswith(f"cannot {word} {kind} ")
        events = [event for event in world.manager.recorder.announced if MESSAGE in event.note]
        assert [(event.reason, event.action) for event in events] == [("AdmissionDenied", word.capitalize())]
        for _ in range(4):
            world.manager.ring()
            world.settle()
        assert failure(world.get("DisaggregatedSet")) == ""


def orphan(world: disaggregated_world.World) -> None:
    world.cluster.change(world.children[0], {"ownerReferences": []})


def empty_status(world: disaggregated_world.World) -> None:
    world.cluster.change(world.get(SCALER_KIND, "demo-prefill"), status={})


@pytest.mark.parametrize(
    ("kind", "subresource", "subject", "disrupt"),
    [
        pytest.param("LeaderWorkerSet", "", "LeaderWorkerSet demo-0-", orphan, id="adoption"),
        pytest.param(SCALER_KIND, "status", f"the status of {SCALER_KIND} demo-prefill", empty_status),
    ],
)
def test_a_disaggregatedset_reports_rejected_repairs(
    kind: str, subresource: str, subject: str, disrupt: Any
) -> None:
    with asyncio.Runner() as runner:
        world = disaggregated_world.World(runner.get_loop())
        obj = make_disaggregated(roles=[make_role("prefill", None), make_role("decode")])
        del obj["metadata"]["uid"]
        world.cluster.add(obj)
        world.settle()
        with rejected(world.cluster, "merge", kind, subresource) as tried:
            disrupt(world)
            for _ in range(6):
                world.settle()
                world.manager.ring()
            assert len(tried) > 2, "it is tried again"
            assert failure(world.get("DisaggregatedSet")).startswith(f"cannot update {subject}")
        (event,) = [event for event in world.manager.recorder.announced if MESSAGE in event.note]
        assert (event.regarding.kind, event.reason) == ("DisaggregatedSet", "AdmissionDenied")
        for _ in range(4):
            world.manager.ring()
            world.settle()
        assert failure(world.get("DisaggregatedSet")) == ""
        assert len(world.children) == 2 and world.get(SCALER_KIND, "demo-prefill")["status"]["selector"]


def test_the_rejection_of_a_write_that_is_not_needed_any_more_is_cleared() -> None:
    with asyncio.Runner() as runner:
        world = disaggregated_world.World(runner.get_loop())
        obj = make_disaggregated()
        del obj["metadata"]["uid"]
        world.cluster.add(obj)
        world.settle()
        with rejected(world.cluster, "create", "ControllerRevision"):
            world.edit(image("app:2"))
            world.settle()
            world.manager.ring()
            world.settle()
            assert failure(world.get("DisaggregatedSet"))
            world.edit(image("app:1"))
            world.settle()
        for _ in range(8):
            world.manager.ring()
            world.settle()
        assert failure(world.get("DisaggregatedSet")) == ""
