"""tools.realnode: settings of the components of a node, its kit, its addresses and its recipe."""

from __future__ import annotations

import ipaddress
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tools.localcluster.credentials import SERVICE_RANGE
from tools.realnode import inside as cgroups
from tools.realnode import settings as network
from tools.realnode.images import CNI_PLUGINS, COREDNS, PAUSE, TARGETS
from tools.realnode.kit import VARIABLE, Kit, MissingError, NodeError, read_kit
from tools.realnode.preparation import program_in
from tools.realnode.settings import Files, containerd, kube_proxy, kubelet, write_settings

KIT = Kit("lws-node-7-8", "/state", True, {"runc": "/bin/runc"}, ("/lib",), ("/a.tar",))


def test_containerd_writes_only_below_state_and_run() -> None:
    settings = tomllib.loads(containerd(Files(KIT)))
    assert (settings["root"], settings["state"]) == ("/state/containerd", "/run/containerd")
    plugins = settings["plugins"]
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"] == {"sandbox": PAUSE}
    runtime = plugins["io.containerd.cri.v1.runtime"]
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "/bin/runc"
    assert runtime["cni"]["bin_dirs"] == ["/state/cni-plugins"]


@pytest.mark.parametrize(("overlay", "expected"), [(True, "overlayfs"), (False, "native")])
def test_the_snapshotter_depends_on_the_machine(overlay: bool, expected: str) -> None:
    settings = tomllib.loads(containerd(Files(replace(KIT, overlay=overlay))))
    assert settings["plugins"]["io.containerd.cri.v1.images"]["snapshotter"] == expected


def test_the_kubelet_changes_nothing_of_the_machine() -> None:
    settings = yaml.safe_load(kubelet(Files(KIT), Path("/ca")))
    assert settings["cgroupRoot"] == "/lws-node-7-8"
    assert settings["protectKernelDefaults"] is True
    assert settings["makeIPTablesUtilChains"] is False
    assert settings["podLogsDir"].startswith("/state/") and settings["volumePluginDir"].startswith("/state/")
    conntrack = yaml.safe_load(kube_proxy(Path("/kubeconfig")))["conntrack"]
    assert set(conntrack.values()) == {0, "0s"}


def test_only_the_api_server_gets_into_the_kubelet() -> None:
    settings = yaml.safe_load(kubelet(Files(KIT), Path("/ca")))
    assert settings["authentication"]["anonymous"] == {"enabled": False}
    assert settings["authentication"]["x509"] == {"clientCAFile": "/ca"}
    assert settings["authorization"] == {"mode": "Webhook"}


def test_every_file_is_written(tmp_path: Path) -> None:
    files = Files(replace(KIT, state=str(tmp_path)))
    write_settings(files, Path("/ca"), Path("/kubeconfig"))
    plugins = json.loads(files.pod_network.read_text())["plugins"]
    assert {plugins[0]["type"], plugins[0]["ipam"]["type"]} == set(CNI_PLUGINS)
    assert files.resolver.read_text() == ""
    assert all(path.exists() for path in (files.containerd, files.kubelet, files.proxy, files.plugins))


def test_address_ranges_do_not_overlap() -> None:
    services, pods = (ipaddress.ip_network(cidr) for cidr in (SERVICE_RANGE, network.POD_RANGE))
    node, dns = (ipaddress.ip_address(address) for address in (network.NODE_ADDRESS, network.DNS_ADDRESS))
    assert not services.overlaps(pods)
    assert node not in services and node not in pods
    assert dns in services


def test_the_dns_service_has_the_address_given_to_pods() -> None:
    objects = list(yaml.safe_load_all(Path(network.__file__).with_name("dns.yaml").read_text()))
    kinds = {obj["kind"]: obj for obj in objects}
    assert kinds["Service"]["spec"]["clusterIP"] == network.DNS_ADDRESS
    (container,) = kinds["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == COREDNS


def test_a_kit_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = replace(KIT, state=str(tmp_path))
    monkeypatch.setenv(VARIABLE, str(kit.write()))
    assert read_kit() == kit
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(NodeError, match="runs inside of a node"):
        read_kit()


def test_every_module_is_pinned() -> None:
    for target in TARGETS:
        pinned = (target.module / "go.mod").read_text()
        assert "require" not in pinned or (target.module / "go.sum").exists()
        assert target.package != "." or (target.module / "main.go").exists()
    assert len({target.name for target in TARGETS}) == len(TARGETS)


def test_programs_are_found_in_directories_of_distributions(tmp_path: Path) -> None:
    (tmp_path / "usr" / "sbin").mkdir(parents=True)
    (tmp_path / "usr" / "sbin" / "nft").touch()
    assert program_in(tmp_path, "nft") == tmp_path / "usr" / "sbin" / "nft"
    with pytest.raises(MissingError, match="bring no runc"):
        program_in(tmp_path, "runc")


def test_cgroups_of_the_first_version_inherit_processors(tmp_path: Path) -> None:
    for name in ("cpuset", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "memory,pids").symlink_to("memory")
    (tmp_path / "empty").mkdir()
    assert cgroups.hierarchies(tmp_path) == [tmp_path / "cpuset", tmp_path / "memory"]
    cgroups.set_up_cgroups("lws-node-7-8", tmp_path)
    assert (tmp_path / "memory" / "lws-node-7-8").is_dir()
    with pytest.raises(FileExistsError):
        cgroups.set_up_cgroups("lws-node-7-8", tmp_path)


def test_one_cgroup_of_the_second_version(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert cgroups.hierarchies(tmp_path) == [tmp_path]
