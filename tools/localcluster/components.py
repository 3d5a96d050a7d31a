"""Compute command lines, from flags.yaml, and health addresses of the control plane's components. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import yaml

from tools.localcluster.credentials import SERVICE_RANGE, Credentials
from tools.localcluster.nodes import DEAD_LABEL, SIMULATED_LABEL
from tools.localcluster.ports import LOOPBACK

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

AUDIT_METADATA: Mapping[str, object] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}

_FLAGS: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("flags.yaml").read_text("utf-8")
)
# The components that have feature gates.
_GATED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class Options:
    """Options in which clusters may differ.

    nodes: the number of simulated nodes; 0 runs no simulation.
    audit_policy: an audit.k8s.io Policy; None for no audit log.
    extra_flags: program → flags that are appended to ours; the last value of a flag wins.
    node_grace_seconds: the time for which a node may be silent before it counts as dead.
    node_address: where pods of real nodes reach the API server; empty if nodes are simulated.
    """

    nodes: int = 8
    zones: int = 2
    nodes_per_pool: int = 2
    audit_policy: Mapping[str, object] | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    extra_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    node_grace_seconds: int = 600
    node_address: str = ""

    @property
    def simulates(self) -> bool:
        return self.nodes > 0 and not self.node_address

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs to run, in the order in which they have to start."""
        return tuple(name for name in PROGRAMS if name != "kwok" or self.simulates)


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int
    kwok: int


@dataclass(frozen=True)
class Plan:
    """Everything from which command lines are made. It stays the same while components stop and start."""

    state: Path
    programs: Mapping[str, Path]
    ports: Ports
    credentials: Credentials
    options: Options

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports.api_server}"

    @property
    def audit_log(self) -> Path:
        return self.state / "logs" / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.state / "audit-policy.yaml"

    @property
    def stages(self) -> Path:
        return self.state / "kwok.yaml"

    def kubeconfig(self, user: str) -> Path:
        return self.state / "kubeconfigs" / f"{user.replace(':', '-')}.yaml"


def command_lines(plan: Plan) -> dict[str, list[str]]:
    """Return the command line of every program, in the order in which the programs have to start."""
    options = plan.options
    flags = {name: _flags(name, plan) for name in PROGRAMS if name != "kwok"}
    flags["kube-apiserver"] += _flags("real" if options.node_address else "simulated", plan)
    if options.audit_policy is not None:
        flags["kube-apiserver"] += _flags("audited", plan)
    flags["kwok"] = kwok_flags(plan.stages, plan.kubeconfig("kwok"), plan.ports.kwok)
    if gates := ",".join(f"{name}={str(on).lower()}" for name, on in sorted(options.feature_gates.items())):
        for name in _GATED:
            flags[name].append(f"--feature-gates={gates}")
    return {
        name: [str(plan.programs[name]), *flags[name], *options.extra_flags.get(name, ())]
        for name in options.programs
    }


def _flags(name: str, plan: Plan) -> list[str]:
    values = {
        **vars(plan.ports),
        **vars(plan.credentials),
        "state": plan.state,
        "kubeconfigs": plan.state / "kubeconfigs",
        "audit_policy": plan.audit_policy,
        "audit_log": plan.audit_log,
        "loopback": LOOPBACK,
        "services": SERVICE_RANGE,
        "grace": plan.options.node_grace_seconds,
        "node": plan.options.node_address,
    }
    return [Template(flag).substitute(values) for flag in _FLAGS[name]]


def health_addresses(plan: Plan) -> dict[str, str]:
    """Return the address at which each program answers with status 200 once it is healthy."""
    ports = plan.ports
    return {
        # etcd 3.5.10, which goes with Kubernetes 1.30, has no /readyz yet.
        "etcd": f"http://{LOOPBACK}:{ports.etcd}/health",
        "kube-apiserver": f"{plan.server}/readyz",
        "kube-controller-manager": f"https://{LOOPBACK}:{ports.controller_manager}/healthz",
        "kube-scheduler": f"https://{LOOPBACK}:{ports.scheduler}/healthz",
        "kwok": kwok_health(ports.kwok),
    }


def kwok_flags(stages: Path, kubeconfig: Path, port: int) -> list[str]:
    """Return the arguments of kwok on any cluster. It acts on simulated nodes only."""
    labels = {"simulated": SIMULATED_LABEL, "dead": DEAD_LABEL}
    values = {"stages": stages, "kubeconfig": kubeconfig, "loopback": LOOPBACK, "kwok": port, **labels}
    return [Template(flag).substitute(values) for flag in _FLAGS["kwok"]]


def kwok_health(port: int) -> str:
    """Return the address at which kwok answers with status 200 once it is healthy."""
    return f"http://{LOOPBACK}:{port}/healthz"
