"""Run the product in tests: the chart as a release, and the manager as a process that tests can kill."""

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

# The Lease of a killed manager expires after this time. Without these flags a restart would wait for 15 s.
QUICK_LEASE = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
# The longest possible timeout of a webhook, because the machine may be busy.
_PATIENT_SECONDS = 30


class Product:
    """A release of the chart and its manager."""

    def __init__(self, deployment: Deployment, *flags: str) -> None:
        self.deployment = deployment
        self.unexpected_ends = 0
        self._flags = flags
        self._stopped_by_us: set[int] = set()
        self.start()

    @property
    def manager(self) -> ManagerProcess:
        """The manager that was started last."""
        return self.deployment.managers[-1]

    def start(self) -> ManagerProcess:
        """Start a manager and wait until it is ready."""
        return self.deployment.start_manager(*self._flags)

    def kill(self) -> None:
        """Send SIGKILL, so that the manager does not release the Lease."""
        self._stopped_by_us.add(self.manager.pid)
        self.manager.kill()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self._stopped_by_us.add(self.manager.pid)
        return self.manager.stop()

    def restart(self) -> None:
        """Stop the manager and start a new one."""
        self.stop()
        self.start()

    def ensure_running(self) -> None:
        """Start a manager if the previous test has left none running."""
        if not self.manager.is_running:
            if self.manager.pid not in self._stopped_by_us:
                self.unexpected_ends += 1
            self.start()

    def log(self) -> str:
        """Return the logs of all managers."""
        paths = sorted(self.deployment.workspace.glob("manager-*.log"))
        return "".join(path.read_text(errors="replace") for path in paths)


@contextmanager
def running_product(cluster: ClusterAccess, workspace: Path, *arguments: str) -> Iterator[Product]:
    """Install the chart and run one manager during the block.

    arguments: further arguments of helm.
    """
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
    """Create the CRDs before the chart does, and wait until they are served.

    The admission plugin that checks owner references reads the list of kinds on its first use, and then every
    30 s. If the chart created all objects at once, the first use would be its Deployment, before the CRDs
    exist.
    """
    for definition in definitions().values():
        # A client-side apply would store the CRD twice, once in an annotation.
        text = json.dumps(definition)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    groups = {definition["spec"]["group"] for definition in definitions().values()}
    eventually(
        "the CRDs are served",
        lambda: cluster.kubectl("get", "--raw", "/apis"),
        lambda served: all(group in served for group in groups),
    )


def wait_until_sets_are_collected(cluster: ClusterAccess) -> None:
    """Wait until the garbage collector knows the kinds of `serve_definitions`.

    The garbage collector reads the list of kinds every 30 s. Until then foreground deletions of these kinds
    do not finish: drained LeaderWorkerSets would outlive a rollout of DisaggregatedSets by up to 40 s. Call
    this function before webhooks are configured.
    """
    name = "collected"
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    empty_set = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 0, "leaderWorkerTemplate": {"workerTemplate": template}},
    }
    text = json.dumps(empty_set)
    eventually("sets can be created", lambda: _refusal(cluster, text, "create"), lambda why: not why)
    cluster.kubectl("delete", "leaderworkersets", name, "--cascade=foreground", "--timeout=120s")


def wait_until_sets_may_own(cluster: ClusterAccess) -> None:
    """Wait until the API server lets the manager create objects that a set owns."""
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

    text, command = json.dumps(service), ("create", "--dry-run=server", f"--as={MANAGER}")
    eventually("sets may own objects", lambda: _refusal(cluster, text, *command), lambda why: not why)


def _refusal(cluster: ClusterAccess, manifest: str, *command: str) -> str:
    """Return the error of kubectl; empty if the command succeeds."""
    try:
        cluster.kubectl(*command, "-f", "-", input=manifest)
    except CommandError as error:
        return str(error)
    return ""
