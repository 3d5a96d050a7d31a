"""Create, store, serve and renew the webhook certificate when there is no cert-manager.

In: one Secret, the webhook configurations, the time. Runs on every replica, leader or not.
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
from typing import Any, Protocol

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
from lws.runtime.errors import AlreadyExists, ClusterError, Conflict, Forbidden, NotFound

CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "lws-mutating-webhook-configuration"),
    ("ValidatingWebhookConfiguration", "lws-validating-webhook-configuration"),
)
"""Kind and name of the objects that tell the API server which CA to trust."""

_ATTEMPTS = 10

log = logging.getLogger(__name__)


class CertificateClient(Protocol):
    """The parts of the connection that are used; all raise ClusterError."""

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """One object; NotFound."""

    async def create(self, obj: Object) -> dict[str, Any]:
        """AlreadyExists."""

    async def replace(self, obj: Object) -> dict[str, Any]:
        """Conflict if the resourceVersion is not the current one."""

    async def merge(self, target: Reference, patch: Object) -> dict[str, Any]:
        """JSON merge patch; Conflict if it carries a resourceVersion that is not the current one."""


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where certificates are stored. names: DNS names and IP addresses that callers use."""

    namespace: str
    secret: str
    names: tuple[str, ...]


class InternalCertificates:
    """Keeps one server supplied.

    install: takes certificate and key (PEM); ValueError means that it keeps what it has. clock: the current
    time, aware. on_check: told of each check, whether it came to a good end, and how many seconds it took.
    """

    def __init__(
        self,
        cluster: CertificateClient,
        place: SecretReference,
        install: Callable[[bytes, bytes], None],
        clock: Callable[[], datetime],
        on_check: Callable[[bool, float], None] = lambda is_good, seconds: None,
    ) -> None:
        self._cluster = cluster
        self._place = place
        self._install = install
        self._clock = clock
        self._on_check = on_check
        self._served = KeyPair()
        self._unfit: KeyPair | None = None
        self._known = Certificates()
        self._trusted_since: dict[bytes, datetime] = {}
        self._missing: set[str] = set()
        self._is_injected = False

    @property
    def is_ready(self) -> bool:
        """A certificate is served that is good now, and the configurations that exist have been seen to
        trust it.
        """
        return self._is_injected and self._is_usable(self._served, self._known)

    @property
    def expires(self) -> datetime | None:
        """When the served certificate ends."""
        return expiry(self._served.certificate) if self._served.certificate else None

    async def run(self) -> None:
        """Check once a minute, indefinitely; log what the API server rejects and retry."""
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
            # Replicas that started together need not stay together.
            await asyncio.sleep(pause * random.uniform(0.9, 1.1))

    async def check(self) -> None:
        """One pass: repair the Secret and the webhook configurations.

        Raises ClusterError.
        """
        certificates = self._known = await self._stored()
        # Where nothing good is served there is nothing to lose by being early.
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
        now, names = self._clock(), self._place.names
        return any(not server_flaw(server, authority, names, now) for authority in certificates.trusted)

    def _serve(self, server: KeyPair) -> None:
        if server == self._served:
            return
        try:
            self._install(server.certificate, server.key)
        except ValueError as error:
            # OpenSSL reads more of it than we do. The next check puts another one in its place.
            self._unfit = server
            raise ClusterError(f"{self._title} holds what cannot be served: {error}") from error
        self._served = server
        log.info("webhooks are served with a certificate that ends on %s", self.expires)

    async def _stored(self) -> Certificates:
        """The Secret's content once it is valid; of several replicas the first to write wins."""
        for _ in range(_ATTEMPTS):
            secret = await self._secret()
            stored = _certificates_in(secret)
            if stored.server == self._unfit:
                stored = replace(stored, server=KeyPair())
            if not self._served.certificate and self._is_usable(stored.server, stored):
                self._serve(stored.server)
            wanted, why = await self._wanted(stored)
            if wanted == stored:
                return stored
            try:
                await self._write(secret, wanted)
            except (AlreadyExists, Conflict):
                continue
            log.info("%s: %s", self._title, why)
            return wanted
        raise ClusterError(f"{self._title} keeps being changed by another client")

    async def _wanted(self, stored: Certificates) -> tuple[Certificates, str]:
        """The desired content of the Secret, and why. (To force a new CA, remove `ca.key` from it.)"""
        wanted, why = stored, ""
        if stored == Certificates():
            # Tools that apply the chart again and again put their empty Secret in place of the filled one.
            wanted, why = self._known, "its content was gone and is back"
        # Drawing keys takes a tenth of a second, which other tasks should not have to wait for.
        renewal = await asyncio.to_thread(
            renewed, wanted, self._place.names, self._clock(), self._known.trusted
        )
        return renewal or (wanted, why)

    async def _secret(self) -> Object | None:
        try:
            return await self._cluster.get("Secret", self._place.namespace, self._place.secret)
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
        metadata = {"namespace": self._place.namespace, "name": self._place.secret}
        obj = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
        try:
            await self._cluster.create(obj)
        except Forbidden as error:
            raise ClusterError(
                f"{self._title} is missing and may not be created: create it, empty, "
                f"or allow the manager to create Secrets in its namespace ({error})"
            ) from error

    async def _inject(self, kind: str, name: str, trusted: tuple[bytes, ...]) -> None:
        bundle = base64.b64encode(b"".join(trusted)).decode()
        for _ in range(_ATTEMPTS):
            try:
                configuration = await self._cluster.get(kind, "", name)
            except NotFound:
                self._report_missing(f"{kind} {name}")
                return
            self._missing.discard(f"{kind} {name}")
            patch = _trust(configuration, bundle)
            if patch is None:
                return
            try:
                await self._cluster.merge(Reference.to(configuration), patch)
            except Conflict:
                continue
            log.info("%s %s: caBundle set", kind, name)
            return
        raise ClusterError(f"{kind} {name} keeps being changed by another client")

    def _report_missing(self, title: str) -> None:
        if title not in self._missing:
            log.warning("%s is missing: its webhooks are not called; install the chart to get it", title)
        self._missing.add(title)

    @property
    def _title(self) -> str:
        return f"Secret {self._place.namespace}/{self._place.secret}"


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
    """The merge patch that puts the CA bundle into every webhook, None if it is there.

    A merge patch replaces the list, so the resourceVersion goes with it: nobody else's change is undone.
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
