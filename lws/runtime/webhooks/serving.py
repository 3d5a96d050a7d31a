"""Serve the webhooks: certificates, port and readiness."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from lws.config import Settings
from lws.runtime.certificates.directory import CertificateDirectory
from lws.runtime.certificates.internal import InternalCertificates, SecretReference
from lws.runtime.client.connection import Cluster
from lws.runtime.client.resources import Resource
from lws.runtime.endpoints.metrics import Metrics
from lws.runtime.endpoints.server_tls import ServerTls
from lws.runtime.webhooks.server import AdmissionServer

# Upstream's name for the controller that renews certificates.
_CONTROLLER = "cert-rotator"


class Serving:
    """Certificates and admission server of one process. endpoints: the reviewed resource by handler id."""

    def __init__(
        self, settings: Settings, cluster: Cluster, metrics: Metrics, endpoints: Mapping[str, Resource]
    ) -> None:
        webhook = settings.configuration.webhook
        self._tls = ServerTls(settings.tls)
        self._metrics = metrics
        self._certificates = self._supplier(settings, cluster)
        self._server = AdmissionServer(webhook.host, webhook.port, endpoints, self._tls, metrics.reviews)
        metrics.reviews.serve(endpoints, self._server.in_flight)
        metrics.passes.serve([_CONTROLLER], at_once=1)
        metrics.process.watch_certificate("webhook", lambda: self._certificates.expires)
        self._is_enabled = settings.serves_webhooks
        self._shutdown_delay = webhook.shutdown_delay.total_seconds()

    @property
    def server(self) -> AdmissionServer | None:
        """The server for kopf; None if webhooks are off."""
        return self._server if self._is_enabled else None

    def not_ready(self) -> str | None:
        """Return why reviews are not answered yet, for the readiness probe; None once they are."""
        if not self._certificates.is_ready:
            return "there is no valid serving certificate"
        if self._is_enabled and not self._server.is_listening:
            return "the webhook port is not open yet"
        return None

    async def run(self) -> None:
        """Keep the certificate valid, indefinitely."""
        await self._certificates.run()

    async def close_gently(self) -> None:
        """Wait until API servers have had time to switch to another manager."""
        if self._is_enabled:
            await self._server.close_gently(self._shutdown_delay)

    def _supplier(self, settings: Settings, cluster: Cluster) -> InternalCertificates | CertificateDirectory:
        configuration = settings.configuration
        webhook, certificates = configuration.webhook, configuration.internal_cert_management
        if not certificates.enable:
            on_read = self._metrics.process.certificate_read
            return CertificateDirectory(Path(webhook.cert_dir), self._tls.install, on_read)
        names = [f"{certificates.webhook_service_name}.{settings.namespace}.svc"]
        if webhook.host and not _is_every_interface(webhook.host):
            names.append(webhook.host)
        secret = SecretReference(settings.namespace, certificates.webhook_secret_name, tuple(names))
        return InternalCertificates(cluster, secret, self._install, lambda: datetime.now(UTC), self._checked)

    def _install(self, certificate: bytes, key: bytes) -> None:
        self._tls.install(certificate, key)
        self._metrics.process.certificate_read(True)

    def _checked(self, is_good: bool, seconds: float) -> None:
        self._metrics.passes.begun(_CONTROLLER)
        self._metrics.passes.ended(_CONTROLLER, "requeue_after" if is_good else "error", seconds)


def _is_every_interface(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
