"""tools.localcluster.components: the arguments of every control-plane component."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.localcluster.components import (
    AUDIT_METADATA,
    PROGRAMS,
    Options,
    Plan,
    Ports,
    command_lines,
    health_addresses,
)
from tools.localcluster.credentials import Credentials

STATE = Path("/state")
PKI = STATE / "pki"
PLAN = Plan(
    state=STATE,
    programs={name: Path("/bin") / name for name in PROGRAMS},
    ports=Ports(1, 2, 3, 4, 5, 6),
    credentials=Credentials(
        *(PKI / name for name in ("ca", "crt", "key", "sa", "client.crt", "client.key", "tokens")), {}
    ),
    options=Options(),
)


def lines(options: Options) -> dict[str, list[str]]:
    return command_lines(replace(PLAN, options=options))


def test_start_order_and_binaries() -> None:
    command_lines = lines(Options())
    assert tuple(command_lines) == PROGRAMS
    assert [command_lines[name][0] for name in PROGRAMS] == [f"/bin/{name}" for name in PROGRAMS]


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        ("etcd", ["--unsafe-no-fsync", "--data-dir=/state/etcd"]),
        (
            "kube-apiserver",
            [
                "--authorization-mode=Node,RBAC",
                "--endpoint-reconciler-type=none",
                "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
                "--bind-address=127.0.0.1",
                "--secure-port=3",
                "--etcd-servers=http://127.0.0.1:1",
            ],
        ),
        (
            "kube-controller-manager",
            [
                "--use-service-account-credentials",
                "--concurrent-statefulset-syncs=20",
                "--node-monitor-grace-period=600s",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
            ],
        ),
        ("kube-scheduler", ["--kube-api-qps=1000", "--leader-elect=false"]),
        (
            "kwok",
            [
                "--manage-nodes-with-label-selector=localcluster/simulated,!localcluster/dead",
                "--node-lease-duration-seconds=40",
            ],
        ),
    ],
    ids=PROGRAMS,
)
def test_flags_that_matter(program: str, flags: list[str]) -> None:
    assert set(flags) <= set(lines(Options())[program])


def test_all_components_listen_on_the_loopback_address_only() -> None:
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert "--bind-address=127.0.0.1" in lines(Options())[name]
    assert "--server-address=127.0.0.1:6" in lines(Options())["kwok"]
    urls = [flag for flag in lines(Options())["etcd"] if "-urls=" in flag]
    assert len(urls) == 4
    assert all("=http://127.0.0.1:" in flag for flag in urls)


def test_every_command_names_the_state_directory() -> None:
    assert all(any("/state/" in flag for flag in line) for line in lines(Options()).values())


def test_the_audit_log_is_optional() -> None:
    assert not any("audit" in flag for flag in lines(Options())["kube-apiserver"])
    audited = lines(Options(audit_policy=AUDIT_METADATA))["kube-apiserver"]
    assert "--audit-policy-file=/state/audit-policy.yaml" in audited
    assert "--audit-log-path=/state/logs/audit.log" in audited


def test_feature_gates_are_passed_to_kubernetes_components() -> None:
    command_lines = lines(Options(feature_gates={"MaxUnavailableStatefulSet": True, "Another": False}))
    gates = "--feature-gates=Another=false,MaxUnavailableStatefulSet=true"
    with_gates = [name for name, line in command_lines.items() if gates in line]
    assert with_gates == ["kube-apiserver", "kube-controller-manager", "kube-scheduler"]


def test_extra_flags_are_appended() -> None:
    command_lines = lines(Options(extra_flags={"etcd": ["--log-level=debug"]}))
    assert command_lines["etcd"][-1] == "--log-level=debug"


def test_node_grace_period() -> None:
    command_lines = lines(Options(node_grace_seconds=40))
    assert "--node-monitor-grace-period=40s" in command_lines["kube-controller-manager"]


def test_kubeconfig_names_have_no_colon() -> None:
    assert PLAN.kubeconfig("system:kube-scheduler").name == "system-kube-scheduler.yaml"


def test_every_program_has_a_health_address() -> None:
    assert health_addresses(PLAN) == {
        "etcd": "http://127.0.0.1:1/health",
        "kube-apiserver": "https://127.0.0.1:3/readyz",
        "kube-controller-manager": "https://127.0.0.1:4/healthz",
        "kube-scheduler": "https://127.0.0.1:5/healthz",
        "kwok": "http://127.0.0.1:6/healthz",
    }


def test_a_cluster_without_simulated_nodes_has_no_kwok() -> None:
    command_lines = lines(Options(nodes=0))
    assert tuple(command_lines) == tuple(name for name in PROGRAMS if name != "kwok")
    assert not Options(nodes=0).simulates


def test_a_real_node_and_the_api_server_reach_each_other() -> None:
    command_lines = lines(Options(node_address="10.63.0.1"))
    assert "kwok" not in command_lines
    server = command_lines["kube-apiserver"]
    assert {"--bind-address=0.0.0.0", "--advertise-address=10.63.0.1"} <= set(server)
    assert f"--kubelet-client-certificate={PKI / 'client.crt'}" in server
    assert not any(flag.startswith("--endpoint-reconciler-type") for flag in server)
