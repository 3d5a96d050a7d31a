"""Run the product where no containers run: the chart through helm, the manager as a process of this host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import yaml

from tools.linux import end_with_parent
from tools.localcluster.access import ClusterAccess
from tools.localcluster.api import ask
from tools.localcluster.ports import pick_ports

REPOSITORY = Path(__file__).resolve().parents[1]
CHART = REPOSITORY / "charts" / "lws"
NAMESPACE = "lws-system"
SERVICE_ACCOUNT = "lws-controller-manager"

_WEBHOOKS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
_HOST = "127.0.0.1"
# Generous deadlines, which only end a wait in vain: the speed of machines differs.
_START_SECONDS = 180.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05


class DeploymentError(RuntimeError):
    """The manager did not start or did not stop; the message ends with the last lines of its log."""


@dataclass
class ManagerProcess:
    """One `lws manager` on this host, which may be started again after its end.

    Start it from a thread that lives as long as it is needed: the kernel ends it together with that thread.
    """

    command: Sequence[str]
    log_path: Path
    health_port: int
    webhook_port: int
    metrics_port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process ID; raises DeploymentError if the manager was not started."""
        if self._process is None:
            raise DeploymentError("this manager was not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the manager was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> ManagerProcess:
        """Start the manager without waiting for anything; raises DeploymentError if it already runs."""
        if self.is_running:
            raise DeploymentError(f"this manager runs already (pid {self.pid})")
        if self._log is not None:
            self._log.close()
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            list(self.command),
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **self.environment},
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
            start_new_session=True,
        )
        return self

    def wait_ready(self, seconds: float = _START_SECONDS) -> ManagerProcess:
        """Wait until /readyz answers with status 200."""
        deadline = time.monotonic() + seconds
        while self.probe("readyz")[0] != 200:
            if not self.is_running:
                raise DeploymentError(f"the manager ended while it was starting:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise DeploymentError(f"the manager is not ready after {seconds:.0f} s:\n{self.last_words()}")
            time.sleep(_POLL_SECONDS)
        return self

    def probe(self, endpoint: str) -> tuple[int, str]:
        """Return status and text of a probe; (0, reason) if nothing answers."""
        return ask(f"http://{_HOST}:{self.health_port}/{endpoint}?verbose")

    def stop(self, seconds: float = _STOP_SECONDS) -> int:
        """Send SIGTERM, wait for the end, and return the exit code."""
        return self._end(signal.SIGTERM, seconds)

    def kill(self) -> int:
        """Send SIGKILL, wait for the end, and return the exit code."""
        return self._end(signal.SIGKILL, _STOP_SECONDS)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal. SIGSTOP and SIGCONT simulate a process that hangs."""
        if self._process is not None:
            self._process.send_signal(number)

    def last_words(self, lines: int = 25) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, number: signal.Signals, seconds: float) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise DeploymentError(
                f"no end {seconds:.0f} s after {number.name}:\n{self.last_words()}"
            ) from error
        finally:
            if self._log is not None:
                self._log.close()


@dataclass(frozen=True)
class ManagerPorts:
    """The ports on which one manager listens on this host."""

    webhook: int
    health: int
    metrics: int


@dataclass
class Deployment:
    """The chart as a release on a cluster, and its managers as processes of this host."""

    access: ClusterAccess
    workspace: Path
    release: str = "lws"
    managers: list[ManagerProcess] = field(default_factory=list)

    def install(self, *arguments: str) -> None:
        """Run `helm upgrade --install` for the chart, with further arguments."""
        where = ("-n", NAMESPACE, "--create-namespace")
        self.access.helm("upgrade", "--install", self.release, str(CHART), *where, *arguments)

    def uninstall(self) -> None:
        """Run `helm uninstall`. The CRDs and the sets stay."""
        self.access.helm("uninstall", self.release, "-n", NAMESPACE, "--wait")

    def manager(
        self,
        *flags: str,
        configuration: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ManagerProcess:
        """Return a manager, not yet started, with the chart's configuration and ServiceAccount's rights."""
        ports = ManagerPorts(*pick_ports(3))
        number = len(self.managers)
        self.workspace.mkdir(parents=True, exist_ok=True)
        config = self.workspace / f"manager-{number}.yaml"
        host = self.access.host_address
        settings = host_configuration(self._configuration(), ports, configuration or {}, host)
        config.write_text(yaml.safe_dump(settings))
        kubeconfig = self.access.kubeconfig_for_service_account(NAMESPACE, SERVICE_ACCOUNT)
        command = [sys.executable, "-m", "lws", "manager", f"--config={config}", f"--kubeconfig={kubeconfig}"]
        # Readers of this log want to know why something happened.
        manager = ManagerProcess(
            command=[*command, "--zap-log-level=debug", *flags],
            log_path=self.workspace / f"manager-{number}.log",
            health_port=ports.health,
            webhook_port=ports.webhook,
            metrics_port=ports.metrics,
            # The client library leaves files behind when the process is killed. These are removed with the
            # workspace.
            environment={"TMPDIR": str(self.workspace), **(environment or {})},
        )
        self.managers.append(manager)
        return manager

    def start_manager(self, *flags: str, configuration: Mapping[str, Any] | None = None) -> ManagerProcess:
        """Start a manager that answers the webhooks of the cluster, and wait until it is ready."""
        manager = self.manager(*flags, configuration=configuration).start()
        self.point_webhooks(manager)
        return manager.wait_ready()

    def point_webhooks(self, manager: ManagerProcess) -> None:
        """Make the API server call this manager directly, as no Service is reachable. CA bundles stay."""
        self.point_webhooks_at(manager.webhook_port)

    def point_webhooks_at(self, port: int) -> None:
        """Make the API server call the process that listens on this port of the host."""
        for kind in _WEBHOOKS:
            name = f"lws-{kind.removesuffix('webhookconfiguration')}-webhook-configuration"
            stored = json.loads(self.access.kubectl("get", kind, name, "-o", "json"))
            patch = webhook_patch(stored["webhooks"], port, self.access.host_address)
            self.access.kubectl("patch", kind, name, "--type=json", "-p", json.dumps(patch))

    def stop(self) -> None:
        """Stop every manager."""
        for manager in reversed(self.managers):
            manager.stop()

    def _configuration(self) -> str:
        text = self.access.kubectl("get", "configmap", "lws-manager-config", "-n", NAMESPACE, "-o", "json")
        return str(json.loads(text)["data"]["controller_manager_config.yaml"])


def host_configuration(
    text: str, ports: ManagerPorts, extra: Mapping[str, Any], webhook_host: str = _HOST
) -> dict[str, Any]:
    """Return the manager's configuration for a process of this host.

    text: the configuration file of the chart.
    extra: sections that replace whole sections.
    webhook_host: the only address on which webhooks are served, and for which their certificate is valid.
    """
    configuration: dict[str, Any] = yaml.safe_load(text)
    webhook = {**configuration.get("webhook", {}), "host": webhook_host, "port": ports.webhook}
    return {
        **configuration,
        "webhook": webhook,
        "health": {"healthProbeBindAddress": f"{_HOST}:{ports.health}"},
        "metrics": {"bindAddress": f"{_HOST}:{ports.metrics}"},
        **extra,
    }


def webhook_patch(
    webhooks: Sequence[Mapping[str, Any]], port: int, host: str = _HOST
) -> list[dict[str, Any]]:
    """Return the JSON patch that points the entries of a webhook configuration at a port of `host`.

    The paths stay, whether the entries call a Service or an address so far. The CA bundles stay too.
    """
    patch: list[dict[str, Any]] = []
    for index, webhook in enumerate(webhooks):
        former, base = webhook["clientConfig"], f"/webhooks/{index}/clientConfig"
        if "service" in former:
            path = former["service"].get("path", "/")
            patch.append({"op": "remove", "path": f"{base}/service"})
        else:
            path = urlsplit(former["url"]).path
        patch.append({"op": "add", "path": f"{base}/url", "value": f"https://{host}:{port}{path}"})
    return patch
