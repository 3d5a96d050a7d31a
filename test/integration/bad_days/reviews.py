"""Build and send reviews as the API server sends them to webhooks, valid and malformed ones."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from typing import Any

from lws_api.leaderworkerset.v1 import API_GROUP, NAME_LABEL, VERSION
from test.harness.manifests import a_set, pod_template
from tools.deployment import NAMESPACE, ManagerProcess
from tools.localcluster import ClusterAccess

Object = dict[str, Any]

MUTATE_SET = "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
VALIDATE_SET = "/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset"
MUTATE_POD = "/mutate--v1-pod"

_SETS = {"group": API_GROUP, "version": VERSION, "resource": "leaderworkersets"}
_PODS = {"group": "", "version": "v1", "resource": "pods"}


@dataclass(frozen=True)
class Review:
    """A request to a webhook."""

    path: str
    body: Object


def set_review(path: str, number: int, **changes: Any) -> Review:
    """Return the review of an update of a set that does not exist."""
    new, old = (_stored(a_set(f"set-{number}", replicas), number) for replicas in (3, 2))
    return Review(
        path, _review(number, _SETS, {"operation": "UPDATE", "object": new, "oldObject": old, **changes})
    )


def pod_review(number: int) -> Review:
    """Return the review of a new leader pod."""
    pod = {"apiVersion": "v1", "kind": "Pod", **pod_template()}
    labels = {NAME_LABEL: f"set-{number}", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    pod["metadata"] = {"name": f"set-{number}-0", "namespace": "default", "labels": labels}
    pod["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/size": "2"}
    return Review(MUTATE_POD, _review(number, _PODS, {"operation": "CREATE", "object": pod}))


def address_of(manager: ManagerProcess) -> str:
    """Return the URL of a manager's webhooks."""
    return f"https://127.0.0.1:{manager.webhook_port}"


def trust(cluster: ClusterAccess) -> ssl.SSLContext:
    """Return a context that trusts what the API server trusts when it calls webhooks."""
    return ssl.create_default_context(cadata=ca_bundles(cluster)[0].decode())


def ca_bundles(cluster: ClusterAccess) -> list[bytes]:
    """Return the CA bundle of every configured webhook, empty if it has none."""
    bundles = []
    for kind in ("mutating", "validating"):
        name = f"lws-{kind}-webhook-configuration"
        configuration = json.loads(cluster.kubectl("get", f"{kind}webhookconfiguration", name, "-o", "json"))
        bundles += [
            base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
            for webhook in configuration["webhooks"]
        ]
    return bundles


def secret_of(cluster: ClusterAccess) -> dict[str, bytes]:
    """Return the data of the Secret with the webhook certificates."""
    secret = cluster.kubectl("get", "secret", "lws-webhook-server-cert", "-n", NAMESPACE, "-o", "json")
    return {key: base64.b64decode(value) for key, value in (json.loads(secret).get("data") or {}).items()}


def _stored(lws: Object, number: int) -> Object:
    lws["metadata"] |= {"namespace": "default", "uid": f"uid-{number}", "resourceVersion": str(number)}
    return lws


def _review(number: int, resource: Object, request: Object) -> Object:
    request = {
        "uid": f"review-{number}",
        "resource": resource,
        "userInfo": {"username": "somebody"},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
