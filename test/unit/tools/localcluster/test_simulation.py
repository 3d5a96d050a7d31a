"""tools.localcluster.simulation, test.harness.simulated_nodes: changes of nodes, and what is removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from test.harness.simulated_nodes import _cordon, _others_cordoned, _remove
from tools.localcluster import simulation
from tools.localcluster.api import Api, ApiError
from tools.localcluster.components import Options
from tools.localcluster.nodes import build_node
from tools.localcluster.simulation import KUBELET, add_nodes, kubelet_blueprint

NODES = "/api/v1/nodes"
CLASS = "/apis/storage.k8s.io/v1/storageclasses/localcluster"


class Stored(Api):
    """An API server with nodes and a storage class."""

    def __init__(self, *nodes: Mapping[str, Any]) -> None:
        self.objects = {f"{NODES}/{node['metadata']['name']}": dict(node) for node in nodes}
        self.calls: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        nodes = [obj for where, obj in self.objects.items() if where.startswith(NODES)]
        label = path.partition("?labelSelector=")[2]
        return {"items": [node for node in nodes if not label or label in node["metadata"].get("labels", {})]}

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.objects[f"{path}/{body['metadata']['name']}"] = dict(body)
        return dict(body)

    def merge(self, path: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append(path)
        node = self.objects[path]
        for part, values in (("spec", patch["spec"]), ("annotations", patch["metadata"]["annotations"])):
            fields = node[part] if part == "spec" else node["metadata"].setdefault(part, {})
            for key, value in values.items():
                fields.pop(key, None)
                if value is not None:
                    fields[key] = value
        return node

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiError(404, "not found")
        return dict(self.objects.pop(path))


def a_node(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def cordoned(api: Stored) -> set[str]:
    return {
        obj["metadata"]["name"] for obj in api.objects.values() if obj.get("spec", {}).get("unschedulable")
    }


def test_other_nodes_are_cordoned_during_the_simulation() -> None:
    api = Stored(a_node("free"), a_node("closed", unschedulable=True), {**build_node(0, 1, 1), "spec": {}})
    with _others_cordoned(api):
        assert cordoned(api) == {"free", "closed"}
    assert cordoned(api) == {"closed"}
    assert api.objects[f"{NODES}/free"]["metadata"]["annotations"] == {}
    assert set(api.calls) == {f"{NODES}/free"}


def test_nodes_are_uncordoned_after_a_failure_too() -> None:
    api = Stored(a_node("free"))
    with pytest.raises(ZeroDivisionError), _others_cordoned(api):
        raise ZeroDivisionError
    assert cordoned(api) == set()


def test_a_node_cordoned_by_a_killed_run_is_uncordoned_by_the_next() -> None:
    api = Stored(a_node("free"))
    _cordon(api, ["free"], True, "")
    with _others_cordoned(api):
        assert cordoned(api) == {"free"}
    assert cordoned(api) == set()


def test_removal_is_limited_to_simulated_nodes_and_idempotent() -> None:
    api = Stored(a_node("kept"), *(build_node(index, 1, 1) for index in range(3)))
    api.create(CLASS.rpartition("/")[0], {"metadata": {"name": "localcluster"}})
    for _ in range(2):
        _remove(api)
        assert list(api.objects) == [f"{NODES}/kept"]


def test_a_storage_class_is_created_with_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Neither an unready node of another cluster nor a node that is not created yet counts as ours.
    api, waits = Stored(a_node("other")), []

    def wait(is_true: Any, complaint: str, seconds: float) -> None:
        waits.append((is_true(), complaint))
        for obj in api.objects.values():
            obj["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        api.objects[f"{NODES}/other"]["status"] = {}
        waits.append((is_true(), complaint))

    monkeypatch.setattr(simulation, "wait_until", wait)
    add_nodes(api, Options(nodes=2, zones=1, nodes_per_pool=1))
    assert {CLASS, f"{NODES}/node-0", f"{NODES}/node-1"} < set(api.objects)
    assert [ready for ready, _ in waits] == [False, True]


def test_the_guard_recognises_the_kubelet_by_its_kubeconfig() -> None:
    blueprint = kubelet_blueprint(Path("/state/kubeconfig.yaml"), Path("/state"))
    assert (blueprint.name, blueprint.log) == (KUBELET, Path("/state/kubelet.log"))
    assert list(blueprint.command)[1:] == ["-m", "tools.localcluster.kubelet", "/state/kubeconfig.yaml"]
