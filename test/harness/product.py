"""How does the product run in tests? The chart as a release, the manager as a process that may be killed.

In: a cluster. Out: a `Product` whose manager answers webhooks and acts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lws_api.crds import definitions
from lws_api.leaderworkerset.v1 import API_VERSION, KIND
from test.harness.audit import MANAGER
from test.harness.waiting import eventually
from tools.deployment import Deployment, ManagerProcess
from tools.localcluster import ClusterAccess, CommandError

# A killed manager leaves the Lease to its successor after this time; by default a restart would wait 15 s.
QUICK_LEASE = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
# As long as an API server may wait for a webhook, for a machine that has other things to do.
_PATIENT_SECONDS = 30


class Product:
    """A release and its manager."""

    def __init__(self, deployment: Deployment, *flags: str) -> None:
        self.deployment = deployment
        self.unexpected_ends = 0
        self._flags = flags
        self._stopped_by_us: set[int] = set()
        self.start()

    @property
    def manager(self) -> ManagerProcess:
        """The one started last."""
        return self.deployment.managers[-1]

    def start(self) -> ManagerProcess:
        """A new manager that is ready."""
        return self.deployment.start_manager(*self._flags)

    def kill(self) -> None:
        """SIGKILL: no last words, no release of the Lease."""
        self._stopped_by_us.add(self.manager.pid)
        self.manager.kill()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._stopped_by_us.add(self.manager.pid)
        return self.manager.stop()

    def restart(self) -> None:
        """An orderly end and a new manager."""
        self.stop()
        self.start()

    def ensure_running(self) -> None:
        """Whatever the test before has done: the next one has a manager."""
        if not self.manager.is_running:
            if self.manager.pid not in self._stopped_by_us:
                self.unexpected_ends += 1
            self.start()

    def log(self) -> str:
        """What all managers have logged."""
        paths = sorted(self.deployment.workspace.glob("manager-*.log"))
        return "".join(path.read_text(errors="replace") for path in paths)


@contextmanager
def running_product(cluster: ClusterAccess, workspace: Path, *arguments: str) -> Iterator[Product]:
    """The chart installed and one manager running; both go at the end. Further arguments go to helm."""
    deployment = Deployment(cluster, workspace)
    serve_definitions(cluster)
    deployment.install("--take-ownership", "--set", f"webhooks.timeoutSeconds={_PATIENT_SECONDS}", *arguments)
    try:
        wait_until_sets_may_own(cluster)
        yield Product(deployment, *QUICK_LEASE)
    finally:
        deployment.stop()
        deployment.uninstall()


def serve_definitions(cluster: ClusterAccess) -> None:
    """Have the APIs served before the chart brings them.

    The admission plugin that checks owner references reads the list of kinds when it first needs it, and then
    every 30 s: made together, the Deployment of the chart would be its first need, and the CRD too late.
    """
    for definition in definitions().values():
        # The annotation of a client-side apply would double the CRD.
        text = json.dumps(definition)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    groups = {definition["spec"]["group"] for definition in definitions().values()}
    eventually(
        "the CRDs are served",
        lambda: cluster.kubectl("get", "--raw", "/apis"),
        lambda served: all(group in served for group in groups),
    )


def wait_until_sets_are_collected(cluster: ClusterAccess) -> None:
    """Return when the garbage collector ends deletions in the foreground of the kinds of `serve_definitions`.

    It reads the list of kinds every 30 s. A rollout of DisaggregatedSets that begins earlier is over when all
    else is done, and its drained LeaderWorkerSets are there for up to 40 s more. To be called before webhooks
    are there.
    """
    name = "collected"
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    of_nothing = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 0, "leaderWorkerTemplate": {"workerTemplate": template}},
    }
    text = json.dumps(of_nothing)
    eventually("sets can be made", lambda: _refusal(cluster, text, "create"), lambda why: not why)
    cluster.kubectl("delete", "leaderworkersets", name, "--cascade=foreground", "--timeout=120s")


def wait_until_sets_may_own(cluster: ClusterAccess) -> None:
    """Return when the API server lets the manager make objects that a set owns."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": "nobody",
        "uid": "0",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "owned", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"clusterIP": "None"},
    }

    text, asking = json.dumps(service), ("create", "--dry-run=server", f"--as={MANAGER}")
    eventually("sets may own objects", lambda: _refusal(cluster, text, *asking), lambda why: not why)


def _refusal(cluster: ClusterAccess, manifest: str, *command: str) -> str:
    """What kubectl says against it; nothing where it is done."""
    try:
        cluster.kubectl(*command, "-f", "-", input=manifest)
    except CommandError as error:
        return str(error)
    return ""
