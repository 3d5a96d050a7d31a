"""Follow a collection during a measurement.

Raises ApiError if the API server no longer has some of the events, so that a gap never goes unnoticed.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.localcluster.api import Api, Call

_WATCH_SECONDS = "3000"
_RETRY_SECONDS = 0.05


def watched(
    api: Api, path: str, query: Mapping[str, str], version: str, is_closed: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Yield events until `is_closed`. version: the version of the list. Raise ApiError."""
    while not is_closed():
        beginning = {"watch": "1", "resourceVersion": version, "timeoutSeconds": _WATCH_SECONDS}
        try:
            for event in api.watch(Call("GET", path, query={**query, **beginning})):
                version = event["object"]["metadata"]["resourceVersion"]
                yield event
        except (OSError, http.client.HTTPException, ValueError):
            # The server ends an idle stream after a while; at the end of a run, the cluster stops first.
            time.sleep(_RETRY_SECONDS)
