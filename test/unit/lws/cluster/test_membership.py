"""Who belongs to a group: ownership by UID at each step, never names or labels."""

from __future__ import annotations

from typing import Any

from lws.cluster.membership import Membership
from lws.cluster.store import Store
from lws.kube.metadata import owner_reference
from test.unit.builders import make_leader_pod, make_leader_statefulset, make_set, make_worker_statefulset

LWS = make_set(replicas=2)
LEADERS = make_leader_statefulset(LWS)
PODS = [make_leader_pod(LWS, index) for index in range(2)]


def shown(*objects: dict[str, Any]) -> Store:
    store = Store(lambda before, after: None)
    for obj in objects:
        store.put(obj)
    return store


def owned_by(obj: dict[str, Any], owner: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner_reference(owner)]}}


def test_leaders_of_a_set_hang_from_it_by_uid() -> None:
    found = Membership(shown(LWS, LEADERS, *PODS), set())
    assert sorted(pod["metadata"]["name"] for pod in found.leader_pods_of(LWS)) == ["demo-0", "demo-1"]
    assert found.leader_pods_of(make_set("other")) == []
    assert found.set_of_leader(PODS[0]) == LWS

    stranger = make_set("other")
    found = Membership(shown(LWS, owned_by(LEADERS, stranger), *PODS), set())
    assert found.leader_pods_of(LWS) == []
    assert found.set_of_leader(PODS[0]) is None


def test_workers_belong_to_the_leader_that_owns_their_statefulset() -> None:
    own, foreign = make_worker_statefulset(PODS[0]), owned_by(make_worker_statefulset(PODS[1]), PODS[0])
    found = Membership(shown(LWS, LEADERS, *PODS, own, foreign), {PODS[1]["metadata"]["uid"]})
    first, second = found.groups_of(LEADERS)
    assert first.workers is not None
    assert (first.index, first.workers["metadata"]["uid"], first.going) == (0, own["metadata"]["uid"], False)
    assert (second.index, second.workers, second.going) == (1, None, True)
