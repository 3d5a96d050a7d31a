"""test.cluster: which cluster is requested, and whether it is new enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.cluster import ForeignCluster, chosen, minor_of, require_version, simulates
from tools.localcluster.ports import LOOPBACK


class Answering(ForeignCluster):
    """A cluster of the given version."""

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        assert arguments == ("get", "--raw", "/version")
        return json.dumps({"major": "1", "minor": self.directory.name})


def of_minor(minor: str) -> Answering:
    return Answering(Path("kubeconfig"), Path(minor))


@pytest.mark.parametrize(("minor", "expected"), [("36", (1, 36)), ("32+", (1, 32)), ("9", (1, 9))])
def test_the_version_is_that_of_the_api_server(minor: str, expected: tuple[int, int]) -> None:
    assert minor_of(of_minor(minor)) == expected


@pytest.mark.parametrize("minor", ["34", "35+", "100"])
def test_a_recent_cluster_is_accepted(minor: str) -> None:
    require_version(of_minor(minor), "1.34", "never said")


@pytest.mark.parametrize(("minor", "version"), [("33+", "1.33"), ("9", "1.9")])
def test_a_test_is_skipped_with_a_reason_if_the_cluster_is_too_old(minor: str, version: str) -> None:
    with pytest.raises(pytest.skip.Exception) as skipped:
        require_version(of_minor(minor), "1.34", "it drops the field")
    assert str(skipped.value) == f"needs Kubernetes 1.34, and this is {version}: it drops the field"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"CLUSTER": "docker"}, "CLUSTER=docker: expected local, existing or kind"),
        ({"CLUSTER": "", "K8S": "1.7"}, "K8S=1.7: the local cluster can be one of "),
    ],
)
def test_an_unknown_cluster_ends_the_run(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(pytest.exit.Exception) as ended:
        chosen()
    assert str(ended.value).startswith(message)


def test_another_cluster_has_a_version_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "existing")
    monkeypatch.setenv("K8S", "1.7")
    assert chosen() == "existing"


@pytest.mark.parametrize(
    ("cluster", "nodes", "expected"),
    [
        ("local", "", True),
        ("kind", "", True),
        ("existing", "", False),
        ("existing", "simulated", True),
    ],
)
def test_nodes_of_an_existing_cluster_are_simulated_on_demand(
    cluster: str, nodes: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER", cluster)
    monkeypatch.setenv("NODES", nodes)
    assert simulates() is expected


def test_an_unknown_kind_of_nodes_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODES", "real")
    with pytest.raises(pytest.exit.Exception, match=r"^NODES=real: expected simulated, or nothing$"):
        simulates()


def test_webhooks_are_called_on_loopback_by_default() -> None:
    assert of_minor("36").host_address == LOOPBACK
    assert ForeignCluster(Path("kubeconfig"), Path(), "10.0.0.1").host_address == "10.0.0.1"
