"""Find out whether the pod webhook receives the pods of a namespace; if not, they would lack their identity.

The webhook configuration and its namespaceSelector are read once a minute, and the API server matches the
namespaces. Without a configuration or a selector, nothing else is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lws import timing
from lws.kube.metadata import as_query
from lws.runtime.certificates.internal import CONFIGURATIONS
from lws.runtime.client.connection import Cluster, pages
from lws.runtime.client.resources import NAMESPACES
from lws.runtime.errors import ClusterError, Forbidden, NotFound

log = logging.getLogger(__name__)

POD_WEBHOOK = "mpod.kb.io"
"""Name of the webhook that mutates pods."""


class WebhookCoverage:
    """Track the namespaces whose pods the webhook receives. One instance per process.
    wake: called when the covered namespaces have changed.
    """

    def __init__(self, cluster: Cluster, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._wake = wake
        # The selector as a query; empty if it selects all namespaces.
        self._selector = ""
        self._covered: frozenset[str] = frozenset()
        # Results for namespaces that were not listed.
        self._answers: dict[str, bool] = {}
        self.known = asyncio.Event()
        """Set when the configuration has been read."""

    async def covers(self, namespace: str) -> bool:
        """Return whether pods of this namespace are sent to the webhook. A namespace that was not listed may
        be new: it is read once a minute. Raises ClusterError if this read fails.
        """
        if not self._selector or namespace in self._covered:
            return True
        # A late answer belongs to the selector of its request.
        answers = self._answers
        if namespace not in answers:
            query = {"labelSelector": self._selector, "fieldSelector": f"metadata.name={namespace}"}
            page = await self._cluster.list_page(NAMESPACES, query, metadata_only=True)
            answers[namespace] = bool(page.get("items"))
        return answers[namespace]

    async def run(self) -> None:
        """Follow the configuration and the namespaces, indefinitely."""
        while True:
            pause = timing.COVERAGE_SECONDS
            try:
                await self._refresh()
                self.known.set()
            except Forbidden as error:
                # An earlier release acted in all namespaces, and its roles lack this permission. If coverage
                # was known once, the last result remains: an API server that is starting denies everything
                # for a moment.
                if not self.known.is_set():
                    log.warning("webhook namespaceSelector: %s; it is ignored", error.message)
                self.known.set()
            except (ClusterError, ValueError) as error:
                log.warning("webhook namespaceSelector: %s", error)
                if not self.known.is_set():
                    requested = error.retry_after if isinstance(error, ClusterError) else None
                    pause = max(timing.COVERAGE_RETRY_SECONDS, requested or 0.0)
            await asyncio.sleep(pause)

    async def _refresh(self) -> None:
        self._answers = {}
        selector = await self._read_selector()
        covered = await self._list(selector) if selector else frozenset[str]()
        if (selector, covered) == (self._selector, self._covered):
            return
        if selector != self._selector:
            log.info("the pod webhook receives pods of namespaces with %s", selector or "any labels")
        self._selector, self._covered, self._answers = selector, covered, {}
        self._wake()

    async def _read_selector(self) -> str:
        """Read the selector as a query; empty also without a configuration, which may have another name."""
        try:
            configuration = await self._cluster.get(CONFIGURATIONS[0][0], "", CONFIGURATIONS[0][1])
        except NotFound:
            return ""
        entries = configuration.get("webhooks") or ()
        selectors = (entry.get("namespaceSelector") for entry in entries if entry.get("name") == POD_WEBHOOK)
        return as_query(next(selectors, {}) or {})

    async def _list(self, selector: str) -> frozenset[str]:
        names: set[str] = set()
        query = {"labelSelector": selector}
        async for page in pages(self._cluster, NAMESPACES, query, metadata_only=True):
            names.update(item["metadata"]["name"] for item in page.get("items") or ())
        return frozenset(names)
