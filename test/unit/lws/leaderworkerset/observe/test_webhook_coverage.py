"""Tests of lws.leaderworkerset.observe.webhook_coverage: the namespaces whose pods the webhook prepares."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from lws.leaderworkerset.observe.webhook_coverage import WebhookCoverage
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import Forbidden, NotFound, Throttled, Unreachable
from test.unit.fake_time import in_fake_time

SELECTOR = {"matchLabels": {"lws": "yes"}}


class FakeCluster:
    """An API server with one webhook configuration. Some namespaces carry the label `lws=yes`."""

    def __init__(self, selector: dict[str, Any] | None = None, *labelled: str) -> None:
        self.selector = selector
        self.labelled = set(labelled)
        self.error: Exception | None = None
        self.list_error: Exception | None = None
        self.lists = 0
        self.seconds_to_answer = 0.0
        self.other = ""

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        assert (kind, name) == ("MutatingWebhookConfiguration", "lws-mutating-webhook-configuration")
        if self.error is not None:
            raise self.error
        other_webhook = {"name": "mleaderworkerset.kb.io"}
        return {"webhooks": [other_webhook, {"name": "mpod.kb.io", "namespaceSelector": self.selector}]}

    async def list_page(self, resource: Any, query: dict[str, str], **_: Any) -> dict[str, Any]:
        assert resource.plural == "namespaces" and query["labelSelector"] in ("lws=yes", self.other)
        self.lists += 1
        if self.list_error is not None:
            raise self.list_error
        await asyncio.sleep(self.seconds_to_answer)
        if query["labelSelector"] == self.other:
            return {"metadata": {}, "items": []}
        requested = query.get("fieldSelector", "").removeprefix("metadata.name=")
        names = [name for name in sorted(self.labelled) if requested in ("", name)]
        return {"metadata": {}, "items": [{"metadata": {"name": name}} for name in names]}


class Scene:
    """A running `WebhookCoverage`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.woken = 0
        self.coverage = WebhookCoverage(cast(Cluster, cluster), self._wake)

    def _wake(self) -> None:
        self.woken += 1


@asynccontextmanager
async def running(cluster: FakeCluster) -> AsyncIterator[Scene]:
    scene = Scene(cluster)
    task = asyncio.ensure_future(scene.coverage.run())
    try:
        await asyncio.sleep(1)
        yield scene
    finally:
        assert not task.done()
        task.cancel()


@pytest.mark.parametrize("selector", [None, {}], ids=["absent", "empty"])
@in_fake_time
async def test_without_a_selector_every_namespace_is_covered_and_none_is_read(
    selector: dict[str, Any] | None,
) -> None:
    cluster = FakeCluster(selector)
    async with running(cluster) as scene:
        await asyncio.sleep(600)
        assert scene.coverage.known.is_set()
        assert await scene.coverage.covers("default")
        assert (cluster.lists, scene.woken) == (0, 0)


@in_fake_time
async def test_only_namespaces_that_the_selector_selects_are_covered() -> None:
    async with running(FakeCluster(SELECTOR, "models")) as scene:
        assert await scene.coverage.covers("models")
        assert not await scene.coverage.covers("default")


@in_fake_time
async def test_a_namespace_that_is_newer_than_the_list_is_read_once() -> None:
    cluster = FakeCluster(SELECTOR)
    async with running(cluster) as scene:
        cluster.labelled.add("new")
        assert await scene.coverage.covers("new")
        lists_before = cluster.lists
        assert await scene.coverage.covers("new")
        assert cluster.lists == lists_before


@in_fake_time
async def test_changed_labels_and_selectors_wake_the_sets() -> None:
    cluster = FakeCluster(SELECTOR)
    async with running(cluster) as scene:
        woken = scene.woken
        cluster.labelled.add("models")
        await asyncio.sleep(61)
        assert scene.woken == woken + 1
        assert await scene.coverage.covers("models")
        cluster.labelled.clear()
        await asyncio.sleep(61)
        assert scene.woken == woken + 2
        assert not await scene.coverage.covers("models")
        cluster.selector = None
        await asyncio.sleep(61)
        assert scene.woken == woken + 3
        assert await scene.coverage.covers("models")
        await asyncio.sleep(600)
        assert scene.woken == woken + 3, "nothing has changed since"


