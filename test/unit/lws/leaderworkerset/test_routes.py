"""Tests of which passes a change concerns: every kind, with every type of owner."""

from __future__ import annotations

from typing import Any

import pytest

from lws.kube.pods import with_required_node
from lws.leaderworkerset.routing import ROUTES, keys_of
from lws.leaderworkerset.tables import table_of
from lws.runtime.actions import Key
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import NAME_LABEL

SET = Key("set", "ns", "demo")
LEADER = Key("group", "ns", "demo-3")


def _object(
    kind: str,
    name: str,
    owner: tuple[str, str] | None = None,
    set_name: str | None = "demo",
    is_controller: bool = True,
    **metadata: Any,
) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"u-{name}", **metadata}
    if set_name is not None:
        fields["labels"] = {NAME_LABEL: set_name}
    if owner is not None:
        reference: dict[str, Any] = {"kind": owner[0], "name": owner[1], "uid": f"u-{owner[1]}"}
        fields["ownerReferences"] = [reference | ({"controller": True} if is_controller else {})]
    return {"kind": kind, "metadata": fields}


TERMINATING = {"deletionTimestamp": "now"}
RETURNING = {
    **_object(
        "Pod",
        "demo-3-2",
        ("StatefulSet", "demo-3"),
        annotations={RETURNS_TO_ANNOTATION: "node-1"},
        creationTimestamp="2026-03-01T12:00:00Z",
    ),
    "spec": {"affinity": with_required_node({}, "node-1")},
    "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]},
}
CASES = [
    pytest.param(_object("LeaderWorkerSet", "demo", set_name=None), {SET}, id="set"),
    pytest.param(_object("Pod", "demo-3", ("StatefulSet", "demo")), {SET, LEADER}, id="leader-pod"),
    pytest.param(_object("Pod", "demo-3-2", ("StatefulSet", "demo-3")), {LEADER}, id="worker-pod"),
    pytest.param(
        _object("Pod", "demo-3-2", ("StatefulSet", "demo-3"), set_name=None),
        {LEADER},
        id="worker-pod-without-label",
    ),
    pytest.param(
        _object("Pod", "demo-3", ("StatefulSet", "demo"), set_name="edited"),
        {SET, LEADER, Key("group", "ns", "demo")},
        id="leader-pod-whose-label-was-edited",
    ),
    pytest.param(
        _object("Pod", "demo-3-2", ("StatefulSet", "demo-3"), **TERMINATING, deletionGracePeriodSeconds=30),
        {LEADER, SET},
        id="worker-pod-that-a-lost-node-may-hold",
    ),
    pytest.param(
        _object("Pod", "demo-3-2", ("StatefulSet", "demo-3"), **TERMINATING, deletionGracePeriodSeconds=0),
        {LEADER},
        id="worker-pod-that-no-node-holds",
    ),
    pytest.param(RETURNING, {LEADER, SET}, id="worker-pod-that-waits-to-return"),
    pytest.param(
        {**RETURNING, "status": {}}, {LEADER}, id="worker-pod-that-must-return-before-it-was-scheduled"
    ),
    pytest.param(_object("Pod", "demo-3"), set(), id="orphaned-pod"),
    pytest.param(_object("Pod", "demo-3", ("Job", "demo")), set(), id="pod-of-a-job"),
    pytest.param(
        _object("Pod", "demo-3", ("StatefulSet", "demo"), is_controller=False),
        set(),
        id="pod-without-a-controller",
    ),
    pytest.param(_object("StatefulSet", "demo", ("LeaderWorkerSet", "demo")), {SET}, id="leader-StatefulSet"),
    pytest.param(_object("StatefulSet", "demo-3", ("Pod", "demo-3")), {SET, LEADER}, id="worker-StatefulSet"),
    pytest.param(
        _object("StatefulSet", "demo-3", ("Pod", "demo-3"), set_name=None),
        {LEADER},
        id="worker-StatefulSet-without-label",
    ),
    pytest.param(
        _object("StatefulSet", "demo-3"),
        {SET, LEADER, Key("set", "ns", "demo-3")},
        id="orphaned-StatefulSet-could-be-of-a-set-or-of-a-group",
    ),
    pytest.param(
        _object("StatefulSet", "demo", ("Rollout", "x")),
        {SET, Key("group", "ns", "demo")},
        id="StatefulSet-of-another-owner",
    ),
    pytest.param(_object("Service", "demo", ("LeaderWorkerSet", "demo")), {SET}, id="shared-Service"),
    pytest.param(_object("Service", "demo-3", ("Pod", "demo-3")), {LEADER}, id="Service-of-a-group"),
    pytest.param(
        _object("PodDisruptionBudget", "demo", ("LeaderWorkerSet", "demo")), {SET}, id="disruption-budget"
    ),
    pytest.param(
        _object("PodDisruptionBudget", "demo", set_name=None),
        {SET, Key("group", "ns", "demo")},
        id="disruption-budget-of-another-owner",
    ),
    pytest.param(
        _object("Service", "demo", set_name=None),
        {SET, Key("group", "ns", "demo")},
        id="orphaned-Service-without-label",
    ),
    pytest.param(
        _object("Service", "demo-3", ("Ingress", "x")),
        {LEADER, Key("set", "ns", "demo-3"), SET},
        id="Service-of-another-owner",
    ),
    pytest.param(
        _object("ControllerRevision", "demo-abc-1", ("LeaderWorkerSet", "demo")), {SET}, id="revision"
    ),
    pytest.param(
        _object("ControllerRevision", "demo-abc", ("StatefulSet", "demo")),
        set(),
        id="revision-of-a-StatefulSet",
    ),
    pytest.param(_object("PersistentVolumeClaim", "data-demo-3-2"), {SET}, id="claim"),
    pytest.param(_object("PodGroup", "demo-3-abc", ("Pod", "demo-3")), {LEADER}, id="PodGroup"),
    pytest.param(_object("PodGroup", "demo-3-abc"), set(), id="orphaned-PodGroup"),
    pytest.param(
        _object("PersistentVolumeClaim", "data-demo-3-2", ("StatefulSet", "demo-3")),
        {SET},
        id="claim-of-a-StatefulSet",
    ),
    pytest.param(_object("PersistentVolumeClaim", "data", set_name=None), set(), id="claim-without-label"),
    pytest.param(
        _object("ControllerRevision", "demo-abc-1"),
        {SET, Key("set", "ns", "demo-abc-1"), Key("group", "ns", "demo-abc-1")},
        id="orphaned-revision",
    ),
]


