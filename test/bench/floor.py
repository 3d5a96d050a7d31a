"""Measure the control plane alone: the same StatefulSets and pods, created and replaced directly.

None of our controllers or webhooks runs. A phase waits only for pods, not for a condition or the status of a
set. Services can be created too, to show what they cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from test.bench.crowd import for_each
from test.bench.ledger import STATEFULSETS, Ledger
from test.bench.manifests import NEW, OLD, a_service, group_name, leaders, set_name, workers
from test.bench.shapes import Shape
from tools.localcluster.api import Api, ApiError

_PATIENCE = 900.0
_NOT_FOUND = 404


class Floor:
    """The baseline of one shape in one namespace. Each phase begins at the end of the previous one.

    has_services: whether each set gets the headless Service over all its pods. waits_for_pods: whether
    workers are created only after all former ones are gone.
    """

    def __init__(
        self,
        api: Api,
        shape: Shape,
        namespace: str,
        has_services: bool = False,
        waits_for_pods: bool = True,
    ) -> None:
        self._api = api
        self._shape = shape
        self._has_services = has_services
        self._waits_for_pods = waits_for_pods
        self._services = f"/api/v1/namespaces/{namespace}/services"
        self._statefulsets = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._ledger = Ledger(api, namespace, STATEFULSETS)
        self._image = OLD
        self._groups = shape.groups

    @property
    def phases(self) -> dict[str, Callable[[], float]]:
        """Return the function of each phase, which returns its seconds."""
        runs = {"create": self._create, "rollout": self._roll, "scale": self._scale, "loss": self._lose}
        if self._shape.half == self._shape.groups:
            del runs["scale"]
        return {**runs, "delete": self._delete}

    def close(self) -> None:
        self._ledger.close()

    def _create(self) -> float:
        began = time.monotonic()
        if self._has_services:
            services = [a_service(index) for index in range(self._shape.sets)]
            for_each(services, lambda service: self._api.create(self._services, service))
        statefulsets = [leaders(self._shape, index, OLD) for index in range(self._shape.sets)]
        statefulsets += [workers(self._shape, *group, OLD) for group in self._all_groups()]
        for_each(statefulsets, lambda statefulset: self._api.create(self._statefulsets, statefulset))
        return self._until_ready() - began

    def _roll(self) -> float:
        """Replace as many groups of each set at a time as a rollout may, from the top."""
        began = time.monotonic()
        self._image = NEW
        template = leaders(self._shape, 0, NEW)["spec"]["template"]["spec"]
        names = [set_name(index) for index in range(self._shape.sets)]
        patch = {"spec": {"template": {"spec": template}}}
        for_each(names, lambda name: self._api.merge(f"{self._statefulsets}/{name}", patch))
        self._until_ready()
        top = self._groups
        while top:
            bottom = max(0, top - self._shape.wave)
            sets = range(self._shape.sets)
            self._replace([(index, group) for index in sets for group in range(bottom, top)])
            top = bottom
        return time.monotonic() - began

    def _scale(self) -> float:
        began = time.monotonic()
        former, self._groups = self._groups, self._shape.half
        removed = [
            (index, group) for index in range(self._shape.sets) for group in range(self._groups, former)
        ]
        patch = {"spec": {"replicas": self._groups}}
        names = [set_name(index) for index in range(self._shape.sets)]
        for_each(names, lambda name: self._api.merge(f"{self._statefulsets}/{name}", patch))
        for_each(removed, lambda group: self._api.delete(f"{self._statefulsets}/{group_name(*group)}"))
        self._until_ready()
        until_pods(self._api, self._pods, self._shape.sets * self._groups * self._shape.size)
        return time.monotonic() - began

    def _lose(self) -> float:
        began = time.monotonic()
        self._replace([group for number, group in enumerate(self._all_groups()) if number % 10 == 0])
        return time.monotonic() - began

    def _delete(self) -> float:
        began = time.monotonic()
        for_each(
            list(self._ledger.statefulsets), lambda name: self._api.delete(f"{self._statefulsets}/{name}")
        )
        self._ledger.wait(lambda: "StatefulSets" if self._ledger.statefulsets else "", _PATIENCE)
        until_pods(self._api, self._pods)
        return time.monotonic() - began

    def _replace(self, groups: list[tuple[int, int]]) -> None:
        """Delete workers, then leaders, then create new workers, as a foreground deletion does."""
        before = {group_name(*group): self._ledger.statefulsets[group_name(*group)].uid for group in groups}
        options = {"propagationPolicy": "Foreground" if self._waits_for_pods else "Background"}
        for_each(before, lambda name: self._api.delete(f"{self._statefulsets}/{name}", options))
        former = {name: self._leader(name)["uid"] for name in before}
        for_each(before, self._lose_leader)
        self._ledger.wait(
            lambda: next((name for name in before if name in self._ledger.statefulsets), ""), _PATIENCE
        )
        for_each(
            groups,
            lambda group: self._api.create(self._statefulsets, workers(self._shape, *group, self._image)),
        )
        self._until_ready()
        for_each(former, lambda name: self._until_replaced(name, former[name]))

    def _leader(self, name: str) -> dict[str, str]:
        """Return the UID of a leader pod and whether it is Ready; both are empty if it does not exist."""
        try:
            pod = self._api.get(f"{self._pods}/{name}")
        except ApiError as refusal:
            if refusal.status != _NOT_FOUND:
                raise
            return {"uid": "", "ready": ""}
        conditions = {
            condition["type"]: condition["status"] for condition in pod["status"].get("conditions") or ()
        }
        return {"uid": pod["metadata"]["uid"], "ready": conditions.get("Ready", "")}

    def _until_replaced(self, name: str, former: str) -> None:
        """Wait for the pod itself: the status of a StatefulSet may be older than the loss of its pod."""
        deadline = time.monotonic() + _PATIENCE
        while (pod := self._leader(name))["ready"] != "True" or pod["uid"] == former:
            if time.monotonic() > deadline:
                raise TimeoutError(f"leader pod {name} is not replaced: {pod}")
            time.sleep(0.02)

    def _lose_leader(self, name: str) -> None:
        try:
            self._api.delete(f"{self._pods}/{name}")
        except ApiError as refusal:
            if refusal.status != _NOT_FOUND:
                raise

    def _until_ready(self) -> float:
        replicas = {group_name(*group): self._shape.size - 1 for group in self._all_groups()}
        replicas |= {set_name(index): self._groups for index in range(self._shape.sets)}

        def missing() -> str:
            statefulsets = self._ledger.statefulsets
            if len(statefulsets) != len(replicas):
                return f"{len(statefulsets)} of {len(replicas)} StatefulSets"
            unready = [
                name
                for name, statefulset in statefulsets.items()
                if not statefulset.is_ready or statefulset.replicas != replicas.get(name)
            ]
            return f"{len(unready)} StatefulSets are not ready: {unready[:3]}" if unready else ""

        return self._ledger.wait(missing, _PATIENCE)

    def _all_groups(self) -> Iterable[tuple[int, int]]:
        return [(index, group) for index in range(self._shape.sets) for group in range(self._groups)]


def until_pods(api: Api, path: str, most: int = 0) -> None:
    """Wait until no more than `most` pods are left. Raise TimeoutError."""
    deadline = time.monotonic() + _PATIENCE
    while (remaining := _count(api.get(f"{path}?limit=1"))) > most:
        if time.monotonic() > deadline:
            raise TimeoutError(f"pods do not go, {remaining} are left: {path}")
        time.sleep(0.1)


def _count(page: dict[str, Any]) -> int:
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))
