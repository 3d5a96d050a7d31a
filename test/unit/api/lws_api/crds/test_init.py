"""lws_api.crds: the CRDs that are shipped, and objects as the API server would store them."""

from __future__ import annotations

from typing import Any

import pytest

from lws_api.crds import defaulted, definitions
from lws_api.disaggregatedset import v1 as disaggregatedset
from lws_api.leaderworkerset.v1 import KIND

POD = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "odd": 1}]}}


def a_set(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "a", "annotations": {"b": "c"}},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": POD}} | spec,
    }


def test_the_definitions_are_shipped() -> None:
    assert set(definitions()) == {KIND, disaggregatedset.KIND, disaggregatedset.SCALER_KIND}


def test_defaults_are_set_and_unknown_fields_are_pruned() -> None:
    raw = a_set(surprise=True)
    assert defaulted(raw) == a_set(
        replicas=1,
        startupPolicy="LeaderCreated",
        groupIdentity="Ordinal",
        groupReplacementPolicy="PostTermination",
        leaderWorkerTemplate={
            "restartPolicy": "RecreateGroupOnPodRestart",
            "size": 1,
            "workerTemplate": {
                "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}
            },
        },
    )
    assert raw == a_set(surprise=True)


def test_defaulting_is_idempotent() -> None:
    once = defaulted(a_set())
    assert defaulted(once) == once


@pytest.mark.parametrize(
    "head",
    [
        pytest.param({"kind": "StatefulSet"}, id="another kind"),
        pytest.param({"apiVersion": "leaderworkerset.x-k8s.io/v9"}, id="another version"),
        pytest.param({"apiVersion": None}, id="no version"),
        pytest.param({"kind": None}, id="no kind"),
    ],
)
def test_other_kinds_are_rejected(head: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"this API serves .*LeaderWorkerSet of leaderworkerset\.x-k8s\.io/v1"
    ):
        defaulted(a_set() | head)
