"""What happens to sets, and when is each phase over?

In: a shape. Out: phases by name, each of which returns its seconds. Objects decide when a phase is over, and
the status of every set has to agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lws_api.leaderworkerset.v1 import API_VERSION
from test.bench.crowd import for_each
from test.bench.floor import until_pods
from test.bench.ledger import SETS, STATEFULSETS, Ledger
from test.bench.manifests import NEW, OLD, a_set, group_name, new_image, set_name
from test.bench.shapes import Shape
from tools.localcluster.api import Api

_PATIENCE = 1800.0


class Phases:
    """One shape in one namespace, in which a controller acts. check: raises where that one has ended."""

    def __init__(self, api: Api, shape: Shape, namespace: str, check: Callable[[], None]) -> None:
        self._api = api
        self._shape = shape
        self._sets = f"/apis/{API_VERSION}/namespaces/{namespace}/leaderworkersets"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._ledger = Ledger(api, namespace, STATEFULSETS, SETS)
        self._ledger.check = check
        self._image = OLD
        self._groups = shape.groups

    @property
    def all(self) -> dict[str, Callable[[], float]]:
        """Name → what carries the phase out, in order."""
        found = {"create": self._create, "rollout": self._roll, "scale": self._scale, "loss": self._lose}
        if self._shape.half == self._shape.groups:
            del found["scale"]
        return {**found, "delete": self._delete}

    @property
    def groups(self) -> int:
        """Groups that there are now, over all sets."""
        return self._shape.sets * self._groups

    @property
    def lost(self) -> int:
        """Groups of the phase `loss`."""
        return len(self._tenth())

    def close(self) -> None:
        self._ledger.close()

    def _create(self) -> float:
        began = time.monotonic()
        made = [a_set(self._shape, index) for index in range(self._shape.sets)]
        for_each(made, lambda each: self._api.create(self._sets, each))
        return self._until_done() - began

    def _roll(self) -> float:
        began = time.monotonic()
        self._image = NEW
        self._patch_all(new_image())
        return self._until_done() - began

    def _scale(self) -> float:
        began = time.monotonic()
        self._groups = self._shape.half
        self._patch_all({"spec": {"replicas": self._groups}})
        self._until_done()
        until_pods(self._api, self._pods, self._shape.sets * self._groups * self._shape.size)
        return time.monotonic() - began

    def _lose(self) -> float:
        began = time.monotonic()
        before = {name: self._ledger.statefulsets[name].uid for name in self._tenth()}
        for_each(before, lambda name: self._api.delete(f"{self._pods}/{name}"))
        return self._until_done(before) - began

    def _delete(self) -> float:
        began = time.monotonic()
        for_each(self._names(), lambda name: self._api.delete(f"{self._sets}/{name}"))

        def missing() -> str:
            left = len(self._ledger.sets) + len(self._ledger.statefulsets)
            return f"{left} sets and StatefulSets are left" if left else ""

        self._ledger.wait(missing, _PATIENCE)
        until_pods(self._api, self._pods)
        return time.monotonic() - began

    def _patch_all(self, patch: dict[str, object]) -> None:
        for_each(self._names(), lambda name: self._api.merge(f"{self._sets}/{name}", patch))

    def _until_done(self, former: dict[str, str] | None = None) -> float:
        """former: name → UID of StatefulSets of workers that have to be others."""
        former = former or {}
        wanted = {
            group_name(index, group): self._shape.size - 1
            for index in range(self._shape.sets)
            for group in range(self._groups)
        }
        wanted |= dict.fromkeys(self._names(), self._groups)

        def missing() -> str:
            known = self._ledger.statefulsets
            if len(known) != len(wanted):
                return f"{len(known)} of {len(wanted)} StatefulSets"
            unready = [name for name, pods in wanted.items() if not self._is_ready(name, pods, former)]
            if unready:
                return f"{len(unready)} StatefulSets are not as wanted: {unready[:3]}"
            sets = [name for name in self._names() if not self._is_set_done(name)]
            return f"{len(sets)} sets do not say that they are done: {sets[:3]}" if sets else ""

        return self._ledger.wait(missing, _PATIENCE)

    def _is_ready(self, name: str, pods: int, former: dict[str, str]) -> bool:
        found = self._ledger.statefulsets.get(name)
        return (
            found is not None
            and found.is_ready
            and found.image == self._image
            and found.replicas == pods == found.updated
            and found.uid != former.get(name)
        )

    def _is_set_done(self, name: str) -> bool:
        found = self._ledger.sets.get(name)
        return found is not None and found.replicas == self._groups and found.is_done

    def _names(self) -> list[str]:
        return [set_name(index) for index in range(self._shape.sets)]

    def _tenth(self) -> list[str]:
        every = [(index, group) for index in range(self._shape.sets) for group in range(self._groups)]
        return [group_name(*each) for each in every[::10]]
