"""Create, store, serve and renew the webhook certificate if cert-manager is not used.

Every replica does this, whether it leads or not.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lws import timing
from lws.runtime.actions import Object, Reference
from lws.runtime.certificates.serving_certificate import (
    Certificates,
    KeyPair,
    expiry,
    renewed,
    server_flaw,
    split,
)
from lws.runtime.client.connection import Cluster
from lws.runtime.errors import AlreadyExists, ClusterError, Conflict, Forbidden, NotFound

CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "lws-mutating-webhook-configuration"),
    ("ValidatingWebhookConfiguration", "lws-validating-webhook-configuration"),
)
"""Kind and name of the objects that contain the CA that the API server trusts."""

_ATTEMPTS = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SecretReference:
    """The Secret in which certificates are stored. names: DNS names and IP addresses that clients use."""

    namespace: str
    secret: str
    names: tuple[str, ...]


class InternalCertificates:
    """Supplies one server with certificates that it issues itself.

    install: a function that receives certificate and key (PEM). It raises ValueError, and keeps the former
    ones, if they cannot be used. clock: a function that returns the current time, timezone-aware. on_check: a
    function that is called after each check with its success and its duration in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        reference: SecretReference,
        install: Callable[[bytes, bytes], None],
        clock: Callable[[], datetime],
        on_check: Callable[[bool, float], None] = lambda is_good, seconds: None,
    ) -> None:
        self._cluster = cluster
        self._reference = reference
        self._install = install
        self._clock = clock
        self._on_check = on_check
        self._served = KeyPair()
        # A stored pair that the server cannot use; the next check replaces it.
        self._unusable: KeyPair | None = None
        self._known = Certificates()
        self._trusted_since: dict[bytes, datetime] = {}
        self._missing: set[str] = set()
        self._is_injected = False

    @property
    def is_ready(self) -> bool:
        """Whether a valid certificate is served and all existing webhook configurations trust it."""
        return self._is_injected and self._is_usable(self._served, self._known)

    @property
    def expires(self) -> datetime | None:
        """The time at which the served certificate expires; None while there is none."""
        return expiry(self._served.certificate) if self._served.certificate else None

    async def run(self) -> None:
        """Check once a minute, indefinitely. Log errors of the API server, and retry after them."""
        usual = timing.CERTIFICATES_PAUSE
        backoff = usual.first
        while True:
            began = time.perf_counter()
            try:
                await self.check()
                backoff, pause = usual.first, usual.longest
                self._on_check(True, time.perf_counter() - began)
            except ClusterError as error:
                backoff, pause = usual.following(backoff), backoff
                self._on_check(False, time.perf_counter() - began)
                log.warning("serving certificate: %s; next try in about %.0f s", error, pause)
            # Jitter, so that replicas that started together do not check at the same time.
            await asyncio.sleep(pause * random.uniform(0.9, 1.1))

    async def check(self) -> None:
        """Repair Secret and webhook configurations, and serve the certificate. Raises ClusterError."""
        certificates = self._known = await self._stored()
        # If no usable certificate is served, serve the stored one before API servers have seen its CA.
        if not self._is_usable(self._served, certificates):
            self._serve(certificates.server)
        for kind, name in CONFIGURATIONS:
            await self._inject(kind, name, certificates.trusted)
        now, before = self._clock(), self._trusted_since
        self._trusted_since = {authority: before.get(authority, now) for authority in certificates.trusted}
        self._is_injected = True
        if now - self._trusted_since[certificates.authority.certificate] >= timing.CA_KNOWN_WITHIN:
            self._serve(certificates.server)

    def _is_usable(self, server: KeyPair, certificates: Certificates) -> bool:
        now, names = self._clock(), self._reference.names
        return any(not server_flaw(server, authority, names, now) for authority in certificates.trusted)

    def _serve(self, server: KeyPair) -> None:
        if server == self._served:
            return
        try:
            self._install(server.certificate, server.key)
        except ValueError as error:
            # OpenSSL checks more than this module does. The next check replaces the stored pair.
            self._unusable = server
            raise ClusterError(
                f"{self._title} contains a certificate that cannot be served: {error}"
            ) from error
        self._served = server
        log.info("webhooks are served with a certificate that expires on %s", self.expires)

    async def _stored(self) -> Certificates:
        """Return the certificates in the Secret, repaired if needed. Of several replicas, the first wins."""
        for _ in range(_ATTEMPTS):
            secret = await self._secret()
            stored = _certificates_in(secret)
            if stored.server == self._unusable:
                stored = replace(stored, server=KeyPair())
            if not self._served.certificate and self._is_usable(stored.server, stored):
                self._serve(stored.server)
            desired, why = await self._desired(stored)
            if desired == stored:
                return stored
            try:
                await self._write(secret, desired)
            except (AlreadyExists, Conflict):
                continue
            log.info("%s: %s", self._title, why)
            return desired
        raise ClusterError(f"{self._title} keeps being changed by another client")

    async def _desired(self, stored: Certificates) -> tuple[Certificates, str]:
        """Return the desired content of the Secret, and the reason if it differs from `stored`.

        A user can force a new CA by removing `ca.key` from the Secret.
        """
        desired, why = stored, ""
        if stored == Certificates():
            # Tools that keep applying the chart replace the Secret by the chart's empty one.
            desired, why = self._known, "its content was missing and is restored"
        # Generating keys takes a tenth of a second, which must not delay other tasks.
        renewal = await asyncio.to_thread(
            renewed, desired, self._reference.names, self._clock(), self._known.trusted
        )
        return renewal or (desired, why)

    async def _secret(self) -> Object | None:
        try:
            return await self._cluster.get("Secret", self._reference.namespace, self._reference.secret)
        except NotFound:
            return None

    async def _write(self, secret: Object | None, certificates: Certificates) -> None:
        data = {
            "ca.crt": b"".join(certificates.trusted),
            "ca.key": certificates.authority.key,
            "tls.crt": certificates.server.certificate,
            "tls.key": certificates.server.key,
        }
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        if secret is not None:
            await self._cluster.replace({**secret, "data": {**(secret.get("data") or {}), **encoded}})
            return
        metadata = {"namespace": self._reference.namespace, "name": self._reference.secret}
        obj = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
        try:
            await self._cluster.create(obj)
        except Forbidden as error:
            raise ClusterError(
                f"{self._title} is missing and may not be created: create it, empty, "
                f"or allow the manager to create Secrets in its namespace ({error})"
            ) from error

    async def _inject(self, kind: str, name: str, trusted: tuple[bytes, ...]) -> None:
        title, bundle = f"{kind} {name}", base64.b64encode(b"".join(trusted)).decode()
        for _ in range(_ATTEMPTS):
            try:
                configuration = await self._cluster.get(kind, "", name)
            except NotFound:
                if title not in self._missing:
                    log.warning(
                        "%s is missing: its webhooks are not called; install the chart to get it", title
                    )
                self._missing.add(title)
                return
            self._missing.discard(title)
            patch = _trust(configuration, bundle)
            if patch is None:
                return
            try:
                await self._cluster.merge(Reference.to(configuration), patch)
            except Conflict:
                continue
            log.info("%s: caBundle set", title)
            return
        raise ClusterError(f"{title} keeps being changed by another client")

    @property
    def _title(self) -> str:
        return f"Secret {self._reference.namespace}/{self._reference.secret}"


def _certificates_in(secret: Object | None) -> Certificates:
    data: Mapping[str, Any] = (secret or {}).get("data") or {}
    authority, *retired = split(_decoded(data.get("ca.crt"))) or (b"",)
    return Certificates(
        authority=KeyPair(authority, _decoded(data.get("ca.key"))),
        server=KeyPair(_decoded(data.get("tls.crt")), _decoded(data.get("tls.key"))),
        retired=tuple(retired),
    )


def _decoded(value: Any) -> bytes:
    return base64.b64decode(value) if value else b""


def _trust(configuration: Object, bundle: str) -> Object | None:
    """Return the merge patch that sets the CA bundle of every webhook; None if all webhooks have it.

    It replaces the whole list, so its resourceVersion protects concurrent changes by other clients.
    """
    webhooks = configuration.get("webhooks") or []
    if all(webhook["clientConfig"].get("caBundle") == bundle for webhook in webhooks):
        return None
    return {
        "metadata": {"resourceVersion": configuration["metadata"]["resourceVersion"]},
        "webhooks": [
            {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}
            for webhook in webhooks
        ],
    }
