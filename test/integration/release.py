"""Install Helm releases of our chart, or of a stand-in for upstream's, and read their objects."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from tools.localcluster import ClusterAccess, CommandError
from tools.localcluster.access import environment
from tools.localcluster.build import find_programs
from tools.localcluster.progress import LinePrinter
from tools.localcluster.versions import RELEASES, chosen_minor

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "lws"
GO_STAND_IN = Path(__file__).parent / "charts" / "go-stand-in"
GO_DEFINITION = GO_STAND_IN / "crds" / "leaderworkersets.yaml"
NAMESPACE = "lws-system"
DEFINITION = ("crd", "leaderworkersets.leaderworkerset.x-k8s.io")
DEPLOYMENT = ("deployment", "lws-controller-manager")
SECRET = ("secret", "lws-webhook-server-cert")
WEBHOOKS = (
    ("mutatingwebhookconfiguration", "lws-mutating-webhook-configuration"),
    ("validatingwebhookconfiguration", "lws-validating-webhook-configuration"),
)
CERTIFICATES = {"ca.crt": "ca", "ca.key": "ca key", "tls.crt": "server", "tls.key": "server key"}
_BUNDLE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n").decode()

Object = dict[str, Any]
# The pure Python loader takes seconds for the CRD.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Release:
    """The Helm release `lws` of a cluster; arguments are passed to helm."""

    cluster: ClusterAccess

    def install(self, *arguments: str, chart: Path = CHART) -> None:
        self.cluster.helm("install", "lws", str(chart), *_WHERE, "--create-namespace", *arguments)

    def upgrade(self, *arguments: str, chart: Path = CHART) -> None:
        self.cluster.helm("upgrade", "lws", str(chart), *_WHERE, *arguments)

    def rollback(self, revision: int) -> None:
        self.cluster.helm("rollback", "lws", str(revision), *_WHERE)

    def uninstall(self) -> None:
        self.cluster.helm("uninstall", "lws", *_WHERE, "--wait")

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object:
        """Return the live object. Raise CommandError if it does not exist."""
        obj: Object = json.loads(self.cluster.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
        return obj

    def list(self, kind: str, namespace: str = NAMESPACE) -> list[Object]:
        """Return the live objects of a kind, in one namespace if the kind is namespaced."""
        objects: list[Object] = json.loads(self.cluster.kubectl("get", kind, "-n", namespace, "-o", "json"))[
            "items"
        ]
        return objects

    def uid(self, kind: str, name: str) -> str:
        return str(self.get(kind, name)["metadata"]["uid"])

    def wait_until_sets_are_served(self) -> None:
        """Wait for the CRD. At first it has no conditions, which `kubectl wait` treats as an error."""
        for _ in range(720):
            with suppress(CommandError):
                self.cluster.kubectl("get", "leaderworkersets")
                return
            time.sleep(0.25)
        raise TimeoutError("LeaderWorkerSets are not served 3 minutes after their definition was created")

    def put_certificates(self) -> None:
        """Fill Secret and CA bundles as a running manager does."""
        data = {key: base64.b64encode(text.encode()).decode() for key, text in CERTIFICATES.items()}
        self._merge(*SECRET, {"data": data})
        for kind, name in WEBHOOKS:
            entries = self.get(kind, name)["webhooks"]
            patch = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": _BUNDLE}
                for index in range(len(entries))
            ]
            self.cluster.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))

    def certificates(self) -> dict[str, str]:
        """Return the data of the Secret."""
        data = self.get(*SECRET).get("data", {})
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def bundles(self) -> dict[str, bool]:
        """Report for each webhook entry whether it has the expected CA bundle."""
        return {
            entry["name"]: entry["clientConfig"].get("caBundle") == _BUNDLE
            for kind, name in WEBHOOKS
            for entry in self.get(kind, name)["webhooks"]
        }

    def _merge(self, kind: str, name: str, patch: Object) -> None:
        self.cluster.kubectl("patch", kind, name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))


class HelmAlone:
    """helm without a cluster, for commands on files."""

    def __init__(self, workspace: Path) -> None:
        self._program = find_programs(["helm"], LinePrinter())["helm"]
        # Without a kubeconfig, a command that needs a cluster fails.
        self._environment = {**os.environ, **environment(workspace / "none", workspace)}

    def helm(self, *arguments: str) -> str:
        """Return the output. Raise CommandError with its stderr."""
        done = subprocess.run(
            [self._program, *arguments], env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CommandError(f"helm {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


class Helm(Protocol):
    """An object that can call helm."""

    def helm(self, *arguments: str) -> str: ...


def render(cluster: Helm, *arguments: str, name: str = "lws", chart: Path = CHART) -> list[Object]:
    """Return the objects of a release that is never installed."""
    version = f"--kube-version={RELEASES[chosen_minor()]}"
    text = cluster.helm("template", name, str(chart), *_WHERE, version, *arguments)
    return [document for document in yaml.load_all(text, Loader=_Loader) if document]


def find(objects: list[Object], kind: str, name: str) -> Object:
    """Return the only object of that kind and name."""
    (match,) = [obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] == name]
    return match


def a_set(name: str) -> Object:
    """Return a LeaderWorkerSet with every default written out, so that a schema change does not affect it."""
    container = {"name": "worker", "image": "registry.k8s.io/pause:3.10", "resources": {}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"partition": 0, "maxUnavailable": 1, "maxSurge": 0},
            },
            "networkConfig": {"subdomainPolicy": "Shared"},
            "leaderWorkerTemplate": {
                "size": 2,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "workerTemplate": {"spec": {"containers": [container]}},
            },
        },
    }


_WHERE = ("--namespace", NAMESPACE)
