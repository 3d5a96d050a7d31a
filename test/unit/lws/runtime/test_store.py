"""The store with late, duplicate and missing events, compared with a naive model of it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from lws.kube.pods import with_required_node
from lws.leaderworkerset.tables import TABLES
from lws.runtime.actions import Object
from lws.runtime.store import Store
from lws_api.leaderworkerset.placement import RETURNS_TO_ANNOTATION
from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.unit.builders import make_leader_pod
from test.unit.seeds import for_each_seed

Changes = list[tuple[Object | None, Object | None]]


def _pod(
    version: int, uid: str = "u-1", name: str = "a", phase: str = "Running", **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": str(version),
            **metadata,
        },
        "spec": {},
        "status": {"phase": phase, "conditions": []},
    }


def _service(
    version: int, uid: str = "s-1", name: str = "svc", owner: str | None = None, set_name: str | None = "demo"
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    if set_name is not None:
        metadata["labels"] = {NAME_LABEL: set_name}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": "Pod", "name": "o", "uid": owner, "controller": True}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {}}}


@pytest.fixture
def changes() -> Changes:
    return []


@pytest.fixture
def store(changes: Changes) -> Store:
    return Store(lambda before, after: changes.append((before, after)), TABLES)


def _version(store: Store) -> int | None:
    pod = store.get("Pod", "ns", "a")
    return int(pod["metadata"]["resourceVersion"]) if pod is not None else None


Step = Callable[[Store], None]


def _put(*args: Any, **kwargs: Any) -> Step:
    return lambda store: store.put(_pod(*args, **kwargs))


def _drop(*args: Any, **kwargs: Any) -> Step:
    return lambda store: store.drop(_pod(*args, **kwargs))


def _listed(as_of: int, *pods: dict[str, Any]) -> Step:
    def listed(store: Store) -> None:
        for pod in pods:
            store.put(pod)
        store.retain("Pod", {pod["metadata"]["uid"] for pod in pods}, str(as_of))

    return listed


def _not_found(store: Store) -> None:
    """Drop the known object itself, as after a live read that finds nothing."""
    pod = store.get("Pod", "ns", "a")
    assert pod is not None
    store.drop(pod)


@pytest.mark.parametrize(
    ("steps", "version", "uid"),
    [
        pytest.param([_put(5)], 5, "u-1", id="first"),
        pytest.param([_put(5), _put(6)], 6, "u-1", id="newer"),
        pytest.param([_put(6), _put(5)], 6, "u-1", id="older-than-our-own-write"),
        pytest.param([_put(5), _put(5, phase="Failed")], 5, "u-1", id="the-same-again"),
        pytest.param([_put(10), _put(9)], 10, "u-1", id="versions-are-numbers-not-texts"),
        pytest.param([_put(5), _drop(6)], None, None, id="deleted"),
        pytest.param([_put(5), _drop(8), _put(7)], None, None, id="late-answer-after-the-deletion"),
        pytest.param([_drop(8), _put(7)], None, None, id="late-answer-to-a-create"),
        pytest.param([_put(5), _drop(8), _put(9, "u-2")], 9, "u-2", id="replaced"),
        pytest.param([_put(5), _put(9, "u-2")], 9, "u-2", id="replaced-before-the-deletion-event"),
        pytest.param(
            [_put(9, "u-2"), _put(5)], 9, "u-2", id="the-former-object-does-not-push-out-our-own-write"
        ),
        pytest.param([_put(5), _put(9, "u-2"), _drop(8)], 9, "u-2", id="late-deletion-of-the-former-object"),
        pytest.param(
            [_put(5), _put(9, "u-2"), _drop(8), _put(6)], 9, "u-2", id="late-state-of-the-former-object"
        ),
        pytest.param([_put(5), _drop(8), _put(12)], 12, "u-1", id="labels-removed-and-restored"),
        pytest.param([_put(5), _drop(8), _put(8)], 8, "u-1", id="labels-removed-then-read-live"),
        pytest.param([_put(5), _put(9), _drop(8)], 9, "u-1", id="labels-removed-again-after-a-repair"),
        pytest.param([_put(5), _not_found], None, None, id="not-found"),
        pytest.param([_put(5), _not_found, _put(5)], None, None, id="not-found-then-late-event"),
        pytest.param([_put(5), _listed(9)], None, None, id="missing-from-a-list"),
        pytest.param([_put(10), _listed(9)], 10, "u-1", id="missing-but-written-later-than-the-list"),
        pytest.param([_put(5), _listed(9), _put(8)], None, None, id="missing-then-a-late-answer-to-a-write"),
        pytest.param([_put(5), _listed(9), _put(11)], 11, "u-1", id="missing-then-labels-restored"),
        pytest.param([_put(5), _listed(9, _pod(7))], 7, "u-1", id="listed"),
        pytest.param([_put(10), _listed(9, _pod(7))], 10, "u-1", id="listed-older-than-our-own-write"),
        pytest.param([_put(5), _listed(9, _pod(8, "u-2"))], 8, "u-2", id="listed-as-another-object"),
        pytest.param(
            [_put(12, "u-2"), _listed(9, _pod(7))],
            12,
            "u-2",
            id="listed-as-the-former-object-that-we-replaced",
        ),
        pytest.param(
            [_listed(9, _pod(7)), _drop(11), _listed(10, _pod(7))], None, None, id="an-older-list-again"
        ),
    ],
)
def test_put_and_drop(store: Store, steps: list[Step], version: int | None, uid: str | None) -> None:
    for step in steps:
        step(store)
    assert _version(store) == version
    pod = store.get("Pod", "ns", "a")
    assert (pod["metadata"]["uid"] if pod is not None else None) == uid


def test_a_list_of_one_kind_does_not_affect_others(store: Store) -> None:
    store.put(_service(5))
    store.retain("Pod", set(), "9")
    assert store.get("Service", "ns", "svc") is not None


def test_a_list_with_a_selector_does_not_affect_other_objects(store: Store) -> None:
    store.put(_service(5, "s-1", "one"))
    service = _service(5, "s-2", "two")
    service["metadata"]["labels"] = {"leaderworkerset.sigs.k8s.io/other": "x"}
    store.put(service)
    store.retain("Service", set(), "9", other_labels={"leaderworkerset.sigs.k8s.io/other"})
    assert [obj["metadata"]["name"] for obj in store.of_kind("Service")] == ["two"]


def test_an_index_contains_objects_stored_before_its_first_look_up(store: Store) -> None:
    store.put(_service(5))
    assert len(store.labelled(NAME_LABEL, "ns", "demo", "Service")) == 1
    store.drop(_service(6))
    assert store.labelled(NAME_LABEL, "ns", "demo", "Service") == []


def test_changes_that_are_reported(store: Store, changes: Changes) -> None:
    store.put(_pod(5))
    store.put(_pod(6, phase="Failed"))
    store.put(_pod(9, "u-2"))
    store.drop(_pod(11, "u-2"))
    reported = [
        tuple(obj and (obj["metadata"]["uid"], obj["status"]["phase"]) for obj in pair) for pair in changes
    ]
    assert reported == [
        (None, ("u-1", "Running")),
        (("u-1", "Running"), ("u-1", "Failed")),
        (("u-1", "Failed"), ("u-2", "Running")),
        (("u-2", "Running"), None),
    ]


def _running_pod(version: int, **changed: Any) -> dict[str, Any]:
    """Return a pod with many fields that are never read."""
    pod = _pod(version, annotations={"irrelevant": str(version)}, managedFields=[{"time": str(version)}])
    pod["spec"] = {"containers": [{"name": "main"}]}
    pod["status"] |= {"podIP": f"10.0.0.{version}", "conditions": [{"type": "Initialized", "status": "True"}]}
    pod["status"] |= changed
    return pod


@pytest.mark.parametrize(
    ("after", "is_reported"),
    [
        pytest.param(_running_pod(6), False, id="unread-fields"),
        pytest.param(_running_pod(6, phase="Failed"), True, id="phase"),
        pytest.param(_running_pod(6, conditions=[{"type": "Ready", "status": "True"}]), True, id="readiness"),
    ],
)
def test_only_changes_of_fields_that_decisions_read_are_reported(
    store: Store, changes: Changes, after: dict[str, Any], is_reported: bool
) -> None:
    store.put(_running_pod(5))
    changes.clear()
    store.put(after)
    assert bool(changes) is is_reported
    assert _version(store) == 6, "its version must be recorded nevertheless"


def test_managed_fields_are_kept_but_trigger_no_pass(store: Store, changes: Changes) -> None:
    """The leader StatefulSet is stored as a whole, and its managedFields change with every status update."""
    for version in (5, 6):
        entry = {"manager": "lws", "operation": "Apply", "time": str(version)}
        metadata = {"name": "demo", "namespace": "ns", "uid": "u", "resourceVersion": str(version)}
        store.put(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": metadata | {"managedFields": [entry]},
            }
        )
    assert len(changes) == 1
    statefulset = store.get("StatefulSet", "ns", "demo")
    assert statefulset is not None and statefulset["metadata"]["managedFields"][0]["time"] == "6"


def test_the_deletion_of_an_unknown_object_is_not_reported(store: Store, changes: Changes) -> None:
    store.drop(_pod(5))
    assert changes == []


def test_look_ups_by_index(store: Store) -> None:
    store.put(_service(1, "s-1", "one", owner="p-1"))
    store.put(_service(2, "s-2", "two", owner="p-1", set_name="other"))
    store.put(_service(3, "s-3", "three", owner=None, set_name=None))
    store.put(_pod(4, ownerReferences=[{"kind": "X", "name": "o", "uid": "p-1", "controller": True}]))
    store.put(_pod(5, "u-2", "b", labels={NAME_LABEL: "demo"}, ownerReferences=[{"uid": "p-1"}]))

    def names(objects: Any) -> set[str]:
        return {obj["metadata"]["name"] for obj in objects}

    assert names(store.of_kind("Service")) == {"one", "two", "three"}
    assert names(store.controlled_by("p-1", "Service")) == {"one", "two"}
    assert names(store.controlled_by("p-1", "Pod")) == {"a"}, "an owner that does not control does not count"
    assert names(store.labelled(NAME_LABEL, "ns", "demo", "Service")) == {"one"}
    assert names(store.labelled(NAME_LABEL, "elsewhere", "demo", "Service")) == set()
    assert names(store.labelled(NAME_LABEL, "ns", "demo", "Pod")) == set(), (
        "pods are reached through their owners"
    )
    assert store.of_kind("Secret") == () and store.controlled_by("nobody", "Pod") == []


def test_owned_revisions_are_found_through_their_owners(store: Store) -> None:
    """The StatefulSet of each group has a revision that copies the labels of the set."""
    for name, owner in (("of-workers", "s-1"), ("orphan", "")):
        revision = {**_service(1, owner=owner or "x"), "kind": "ControllerRevision", "apiVersion": "apps/v1"}
        revision["metadata"] = {**revision["metadata"], "name": name, "uid": f"u-{name}"}
        if not owner:
            del revision["metadata"]["ownerReferences"]
        store.put(revision)
    [orphan] = store.labelled(NAME_LABEL, "ns", "demo", "ControllerRevision")
    [owned] = store.controlled_by("s-1", "ControllerRevision")
    assert (orphan["metadata"]["name"], owned["metadata"]["name"]) == ("orphan", "of-workers")


def test_objects_move_between_indices_when_their_owner_or_label_changes(store: Store) -> None:
    store.put(_service(1, owner="p-1"))
    store.put(_service(2, owner="p-2", set_name="other"))
    assert (
        store.controlled_by("p-1", "Service") == []
        and store.labelled(NAME_LABEL, "ns", "demo", "Service") == []
    )
    assert (
        len(store.controlled_by("p-2", "Service"))
        == len(store.labelled(NAME_LABEL, "ns", "other", "Service"))
        == 1
    )


def test_the_children_of_an_owner_are_the_identical_tuple_until_one_changes(store: Store) -> None:
    assert store.owned_by("p-1", "Service") == ()
    store.put(_service(1, "s-1", "one", "p-1"))
    store.put(_service(2, "s-2", "two", "p-2"))
    first = store.owned_by("p-1", "Service")
    assert list(first) == store.controlled_by("p-1", "Service")
    store.put(_service(3, "s-2", "two", "p-2", set_name=None))
    assert store.owned_by("p-1", "Service") is first

    store.put(_service(4, "s-2", "two", "p-1"))
    assert list(store.owned_by("p-1", "Service")) == store.controlled_by("p-1", "Service") != list(first)
    assert store.owned_by("p-2", "Service") == ()
    for uid, name in (("s-1", "one"), ("s-2", "two")):
        store.drop(_service(9, uid, name, "p-1"))
    assert store.owned_by("p-1", "Service") == ()


def test_the_stored_object_is_a_copy(store: Store) -> None:
    pod = _running_pod(5)
    before = copy.deepcopy(pod)
    store.put(pod)
    assert pod == before and store.get("Pod", "ns", "a") != pod


def test_deletions_are_remembered_for_a_limited_time(store: Store) -> None:
    for number in range(10_001):
        store.drop(_pod(number + 2, f"u-{number}"))
    store.put(_pod(1, "u-10000"))
    assert _version(store) is None
    store.put(_pod(1, "u-0"))
    assert _version(store) == 1


class _ApiServer:
    """Services of a few names in etcd order, the events of one watch, and outstanding answers."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.revision = 100
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[dict[str, Any]] = []

    def write(self) -> None:
        """Write as a random client; if it is ours, the answer arrives some time later."""
        self.revision += 1
        name = f"svc-{self.draw.randrange(4)}"
        existing = self.objects.get(name)
        if existing is not None and self.draw.random() < 0.3:
            del self.objects[name]
            deleted = copy.deepcopy(existing)
            deleted["metadata"]["resourceVersion"] = str(self.revision)
            self.events.append(("DELETED", deleted))
            return
        uid = existing["metadata"]["uid"] if existing is not None else f"uid-{self.revision}"
        owner = self.draw.choice([None, "p-1", "p-2"])
        set_name = self.draw.choice(["demo", "other"])
        written = _service(self.revision, uid, name, owner, set_name)
        self.objects[name] = written
        self.events.append(("MODIFIED" if existing is not None else "ADDED", written))
        if self.draw.random() < 0.5:
            self.answers.append(written)


