"""Run the phases of a shape with DisaggregatedSets, and with LeaderWorkerSets alone.

In the second case, this client takes the LeaderWorkerSets through the same steps. Each phase returns its
duration in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from lws_api.disaggregatedset import v1 as disaggregatedset
from lws_api.leaderworkerset import v1 as leaderworkerset
from test.bench.crowd import for_each
from test.bench.disaggregated.manifests import a_disaggregated_set, a_role_set, disaggregated_name, new_roles
from test.bench.disaggregated.shape import PairedShape
from test.bench.floor import until_pods
from test.bench.ledger import DISAGGREGATED, SETS, STATEFULSETS, Ledger
from test.bench.manifests import NEW, OLD
from tools.localcluster.api import Api

_PATIENCE = 1800.0
_IMAGES = {False: OLD, True: NEW}


class _Player:
    """One shape in one namespace. check: raises if the controller has ended."""

    def __init__(self, api: Api, shape: PairedShape, namespace: str, check: Callable[[], None]) -> None:
        self._api = api
        self._shape = shape
        self._sets = f"/apis/{leaderworkerset.API_VERSION}/namespaces/{namespace}/{SETS}"
        self._disaggregated = f"/apis/{disaggregatedset.API_VERSION}/namespaces/{namespace}/{DISAGGREGATED}"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._ledger = Ledger(api, namespace, STATEFULSETS, SETS, DISAGGREGATED)
        self._ledger.check = check

    def close(self) -> None:
        self._ledger.close()

    def _until_gone(self) -> None:
        ledger = self._ledger

        def missing() -> str:
            remaining = len(ledger.sets) + len(ledger.statefulsets) + len(ledger.disaggregated)
            return f"{remaining} sets and StatefulSets are left" if remaining else ""

        ledger.wait(missing, _PATIENCE)
        until_pods(self._api, self._pods)

    def _until_ready(self, sets: int, image: str | None = None) -> None:
        """Wait until `sets` LeaderWorkerSets have all groups ready. image: of all of them, None for any."""
        ledger = self._ledger

        def missing() -> str:
            if len(ledger.sets) != sets:
                return f"{len(ledger.sets)} of {sets} sets"
            moving = [name for name, lws in ledger.sets.items() if lws.replicas and not lws.is_done]
            if moving:
                return f"{len(moving)} sets do not say that they are done: {moving[:3]}"
            expected = {name: pods for name in ledger.sets for name, pods in self._statefulsets(name)}
            if ledger.statefulsets.keys() != expected.keys():
                return f"{len(ledger.statefulsets)} of {len(expected)} StatefulSets"
            unready = [name for name, pods in expected.items() if not self._is_ready(name, pods, image)]
            return f"{len(unready)} StatefulSets are not as wanted: {unready[:3]}" if unready else ""

        ledger.wait(missing, _PATIENCE)

    def _statefulsets(self, name: str) -> Iterable[tuple[str, int]]:
        replicas = self._ledger.sets[name].replicas
        yield name, replicas
        yield from ((f"{name}-{index}", self._shape.size - 1) for index in range(replicas))

    def _is_ready(self, name: str, pods: int, image: str | None) -> bool:
        statefulset = self._ledger.statefulsets[name]
        return (
            statefulset.is_ready
            and statefulset.replicas == pods
            and (image is None or statefulset.image == image)
        )


class Paired(_Player):
    """The phases with DisaggregatedSets."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._generations: dict[str, int] = {}

    @property
    def phases(self) -> dict[str, Callable[[], float]]:
        """Return the function of each phase, in order."""
        return {"create": self._create, "rollout": self._roll, "delete": self._delete}

    def roll_one(self, image: str) -> float:
        """Roll out only the first set, while all others are settled."""
        began = time.monotonic()
        self._change(disaggregated_name(0), image)
        self._until_available()
        return time.monotonic() - began

    def _create(self) -> float:
        began = time.monotonic()
        dsets = [a_disaggregated_set(self._shape, index, OLD) for index in range(self._shape.sets)]
        for_each(dsets, lambda dset: self._api.create(self._disaggregated, dset))
        self._until_available(OLD)
        return time.monotonic() - began

    def _roll(self) -> float:
        began = time.monotonic()
        for_each(self._names(), lambda name: self._change(name, NEW))
        self._until_available(NEW)
        return time.monotonic() - began

    def _delete(self) -> float:
        began = time.monotonic()
        for_each(self._names(), lambda name: self._api.delete(f"{self._disaggregated}/{name}"))
        self._until_gone()
        return time.monotonic() - began

    def _change(self, name: str, image: str) -> None:
        changed = self._api.merge(f"{self._disaggregated}/{name}", new_roles(self._shape, image))
        self._generations[name] = changed["metadata"]["generation"]

    def _until_available(self, image: str | None = None) -> None:
        ledger = self._ledger

        def missing() -> str:
            generations = {name: self._generations.get(name, 1) for name in self._names()}
            unready = [
                name
                for name, generation in generations.items()
                if ledger.disaggregated.get(name, 0) < generation
            ]
            return f"{len(unready)} sets are not available: {unready[:3]}" if unready else ""

        ledger.wait(missing, _PATIENCE)
        self._until_ready(self._shape.sets * self._shape.role_count, image)

    def _names(self) -> list[str]:
        return [disaggregated_name(index) for index in range(self._shape.sets)]


