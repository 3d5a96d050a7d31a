"""The steps of docs/operations/handover.md on a real node, there and back, while sets serve.

Upstream's release is played: its chart by a stand-in with the same names, selectors, Secret and webhook
entries, its manager by ours, started as that chart starts it. Tests in test/integration/takeover cover the
differences between two managers on the same objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from test.harness.repeating import repeated
from test.harness.waiting import eventually
from test.integration.release import CHART, DEFINITION, DEPLOYMENT, GO_STAND_IN, SECRET, Release
from test.node.groups import Groups, Pod, manifest, member, uids
from test.node.managers import SECONDS, all_ready, is_answered, managers, ready_managers
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.realnode.cluster import RealCluster
from tools.realnode.members import end, given_to

LEASE = ("lease", "b8b2488c.x-k8s.io")
TO_OURS = ("--namespace", NAMESPACE, "--reset-values", "--take-ownership", "--wait", "--timeout", "300s")
_RIGHTS = "rights-of-the-stand-in"


@pytest.fixture
def upstream(product: RealCluster) -> Iterator[Release]:
    """Upstream's release in place of ours; afterwards ours with its defaults."""
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in ready_managers(product).values()}
    release = Release(product)
    release.uninstall()
    # Since 0.8, upstream's releases do not mark the CRD as managed by Helm.
    product.kubectl("label", *DEFINITION, "app.kubernetes.io/managed-by-")
    product.kubectl("annotate", *DEFINITION, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
    # The stand-in's roles fit upstream's manager only, so ours gets all permissions.
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    product.kubectl("create", "clusterrolebinding", _RIGHTS, "--clusterrole=cluster-admin", account)
    settings = f"image={image},pullPolicy=Never,cpu=100m"
    release.install("--skip-crds", "--set", settings, "--wait", "--timeout", "300s", chart=GO_STAND_IN)
    yield release
    product.kubectl("delete", "clusterrolebinding", _RIGHTS)
    product.helm("upgrade", "lws", str(CHART), *TO_OURS)
    ready_managers(product)


def test_sets_serve_during_a_handover_and_back(upstream: Release, groups: Groups) -> None:
    cluster = groups.cluster
    eventually("writes are admitted", lambda: is_answered(groups), seconds=SECONDS)
    groups.apply(manifest("serving", {"replicas": 2}, {"containers": [member()]}))
    before = groups.ready("serving", 4)
    expected = {target: upstream.uid(*target) for target in (DEFINITION, DEPLOYMENT, LEASE)}
    authority = upstream.certificates()["ca.crt"]
    stored = upstream.list("leaderworkersets", groups.namespace)

    with served(before) as lost:
        cluster.helm("upgrade", "lws", str(CHART), *TO_OURS)
        ours = ready_managers(cluster)
        assert {pod["spec"]["containers"][0]["command"][0] for pod in ours.values()} == {"lws"}
        assert_kept(upstream, groups, expected, authority)

        cluster.helm("rollback", "lws", "1", "--namespace", NAMESPACE, "--wait", "--timeout", "300s")
        theirs = eventually(
            "only upstream's manager is ready",
            lambda: managers(cluster),
            lambda pods: all_ready(pods, 1),
            SECONDS,
        )
        assert {pod["spec"]["containers"][0]["command"][0] for pod in theirs.values()} == {"/manager"}
        assert_kept(upstream, groups, expected, authority)
    assert lost == []
    assert uids(groups.pods("serving")) == uids(before)
    assert [lws["spec"] for lws in upstream.list("leaderworkersets", groups.namespace)] == [
        lws["spec"] for lws in stored
    ]

    # The manager that is back reconciles the groups.
    end(before["serving-1-1"], 3)
    eventually(
        "group 1 is recreated",
        lambda: groups.pods("serving"),
        lambda pods: len(pods) == 4 and len(uids(pods) - uids(before)) == 2,
        SECONDS,
    )
    groups.ready("serving", 4)


def assert_kept(
    release: Release, groups: Groups, expected: Mapping[tuple[str, str], str], authority: str
) -> None:
    """Check what must survive each step, and that writes to sets are answered after it."""
    assert {target: release.uid(*target) for target in expected} == expected
    assert release.get(*SECRET)["data"]
    assert release.certificates()["ca.crt"] == authority
    eventually("writes are admitted", lambda: is_answered(groups), seconds=SECONDS)


@contextmanager
def served(pods: Mapping[str, Pod]) -> Iterator[list[str]]:
    """Send ten requests a second to all of these processes, and collect the ones without an answer."""
    lost = list[str]()

    def ask() -> None:
        for name, pod in pods.items():
            try:
                given_to(pod)
            except OSError as error:
                lost.append(f"{name}: {error}")

    with repeated(ask, 0.1):
        yield lost
