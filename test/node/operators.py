"""Serve the kinds of operators that are not installed: the API server stores their objects unchanged."""

from __future__ import annotations

import json
from typing import Any

from tools.realnode.cluster import RealCluster

_GROUPS = {
    "ServiceMonitor": ("monitoring.coreos.com", "v1"),
    "Certificate": ("cert-manager.io", "v1"),
    "Issuer": ("cert-manager.io", "v1"),
}


def define(cluster: RealCluster, *kinds: str) -> None:
    """Have the API server serve these kinds."""
    definitions = [_definition(kind, *_GROUPS[kind]) for kind in kinds]
    listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(listed))
    for crd in definitions:
        cluster.kubectl(
            "wait", "--for=condition=Established", "--timeout=120s", f"crd/{crd['metadata']['name']}"
        )


def _definition(kind: str, group: str, version: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [served],
        },
    }
