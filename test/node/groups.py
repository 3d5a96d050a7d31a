"""Create sets whose pods are processes, and wait for their groups."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from test.harness.waiting import eventually
from tools.localcluster import CommandError
from tools.realnode.cluster import RealCluster
from tools.realnode.images import MEMBERS

NAME_LABEL = "leaderworkerset.sigs.k8s.io/name"
SECONDS = 240.0

RESTART, AFTER_START, NONE = "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"
POLICIES = (RESTART, AFTER_START, NONE)
SHORT_NAMES = {RESTART: "restart", AFTER_START: "after", NONE: "none"}
# Long enough to notice a wrong deletion, because the first recreation of a group is not delayed.
QUIET_SECONDS = 5.0

Pod = dict[str, Any]
HEALTHY = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}


def member(**fields: Any) -> dict[str, Any]:
    """Return a container that serves its environment. fields: override fields of the container."""
    return {
        "name": "member",
        "image": MEMBERS[0],
        "args": ["serve"],
        "readinessProbe": HEALTHY,
        **fields,
    }


def manifest(name: str, spec: Mapping[str, Any], pod: Mapping[str, Any], size: int = 2) -> dict[str, Any]:
    """Return a LeaderWorkerSet, by default with one group. pod: the spec of all its pods."""
    template = {"spec": {"terminationGracePeriodSeconds": 1, **pod}}
    overrides = dict(spec.get("leaderWorkerTemplate", {}))
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            **spec,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template, **overrides},
        },
    }


def with_policy(policy: str, **template: Any) -> dict[str, Any]:
    """Return the part of a set's spec with this restart policy."""
    return {"leaderWorkerTemplate": {"restartPolicy": policy, **template}}


@dataclass(frozen=True)
class Groups:
    """The sets of one namespace."""

    cluster: RealCluster
    namespace: str

    @contextmanager
    def in_own_namespace(self) -> Iterator[Groups]:
        """Create the namespace, and delete it with everything in it afterwards."""
        self.cluster.kubectl("create", "namespace", self.namespace)
        try:
            yield self
        finally:
            self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")

    def apply(self, *objects: Mapping[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", input=json.dumps(listed))

    def pods(self, name: str) -> dict[str, Pod]:
        """Return the pods of a set by name."""
        items = self.cluster.pods.matching(self.namespace, f"{NAME_LABEL}={name}")
        return {pod["metadata"]["name"]: pod for pod in items}

    def ready(self, name: str, count: int, seconds: float = SECONDS) -> dict[str, Pod]:
        """Wait until `count` pods of a set exist and all are ready, and return them."""
        self.cluster.pods.wait_ready(self.namespace, f"{NAME_LABEL}={name}", count, seconds)
        return self.pods(name)

    def recreated(self, name: str, before: Mapping[str, Pod]) -> dict[str, Pod]:
        """Wait until all pods of a set are ready and none is one of `before`, and return them."""
        old = uids(before)
        return eventually(
            f"all pods of {name} are recreated",
            lambda: self.pods(name),
            lambda pods: (
                len(pods) == len(before) and not old & uids(pods) and all(map(is_ready, pods.values()))
            ),
            SECONDS,
        )

    def status(self, name: str) -> dict[str, Any]:
        """Return the status of a set."""
        output = self.cluster.kubectl("get", "lws", name, "-n", self.namespace, "-o", "json")
        return dict(json.loads(output)["status"])

    def event_reasons(self, name: str) -> list[str]:
        """Return the reasons of the Events about a set."""
        return [event["reason"] for event in self._events(name)]

    def _events(self, name: str) -> list[dict[str, Any]]:
        selector = f"involvedObject.kind=LeaderWorkerSet,involvedObject.name={name}"
        events = self.cluster.kubectl(
            "get", "events", "-n", self.namespace, "--field-selector", selector, "-o", "json"
        )
        return list(json.loads(events)["items"])

    def log(self, pod: str) -> str:
        try:
            return self.cluster.kubectl("logs", "-n", self.namespace, pod)
        except CommandError as error:
            return str(error)


def uids(pods: Mapping[str, Pod]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods.values()}


def is_ready(pod: Pod) -> bool:
    """Report whether a pod is ready and not terminating."""
    conditions = pod["status"].get("conditions", [])
    leaving = "deletionTimestamp" in pod["metadata"]
    return not leaving and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def statuses(pod: Pod) -> dict[str, Any]:
    """Return the status of each container, init containers included."""
    status = pod["status"]
    listed = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return {entry["name"]: entry for entry in listed}


def restarts(pod: Pod) -> dict[str, int]:
    return {name: status["restartCount"] for name, status in statuses(pod).items()}
