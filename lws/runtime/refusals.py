"""Remember which writes the API server currently rejects, for each workload.

Rejected writes are retried, so a refusal that is not repeated for a while is over; after a restart they are
rejected again.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lws import timing
from lws.kube.conditions import FAILED_CREATE, Obstruction
from lws.kube.metadata import controller_of, is_controlled_by, is_terminating, labels_of, missing_labels
from lws.runtime.actions import Action, Apply, Create, Delete, Merge, Object, Reference, Verbatim
from lws.runtime.errors import ApiError
from lws.runtime.store import Store

_CREATED = ("cannot create", FAILED_CREATE, "Create")
_UPDATED = ("cannot update", "FailedUpdate", "Update")
_TOLD = ("cannot update the status of", "FailedUpdate", "Update")
_DELETED = ("cannot delete", "FailedDelete", "Delete")

_Place = tuple[str, str]
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Refused:
    """at: when it was last said. alike: equal for refusals that say the same of different objects."""

    at: float
    obstruction: Obstruction
    alike: tuple[str, ...]


class Refusals:
    """Rejected writes by workload, for one kind."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[_Place, dict[_Key, _Refused]] = {}

    def remember(self, action: Action, error: ApiError, owner: Reference) -> None:
        """Take in that an action was refused."""
        verb, otherwise, word = _verb(action)
        kind, name, _ = key = _key(action)
        is_reported = getattr(action, "failure", None) is not None
        told = Obstruction(f"{verb} {kind} {name}", error.message, is_reported, otherwise, word)
        # What is made is told one by one: rules ask for each whether it can be made.
        about = name if verb == _CREATED[0] or is_reported else error.message.replace(name, "*")
        refused = _Refused(self._clock(), told, (verb, kind, about))
        self._forget_former()
        # The one that was refused something last is the last.
        place = owner.namespace, owner.name
        of_owner = self._refused[place] = self._refused.pop(place, {})
        of_owner[key] = refused

    def forget(self, action: Action, owner: Reference) -> bool:
        """Take in that an action succeeded; returns whether it had been refused before."""
        if isinstance(action, Apply) and action.is_rehearsal:
            return False
        place = owner.namespace, owner.name
        refused = self._refused.get(place)
        if refused is None or refused.pop(_key(action), None) is None:
            return False
        if not refused:
            del self._refused[place]
        return True

    def forget_set(self, namespace: str, name: str) -> None:
        """There is no such workload any more."""
        self._refused.pop((namespace, name), None)

    def of_set(self, namespace: str, name: str) -> tuple[Obstruction, ...]:
        """What is refused to this workload, in a fixed order; of those that say the same the one that was met
        first.
        """
        recent = self._recent(namespace, name)
        first: dict[tuple[str, ...], _Key] = {}
        for key, each in recent.items():
            first.setdefault(each.alike, key)
        return tuple(recent[key].obstruction for key in sorted(first.values()))

    def of_leaders(self, namespace: str, name: str) -> bool:
        """Report whether writes to the leader StatefulSet of this set are rejected."""
        recent = self._recent(namespace, name)
        return any(key[:2] == ("StatefulSet", name) and key[2] != Delete.__name__ for key in recent)

    def _forget_former(self) -> None:
        """Forget rejections of deleted workloads."""
        since = self._clock() - timing.REFUSALS_KEPT_SECONDS
        while self._refused:
            place, refused = next(iter(self._refused.items()))
            if max(each.at for each in refused.values()) >= since:
                return
            del self._refused[place]

    def _recent(self, namespace: str, name: str) -> Mapping[_Key, _Refused]:
        refused = self._refused.get((namespace, name))
        if not refused:
            return {}
        since = self._clock() - timing.REFUSALS_KEPT_SECONDS
        for key in [key for key, each in refused.items() if each.at < since]:
            del refused[key]
        if not refused:
            del self._refused[namespace, name]
        return refused


def _key(action: Action) -> _Key:
    """Of one object an update may be refused while its deletion is not, nor that of its status."""
    target = Reference.to(action.intent) if isinstance(action, Apply | Create) else action.target
    return target.kind, target.name, f"{type(action).__name__}{_subresource(action)}"


def _verb(action: Action) -> tuple[str, str, str]:
    if isinstance(action, Create) or (isinstance(action, Apply) and not action.uid):
        return _CREATED
    if _subresource(action):
        return _TOLD
    return _DELETED if isinstance(action, Delete) else _UPDATED


def _subresource(action: Action) -> str:
    return action.subresource if isinstance(action, Merge) else ""


# --- What is computed once of each state of an object and looked up from then on.


V = TypeVar("V")


class Computed(Generic[V]):
    """One answer for each object, by UID. most: how many are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[str, tuple[Hashable, V]] = OrderedDict()

    def of(self, uid: str, state: Hashable, compute: Callable[[], V]) -> V:
        """The answer for this state of the object; computed where it is not known."""
        known = self._known.get(uid)
        if known is not None and known[0] == state:
            return known[1]
        answer = compute()
        self._known[uid] = state, answer
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return answer

    def forget(self, uid: str) -> None:
        """There is no such object any more."""
        self._known.pop(uid, None)


# --- Judge an object that has the name a create needs: the very object that was to be created, or an
# obstacle. For each set it also remembers names that its revisions cannot have. No stream shows objects
# without our labels, so nothing else would tell the plan.


_SETS = 4096


def is_as_made(existing: Object, intent: Object) -> bool:
    """Report whether the existing object is the one to create: the create counts as done.

    It has the same controller by UID, is not going, carries the labels, and holds the data that were to be
    written byte for byte. Anything else is in the way, and for the next plan to see.
    """
    controller = controller_of(intent)
    if controller is None or not is_controlled_by(existing, controller["uid"]) or is_terminating(existing):
        return False
    if missing_labels(existing, labels_of(intent), labels_of(intent)):
        return False
    verbatim = {field: value.text for field, value in intent.items() if isinstance(value, Verbatim)}
    return all(existing.get(field) == json.loads(text) for field, text in verbatim.items())


class TakenNames:
    """Names of ControllerRevisions that were taken when we created them, while the store has their holder.

    Objects of every other kind have one name, which is looked at in each pass.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # By UID of the set: namespace and name.
        self._taken: OrderedDict[str, set[tuple[str, str]]] = OrderedDict()

    def remember(self, action: Create) -> None:
        """Take in that the name is taken; what has it is in the store."""
        intent, owner = action.intent, controller_of(action.intent)
        if intent["kind"] != "ControllerRevision" or owner is None:
            return
        place = (intent["metadata"]["namespace"], intent["metadata"]["name"])
        self._taken.setdefault(owner["uid"], set()).add(place)
        self._taken.move_to_end(owner["uid"])
        if len(self._taken) > _SETS:
            self._taken.popitem(last=False)

    def forget(self, uid: str) -> None:
        """There is no set with this UID any more."""
        self._taken.pop(uid, None)

    def of_set(self, uid: str) -> tuple[Object, ...]:
        """What has names that revisions of the set with this UID were to get, and is not its own."""
        return tuple(each for each in self._there(uid) if not is_controlled_by(each, uid))

    def _there(self, uid: str) -> Iterator[Object]:
        for place in sorted(self._taken.get(uid, ())):
            found = self._store.get("ControllerRevision", *place)
            if found is not None:
                yield found
