"""Tests of what is recorded about writes, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lws.kube.patches import digest
from lws.leaderworkerset.observe import recent_writes as module
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.tables import TABLES
from lws.runtime import recent_writes
from lws.runtime.actions import Apply, Create, Plan, Reference, Status
from lws.runtime.recent_writes import WrittenStatuses
from lws.runtime.refusals import Computed
from lws.runtime.store import Store
from test.unit.builders import make_leader_pod, make_set


def _statefulset(owner: str, ordinals: Any = None, version: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "demo-0",
            "namespace": "ns",
            "uid": "u-1",
            "resourceVersion": str(version),
            "generation": 4,
            "ownerReferences": [{"kind": owner, "name": "o", "uid": "u-o", "controller": True}],
        },
        "spec": {"replicas": 1} | ({"ordinals": ordinals} if ordinals is not None else {}),
    }


@pytest.fixture
def store() -> Store:
    return Store(lambda before, after: None, TABLES)


@pytest.fixture
def memory(store: Store) -> SetWrites:
    return SetWrites(store)


def test_the_result_of_a_write_is_stored_at_once(memory: SetWrites, store: Store) -> None:
    memory.put(_statefulset("Pod", version=7))
    stored = store.get("StatefulSet", "ns", "demo-0")
    assert stored is not None and stored["metadata"]["resourceVersion"] == "7"


def test_a_response_without_an_object_is_ignored(memory: SetWrites, store: Store) -> None:
    memory.put({"kind": "Status", "status": "Success"})
    assert store.of_kind("Status") == ()


@pytest.mark.parametrize(
    ("node", "is_known"),
    [pytest.param("", False, id="never ran"), pytest.param("node-1", True, id="may have run")],
)
def test_only_pods_that_never_ran_are_dropped_before_their_delete_event(
    memory: SetWrites, store: Store, node: str, is_known: bool
) -> None:
    pod = make_leader_pod()
    store.put(pod)
    last = {**pod, "metadata": {**pod["metadata"], "resourceVersion": "1000"}, "spec": {"nodeName": node}}
    memory.drop(last)
    assert (store.get("Pod", "default", "demo-0") is not None) is is_known


def test_a_response_without_a_last_state_drops_nothing(memory: SetWrites, store: Store) -> None:
    store.put(make_leader_pod())
    for answer in ({}, {"kind": "Status", "status": "Success", "details": {"name": "demo-0"}}):
        memory.drop(answer)
    assert store.get("Pod", "default", "demo-0") is not None


WORKERS, LEADERS = (
    Create(_statefulset("Pod", {"start": 1}), why="because"),
    Create(_statefulset("LeaderWorkerSet"), why="because"),
)


@pytest.mark.parametrize(
    ("create", "stored", "drops"),
    [
        pytest.param(WORKERS, _statefulset("Pod", {"start": 1}), False, id="kept"),
        pytest.param(WORKERS, _statefulset("Pod"), True, id="dropped"),
        pytest.param(WORKERS, _statefulset("Pod", {}), True, id="dropped-but-for-the-struct"),
        pytest.param(LEADERS, _statefulset("LeaderWorkerSet"), False, id="leaders-have-none"),
    ],
)
def test_servers_that_drop_start_ordinals(
    memory: SetWrites, create: Create, stored: dict[str, Any], drops: bool
) -> None:
    assert memory.drops_start_ordinal is False
    memory.record_create(create, stored)
    assert memory.drops_start_ordinal is drops


def test_a_start_ordinal_that_a_user_removed_was_not_dropped(memory: SetWrites) -> None:
    """Otherwise one user could stop the creation of workers in all namespaces."""
    memory.put(_statefulset("Pod"))
    assert memory.drops_start_ordinal is False


def test_a_stored_start_ordinal_shows_that_the_server_keeps_it(memory: SetWrites) -> None:
    memory.record_create(WORKERS, _statefulset("Pod"))
    memory.record_create(WORKERS, _statefulset("Pod", {"start": 1}, version=2))
    assert memory.drops_start_ordinal is False


def test_a_dropped_start_ordinal_is_forgotten_after_a_minute(store: Store) -> None:
    """A field that the server dropped is remembered for a minute, not until the process ends."""
    seconds = 500.0
    memory = SetWrites(store, clock=lambda: seconds)
    memory.record_create(WORKERS, _statefulset("Pod"))
    seconds = 559.9
    assert memory.drops_start_ordinal
    seconds = 560.0
    assert not memory.drops_start_ordinal


def test_an_apply_is_recorded_with_the_resulting_generation(memory: SetWrites) -> None:
    intent = {"kind": "StatefulSet", "metadata": {"name": "demo"}, "spec": {"replicas": 1}}
    stored = _statefulset("LeaderWorkerSet")
    memory.record_apply(Apply(intent, why="because"), stored)
    assert memory.applied == {}, "it was deleted before the response arrived"
    memory.put(stored)
    memory.record_apply(Apply(intent, why="because"), stored)
    assert memory.applied == {"u-1": (digest(intent), 4)}


def test_the_number_of_recorded_applies_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_APPLIED", 3)
    memory = SetWrites(store)
    for number in range(5):
        stored = _statefulset("LeaderWorkerSet")
        stored["metadata"] |= {"uid": f"u-{number}", "name": f"demo-{number}"}
        memory.put(stored)
        memory.record_apply(Apply({}, why="because"), stored)
    assert list(memory.applied) == ["u-2", "u-3", "u-4"]


def _revision(uid: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": "r", "uid": uid, "resourceVersion": version}}


def test_a_revision_is_decoded_once_per_version(memory: SetWrites, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Any] = []

    def parse(revision: Any) -> Any:
        decoded.append(revision)
        return len(decoded)

    monkeypatch.setattr(memory, "_parse", parse)
    memory._parsed = Computed(2)
    first, renumbered, second = _revision("u-1", "1"), _revision("u-1", "2"), _revision("u-2", "1")
    results: list[Any] = [
        memory.parsed(revision) for revision in (first, first, renumbered, second, second, first)
    ]
    assert results == [1, 1, 2, 3, 3, 4], "the oldest is forgotten first"


@pytest.mark.parametrize(
    ("obj", "is_noted"),
    [
        pytest.param(_statefulset("LeaderWorkerSet"), True, id="leaders"),
        pytest.param(_statefulset("Pod", {"start": 1}), False, id="workers"),
        pytest.param(make_set(), True, id="set"),
        pytest.param(_statefulset("LeaderWorkerSet") | {"kind": "Service"}, False, id="service"),
    ],
)
def test_the_throttle_knows_when_sets_and_their_leaders_were_written(
    memory: SetWrites, obj: dict[str, Any], is_noted: bool
) -> None:
    memory.put(obj)
    assert (obj["metadata"]["uid"] in memory.throttle._written) is is_noted


def test_the_spec_of_a_set_is_checked_once_per_generation(
    memory: SetWrites, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(memory._checked, "_fault", lambda lws: looks.append(1) or "it is wrong")
    for generation in (1, 1, 2, 2, 3, 1):
        assert memory.fault_of(make_set(generation=generation)) == "it is wrong"
    assert len(looks) == 4


# --- Statuses -----------------------------------------------------------------------------------------------


def _with_status(status: dict[str, Any], version: int = 1, uid: str = "u") -> dict[str, Any]:
    lws = make_set(status=status)
    lws["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return lws


def test_only_the_status_that_we_wrote_is_recognised_as_written(store: Store) -> None:
    statuses, written = WrittenStatuses(store), _with_status({"replicas": 2}, 7)
    assert not statuses.is_as_written(written), "nothing was written yet"
    statuses.record_stored(written, None, {})
    assert not statuses.is_as_written(written), "it was deleted before the response arrived"
    store.put(written)
    statuses.record_stored(written, None, {})
    assert statuses.is_as_written(_with_status({"replicas": 2}, 8)), "other changes do not matter"
    for status in ({}, {"replicas": 3}, {"replicas": 2, "readyReplicas": 1}):
        assert not statuses.is_as_written(_with_status(status, 8))
    assert not statuses.is_as_written(_with_status({"replicas": 2}, uid="another"))


def test_responses_may_arrive_out_of_order(store: Store) -> None:
    statuses, last = WrittenStatuses(store), _with_status({"restarts": {"0": "1"}, "replicas": 3}, 8)
    store.put(_with_status({}, 6))
    statuses.record_stored(last, None, {})
    store.put(last)
    statuses.record_stored(_with_status({"replicas": 3}, 7), None, {})
    assert statuses.is_as_written(last)


def test_an_event_may_arrive_before_the_response_of_its_write(store: Store) -> None:
    statuses, stored = (
        WrittenStatuses(store),
        _with_status({"replicas": 2, "conditions": [], "groups": {"a": 1}}),
    )
    store.put(stored)
    patch = {"status": {"replicas": 3, "groups": None}}
    statuses.record_sent(Reference.to(stored), patch)
    assert statuses.is_as_written(_with_status({"replicas": 3, "conditions": []}, 2))
    assert not statuses.is_as_written(_with_status({"replicas": 3}, 2)), "another client wrote in between"
    statuses.record_sent(Reference.to(_with_status({}, uid="former")), patch)
    assert not statuses.is_as_written(_with_status({"replicas": 3}, uid="former"))


def test_a_status_is_edited_if_it_was_planned_for_another_than_the_written_one(store: Store) -> None:
    statuses, written = WrittenStatuses(store), _with_status({"replicas": 2})
    status = Status(Reference.to(written), {}, before={})
    assert not statuses.is_edited(status), "the status of a former manager is not known"
    store.put(written)
    statuses.record_stored(written, None, {})
    assert statuses.is_edited(status)
    assert not statuses.is_edited(Status(status.target, {}, before={"replicas": 2}))
    assert not statuses.is_edited(Status(status.target, {}))


def _recorded(store: Store, status: dict[str, Any]) -> WrittenStatuses:
    statuses, written = WrittenStatuses(store), _with_status(status)
    store.put(written)
    statuses.record_stored(written, None, {})
    return statuses


def test_an_edit_between_a_plan_and_its_response_is_repaired(store: Store) -> None:
    statuses = _recorded(store, {"replicas": 2, "readyReplicas": 1})
    target, patch = Reference.to(_with_status({})), {"readyReplicas": 2}
    before = statuses.record_sent(target, {"status": patch})
    answer = _with_status({"replicas": 9, "readyReplicas": 2}, 3)
    statuses.record_stored(answer, before, patch)
    store.put(answer)
    assert not statuses.is_as_written(answer)
    assert statuses.is_edited(Status(target, {"replicas": 2}, before=answer["status"]))
    put_right = _with_status({"replicas": 2, "readyReplicas": 2}, 4)
    statuses.record_sent(target, {"status": {"replicas": 2}})
    statuses.record_stored(put_right, answer["status"], {"replicas": 2})
    assert statuses.is_as_written(put_right)


def test_an_edit_before_a_write_is_repaired(store: Store) -> None:
    """Passes over groups write restarts, independent of the rest of the status."""
    statuses = _recorded(store, {"replicas": 2})
    store.put(_with_status({"replicas": 9}, 2))
    target, patch = Reference.to(_with_status({})), {"restarts": {"0": "1"}}
    before = statuses.record_sent(target, {"status": patch})
    answer = _with_status({"replicas": 9, **patch}, 3)
    statuses.record_stored(answer, before, patch)
    assert not statuses.is_as_written(answer)
    assert statuses.is_as_written(_with_status({"replicas": 2, **patch}, 4))


def test_the_number_of_recorded_statuses_is_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_writes, "_STATUSES", 2)
    statuses = WrittenStatuses(store)
    for version, uid in enumerate("abc", 1):
        store.put(_with_status({}, version, uid))
        statuses.record_stored(_with_status({}, version, uid), None, {})
    assert [statuses.is_as_written(_with_status({}, uid=uid)) for uid in "abc"] == [False, True, True]


def test_a_deleted_set_is_forgotten_even_if_a_plan_refers_to_it(memory: SetWrites, store: Store) -> None:
    lws = make_set(generation=1)
    memory.put(lws)
    status = Status(Reference.to(lws), {"readyReplicas": 2}, can_wait=True)
    assert memory.due(Plan(statuses=(status,))).again_after is not None, "it was written a moment ago"
    store.drop({**lws, "metadata": {**lws["metadata"], "resourceVersion": "9999999"}})
    memory.forget(lws)
    memory.due(Plan(statuses=(replace(status, is_first=True),)))
    throttle = memory.throttle
    assert not (throttle._written or throttle._waiting or throttle._active or throttle._announced)
