"""Measure the CPU time of a pass over a large set, divided into reading and deciding.

The set is in memory as the streams would report it: settled, in the middle of a rollout, or while it is
created. Some of its groups change between two passes. The figures are those of the quickest tenth of many
passes, because other work on the machine slows down the rest.

    python -m test.bench.pass_cost 500x4 [--profile]
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, cast

from lws.leaderworkerset.children.services import build_service
from lws.leaderworkerset.observe.observer import Observer
from lws.leaderworkerset.observe.recent_writes import SetWrites
from lws.leaderworkerset.plan import plan
from lws.leaderworkerset.revisions.history import record
from lws.leaderworkerset.spec import SetSpec
from lws.leaderworkerset.tables import TABLES
from lws.leaderworkerset.templates.objects import RollingUpdate, build_leader_statefulset
from lws.runtime.actions import Plan
from lws.runtime.client.connection import Cluster
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import NAME_LABEL, REVISION_LABEL
from test.unit import api_server
from test.unit.builders import (
    NOW,
    build_revision,
    make_leader_pod,
    make_set,
    make_worker_pod,
    make_worker_statefulset,
    statefulset_revision,
)

PHASES = ("at rest", "rollout", "create")

_PASSES = 200
_CHANGED = 10
_UID = "uid-of-leaders-demo"


class LargeSet:
    """A set of `groups` groups in one of the phases, and a manager's view of it."""

    def __init__(self, groups: int, size: int, phase: str) -> None:
        self._groups, self._size, self._phase = groups, size, phase
        self._version, self._turn = 1000, 0
        images = ("app:1", "app:2")
        self._before, self._lws = (
            make_set(replicas=groups, size=size, image=image, max_unavailable=_CHANGED) for image in images
        )
        self._keys = record(self._before).key, record(self._lws).key
        self.planned = Plan()
        """The plan of the last pass."""
        self._store = Store(lambda before, after: None, TABLES)
        memory = SetWrites(self._store)
        self._observer = Observer(cast(Cluster, None), self._store, memory)
        for obj in self._objects():
            self._store.put(obj)
        self._settle()

    def pass_(self) -> tuple[float, float]:
        """Return the CPU time of reading and of deciding, in milliseconds."""
        self._change()
        began = time.thread_time_ns()
        snapshot = _at_once(self._observer.observe_set("default", "demo", NOW))
        read = time.thread_time_ns()
        self.planned = plan(snapshot)
        decided = time.thread_time_ns()
        return (read - began) / 1e6, (decided - read) / 1e6

    def _objects(self) -> Iterator[dict[str, Any]]:
        yield self._lws
        for number, lws in enumerate((self._before, self._lws), 1):
            yield api_server.stored(dict(build_revision(lws, record(lws), number)))
        yield api_server.stored(build_service("demo", "demo", {NAME_LABEL: "demo"}, self._lws))
        yield self._leaders()
        for key in self._keys:
            yield self._revision_of_leaders(key)
        for index in range(self._groups):
            yield from self._group(index, self._key(index), self._is_ready(index))

    def _leaders(self) -> dict[str, Any]:
        partition = self._groups // 2 if self._phase == "rollout" else 0
        update = RollingUpdate(partition, self._groups, 1)
        statefulset = api_server.applied(
            build_leader_statefulset(SetSpec.of(self._lws), self._keys[1], update), _UID
        )
        old, new = (statefulset_revision("demo", key) for key in self._keys)
        statefulset["status"] = {
            "observedGeneration": statefulset["metadata"]["generation"],
            "replicas": self._groups,
            "availableReplicas": self._groups,
            "currentRevision": old if self._phase == "rollout" else new,
            "updateRevision": new,
        }
        return statefulset

    def _revision_of_leaders(self, key: str) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo", "uid": _UID}
        name = statefulset_revision("demo", key)
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-of-{name}",
                "resourceVersion": "1",
                "labels": {NAME_LABEL: "demo", REVISION_LABEL: key},
                "ownerReferences": [{**owner, "controller": True}],
            },
            "revision": 1,
        }

    def _key(self, index: int) -> str:
        return self._keys[self._phase != "rollout" or index >= self._groups // 2]

    def _is_ready(self, index: int) -> bool:
        return self._phase != "create" or index < self._groups // 2

    def _group(self, index: int, key: str, is_ready: bool) -> Iterator[dict[str, Any]]:
        leader = make_leader_pod(self._lws, index, key=key, ready=is_ready)
        leader["metadata"]["uid"] += f"-{key}"
        workers = make_worker_statefulset(leader, ready=is_ready)
        pods = [make_worker_pod(workers, worker, ready=is_ready) for worker in range(1, self._size)]
        for obj in (leader, workers, *pods):
            self._version += 1
            obj["metadata"]["resourceVersion"] = str(self._version)
            yield obj

    def _settle(self) -> None:
        """Write a current status."""
        snapshot = _at_once(self._observer.observe_set("default", "demo", NOW))
        planned: Plan = plan(snapshot)
        for status in planned.statuses:
            self._version += 1
            written = {**(self._lws.get("status") or {}), **status.patch}
            metadata = {**self._lws["metadata"], "resourceVersion": str(self._version)}
            self._lws = {**self._lws, "metadata": metadata, "status": written}
            self._store.put(self._lws)

    def _change(self) -> None:
        """Make groups around the middle unready, or ready again."""
        self._turn += 1
        first = self._groups // 2
        for index in range(first, first + (_CHANGED if self._phase != "at rest" else 1)):
            for obj in self._group(index, self._key(index), self._turn % 2 == 0):
                self._store.put(obj)


def measure(groups: int, size: int, phase: str) -> tuple[float, float]:
    """Return the milliseconds of one pass for reading and deciding."""
    subject = LargeSet(groups, size, phase)
    subject.pass_()
    passes = zip(*(subject.pass_() for _ in range(_PASSES)), strict=True)
    read, decided = (statistics.quantiles(seconds, n=10)[0] for seconds in passes)
    return read, decided


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it asks the API server")


def _profiled(act: Callable[[], object]) -> None:
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(_PASSES):
        act()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    shape = next((argument for argument in arguments if not argument.startswith("-")), "500x4")
    groups, size = map(int, shape.split("x"))
    for phase in PHASES:
        read, decided = measure(groups, size, phase)
        print(f"{phase:8}  reading {read:6.2f} ms  deciding {decided:6.2f} ms  both {read + decided:6.2f} ms")
        if "--profile" in arguments:
            _profiled(LargeSet(groups, size, phase).pass_)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
