"""Play upstream's controller: create on a real API server the set that a state describes.

Objects are created by server-side applies and creates of the field manager `lws`, by the StatefulSet
controller, and by the manager that answers webhooks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lws.kube.pods import gate_of
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, GROUP_REPLACEMENT_GATE, REVISION_LABEL
from test.harness.groups import controller_of, labels_of, name_of
from test.harness.waiting import eventually
from test.harness.world import SET, World
from test.unit.compat.states import State
from tools.localcluster.api import Call
from tools.localcluster.nodes import ZONE_LABEL
from tools.localcluster.pods import is_ready

Object = dict[str, Any]

_AS_LWS = {"fieldManager": "lws"}
_MADE_BY_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
_SECONDS = 180.0


@dataclass
class UpstreamController:
    """Plays one state in one namespace."""

    world: World
    state: State
    _actual_values: dict[str, str] = field(default_factory=dict)

    def play(self) -> None:
        """Create the objects of the state."""
        self.create(self.state.lws)
        # Revisions come before leaders: the intent is recorded first.
        for revision in self.state.revisions:
            self.create(revision)
        for service in self._services():
            self.create(service)
        leaders, groups = self.state.leaders, self.state.lws["spec"]["replicas"]
        partition, replicas = _partition_and_replicas(leaders)
        key, former = labels_of(leaders)[REVISION_LABEL], self._former_template()
        if former is None:
            self._apply(leaders["spec"]["template"], partition, replicas)
            self._create_workers(range(replicas), key)
        else:
            self._apply(former, 0, groups)
            self._create_workers(range(groups), labels_of(former)[REVISION_LABEL])
            self._apply(leaders["spec"]["template"], groups, replicas)
            self._create_workers(range(groups, replicas), key)
            for index in reversed(range(partition, groups)):
                self._apply(leaders["spec"]["template"], index, replicas)
                self._create_workers([index], key)
        self._set_status()

    def _create_workers(self, groups: Iterable[int], key: str) -> None:
        """Create the workers of every leader, and wait until all are ready."""
        for index in groups:
            name = f"web-{index}"
            pod = eventually(
                f"leader {name} of {key} has a node", partial(self._leader, index, key), seconds=_SECONDS
            )
            self._actual_values[f"uid-of-leader-{index}"] = pod["metadata"]["uid"]
            self._actual_values[f"zone-of-leader-{index}"] = self._zone_of(pod)
            for obj in self.state.group(index, key):
                if obj["kind"] != "Pod":
                    # The objects of the former leader are still being deleted.
                    see = partial(self.world.find, obj["kind"], name)
                    eventually(f"{obj['kind']} {name} is deleted", see, lambda now: now is None, _SECONDS)
                    self.create(obj)
        eventually("all pods are ready", self._unready, lambda now: not now, _SECONDS)

    def _leader(self, index: int, key: str) -> Object | None:
        pod = self.world.find("Pod", f"web-{index}")
        if pod is None or "deletionTimestamp" in pod["metadata"] or labels_of(pod)[REVISION_LABEL] != key:
            return None
        if gate_of(pod) == GROUP_REPLACEMENT_GATE:
            self._admit(pod)
        return pod if "nodeName" in pod["spec"] else None

    def _admit(self, pod: Object) -> None:
        """Remove the gate that the product's webhook has added, as later releases of upstream do."""
        group = f"{GROUP_INDEX_LABEL}={labels_of(pod)[GROUP_INDEX_LABEL]}"
        if len(self.world.list("Pod", group)) == 1:
            patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GROUP_REPLACEMENT_GATE}]}}
            path, kind = self.world.path("Pod", name_of(pod)), "application/strategic-merge-patch+json"
            self.world.api.send(Call("PATCH", path, patch, content_type=kind))

    def _zone_of(self, pod: Object) -> str:
        node = json.loads(self.world.kubectl("get", "node", pod["spec"]["nodeName"], "-o", "json"))
        return str(node["metadata"]["labels"][ZONE_LABEL])

    def _unready(self) -> list[str]:
        pods = self.world.list("Pod")
        expected = sum(statefulset["spec"]["replicas"] for statefulset in self.world.list("StatefulSet"))
        return [name_of(pod) for pod in pods if not is_ready(pod)] or ["some are missing"] * (
            expected != len(pods)
        )

    def _apply(self, template: Object, partition: int, replicas: int) -> None:
        """Apply the leader StatefulSet with the fields that upstream applies."""
        stored = self._mapped(self.state.leaders)
        entry = stored["metadata"]["managedFields"][0]
        stored["spec"]["template"] = self._mapped(template)
        body: Object = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            **_extracted(stored, entry["fieldsV1"]),
        }
        body["metadata"] |= {"name": "web", "namespace": self.world.namespace}
        body["metadata"]["labels"][REVISION_LABEL] = labels_of(template)[REVISION_LABEL]
        body["spec"]["replicas"] = replicas
        rolling = self.state.lws["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
        body["spec"]["updateStrategy"]["rollingUpdate"] = {
            "partition": partition,
            "maxUnavailable": rolling["maxUnavailable"] + rolling["maxSurge"],
        }
        query = {**_AS_LWS, "force": "true"}
        path = self.world.path("StatefulSet", "web")
        response = self.world.api.send(
            Call("PATCH", path, body, query, content_type="application/apply-patch+yaml")
        )
        self._actual_values["uid-of-leaders"] = response["metadata"]["uid"]

    def create(self, obj: Object) -> Object:
        """Create one object as upstream would, with the current UIDs of its owners."""
        mapped = self._mapped(obj)
        body = {key: value for key, value in mapped.items() if key != "status"}
        body["metadata"] = {
            key: value for key, value in mapped["metadata"].items() if key not in _MADE_BY_SERVER
        }
        # kubectl writes the same JSON as upstream: `data` of revisions is stored and compared byte for byte.
        created = json.loads(
            self.world.kubectl("create", "--field-manager=lws", "-o", "json", "-f", "-", input=body)
        )
        self._actual_values[obj["metadata"]["uid"]] = created["metadata"]["uid"]
        return created

    def _set_status(self) -> None:
        lws = self.world.get(SET, "web")
        generation = lws["metadata"]["generation"]
        status = json.loads(json.dumps(self.state.lws["status"]))
        status["observedGeneration"] = generation
        for condition in status["conditions"]:
            condition["observedGeneration"] = generation
        self.world.api.merge(f"{self.world.path(SET, 'web')}/status", {"status": status})

    def _services(self) -> Iterator[Object]:
        """Return the set's Services; Services of groups are owned by pods and created with them."""
        return (service for service in self.state.of_kind("Service") if controller_of(service)["kind"] == SET)

    def _former_template(self) -> Object | None:
        """Return the template of old groups, if the state has any."""
        key = labels_of(self.state.leaders)[REVISION_LABEL]
        history = [
            revision
            for revision in self.state.of_kind("ControllerRevision")
            if revision not in self.state.revisions
        ]
        former = [revision for revision in history if labels_of(revision)[REVISION_LABEL] != key]
        return former[0]["data"]["spec"]["template"] if former else None

    def _mapped(self, obj: Object) -> Object:
        """Return the object with the UIDs of the API server, and the zones of the scheduler."""
        text = json.dumps(obj)
        for described, actual in self._actual_values.items():
            text = text.replace(f'"{described}"', f'"{actual}"').replace(
                f'\\"{described}\\"', f'\\"{actual}\\"'
            )
        mapped: Object = json.loads(text)
        return mapped


def _partition_and_replicas(leaders: Object) -> tuple[int, int]:
    return leaders["spec"]["updateStrategy"]["rollingUpdate"]["partition"], leaders["spec"]["replicas"]


def _extracted(value: Any, owned: Mapping[str, Any]) -> Any:
    """Return the part of a stored value that a field set (fieldsV1) owns."""
    if not owned:
        return value
    if isinstance(value, list):
        result = []
        for selector, below in owned.items():
            if selector.startswith("k:"):
                keys = json.loads(selector[2:])
                (element,) = [item for item in value if all(item.get(key) == keys[key] for key in keys)]
                result.append(_extracted(element, below))
        return result
    # Fields that the server dropped were null, or are not served.
    fields = {key[2:]: below for key, below in owned.items() if key.startswith("f:")}
    return {key: _extracted(value.get(key), below) for key, below in fields.items()}
