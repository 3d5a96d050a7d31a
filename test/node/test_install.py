"""The chart with its defaults on a real node: from nothing to answers, and what happens to managers then."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from test.harness.waiting import eventually
from test.node.groups import Groups, is_ready, manifest, member, restarts, uids
from test.node.managers import SECONDS, all_ready, get, managers, ready_managers, reviewed, upgrade
from test.node.monitoring import targets_of
from test.node.operators import define
from tools.deployment import NAMESPACE
from tools.localcluster import CommandError
from tools.realnode.cluster import RealCluster

IMAGE = "localhost/lws"
MONITOR = "lws-controller-manager-metrics-monitor"


def test_two_replicas_run_that_image_and_none_was_restarted(product: RealCluster) -> None:
    pods = managers(product)
    assert all_ready(pods)
    assert {count for pod in pods.values() for count in restarts(pod).values()} == {0}
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in pods.values()}
    assert image.startswith(f"{IMAGE}:") and image in product.images()


def test_one_of_them_leads_with_the_rights_of_its_pod(product: RealCluster) -> None:
    (lease,) = get(product, "leases", "-n", NAMESPACE)["items"]
    assert [name for name in managers(product) if lease["spec"]["holderIdentity"].startswith(name)]


def test_the_api_server_reaches_the_webhooks_by_their_service(groups: Groups) -> None:
    """With certificates that the manager has made: the API server would not call it otherwise."""
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


def test_metrics_are_scraped_as_the_service_monitor_says(product: RealCluster) -> None:
    define(product, "ServiceMonitor")
    upgrade(product, "--set=enablePrometheus=true")
    pods = ready_managers(product)
    targets = eventually("both managers", lambda: targets_of(product, MONITOR), lambda found: len(found) == 2)
    assert {each.address for each in targets} == {pod["status"]["podIP"] for pod in pods.values()}
    for target in targets:
        assert target.scraped().value("lws_build_info") == 1
        assert target.status_without_token() == 401


def test_another_build_rolls_in_and_back_without_a_lost_review(groups: Groups) -> None:
    cluster, before = groups.cluster, managers(groups.cluster)
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in before.values()}
    other = f"{IMAGE}:other"
    if other not in cluster.images():
        cluster.ctr("images", "tag", image, other)
    with reviewed(groups) as lost:
        upgrade(cluster, "--set=image.manager.tag=other")
        assert {
            pod["spec"]["containers"][0]["image"] for pod in managers(cluster).values() if is_ready(pod)
        } == {other}
        cluster.helm("rollback", "lws", "-n", NAMESPACE, "--wait", "--timeout", "300s")
    assert lost == []
    eventually("the build from before", lambda: managers(cluster), all_ready, SECONDS)
    assert {pod["spec"]["containers"][0]["image"] for pod in managers(cluster).values()} == {image}


def test_a_manager_is_drained_without_a_lost_review(groups: Groups) -> None:
    cluster = groups.cluster
    before = eventually("two managers", lambda: managers(cluster), all_ready, SECONDS)
    name = min(before)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    with reviewed(groups) as lost:
        cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", eviction)
        eventually(
            "another in its place",
            lambda: managers(cluster),
            lambda pods: name not in pods and all_ready(pods),
            SECONDS,
        )
    assert lost == []


def test_both_replicas_are_killed_at_once_under_writes(groups: Groups) -> None:
    """Reviews fail closed until one is back; then everything that was asked for is done."""
    cluster = groups.cluster
    groups.apply(manifest("before", {}, {"containers": [member()]}))
    pods = groups.ready("before", 2)
    wanted = {name: manifest(name, {}, {"containers": [member()]}) for name in ("one", "two")}
    killed = _kill(b"manager\0--config=/controller_manager_config.yaml")
    assert killed == 2
    for each in wanted.values():
        eventually(
            f"{each['metadata']['name']} to be written",
            lambda each=each: _is_written(groups, each),
            seconds=SECONDS,
        )
    for name in wanted:
        groups.ready(name, 2)
    assert uids(groups.pods("before")) == uids(pods)
    after = eventually("both managers", lambda: managers(cluster), all_ready, SECONDS)
    assert [sum(restarts(pod).values()) for pod in after.values()] == [1, 1]


def _is_written(groups: Groups, asked: dict[str, Any]) -> bool:
    try:
        groups.apply(asked)
    except CommandError:
        return False
    return True


def _kill(command: bytes) -> int:
    """SIGKILL every process with this in its command line; only those of this node can be seen."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if command in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
                count += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    return count
