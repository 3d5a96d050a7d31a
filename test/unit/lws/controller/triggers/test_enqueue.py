"""From changes of the store to keys in the queue."""

from __future__ import annotations

from typing import Any

from lws.cluster.cache.store import Store
from lws.controller.triggers.enqueue import Wakeup
from lws.controller.triggers.routes import Key
from test.unit.builders import make_leader_pod, make_leader_statefulset, make_set, make_worker_pod


class _Queue:
    """What was added, in order."""

    def __init__(self) -> None:
        self.added: list[Any] = []
        self.within: dict[Any, float] = {}

    def add(self, key: Any, within: float = 0.0) -> None:
        self.added.append(key)
        self.within[key] = within

    def taken(self) -> list[Key]:
        """What was added since the last time, sorted."""
        added, self.added = sorted(self.added), []
        return added


def _wakeup() -> tuple[_Queue, Wakeup]:
    queue: Any = _Queue()
    return queue, Wakeup(queue)


def _names(*names: str, namespace: str = "default") -> list[dict[str, Any]]:
    return [{"metadata": {"name": name, "namespace": namespace}} for name in names]


SET, FIRST, SECOND = (
    Key("set", "default", "demo"),
    Key("group", "default", "demo-0"),
    Key("group", "default", "demo-1"),
)


def test_a_change_wakes_whom_it_concerns() -> None:
    queue, wakeup = _wakeup()
    lws = make_set()
    wakeup.on_change(None, make_leader_statefulset(lws))
    assert queue.taken() == [SET]
    wakeup.on_change(make_worker_pod(), None)
    assert queue.taken() == [FIRST]


def test_what_a_group_loses_on_its_way_out_can_wait() -> None:
    queue, wakeup = _wakeup()
    pods = {"demo-0": make_leader_pod(terminating=True)}
    wakeup.find = lambda kind, namespace, name: pods.get(name) if kind == "Pod" else None
    wakeup.on_change(make_worker_pod(), None)
    assert queue.taken() == [FIRST] and queue.within[FIRST] > 1.0
    del pods["demo-0"]
    wakeup.on_change(make_worker_pod(), None)
    assert queue.taken() == [FIRST] and queue.within[FIRST] == 0.0


def test_a_set_wakes_its_groups_too() -> None:
    """Restart and startup policy are read from the set."""
    queue, wakeup = _wakeup()
    asked: list[Any] = []

    def leader_pods_of(lws: Any) -> list[dict[str, Any]]:
        asked.append(lws)
        return _names("demo-0", "demo-1")

    wakeup.leader_pods_of = leader_pods_of
    before, after = make_set(generation=1), make_set(generation=2)
    wakeup.on_change(before, after)
    assert queue.taken() == [FIRST, SECOND, SET] and asked == [after]
    wakeup.on_change(after, None)
    assert queue.taken() == [FIRST, SECOND, SET] and asked[-1] is after


def test_an_adopted_statefulset_wakes_the_groups_that_were_nobodys() -> None:
    queue, wakeup = _wakeup()
    asked: list[Any] = []

    def leader_pods_of(lws: Any) -> list[dict[str, Any]]:
        asked.append(lws["metadata"])
        return _names("demo-0", "demo-1")

    wakeup.leader_pods_of = leader_pods_of
    adopted, orphan = make_leader_statefulset(), make_leader_statefulset()
    del orphan["metadata"]["ownerReferences"]
    wakeup.on_change(orphan, adopted)
    assert {FIRST, SECOND, SET} <= set(queue.taken())
    (metadata,) = asked
    assert (metadata["namespace"], metadata["name"], metadata["uid"]) == (
        "default",
        "demo",
        "uid-of-set-demo",
    )
    wakeup.on_change(adopted, adopted)
    wakeup.on_change(adopted, orphan)
    assert not {FIRST, SECOND} & set(queue.taken())


def test_a_statefulset_that_is_seen_after_its_pods_wakes_their_groups() -> None:
    """Streams do not wait for each other."""
    queue, wakeup = _wakeup()
    store = Store(wakeup.on_change)
    lws = make_set(size=3)
    leaders = make_leader_statefulset(lws)
    wakeup.leader_pods_of = lambda lws: store.controlled_by(leaders["metadata"]["uid"], "Pod")
    store.put(make_leader_pod(lws, 0))
    store.put(make_leader_pod(lws, 1))
    queue.taken()
    store.put(leaders)
    assert queue.taken() == [FIRST, SECOND, SET]


def test_a_status_wakes_nobody() -> None:
    queue, wakeup = _wakeup()
    wakeup.leader_pods_of = lambda lws: _names("demo-0")
    wakeup.on_change(make_set(), make_set(status={"replicas": 2}))
    assert queue.taken() == []


def test_a_restart_that_is_counted_wakes_the_set_alone() -> None:
    queue, wakeup = _wakeup()
    wakeup.leader_pods_of = lambda lws: _names("demo-0")
    wakeup.on_change(make_set(), make_set(status={"restarts": {"0": "1.1.7.k"}}))
    assert queue.taken() == [SET]


def test_other_kinds_do_not_wake_all_groups() -> None:
    queue, wakeup = _wakeup()
    wakeup.leader_pods_of = lambda lws: _names("demo-0", "demo-1")
    wakeup.on_change(None, make_leader_pod(make_set()))
    assert queue.taken() == [FIRST, SET]


def test_everything() -> None:
    queue, wakeup = _wakeup()
    store = Store(lambda before, after: None)
    for lws in (make_set("one"), make_set("two", namespace="elsewhere")):
        store.put(lws)
    pods = {"one": _names("one-0", "one-1"), "two": _names("two-0", namespace="elsewhere")}
    wakeup.leader_pods_of = lambda lws: pods[lws["metadata"]["name"]]
    wakeup.everything(store)
    assert queue.taken() == [
        Key("group", "default", "one-0"),
        Key("group", "default", "one-1"),
        Key("group", "elsewhere", "two-0"),
        Key("set", "default", "one"),
        Key("set", "elsewhere", "two"),
    ]


def test_everything_in_some_namespaces() -> None:
    queue, wakeup = _wakeup()
    store = Store(lambda before, after: None)
    for lws in (make_set("one"), make_set("two", namespace="elsewhere")):
        store.put(lws)
    wakeup.leader_pods_of = lambda lws: _names("two-0", namespace="elsewhere")
    wakeup.everything(store, lambda namespace: namespace == "elsewhere")
    assert queue.taken() == [Key("group", "elsewhere", "two-0"), Key("set", "elsewhere", "two")]


def test_before_the_store_can_be_asked_sets_wake_alone() -> None:
    queue, wakeup = _wakeup()
    wakeup.on_change(None, make_set())
    assert queue.taken() == [SET]
