"""lws.controller.disaggregatedset.routes: whose pass does a change start?"""

from __future__ import annotations

from typing import Any

import pytest

from lws import timing
from lws.cluster.cache.store import Store
from lws.controller.disaggregatedset.routes import PASS, Routes
from lws.controller.triggers.keys import Key
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


def woken(before: Any, after: Any, store: Store | None = None) -> set[Key]:
    routes = Routes(store or Store(lambda before, after: None)).by_kind
    return {key for key, _ in routes[(after or before)["kind"]](before, after)}


def test_a_set_wakes_itself() -> None:
    assert woken(None, make(KIND, "demo")) == {DEMO} == woken(make(KIND, "demo"), None)


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", SCALER_KIND, "Service", "ControllerRevision"])
@pytest.mark.parametrize(
    ("owner", "label", "expected"),
    [
        pytest.param(OWNED, "", {DEMO}, id="its own, whatever its labels say"),
        pytest.param(None, "demo", {DEMO}, id="an orphan, by its label"),
        pytest.param(STRANGER, "demo", set(), id="somebody else's"),
        pytest.param(None, "", set(), id="nobody's, without a label"),
    ],
)
def test_what_is_made_for_a_set_wakes_it(kind: str, owner: Any, label: str, expected: set[Key]) -> None:
    obj = make(kind, owner=owner, label=label)
    assert woken(None, obj) == expected == woken(obj, None)


def test_whoever_loses_an_object_is_woken_and_whoever_gets_it() -> None:
    other = make("LeaderWorkerSet", owner={**OWNED, "name": "other"})
    expected = {DEMO, Key(PASS, "default", "other")}
    assert woken(make("LeaderWorkerSet", owner=OWNED), other) == expected


def test_groups_that_come_and_go_wake_the_set_of_their_leaderworkerset() -> None:
    """Its status says so a while later."""
    store = Store(lambda before, after: None)
    child = make("LeaderWorkerSet", "c", OWNED, apiVersion="leaderworkerset.x-k8s.io/v1")
    owner = {"kind": "LeaderWorkerSet", "name": "c", "uid": "u-LeaderWorkerSet-c", "controller": True}
    statefulset = make("StatefulSet", "c", owner)
    assert woken(None, statefulset, store) == set()
    store.put(child)
    assert woken(None, statefulset, store) == {DEMO} == woken(statefulset, None, store)
    workers = make("StatefulSet", "c-0", {**owner, "kind": "Pod"})
    assert woken(None, workers, store) == set()


def delays(before: Any, after: Any, store: Store | None = None) -> list[float]:
    routes = Routes(store or Store(lambda before, after: None)).by_kind
    return [within for _, within in routes[(after or before)["kind"]](before, after)]


def child_with(status: Any = None, **metadata: Any) -> dict[str, Any]:
    child = make("LeaderWorkerSet", "c", OWNED, status=status or {})
    child["metadata"] |= {"generation": 3, **metadata}
    return child


def available(status: str, **more: Any) -> dict[str, Any]:
    return {"observedGeneration": 3, "conditions": [{"type": "Available", "status": status}], **more}


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        pytest.param(child_with(), child_with(available("False")), True, id="first status"),
        pytest.param(
            child_with(available("True")), child_with(available("False")), True, id="not ready any more"
        ),
        pytest.param(
            child_with(available("True")),
            child_with(available("True"), generation=4),
            True,
            id="scaled by us",
        ),
        pytest.param(
            child_with(available("False")),
            child_with(available("True")),
            False,
            id="ready, which a step waits for",
        ),
        pytest.param(
            child_with(available("True", observedGeneration=2)),
            child_with(available("True")),
            False,
            id="its controller has acted",
        ),
        pytest.param(child_with(), child_with(deletionTimestamp="2026-03-01T12:00:00Z"), False, id="going"),
        pytest.param(child_with(), None, False, id="gone"),
        pytest.param(
            child_with(available("False", readyReplicas=1)),
            child_with(available("False", readyReplicas=2)),
            True,
            id="counts",
        ),
        pytest.param(
            child_with(available("True", replicas=2)),
            child_with(available("True", replicas=1)),
            False,
            id="a group is gone",
        ),
        pytest.param(child_with(), child_with(annotations={"a": "b"}), True, id="written by us, or edited"),
        pytest.param(None, child_with(), True, id="created by us"),
        pytest.param(None, make("Service", "s", OWNED), True, id="service created by us"),
        pytest.param(make("Service", "s", OWNED), None, False, id="service gone"),
        pytest.param(None, make("ControllerRevision", "r", OWNED), False, id="revision, before all others"),
    ],
)
def test_nothing_waits_that_a_step_waits_for(before: Any, after: Any, waits: bool) -> None:
    assert delays(before, after) == [timing.CHILD_SECONDS if waits else 0.0]


@pytest.mark.parametrize(
    ("former", "replicas", "waits"),
    [
        pytest.param(2, 1, False, id="a group is gone"),
        pytest.param(1, 2, True, id="one comes"),
        pytest.param(1, 1, True, id="other counts"),
    ],
)
def test_groups_that_are_gone_are_told_at_once(former: int, replicas: int, waits: bool) -> None:
    store = Store(lambda before, after: None)
    store.put(make("LeaderWorkerSet", "c", OWNED, apiVersion="leaderworkerset.x-k8s.io/v1"))
    owner = {"kind": "LeaderWorkerSet", "name": "c", "uid": "u-LeaderWorkerSet-c", "controller": True}
    before, after = (
        make("StatefulSet", "c", owner, status={"replicas": count}) for count in (former, replicas)
    )
    assert delays(before, after, store) == [timing.CHILD_SECONDS if waits else 0.0]
    assert delays(after, None, store) == [0.0]


def test_every_set_has_a_key_in_the_namespaces_that_are_meant() -> None:
    store = Store(lambda before, after: None)
    store.put(make(KIND, "demo"))
    assert list(Routes(store).keys(lambda namespace: namespace == "default")) == [DEMO]
    assert list(Routes(store).keys(lambda namespace: namespace == "other")) == []
