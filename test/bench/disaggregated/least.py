"""Measure the minimum cost of passes over DisaggregatedSets: a client that writes but decides nothing.

The client runs on a cluster without webhooks and without a manager. It sends the requests that a set needs
through the product's client, and puts answers and streams into the product's store. A controller that uses
both cannot need fewer requests or less CPU time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lws.disaggregatedset.children.role_sets import build_child
from lws.disaggregatedset.children.services import build_service
from lws.disaggregatedset.names import Identity
from lws.disaggregatedset.revisions.record import record
from lws.disaggregatedset.spec import parse
from lws.disaggregatedset.tables import DISAGGREGATED_SET
from lws.registrations import REGISTRATIONS
from lws.runtime.actions import Reference
from lws.runtime.client.connection import Cluster
from lws.runtime.client.kubeconfig import load_configuration
from lws.runtime.informer import Informer, Source
from lws.runtime.store import Store
from lws_api.disaggregatedset.v1 import INITIAL_REPLICAS_ANNOTATION, NAME_LABEL
from test.bench.disaggregated.manifests import a_disaggregated_set
from test.bench.disaggregated.shape import PairedShape
from test.bench.manifests import NEW, OLD
from test.unit.disaggregated import build_revision

_OLD_KEY, _NEW_KEY = "aaaaaaaa", "bbbbbbbb"
_STATUSES = {"create": 2, "rollout": 3}
_AT_ONCE = 10
_PATIENCE, _PAUSE = 120.0, 0.05

Object = dict[str, Any]
Writes = Iterator[Coroutine[Any, Any, Object]]


def measure_least(kubeconfig: str, shape: PairedShape, namespace: str) -> dict[str, dict[str, float]]:
    """Return requests and CPU seconds of all sets for each phase. The namespace must exist and be empty."""
    return asyncio.run(_measure(kubeconfig, shape, namespace))


async def _measure(kubeconfig: str, shape: PairedShape, namespace: str) -> dict[str, dict[str, float]]:
    cluster = Cluster(await load_configuration(kubeconfig), "bench")
    # The product never creates DisaggregatedSets itself.
    cluster.learn(DISAGGREGATED_SET.resource)
    seen, source = Seen(namespace), Source(cluster)
    kinds = {DISAGGREGATED_SET.resource: "", **dict.fromkeys(DISAGGREGATED_SET.children, NAME_LABEL)}
    streams = [Informer(source, kind, label, seen) for kind, label in kinds.items()]
    running = [asyncio.create_task(stream.run()) for stream in streams]
    try:
        await asyncio.gather(*(stream.listed.wait() for stream in streams))
        sets = [a_disaggregated_set(shape, index, OLD) for index in range(shape.sets)]
        for dset in sets:
            dset["metadata"]["namespace"] = namespace
        owners = [await cluster.create(dset) for dset in sets]
        await seen.until(len(owners))
        client = Client(cluster, seen, shape)
        return {
            "create": await client.play([client.create(owner) for owner in owners]),
            "rollout": await client.play([client.roll(owner) for owner in owners]),
        }
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await cluster.close()


class Seen:
    """A sink of streams that counts the events of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.store = Store(
            lambda before, after: None,
            [table for registration in REGISTRATIONS for table in registration.reads],
        )
        self._events = 0

    def put(self, obj: Mapping[str, Any]) -> None:
        self._events += obj["metadata"]["namespace"] == self._namespace
        self.store.put(obj)

    def drop(self, obj: Mapping[str, Any]) -> None:
        self._events += obj["metadata"]["namespace"] == self._namespace
        self.store.drop(obj)

    def retain(self, *about: Any) -> None:
        self.store.retain(*about)

    def version_of(self, obj: Mapping[str, Any]) -> int:
        return self.store.version_of(obj)

    async def until(self, events: int) -> None:
        """Wait until the streams have brought `events` events, then reset the count."""
        deadline = time.monotonic() + _PATIENCE
        while self._events < events:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the streams have brought {self._events} of {events} changes")
            await asyncio.sleep(_PAUSE)
        self._events = 0


