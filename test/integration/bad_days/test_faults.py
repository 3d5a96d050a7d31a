"""Sets become ready and roll out while the API server is slow, closes watches and expires versions."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from lws.kube.metadata import annotations_of
from lws_api.disaggregatedset.v1 import KIND
from lws_api.leaderworkerset.v1 import GROUP_RESTART_COUNTS_ANNOTATION
from test.harness.disaggregated import standing
from test.harness.disaggregated.manifests import a_disaggregated_set, new_roles, roles
from test.harness.disaggregated.watching import Watch
from test.harness.fault_proxy import (
    CutAfter,
    Delay,
    ErrorEvent,
    Fault,
    ManagerRequest,
    Pages,
    Refuse,
    Rule,
    no_fault,
)
from test.harness.groups import condition, images_of, settle, uids_of_group
from test.harness.manifests import CONTAINER, a_set, new_image
from test.harness.proxied import Stage
from test.harness.waiting import eventually
from test.harness.world import SET, World, an_admin
from tools.localcluster import LocalCluster, Pods

pytestmark = pytest.mark.local_only

NAME = "web"
# With slow answers, a Lease as short as in the other tests would be lost.
LONGER_LEASE = (
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=20s",
    "--leader-elect-retry-period=2s",
)


def slow_responses() -> Rule:
    """Delay every answer by two seconds."""

    def rule(request: ManagerRequest) -> Fault | None:
        return None if request.is_watch else Delay(2.0)

    return rule


def closed_connections() -> Rule:
    """End every watch after a second."""

    def rule(request: ManagerRequest) -> Fault | None:
        return CutAfter(1.0) if request.is_watch else None

    return rule


def expired_watches() -> Rule:
    """Make every second watch impossible to resume, with an error event in the stream."""
    kinds: tuple[Fault, ...] = (CutAfter(1.0), ErrorEvent(410))
    faults = itertools.cycle(kinds)

    def rule(request: ManagerRequest) -> Fault | None:
        return next(faults) if request.is_watch else None

    return rule


def test_a_first_list_that_takes_longer_than_a_watch_may_be_silent_fails_no_liveness_probe(
    stage: Stage, world: World
) -> None:
    def slow_pages(request: ManagerRequest) -> Fault | None:
        return Pages(1, 2.0) if request.collection == "pods" and not request.is_watch else None

    first = stage.start()
    world.create(a_set(NAME, replicas=3, size=3))
    settle(world, NAME)
    assert first.stop() == 0
    with stage.proxy() as proxy:
        proxy.rule = slow_pages
        path = ":".join(map(str, [Path(__file__).with_name("short_silence"), *sys.path]))
        manager = stage.manager(proxy=proxy, environment={"PYTHONPATH": path}).start()
        eventually("the manager lists", lambda: proxy.seen["Pages"])

        def has_listed() -> bool:
            # Other streams wait for their bookmarks, which arrive once a minute.
            assert manager.probe("healthz/pods")[0] == 200, manager.last_words()
            return manager.probe("readyz")[0] == 200

        eventually("the manager has listed", has_listed)
        assert proxy.seen["Pages"] >= 9
        stage.serve(manager)
        proxy.rule = no_fault
        world.patch(SET, NAME, new_image("server:2"))
        settle(world, NAME)


@pytest.mark.parametrize(
    ("rule", "played", "replicas", "size"),
    [
        pytest.param(slow_responses(), {"Delay"}, 1, 1, id="slow responses"),
        pytest.param(closed_connections(), {"CutAfter"}, 2, 2, id="closed connections"),
        pytest.param(expired_watches(), {"ErrorEvent"}, 2, 2, id="expired watches"),
    ],
)
def test_a_set_is_created_and_updated(
    stage: Stage, world: World, rule: Rule, played: set[str], replicas: int, size: int
) -> None:
    with stage.proxy() as proxy:
        manager = stage.start(*LONGER_LEASE, proxy=proxy)
        proxy.rule = rule
        proxy.cut_streams()
        world.create(a_set(NAME, replicas, size))
        settle(world, NAME)
        world.patch(SET, NAME, new_image("server:2"))
        settle(world, NAME)
        assert images_of(world, NAME) == {index: {"server:2"} for index in range(replicas)}
        assert played <= set(proxy.seen)
        assert manager.is_running
        if "Delay" in played:
            assert "stops acting" not in manager.log_path.read_text(), (
                "the manager keeps the Lease despite slow responses"
            )


def test_a_disaggregated_set_is_created_and_updated(stage: Stage, world: World) -> None:
    """Five kinds of streams end again and again, and every decision keeps the guarantees."""
    with stage.proxy() as proxy:
        stage.start(*LONGER_LEASE, proxy=proxy)
        proxy.rule = expired_watches()
        proxy.cut_streams()
        watch = Watch(world)
        world.create(a_disaggregated_set(NAME, roles(2, None)))
        standing.settle(world, NAME)
        world.patch(KIND, NAME, new_roles(roles(2, None, "server:2")))
        standing.settle(world, NAME)
        watch.judge(NAME)
        assert standing.images_of(world, NAME) == {"prefill": {"server:2"}, "decode": {"server:2"}}
        assert "ErrorEvent" in proxy.seen


def test_an_expired_watch_does_not_restart_the_manager(stage: Stage, world: World) -> None:
    """Everything is listed again. A restart would not help as long as the cause persists."""

    def broken(request: ManagerRequest) -> Fault | None:
        return ErrorEvent(500) if request.is_watch and request.collection == "leaderworkersets" else None

    with stage.proxy() as proxy:
        manager = stage.start(proxy=proxy)
        eventually("the manager is active", lambda: "held by this manager" in manager.log_path.read_text())
        proxy.rule = broken
        proxy.cut_streams()
        eventually(
            "the manager lists everything again",
            lambda: manager.log_path.read_text().count("kopf has ended") > 1,
        )
        assert "released" in manager.log_path.read_text()
        assert manager.probe("healthz")[0] == 200
        proxy.rule = no_fault
        world.create(a_set(NAME, 1, 2))
        settle(world, NAME)
        assert manager.is_running


def test_a_failure_counts_once_if_the_manager_ends_before_the_group_is_deleted(
    stage: Stage, world: World, cluster: LocalCluster
) -> None:
    """The restart is counted; each write that records or executes it is refused until the manager ends."""

    def counts() -> dict[str, int]:
        text = annotations_of(world.get(SET, NAME)).get(GROUP_RESTART_COUNTS_ANNOTATION, "{}")
        return {key.rpartition("/")[2]: count for key, count in json.loads(text).items()}

    def after_the_count(request: ManagerRequest) -> Fault | None:
        is_next = request.path.endswith((f"/leaderworkersets/{NAME}/status", f"/pods/{NAME}-0"))
        return Refuse(500) if request.is_write and is_next else None

    with stage.proxy() as proxy, an_admin(cluster) as api:
        manager = stage.start(proxy=proxy)
        world.create(a_set(NAME, replicas=1, size=2, group={"maxGroupRestarts": 1}))
        settle(world, NAME)
        before = uids_of_group(world, NAME, 0)
        proxy.rule = after_the_count
        Pods(api).restart_container(world.namespace, f"{NAME}-0-1", CONTAINER)
        eventually("the restart is counted", counts, lambda now: now == {"0": 1})
        eventually("the next write is refused", lambda: proxy.seen["Refuse"] > 0)
        manager.kill()
        proxy.rule = no_fault
        stage.start(proxy=proxy)
        eventually(
            "the group is recreated",
            lambda: uids_of_group(world, NAME, 0),
            lambda now: now.keys() == before.keys() and not set(now.values()) & set(before.values()),
        )
        settle(world, NAME)
        assert counts() == {"0": 1}
        assert condition(world.get(SET, NAME), "Degraded")["status"] == "False"
