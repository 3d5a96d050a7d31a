"""DisaggregatedSets with their objects, written by hand as upstream's releases leave them.

The product builds none of these objects.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lws.disaggregatedset.names import key_of
from lws_api.crds import defaulted
from lws_api.disaggregatedset.v1 import API_VERSION, KIND, SCALER_KIND
from test.unit.stories.fake_cluster import FakeCluster

PREFIX = "disaggregatedset.x-k8s.io"
INITIAL = f"{PREFIX}/initial-replicas"
VERSIONS = ("v0.9.0", "v0.10.0", "reference")


def role(name: str, replicas: int | None, image: str = "nginx:1.29.3", **more: Any) -> dict[str, Any]:
    """Return a role as users write it.

    replicas: the number of groups; None for a role with a scaler. more: maxSurge, maxUnavailable.
    """
    pod = {"containers": [{"name": "worker", "image": image}]}
    spec: dict[str, Any] = {"leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": pod}}}
    if more:
        spec["rolloutStrategy"] = {"rollingUpdateConfiguration": more}
    if replicas is None:
        return {"name": name, "scaling": {"mode": "External"}, "spec": spec}
    return {"name": name, "spec": {**spec, "replicas": replicas}}


@dataclass
class UpstreamSet:
    """The objects that one release of upstream left.

    version: the release. spec: fields in addition to the roles.
    """

    cluster: FakeCluster
    version: str
    roles: list[dict[str, Any]]
    spec: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.obj = self.cluster.add(_set({"roles": self.roles, **self.spec}))

    @staticmethod
    def completed(roles: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return roles as they are stored."""
        stored: list[dict[str, Any]] = _set({"roles": roles})["spec"]["roles"]
        return stored

    @property
    def is_legacy(self) -> bool:
        """Whether names contain no slice."""
        return self.version == "v0.9.0"

    @property
    def key(self) -> str:
        """The key that upstream computes for the roles."""
        return upstream_key(self.obj["spec"]["roles"])

    def _identity(self, index: int, key: str, name: str) -> tuple[str, dict[str, str]]:
        labels = {f"{PREFIX}/name": "demo", f"{PREFIX}/role": name, f"{PREFIX}/revision": key}
        if self.is_legacy:
            return f"demo-{key}-{name}", labels
        return f"demo-{index}-{key}-{name}", {**labels, f"{PREFIX}/slice": str(index)}

    def _owner(self, **more: Any) -> list[dict[str, Any]]:
        uid = self.obj["metadata"]["uid"]
        reference = {"apiVersion": API_VERSION, "kind": KIND, "name": "demo", "uid": uid, "controller": True}
        return [{**reference, **more}]

    def child(
        self,
        key: str,
        role_spec: Mapping[str, Any],
        replicas: int,
        initial: int | None = None,
        index: int = 0,
    ) -> None:
        """Store the LeaderWorkerSet of a role, as a typed client sends it and as webhook and definition
        complete it.
        """
        name, labels = self._identity(index, key, role_spec["name"])
        app = f"demo-{role_spec['name']}" if self.is_legacy else f"demo-{index}-{role_spec['name']}"
        labels = {**labels, "app": app}
        spec = copy.deepcopy(dict(role_spec["spec"]))
        policy = self.obj["spec"].get("placementPolicy")
        for part in ("leaderTemplate", "workerTemplate"):
            template = spec["leaderWorkerTemplate"].get(part)
            if template is not None:
                _label(template, labels)
                if policy is not None:
                    template["spec"]["affinity"] = _affinity(policy, index)
        for claim in spec["leaderWorkerTemplate"].get("volumeClaimTemplates", ()):
            claim["status"] = {}
            claim["spec"].setdefault("resources", {})
        rolling = (spec.get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
        rolling = {"maxSurge": 0, "maxUnavailable": 1, "partition": 0, **rolling}
        spec["rolloutStrategy"] = {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling}
        spec |= {"networkConfig": {"subdomainPolicy": "Shared"}, "replicas": replicas}
        of_role = role_spec.get("metadata") or {}
        annotations = dict(of_role.get("annotations") or {})
        if initial is not None:
            annotations[INITIAL] = str(initial)
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "annotations": annotations}
        metadata |= {"labels": {**(of_role.get("labels") or {}), **labels}, "ownerReferences": self._owner()}
        type_meta = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
        self.cluster.add(defaulted({**type_meta, "metadata": metadata, "spec": spec}))

    def service(self, key: str, role_spec: Mapping[str, Any], index: int = 0) -> None:
        name, labels = self._identity(index, key, role_spec["name"])
        metadata: dict[str, Any] = {"name": f"{name}-prv", "namespace": "default", "labels": labels}
        spec: dict[str, Any] = {
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "type": "ClusterIP",
            "sessionAffinity": "None",
        }
        spec |= {"selector": labels, "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
        metadata["ownerReferences"] = self._owner()
        self.cluster.add({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def scaler(self, name: str, replicas: int) -> None:
        labels = {f"{PREFIX}/name": "demo", f"{PREFIX}/role": name}
        metadata: dict[str, Any] = {"name": f"demo-{name}", "namespace": "default", "labels": labels}
        metadata["ownerReferences"] = self._owner(blockOwnerDeletion=True)
        selector = f"{PREFIX}/name=demo,{PREFIX}/role={name},leaderworkerset.sigs.k8s.io/worker-index=0"
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "Bound",
            "message": "Scaler bound to a live DisaggregatedSet role",
            "lastTransitionTime": "2026-02-01T00:00:00Z",
            "observedGeneration": 1,
        }
        status: dict[str, Any] = {"replicas": replicas, "selector": selector, "observedGeneration": 1}
        status["conditions"] = [condition]
        obj = {"apiVersion": API_VERSION, "kind": SCALER_KIND, "metadata": metadata}
        self.cluster.add({**obj, "spec": {"replicas": replicas}, "status": status})

    def status(self, counts: Mapping[str, int], is_available: bool) -> None:
        """Write the status. Releases before the reference write none."""
        if self.version != "reference":
            return
        fields = ("replicas", "readyReplicas", "updatedReplicas")
        roles = [
            {"name": name, **{counter: count for counter in fields if count}}
            for name, count in counts.items()
        ]
        reason = "AllRolesReady" if is_available else "RolloutInProgress"
        start = "All" if is_available else "Not all"
        predicate = (
            "roles have reached their desired replica count, ready and updated to the current revision"
        )
        condition = {
            "type": "Available" if is_available else "Progressing",
            "status": "True",
            "reason": reason,
            "message": f"{start} {predicate}",
            "lastTransitionTime": "2026-02-01T00:00:00Z",
            "observedGeneration": 1,
        }
        status = {"observedGeneration": 1, "roleStatuses": roles, "conditions": [condition]}
        self.cluster.change(self.obj, status=status)


def _label(template: dict[str, Any], labels: Mapping[str, str]) -> None:
    """Set labels in a template. The set's labels override labels of users."""
    metadata = template.get("metadata") or {}
    template["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    for container in template["spec"]["containers"]:
        container.setdefault("resources", {})


def _affinity(policy: Mapping[str, str], index: int) -> dict[str, Any]:
    """Return the affinity of §13."""
    name, part = f"{PREFIX}/name", f"{PREFIX}/slice"
    of_set = {"key": name, "operator": "In", "values": ["demo"]}
    others = {"key": part, "operator": "NotIn", "values": [str(index)]}
    exists = {"key": part, "operator": "Exists"}
    spread = [of_set, others] if index else [of_set, exists, others]
    foreign = [
        {"key": name, "operator": "Exists"},
        {"key": name, "operator": "NotIn", "values": ["demo"]},
        exists,
    ]
    apart = [spread, foreign] if policy["type"] == "ExclusiveTopology" else [spread]
    together = [[of_set, {"key": part, "operator": "In", "values": [str(index)]}]]
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchExpressions": expressions}, "topologyKey": policy["topology"]}
                for expressions in terms
            ]
        }
        for kind, terms in (("podAffinity", together), ("podAntiAffinity", apart))
    }


def _set(spec: Mapping[str, Any]) -> dict[str, Any]:
    obj = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "demo", "namespace": "default"}}
    return defaulted({**obj, "spec": dict(spec)})


def upstream_key(roles: list[dict[str, Any]]) -> str:
    """Return the hash that upstream computes (its test vectors are in test_key.py)."""
    return key_of({role["name"]: role["spec"] for role in roles})
