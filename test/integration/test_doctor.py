"""`lws doctor` finds nothing in a healthy installation on a real API server, and finds each defect.

The chart's pods are simulated: the test writes the objects that a manager would (Secret, CA bundles, Lease).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lws.runtime.certificates.serving_certificate import Certificates, renewed
from test.cluster import LOCAL, chosen
from test.harness.waiting import eventually
from test.integration.cli.command import Caller
from test.integration.release import NAMESPACE, SECRET, WEBHOOKS, Object, Release, a_set
from test.integration.test_chart_install import SPARE_DEFAULT
from tools.localcluster import LocalCluster, Options

ACCOUNT = "lws-controller-manager"
LEASE = "b8b2488c.x-k8s.io"
SETS = "leaderworkersets.leaderworkerset.x-k8s.io"
VALIDATING = "validatingwebhookconfiguration/lws-validating-webhook-configuration"


@pytest.fixture(scope="module")
def release() -> Iterator[Release]:
    """The chart, in the state that a running manager leaves."""
    if chosen() != LOCAL:
        pytest.skip("breaks cluster-wide objects")
    with LocalCluster(Options(nodes=2)) as cluster:
        release = Release(cluster)
        release.install("--wait", "--timeout=300s", *SPARE_DEFAULT)
        renewal = renewed(Certificates(), (f"lws-webhook-service.{NAMESPACE}.svc",), datetime.now(UTC))
        assert renewal is not None
        trusted, server = renewal[0].authority.certificate, renewal[0].server
        data = {"ca.crt": trusted, "tls.crt": server.certificate, "tls.key": server.key}
        merge(release, "/".join(SECRET), {"data": {key: encoded(value) for key, value in data.items()}})
        for kind, name in WEBHOOKS:
            trust(release, kind, name, trusted)
        release.cluster.kubectl("create", "-f", "-", input=json.dumps(a_lease(timedelta())))
        yield release


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def merge(release: Release, target: str, patch: Object) -> None:
    release.cluster.kubectl("patch", target, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))


def json_patch(release: Release, target: str, *operations: Object) -> None:
    release.cluster.kubectl("patch", target, "-n", NAMESPACE, "--type=json", "-p", json.dumps(operations))


def trust(release: Release, kind: str, name: str, authority: bytes) -> None:
    count = len(release.get(kind, name)["webhooks"])
    paths = [f"/webhooks/{index}/clientConfig/caBundle" for index in range(count)]
    value = encoded(authority)
    json_patch(release, f"{kind}/{name}", *({"op": "add", "path": path, "value": value} for path in paths))


def a_lease(ago: timedelta) -> Object:
    # Longer than these tests take, because it is not renewed here.
    spec = {"holderIdentity": f"{ACCOUNT}-0_1", "leaseDurationSeconds": 3600}
    renewed_at = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": NAMESPACE},
        "spec": {**spec, "renewTime": renewed_at},
    }


def examined(release: Release) -> tuple[int, Any]:
    """Return exit code and data of `lws doctor`, called by the admin without a namespace."""
    result = Caller(release.cluster.kubeconfig, None)("doctor", "-o", "json")
    assert result.out, result
    return result.code, result.data


def findings(release: Release) -> list[dict[str, str]]:
    result: list[dict[str, str]] = examined(release)[1]["findings"]
    return result


def test_a_healthy_installation_has_no_findings(release: Release) -> None:
    code, data = examined(release)
    assert (code, data["findings"], data["unchecked"]) == (0, [], [])
    assert data["namespace"] == NAMESPACE
    assert data["versions"]["manager"] == data["versions"]["command"]


def test_the_account_of_the_manager_may_run_the_command(release: Release) -> None:
    release.cluster.kubectl("get", "serviceaccount", ACCOUNT, "-n", NAMESPACE)
    kubeconfig = release.cluster.kubeconfig_for_service_account(NAMESPACE, ACCOUNT)
    result = Caller(kubeconfig, NAMESPACE)("doctor", "-o", "json")
    assert result.code == 0, result
    # The manager's role excludes reading CRDs on purpose; the manager may ask for its own permissions.
    unchecked = {entry["check"] for entry in result.data["unchecked"]}
    assert "definitions" in unchecked and "permissions" not in {
        finding["check"] for finding in result.data["findings"]
    }
    assert "get customresourcedefinitions" in json.dumps(result.data["unchecked"])


def test_a_user_without_permissions_sees_which_are_missing(release: Release) -> None:
    release.cluster.kubectl("create", "serviceaccount", "nobody", "-n", "default")
    kubeconfig = release.cluster.kubeconfig_for_service_account("default", "nobody")
    result = Caller(kubeconfig, None)("doctor")
    assert result.code == 0, result
    assert result.lines[-1].startswith("nothing found; ") and result.lines[-1].endswith(
        "could not be checked"
    )
    assert "create subjectaccessreviews.authorization.k8s.io in the cluster" in result.out


@contextmanager
def ignored_webhook(release: Release) -> Iterator[None]:
    path = "/webhooks/0/failurePolicy"
    json_patch(release, VALIDATING, {"op": "replace", "path": path, "value": "Ignore"})
    yield
    json_patch(release, VALIDATING, {"op": "replace", "path": path, "value": "Fail"})


@contextmanager
def without_permissions(release: Release) -> Iterator[None]:
    role = "clusterrolebinding/lws-manager-rolebinding"
    binding = json.loads(release.cluster.kubectl("get", role, "-o", "json"))
    release.cluster.kubectl("delete", role)
    yield
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        del binding["metadata"][key]
    release.cluster.kubectl("create", "-f", "-", input=json.dumps(binding))


@contextmanager
def without_pods(release: Release) -> Iterator[None]:
    release.cluster.kubectl("scale", f"deployment/{ACCOUNT}", "-n", NAMESPACE, "--replicas=0")
    yield
    release.cluster.kubectl("scale", f"deployment/{ACCOUNT}", "-n", NAMESPACE, "--replicas=2")


@contextmanager
def an_expired_lease(release: Release) -> Iterator[None]:
    merge(release, f"lease/{LEASE}", {"spec": a_lease(timedelta(hours=2))["spec"]})
    yield
    merge(release, f"lease/{LEASE}", {"spec": a_lease(timedelta())["spec"]})


@contextmanager
def an_older_crd(release: Release) -> Iterator[None]:
    schema = release.get("crd", SETS)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    field = schema["properties"]["spec"]["properties"]["podDisruptionBudget"]
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/podDisruptionBudget"
    json_patch(release, f"crd/{SETS}", {"op": "remove", "path": path})
    yield
    json_patch(release, f"crd/{SETS}", {"op": "add", "path": path, "value": field})


@contextmanager
def sets_that_clash(release: Release) -> Iterator[None]:
    for name in ("a", "a-0"):
        release.cluster.kubectl("create", "-f", "-", input=json.dumps(a_set(name)))
    yield
    release.cluster.kubectl("delete", "leaderworkersets", "a", "a-0", "-n", "default")


BREAKAGES: dict[str, tuple[Callable[[Release], AbstractContextManager[None]], str]] = {
    "webhooks": (ignored_webhook, "failurePolicy Ignore"),
    "permissions": (without_permissions, "delete pods"),
    "manager": (without_pods, "has no available pod"),
    "lease": (an_expired_lease, "has not renewed it for"),
    "definitions": (an_older_crd, "lacks spec.podDisruptionBudget"),
    "clashes": (sets_that_clash, "is the name of the StatefulSet"),
}


@pytest.mark.parametrize("check", BREAKAGES)
def test_each_defect_is_found(release: Release, check: str) -> None:
    broken, message = BREAKAGES[check]
    assert findings(release) == []
    with broken(release):
        # Controllers and authorizers notice the change with a delay.
        eventually(
            message,
            lambda: any(
                check == finding["check"] and message in finding["what"] for finding in findings(release)
            ),
        )
        reported = findings(release)
        assert {finding["check"] for finding in reported} == {check}
        assert examined(release)[0] == 1
    eventually("no finding is left", lambda: not findings(release))