@dataclass
class Client:
    """A client that writes but decides nothing.

    requests: the number sent in this phase. reported: the number of those that a stream reports.
    """

    cluster: Cluster
    seen: Seen
    shape: PairedShape
    requests: int = 0
    reported: int = 0

    async def play(self, sets: Iterable[Writes]) -> dict[str, float]:
        """Send the writes of each set in order, several sets at a time."""
        self.requests = self.reported = 0
        slots, began = asyncio.Semaphore(_AT_ONCE), time.process_time()
        await asyncio.gather(*(self._carry_out(dset, slots) for dset in sets))
        await self.seen.until(self.reported)
        return {"requests": self.requests, "cpu": time.process_time() - began}

    async def _carry_out(self, writes: Writes, slots: asyncio.Semaphore) -> None:
        async with slots:
            for write in writes:
                answer = await write
                self.requests += 1
                self.reported += answer["kind"] != "Event"
                # The answer to a deletion that takes effect at once is a Status.
                if answer["kind"] not in ("Event", "Status"):
                    self.seen.store.put(answer)

    def create(self, owner: Object) -> Writes:
        """Yield the writes that a new set needs."""
        yield from self._writes_of_revision(owner, OLD, _OLD_KEY, 1, self.shape.groups)
        yield from self._statuses(owner, "create")

    def roll(self, owner: Object) -> Writes:
        """Yield the writes of a rollout.

        These are a record, baselines, new children, counts, an Event for each step, and the deletion of old
        children.
        """
        for role in self.shape.roles:
            patch = {"metadata": {"annotations": {INITIAL_REPLICAS_ANNOTATION: str(self.shape.groups)}}}
            yield self.cluster.merge(_child(owner, _OLD_KEY, role), patch)
        yield from self._writes_of_revision(owner, NEW, _NEW_KEY, 2, 0)
        rows = [self.shape.counts(row) for row in self.shape.rows]
        for before, after in pairwise(rows):
            for (is_new, role), count in after.items():
                if count != before[is_new, role]:
                    key = _NEW_KEY if is_new else _OLD_KEY
                    yield self.cluster.merge(_child(owner, key, role), {"spec": {"replicas": count}})
            yield self.cluster.create(_event(owner))
        for role in self.shape.roles:
            child = _child(owner, _OLD_KEY, role)
            yield self.cluster.delete(child, "Background")
            service = Reference("v1", "Service", child.namespace, f"{child.name}-prv")
            yield self.cluster.delete(service, "Background")
        yield from self._statuses(owner, "rollout")

    def _writes_of_revision(self, owner: Object, image: str, key: str, number: int, replicas: int) -> Writes:
        dset = {**owner, "spec": a_disaggregated_set(self.shape, 0, image)["spec"]}
        yield self.cluster.create(build_revision(owner, record(dset), key, number))
        for role in parse(dset).roles:
            yield self.cluster.create(build_child(owner, role, None, (0, key), replicas))
            yield self.cluster.create(build_service(owner, Identity(0, key, role.name)))

    def _statuses(self, owner: Object, phase: str) -> Writes:
        for number in range(_STATUSES[phase]):
            roles = [
                {"name": role, "replicas": number, "readyReplicas": number, "updatedReplicas": number}
                for role in self.shape.roles
            ]
            status = {"roleStatuses": roles, "updateRevision": f"{phase}-{number}"}
            yield self.cluster.merge(Reference.to(owner), {"status": status}, subresource="status")


def _child(owner: Object, key: str, role: str) -> Reference:
    metadata = owner["metadata"]
    name = f"{metadata['name']}-0-{key}-{role}"
    return Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", metadata["namespace"], name)


def _event(owner: Object) -> Object:
    about = Reference.to(owner)
    regarding = {"apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name}.{time.time_ns():x}", "namespace": about.namespace},
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        "reportingController": "bench",
        "reportingInstance": "bench",
        "type": "Normal",
        "reason": "ScalingUp",
        "action": "Update",
        "note": "Scaling up one role from 1 to 2 replicas, another role from 1 to 2 replicas",
        "regarding": {**regarding, "name": about.name, "uid": about.uid},
    }
