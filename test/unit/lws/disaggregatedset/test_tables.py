"""Tests of lws.disaggregatedset.tables: which fields are stored, and which changes are news."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lws.disaggregatedset.tables import CHILDREN, TABLES
from lws.leaderworkerset.tables import TABLES as SET_TABLES
from lws.runtime.store import SharedKinds
from lws_api.disaggregatedset.v1 import API_VERSION, KIND, NAME_LABEL, SCALER_KIND
from test.unit.builders import make_set

SHARED = SharedKinds([*SET_TABLES, *TABLES])
DATA = {"spec": {"roles": [{"name": "prefill", "spec": {}}]}}


def make(kind: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": "demo", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **more}


@pytest.mark.parametrize("kind", [KIND, SCALER_KIND])
def test_changes_of_spec_and_status_trigger_a_pass_and_others_do_not(kind: str) -> None:
    before = make(kind, spec={"replicas": 1}, status={"replicas": 1})
    before["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    after = copy.deepcopy(before)
    after["metadata"] |= {"resourceVersion": "2", "managedFields": []}
    trimmed = SHARED.trim(after)
    assert trimmed["status"] == {"replicas": 1} == trimmed["spec"]
    assert "managedFields" not in trimmed["metadata"]
    assert SHARED.is_same(SHARED.trim(before), trimmed)
    for change in ({"metadata": {**after["metadata"], "generation": 2}}, {"status": {}}):
        assert not SHARED.is_same(trimmed, SHARED.trim({**after, **change}))


def test_changed_counts_and_conditions_of_a_child_trigger_a_pass() -> None:
    before = make_set(status={"readyReplicas": 1, "observedGeneration": 1})
    assert CHILDREN.is_same(before, make_set(status={**before["status"], "members": {"0": "x"}}))
    for field, value in {"readyReplicas": 2, "conditions": [{"type": "Available"}]}.items():
        assert not CHILDREN.is_same(before, make_set(status={**before["status"], field: value}))


def test_a_service_keeps_its_labels() -> None:
    service = make("Service", spec={"selector": {}})
    labels = {NAME_LABEL: "demo", "leaderworkerset.sigs.k8s.io/name": "a", "team": "x"}
    service["metadata"]["labels"] = labels
    assert SHARED.trim(service)["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("owner", "data", "is_kept"),
    [
        pytest.param(KIND, DATA, True, id="own labels"),
        pytest.param(None, DATA, True, id="an orphan"),
        pytest.param("StatefulSet", DATA, False, id="a StatefulSet's, which carries labels of pods"),
        pytest.param(KIND, {"spec": {"template": {}}}, False, id="no roles"),
        pytest.param(KIND, [1], False, id="garbage"),
    ],
)
def test_the_data_of_our_revisions_are_kept(owner: str | None, data: Any, is_kept: bool) -> None:
    revision = {**make("ControllerRevision"), "apiVersion": "apps/v1", "revision": 1, "data": data}
    if owner is not None:
        revision["metadata"]["ownerReferences"] = [{"kind": owner, "uid": "u", "controller": True}]
    assert SHARED.trim(revision).get("data") == (data if is_kept else None)