@pytest.mark.parametrize(("obj", "keys"), CASES)
def test_keys_of_a_changed_object(obj: dict[str, Any], keys: set[Key]) -> None:
    before = {**obj, "metadata": obj["metadata"] | {"uid": "former"}}
    assert keys_of(None, obj) == keys, "added"
    assert keys_of(before, obj) == keys, "changed"
    assert keys_of(obj, None) == keys, "deleted"


def test_every_routed_kind_has_a_table() -> None:
    assert all(table_of({"kind": kind, "metadata": {}}) is not None for kind in ROUTES)


def test_a_change_of_owner_concerns_both_owners() -> None:
    before = _object("StatefulSet", "demo", ("LeaderWorkerSet", "demo"))
    after = _object("StatefulSet", "demo", ("LeaderWorkerSet", "other"))
    assert keys_of(before, after) == {SET, Key("set", "ns", "other")}


@pytest.mark.parametrize("kind", sorted(ROUTES.keys() - {"LeaderWorkerSet"}))
@pytest.mark.parametrize("change", ["label", "owner", "deletion"])
def test_a_rerouted_object_concerns_its_former_keys(kind: str, change: str) -> None:
    """If a change is not news for all passes, only the object after the change is routed."""
    before = _object(kind, "demo-3-2", ("StatefulSet", "demo-3"))
    after = {
        "label": _object(kind, "demo-3-2", ("StatefulSet", "demo-3"), set_name="other"),
        "owner": _object(kind, "demo-3-2", ("StatefulSet", "other-3")),
        "deletion": _object(
            kind, "demo-3-2", ("StatefulSet", "demo-3"), **TERMINATING, deletionGracePeriodSeconds=3
        ),
    }[change]
    assert keys_of(before, after) == keys_of(before, None) | keys_of(None, after)


