"""Remember which writes the API server currently rejects, for each workload.

Rejected writes are retried, so a refusal that is not repeated for a while is over; after a restart they are
rejected again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lws import timing
from lws.kube.conditions import FAILED_CREATE, Obstruction
from lws.runtime.actions import Action, Apply, Create, Delete, Merge, Reference
from lws.runtime.errors import ApiError

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
    """By the workload whose plan they are from, of one kind."""

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
        """Whether what the leader StatefulSet of this set is told is refused."""
        recent = self._recent(namespace, name)
        return any(key[:2] == ("StatefulSet", name) and key[2] != Delete.__name__ for key in recent)

    def _forget_former(self) -> None:
        """Nobody asks about a workload that is gone, where it was refused something while it went."""
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
