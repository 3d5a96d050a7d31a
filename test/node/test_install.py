"""The chart with its defaults on a real node: the installation, and disruptions of the managers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.harness.waiting import eventually
from test.node.builds import COMMIT, load_another_build
from test.node.groups import Groups, is_ready, manifest, member, restarts, uids
from test.node.managers import (
    SECONDS,
    Installed,
    all_ready,
    get,
    managers,
    ready_managers,
    reviewed,
    upgrade,
    upgraded,
)
from test.node.monitoring import targets_of
from test.node.operators import define
from test.node.writers import acted_on, stored, writing
from tools.deployment import NAMESPACE
from tools.localcluster import CommandError
from tools.realnode.cluster import RealCluster

IMAGE = "localhost/lws"
MONITOR = "lws-controller-manager-metrics-monitor"


def test_two_replicas_run_the_image_without_restarts(installed: Installed, product: RealCluster) -> None:
    """This holds as soon as `helm install --wait` returns, on a node that had none of it."""
    assert all_ready(installed.managers)
    assert {count for pod in installed.managers.values() for count in restarts(pod).values()} == {0}
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in installed.managers.values()}
    assert image.startswith(f"{IMAGE}:") and image in product.images()


def test_one_replica_holds_the_lease(installed: Installed) -> None:
    assert [name for name in installed.managers if installed.holder.startswith(name)]


def test_the_api_server_reaches_the_webhooks_through_their_service(groups: Groups) -> None:
    """The API server calls only webhooks whose certificates it trusts; the manager created these."""
    configuration = get(
        groups.cluster, "validatingwebhookconfiguration", "lws-validating-webhook-configuration"
    )
    for webhook in configuration["webhooks"]:
        assert webhook["clientConfig"]["service"]["name"] == "lws-webhook-service"
        assert webhook["clientConfig"]["caBundle"]
    wrong = manifest(
        "wrong",
        {"rolloutStrategy": {"rollingUpdateConfiguration": {"maxUnavailable": 0}}},
        {"containers": [member()]},
    )
    with pytest.raises(CommandError, match=r"admission webhook.*denied the request"):
        groups.apply(wrong)


def test_a_manager_is_drained_without_a_lost_review(groups: Groups) -> None:
    cluster = groups.cluster
    before = eventually("two managers are ready", lambda: managers(cluster), all_ready, SECONDS)
    name = min(before)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    with reviewed(groups) as lost:
        cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", eviction)
        eventually(
            "another manager is ready",
            lambda: managers(cluster),
            lambda pods: name not in pods and all_ready(pods),
            SECONDS,
        )
    assert lost == []


def test_both_replicas_are_killed_at_once_under_writes(groups: Groups) -> None:
    """Reviews fail closed until one replica is back. Then all accepted requests are carried out.

    A client writes before, during and after the outage; every set that the API server accepted is reconciled.
    """
    cluster = groups.cluster
    groups.apply(manifest("before", {}, {"containers": [member()]}))
    pods = groups.ready("before", 2)
    former = {name: sum(restarts(pod).values()) for name, pod in ready_managers(cluster).items()}
    with writing(groups) as written:
        eventually("writes are admitted before the outage", lambda: len(written.taken) > 2, seconds=SECONDS)
        assert _kill(b"manager\0--config=/controller_manager_config.yaml") == 2
        eventually("a write is rejected", lambda: written.refused, seconds=SECONDS)
        count = len(written.taken)
        eventually(
            "writes are admitted after the outage", lambda: len(written.taken) > count + 2, seconds=SECONDS
        )
        groups.apply(manifest("after", {}, {"containers": [member()]}))
        groups.ready("after", 2)
    assert [message for message in written.refused if "webhook" not in message] == []
    assert stored(groups) == set(written.taken)
    eventually(
        "every admitted set has its StatefulSet",
        lambda: acted_on(groups),
        lambda names: names == stored(groups),
        SECONDS,
    )
    assert uids(groups.pods("before")) == uids(pods)
    after = ready_managers(cluster)
    assert {name: sum(restarts(pod).values()) - former[name] for name, pod in after.items()} == {
        name: 1 for name in former
    }


@pytest.fixture(scope="module")
def scraped(product: RealCluster) -> Iterator[RealCluster]:
    """Enable a ServiceMonitor for the following tests, and restore the chart's settings afterwards."""
    define(product, "ServiceMonitor")
    with upgraded(product, "--set=enablePrometheus=true"):
        yield product


def test_metrics_are_scraped_as_the_service_monitor_says(scraped: RealCluster) -> None:
    pods = ready_managers(scraped)
    targets = eventually(
        "both managers are targets", lambda: targets_of(scraped, MONITOR), lambda now: len(now) == 2
    )
    assert {endpoint.address for endpoint in targets} == {pod["status"]["podIP"] for pod in pods.values()}
    for target in targets:
        assert target.scraped().value("lws_build_info") == 1
        assert target.status_without_token() == 401


def test_another_build_rolls_in_and_back_without_a_lost_review(scraped: RealCluster, groups: Groups) -> None:
    first = images(scraped)
    commit = eventually("both managers report a commit", lambda: commits(scraped), lambda now: len(now) == 2)[
        0
    ]
    load_another_build(scraped, f"{IMAGE}:other")
    with reviewed(groups) as lost:
        upgrade(scraped, "--set=image.manager.tag=other")
        assert images(scraped) == {f"{IMAGE}:other"}
        eventually(
            "both managers report the other commit",
            lambda: commits(scraped),
            lambda now: now == [COMMIT] * 2,
            SECONDS,
        )
        scraped.helm("rollback", "lws", "-n", NAMESPACE, "--wait", "--timeout", "300s")
    assert lost == []
    eventually("the former build is ready", lambda: managers(scraped), all_ready, SECONDS)
    assert images(scraped) == first
    assert commit != COMMIT
    eventually(
        "both managers report the former commit",
        lambda: commits(scraped),
        lambda now: now == [commit] * 2,
        SECONDS,
    )


def images(cluster: RealCluster) -> set[str]:
    """Return the images of ready managers."""
    return {pod["spec"]["containers"][0]["image"] for pod in managers(cluster).values() if is_ready(pod)}


def commits(cluster: RealCluster) -> list[str]:
    """Return the commit that each manager reports, or nothing while one is terminating."""
    try:
        scrapes = [target.scraped() for target in targets_of(cluster, MONITOR)]
    except OSError:
        return []
    return [scrape.families["lws_build_info"].samples[0].labels["git_commit"] for scrape in scrapes]


def _kill(command: bytes) -> int:
    """Kill every process with this in its command line; only processes of this node are visible."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
                count += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    return count