def _same_as_model(store: Store, model: dict[str, Object]) -> bool:
    def names(objects: Any) -> list[str]:
        return sorted(obj["metadata"]["uid"] for obj in objects)

    def owner(obj: Object) -> str | None:
        references = obj["metadata"].get("ownerReferences")
        return references[0]["uid"] if references else None

    objects = list(model.values())
    return (
        names(store.of_kind("Service")) == names(objects)
        and all(
            names(store.controlled_by(uid, "Service")) == names(obj for obj in objects if owner(obj) == uid)
            for uid in ("p-1", "p-2")
        )
        and all(
            names(store.labelled(NAME_LABEL, "ns", name, "Service"))
            == names(obj for obj in objects if obj["metadata"]["labels"][NAME_LABEL] == name)
            for name in ("demo", "other")
        )
    )


@for_each_seed(30)
def test_the_store_matches_a_naive_model(seed: int) -> None:
    draw = random.Random(seed)
    server = _ApiServer(draw)
    # What a listener knows from the calls of `on_change` alone.
    model: dict[str, Object] = {}

    def on_change(before: Object | None, after: Object | None) -> None:
        name = (after or before or {})["metadata"]["name"]
        assert (before["metadata"]["uid"] if before else None) == (
            model[name]["metadata"]["uid"] if name in model else None
        )
        model.pop(name, None)
        if after is not None:
            model[name] = after

    store = Store(on_change, TABLES)
    newest: dict[str, int] = {}
    for _ in range(200):
        match draw.choice(["write", "write", "event", "event", "answer", "list"]):
            case "write":
                server.write()
            case "event" if server.events:
                kind, obj = server.events.pop(0)
                (store.drop if kind == "DELETED" else store.put)(obj)
            case "answer" if server.answers:
                answer = server.answers.pop(draw.randrange(len(server.answers)))
                store.put(answer)
                newest[answer["metadata"]["name"]] = max(
                    newest.get(answer["metadata"]["name"], 0), int(answer["metadata"]["resourceVersion"])
                )
            case "list" if draw.random() < 0.2:
                # The answer to a write arrives before a list that was requested after it.
                for answer in server.answers:
                    store.put(answer)
                server.answers.clear()
                server.events.clear()
                for obj in server.objects.values():
                    store.put(obj)
                uids = {obj["metadata"]["uid"] for obj in server.objects.values()}
                store.retain("Service", uids, str(server.revision))
        for name, version in newest.items():
            stored = store.get("Service", "ns", name)
            assert stored is None or int(stored["metadata"]["resourceVersion"]) >= version, (
                "older than our own write"
            )
        assert _same_as_model(store, model)
    for kind, obj in server.events:
        (store.drop if kind == "DELETED" else store.put)(obj)
    assert _same_as_model(store, server.objects)
    assert {name: obj["metadata"]["resourceVersion"] for name, obj in server.objects.items()} == {
        obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in store.of_kind("Service")
    }


