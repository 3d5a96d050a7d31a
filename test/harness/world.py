"""Read and change the objects of one namespace with the rights of an admin, as plain dicts."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from test.harness.waiting import eventually
from tools.localcluster import Api, ApiError, ClusterAccess, LocalCluster
from tools.localcluster.access import read_access
from tools.localcluster.api import Call, tolerating

Object = dict[str, Any]

SET = "LeaderWorkerSet"
_APPS, _CORE = "/apis/apps/v1", "/api/v1"
_RESOURCES = {
    SET: ("/apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "DisaggregatedSet": ("/apis/disaggregatedset.x-k8s.io/v1", "disaggregatedsets"),
    "DisaggregatedSetRoleScaler": ("/apis/disaggregatedset.x-k8s.io/v1", "disaggregatedsetrolescalers"),
    "ControllerRevision": (_APPS, "controllerrevisions"),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices"),
    "Event": ("/apis/events.k8s.io/v1", "events"),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    "Job": ("/apis/batch/v1", "jobs"),
    "LocalQueue": ("/apis/kueue.x-k8s.io/v1beta2", "localqueues"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims"),
    "Pod": (_CORE, "pods"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "PodGroup": ("/apis/scheduling.volcano.sh/v1beta1", "podgroups"),
    "Service": (_CORE, "services"),
    "ServiceAccount": (_CORE, "serviceaccounts"),
    "Deployment": (_APPS, "deployments"),
    "ReplicaSet": (_APPS, "replicasets"),
    "StatefulSet": (_APPS, "statefulsets"),
    "Workload": ("/apis/kueue.x-k8s.io/v1beta2", "workloads"),
}
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True)
class World:
    """One namespace of a cluster.

    ended: set when the test is over, to end its streams.
    """

    cluster: ClusterAccess
    api: Api
    namespace: str
    ended: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def path(self, kind: str, name: str = "") -> str:
        root, plural = _RESOURCES[kind]
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def create(self, manifest: Mapping[str, Any]) -> Object:
        """Create an object; raises ApiError if it is rejected."""
        return self.api.create(self.path(manifest["kind"]), manifest)

    def find(self, kind: str, name: str) -> Object | None:
        """Return an object; None if there is none."""
        with tolerating(_NOT_FOUND):
            return self.api.get(self.path(kind, name))
        return None

    def get(self, kind: str, name: str) -> Object:
        """Return an object; raises ApiError if there is none."""
        return self.api.get(self.path(kind, name))

    def list(self, kind: str, selector: str = "") -> list[Object]:
        """Return all objects of a kind that match a label selector. List items have neither kind nor
        apiVersion.
        """
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        return list(self.api.get(self.path(kind) + query)["items"])

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> Object:
        """Apply a JSON merge patch."""
        return self.api.merge(self.path(kind, name), patch)

    def update(self, kind: str, name: str, change: Callable[[Object], None]) -> Object:
        """Read an object, change it and write it back. Repeat this on a conflict."""
        while True:
            changed = self.get(kind, name)
            change(changed)
            try:
                return self.api.send(Call("PUT", self.path(kind, name), changed))
            except ApiError as refusal:
                if refusal.status != _CONFLICT:
                    raise

    def delete(self, kind: str, name: str, propagation: str = "Background") -> None:
        """Delete an object and return at once."""
        self.api.delete(self.path(kind, name), {"propagationPolicy": propagation})

    def kubectl(self, *arguments: str, input: Mapping[str, Any] | None = None) -> str:
        """Run kubectl in this namespace, with `input` as JSON on its stdin."""
        text = None if input is None else json.dumps(input)
        return self.cluster.kubectl("-n", self.namespace, *arguments, input=text)

    def uid(self, kind: str, name: str) -> str:
        """Return the UID of an object; empty if there is none."""
        obj = self.find(kind, name)
        return obj["metadata"]["uid"] if obj else ""

    def gone_or_replaced(self, kind: str, name: str, uid: str, seconds: float = 120.0) -> None:
        """Wait until no object of this name has the UID."""
        description = f"{kind} {name} with UID {uid} is gone"
        eventually(description, lambda: self.uid(kind, name), lambda now: now != uid, seconds)


@contextmanager
def an_admin(cluster: ClusterAccess) -> Iterator[Api]:
    """Provide a client with all rights; on a cluster that is not ours, the client of a ServiceAccount."""
    if isinstance(cluster, LocalCluster):
        yield cluster.api
        return
    access = read_access(admin_kubeconfig(cluster).read_text())
    with closing(Api(access.server, access.ca, access.token, user_agent="lws-test")) as api:
        yield api


def admin_kubeconfig(cluster: ClusterAccess) -> Path:
    """Return a kubeconfig with inline CA and token; on a cluster that is not ours, of a ServiceAccount."""
    if isinstance(cluster, LocalCluster):
        return cluster.kubeconfig
    account = "system:serviceaccount:kube-system:lws-test"
    binding = ("create", "clusterrolebinding", "lws-test", "--clusterrole=cluster-admin", f"--user={account}")
    for command in (("create", "serviceaccount", "lws-test", "-n", "kube-system"), binding):
        manifest = cluster.kubectl(*command, "--dry-run=client", "-o", "json")
        cluster.kubectl("apply", "-f", "-", input=manifest)
    return cluster.kubeconfig_for_service_account("kube-system", "lws-test")


@contextmanager
def a_namespace(cluster: ClusterAccess, name: str) -> Iterator[World]:
    """Create a namespace for pods. Its deletion is started at the end of the block and not waited for."""
    path = "/api/v1/namespaces"
    with an_admin(cluster) as api:
        api.create(path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        world = World(cluster, api, name)
        eventually("the namespace has its ServiceAccount", lambda: world.find("ServiceAccount", "default"))
        try:
            yield world
        finally:
            world.ended.set()
            # Status 409: the namespace is already terminating.
            with tolerating(_NOT_FOUND, _CONFLICT):
                api.delete(f"{path}/{name}")


def namespace_of(test: str) -> str:
    """Return a unique name for the namespace of a test or of a file of tests."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower().removeprefix("test_").removesuffix(".py"))
    return f"t-{words[:48].strip('-')}-{uuid.uuid4().hex[:6]}"
