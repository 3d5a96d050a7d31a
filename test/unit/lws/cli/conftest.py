"""A session with an API server that returns the answers of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from kubernetes.aio.client.configuration import Configuration

from lws.cli.session import Session
from lws.runtime.client.user_cluster import UserCluster
from test.unit.fake_api import FakeApi, serving


@dataclass(frozen=True)
class Talk:
    """The server, and the session that is connected to it."""

    api: FakeApi
    session: Session


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    async with serving() as api:
        cluster = UserCluster(Configuration(host=api.url), "test")
        yield Talk(api, Session(cluster, "team"))
        await cluster.close()
