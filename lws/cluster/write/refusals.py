"""Which writes of ours does the API server refuse at the moment?

In: refusals as they come, and successes. Out: the refusals that concern one workload. They are tried
again, so what is not heard of for a while is over; after a restart they are refused again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from lws import timing
from lws.actions import Action, Apply, Create
from lws.cluster.errors import ApiError
from lws.kube.metadata import labels_of
from lws.kube.refusals import FAILED_CREATE, Obstruction

_Key = tuple[str, str]


class Refusals:
    """By workload of one kind. label: what names the workload that an object is made for."""

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._clock = clock
        self._refused: dict[_Key, dict[_Key, tuple[float, Obstruction]]] = {}

    def remember(self, action: Action, error: ApiError) -> _Key | None:
        """Take in that an object was refused; returns (namespace, name) of the workload that it is for."""
        if not isinstance(action, Apply | Create):
            return None
        intent = action.intent
        concerned = self._concerned(intent)
        if not concerned[1]:
            return None
        what = f"{intent['kind']} {intent['metadata']['name']}"
        subject, otherwise = f"cannot create {what}", FAILED_CREATE
        if isinstance(action, Apply) and action.uid:
            subject, otherwise = f"cannot update {what}", "FailedUpdate"
        is_reported = action.failure is not None
        told = Obstruction(subject, error.message, is_reported, otherwise)
        self._refused.setdefault(concerned, {})[_key(intent)] = (self._clock(), told)
        return concerned

    def forget(self, obj: Mapping[str, Any]) -> None:
        """Take in that a write succeeded."""
        concerned = self._concerned(obj)
        refused = self._refused.get(concerned)
        if refused is not None and refused.pop(_key(obj), None) is not None and not refused:
            del self._refused[concerned]

    def of_set(self, namespace: str, name: str) -> tuple[Obstruction, ...]:
        """What is refused to this set, in a fixed order."""
        return tuple(told for _, (_, told) in sorted(self._recent(namespace, name).items()))

    def of_leaders(self, namespace: str, name: str) -> bool:
        """Whether the leader StatefulSet of this set is."""
        return ("StatefulSet", name) in self._recent(namespace, name)

    def _concerned(self, obj: Mapping[str, Any]) -> _Key:
        return obj["metadata"].get("namespace", ""), labels_of(obj).get(self._label, "")

    def _recent(self, namespace: str, name: str) -> Mapping[_Key, tuple[float, Obstruction]]:
        refused = self._refused.get((namespace, name))
        if not refused:
            return {}
        since = self._clock() - timing.REFUSALS_KEPT_SECONDS
        for key in [key for key, (moment, _) in refused.items() if moment < since]:
            del refused[key]
        if not refused:
            del self._refused[namespace, name]
        return refused


def _key(obj: Mapping[str, Any]) -> _Key:
    return obj["kind"], obj["metadata"]["name"]