def test_empty_buckets_are_removed(store: Store) -> None:
    assert store.labelled(NAME_LABEL, "ns", "set-1", "Service") == []
    for number in range(100):
        store.put(_service(2 * number, f"s-{number}", owner=f"p-{number}", set_name=f"set-{number}"))
        store.drop(_service(2 * number + 1, f"s-{number}"))
    assert len(store._indices) == 4 and not any(index._buckets for index in store._indices)


def test_pods_are_found_by_the_label_of_their_set_regardless_of_their_owner(store: Store) -> None:
    assert store.labelled_pods(NAME_LABEL, "default", "demo") == []
    pod = make_leader_pod()
    pod["metadata"].pop("ownerReferences")
    store.put(pod)
    assert store.labelled_pods(NAME_LABEL, "default", "demo") == [store.trimmed(pod)]
    assert store.labelled_pods(NAME_LABEL, "default", "other") == []
    edited = {"labels": {NAME_LABEL: "other"}, "resourceVersion": "1000000"}
    store.put({**pod, "metadata": {**pod["metadata"], **edited}})
    assert store.labelled_pods(NAME_LABEL, "default", "demo") == []


def test_pods_that_wait_for_their_kubelet_are_found_by_their_set_and_their_owner() -> None:
    store = Store(lambda before, after: None, TABLES)
    pod = make_leader_pod()

    def terminating_after(version: str, **metadata: Any) -> list[str]:
        store.put({**pod, "metadata": {**pod["metadata"], "resourceVersion": version, **metadata}})
        found = store.terminating_pods(NAME_LABEL, "default", "demo")
        assert store.terminating_pods_of("default", "demo") == found
        return [pod["metadata"]["name"] for pod in found]

    assert terminating_after("2") == []
    assert terminating_after("3", deletionTimestamp="now", deletionGracePeriodSeconds=30) == ["demo-0"]
    assert terminating_after("4", deletionTimestamp="now", deletionGracePeriodSeconds=0) == []
    assert terminating_after("5", deletionTimestamp="now", deletionGracePeriodSeconds=30) == ["demo-0"]
    store.drop({**pod, "metadata": {**pod["metadata"], "resourceVersion": "6"}})
    assert store.terminating_pods(NAME_LABEL, "default", "demo") == []
    assert store.terminating_pods_of("default", "demo") == []


