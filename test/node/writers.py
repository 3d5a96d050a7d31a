"""Create sets all the time, also without a manager, and record which ones the API server admits."""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from test.harness.repeating import repeated
from test.node.groups import Groups, manifest, member
from test.node.managers import SETS
from tools.localcluster import ApiError

_EVERY_SECONDS = 0.1
_PREFIX = "written"


@dataclass
class Written:
    """The results of the writes, in order."""

    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@contextmanager
def writing(groups: Groups) -> Iterator[Written]:
    """Create one set after the other during the block, all without groups."""
    written, numbers = Written(), itertools.count()

    def write() -> None:
        name = f"{_PREFIX}-{next(numbers)}"
        body = manifest(name, {"replicas": 0}, {"containers": [member()]})
        try:
            groups.cluster.api.create(_path(groups), body)
            written.taken.append(name)
        except (ApiError, OSError, http.client.HTTPException) as error:
            written.refused.append(str(error))

    with repeated(write, _EVERY_SECONDS):
        yield written


def stored(groups: Groups) -> set[str]:
    """Return the names of a writer's stored sets."""
    names = {lws["metadata"]["name"] for lws in groups.cluster.api.get(_path(groups))["items"]}
    return {name for name in names if name.startswith(f"{_PREFIX}-")}


def acted_on(groups: Groups) -> set[str]:
    """Return the names of those sets that have a leader StatefulSet."""
    path = f"/apis/apps/v1/namespaces/{groups.namespace}/statefulsets"
    names = {statefulset["metadata"]["name"] for statefulset in groups.cluster.api.get(path)["items"]}
    return names & stored(groups)


def _path(groups: Groups) -> str:
    return f"/{SETS}/namespaces/{groups.namespace}/leaderworkersets"