@pytest.mark.parametrize(
    "error",
    [NotFound(404, "NotFound", "no such configuration"), Forbidden(403, "Forbidden", "may not get")],
    ids=["registered under another name", "roles of an earlier release"],
)
@in_fake_time
async def test_every_namespace_is_covered_if_the_configuration_cannot_be_read(error: Exception) -> None:
    cluster = FakeCluster(SELECTOR)
    cluster.error = error
    async with running(cluster) as scene:
        assert scene.coverage.known.is_set()
        assert await scene.coverage.covers("default")


@in_fake_time
async def test_coverage_is_unknown_until_the_first_response_and_kept_afterwards() -> None:
    cluster = FakeCluster(SELECTOR, "models")
    cluster.error = Unreachable("connection refused")
    async with running(cluster) as scene:
        assert not scene.coverage.known.is_set()
        cluster.error = None
        await asyncio.sleep(3)
        assert scene.coverage.known.is_set()
        cluster.error = Unreachable("connection refused")
        await asyncio.sleep(600)
        assert await scene.coverage.covers("models")
        assert not await scene.coverage.covers("default")


@in_fake_time
async def test_an_overloaded_api_server_is_asked_again_when_it_requests() -> None:
    cluster = FakeCluster(SELECTOR, "models")
    cluster.error = Throttled(429, "TooManyRequests", "busy", 20.0)
    async with running(cluster) as scene:
        cluster.error = None
        await asyncio.sleep(18)
        assert not scene.coverage.known.is_set()
        await asyncio.sleep(2)
        assert scene.coverage.known.is_set()


@in_fake_time
async def test_sets_that_were_left_alone_are_woken_even_if_another_set_sees_the_new_label_first() -> None:
    cluster = FakeCluster(SELECTOR)
    async with running(cluster) as scene:
        woken = scene.woken
        cluster.labelled.add("models")
        assert await scene.coverage.covers("models")
        await asyncio.sleep(61)
        assert scene.woken == woken + 1
        await asyncio.sleep(600)
        assert scene.woken == woken + 1, "nothing has changed since"


@in_fake_time
async def test_an_uncovered_namespace_is_read_once_a_minute() -> None:
    cluster = FakeCluster(SELECTOR)
    async with running(cluster) as scene:
        lists = cluster.lists
        for _ in range(100):
            assert not await scene.coverage.covers("default")
        assert cluster.lists == lists + 1
        cluster.labelled.add("default")
        await asyncio.sleep(61)
        assert await scene.coverage.covers("default")


@in_fake_time
async def test_a_response_for_a_former_selector_is_discarded() -> None:
    cluster = FakeCluster(SELECTOR)
    async with running(cluster) as scene:
        cluster.labelled.add("new")
        cluster.seconds_to_answer = 90
        pending = asyncio.ensure_future(scene.coverage.covers("new"))
        await asyncio.sleep(1)
        cluster.seconds_to_answer = 0
        cluster.selector, cluster.other = {"matchLabels": {"lws": "no"}}, "lws=no"
        assert await pending
        assert not await scene.coverage.covers("new")


@in_fake_time
async def test_a_later_rejection_keeps_the_coverage() -> None:
    """An API server that is starting rejects all requests for a moment."""
    cluster = FakeCluster(SELECTOR, "models")
    async with running(cluster) as scene:
        cluster.error = Forbidden(403, "Forbidden", "may not get")
        await asyncio.sleep(600)
        assert await scene.coverage.covers("models")
        assert not await scene.coverage.covers("default")


@in_fake_time
async def test_every_namespace_is_covered_if_namespaces_cannot_be_listed() -> None:
    """The RBAC roles were written for an earlier release: sets continue as under that release."""
    cluster = FakeCluster(SELECTOR)
    cluster.list_error = Forbidden(403, "Forbidden", "may not list")
    async with running(cluster) as scene:
        assert scene.coverage.known.is_set()
        assert await scene.coverage.covers("default")
        cluster.list_error = None
        await asyncio.sleep(61)
        assert not await scene.coverage.covers("default")
