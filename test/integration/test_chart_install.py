"""A real API server accepts the chart, keeps its objects over upgrades, and is clean after an uninstall.

The release `lws` gets a separate cluster, because a chart has cluster-scoped objects. No manager runs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator

import pytest

from test.cluster import LOCAL, chosen
from test.harness.waiting import eventually
from test.integration.release import (
    CERTIFICATES,
    CHART,
    DEFINITION,
    DEPLOYMENT,
    NAMESPACE,
    Object,
    Release,
    a_set,
    find,
    render,
)
from tools.localcluster import LocalCluster, Options

MANAGER = f"system:serviceaccount:{NAMESPACE}:lws-controller-manager"
SPARE_DEFAULT = (
    "--set-json",
    "webhooks.namespaceSelector="
    '{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["default"]}]}',
)


@pytest.fixture(scope="module")
def release() -> Iterator[Release]:
    """The chart in a namespace that admits only restricted pods; its webhooks exclude namespace default."""
    if chosen() != LOCAL:
        pytest.skip("installs and removes cluster-wide objects")
    with LocalCluster(Options(nodes=2)) as cluster:
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        release = Release(cluster)
        release.install("--wait", "--timeout=300s", *SPARE_DEFAULT)
        yield release


def test_the_deployment_runs_under_the_restricted_standard(release: Release) -> None:
    status = release.get(*DEPLOYMENT)["status"]
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)


ALLOWED = [
    ("get", "", "pods", "other", ""),
    ("delete", "", "pods", "other", ""),
    ("patch", "apps", "statefulsets", "other", ""),
    ("patch", "leaderworkerset.x-k8s.io", "leaderworkersets/status", "other", ""),
    ("update", "leaderworkerset.x-k8s.io", "leaderworkersets/finalizers", "other", ""),
    ("delete", "leaderworkerset.x-k8s.io", "leaderworkersets", "other", ""),
    ("patch", "disaggregatedset.x-k8s.io", "disaggregatedsets/status", "other", ""),
    ("create", "disaggregatedset.x-k8s.io", "disaggregatedsetrolescalers", "other", ""),
    ("update", "", "pods/finalizers", "other", ""),
    ("create", "events.k8s.io", "events", "other", ""),
    ("get", "", "secrets", NAMESPACE, "lws-webhook-server-cert"),
    ("update", "", "secrets", NAMESPACE, "lws-webhook-server-cert"),
    ("create", "coordination.k8s.io", "leases", NAMESPACE, ""),
    ("update", "coordination.k8s.io", "leases", NAMESPACE, "b8b2488c.x-k8s.io"),
    (
        "patch",
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "",
        "lws-mutating-webhook-configuration",
    ),
    ("create", "authentication.k8s.io", "tokenreviews", "", ""),
]
FORBIDDEN = [
    ("list", "", "secrets", NAMESPACE, ""),
    ("get", "", "secrets", NAMESPACE, "another"),
    ("get", "", "secrets", "other", "lws-webhook-server-cert"),
    ("create", "", "secrets", NAMESPACE, ""),
    ("update", "coordination.k8s.io", "leases", NAMESPACE, "another"),
    ("update", "coordination.k8s.io", "leases", "other", "b8b2488c.x-k8s.io"),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "another"),
    ("list", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
    ("patch", "", "nodes", "", ""),
    ("create", "", "pods", "other", ""),
    ("update", "leaderworkerset.x-k8s.io", "leaderworkersets", "other", ""),
    ("update", "disaggregatedset.x-k8s.io", "disaggregatedsets", "other", ""),
    ("delete", "disaggregatedset.x-k8s.io", "disaggregatedsets", "other", ""),
    ("get", "", "configmaps", NAMESPACE, ""),
]


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [*((case, True) for case in ALLOWED), *((case, False) for case in FORBIDDEN)],
    ids=lambda value: " ".join(part for part in value if part) if isinstance(value, tuple) else None,
)
def test_the_manager_has_only_the_permissions_that_it_needs(
    release: Release, request_: tuple[str, str, str, str, str], allowed: bool
) -> None:
    assert is_eventually(allowed, lambda: may(release, MANAGER, [], *request_))


@pytest.mark.parametrize(
    ("role", "verb", "subresource", "allowed"),
    [
        ("view", "list", "", True),
        ("view", "create", "", False),
        ("view", "patch", "/scale", False),
        ("edit", "create", "", True),
        ("edit", "delete", "", True),
        ("edit", "patch", "/scale", True),
        ("edit", "patch", "/status", False),
        ("admin", "update", "", True),
    ],
)
def test_users_get_permissions_from_the_clusters_own_roles(
    release: Release, role: str, verb: str, subresource: str, allowed: bool
) -> None:
    group = f"test:{role}"
    binding = release.cluster.kubectl(
        "create",
        "rolebinding",
        f"test-{role}",
        f"--clusterrole={role}",
        f"--group={group}",
        "-n=default",
        "--dry-run=client",
        "-o=yaml",
    )
    release.cluster.kubectl("apply", "-f", "-", input=binding)
    resource = f"leaderworkersets{subresource}"
    request = (verb, "leaderworkerset.x-k8s.io", resource, "default", "")
    assert is_eventually(allowed, lambda: may(release, "somebody", [group], *request))


def is_eventually(allowed: bool, answer: Callable[[], bool]) -> bool:
    """Report the answer, and wait if access is expected: aggregated roles take effect with a delay."""
    return not answer() if not allowed else eventually("the access is allowed", answer)


def may(
    release: Release,
    user: str,
    groups: list[str],
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    name: str,
) -> bool:
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind, "namespace": namespace, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": groups,
            "resourceAttributes": {**attributes, "subresource": subresource},
        },
    }
    answer = release.cluster.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review))
    return bool(json.loads(answer)["status"]["allowed"])


def notes(release: Release, *arguments: str) -> str:
    dry = ("install", "lws", str(CHART), "--dry-run=client", f"--namespace={NAMESPACE}", *arguments)
    return release.cluster.helm(*dry).partition("\nNOTES:\n")[2]


def test_the_notes_end_with_a_first_set_to_apply(release: Release) -> None:
    text = release.cluster.helm("get", "notes", "lws", f"--namespace={NAMESPACE}")
    manifest = text.partition("kubectl apply -f - <<EOF\n")[2].partition("\nEOF\n")[0]
    release.cluster.kubectl("apply", "-f", "-", input=manifest)
    try:
        stored = release.get("leaderworkersets", "first", "default")
        assert (stored["spec"]["replicas"], stored["spec"]["leaderWorkerTemplate"]["size"]) == (2, 2)
    finally:
        release.cluster.kubectl("delete", "-f", "-", input=manifest)


@pytest.mark.parametrize(
    ("argument", "warning"),
    [
        ("crds.keep=false", '"helm uninstall" deletes the CustomResourceDefinitions'),
        ("replicaCount=1", "webhooks fail closed"),
        ("podDisruptionBudget.maxUnavailable=0", "cannot be drained"),
    ],
)
def test_notes_warn_about_risky_values(release: Release, argument: str, warning: str) -> None:
    assert "WARNING" not in notes(release)
    assert warning in notes(release, "--set", argument).partition("WARNING: ")[2]


def test_an_upgrade_with_equal_values_writes_nothing(release: Release) -> None:
    rendered = [(obj["kind"], obj["metadata"]["name"]) for obj in render(release.cluster)]
    before = [written(release.get(*key)) for key in rendered]
    release.upgrade("--reset-then-reuse-values")
    assert [written(release.get(*key)) for key in rendered] == before


def written(obj: Object) -> Object:
    """Return the parts of an object that Helm writes, without the status, which controllers update."""
    metadata = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("managedFields", "resourceVersion")
    }
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


def test_old_pods_stay_reachable_when_the_port_changes(release: Release) -> None:
    """The Deployment is paused, to simulate the time of its rollout."""
    assert set(webhook_ports(release)) == {9443}
    release.cluster.kubectl(
        "rollout", "pause", "deployment/lws-controller-manager", f"--namespace={NAMESPACE}"
    )
    try:
        # The label shows that the endpoints belong to the current state of the Service.
        release.upgrade("--reset-then-reuse-values", "--set", "service.port=9444,commonLabels.port=another")
        eventually(
            "the endpoints are up to date",
            lambda: endpoint_slices(release),
            lambda slices: all(
                endpoint_slice["metadata"]["labels"].get("port") == "another" for endpoint_slice in slices
            ),
        )
        assert set(webhook_ports(release)) == {9443}
    finally:
        release.cluster.kubectl(
            "rollout", "resume", "deployment/lws-controller-manager", f"--namespace={NAMESPACE}"
        )
    eventually(
        "all pods listen on the new port", lambda: set(webhook_ports(release)), lambda ports: ports == {9444}
    )
    release.rollback(1)


def webhook_ports(release: Release) -> list[int]:
    """Return the port at which each pod is called."""
    return [
        endpoint_slice["ports"][0]["port"]
        for endpoint_slice in endpoint_slices(release)
        for endpoint in endpoint_slice["endpoints"] or ()
        if endpoint["conditions"]["ready"]
    ]


def endpoint_slices(release: Release) -> list[Object]:
    return [
        endpoint_slice
        for endpoint_slice in release.list("endpointslices")
        if endpoint_slice["metadata"]["labels"]["kubernetes.io/service-name"] == "lws-webhook-service"
    ]


def test_a_server_side_apply_removes_a_webhook_entry_with_a_ca_bundle(release: Release) -> None:
    """The whole entry is removed, although the manager owns a field; a remainder would be invalid."""
    apply = ("apply", "--server-side", "-f", "-")
    where = ("validatingwebhookconfiguration", "torso")
    release.cluster.kubectl(*apply, input=json.dumps(validating(release)))
    webhooks = release.get(*where)["webhooks"]
    assert len(webhooks) == 2
    for webhook in webhooks:
        webhook["clientConfig"]["caBundle"] = a_bundle()
    injected = ("--type=merge", "--field-manager=lws", "-p", json.dumps({"webhooks": webhooks}))
    release.cluster.kubectl("patch", *where, *injected)
    try:
        without = validating(release, "--set", "enableDisaggregatedSet=false")
        release.cluster.kubectl(*apply, input=json.dumps(without))
        (entry,) = release.get(*where)["webhooks"]
        assert (entry["name"], entry["clientConfig"]["caBundle"]) == ("vleaderworkerset.kb.io", a_bundle())
    finally:
        release.cluster.kubectl("delete", *where)


def validating(release: Release, *arguments: str) -> Object:
    """Return the configuration under a name that no release has."""
    name = "lws-validating-webhook-configuration"
    rendered = find(
        render(release.cluster, *SPARE_DEFAULT, *arguments), "ValidatingWebhookConfiguration", name
    )
    return {**rendered, "metadata": {"name": "torso"}}


def a_bundle() -> str:
    return base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()


def test_upgrade_and_rollback_keep_certificates(release: Release) -> None:
    release.put_certificates()
    release.upgrade(
        "--reset-then-reuse-values", "--set", "webhooks.timeoutSeconds=5,commonLabels.team=serving"
    )
    assert release.certificates() == CERTIFICATES
    assert set(release.bundles().values()) == {True}

    release.rollback(1)
    assert release.certificates() == CERTIFICATES
    assert set(release.bundles().values()) == {True}


def test_no_value_of_another_feature_deletes_definitions_that_are_not_kept(release: Release) -> None:
    """Helm deletes what a release no longer renders, and a CRD takes every object of its kind with it."""
    definition = ("crd", "disaggregatedsets.disaggregatedset.x-k8s.io")
    not_kept = ("--set", "crds.keep=false")
    release.upgrade(*SPARE_DEFAULT, *not_kept)
    uid = release.uid(*definition)
    release.upgrade(*SPARE_DEFAULT, *not_kept, "--set", "enableDisaggregatedSet=false")
    assert release.uid(*definition) == uid
    release.upgrade(*SPARE_DEFAULT)


def test_uninstall_keeps_the_crd_and_all_sets_for_a_new_install(
    release: Release,
) -> None:
    release.cluster.kubectl("create", "-f", "-", input=json.dumps(a_set("kept")))
    sets, definition = release.list("leaderworkersets", "default"), release.uid(*DEFINITION)

    release.uninstall()
    assert release.uid(*DEFINITION) == definition
    assert release.list("leaderworkersets", "default") == sets
    assert all("lws" not in role["metadata"]["name"] for role in release.list("clusterrole"))

    release.install(*SPARE_DEFAULT)
    assert release.uid(*DEFINITION) == definition
    assert release.list("leaderworkersets", "default") == sets
