"""Webhook certificates on a real node: rotated by the manager itself, and by cert-manager."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from test.harness.waiting import eventually
from test.node.cert_manager import CertManager
from test.node.certificates import NAME, SECRET, authority, presented_by, server, store
from test.node.groups import Groups, Pod, manifest, member
from test.node.managers import (
    DEPLOYMENT,
    SECONDS,
    all_ready,
    is_answered,
    managers,
    ready_managers,
    reviewed,
    standing,
    to_defaults,
    upgrade,
)
from test.node.monitoring import targets_of
from test.node.operators import define
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.localcluster import CommandError
from tools.realnode.cluster import RealCluster

SHORT = timedelta(hours=1)
LONG = timedelta(days=300)
SERVING, METRICS = "lws-serving-cert", "lws-metrics-cert"
MONITOR = "lws-controller-manager-metrics-monitor"


def scaled(cluster: RealCluster, count: int) -> dict[str, Pod]:
    """Scale the managers, wait, and return their pods."""
    cluster.kubectl("scale", "deployment", DEPLOYMENT, "-n", NAMESPACE, f"--replicas={count}")
    return eventually(
        f"{count} managers are ready", lambda: managers(cluster), lambda pods: all_ready(pods, count), SECONDS
    )


def ends(pods: dict[str, Pod]) -> list[datetime]:
    return [presented_by(pod).not_valid_after_utc for pod in pods.values()]


def test_an_expiring_certificate_is_replaced_while_reviews_are_answered(groups: Groups) -> None:
    """CA and certificate expire within the hour. A manager replaces them without losing a review."""
    cluster = groups.cluster
    ready_managers(cluster)
    scaled(cluster, 0)
    signer = authority(SHORT)
    short = server([NAME, f"{NAME}.cluster.local"], SHORT, signer)
    pairs = {"ca": signer, "tls": short}
    contents = {f"{name}.crt": pair.pem for name, pair in pairs.items()}
    store(cluster, SECRET, contents | {f"{name}.key": pair.key_pem for name, pair in pairs.items()})
    (first,) = scaled(cluster, 1)
    eventually("writes are admitted", lambda: is_answered(groups), seconds=SECONDS)
    with reviewed(groups) as lost:
        pods = scaled(cluster, 2)
        eventually(
            "both managers present a long-lived certificate",
            lambda: ends(pods),
            lambda seen: min(seen) > datetime.now(UTC) + LONG,
            SECONDS,
        )
        # The CA is new too, so callers have to connect again.
        eventually("writes are admitted with the new certificate", lambda: is_answered(groups))
    assert lost == []
    assert standing(managers(cluster)) == standing(pods)
    log = cluster.kubectl("logs", "-n", NAMESPACE, first)
    lasting = ends({first: pods[first]})
    served = [f"ends on {moment}" for moment in (short.certificate.not_valid_after_utc, *lasting)]
    assert -1 < log.find(served[0]) < log.find(served[1]), log


@pytest.fixture(scope="module")
def by_cert_manager(product: RealCluster) -> Iterator[CertManager]:
    """Enable enableCertManager in the chart, and restore its settings afterwards."""
    define(product, "Certificate", "Issuer", "ServiceMonitor")
    with CertManager(product).running() as issuer:
        upgrade(product, "--set=enableCertManager=true,enablePrometheus=true")
        ready_managers(product)
        yield issuer
    to_defaults(product)


def test_reviews_are_answered_with_certificates_of_cert_manager(
    by_cert_manager: CertManager, groups: Groups
) -> None:
    issued = by_cert_manager.issued(SERVING).certificate
    pods = ready_managers(groups.cluster)
    assert [presented_by(pod) for pod in pods.values()] == [issued] * 2
    eventually("writes are admitted", lambda: is_answered(groups), seconds=SECONDS)
    with reviewed(groups) as lost:
        groups.apply(manifest("admitted", {}, {"containers": [member()]}))
        groups.ready("admitted", 2)
    assert lost == []


def test_the_manager_may_neither_read_secrets_nor_change_webhooks(
    by_cert_manager: CertManager, product: RealCluster
) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"
    for verb, target in (
        ("get", f"secret/{SECRET}"),
        ("update", f"secret/{SECRET}"),
        ("patch", "validatingwebhookconfiguration/lws-validating-webhook-configuration"),
    ):
        with pytest.raises(CommandError):
            product.kubectl("auth", "can-i", verb, target, account, "-n", NAMESPACE)


def test_metrics_are_scraped_with_the_ca_of_cert_manager(
    by_cert_manager: CertManager, product: RealCluster
) -> None:
    ready_managers(product)
    targets = eventually(
        "both managers are targets", lambda: targets_of(product, MONITOR), lambda now: len(now) == 2
    )
    assert [target.scraped().value("lws_build_info") for target in targets] == [1, 1]


def test_running_managers_reload_a_renewed_certificate(by_cert_manager: CertManager, groups: Groups) -> None:
    cluster = groups.cluster
    before = ready_managers(cluster)
    by_cert_manager.renew(SERVING)
    renewed = by_cert_manager.issued(SERVING).certificate
    for name in before:
        # The kubelet updates a Secret's files when it syncs a pod: once a minute, or after a change of the
        # pod.
        cluster.kubectl("annotate", "pod", name, "-n", NAMESPACE, "lws-test/looked-at=again")
    eventually(
        "both managers present the renewed certificate",
        lambda: [presented_by(pod) for pod in before.values()],
        lambda certificates: certificates == [renewed] * 2,
        SECONDS,
    )
    eventually("writes are admitted", lambda: is_answered(groups), seconds=SECONDS)
    with reviewed(groups) as lost:
        groups.apply(manifest("admitted", {}, {"containers": [member()]}))
        groups.ready("admitted", 2)
    assert lost == []
    assert standing(managers(cluster)) == standing(before)
