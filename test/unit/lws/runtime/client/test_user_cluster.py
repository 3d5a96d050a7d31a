"""lws.runtime.client.user_cluster: lists of a namespace, patches with a field manager, and dry runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes.aio.client.configuration import Configuration

from lws.runtime.actions import Reference
from lws.runtime.client.user_cluster import UserCluster
from lws.runtime.errors import Invalid
from test.unit.builders import make_set
from test.unit.fake_api import FakeApi, answer_json, failure, serving

LWS = make_set(namespace="team")
BY_NAME = Reference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "team", "demo")
PATH = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/team/leaderworkersets"


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[FakeApi, UserCluster]]:
    async with serving() as api:
        cluster = UserCluster(Configuration(host=api.url), "test")
        yield api, cluster
        await cluster.close()


async def test_a_list_has_all_pages_and_kinds() -> None:
    async with connected() as (api, cluster):
        pages = [
            {"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "more"}},
            {"items": [{"metadata": {"name": "b"}}], "metadata": {}},
        ]
        api.will(*map(answer_json, pages))
        objects = await cluster.listed("StatefulSet", "team", "x=y")
        assert [(obj["kind"], obj["apiVersion"], obj["metadata"]["name"]) for obj in objects] == [
            ("StatefulSet", "apps/v1", "a"),
            ("StatefulSet", "apps/v1", "b"),
        ]
        assert {request.path for request in api.requests} == {"/apis/apps/v1/namespaces/team/statefulsets"}
        assert [request.query.get("continue") for request in api.requests] == [None, "more"]
        assert api.requests[1].query["labelSelector"] == "x=y"


Send = Callable[[UserCluster], Awaitable[Any]]
STRICT = {"fieldManager": "kubectl", "dryRun": "All", "fieldValidation": "Strict"}
TEST = [{"op": "test", "path": "/a", "value": 1}]


@pytest.mark.parametrize(
    ("send", "method", "path", "content_type", "query", "body"),
    [
        pytest.param(
            lambda cluster: cluster.json_patch(Reference.to(LWS), TEST, "lws-undo"),
            "PATCH", f"{PATH}/demo", "application/json-patch+json", {"fieldManager": "lws-undo"}, TEST,
            id="json patch",
        ),
        pytest.param(
            lambda cluster: cluster.json_patch(Reference.to(LWS), TEST, "lws-undo", dry_run=True),
            "PATCH", f"{PATH}/demo", "application/json-patch+json",
            {"fieldManager": "lws-undo", "dryRun": "All"}, TEST, id="json patch, dry run",
        ),
        pytest.param(
            lambda cluster: cluster.merge_patch(Reference.to(LWS), {"spec": {"a": None}}, "me"),
            "PATCH", f"{PATH}/demo", "application/merge-patch+json", {"fieldManager": "me"},
            {"spec": {"a": None}, "metadata": {"resourceVersion": "1"}}, id="merge patch, guarded",
        ),
        pytest.param(
            lambda cluster: cluster.merge_patch(BY_NAME, {"spec": {}}, "me"),
            "PATCH", f"{PATH}/demo", "application/merge-patch+json", {"fieldManager": "me"}, {"spec": {}},
            id="merge patch, unguarded",
        ),
        pytest.param(
            lambda cluster: cluster.try_create(LWS),
            "POST", PATH, "application/json", STRICT, LWS, id="dry-run create",
        ),
        pytest.param(
            lambda cluster: cluster.try_merge(Reference.to(LWS), {"spec": {}}),
            "PATCH", f"{PATH}/demo", "application/merge-patch+json", STRICT, {"spec": {}}, id="dry-run merge",
        ),
        pytest.param(
            lambda cluster: cluster.try_apply(LWS, force=True),
            "PATCH", f"{PATH}/demo", "application/apply-patch+yaml", {**STRICT, "force": "true"}, LWS,
            id="dry-run apply",
        ),
    ],
)  # fmt: skip
async def test_bodies_and_queries_of_requests(
    send: Send, method: str, path: str, content_type: str, query: dict[str, str], body: Any
) -> None:
    async with connected() as (api, cluster):
        api.will(answer_json(LWS))
        assert await send(cluster) == LWS
        (seen,) = api.requests
    assert (seen.method, seen.path, seen.query, seen.body) == (method, path, query, body)
    assert seen.headers["Content-Type"] == content_type


async def test_a_refused_request() -> None:
    async with connected() as (api, cluster):
        api.will(failure(422, "Invalid", "wrong"))
        with pytest.raises(Invalid, match="wrong"):
            await cluster.json_patch(Reference.to(LWS), TEST, "me")