def _returning(version: int, uid: str, node: str = "", name: str = "a") -> dict[str, Any]:
    """A pod that must return to node-1. node: the one that it has."""
    owner = {"kind": "StatefulSet", "name": "s", "uid": "workers", "controller": True}
    annotations = {RETURNS_TO_ANNOTATION: "node-1"}
    pod = _pod(version, uid, name, annotations=annotations, ownerReferences=[owner])
    spec = {"affinity": with_required_node({}, "node-1")}
    return {**pod, "spec": {**spec, "nodeName": node} if node else spec}


def _last_unbound(store: Store, name: str = "a") -> str:
    pod = store.last_unbound("workers", name)
    return str(pod["metadata"]["uid"]) if pod is not None else ""


def test_deleted_pods_that_never_had_a_node_are_recorded_for_a_while(store: Store) -> None:
    pod = _returning

    def last_unbound() -> str:
        return _last_unbound(store)

    store.put(pod(1, "u-1"))
    assert last_unbound() == "", "the pod still exists"
    store.drop(pod(2, "u-1"))
    assert last_unbound() == "u-1"
    store.put(pod(3, "u-2"))
    store.put(pod(4, "u-2", "node-1"))
    store.drop(pod(5, "u-2", "node-1"))
    assert last_unbound() == "", "the next pod had a node"
    store.put(pod(6, "u-3"))
    store.drop(pod(7, "u-3", "node-1"))
    assert last_unbound() == "", "its node is first seen in the deletion event"
    store.put(pod(8, "u-4"))
    store.retain("Pod", set(), "9")
    assert last_unbound() == "", "its deletion was not observed: it may have had a node"
    store.put(pod(10, "u-5"))
    store.drop(store.of_kind("Pod")[0])
    assert last_unbound() == "u-5", "our own deletion"


