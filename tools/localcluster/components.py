"""Command lines and health addresses of the parts of the control plane. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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

# What it would do needs real networks. Those for clouds, gone in 1.37, do not start without one.
DISABLED_CONTROLLERS = ("node-ipam-controller",)
_QUICK = ("--kube-api-qps=1000", "--kube-api-burst=2000")
_POD_CIDR = "10.64.0.0/12"


@dataclass(frozen=True)
class Options:
    """What may differ between clusters.

    `nodes`: how many are simulated; without any, nothing simulates. `audit_policy`: an audit.k8s.io Policy,
    None for no audit log. `feature_gates` reach the API server, the controller manager and the scheduler.
    `extra_flags`: program -> flags appended to ours; the last one wins. `node_grace_seconds`: how long a node
    may be silent before it counts as dead. `node_address`: the address of this machine at which pods of real
    nodes reach the API server; empty where nodes are simulated.
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
        """Whether its nodes are simulated."""
        return self.nodes > 0 and not self.node_address

    @property
    def programs(self) -> tuple[str, ...]:
        """What runs, in the order in which it has to start."""
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
    """Everything that command lines are made from; it stays the same while components come and go."""

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
    """Return the command line of every program, in the order in which they have to start."""
    flags = {
        "etcd": _etcd(plan),
        "kube-apiserver": _api_server(plan),
        "kube-controller-manager": _controller_manager(plan),
        "kube-scheduler": _scheduler(plan),
        "kwok": kwok_flags(plan.stages, plan.kubeconfig("kwok"), plan.ports.kwok),
    }
    extra = plan.options.extra_flags
    return {
        name: [str(plan.programs[name]), *flags[name], *extra.get(name, ())] for name in plan.options.programs
    }


def health_addresses(plan: Plan) -> dict[str, str]:
    """Return the address of every program that answers 200 once it is up."""
    ports = plan.ports
    return {
        # Its 3.5.10, which goes with Kubernetes 1.30, has no /readyz yet.
        "etcd": f"http://{LOOPBACK}:{ports.etcd}/health",
        "kube-apiserver": f"{plan.server}/readyz",
        "kube-controller-manager": f"https://{LOOPBACK}:{ports.controller_manager}/healthz",
        "kube-scheduler": f"https://{LOOPBACK}:{ports.scheduler}/healthz",
        "kwok": kwok_health(ports.kwok),
    }


def kwok_flags(stages: Path, kubeconfig: Path, port: int) -> list[str]:
    """Return the arguments of kwok on any cluster; it plays on simulated nodes only."""
    return [
        f"--config={stages}",
        f"--kubeconfig={kubeconfig}",
        # A node that gets the second label dies.
        f"--manage-nodes-with-label-selector={SIMULATED_LABEL},!{DEAD_LABEL}",
        # Longer leases are renewed so rarely that the node controller declares the nodes dead.
        "--node-lease-duration-seconds=40",
        f"--cidr={_POD_CIDR}",
        f"--node-ip={LOOPBACK}",
        f"--server-address={LOOPBACK}:{port}",
    ]


def kwok_health(port: int) -> str:
    """Return the address at which such a kwok answers 200."""
    return f"http://{LOOPBACK}:{port}/healthz"


def _etcd(plan: Plan) -> list[str]:
    client, peer = (f"http://{LOOPBACK}:{port}" for port in (plan.ports.etcd, plan.ports.etcd_peer))
    return [
        "--name=local",
        f"--data-dir={plan.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        # The data dies with the cluster; waiting for the disk would only make everything slower.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def _api_server(plan: Plan) -> list[str]:
    credentials = plan.credentials
    return [
        f"--etcd-servers=http://{LOOPBACK}:{plan.ports.etcd}",
        f"--secure-port={plan.ports.api_server}",
        *_published(plan),
        "--authorization-mode=Node,RBAC",
        # Many real clusters have it on, and it finds missing permissions for owner references.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        f"--tls-cert-file={credentials.certificate}",
        f"--tls-private-key-file={credentials.key}",
        f"--client-ca-file={credentials.ca}",
        f"--token-auth-file={credentials.token_file}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={credentials.service_account_key}",
        f"--service-account-signing-key-file={credentials.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--allow-privileged=true",
        *_feature_gates(plan.options),
        *_audit(plan),
    ]


def _published(plan: Plan) -> list[str]:
    address = plan.options.node_address
    if not address:
        return [
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            # It refuses to publish a loopback address as the endpoint of the `kubernetes` Service otherwise.
            "--endpoint-reconciler-type=none",
        ]
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={address}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={plan.credentials.client_certificate}",
        f"--kubelet-client-key={plan.credentials.client_key}",
    ]


def _audit(plan: Plan) -> list[str]:
    if plan.options.audit_policy is None:
        return []
    return [
        f"--audit-policy-file={plan.audit_policy}",
        f"--audit-log-path={plan.audit_log}",
        "--audit-log-maxsize=10000",
    ]


def _controller_manager(plan: Plan) -> list[str]:
    credentials = plan.credentials
    return [
        f"--kubeconfig={plan.kubeconfig('system:kube-controller-manager')}",
        *_serving(plan, plan.ports.controller_manager),
        f"--controllers={','.join(['*', *(f'-{name}' for name in DISABLED_CONTROLLERS)])}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={credentials.service_account_key}",
        f"--root-ca-file={credentials.ca}",
        "--concurrent-statefulset-syncs=20",
        f"--node-monitor-grace-period={plan.options.node_grace_seconds}s",
        "--node-monitor-period=1s",
        *_QUICK,
        *_feature_gates(plan.options),
    ]


def _scheduler(plan: Plan) -> list[str]:
    return [
        f"--kubeconfig={plan.kubeconfig('system:kube-scheduler')}",
        *_serving(plan, plan.ports.scheduler),
        *_QUICK,
        *_feature_gates(plan.options),
    ]


def _serving(plan: Plan, port: int) -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={plan.credentials.certificate}",
        f"--tls-private-key-file={plan.credentials.key}",
        "--leader-elect=false",
    ]


def _feature_gates(options: Options) -> list[str]:
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(options.feature_gates.items()))
    return [f"--feature-gates={gates}"] if gates else []
