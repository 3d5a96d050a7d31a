"""A stolen token of the manager gives no further permissions.

The test asks the API server for them and tries requests. The manager can create StatefulSets, Deployments and
Jobs in every namespace, and so pods of every ServiceAccount there, like any controller of workloads;
docs/reference/permissions.md says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.harness.product import Product
from tools.deployment import NAMESPACE, SERVICE_ACCOUNT
from tools.localcluster import ClusterAccess, CommandError

SECRET = "lws-webhook-server-cert"
RBAC = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
NEVER = [
    *(("impersonate", resource) for resource in ("users", "groups", "serviceaccounts", "uids", "userextras")),
    *((verb, resource) for verb in ("bind", "escalate") for resource in ("roles", "clusterroles")),
    *((verb, resource) for verb in ("create", "update", "patch", "delete") for resource in RBAC),
    *((verb, "serviceaccounts/token") for verb in ("create",)),
    *((verb, "secrets") for verb in ("get", "list", "watch", "create", "update", "patch", "delete")),
    *((verb, "pods/exec") for verb in ("create", "get")),
    *((verb, "pods") for verb in ("create", "update")),
    *((verb, "pods/ephemeralcontainers") for verb in ("update", "patch")),
    *((verb, "nodes/proxy") for verb in ("create", "get")),
    *((verb, "nodes") for verb in ("list", "update", "patch", "delete")),
    *((verb, "serviceaccounts") for verb in ("create", "update", "patch")),
    *((verb, "namespaces") for verb in ("create", "update", "patch", "delete")),
    *((verb, "customresourcedefinitions") for verb in ("create", "update", "patch", "delete")),
    *((verb, "validatingwebhookconfigurations") for verb in ("create", "delete", "patch")),
    *((verb, "mutatingwebhookconfigurations") for verb in ("create", "delete", "patch")),
    ("create", "certificatesigningrequests"),
    ("approve", "signers"),
    ("sign", "signers"),
    ("create", "daemonsets"),
    ("*", "*"),
]


@pytest.fixture(scope="module")
def stolen(product: Product, cluster: ClusterAccess) -> Path:
    """A kubeconfig with the token of the manager."""
    return cluster.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)


def attempt(cluster: ClusterAccess, stolen: Path, *arguments: str, input: str | None = None) -> str:
    """Return the API server's rejection, or "" if it accepts the request."""
    try:
        cluster.kubectl(f"--kubeconfig={stolen}", *arguments, input=input)
    except CommandError as error:
        return str(error)
    return ""


def test_no_permission_allows_an_escalation(cluster: ClusterAccess, stolen: Path) -> None:
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes(verb, resource), "namespace": namespace}},
        }
        for verb, resource in NEVER
        for namespace in ("", NAMESPACE, "default", "kube-system")
    ]
    answers = reviewed(cluster, stolen, reviews)
    assert len(answers) == len(reviews)
    assert [answer["spec"] for answer in answers if answer["status"]["allowed"]] == []


def test_only_the_secret_of_the_manager_is_readable(cluster: ClusterAccess, stolen: Path) -> None:
    cluster.kubectl("create", "secret", "generic", "another", f"-n={NAMESPACE}", "--from-literal=a=b")
    cluster.kubectl("create", "secret", "generic", SECRET, "-n=default", "--from-literal=a=b")
    try:
        get = ("get", "secret")
        assert attempt(cluster, stolen, *get, SECRET, f"-n={NAMESPACE}") == ""
        for refused in (
            (*get, "another", f"-n={NAMESPACE}"),
            (*get, SECRET, "-n=default"),
            (*get, f"-n={NAMESPACE}"),
            (*get, "--all-namespaces"),
            (*get, f"-n={NAMESPACE}", f"--field-selector=metadata.name={SECRET}x"),
        ):
            assert "forbidden" in attempt(cluster, stolen, *refused).lower(), refused
    finally:
        cluster.kubectl("delete", "secret", "another", f"-n={NAMESPACE}")
        cluster.kubectl("delete", "secret", SECRET, "-n=default")


def test_attempted_escalations_are_rejected(cluster: ClusterAccess, stolen: Path) -> None:
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    role = ["patch", "clusterrole", "lws-manager-role", "--type=json"]
    every = '[{"op":"add","path":"/rules/-","value":{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}}]'
    hook = ["patch", "mutatingwebhookconfiguration", "others", "--type=merge", "-p", '{"webhooks":[]}']
    tries = [
        ["create", "clusterrolebinding", "mine", "--clusterrole=cluster-admin", account],
        ["create", "rolebinding", "mine", "--clusterrole=edit", account, "-n=default"],
        [*role, "-p", every],
        ["get", "pods", "--as=system:admin", "--as-group=system:masters"],
        ["get", "pods", "--as=system:serviceaccount:kube-system:namespace-controller"],
        ["create", "token", "default", "-n=kube-system"],
        ["delete", "secret", SECRET, f"-n={NAMESPACE}"],
        ["delete", "namespace", "default"],
        hook,
    ]
    for arguments in tries:
        message = attempt(cluster, stolen, *arguments)
        assert "forbidden" in message.lower() or "cannot" in message, (arguments, message)


def attributes(verb: str, resource: str) -> dict[str, str]:
    kind, _, subresource = resource.partition("/")
    return {"verb": verb, "group": GROUPS.get(kind, ""), "resource": kind, "subresource": subresource}


GROUPS = {
    **dict.fromkeys(RBAC, "rbac.authorization.k8s.io"),
    "customresourcedefinitions": "apiextensions.k8s.io",
    "validatingwebhookconfigurations": "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations": "admissionregistration.k8s.io",
    "certificatesigningrequests": "certificates.k8s.io",
    "signers": "certificates.k8s.io",
    "uids": "authentication.k8s.io",
    "userextras": "authentication.k8s.io",
    "deployments": "apps",
    "*": "*",
}


def reviewed(
    cluster: ClusterAccess, stolen: Path, reviews: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Return each review with its answer."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": reviews})
    output = cluster.kubectl(f"--kubeconfig={stolen}", "create", "-f", "-", "-o", "json", input=text)
    decoder, result, at = json.JSONDecoder(), [], 0
    while at < len(output.rstrip()):
        obj, end = decoder.raw_decode(output[at:].lstrip())
        at += len(output[at:]) - len(output[at:].lstrip()) + end
        result.extend(obj["items"] if obj["kind"] == "List" else [obj])
    return result
