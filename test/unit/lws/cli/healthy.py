"""A healthy installation, for tests that break one part of it."""

from __future__ import annotations

import base64
import copy
from datetime import UTC, datetime
from functools import cache
from typing import Any

from lws import __version__
from lws.cli.installation import Installation
from lws.runtime.certificates.internal import CONFIGURATIONS
from lws.runtime.certificates.serving_certificate import Certificates, renewed
from lws_api.crds import definitions

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMESPACE = "lws-system"
SERVICE = "lws-webhook-service"
SECRET = "lws-webhook-server-cert"
LEASE = "b8b2488c.x-k8s.io"
ESTABLISHED = [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]


@cache
def certificates() -> Certificates:
    """Return certificates that are created once, because generating keys takes time."""
    renewal = renewed(Certificates(), (f"{SERVICE}.{NAMESPACE}.svc",), NOW)
    assert renewal is not None
    return renewal[0]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def definition(name: str) -> dict[str, Any]:
    found_definition = next(
        candidate for candidate in definitions().values() if candidate["metadata"]["name"] == name
    )
    status = {"conditions": ESTABLISHED, "storedVersions": ["v1"]}
    return {**copy.deepcopy(dict(found_definition)), "status": status}


def configuration(index: int, name: str = "", namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return a webhook configuration. index: 0 for the mutating one, 1 for the validating one."""
    kind, usual = CONFIGURATIONS[index]
    bundle = encoded(certificates().authority.certificate)
    client = {"service": {"namespace": namespace, "name": SERVICE}, "caBundle": bundle}
    hook = {
        "name": "sets.kb.io",
        "clientConfig": client,
        "failurePolicy": "Fail",
        "rules": [{"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"]}],
    }
    return {"kind": kind, "metadata": {"name": name or usual}, "webhooks": [hook]}


def manager(namespace: str = NAMESPACE, version: str = __version__) -> dict[str, Any]:
    labels = {"app.kubernetes.io/version": version, "app.kubernetes.io/name": "lws"}
    return {
        "kind": "Deployment",
        "metadata": {"name": "lws-controller-manager", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"serviceAccountName": "lws-controller-manager"}}},
        "status": {"availableReplicas": 2},
    }


def lease(**spec: Any) -> dict[str, Any]:
    usual = {
        "holderIdentity": "lws-controller-manager-x_1",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-03-01T11:59:55.000000Z",
    }
    return {"kind": "Lease", "metadata": {"name": LEASE}, "spec": {**usual, **spec}}


def secret(certificate: bytes | None = None) -> dict[str, Any]:
    served = certificates().server.certificate if certificate is None else certificate
    return {"kind": "Secret", "metadata": {"name": SECRET}, "data": {"tls.crt": encoded(served)}}


def healthy() -> Installation:
    """Return an installation as the chart and a manager create it."""
    names = [crd["metadata"]["name"] for crd in definitions().values()]
    return Installation(
        now=NOW,
        namespace=NAMESPACE,
        server="v1.34.1",
        definitions={name: definition(name) for name in names},
        mutating=(configuration(0),),
        validating=(configuration(1),),
        managers=(manager(),),
        service={"kind": "Service", "metadata": {"name": SERVICE}},
        slices=({"endpoints": [{"conditions": {"ready": True}}]},),
        secret=secret(),
        leases={LEASE: lease()},
    )
