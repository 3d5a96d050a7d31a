"""Record which writes the API server currently rejects, for each workload.

Rejected writes are retried, so a rejection that is not repeated for a while is over. After a restart, the
writes are rejected and recorded again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import FIFOCache

from lws import timing
from lws.kube.conditions import FAILED_CREATE, Rejection
from lws.kube.metadata import controller_of, is_controlled_by, is_terminating, labels_of, missing_labels
from lws.runtime.actions import Action, Apply, Create, Delete, Merge, Object, Reference, Verbatim, target_of
from lws.runtime.errors import ApiError
from lws.runtime.store import Store

_CREATED = ("cannot create", FAILED_CREATE, "Create")
_UPDATED = ("cannot update", "FailedUpdate", "Update")
_STATUS_UPDATED = ("cannot update the status of", "FailedUpdate", "Update")
_DELETED = ("cannot delete", "FailedDelete", "Delete")

_NamespacedName = tuple[str, str]
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Refused:
    """A rejected write: when it was last rejected, and a key that equal rejections of other objects share."""

    at: float
    rejection: Rejection
    alike: tuple[str, ...]


class Refusals:
    """The rejected writes of one kind of workload, by workload."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[_NamespacedName, dict[_Key, _Refused]] = {}

    def record(self, action: Action, error: ApiError, owner: Reference) -> None:
        verb, otherwise, word = _verb(action)
        kind, name, _ = key = _key(action)
        is_reported = getattr(action, "failure", None) is not None
        rejection = Rejection(f"{verb} {kind} {name}", error.message, is_reported, otherwise, word, kind)
        # Creates are listed one by one, because rules check for each object whether it can be created.
        about = name if verb == _CREATED[0] or is_reported else error.message.replace(name, "*")
        refused = _Refused(self._clock(), rejection, (verb, kind, about))
        self._forget_former()
        # Workloads are in the order of their last rejection.
        namespaced_name = owner.namespace, owner.name
        of_owner = self._refused[namespaced_name] = self._refused.pop(namespaced_name, {})
        of_owner[key] = refused

    def forget(self, action: Action, owner: Reference) -> bool:
        """Drop the rejection of an action that succeeded. Return whether there was one."""
        namespaced_name = owner.namespace, owner.name
        refused = self._refused.get(namespaced_name)
        if refused is None or refused.pop(_key(action), None) is None:
            return False
        if not refused:
            del self._refused[namespaced_name]
        return True

    def forget_set(self, namespace: str, name: str) -> None:
        """Drop the rejections of a deleted workload."""
        self._refused.pop((namespace, name), None)

    def of_set(self, namespace: str, name: str) -> tuple[Rejection, ...]:
        """Return the rejections of this workload in a fixed order, the first one of each that are alike."""
        recent = self._recent(namespace, name)
        first: dict[tuple[str, ...], _Key] = {}
        for key, refused in recent.items():
            first.setdefault(refused.alike, key)
        return tuple(recent[key].rejection for key in sorted(first.values()))

    def of_leaders(self, namespace: str, name: str) -> bool:
        """Return whether writes, except deletions, to the leaders' StatefulSet or Deployment are rejected."""
        recent = self._recent(namespace, name)
        kinds = ("StatefulSet", "Deployment")
        return any(key[0] in kinds and key[1] == name and key[2] != Delete.__name__ for key in recent)

    def _forget_former(self) -> None:
        """Forget workloads whose rejections are all over, such as deleted ones."""
        since = self._clock() - timing.REJECTIONS_KEPT_SECONDS
        while self._refused:
            namespaced_name, refused = next(iter(self._refused.items()))
            if max(rejected.at for rejected in refused.values()) >= since:
                return
            del self._refused[namespaced_name]

    def _recent(self, namespace: str, name: str) -> Mapping[_Key, _Refused]:
        refused = self._refused.get((namespace, name))
        if not refused:
            return {}
        since = self._clock() - timing.REJECTIONS_KEPT_SECONDS
        for key in [key for key, rejected in refused.items() if rejected.at < since]:
            del refused[key]
        if not refused:
            del self._refused[namespace, name]
        return refused


