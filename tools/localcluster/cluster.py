"""Start, disturb and remove a control plane with simulated nodes on the loopback address."""

from __future__ import annotations

import http.client
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tools.linux import require_linux
from tools.localcluster.access import Access, ClusterAccess, kubeconfig_text
from tools.localcluster.api import Api, tolerating
from tools.localcluster.build import find_programs
from tools.localcluster.component import Blueprint, Component, ComponentError, Guard, Supervisor, wait_until
from tools.localcluster.components import PROGRAMS, Options, Plan, Ports, command_lines, health_addresses
from tools.localcluster.credentials import write_credentials
from tools.localcluster.nodes import DEAD_LABEL
from tools.localcluster.pods import Pods
from tools.localcluster.ports import pick_ports
from tools.localcluster.progress import LinePrinter, Report
from tools.localcluster.simulation import KUBELET, STAGES, add_nodes, kubelet_blueprint

ADMIN = "admin"
COMPONENTS = (*PROGRAMS, KUBELET)

_START_SECONDS = 240.0


class LocalCluster(ClusterAccess):
    """A separate control plane. Use it as a context manager, or call `start` and `stop`.

    Several clusters can run side by side. $K8S names their version. `report` is called with the progress of
    the first build.

    Raises BuildError, NoGoError or UnknownVersionError if there are no binaries, NotLinuxError if they could
    not run here, and ComponentError if a component does not start. Nothing is left running then.
    """

    def __init__(self, options: Options | None = None, report: Report | None = None) -> None:
        self._options = options or Options()
        self._report = report or LinePrinter()
        self._components: dict[str, Component] = {}
        self._supervisor: Supervisor | None = None
        self._guard: Guard | None = None
        self._plan: Plan | None = None
        self._api: Api | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Build what is missing, start all components, and return when pods can be scheduled to all nodes."""
        if self._plan is not None:
            raise ComponentError("this cluster is already running")
        require_linux()
        programs = find_programs([*self._options.programs, "kubectl"], self._report)
        state = Path(tempfile.mkdtemp(prefix="localcluster-"))
        self._guard = Guard(state)
        try:
            self._plan = _prepare(state, programs, self._options)
            token = self._plan.credentials.tokens[ADMIN]
            self._api = Api(self._plan.server, self.ca_file.read_bytes(), token)
            blueprints = _blueprints(self._plan)
            self._components = {blueprint.name: Component(blueprint, self._guard) for blueprint in blueprints}
            self._bring_up()
            self._supervisor = Supervisor(self._components.values())
            self._supervisor.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all components in reverse order and remove their files. A second call does nothing."""
        if self._supervisor is not None:
            self._supervisor.stop()
        for component in reversed(self._components.values()):
            component.stop()
        if self._api is not None:
            self._api.close()
        if self._guard is not None:
            self._guard.close()
            shutil.rmtree(self._guard.state, ignore_errors=True)
        self._components, self._supervisor, self._guard = {}, None, None
        self._plan, self._api = None, None

    @property
    def kubeconfig(self) -> Path:
        return self._running.kubeconfig(ADMIN)

    @property
    def server(self) -> str:
        return self._running.server

    @property
    def ca_file(self) -> Path:
        """The CA that has signed the API server's certificate."""
        return self._running.credentials.ca

    @property
    def logs(self) -> Path:
        return self._running.state / "logs"

    @property
    def audit_log(self) -> Path:
        """The audit log with one JSON object per line; empty or absent without an audit policy."""
        return self._running.audit_log

    @property
    def api(self) -> Api:
        if self._api is None:
            raise ComponentError("this cluster is not running: call start() first")
        return self._api

    @property
    def pods(self) -> Pods:
        """The pods, with methods that make them fail."""
        return Pods(self.api)

    @property
    def workspace(self) -> Path:
        return self._running.state

    def binary(self, name: str) -> Path:
        """Return the path of a program, such as kubectl or helm. Build the program if needed."""
        path = self._running.programs.get(name)
        return path or find_programs([name], self._report)[name]

    def component(self, name: str) -> Component:
        """Return one of COMPONENTS; raises KeyError for any other name."""
        return self._components[name]

    def stop_component(self, name: str) -> None:
        """Stop one component gracefully."""
        self.component(name).stop()

    def kill_component(self, name: str) -> None:
        """Send SIGKILL to one component."""
        self.component(name).kill()

    def start_component(self, name: str) -> None:
        """Start a stopped or killed component with its old ports and data, and return when it is healthy."""
        self.component(name).start()
        self.component(name).wait_healthy(_START_SECONDS)

    def kill_node(self, name: str) -> None:
        """Make a node and everything on it fall silent. Kubernetes notices after `node_grace_seconds`."""
        self._label_node(name, "true")

    def revive_node(self, name: str) -> None:
        """Make a dead node report again and end the pods that wait for it."""
        self._label_node(name, None)

    def _label_node(self, name: str, dead: str | None) -> None:
        self.api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {DEAD_LABEL: dead}}})

    @property
    def _running(self) -> Plan:
        if self._plan is None:
            raise ComponentError("this cluster is not running: call start() first")
        return self._plan

    def _bring_up(self) -> None:
        """Start etcd and the API server, which waits for it, before the others, which would not wait."""
        first, then = ["etcd", "kube-apiserver"], [*self._components][2:]
        for names in (first, then):
            self._start_all(names)
        wait_until(
            self._has_default_service_account, "the default ServiceAccount does not appear", _START_SECONDS
        )
        if self._options.simulates:
            add_nodes(self.api, self._options)

    def _start_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.component(name).start()
        for name in names:
            self.component(name).wait_healthy(_START_SECONDS)

    def _has_default_service_account(self) -> bool:
        with tolerating(http.client.NOT_FOUND):
            self.api.get("/api/v1/namespaces/default/serviceaccounts/default")
            return True
        return False


def _prepare(state: Path, programs: dict[str, Path], options: Options) -> Plan:
    plan = Plan(state, programs, Ports(*pick_ports(6)), write_credentials(state / "pki"), options)
    plan.audit_log.parent.mkdir()
    plan.kubeconfig(ADMIN).parent.mkdir()
    ca = plan.credentials.ca.read_bytes()
    for user, token in plan.credentials.tokens.items():
        plan.kubeconfig(user).touch(mode=0o600)
        plan.kubeconfig(user).write_text(kubeconfig_text(Access(plan.server, ca, token)))
    shutil.copyfile(STAGES, plan.stages)
    if options.audit_policy is not None:
        plan.audit_policy.write_text(yaml.safe_dump(dict(options.audit_policy)))
    return plan


def _blueprints(plan: Plan) -> list[Blueprint]:
    logs, health = plan.state / "logs", health_addresses(plan)
    blueprints = [
        Blueprint(name, command, logs / f"{name}.log", health[name])
        for name, command in command_lines(plan).items()
    ]
    if not plan.options.simulates:
        return blueprints
    return [*blueprints, kubelet_blueprint(plan.kubeconfig(KUBELET), logs)]