class Alone(_Player):
    """The phases with the same LeaderWorkerSets. seconds_of_steps: for each row of the last rollout."""

    seconds_of_steps: tuple[float, ...] = ()

    @property
    def phases(self) -> dict[str, Callable[[], float]]:
        """Return the function of each phase, in order."""
        return {"create": self._create, "rollout": self._roll, "delete": self._delete}

    def _create(self) -> float:
        began = time.monotonic()
        self._make(is_new=False, replicas=self._shape.groups)
        self._until_ready(len(self._ledger.sets), OLD)
        return time.monotonic() - began

    def _roll(self) -> float:
        """Roll out all sets one row at a time.

        A row begins when all sets have completed the one before.
        """
        began = time.monotonic()
        self._make(is_new=True, replicas=0)
        counts = [self._shape.counts(row) for row in self._shape.rows]
        seconds = []
        for before, after in pairwise(counts):
            step_began = time.monotonic()
            self._scale({key: count for key, count in after.items() if count != before[key]})
            self._until_ready(2 * self._shape.sets * self._shape.role_count)
            seconds.append(time.monotonic() - step_began)
        self.seconds_of_steps = tuple(seconds)
        self._remove(is_new=False)
        self._until_ready(self._shape.sets * self._shape.role_count, NEW)
        return time.monotonic() - began

    def _delete(self) -> float:
        began = time.monotonic()
        self._remove(is_new=True)
        self._until_gone()
        return time.monotonic() - began

    def _make(self, is_new: bool, replicas: int) -> None:
        image = _IMAGES[is_new]
        sets = [a_role_set(self._shape, name, replicas, image) for name in self._names(is_new)]
        for_each(sets, lambda lws: self._api.create(self._sets, lws))
        names = [lws["metadata"]["name"] for lws in sets]
        self._ledger.wait(lambda: "" if self._ledger.sets.keys() >= {*names} else "sets", _PATIENCE)

    def _scale(self, counts: Mapping[tuple[bool, str], int]) -> None:
        sets = range(self._shape.sets)
        replicas = {self._name(index, *key): count for key, count in counts.items() for index in sets}
        for_each(
            replicas.items(),
            lambda item: self._api.merge(f"{self._sets}/{item[0]}", {"spec": {"replicas": item[1]}}),
        )

        def missing() -> str:
            stored = self._ledger.sets
            return "" if all(stored[name].replicas == count for name, count in replicas.items()) else "counts"

        self._ledger.wait(missing, _PATIENCE)

    def _remove(self, is_new: bool) -> None:
        for_each(self._names(is_new), lambda name: self._api.delete(f"{self._sets}/{name}"))

    def _names(self, is_new: bool) -> list[str]:
        return [
            self._name(index, is_new, role) for index in range(self._shape.sets) for role in self._shape.roles
        ]

    def _name(self, index: int, is_new: bool, role: str) -> str:
        """Return a name as long as the name of a DisaggregatedSet's child."""
        return f"ds-{index}-0-{'bbbbbbbb' if is_new else 'aaaaaaaa'}-{role}"
