"""What the streams told us, by name and by owner, never older than what we wrote ourselves.

In: objects from list, watch and our own writes, in any order. Out: look-ups by name, by controller UID and
by label, and one call of `on_change` for each change that some decision could see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from lws.kube.metadata import controller_of, labels_of, united, version_number
from lws.kube.nodes import waits_for_kubelet
from lws.kube.pods import disruption_of
from lws.runtime.actions import Object
from lws.runtime.fields import StoredFields

Key = tuple[str, str]
"""(namespace, name)"""

_BURIED = 10_000

OnChange = Callable[[Object | None, Object | None], None]
"""Called with (before, after) of one object; one of them may be None."""


class _Index:
    """Objects of each kind by one key that is read off them."""

    def __init__(self, key_of: Callable[[Object], Hashable | None]) -> None:
        self._key_of = key_of
        # Apart by kind: a set has one revision beside a thousand StatefulSets, and every group asks for it.
        self._buckets: dict[tuple[str, Hashable], dict[Key, Object]] = {}
        # What `unchanged` has answered, until that changes.
        self._answers: dict[tuple[str, Hashable], tuple[Object, ...]] = {}

    def add(self, obj: Object) -> None:
        key = self._key_of(obj)
        if key is not None:
            place = (obj["kind"], key)
            self._buckets.setdefault(place, {})[_key(obj)] = obj
            self._answers.pop(place, None)

    def remove(self, obj: Object) -> None:
        key = self._key_of(obj)
        place = (obj["kind"], key)
        bucket = self._buckets.get(place) if key is not None else None
        if bucket is not None:
            bucket.pop(_key(obj), None)
            self._answers.pop(place, None)
            if not bucket:
                del self._buckets[place]

    def find(self, key: Hashable, kind: str) -> list[Object]:
        return list(self._buckets.get((kind, key), {}).values())

    def unchanged(self, key: Hashable, kind: str) -> tuple[Object, ...]:
        place = (kind, key)
        found = self._answers.get(place)
        if found is None:
            bucket = self._buckets.get(place)
            if bucket is None:
                return ()
            found = self._answers[place] = tuple(bucket.values())
        return found


class Store:
    """The latest known state of every object of the watched kinds, trimmed. reads: the fields that decisions
    read, by kind.
    """

    def __init__(self, on_change: OnChange, reads: Sequence[StoredFields]) -> None:
        self._on_change = on_change
        shared = SharedKinds(reads)
        self._trim, self._is_same = shared.trim, shared.is_same
        self._objects: dict[str, dict[Key, Object]] = defaultdict(dict)
        self._by_owner = _Index(_controller_uid)
        # By label, from the first look-up on.
        self._labelled: dict[str, _Index] = {}
        self._leaving: dict[str, _Index] = {}
        self._indices = [self._by_owner]
        # UIDs that are gone, with the resourceVersion at which they went: late news must not bring them back.
        self._gone: dict[str, int] = {}
        # Of pods that are gone: UID of the owner and name, in the order in which they went → UID.
        self._disrupted: dict[tuple[str, str], str] = {}

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object of this name."""
        return self._objects[kind].get((namespace, name))

    def kept_of(self, obj: Mapping[str, Any]) -> Object:
        """As much of an object as is kept."""
        return self._trim(obj)

    def has(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Whether this very object is known."""
        known = self.get(kind, namespace, name)
        return known is not None and known["metadata"]["uid"] == uid

    def version_of(self, obj: Mapping[str, Any]) -> int:
        """The newest version that is known of this very object; 0 of one that is not known."""
        known = self._objects[obj["kind"]].get(_key(obj))
        is_known = known is not None and known["metadata"]["uid"] == obj["metadata"]["uid"]
        return _version(known) if known is not None and is_known else 0

    def of_kind(self, kind: str) -> tuple[Object, ...]:
        """Every object of a kind."""
        return tuple(self._objects[kind].values())

    def sizes(self) -> dict[str, int]:
        """How many objects there are of each kind."""
        return {kind: len(objects) for kind, objects in sorted(self._objects.items())}

    def controlled_by(self, uid: str, kind: str) -> list[Object]:
        """Objects of a kind whose controller reference has this UID."""
        return self._by_owner.find(uid, kind)

    def owned_by(self, uid: str, kind: str) -> tuple[Object, ...]:
        """The same: the very same tuple as long as none of these objects has changed."""
        return self._by_owner.unchanged(uid, kind)

    def labelled(self, label: str, namespace: str, value: str, kind: str) -> list[Object]:
        """Objects of a kind that carry a label with this value, regardless of owner; not Pods, and of
        ControllerRevisions those without a controller.
        """
        index = self._labelled.get(label) or self._indexed(self._labelled, label, _label_key)
        return index.find((namespace, value), kind)

    def leaving(self, label: str, namespace: str, value: str) -> list[Object]:
        """Pods that carry a label with this value, are being deleted, and wait for their kubelet."""
        index = self._leaving.get(label) or self._indexed(self._leaving, label, _leaving_key)
        return index.find((namespace, value), "Pod")

    def last_disrupted(self, owner_uid: str, name: str) -> str:
        """The UID of the last pod that this owner had by this name, if it has gone through no fault of its
        own (`disruption_of`); else empty.
        """
        return self._disrupted.get((owner_uid, name), "")

    def put(self, obj: Mapping[str, Any]) -> None:
        """Take in the state of an object, unless we know a newer one."""
        trimmed = self._trim(obj)
        kind, key, uid = trimmed["kind"], _key(trimmed), trimmed["metadata"]["uid"]
        version = _version(trimmed)
        # Not at the same version: an object that lost its label leaves the stream with the version that a
        # live read of it shows too.
        if self._gone.get(uid, -1) > version:
            return
        known = self._objects[kind].get(key)
        # Whatever its UID: a former object of this name is older than the one that took its place.
        if known is not None and _version(known) >= version:
            return
        if known is not None and known["metadata"]["uid"] != uid:
            self._note_end(known)
        self._forget(known)
        self._remember(trimmed)
        if known is None or not self._is_same(known, trimmed):
            self._on_change(known, trimmed)

    def drop(self, obj: Mapping[str, Any]) -> None:
        """Take in that an object is gone: `obj` is its last state, with the version of its deletion, or the
        very object that the store has, where a read found nothing.
        """
        known = self._objects[obj["kind"]].get(_key(obj))
        if known is None or known["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._bury(obj["metadata"]["uid"], _version(obj))
        elif known is obj:
            self._lose(known, _version(known) + 1)
        elif _version(known) <= _version(obj):
            self._lose(known, _version(obj))
        # Else it only left the stream, by losing its label, and has got it back since.

    def retain(self, kind: str, uids: Collection[str], version: str, spared: Collection[str] = ()) -> None:
        """Take in that a list as of `version` had these and no others: what it lacked is gone, unless we
        wrote it later. spared: labels by which other lists of this kind are narrowed.
        """
        as_of = version_number(version)
        for obj in tuple(self._objects[kind].values()):
            if obj["metadata"]["uid"] in uids or _version(obj) > as_of:
                continue
            if not any(label in labels_of(obj) for label in spared):
                self._lose(obj, as_of)

    def _lose(self, known: Object, version: int) -> None:
        self._bury(known["metadata"]["uid"], version)
        self._note_end(known)
        self._forget(known)
        self._on_change(known, None)

    def _bury(self, uid: str, version: int) -> None:
        self._gone[uid] = version
        if len(self._gone) > _BURIED:
            del self._gone[next(iter(self._gone))]

    def _note_end(self, obj: Object) -> None:
        owner_uid = _controller_uid(obj)
        if obj["kind"] != "Pod" or owner_uid is None:
            return
        self._disrupted.pop((owner_uid, obj["metadata"]["name"]), None)
        if disruption_of(obj):
            self._disrupted[owner_uid, obj["metadata"]["name"]] = obj["metadata"]["uid"]
            if len(self._disrupted) > _BURIED:
                del self._disrupted[next(iter(self._disrupted))]

    def _indexed(
        self, indices: dict[str, _Index], label: str, key_of: Callable[[str, Object], Key | None]
    ) -> _Index:
        """An index by one label of all that is known."""
        index = indices[label] = _Index(partial(key_of, label))
        self._indices.append(index)
        for objects in self._objects.values():
            for obj in objects.values():
                index.add(obj)
        return index

    def _remember(self, obj: Object) -> None:
        self._objects[obj["kind"]][_key(obj)] = obj
        for index in self._indices:
            index.add(obj)

    def _forget(self, obj: Object | None) -> None:
        if obj is not None:
            self._objects[obj["kind"]].pop(_key(obj), None)
            for index in self._indices:
                index.remove(obj)


def _controller_uid(obj: Object) -> str | None:
    owner = controller_of(obj)
    return owner["uid"] if owner is not None else None


def _label_key(label: str, obj: Object) -> Key | None:
    # These are reached through their owners: an index of them by label would only grow. The StatefulSet of
    # each group has a ControllerRevision that copies our labels.
    kind = obj["kind"]
    if kind == "Pod" or (kind == "ControllerRevision" and controller_of(obj)):
        return None
    return _place(label, obj)


def _leaving_key(label: str, obj: Object) -> Key | None:
    return _place(label, obj) if obj["kind"] == "Pod" and waits_for_kubelet(obj) else None


def _place(label: str, obj: Object) -> Key | None:
    metadata = obj["metadata"]
    value = (metadata.get("labels") or {}).get(label)
    return (metadata["namespace"], value) if value else None


def _key(obj: Mapping[str, Any]) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _version(obj: Mapping[str, Any]) -> int:
    return version_number(obj["metadata"].get("resourceVersion", "0"))


class SharedKinds:
    """What the store keeps of an object, and which of its changes matter. reads: the tables of all workloads;
    several may be of one kind.
    """

    def __init__(self, reads: Iterable[StoredFields] = ()) -> None:
        self._tables: dict[str, list[StoredFields]] = {}
        for table in reads:
            self._tables.setdefault(table.kind, []).append(table)

    def trim(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """The part of an object that decisions read; a kind without a table is kept whole."""
        tables = self._tables.get(obj["kind"])
        if tables is None:
            return dict(obj)
        if len(tables) == 1:
            return tables[0].of(obj).trim(obj)
        # What two tables keep of one field, the first one decides.
        return reduce(united, (table.of(obj).trim(obj) for table in reversed(tables)))

    def is_same(self, before: Object, after: Object) -> bool:
        """Report whether two states of an object differ in nothing that triggers a pass."""
        tables = self._tables.get(after["kind"])
        if tables is None:
            return before == after
        return all(table.of(after).is_same(before, after) for table in tables)
