"""tools.localcluster.kubelet: which pods are ended, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tools.localcluster.api import Api
from tools.localcluster.kubelet import STOPS_AFTER, Kubelet, stopping_time, waits_for_kubelet
from tools.localcluster.nodes import DEAD_LABEL, build_node


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"deletionTimestamp": "now", "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": "now", "deletionGracePeriodSeconds": 0}, False),
        (
            {
                "deletionTimestamp": "now",
                "deletionGracePeriodSeconds": 0,
                "finalizers": ["foregroundDeletion"],
            },
            False,
        ),
        (
            {
                "deletionTimestamp": "now",
                "deletionGracePeriodSeconds": 30,
                "finalizers": ["foregroundDeletion"],
            },
            True,
        ),
    ],
    ids=["alive", "deleted", "forced", "ended but held", "deleted and held"],
)
def test_waits_for_kubelet(metadata: dict[str, Any], expected: bool) -> None:
    assert waits_for_kubelet(metadata) is expected


@pytest.mark.parametrize(
    ("annotations", "seconds"),
    [
        ({}, 0),
        ({STOPS_AFTER: "2.5"}, 2.5),
        ({STOPS_AFTER: "100"}, 30),
        ({STOPS_AFTER: "never"}, None),
        ({STOPS_AFTER: "soon"}, 0),
    ],
    ids=["at once", "slow", "killed at the end of the grace period", "stuck", "not a number"],
)
def test_stopping_time(annotations: dict[str, str], seconds: float | None) -> None:
    metadata = {"name": "pod-0", "annotations": annotations, "deletionGracePeriodSeconds": 30}
    assert stopping_time(metadata) == seconds


class Placed(Api):
    """An API server on which every pod is on the given node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.deleted: list[str] = []
        self.reads = 0

    def get(self, path: str) -> dict[str, Any]:
        self.reads += 1
        return {"spec": {"nodeName": self.node}}

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.deleted.append(path)
        return {}


@pytest.mark.parametrize(
    ("node", "nodes", "ended"),
    [
        ("node-0", ["node-0"], True),
        ("node-0", ["node-0", "real"], True),
        ("real", ["node-0", "real"], False),
        ("node-0", ["dead"], True),
        ("dead", ["dead"], False),
    ],
    ids=["alone", "beside a kubelet", "of the kubelet", "beside a dead node", "on a dead node"],
)
def test_only_pods_of_living_simulated_nodes_are_ended(node: str, nodes: list[str], ended: bool) -> None:
    api = Placed(node)
    kubelet = Kubelet(api)
    for name in nodes:
        simulated = build_node(0, 1, 1)["metadata"]["labels"]
        labels = {"real": {}, "dead": {**simulated, DEAD_LABEL: "true"}}.get(name, simulated)
        kubelet.consider_node({"metadata": {"name": name, "labels": labels}})
    metadata = {"name": "pod-0", "namespace": "team", "uid": "u1"}
    kubelet._end({**metadata, "deletionTimestamp": "now", "deletionGracePeriodSeconds": 30})
    assert api.deleted == (["/api/v1/namespaces/team/pods/pod-0"] if ended else [])
    assert api.reads == (0 if nodes == ["node-0"] else 1), "only relevant pods are read"