def test_a_released_object_concerns_its_former_owner() -> None:
    assert LEADER in keys_of(_object("Pod", "demo-3", ("StatefulSet", "demo")), _object("Pod", "demo-3"))


def _set(**metadata: Any) -> dict[str, Any]:
    lws = _object("LeaderWorkerSet", "demo", set_name=None, generation=3, resourceVersion="7")
    lws["metadata"] |= metadata
    return lws


@pytest.mark.parametrize(
    ("after", "concerns"),
    [
        pytest.param(_set(resourceVersion="8"), False, id="version"),
        pytest.param(_set() | {"status": {"replicas": 3}}, True, id="status"),
        pytest.param(_set() | {"status": {"restarts": {"0": "1.1.7.k"}}}, True, id="restarts-of-a-group"),
        pytest.param(_set(managedFields=[{"manager": "x"}]), False, id="managed-fields"),
        pytest.param(_set(generation=4), True, id="spec"),
        pytest.param(_set(labels={"a": "b"}), True, id="labels"),
        pytest.param(_set(annotations={"a": "b"}), True, id="annotations"),
        pytest.param(_set(deletionTimestamp="2026-01-01T00:00:00Z"), True, id="deletion"),
        pytest.param(_set(uid="another"), True, id="another-set-of-the-name"),
    ],
)
def test_versions_and_managed_fields_of_a_set_are_ignored(after: dict[str, Any], concerns: bool) -> None:
    """Whether a status is our own is checked elsewhere."""
    assert bool(keys_of(_set(), after)) is concerns


def test_a_starting_pod_concerns_no_group() -> None:
    before = _object("Pod", "demo-3", ("StatefulSet", "demo"))
    assert keys_of(before, before | {"status": {"phase": "Running"}}) == {SET}


def _workers(replicas: int, available: int, observed: int = 1, owner: str = "Pod") -> dict[str, Any]:
    statefulset = _object("StatefulSet", "demo-3", (owner, "demo-3"), generation=1)
    status = {"observedGeneration": observed, "replicas": replicas, "availableReplicas": available}
    return {**statefulset, "spec": {"replicas": 3}, "status": status}


@pytest.mark.parametrize(
    ("before", "after", "concerned"),
    [
        pytest.param(_workers(1, 0), _workers(2, 1), set(), id="progress"),
        pytest.param(_workers(3, 1), _workers(3, 2), set(), id="progress-of-ready-pods"),
        pytest.param(_workers(2, 2), _workers(3, 2), {SET}, id="all-pods-exist"),
        pytest.param(_workers(3, 2), _workers(3, 3), {SET}, id="it-settles"),
        pytest.param(_workers(3, 3), _workers(3, 2), {SET}, id="no-longer-settled"),
        pytest.param(_workers(0, 0, observed=0), _workers(0, 0), {SET}, id="its-first-report"),
        pytest.param(
            _workers(1, 0, owner="LeaderWorkerSet"),
            _workers(2, 1, owner="LeaderWorkerSet"),
            {Key("set", "ns", "demo-3")},
            id="leaders",
        ),
    ],
)
def test_counts_of_workers_concern_their_set_only_when_complete(
    before: dict[str, Any], after: dict[str, Any], concerned: set[Key]
) -> None:
    assert keys_of(before, after) == concerned
