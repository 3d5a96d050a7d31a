"""Play cert-manager on a cluster without it: issue Secrets for Certificates and inject the CA.

The Secrets have cert-manager's layout. While this runs, the CA is injected into the webhook configurations
that request it.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from test.node.certificates import Pair, server
from tools.deployment import NAMESPACE
from tools.localcluster import ApiError
from tools.realnode.cluster import RealCluster

_CERTIFICATES = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates"
_ISSUERS = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/issuers"
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_INJECTED = "cert-manager.io/inject-ca-from"
# cert-manager's default lifetime.
_LIFE = timedelta(days=90)
_LOOK_SECONDS = 0.3
_NOT_FOUND = 404


class CertManager:
    """Issues and injects in a separate thread. Its Issuers are `selfSigned`: they sign nothing for others."""

    def __init__(self, cluster: RealCluster) -> None:
        self._api = cluster.api
        self._issued: dict[str, Pair] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[CertManager]:
        self._thread.start()
        try:
            yield self
        finally:
            self.stop()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def issued(self, certificate: str) -> Pair:
        """Return the pair that it issued for a Certificate. Raise KeyError before that."""
        return self._issued[certificate]

    def renew(self, certificate: str) -> None:
        """Issue another pair, as after two thirds of the lifetime."""
        self._issued[certificate] = _new_pair(self._api.get(f"{_CERTIFICATES}/{certificate}"))

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            # Managers with certificates of their own write to the same objects until they are deleted.
            with suppress(ApiError):
                for certificate in self._api.get(_CERTIFICATES)["items"]:
                    self._issue(certificate)
                for kind in ("mutating", "validating"):
                    self._inject(f"{_CONFIGURATIONS}/{kind}webhookconfigurations")

    def _issue(self, certificate: dict[str, Any]) -> None:
        issuer = self._api.get(f"{_ISSUERS}/{certificate['spec']['issuerRef']['name']}")
        assert issuer["spec"] == {"selfSigned": {}}
        name, secret = certificate["metadata"]["name"], certificate["spec"]["secretName"]
        if name not in self._issued:
            self._issued[name] = _new_pair(certificate)
        data = _data(self._issued[name])
        metadata = {"name": secret, "annotations": {"cert-manager.io/certificate-name": name}}
        stored = self._secret(secret)
        if stored is None:
            manifest = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data}
            self._api.create(_SECRETS, {**manifest, "metadata": metadata})
        elif not data.items() <= stored.get("data", {}).items():
            # The type of an existing Secret cannot be changed.
            self._api.merge(f"{_SECRETS}/{secret}", {"metadata": metadata, "data": data})

    def _secret(self, name: str) -> dict[str, Any] | None:
        try:
            return self._api.get(f"{_SECRETS}/{name}")
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    def _inject(self, path: str) -> None:
        for configuration in self._api.get(path)["items"]:
            certificate = configuration["metadata"].get("annotations", {}).get(_INJECTED, "")
            issued = self._issued.get(certificate.removeprefix(f"{NAMESPACE}/"))
            if issued is None:
                continue
            bundle = _encoded(issued.pem)
            if all(
                webhook["clientConfig"].get("caBundle") == bundle for webhook in configuration["webhooks"]
            ):
                continue
            webhooks = [
                {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}
                for webhook in configuration["webhooks"]
            ]
            seen = {"resourceVersion": configuration["metadata"]["resourceVersion"]}
            self._api.merge(
                f"{path}/{configuration['metadata']['name']}", {"metadata": seen, "webhooks": webhooks}
            )


def _new_pair(certificate: dict[str, Any]) -> Pair:
    return server(certificate["spec"]["dnsNames"], _LIFE)


def _data(pair: Pair) -> dict[str, str]:
    # The certificate is self-signed, so it is its own CA.
    values = {"ca.crt": pair.pem, "tls.crt": pair.pem, "tls.key": pair.key_pem}
    return {key: _encoded(value) for key, value in values.items()}


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()
