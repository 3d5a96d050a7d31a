"""Reading of a collection page by page."""

from __future__ import annotations

from typing import Any, cast

from lws.runtime.client.connection import Cluster, pages
from lws.runtime.client.resources import PODS


class Answers:
    """An API server that answers with these pages."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[Any, ...]] = []

    async def list_page(
        self, resource: Any, query: dict[str, str], metadata_only: bool, namespace: str
    ) -> dict[str, Any]:
        self.requests.append((resource, dict(query), metadata_only, namespace))
        return self.answers.pop(0)


async def test_pages_follow_until_there_is_no_more() -> None:
    first, last = {"metadata": {"continue": "more"}, "items": [1]}, {"metadata": {}, "items": [2]}
    server = Answers(first, last)
    query = {"labelSelector": "a=b"}
    read = [
        page
        async for page in pages(cast(Cluster, server), PODS, query, namespace="default", metadata_only=True)
    ]
    assert read == [first, last]
    narrowed = {"labelSelector": "a=b", "limit": "500"}
    assert server.requests == [
        (PODS, narrowed, True, "default"),
        (PODS, {**narrowed, "continue": "more"}, True, "default"),
    ]
    assert query == {"labelSelector": "a=b"}, "the query of the caller is not changed"


async def test_an_answer_without_metadata_is_the_last_page() -> None:
    server = Answers({})
    assert [page async for page in pages(cast(Cluster, server), PODS, {})] == [{}]
