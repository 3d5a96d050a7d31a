"""Cache watched objects, never older than our own writes.

Objects come from lists, watches and our own writes, in any order. They are looked up by name, controller UID
or label. `on_change` is called once for each change of a field that decisions read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from cachetools import FIFOCache

from lws.kube.metadata import controller_of, deep_merged, is_terminating, labels_of, uid_of, version_number
from lws.kube.nodes import node_of, waits_for_kubelet
from lws.kube.pods import disruption_of, is_failed, restarted_containers
from lws.runtime.actions import Object
from lws.runtime.stored_fields import StoredFields

Key = tuple[str, str]
"""(namespace, name)"""

_DELETED = 10_000
_UNBOUND = 1_000

_LabelKey = Callable[[str, Object], Key | None]

OnChange = Callable[[Object | None, Object | None], None]
"""A function that is called with (before, after) of one object; one of them may be None."""


class _Index:
    """An index of the objects of each kind by one key, such as the UID of their controller."""

    def __init__(self, key_of: Callable[[Object], Hashable | None]) -> None:
        self._key_of = key_of
        # Separate for each kind: a set has one revision and a thousand StatefulSets, and every group reads
        # the revision.
        self._buckets: dict[tuple[str, Hashable], dict[Key, Object]] = {}
        # Cached results of `unchanged`.
        self._results: dict[tuple[str, Hashable], tuple[Object, ...]] = {}

    def add(self, obj: Object) -> None:
        key = self._key_of(obj)
        if key is not None:
            bucket_key = (obj["kind"], key)
            self._buckets.setdefault(bucket_key, {})[_key(obj)] = obj
            self._results.pop(bucket_key, None)

    def remove(self, obj: Object) -> None:
        key = self._key_of(obj)
        bucket_key = (obj["kind"], key)
        bucket = self._buckets.get(bucket_key) if key is not None else None
        if bucket is not None:
            bucket.pop(_key(obj), None)
            self._results.pop(bucket_key, None)
            if not bucket:
                del self._buckets[bucket_key]

    def find(self, key: Hashable, kind: str) -> list[Object]:
        return list(self._buckets.get((kind, key), {}).values())

    def unchanged(self, key: Hashable, kind: str) -> tuple[Object, ...]:
        bucket_key = (kind, key)
        result = self._results.get(bucket_key)
        if result is None:
            bucket = self._buckets.get(bucket_key)
            if bucket is None:
                return ()
            result = self._results[bucket_key] = tuple(bucket.values())
        return result


class Store:
    """The latest state of every watched object, trimmed to the fields that decisions read.

    reads: the fields that decisions read, by kind. is_current: a function that reports whether all streams
    have listed and still receive something. unserved: API versions that the API server is known not to serve.
    """

    def __init__(
        self,
        on_change: OnChange,
        reads: Sequence[StoredFields],
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self._on_change = on_change
        self.unserved: set[str] = set()
        self.is_current = is_current
        shared = SharedKinds(reads)
        self.trimmed, self._is_same = shared.trim, shared.is_same
        self._objects: dict[str, dict[Key, Object]] = defaultdict(dict)
        self._by_owner = _Index(_controller_uid)
        # Indices by label, and by the function that selects their objects.
        self._labelled: dict[tuple[_LabelKey, str], _Index] = {}
        self._kept, self._terminating = _Index(_kept_key), _Index(_terminating_owner)
        self._indices = [self._by_owner, self._kept, self._terminating]
        # UIDs of deleted objects with the resourceVersion of the deletion. Late events must not re-add them.
        self._deleted = FIFOCache[str, int](_DELETED)
        # Deleted pods that were disrupted: (UID of the owner, name) → UID, in the order of their deletion.
        self._disrupted = FIFOCache[tuple[str, str], str](_DELETED)
        # Deleted pods that never had a node but had to return to one: (UID of the owner, name) → last state,
        # in the same order.
        self._unbound = FIFOCache[tuple[str, str], Object](_UNBOUND)
        # (namespace, name) → node of the last pod with this name, in the order in which the pods ended.
        self._nodes = FIFOCache[Key, str](_DELETED)

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return the object with this name; None if it is not stored."""
        return self._objects[kind].get((namespace, name))

    def has(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Return whether the store has the object with this name and UID."""
        stored = self.get(kind, namespace, name)
        return stored is not None and stored["metadata"]["uid"] == uid

    def version_of(self, obj: Mapping[str, Any]) -> int:
        """Return the stored resourceVersion of the object with this UID; 0 if it is not stored."""
        stored = self._objects[obj["kind"]].get(_key(obj))
        is_stored = stored is not None and stored["metadata"]["uid"] == obj["metadata"]["uid"]
        return _version(stored) if stored is not None and is_stored else 0

    def of_kind(self, kind: str) -> tuple[Object, ...]:
        return tuple(self._objects[kind].values())

    def sizes(self) -> dict[str, int]:
        """Return the number of objects by kind."""
        return {kind: len(objects) for kind, objects in sorted(self._objects.items())}

    def controlled_by(self, uid: str, kind: str) -> list[Object]:
        """Return the objects of a kind whose controller reference has this UID."""
        return self._by_owner.find(uid, kind)

    def owned_by(self, uid: str, kind: str) -> tuple[Object, ...]:
        """Return the objects of `controlled_by`, as the identical tuple until one of them changes."""
        return self._by_owner.unchanged(uid, kind)

    def labelled(self, label: str, namespace: str, value: str, kind: str) -> list[Object]:
        """Return the objects of a kind that carry a label with this value, regardless of owner.

        Pods are excluded, as are ControllerRevisions that have a controller.
        """
        return self._indexed(_label_key, label).find((namespace, value), kind)

    def labelled_pods(self, label: str, namespace: str, value: str) -> list[Object]:
        """Return the pods with this label, regardless of owner."""
        return self._indexed(_pod_key, label).find((namespace, value), "Pod")

    def terminating_pods(self, label: str, namespace: str, value: str) -> list[Object]:
        """Return the terminating pods that carry a label with this value and wait for their kubelet."""
        return self._indexed(_terminating_key, label).find((namespace, value), "Pod")

    def terminating_pods_of(self, namespace: str, owner: str) -> list[Object]:
        """Return the terminating pods whose controller has this name and that wait for their kubelet."""
        return self._terminating.find((namespace, owner), "Pod")

    def kept(self, namespace: str, owner: str) -> list[Object]:
        """Return the pods whose controller has this name and that have a finalizer that decisions read."""
        return self._kept.find((namespace, owner), "Pod")

    def last_disrupted(self, owner_uid: str, name: str) -> str:
        """Return the UID of the last deleted pod of this owner and name if it was disrupted, else empty."""
        return self._disrupted.get((owner_uid, name), "")

    def last_unbound(self, owner_uid: str, name: str) -> Object | None:
        """Return the last deleted pod of this owner and name; None if it had a node or none to return to.

        It is also None if the deletion was not seen.
        """
        return self._unbound.get((owner_uid, name))

    def last_node(self, namespace: str, name: str) -> str:
        """Return the node of the last pod of this name that terminates or is deleted.

        It is empty if the node is unknown, or if the pod had failed or restarted containers there.
        """
        return self._nodes.get((namespace, name), "")

    def put(self, obj: Mapping[str, Any]) -> None:
        """Store the state of an object, unless the same or a newer state is stored."""
        trimmed = self.trimmed(obj)
        kind, key, uid = trimmed["kind"], _key(trimmed), trimmed["metadata"]["uid"]
        version = _version(trimmed)
        # An equal version is stored: when an object loses its label, the stream reports its deletion with the
        # same version that a live read returns.
        if self._deleted.get(uid, -1) > version:
            return
        stored = self._objects[kind].get(key)
        # Compared regardless of the UID: an earlier object of this name has an older version.
        if stored is not None and _version(stored) >= version:
            return
        if stored is not None and stored["metadata"]["uid"] != uid:
            self._record_disruption(stored)
        if kind == "Pod":
            self._record_node(stored, trimmed)
        self._remove(stored)
        self._add(trimmed)
        if stored is None or not self._is_same(stored, trimmed):
            self._on_change(stored, trimmed)

    def drop(self, obj: Mapping[str, Any]) -> None:
        """Remove a deleted object, given its last state with the version of its deletion.

        If a live read did not find the object, the stored object itself is given.
        """
        stored = self._objects[obj["kind"]].get(_key(obj))
        if stored is None or stored["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._deleted[obj["metadata"]["uid"]] = _version(obj)
        elif stored is obj:
            self._record_unbound(stored)
            self._delete(stored, _version(stored) + 1)
        elif _version(stored) <= _version(obj):
            self._record_unbound(stored, obj)
            self._delete(stored, _version(obj))
        # Otherwise the object lost the label of the stream and has regained it since.

    def retain(
        self, kind: str, uids: Collection[str], version: str, other_labels: Collection[str] = ()
    ) -> None:
        """Remove objects that a list as of `version` lacks, unless we wrote them later.

        Objects with one of `other_labels` are kept, because other lists of this kind select them.
        """
        as_of = version_number(version)
        for obj in tuple(self._objects[kind].values()):
            if obj["metadata"]["uid"] in uids or _version(obj) > as_of:
                continue
            if not any(label in labels_of(obj) for label in other_labels):
                self._delete(obj, as_of)

    def _delete(self, stored: Object, version: int) -> None:
        self._deleted[stored["metadata"]["uid"]] = version
        self._record_disruption(stored)
        self._record_node(stored, None)
        self._remove(stored)
        self._on_change(stored, None)

    def _record_disruption(self, obj: Object) -> None:
        owner_uid = _controller_uid(obj)
        if obj["kind"] != "Pod" or owner_uid is None:
            return
        self._disrupted.pop((owner_uid, obj["metadata"]["name"]), None)
        if disruption_of(obj):
            self._disrupted[owner_uid, obj["metadata"]["name"]] = obj["metadata"]["uid"]

    def _record_unbound(self, stored: Object, last: Mapping[str, Any] | None = None) -> None:
        """Record a deleted pod that never had a node, not even in its last state, but an affinity to one."""
        owner_uid = _controller_uid(stored)
        if stored["kind"] != "Pod" or owner_uid is None:
            return
        key = owner_uid, stored["metadata"]["name"]
        self._unbound.pop(key, None)
        # Only pods that return to a node have such an affinity. Others would displace them.
        is_returning = "affinity" in stored["spec"]
        if is_returning and not node_of(stored) and not node_of(last or stored):
            self._unbound[key] = stored

    def _record_node(self, before: Object | None, after: Object | None) -> None:
        """Record the node of a pod that ends.

        This happens once per pod, by its state before the deletion, because a terminating pod looks failed.
        """
        pod = before or after or {}
        is_over = after is None or is_terminating(after) or uid_of(after) != uid_of(pod)
        if pod["kind"] != "Pod" or not is_over or (before is not None and is_terminating(before)):
            return
        if node := node_of(pod):
            self._nodes.pop(_key(pod), None)
            if not is_failed(pod) and not restarted_containers(pod):
                self._nodes[_key(pod)] = node

    def _indexed(self, key_of: _LabelKey, label: str) -> _Index:
        """Return the index by one label, which is built at the first look-up."""
        index = self._labelled.get((key_of, label))
        if index is None:
            index = self._labelled[key_of, label] = _Index(partial(key_of, label))
            self._indices.append(index)
            for objects in self._objects.values():
                for obj in objects.values():
                    index.add(obj)
        return index

    def _add(self, obj: Object) -> None:
        self._objects[obj["kind"]][_key(obj)] = obj
        for index in self._indices:
            index.add(obj)

    def _remove(self, obj: Object | None) -> None:
        if obj is not None:
            self._objects[obj["kind"]].pop(_key(obj), None)
            for index in self._indices:
                index.remove(obj)


def _controller_uid(obj: Object) -> str | None:
    owner = controller_of(obj)
    return owner["uid"] if owner is not None else None


def _label_key(label: str, obj: Object) -> Key | None:
    # Pods and owned ControllerRevisions are found by their owners; an index by label would only take memory.
    # The StatefulSet of each group has a ControllerRevision with our labels.
    kind = obj["kind"]
    if kind == "Pod" or (kind == "ControllerRevision" and controller_of(obj)):
        return None
    return _place(label, obj)


def _pod_key(label: str, obj: Object) -> Key | None:
    return _place(label, obj) if obj["kind"] == "Pod" else None


def _terminating_key(label: str, obj: Object) -> Key | None:
    return _place(label, obj) if obj["kind"] == "Pod" and waits_for_kubelet(obj) else None


def _terminating_owner(obj: Object) -> Key | None:
    return _owner_name(obj) if obj["kind"] == "Pod" and waits_for_kubelet(obj) else None


def _kept_key(obj: Object) -> Key | None:
    return _owner_name(obj) if obj["kind"] == "Pod" and obj["metadata"].get("finalizers") else None


def _owner_name(obj: Object) -> Key | None:
    owner = controller_of(obj)
    return (obj["metadata"]["namespace"], owner["name"]) if owner is not None else None


def _place(label: str, obj: Object) -> Key | None:
    metadata = obj["metadata"]
    value = (metadata.get("labels") or {}).get(label)
    return (metadata["namespace"], value) if value else None


def _key(obj: Mapping[str, Any]) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _version(obj: Mapping[str, Any]) -> int:
    return version_number(obj["metadata"].get("resourceVersion", "0"))


class SharedKinds:
    """What the store keeps of objects, and which changes trigger passes. A kind may have several tables."""

    def __init__(self, reads: Iterable[StoredFields] = ()) -> None:
        self._tables: dict[str, list[StoredFields]] = {}
        for table in reads:
            self._tables.setdefault(table.kind, []).append(table)

    def trim(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of an object that decisions read. A kind without a table is kept whole."""
        tables = self._tables.get(obj["kind"])
        if tables is None:
            return dict(obj)
        if len(tables) == 1:
            return tables[0].of(obj).trim(obj)
        # Maps that two tables keep are merged. For other fields, the first table applies.
        return reduce(deep_merged, (table.of(obj).trim(obj) for table in reversed(tables)))

    def is_same(self, before: Object, after: Object) -> bool:
        """Return whether two states of an object differ in nothing that triggers a pass."""
        tables = self._tables.get(after["kind"])
        if tables is None:
            return before == after
        return all(table.of(after).is_same(before, after) for table in tables)
