"""Answers: how objects are followed for as long as the cluster runs.

In: a collection of the API. Out: every object as it is now and after each change.
"""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.localcluster.api import METADATA_ONLY, WATCH_METADATA_ONLY, Api, ApiError, Call

_WATCH_SECONDS = 25
_RETRY_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stream:
    """One collection, such as /api/v1/pods; `consider` sees each object that exists, maybe more than once."""

    api: Api
    path: str
    consider: Callable[[dict[str, Any]], None]
    metadata_only: bool = False

    def run(self) -> None:
        """Follow for ever; an unreachable API server is asked again."""
        version = ""
        while True:
            try:
                version = self._watch(version) if version else self._list()
            except (ApiError, OSError, http.client.HTTPException, ValueError) as error:
                _log.warning("the stream of %s broke, listing again: %s", self.path, error)
                version = ""
                time.sleep(_RETRY_SECONDS)

    def _list(self) -> str:
        accept = METADATA_ONLY if self.metadata_only else Call.accept
        found = self.api.send(Call("GET", self.path, accept=accept))
        # Lists of metadata say null instead of an empty list.
        for each in found["items"] or ():
            self.consider(each)
        return str(found["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        accept = WATCH_METADATA_ONLY if self.metadata_only else Call.accept
        for event in self.api.watch(Call("GET", self.path, query=query, accept=accept)):
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] in ("ADDED", "MODIFIED"):
                self.consider(event["object"])
        return version
