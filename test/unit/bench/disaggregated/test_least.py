"""test.bench.disaggregated.least: the client sends exactly the requests that a set needs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

from lws.runtime.actions import Reference
from lws.runtime.client.connection import Cluster
from test.bench.disaggregated.least import Client, Seen
from test.bench.disaggregated.manifests import a_disaggregated_set
from test.bench.disaggregated.shape import parse
from test.bench.manifests import OLD


class _Cluster:
    """A cluster that counts requests and reports each write on its streams."""

    def __init__(self, seen: Seen) -> None:
        self._seen, self.requests, self._version = seen, Counter[str](), 0

    async def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        return self._record("create", obj)

    async def merge(self, target: Reference, patch: dict[str, Any], subresource: str = "") -> dict[str, Any]:
        api = {"apiVersion": target.api_version, "kind": target.kind}
        metadata = {"name": target.name, "namespace": target.namespace}
        return self._record(f"patch{subresource and '/'}{subresource}", {**api, "metadata": metadata})

    async def delete(self, target: Reference, propagation: str) -> dict[str, Any]:
        await self.merge(target, {})
        self.requests[f"patch {target.kind}"] -= 1
        self.requests[f"delete {target.kind}"] += 1
        return {"kind": "Status", "metadata": {}}

    def _record(self, verb: str, obj: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.requests[f"{verb} {obj['kind']}"] += 1
        metadata = {**obj["metadata"], "uid": obj["metadata"]["name"], "resourceVersion": str(self._version)}
        answer = {**obj, "metadata": metadata}
        if obj["kind"] != "Event":
            self._seen.put(answer)
        return answer


def test_the_client_sends_the_writes_that_a_set_may_cause() -> None:
    shape, seen = parse("ds1x2x2x2"), Seen("least")
    cluster = _Cluster(seen)
    client = Client(cast(Cluster, cluster), seen, shape)
    owner = a_disaggregated_set(shape, 0, OLD)
    owner["metadata"] |= {"namespace": "least", "uid": "of-the-set"}
    created = asyncio.run(client.play([client.create(owner)]))
    creations = {"create ControllerRevision": 1, "create LeaderWorkerSet": 2, "create Service": 2}
    assert +cluster.requests == {**creations, "patch/status DisaggregatedSet": 2}
    assert created["requests"] == 7
    cluster.requests.clear()
    rolled = asyncio.run(client.play([client.roll(owner)]))
    assert +cluster.requests == {
        **creations,
        "patch LeaderWorkerSet": 10,
        "patch/status DisaggregatedSet": 3,
        "delete LeaderWorkerSet": 2,
        "delete Service": 2,
        "create Event": 4,
    }
    assert rolled["requests"] == 26
