"""Build manifests that run a distributed engine of another project as a LeaderWorkerSet.

They are a ConfigMap with the programs, keys, a Service of the leaders, and the set. docs/tasks/serving.md
describes what such a set needs so that a rollout loses no request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from test.node.groups import NAME_LABEL, manifest
from tools.engines import NAME

PORT = 8080
LABEL = "leaderworkerset.sigs.k8s.io"
# Longer than endpoints take to drop a terminating pod, also while other tests run.
DRAIN_SECONDS = 10

_PROGRAMS = Path(__file__).parent / "engines"


@dataclass(frozen=True)
class Engine:
    """An engine whose leader answers at PORT once its whole group participates."""

    name: str
    size: int
    replicas: int
    leader: list[str]
    worker: list[str]
    worker_is_ready: dict[str, Any] = field(default_factory=dict)
    """The readiness probe of workers; empty if the leader's probe checks all pods."""
    keys: bool = False
    """Whether its pods connect to each other by ssh."""
    total: int | None = None
    """The sum of the numbers of all ranks, or None if the engine does not add them."""

    def objects(self, tag: str) -> list[dict[str, Any]]:
        """Return all objects to apply, with the image of a tag."""
        selector = {NAME_LABEL: self.name, f"{LABEL}/worker-index": "0"}
        files = {path.name: path.read_text() for path in sorted(_PROGRAMS.glob("*"))}
        spec = {"selector": selector, "ports": [{"port": PORT}]}
        return [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "programs"}, "data": files},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": self.service}, "spec": spec},
            self._set(tag),
        ]

    @property
    def service(self) -> str:
        """Return the name of the Service of its leaders."""
        return f"ask-{self.name}"

    def _set(self, tag: str) -> dict[str, Any]:
        answers = {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 10}
        templates = {
            "leaderTemplate": self._template(tag, self.leader, answers),
            "workerTemplate": self._template(tag, self.worker, self.worker_is_ready),
        }
        limits = {"maxSurge": 1, "maxUnavailable": 0}
        strategy = {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}
        spec = {
            "replicas": self.replicas,
            "rolloutStrategy": strategy,
            "leaderWorkerTemplate": templates,
        }
        return manifest(self.name, spec, {}, self.size)

    def _template(self, tag: str, command: list[str], is_ready: dict[str, Any]) -> dict[str, Any]:
        revision = {"fieldRef": {"fieldPath": f"metadata.labels['{LABEL}/template-revision-hash']"}}
        volumes: list[dict[str, Any]] = [{"name": "programs", "configMap": {"name": "programs"}}]
        if self.keys:
            volumes.append({"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o600}})
        container = {
            "name": "engine",
            "image": f"{NAME}:{tag}",
            "command": command,
            "env": [{"name": "REVISION", "valueFrom": revision}],
            **({"readinessProbe": is_ready} if is_ready else {}),
            "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
            "volumeMounts": [
                {"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes
            ],
        }
        spec = {"containers": [container], "volumes": volumes}
        return {"spec": {**spec, "terminationGracePeriodSeconds": DRAIN_SECONDS + 10}}


MPI = Engine(
    "mpi",
    size=3,
    replicas=2,
    leader=["bash", "/programs/mpi_leader.sh"],
    worker=["bash", "/programs/mpi_worker.sh"],
    worker_is_ready={"tcpSocket": {"port": 2222}, "periodSeconds": 1},
    keys=True,
    total=1 + 2 + 3,
)
RAY = Engine(
    "ray",
    size=2,
    replicas=1,
    leader=["bash", "/programs/ray_leader.sh"],
    worker=["bash", "/programs/ray_worker.sh"],
)
ENGINES = (MPI, RAY)


def keys() -> dict[str, Any]:
    """Return a Secret with one ssh key for all pods, created for a test."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    data = {"id": private, "authorized": f"{public}\n"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": data}
