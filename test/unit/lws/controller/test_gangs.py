"""lws.controller.gangs: PodGroups are made from the moment on at which somebody serves them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from lws.cluster.connection import Cluster
from lws.cluster.errors import Unreachable
from lws.cluster.memory import WriteMemory
from lws.cluster.observe import Observer
from lws.cluster.store import Store
from lws.controller.gangs import Gangs
from lws.group.gang import PROVIDERS


class FakeCluster:
    """An API server that serves PodGroups from the third question on, and then never says anything more."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def exists(self, path: str) -> bool:
        self.asked.append(path)
        if len(self.asked) == 1:
            raise Unreachable("nobody is there")
        return len(self.asked) > 2

    async def list_page(self, resource: Any, query: Any) -> dict[str, Any]:
        self.asked.append(f"list {resource.plural}")
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    def watch(self, *_: Any) -> FakeCluster:
        return self

    async def __aenter__(self) -> Any:
        await asyncio.Event().wait()

    async def __aexit__(self, *_: Any) -> None:
        raise AssertionError("never reached")


async def test_gangs_are_served_once_their_api_is_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster, woken = FakeCluster(), asyncio.Event()
    store = Store(lambda before, after: None)
    observer = Observer(cast(Cluster, cluster), store, WriteMemory(store))
    gangs = Gangs("volcano", cast(Cluster, cluster), store, observer, woken.set, retry_seconds=0)
    assert observer.gang is None
    running = asyncio.ensure_future(gangs.run())
    await woken.wait()
    assert observer.gang is PROVIDERS["volcano"]
    assert cluster.asked == ["/apis/scheduling.volcano.sh/v1beta1"] * 3 + ["list podgroups"]
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "gang scheduling: nobody is there"
    assert said[1].startswith(
        "gang scheduling: the API server does not serve scheduling.volcano.sh/v1beta1: install"
    )
    assert said[2] == "gang scheduling: volcano gets a PodGroup for each group"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