def _key(action: Action) -> _Key:
    """Return the key of a rejection, by verb: an update may be rejected while a deletion is not."""
    target = target_of(action)
    return target.kind, target.name, f"{type(action).__name__}{_subresource(action)}"


def _verb(action: Action) -> tuple[str, str, str]:
    if isinstance(action, Create) or (isinstance(action, Apply) and not action.uid):
        return _CREATED
    if _subresource(action):
        return _STATUS_UPDATED
    return _DELETED if isinstance(action, Delete) else _UPDATED


def _subresource(action: Action) -> str:
    return action.subresource if isinstance(action, Merge) else ""


# --- Cache of values computed from one state of an object.


V = TypeVar("V")


class Computed(Generic[V]):
    """A cache with one value per object, by UID. most: the maximum number of values."""

    def __init__(self, most: int) -> None:
        self._cached = FIFOCache[str, tuple[Hashable, V]](most)

    def of(self, uid: str, state: Hashable, compute: Callable[[], V]) -> V:
        """Return the value for this state of the object. It is computed if it is not cached."""
        cached = self._cached.get(uid)
        if cached is not None and cached[0] == state:
            return cached[1]
        value = compute()
        self._cached[uid] = state, value
        return value

    def forget(self, uid: str) -> None:
        """Drop the value of a deleted object."""
        self._cached.pop(uid, None)


_CHECKED = 16384


class Faults(Computed[str]):
    """A cache of the reasons why specs cannot be read: reading a large one takes tens of milliseconds.

    fault: a function that returns such a reason; empty if the spec can be read.
    """

    def __init__(self, fault: Callable[[Object], str]) -> None:
        super().__init__(_CHECKED)
        self._fault = fault

    def fault_of(self, obj: Object) -> str:
        """Return why the spec of a set cannot be read; empty if it can. Each generation is checked once."""
        metadata = obj["metadata"]
        return self.of(metadata["uid"], metadata.get("generation", 0), lambda: self._fault(obj))


# --- Judge an object that has the name that a create needs: it is the object to be created, or another one.
# For each set, also record the names that its revisions cannot have. Nothing else would report them to the
# plan, because no stream shows objects without our labels.


_SETS = 4096


def matches_intent(existing: Object, intent: Object) -> bool:
    """Return whether the existing object is the one to create, so that the create counts as done.

    The object must have the same controller by UID, not be terminating, carry the labels, and contain the
    verbatim data. The next plan deals with any other object.
    """
    controller = controller_of(intent)
    if controller is None or not is_controlled_by(existing, controller["uid"]) or is_terminating(existing):
        return False
    if missing_labels(existing, labels_of(intent)):
        return False
    verbatim = {field: value.text for field, value in intent.items() if isinstance(value, Verbatim)}
    return all(existing.get(field) == json.loads(text) for field, text in verbatim.items())


class TakenNames:
    """Other objects that have the names of ControllerRevisions that we tried to create.

    Only objects in the store count. Children of other kinds have fixed names, which each pass reads.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # By UID of the set: namespace and name.
        self._taken = FIFOCache[str, set[tuple[str, str]]](_SETS)

    def record(self, action: Create) -> None:
        """Record that the name of a create is taken. The store has the object with this name."""
        intent, owner = action.intent, controller_of(action.intent)
        if intent["kind"] != "ControllerRevision" or owner is None:
            return
        namespaced_name = (intent["metadata"]["namespace"], intent["metadata"]["name"])
        self._taken[owner["uid"]] = self._taken.get(owner["uid"], set()) | {namespaced_name}

    def forget(self, uid: str) -> None:
        """Drop the names of a deleted set."""
        self._taken.pop(uid, None)

    def of_set(self, uid: str) -> tuple[Object, ...]:
        """Return the objects of other owners that have names for revisions of the set with this UID."""
        stored = (
            self._store.get("ControllerRevision", *namespaced_name)
            for namespaced_name in sorted(self._taken.get(uid, ()))
        )
        return tuple(obj for obj in stored if obj is not None and not is_controlled_by(obj, uid))
