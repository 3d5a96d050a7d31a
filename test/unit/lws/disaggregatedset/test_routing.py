"""Tests that a change of an object starts the pass of the DisaggregatedSet that it belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.disaggregatedset.routing import PASS, DisaggregatedRouting
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Key
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import API_VERSION, KIND, NAME_LABEL, SCALER_KIND

OWNED = {"apiVersion": API_VERSION, "kind": KIND, "name": "demo", "uid": "u", "controller": True}
STRANGER = {**OWNED, "kind": "Thing"}
DEMO = Key(PASS, "default", "demo")


def make(kind: str, name: str = "x", owner: Any = None, label: str = "", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"u-{kind}-{name}"}
    metadata |= {"resourceVersion": "1", "labels": {NAME_LABEL: label} if label else {}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}, **more}


def a_store(*more: Any) -> Store:
    """Return a store with two sets."""
    store = Store(lambda before, after: None, TABLES)
    for obj in (make(KIND, "demo"), make(KIND, "other"), *more):
        store.put(obj)
    return store


def woken(before: Any, after: Any, store: Store | None = None) -> set[Key]:
    routes = DisaggregatedRouting(store or a_store()).routes
    return {key for key, _ in routes[(after or before)["kind"]](before, after)}


def test_a_change_of_a_set_triggers_a_pass() -> None:
    assert woken(None, make(KIND, "demo")) == {DEMO} == woken(make(KIND, "demo"), None)


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", SCALER_KIND, "Service", "ControllerRevision"])
@pytest.mark.parametrize(
    ("owner", "label", "expected"),
    [
        pytest.param(OWNED, "", {DEMO}, id="owned object with other labels"),
        pytest.param(None, "demo", {DEMO}, id="orphan with the label"),
        pytest.param(STRANGER, "demo", set(), id="owned by another object"),
        pytest.param(None, "", set(), id="without owner and label"),
    ],
)
def test_a_change_of_an_owned_object_triggers_a_pass(
    kind: str, owner: Any, label: str, expected: set[Key]
) -> None:
    obj = make(kind, owner=owner, label=label)
    assert woken(None, obj) == expected == woken(obj, None)


def test_a_new_owner_triggers_passes_of_both_owners() -> None:
    other = make("LeaderWorkerSet", owner={**OWNED, "name": "other"})
    expected = {DEMO, Key(PASS, "default", "other")}
    assert woken(make("LeaderWorkerSet", owner=OWNED), other) == expected


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", SCALER_KIND, "Service", "ControllerRevision"])
def test_remnants_of_a_deleted_set_trigger_no_pass(kind: str) -> None:
    """The garbage collector deletes the objects one by one, each with an event of its own."""
    remnant = make(kind, owner=OWNED)
    assert woken(remnant, None, Store(lambda before, after: None, TABLES)) == set()
    terminating = make(KIND, "demo")
    terminating["metadata"] |= {"deletionTimestamp": "2026-03-01T12:00:00Z", "resourceVersion": "2"}
    assert woken(remnant, None, a_store(terminating)) == set()


LWS = "leaderworkerset.x-k8s.io/v1"
CHILD = make("LeaderWorkerSet", "c", OWNED, apiVersion=LWS)
OF_CHILD = {"kind": "LeaderWorkerSet", "name": "c", "uid": "u-LeaderWorkerSet-c", "controller": True}


def test_created_and_deleted_groups_trigger_a_pass_of_their_set() -> None:
    """The status of the LeaderWorkerSet reports it only later."""
    statefulset = make("StatefulSet", "c", OF_CHILD)
    assert woken(None, statefulset) == set()
    store = a_store(CHILD)
    assert woken(None, statefulset, store) == {DEMO} == woken(statefulset, None, store)
    workers = make("StatefulSet", "c-0", {**OF_CHILD, "kind": "Pod"})
    assert woken(None, workers, store) == set()


def test_a_deleted_leader_pod_triggers_a_pass_of_its_set() -> None:
    """The stream of StatefulSets may be ahead of the stream of pods. Groups are counted by their leaders."""
    child = make("LeaderWorkerSet", "c", OWNED)
    of_set = {**OWNED, "kind": "LeaderWorkerSet", "name": "c"}
    of_leaders = {**OWNED, "kind": "StatefulSet", "name": "c"}
    store = a_store(child, make("StatefulSet", "c", of_set))
    leader = make("Pod", "c-0", of_leaders)
    assert woken(leader, None, store) == {DEMO}
    assert woken(None, leader, store) == set() == woken(leader, leader, store)
    assert woken(make("Pod", "c-0-1", {**of_leaders, "name": "c-0"}), None, store) == set()
    assert woken(make("Pod", "alone"), None, store) == set()
    store.put(make("Deployment", "c", of_set))
    store.put(make("ReplicaSet", "c-x", {**of_leaders, "kind": "Deployment"}))
    of_hash_leader = {**of_leaders, "kind": "ReplicaSet", "name": "c-x"}
    assert woken(make("Pod", "c-x-1", of_hash_leader), None, store) == {DEMO}


SCALER = make(SCALER_KIND, "s", OWNED)


def delays(before: Any, after: Any, store: Store | None = None, is_ours: bool = False) -> list[float]:
    routes = DisaggregatedRouting(store or a_store(), lambda obj: is_ours).routes
    return [within for _, within in routes[(after or before)["kind"]](before, after)]


@pytest.mark.parametrize(
    ("former", "replicas", "waits"),
    [
        pytest.param(2, 1, False, id="a group is deleted"),
        pytest.param(1, 2, True, id="a group is created"),
        pytest.param(1, 1, True, id="other counts change"),
    ],
)
def test_deleted_groups_trigger_an_immediate_pass(former: int, replicas: int, waits: bool) -> None:
    store = a_store(CHILD)
    before, after = (
        make("StatefulSet", "c", OF_CHILD, status={"replicas": count}) for count in (former, replicas)
    )
    assert delays(before, after, store) == [timing.CHILD_REPORT_SECONDS if waits else 0.0]
    assert delays(after, None, store) == [0.0]


@pytest.mark.parametrize(
    ("before", "after", "ours", "others"),
    [
        pytest.param(
            None, make("Service", "s", OWNED), [timing.CHILD_REPORT_SECONDS], [0.3], id="service created"
        ),
        pytest.param(
            make("Service", "s", OWNED), None, [timing.CHILD_REPORT_SECONDS], [0.0], id="service deleted"
        ),
        pytest.param(
            None, make("ControllerRevision", "r", OWNED), [timing.CHILD_REPORT_SECONDS], [0.0], id="recorded"
        ),
        pytest.param(
            make("ControllerRevision", "r", OWNED), None, [timing.CHILD_REPORT_SECONDS], [0.0], id="pruned"
        ),
        pytest.param(make(KIND, "demo"), make(KIND, "demo", status={}), [], [0.0], id="own status"),
        pytest.param(SCALER, {**SCALER, "status": {}}, [], [0.0], id="status of its scaler"),
        pytest.param(CHILD, {**CHILD, "status": {"members": {}}}, [], [], id="annotation of its child"),
        pytest.param(
            make(KIND, "demo"), make(KIND, "demo", label="edited"), [0.0], [0.0], id="with a concurrent edit"
        ),
    ],
)
def test_writes_of_a_pass_trigger_no_further_pass(before: Any, after: Any, ours: Any, others: Any) -> None:
    assert delays(before, after, is_ours=True) == ours
    assert delays(before, after) == others


def test_every_set_has_a_key_in_the_selected_namespaces() -> None:
    store = Store(lambda before, after: None, TABLES)
    store.put(make(KIND, "demo"))
    assert list(DisaggregatedRouting(store).keys(lambda namespace: namespace == "default")) == [DEMO]
    assert list(DisaggregatedRouting(store).keys(lambda namespace: namespace == "other")) == []


def test_a_revision_changed_by_a_pass_triggers_an_immediate_pass() -> None:
    """An adopted or renumbered revision has to be evaluated again."""
    before, after = make("ControllerRevision", "r", OWNED), make("ControllerRevision", "r", OWNED, label="x")
    assert delays(before, after, is_ours=True) == [0.0]
