"""Find and scrape the targets of a ServiceMonitor as Prometheus does: scheme, path, port, CA and token."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from test.harness.scraping import Scrape
from test.node.managers import get
from tools.deployment import NAMESPACE
from tools.realnode.cluster import RealCluster

_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """One address, and how it is scraped."""

    address: str
    port: int
    path: str
    server_name: str
    trust: ssl.SSLContext
    token: str

    def scraped(self) -> Scrape:
        """Return the metrics that it serves to the bearer of the token."""
        status, text = self._ask({"Authorization": f"Bearer {self.token}"})
        assert status == http.client.OK, text
        return Scrape.of(text)

    def status_without_token(self) -> int:
        return self._ask({})[0]

    def _ask(self, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(self.address, self.port, timeout=_SECONDS)
        plain = socket.create_connection((self.address, self.port), _SECONDS)
        # The certificate is for the server name in the monitor, not for an address.
        connection.sock = self.trust.wrap_socket(plain, server_hostname=self.server_name)
        try:
            connection.request("GET", self.path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def targets_of(cluster: RealCluster, name: str) -> list[Target]:
    """Return the targets of a ServiceMonitor in the chart's namespace, found as Prometheus finds them."""
    monitor = get(cluster, "servicemonitor", name, "-n", NAMESPACE)["spec"]
    return [
        Target(
            address=address,
            port=port,
            path=endpoint["path"],
            server_name=endpoint["tlsConfig"].get("serverName", address),
            trust=_trust(cluster, endpoint),
            token=_key(cluster, endpoint["authorization"]["credentials"]),
        )
        for endpoint in monitor["endpoints"]
        for address, port in _addresses(cluster, monitor["selector"]["matchLabels"], endpoint["port"])
    ]


def _addresses(cluster: RealCluster, labels: dict[str, str], port: str) -> Iterator[tuple[str, int]]:
    """Yield the addresses of all pods behind Services with these labels and a port of this name."""
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    for service in get(cluster, "services", "-n", NAMESPACE, "-l", selector)["items"]:
        of_service = f"kubernetes.io/service-name={service['metadata']['name']}"
        for endpoint_slice in get(cluster, "endpointslices", "-n", NAMESPACE, "-l", of_service)["items"]:
            numbers = [entry["port"] for entry in endpoint_slice["ports"] or () if entry["name"] == port]
            yield from (
                (address, number)
                for number in numbers
                for endpoint in endpoint_slice["endpoints"] or ()
                for address in endpoint["addresses"]
            )


def _trust(cluster: RealCluster, endpoint: dict[str, Any]) -> ssl.SSLContext:
    assert endpoint["scheme"] == "https"
    settings = endpoint["tlsConfig"]
    context = ssl.create_default_context()
    if settings.get("insecureSkipVerify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=_key(cluster, settings["ca"]["secret"]))
    return context


def _key(cluster: RealCluster, reference: dict[str, str]) -> str:
    """Return the text in the referenced key of a Secret."""
    data = get(cluster, "secret", reference["name"], "-n", NAMESPACE)["data"]
    return base64.b64decode(data[reference["key"]]).decode()
