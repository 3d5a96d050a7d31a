"""Changes in the store add keys to the queue, by the routes of each kind of workload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lws.runtime.actions import Key, Route, Wake
from lws.runtime.engine import Triggers
from lws.runtime.leadership.election import Scope

ONE, TWO, ELSEWHERE = Key("one", "ns", "a"), Key("two", "ns", "a"), Key("two", "elsewhere", "b")
SERVICE = {"kind": "Service", "metadata": {"name": "a", "namespace": "ns"}}


class _Queue:
    """A queue that records added keys in order."""

    def __init__(self) -> None:
        self.added: list[Wake] = []

    def add(self, key: Key, within: float = 0.0) -> None:
        self.added.append((key, within))


def _route(*wakes: Wake) -> Any:
    return lambda before, after: wakes


def _keys(*keys: Key) -> Any:
    def of(scope: Scope) -> Iterable[Key]:
        return (key for key in keys if scope(key.namespace))

    return of


def test_a_change_enqueues_the_keys_of_its_object() -> None:
    queue: Any = _Queue()
    routes: dict[str, Route] = {}
    triggers = Triggers(queue, lambda obj: routes.get(obj["kind"]))
    triggers.on_change(None, SERVICE)
    assert queue.added == [], "no manager is active yet"
    routes |= {"Service": _route((ONE, 0.0), (TWO, 2.0)), "Pod": _route((ONE, 9.0))}
    triggers.on_change(None, SERVICE)
    triggers.on_change(SERVICE, None)
    assert queue.added == 2 * [(ONE, 0.0), (TWO, 2.0)]
    queue.added.clear()
    triggers.on_change(None, {**SERVICE, "kind": "Secret"})
    assert queue.added == []


def test_all_keys_are_enqueued() -> None:
    queue: Any = _Queue()
    triggers = Triggers(queue, lambda obj: None)
    triggers.add(_keys(ONE))
    triggers.add(_keys(TWO, ELSEWHERE))
    triggers.everything()
    assert [key for key, _ in queue.added] == [ONE, TWO, ELSEWHERE]
    queue.added.clear()
    triggers.everything(lambda namespace: namespace == "elsewhere")
    assert [key for key, _ in queue.added] == [ELSEWHERE]


def test_deleted_objects_are_passed_to_forget() -> None:
    forgotten: list[Any] = []
    triggers = Triggers(_Queue(), lambda obj: None, forgotten.append)  # type: ignore[arg-type]
    first, second = ({**SERVICE, "metadata": {**SERVICE["metadata"], "uid": uid}} for uid in ("u-1", "u-2"))
    triggers.on_change(None, first)
    triggers.on_change(first, {**first, "spec": {}})
    assert forgotten == []
    triggers.on_change(first, second)
    assert forgotten == [first], "another object has its name"
    triggers.on_change(second, None)
    assert forgotten == [first, second]
