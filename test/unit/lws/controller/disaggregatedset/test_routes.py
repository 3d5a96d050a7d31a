"""lws.controller.disaggregatedset.routes: whose pass does a change start?"""

from __future__ import annotations

from typing import Any

import pytest

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


def test_every_set_has_a_key_in_the_namespaces_that_are_meant() -> None:
    store = Store(lambda before, after: None)
    store.put(make(KIND, "demo"))
    assert list(Routes(store).keys(lambda namespace: namespace == "default")) == [DEMO]
    assert list(Routes(store).keys(lambda namespace: namespace == "other")) == []
