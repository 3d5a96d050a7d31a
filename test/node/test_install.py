"""The chart with its defaults on a real node: from nothing to answers, and what happens to managers then."""

from __future__ import annotations

import json
import os
import signal
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from test.harness.waiting import eventually
from test.node.groups import Groups, is_ready, manifest, member, restarts, uids
from tools.deployment import CHART, NAMESPACE
from tools.localcluster import CommandError
from tools.realnode.cluster import RealCluster

MANAGERS = "control-plane=controller-manager"
IMAGE = "localhost/lws"
SECONDS = 240.0


def managers(cluster: RealCluster) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in cluster.pods.matching(NAMESPACE, MANAGERS)}


def two_ready(pods: dict[str, dict[str, Any]]) -> bool:
    return len(pods) == 2 and all(map(is_ready, pods.values()))


def get(cluster: RealCluster, *what: str) -> dict[str, Any]:
    return dict(json.loads(cluster.kubectl("get", *what, "-o", "json")))


def test_two_replicas_run_that_image_and_none_was_restarted(product: RealCluster) -> None:
    pods = managers(product)
    assert two_ready(pods)
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


def test_metrics_are_read_through_their_service(product: RealCluster) -> None:
    _upgrade(product, "--set=enablePrometheus=true", "--set=prometheus.serviceMonitor=false")
    product.kubectl("create", "serviceaccount", "scraper", "-n", "default")
    product.kubectl(
        "create",
        "clusterrolebinding",
        "scraper",
        "--clusterrole=lws-metrics-reader",
        "--serviceaccount=default:scraper",
    )
    service = get(product, "service", "lws-controller-manager-metrics-service", "-n", NAMESPACE)
    token = product.kubectl("create", "token", "scraper", "-n", "default").strip()
    text = eventually("metrics", lambda: _scraped(service["spec"]["clusterIP"], token))
    assert "lws_" in text or "controller_runtime" in text


def _scraped(address: str, token: str) -> str:
    request = urllib.request.Request(
        f"https://{address}:8443/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, timeout=10, context=trusting) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_another_build_rolls_in_and_back_without_a_lost_review(groups: Groups) -> None:
    cluster, before = groups.cluster, managers(groups.cluster)
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in before.values()}
    other = f"{IMAGE}:other"
    if other not in cluster.images():
        cluster.ctr("images", "tag", image, other)
    with _reviews(groups) as lost:
        _upgrade(cluster, "--set=image.manager.tag=other")
        assert {
            pod["spec"]["containers"][0]["image"] for pod in managers(cluster).values() if is_ready(pod)
        } == {other}
        cluster.helm("rollback", "lws", "-n", NAMESPACE, "--wait", "--timeout", "300s")
    assert lost == []
    eventually("the build from before", lambda: managers(cluster), two_ready, SECONDS)
    assert {pod["spec"]["containers"][0]["image"] for pod in managers(cluster).values()} == {image}


def test_a_manager_is_drained_without_a_lost_review(groups: Groups) -> None:
    cluster = groups.cluster
    before = eventually("two managers", lambda: managers(cluster), two_ready, SECONDS)
    name = min(before)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    with _reviews(groups) as lost:
        cluster.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", eviction)
        eventually(
            "another in its place",
            lambda: managers(cluster),
            lambda pods: name not in pods and two_ready(pods),
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
    after = eventually("both managers", lambda: managers(cluster), two_ready, SECONDS)
    assert [sum(restarts(pod).values()) for pod in after.values()] == [1, 1]


def _upgrade(cluster: RealCluster, *settings: str) -> None:
    arguments = ("upgrade", "lws", str(CHART), "-n", NAMESPACE, "--reset-then-reuse-values")
    cluster.helm(*arguments, "--wait", "--timeout", "300s", *settings)


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


@contextmanager
def _reviews(groups: Groups) -> Iterator[list[str]]:
    """Have a set reviewed all the time, without storing it; what was refused meanwhile, in the end."""
    ended, lost = threading.Event(), list[str]()
    asked = manifest("reviewed", {}, {"containers": [member()]})
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{groups.namespace}/leaderworkersets?dryRun=All"
    thread = threading.Thread(
        target=_review, args=(lambda: groups.cluster.api.create(path, asked), ended, lost)
    )
    thread.start()
    try:
        yield lost
    finally:
        ended.set()
        thread.join()


def _review(ask: Callable[[], object], ended: threading.Event, lost: list[str]) -> None:
    count = 0
    while not ended.wait(0.05):
        try:
            ask()
            count += 1
        except Exception as error:
            lost.append(f"{time.strftime('%X')} after {count}: {error}")
    if not count:
        lost.append("none was answered")
