"""Tests of when a pass over a DisaggregatedSet starts: at once if a step waits for the change, else later."""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.disaggregatedset.routing import DisaggregatedRouting
from lws.leaderworkerset.tables import TABLES
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import API_VERSION, KIND, REVISION_LABEL, SLICE_LABEL
from lws_api.leaderworkerset.v1 import API_VERSION as CHILD_VERSION

NOW, SOON, LATER = 0.0, timing.CHILD_SECONDS, timing.CHILD_REPORT_SECONDS
OWNER = {"apiVersion": API_VERSION, "kind": KIND, "name": "demo", "uid": "u", "controller": True}
GOING = "2026-03-01T12:00:00Z"


def child(status: Any = None, replicas: int = 2, name: str = "c", **metadata: Any) -> dict[str, Any]:
    base_metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "generation": 3,
    }
    base_metadata |= {"resourceVersion": "1", "labels": {SLICE_LABEL: "0", REVISION_LABEL: "aaaaaaaa"}}
    base = {"apiVersion": CHILD_VERSION, "kind": "LeaderWorkerSet", "spec": {"replicas": replicas}}
    return {
        **base,
        "metadata": {**base_metadata, "ownerReferences": [OWNER], **metadata},
        "status": status or {},
    }


def available(status: str, **more: Any) -> dict[str, Any]:
    return {"observedGeneration": 3, "conditions": [{"type": "Available", "status": status}], **more}


READY, UNREADY = available("True", readyReplicas=2), available("False", readyReplicas=1)
FAILING = {"observedGeneration": 3, "conditions": [{"type": "ReplicaFailure", "status": "True"}]}


def delay(before: Any, after: Any, *others: Any, roles: int = 2, is_ours: bool = False) -> float:
    """Return the delay of the pass that a change causes.

    others: further objects in the store.
    """
    store = store_of(*others, *([after] if after is not None else []), roles=roles)
    return DisaggregatedRouting(store, lambda obj: is_ours).delay(before, after)


def store_of(*objects: Any, roles: int = 2) -> Store:
    """Return a store with these objects and a set of this many roles."""
    metadata = {"name": "demo", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    owner = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"roles": [{}] * roles}}
    store = Store(lambda before, after: None, TABLES)
    for obj in (owner, *objects):
        store.put(obj)
    return store


def leaders(name: str, **status: int) -> dict[str, Any]:
    """Return the leader StatefulSet of a child."""
    metadata = {"name": name, "namespace": "default", "uid": f"s-{name}", "resourceVersion": "1"}
    statefulset = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {}}
    return {**statefulset, "status": status}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(child(), None, NOW, id="deleted"),
        pytest.param(child(), child(deletionTimestamp=GOING), NOW, id="terminating"),
        pytest.param(child(UNREADY), child(READY), NOW, id="ready"),
        pytest.param(child(), child(available("True"), replicas=0), NOW, id="created without groups"),
        pytest.param(
            child(available("False", replicas=2)), child(available("False")), NOW, id="group deleted"
        ),
        pytest.param(child(READY), child(UNREADY), SOON, id="not ready any more"),
        pytest.param(child(available("False")), child(UNREADY), SOON, id="the first ready group"),
        pytest.param(child(), child(FAILING), SOON, id="in trouble"),
        pytest.param(child(), child(available("False")), LATER, id="first status"),
        pytest.param(child(READY | {"observedGeneration": 2}), child(UNREADY), LATER, id="scaled"),
        pytest.param(child(READY | {"observedGeneration": 2}), child(READY), LATER, id="scaled down"),
        pytest.param(
            child(available("False", readyReplicas=1)),
            child(available("False", readyReplicas=2)),
            LATER,
            id="counts",
        ),
    ],
)
def test_events_that_a_step_waits_for_are_not_delayed(before: Any, after: Any, expected: float) -> None:
    sibling = child(READY, name="d")
    assert delay(before, after, sibling) == expected


def test_changes_by_other_clients_arrive_with_the_response_to_our_write() -> None:
    before, after = child(UNREADY), child(READY, annotations={"a": "b"})
    assert delay(before, after, child(READY, name="d"), is_ours=True) == NOW


def test_readiness_after_scaling_up_is_not_delayed_if_unavailability_was_not_observed() -> None:
    """The status in between was not written, or the stream was listed again."""
    before = child(READY | {"observedGeneration": 2, "readyReplicas": 1, "replicas": 1})
    after = child(READY | {"replicas": 2})
    assert delay(before, after, child(READY, name="d")) == NOW


@pytest.mark.parametrize(
    ("before", "after", "by_others"),
    [
        pytest.param(None, child(), SOON, id="created"),
        pytest.param(child(), child(generation=4), SOON, id="scaled"),
        pytest.param(child(), child(annotations={"a": "b"}), SOON, id="edited"),
    ],
)
def test_writes_of_a_pass_trigger_no_further_pass(before: Any, after: Any, by_others: float) -> None:
    assert delay(before, after) == by_others
    assert delay(before, after, is_ours=True) == LATER


def test_an_adoption_triggers_the_next_pass_soon() -> None:
    assert delay(child(ownerReferences=[]), child(), is_ours=True) == SOON


@pytest.mark.parametrize(
    ("sibling", "expected"),
    [
        pytest.param(child(UNREADY, name="d"), LATER, id="another role of the step is not ready"),
        pytest.param(child(READY, name="d"), NOW, id="other role is ready"),
        pytest.param(child(UNREADY, name="d", deletionTimestamp=GOING), NOW, id="other role is terminating"),
        pytest.param(
            child(UNREADY, name="d", labels={SLICE_LABEL: "1"}), NOW, id="other role is in another slice"
        ),
    ],
)
def test_roles_that_step_together_are_waited_for_together(sibling: Any, expected: float) -> None:
    assert delay(child(UNREADY), child(READY), sibling, roles=1) == expected


def test_an_event_is_not_delayed_if_another_role_may_wait_for_it() -> None:
    """The other role may have this one in its `startAfter`."""
    sibling = child(UNREADY, name="d")
    assert delay(child(UNREADY), child(READY), sibling, roles=3) == NOW


def test_a_statefulset_reports_a_deleted_group_first() -> None:
    before, after = child(available("False", replicas=2)), child(available("False", replicas=1))
    assert delay(before, after) == NOW
    assert delay(before, after, leaders("c")) == LATER


@pytest.mark.parametrize(
    ("replicas", "existing", "expected"),
    [
        pytest.param(1, 2, SOON, id="one group still to be deleted"),
        pytest.param(1, 1, NOW, id="all groups exist"),
        pytest.param(2, 1, NOW, id="one group to be created"),
        pytest.param(1, None, NOW, id="no groups"),
    ],
)
def test_groups_drained_in_one_step_of_several_roles_are_waited_for_together(
    replicas: int, existing: int | None, expected: float
) -> None:
    this, sibling = child(READY, replicas=1), child(READY, replicas=replicas, name="d")
    objects = [this, sibling, leaders("c", replicas=1)]
    store = store_of(*objects, *([leaders("d", replicas=existing)] if existing is not None else []))
    assert DisaggregatedRouting(store).delay_of_groups_gone(this) == expected
