"""Tests of lws.leaderworkerset.labels: the identity of a pod within its set."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.labels import (
    group_key,
    group_size_of,
    is_leader,
    leader_address,
    leader_name,
)
from lws_api.leaderworkerset.v1 import GROUP_INDEX_LABEL, SIZE_ANNOTATION, WORKER_INDEX_LABEL


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
    ("told", "expected"),
    [("1", 1), ("16", 16), ("-1", None), ("", None), ("many", None), (None, None), (3, None)],
)
def test_group_size(told: Any, expected: int | None) -> None:
    assert group_size_of({"metadata": {"annotations": {SIZE_ANNOTATION: told}}}) == expected
    assert group_size_of({"metadata": {}}) is None
