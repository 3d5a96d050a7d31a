"""All settings of the manager: its configuration, and what the process derives from it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import yaml

from lws.config.checks import TLS13_SUITES, openssl_names
from lws.policies import Policies
from lws_api.config.v1alpha1 import TLS_VERSIONS, Configuration

_UNLIMITED_QPS = 1e9
"""Requests per second that the client never reaches; used if the configured limit is 0 or less."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings for clients of the manager. ciphers: OpenSSL's names, TLS 1.2 only; empty for its own."""

    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the manager.

    configuration: the file and the flags, valid and complete. namespace: that of the manager, its Lease, its
    Secret and its Service. serves_webhooks: whether this process answers admission reviews.
    """

    configuration: Configuration
    namespace: str
    serves_webhooks: bool

    @property
    def tls(self) -> TlsSettings:
        tls = self.configuration.tls
        if tls.cipher_suites and TLS13_SUITES.issuperset(tls.cipher_suites):
            # If only suites of TLS 1.3 are listed, TLS 1.2 is not offered.
            return TlsSettings(ssl.TLSVersion.TLSv1_3)
        minimum = TLS_VERSIONS.get(tls.min_version, ssl.TLSVersion.TLSv1_2)
        return TlsSettings(minimum, openssl_names(tls.cipher_suites))

    @property
    def client_qps(self) -> float:
        """The limit of writes to the API server per second, above 0."""
        qps = self.configuration.client_connection.qps
        return qps if qps > 0 else _UNLIMITED_QPS

    @property
    def shards(self) -> int:
        """The number of parts into which namespaces are divided, each with its own Lease; 1 for one Lease."""
        sharding = self.configuration.sharding
        return sharding.shards if sharding is not None else 1

    @property
    def gang_provider(self) -> str | None:
        """The gang scheduler; None for none."""
        gang = self.configuration.gang_scheduling_management
        return gang.scheduler_provider if gang is not None else None

    @property
    def workload_aware_scheduling(self) -> bool:
        """Whether to serve `spec.scheduling`."""
        return self.configuration.feature_gates.workload_aware_scheduling

    @property
    def policies(self) -> Policies:
        """The settings that plans read."""
        return Policies.of(self.configuration)

    @property
    def effective(self) -> str:
        """The whole configuration as YAML, for the log."""
        document = self.configuration.model_dump(mode="json", exclude_none=True)
        return yaml.safe_dump(document, sort_keys=False)
