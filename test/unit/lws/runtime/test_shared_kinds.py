"""lws.runtime.store: the fields of one kind that several kinds of workload read."""

from __future__ import annotations

from typing import Any

import pytest

from lws.leaderworkerset.tables import TABLES
from lws.runtime.store import SharedKinds
from lws.runtime.stored_fields import StoredField, StoredFields, Wakes
from test.unit.builders import make_leader_statefulset

COUNTS = StoredFields("StatefulSet", (StoredField("status.readyReplicas"),), others=Wakes.NONE)
PORTS = StoredFields("Service", (StoredField("metadata.labels"), StoredField("spec.externalName")))


def _service(**labels: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1", "labels": labels}
    spec = {"externalName": "x", "selector": {"a": "b"}, "sessionAffinity": "None"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def test_fields_that_any_workload_reads_are_kept() -> None:
    trimmed = SharedKinds([*TABLES, PORTS]).trim(
        _service(**{"app": "x", "leaderworkerset.sigs.k8s.io/name": "demo"})
    )
    assert trimmed["spec"] == {"externalName": "x", "selector": {"a": "b"}}
    assert trimmed["metadata"]["labels"] == {"app": "x", "leaderworkerset.sigs.k8s.io/name": "demo"}
    assert trimmed["metadata"]["uid"] == "u"


@pytest.mark.parametrize(
    ("status", "is_same", "is_same_for_all"),
    [
        pytest.param({}, True, True, id="unchanged"),
        pytest.param({"readyReplicas": 1}, True, False, id="a field that the other kind reads"),
        pytest.param({"availableReplicas": 1}, True, True, id="a field that no kind reads"),
        pytest.param({"replicas": 1}, False, False, id="a field that sets read"),
    ],
)
def test_a_change_for_any_workload_is_a_change(
    status: dict[str, Any], is_same: bool, is_same_for_all: bool
) -> None:
    counters = {"replicas": 2, "readyReplicas": 2}
    before, after = (make_leader_statefulset(status=current) for current in (counters, counters | status))
    assert SharedKinds(TABLES).is_same(before, after) is is_same
    assert SharedKinds([*TABLES, COUNTS]).is_same(before, after) is is_same_for_all


def test_a_kind_that_only_another_workload_reads_has_no_other_table() -> None:
    """Neither versions, which change with every write, nor fields that are not kept count as changes."""
    table = StoredFields(
        "Fleet", (StoredField("metadata.name"), StoredField("metadata.resourceVersion", Wakes.NONE))
    )
    fleet: dict[str, Any] = {"kind": "Fleet", "apiVersion": "example.com/v1", "spec": {"size": 1}}
    shared = SharedKinds([*TABLES, table])
    before, after = (
        shared.trim({**fleet, "metadata": {"name": "a", "resourceVersion": version}}) for version in "12"
    )
    assert "spec" not in before and after["metadata"] == {"name": "a", "resourceVersion": "2"}
    assert shared.is_same(before, after)
    assert not SharedKinds().is_same(before, after)


def test_a_kind_without_a_table_is_kept_completely() -> None:
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "b"}}
    assert SharedKinds([*TABLES, PORTS]).trim(obj) == obj