def test_pods_without_a_required_node_do_not_displace_records_of_others(store: Store) -> None:
    store.put(_returning(1, "u-1"))
    store.drop(_returning(2, "u-1"))
    for number in range(1_001):
        pod, version = _returning(3 + 2 * number, f"other-{number}", name=f"other-{number}"), 4 + 2 * number
        pod["metadata"]["annotations"] = {}
        store.put(pod)
        store.drop({**pod, "metadata": {**pod["metadata"], "resourceVersion": str(version)}})
    assert (_last_unbound(store), _last_unbound(store, "other-1000")) == ("u-1", "")


def test_a_pod_without_a_required_node_ends_the_record_of_its_predecessor(store: Store) -> None:
    store.put(_returning(1, "u-1"))
    store.drop(_returning(2, "u-1"))
    free = _returning(3, "u-2")
    free["metadata"]["annotations"] = {}
    store.put(free)
    store.drop({**free, "metadata": {**free["metadata"], "resourceVersion": "4"}})
    assert _last_unbound(store) == ""


def test_deleted_pods_that_were_disrupted_are_recorded_for_a_while(store: Store) -> None:
    def running(version: int, uid: str, owner: str = "workers") -> dict[str, Any]:
        pod = _pod(version, uid)
        owned = {"ownerReferences": [{"kind": "StatefulSet", "name": "s", "uid": owner, "controller": True}]}
        return {**pod, "metadata": {**pod["metadata"], **owned}}

    def disrupted(version: int, uid: str, owner: str = "workers") -> dict[str, Any]:
        reason = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        return {**running(version, uid, owner), "status": {"phase": "Running", "conditions": [reason]}}

    def last_disrupted() -> str:
        return store.last_disrupted("workers", running(1, "any")["metadata"]["name"])

    store.put(disrupted(1, "u-1"))
    assert last_disrupted() == "", "the pod still exists"
    store.drop(disrupted(2, "u-1"))
    assert last_disrupted() == "u-1"
    store.put(running(3, "u-2"))
    store.drop(running(4, "u-2"))
    assert last_disrupted() == "", "the next pod was not disrupted"
    store.put(disrupted(5, "u-3"))
    store.put(running(6, "u-4"))
    assert last_disrupted() == "u-3"
    store.put(disrupted(7, "u-4"))
    store.retain("Pod", set(), "8")
    assert last_disrupted() == "u-4"
    for version in range(10, 10_030):
        store.put(disrupted(2 * version, f"v-{version}", owner=f"workers-{version}"))
        store.drop(disrupted(2 * version + 1, f"v-{version}", owner=f"workers-{version}"))
    assert last_disrupted() == ""


