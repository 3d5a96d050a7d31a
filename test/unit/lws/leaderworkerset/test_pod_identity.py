"""Tests of the identity of a pod: its group, its leader and its address."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.pods import REQUIRED, with_preferred_node, with_required_node
from lws.leaderworkerset.pod_identity import (
    group_key,
    group_size_of,
    is_leader,
    leader_address,
    leader_name,
    must_return_to,
)
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, SIZE_ANNOTATION, WORKER_INDEX_LABEL

POOL = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("template", "spec", "node"),
    [
        pytest.param([], {}, "node-1", id="unbound"),
        pytest.param([POOL, {"matchExpressions": []}], {}, "node-1", id="with terms of its own"),
        pytest.param([], {"nodeName": "node-1"}, "", id="bound"),
        pytest.param([], {"affinity": {}}, "", id="the annotation alone"),
        pytest.param([], {"affinity": with_required_node({}, "node-2")}, "", id="of another node"),
        pytest.param([], {"affinity": with_preferred_node({}, "node-1")}, "", id="preferred"),
    ],
)
def test_a_pod_must_return_if_the_webhook_required_it(
    template: list[Any], spec: dict[str, Any], node: str
) -> None:
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": template}}} if template else {}
    pod = {
        "metadata": {"annotations": {RETURNS_TO_ANNOTATION: "node-1"}},
        "spec": {"affinity": with_required_node(own, "node-1"), **spec},
    }
    assert must_return_to(pod) == node
    assert must_return_to({**pod, "metadata": {}}) == ""


def make_pod(**labels: Any) -> dict[str, Any]:
    keys = {"worker": WORKER_INDEX_LABEL, "group": GROUP_INDEX_LABEL}
    return {"metadata": {"name": "rc-0", "labels": {keys[key]: value for key, value in labels.items()}}}


@pytest.mark.parametrize(
    ("namespace", "leader", "expected"),
    [
        pytest.param("default", "rc-0", "341f0f4bd9ee69e9816d255fe98eb575651ea9f8", id="check value"),
        pytest.param("sg-0", "0", "4ae5bd831de8b89a0fa2e7ef54147fddb0950464", id="same form, other parts"),
    ],
)
def test_group_key(namespace: str, leader: str, expected: str) -> None:
    assert group_key(namespace, leader) == expected


def test_group_key_of_unencodable_text() -> None:
    assert len(group_key("default", "\ud800-0")) == 40


def test_leader_name_and_address() -> None:
    leader = leader_name("vllm", 3)
    assert leader == leader_name("vllm", "3") == "vllm-3"
    assert leader_address(leader, "vllm", "prod") == "vllm-3.vllm.prod"


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make_pod(worker="0"), True, id="leader"),
        pytest.param(make_pod(worker="1"), False, id="worker"),
        pytest.param(make_pod(worker="00"), False, id="not spelled 0"),
        pytest.param(make_pod(), False, id="no label"),
        pytest.param({"metadata": {"labels": None}}, False, id="null labels"),
        pytest.param({}, False, id="no metadata"),
    ],
)
def test_is_leader(pod: dict[str, Any], expected: bool) -> None:
    assert is_leader(pod) is expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [("1", 1), ("16", 16), ("-1", None), ("", None), ("many", None), (None, None), (3, None)],
)
def test_group_size(size: Any, expected: int | None) -> None:
    assert group_size_of({"metadata": {"annotations": {SIZE_ANNOTATION: size}}}) == expected
    assert group_size_of({"metadata": {}}) is None
