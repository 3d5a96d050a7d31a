"""lws.cli.commands.plan: what it prints without a cluster, in the format that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from lws.cli.main import main
from test.unit.builders import make_pod_template

NAME = "leaderworkerset.leaderworkerset.x-k8s.io/demo"


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with one set; there is no cluster."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    template = {"size": 2, "workerTemplate": make_pod_template()}
    lws = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "demo"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": template},
    }
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(lws))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["plan", *arguments])
    out, err = capsys.readouterr()
    assert end.value.code == 0, err
    assert "without a cluster only creation can be planned" in err
    return out


def test_lines(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = printed(capsys, "-f", manifest).splitlines()
    assert first == f"{NAME} would be created"
    assert second.startswith("new: 2 groups of 2 pods, 4 in all")


def test_names(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "-f", manifest, "-o", "name") == f"{NAME}\n"


def test_data(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    (item,) = json.loads(printed(capsys, "-f", manifest, "--steps", "-o", "json"))["items"]
    assert (item["name"], item["action"], item["added"]) == ("demo", "created", [0, 1])
    assert item["steps"]
    assert yaml.safe_load(printed(capsys, "-f", manifest, "--steps", "-o", "yaml")) == {"items": [item]}
