"""Events of a StatefulSet controller, and an API server that has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from lws.cluster.errors import ClusterError
from lws.kube.conditions import timestamp
from test.unit.builders import NOW

WORDS = 'create Pod demo-0 in StatefulSet demo failed error: pods "demo-0" is forbidden: exceeded quota: few'


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def event(words: str = WORDS, seconds: float = 0, about: str = "demo", **how: Any) -> dict[str, Any]:
    """about: name of the StatefulSet. how: the fields that say when, else it was `seconds` after `NOW`."""
    moment = how or {"deprecatedLastTimestamp": timestamp(at(seconds))}
    metadata = {"name": "e", "creationTimestamp": timestamp(at(-9000))}
    return {"metadata": metadata, "regarding": {"uid": f"uid-of-{about}"}, "note": words, **moment}


class Events:
    """An API server with Events, one on each page. asked: namespace and query of each question."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.error: ClusterError | None = None

    async def list_page(
        self, resource: Any, query: Mapping[str, str], metadata_only: bool, namespace: str
    ) -> dict[str, Any]:
        assert (resource.plural, metadata_only) == ("events", False)
        place = int(query.get("continue", "0"))
        if place == 0:
            self.asked.append((namespace, dict(query)))
        if self.error is not None:
            raise self.error
        following = {"continue": str(place + 1)} if place + 1 < len(self.items) else {}
        return {"metadata": following, "items": self.items[place : place + 1]}