GOING = {"deletionTimestamp": "2026-03-01T12:00:30Z"}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([{}], "", id="exists"),
        pytest.param([{}, GOING], "node-1", id="terminating"),
        pytest.param([{}, GOING, None], "node-1", id="deleted"),
        pytest.param([{}, None], "node-1", id="deleted at once"),
        pytest.param([{}, {"uid": "u-2"}], "node-1", id="replaced unseen"),
        pytest.param([GOING], "node-1", id="seen first when terminating"),
        pytest.param([{"phase": "Failed"}, GOING, None], "", id="failed"),
        pytest.param([{}, {**GOING, "phase": "Failed"}, None], "node-1", id="failed while terminating"),
        pytest.param([{"restarts": 1}, GOING, None], "", id="restarted"),
        pytest.param([{}, None, {"node": "node-2"}, None], "node-2", id="the successor ran elsewhere"),
        pytest.param([{}, None, {"node": "node-2", "restarts": 1}, None], "", id="the successor failed"),
        pytest.param([{}, None, {"node": ""}, None], "node-1", id="the successor found no node"),
    ],
)
def test_the_node_of_the_last_pod_of_a_name(
    store: Store, states: list[dict[str, Any] | None], expected: str
) -> None:
    pod: dict[str, Any] = {}
    for version, state in enumerate(states, 1):
        if state is None:
            store.drop({**pod, "metadata": {**pod["metadata"], "resourceVersion": str(version)}})
            continue
        how = {
            "phase": "Running",
            "node": "node-1",
            "restarts": 0,
            "uid": f"u-{states[:version].count(None)}",
        }
        how |= state
        metadata = {key: how[key] for key in GOING if key in how}
        pod = _pod(version, how["uid"], "demo-0-1", how["phase"], **metadata)
        pod["spec"] = {"nodeName": how["node"]} if how["node"] else {}
        pod["status"]["containerStatuses"] = [{"name": "main", "restartCount": how["restarts"]}]
        store.put(pod)
    assert store.last_node("ns", "demo-0-1") == expected


def test_the_number_of_recorded_nodes_is_limited(store: Store) -> None:
    for number in range(10_001):
        pod = {**_pod(2 * number + 1, f"u-{number}", f"pod-{number}"), "spec": {"nodeName": "node-1"}}
        store.put(pod)
        store.drop({**pod, "metadata": {**pod["metadata"], "resourceVersion": str(2 * number + 2)}})
    assert [store.last_node("ns", f"pod-{number}") for number in (0, 1)] == ["", "node-1"]


def test_sizes_count_objects_by_kind() -> None:
    store = Store(lambda before, after: None, TABLES)
    assert store.sizes() == {}
    for obj in (_pod(1), _pod(2, uid="u-2", name="b"), _service(3)):
        store.put(obj)
    assert store.sizes() == {"Pod": 2, "Service": 1}
