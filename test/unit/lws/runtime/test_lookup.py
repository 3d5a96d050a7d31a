"""lws.runtime.lookup: our own objects come from the store; objects of other owners, from the API server."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lws.leaderworkerset.tables import TABLES
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import NotFound
from lws.runtime.lookup import Lookup
from lws.runtime.store import Store
from lws_api.leaderworkerset.v1 import NAME_LABEL
from test.unit.builders import make_leader_statefulset, make_set

LWS = make_set()
UID = LWS["metadata"]["uid"]
OURS = make_leader_statefulset(LWS)
FOREIGN = {**OURS, "metadata": {**OURS["metadata"], "ownerReferences": [], "resourceVersion": "99"}}


class FakeCluster:
    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
        self.reads: list[tuple[str, str]] = []

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        self.reads.append((kind, name))
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", f"{kind} {name} not found")
        return self.objects[kind, name]


@pytest.mark.parametrize(
    ("stored", "live", "look", "expected", "reads"),
    [
        pytest.param(OURS, None, True, OURS, 0, id="ours"),
        pytest.param(FOREIGN, FOREIGN, False, FOREIGN, 1, id="a foreign object is read again"),
        pytest.param(FOREIGN, None, False, None, 1, id="a foreign object that is deleted"),
        pytest.param(None, FOREIGN, True, FOREIGN, 1, id="a foreign object outside the streams"),
        pytest.param(None, FOREIGN, False, None, 0, id="not requested"),
    ],
)
async def test_lookup_by_name(stored: Any, live: Any, look: bool, expected: Any, reads: int) -> None:
    store, cluster = Store(lambda before, after: None, TABLES), FakeCluster(*filter(None, [live]))
    if stored is not None:
        store.put(stored)
    lookup = Lookup(cast(Cluster, cluster), store, NAME_LABEL)
    assert await lookup.named("StatefulSet", "default", "demo", UID, look_when_absent=look) == expected
    assert len(cluster.reads) == reads
    assert store.get("StatefulSet", "default", "demo") == expected


async def test_a_deleted_object_is_none() -> None:
    lookup = Lookup(cast(Cluster, FakeCluster()), Store(lambda before, after: None, TABLES), NAME_LABEL)
    assert await lookup.reread(OURS) is None
    assert await lookup.node_of({"spec": {"nodeName": "node-1"}}) is None
    assert await lookup.node_of({"spec": {}}) is None
