"""Serve /metrics over HTTPS. The API server verifies bearer tokens; others get 401, 403, 429 or 500."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from lws import timing
from lws.config import TlsSettings
from lws.runtime.certificates.directory import CertificateDirectory
from lws.runtime.certificates.serving_certificate import Certificates, expiry, renewed
from lws.runtime.client.authorization import Authorizer
from lws.runtime.endpoints.health import split_address
from lws.runtime.endpoints.metrics import CONTENT_TYPE, Metrics
from lws.runtime.endpoints.server import SMALL, Server
from lws.runtime.endpoints.server_tls import ServerTls

# Upstream's end-to-end test looks for this name and the message of controller-runtime.
log = logging.getLogger("controller-runtime.metrics")

CERTIFICATES = Path("/tmp/k8s-metrics-server/serving-certs")
"""Mount path of cert-manager's certificate for the metrics. Without it, a self-signed one is created."""

_PATH = "/metrics"
_ERRORS = {401: "Unauthorized", 403: "Forbidden", 429: "Too Many Requests"}


class MetricsServer:
    """Serves /metrics on `host:port` until cancelled."""

    def __init__(self, address: str, policy: TlsSettings, metrics: Metrics, authorizer: Authorizer) -> None:
        self._host, self._port = split_address(address)
        self._tls = ServerTls(policy)
        self._metrics = metrics
        self._authorizer = authorizer
        self._own = Certificates()
        self._supplier: CertificateDirectory | None = None
        metrics.process.watch_certificate("metrics", self._expires)
        self.bound = asyncio.Event()
        self.port = 0

    async def run(self, directory: Path = CERTIFICATES) -> None:
        """Open the port and serve until cancelled. Raises OSError if the port cannot be opened."""
        supplier = self._supplier = await self._supply(directory)
        routes = [web.get(_PATH, self._serve)]
        server = Server(routes, SMALL, timing.ENDPOINTS_GRACE_SECONDS, self._tls.context)
        try:
            await server.open(self._host, self._port)
            self.port = server.port
            self.bound.set()
            log.info("Serving metrics server at %s:%d%s", self._host or "*", self.port, _PATH)
            while supplier is None:
                await asyncio.sleep(timing.METRICS_CERTIFICATE_SECONDS)
                await self._renew_own()
            await supplier.run()
        finally:
            await server.close()

    async def _supply(self, directory: Path) -> CertificateDirectory | None:
        if (directory / "tls.crt").exists():
            on_read = self._metrics.process.certificate_read
            supplier = CertificateDirectory(directory, self._tls.install, on_read)
            supplier.check()
            return supplier
        await self._renew_own()
        return None

    async def _renew_own(self) -> None:
        renewal = await asyncio.to_thread(renewed, self._own, ("localhost",), datetime.now(UTC))
        if renewal is not None:
            self._own = renewal[0]
            self._tls.install(self._own.server.certificate, self._own.server.key)

    def _expires(self) -> datetime | None:
        if self._supplier is not None:
            return self._supplier.expires
        return expiry(self._own.server.certificate) if self._own.server.certificate else None

    async def _serve(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        status = await self._authorizer.status(token.strip() if scheme.lower() == "bearer" else "", _PATH)
        if status != 200:
            return web.Response(status=status, text=_ERRORS.get(status, "Error"))
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
