"""Run the phases of a shape: create sets, roll them out, delete them. Each phase returns its seconds.

A phase is over when the objects show it, and the status of every set has to agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from lws_api.leaderworkerset.v1 import API_VERSION
from test.bench.crowd import for_each
from test.bench.floor import until_pods
from test.bench.ledger import SETS, STATEFULSETS, Ledger
from test.bench.manifests import NEW, OLD, a_set, group_name, new_image, set_name
from test.bench.shapes import Shape
from tools.localcluster.api import Api

_PATIENCE = 3600.0


class Phases:
    """The phases of one shape with a controller.

    check: raises if the controller has ended. namespaces: the sets are distributed over them in turn.
    lost_of: one of this many groups is lost.
    """

    def __init__(
        self,
        api: Api,
        shape: Shape,
        namespaces: Sequence[str],
        check: Callable[[], None],
        lost_of: int = 10,
    ) -> None:
        self._api = api
        self._shape = shape
        self._namespaces = namespaces
        self._lost_of = lost_of
        # With several namespaces, no other namespace may have sets or StatefulSets.
        self._ledger = Ledger(api, namespaces[0] if len(namespaces) == 1 else "", STATEFULSETS, SETS)
        self._ledger.check = check
        self._image = OLD
        self._groups = shape.groups

    @property
    def all(self) -> dict[str, Callable[[], float]]:
        """Return the function of each phase, in order."""
        phases = {"create": self._create, "rollout": self._roll, "scale": self._scale, "loss": self._lose}
        if self._shape.half == self._shape.groups:
            del phases["scale"]
        return {**phases, "delete": self._delete}

    @property
    def groups(self) -> int:
        """Return the current number of groups over all sets."""
        return self._shape.sets * self._groups

    @property
    def lost(self) -> int:
        """Return the number of groups in the phase `loss`."""
        return len(self._some())

    def close(self) -> None:
        self._ledger.close()

    def _create(self) -> float:
        began = time.monotonic()
        for_each(
            range(self._shape.sets),
            lambda index: self._api.create(self._path(SETS, index), a_set(self._shape, index)),
        )
        return self._until_done() - began

    def _roll(self) -> float:
        began = time.monotonic()
        self._image = NEW
        self._patch_all(new_image(self._shape))
        return self._until_done() - began

    def _scale(self) -> float:
        began = time.monotonic()
        self._groups = self._shape.half
        self._patch_all({"spec": {"replicas": self._groups}})
        self._until_done()
        self._until_pods(self._shape.sets * self._groups * self._shape.size)
        return time.monotonic() - began

    def _lose(self) -> float:
        began = time.monotonic()
        lost = self._some()
        before = {name: self._ledger.statefulsets[name].uid for _, name in lost}
        for_each(lost, lambda pod: self._api.delete(f"{self._path('pods', pod[0])}/{pod[1]}"))
        return self._until_done(before) - began

    def _delete(self) -> float:
        began = time.monotonic()
        for_each(range(self._shape.sets), lambda index: self._api.delete(self._set(index)))

        def missing() -> str:
            remaining = len(self._ledger.sets) + len(self._ledger.statefulsets)
            return f"{remaining} sets and StatefulSets are left" if remaining else ""

        self._ledger.wait(missing, _PATIENCE)
        self._until_pods(0)
        return time.monotonic() - began

    def _patch_all(self, patch: dict[str, object]) -> None:
        for_each(range(self._shape.sets), lambda index: self._api.merge(self._set(index), patch))

    def _until_pods(self, most: int) -> None:
        """Wait until at most `most` pods are left, with as many sets in each namespace as in any other."""
        for namespace in self._namespaces:
            until_pods(self._api, f"/api/v1/namespaces/{namespace}/pods", most // len(self._namespaces))

    def _until_done(self, former: dict[str, str] | None = None) -> float:
        """Wait until everything is ready. former: UIDs of worker StatefulSets that must be replaced."""
        former = former or {}
        names = {
            group_name(index, group): self._shape.size - 1
            for index in range(self._shape.sets)
            for group in range(self._groups)
        }
        names |= dict.fromkeys(self._names(), self._groups)

        def missing() -> str:
            statefulsets, expected = self._ledger.statefulsets, names
            if self._shape.is_hash:
                # With Hash groups, leaders have no StatefulSet, and the names of workers are random.
                count = self._shape.sets * self._groups
                expected = dict.fromkeys([*statefulsets][:count], self._shape.size - 1)
                if len(statefulsets) < count:
                    return f"{len(statefulsets)} of {count} StatefulSets"
            if len(statefulsets) != len(expected):
                return f"{len(statefulsets)} of {len(expected)} StatefulSets"
            unready = [name for name, pods in expected.items() if not self._is_ready(name, pods, former)]
            if unready:
                return f"{len(unready)} StatefulSets are not as wanted: {unready[:3]}"
            sets = [name for name in self._names() if not self._is_set_done(name)]
            return f"{len(sets)} sets do not say that they are done: {sets[:3]}" if sets else ""

        return self._ledger.wait(missing, _PATIENCE)

    def _is_ready(self, name: str, pods: int, former: dict[str, str]) -> bool:
        statefulset = self._ledger.statefulsets.get(name)
        return (
            statefulset is not None
            and statefulset.is_ready
            and statefulset.image == self._image
            and statefulset.replicas == pods == statefulset.updated
            and statefulset.uid != former.get(name)
        )

    def _is_set_done(self, name: str) -> bool:
        lws = self._ledger.sets.get(name)
        return lws is not None and lws.replicas == self._groups and lws.is_done

    def _names(self) -> list[str]:
        return [set_name(index) for index in range(self._shape.sets)]

    def _some(self) -> list[tuple[int, str]]:
        """Return the groups to lose, each with the number of its set."""
        every = [(index, group) for index in range(self._shape.sets) for group in range(self._groups)]
        return [(index, group_name(index, group)) for index, group in every[:: self._lost_of]]

    def _set(self, index: int) -> str:
        return f"{self._path(SETS, index)}/{set_name(index)}"

    def _path(self, kind: str, index: int) -> str:
        """Return the path of one set's objects, or of the set itself."""
        root = "/api/v1" if kind == "pods" else f"/apis/{API_VERSION}"
        return f"{root}/namespaces/{self._namespaces[index % len(self._namespaces)]}/{kind}"
