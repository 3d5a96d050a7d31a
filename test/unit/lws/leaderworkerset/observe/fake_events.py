"""Events of a StatefulSet controller, and an API server that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any

from lws.kube.conditions import timestamp
from lws.runtime.errors import ClusterError
from test.unit.builders import NOW

WORDS = 'create Pod demo-0 in StatefulSet demo failed error: pods "demo-0" is forbidden: exceeded quota: few'


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def event(words: str = WORDS, seconds: float = 0, about: str = "demo", **how: Any) -> dict[str, Any]:
    """Return an Event.

    about: the name of the StatefulSet. how: the time fields; by default, the Event occurred `seconds` after
    `NOW`.
    """
    moment = how or {"deprecatedLastTimestamp": timestamp(at(seconds))}
    metadata = {"name": "e", "creationTimestamp": timestamp(at(-9000))}
    return {"metadata": metadata, "regarding": {"uid": f"uid-of-{about}"}, "note": words, **moment}


class Background:
    """The tasks that run concurrently with passes.

    woken: namespace and name of each enqueued set.
    """

    def __init__(self) -> None:
        self.woken: list[tuple[str, str]] = []
        self.tasks: list[asyncio.Future[None]] = []

    def wake(self, namespace: str, name: str) -> None:
        self.woken.append((namespace, name))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def over(self) -> None:
        """Wait until all tasks have ended."""
        while self.tasks:
            await self.tasks.pop()


class Events:
    """An API server with Events, one on each page.

    requests: namespace and query of each request. answers: set if requests are answered; otherwise only those
    for namespaces in `served` are.
    """

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)
        self.answers = asyncio.Event()
        self.answers.set()
        self.served: set[str] = set()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.error: ClusterError | None = None
        self.on_list: Callable[[], None] = lambda: None

    async def list_page(
        self, resource: Any, query: Mapping[str, str], metadata_only: bool, namespace: str
    ) -> dict[str, Any]:
        assert (resource.plural, metadata_only) == ("events", False)
        index = int(query.get("continue", "0"))
        if index == 0:
            self.requests.append((namespace, dict(query)))
            self.on_list()
        if namespace not in self.served:
            await self.answers.wait()
        if self.error is not None:
            raise self.error
        following = {"continue": str(index + 1)} if index + 1 < len(self.items) else {}
        return {"metadata": following, "items": self.items[index : index + 1]}
