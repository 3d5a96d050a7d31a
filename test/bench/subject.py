"""Run the measured controller as a process of this host, with the ServiceAccount of the chart.

Another controller can be measured by its command.
"""

from __future__ import annotations

import shlex
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from test.bench.processes import Peak, cpu_seconds, family
from test.bench.scrape import Scrape, parse
from test.harness.product import serve_definitions, wait_until_sets_are_collected, wait_until_sets_may_own
from tools.deployment import Deployment, DeploymentError, ManagerProcess
from tools.localcluster import LocalCluster
from tools.localcluster.access import read_access
from tools.localcluster.cluster import COMPONENTS

_FIRST_PASS_SECONDS = 120.0
_POLL_SECONDS = 0.05
_POD_WEBHOOKS = ("mpod.kb.io", "vpod.kb.io")
# The flags that the chart sets.
_CHART_FLAGS = ("--zap-log-level=2",)
_WEBHOOK_SECONDS = "apiserver_admission_webhook_admission_duration_seconds"
_REVIEW_SECONDS, _POD_PATH = "controller_runtime_webhook_latency_seconds", "/mutate--v1-pod"
_ETCD_SECONDS = "etcd_request_duration_seconds"
_KEPT = (_WEBHOOK_SECONDS, _ETCD_SECONDS, "apiserver_cache_list_returned_objects")


@dataclass
class Subject:
    """The measured controller.

    against: the command of another controller, in which {config} and {kubeconfig} are replaced by paths; if
    they are absent, both are appended as flags. profile: the path of a profile of our own manager. runner:
    the module that runs the manager then.
    """

    cluster: LocalCluster
    deployment: Deployment
    against: str | None = None
    profile: Path | None = None
    runner: str = "test.bench.profiled"
    peak: Peak = field(default_factory=Peak)
    _manager: ManagerProcess | None = None

    def start(self) -> float:
        """Start it; return the seconds until it is ready and has finished a first pass, or has no work."""
        manager = self._manager = self.deployment.manager(*_CHART_FLAGS)
        if self.against is not None:
            manager.command = _filled(self.against, manager.command)
        elif self.profile is not None:
            program = [sys.executable, "-m", self.runner, str(self.profile)]
            manager.command = [*program, *manager.command[3:]]
        self.deployment.point_webhooks(manager)
        began = time.monotonic()
        manager.start().wait_ready()
        self.peak.watch(self.pids)
        return time.monotonic() - began

    def until_first_pass(self, began: float) -> float:
        """Return the seconds from `began` (time.monotonic) until a pass has ended.

        There must be work to do.
        """
        deadline = time.monotonic() + _FIRST_PASS_SECONDS
        while not self.scrape().total("controller_runtime_reconcile_total"):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no pass within {_FIRST_PASS_SECONDS:.0f} s:\n{self._running.last_words()}"
                )
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - began

    def stop(self) -> None:
        """Stop it in an orderly way."""
        if self._manager is not None and self._manager.is_running:
            self._manager.stop()

    def check(self) -> None:
        """Raise DeploymentError if it has ended by itself."""
        if not self._running.is_running:
            raise DeploymentError(f"the controller has ended:\n{self._running.last_words()}")

    @property
    def pids(self) -> list[int]:
        return family(self._running.pid)

    @property
    def cpu(self) -> float:
        """Return its CPU seconds since the start."""
        return cpu_seconds(self.pids)

    def scrape(self) -> Scrape:
        """Return its current metrics; none while it does not listen."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        token = read_access(self.cluster.kubeconfig.read_text()).token
        address = f"https://127.0.0.1:{self._running.metrics_port}/metrics"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        with (
            suppress(urllib.error.URLError, ConnectionError, TimeoutError),
            urllib.request.urlopen(request, timeout=10, context=trusting) as answer,
        ):
            return parse(answer.read().decode())
        return Scrape({})

    def server_scrape(self) -> Scrape:
        """Return the API server's metrics of webhooks and lists."""
        lines = self.cluster.kubectl("get", "--raw", "/metrics").splitlines()
        return parse("\n".join(line for line in lines if line.startswith(_KEPT)))

    @property
    def _running(self) -> ManagerProcess:
        assert self._manager is not None, "start it first"
        return self._manager


def deployed(cluster: LocalCluster, *arguments: str) -> Deployment:
    """Install the chart, and wait until its kinds are served. arguments: for helm."""
    deployment = Deployment(cluster, cluster.workspace / "bench")
    serve_definitions(cluster)
    wait_until_sets_are_collected(cluster)
    deployment.install("--take-ownership", *arguments)
    wait_until_sets_may_own(cluster)
    return deployment


@contextmanager
def running(
    cluster: LocalCluster, against: str | None = None, profile: Path | None = None
) -> Iterator[Subject]:
    """Install the chart and run the controller. against, profile: as in `Subject`."""
    subject = Subject(cluster, deployed(cluster, "--set", "replicaCount=1"), against, profile)
    subject.start()
    try:
        yield subject
    finally:
        subject.stop()
        subject.peak.close()


def control_plane_cpu(cluster: LocalCluster) -> float:
    """Return the CPU seconds of all control-plane components and of the simulated kubelets."""
    pids = (cluster.component(name).pid for name in COMPONENTS)
    return cpu_seconds(pid for pid in pids if pid is not None)


def pod_webhook_quantile(server: Scrape, share: float) -> float | None:
    """Return the seconds that the API server waited for the pod webhook."""
    quantiles = [webhook_quantile(server, share, webhook) for webhook in _POD_WEBHOOKS]
    return max((quantile for quantile in quantiles if quantile is not None), default=None)


def webhook_quantile(server: Scrape, share: float, webhook: str) -> float | None:
    """Return the seconds that the API server waited for a webhook of this name, TLS and network included."""
    return server.quantile(_WEBHOOK_SECONDS, share, name=webhook)


def review_quantile(own: Scrape, share: float, path: str = _POD_PATH) -> float | None:
    """Return the seconds that the controller took for a review, by its own clock. path: of the webhook."""
    return own.quantile(_REVIEW_SECONDS, share, webhook=path)


def etcd_quantile(server: Scrape, share: float) -> float | None:
    """Return the seconds that the API server waited for etcd, which has little work for each request here."""
    return server.quantile(_ETCD_SECONDS, share)


def _filled(command: str, ours: Sequence[str]) -> list[str]:
    """Return the words of a command with its paths filled in.

    ours: the command of our manager, whose flags name both files.
    """
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in ours if flag.startswith("--"))
    words = shlex.split(command)
    if not any("{" in word for word in words):
        words += ["--config={config}", "--kubeconfig={kubeconfig}"]
    return [word.format_map(flags) for word in words]
