"""All settings of the manager, validated and complete, which `lws.config.loading` builds as dataclasses."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from lws.policies import Policies


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Settings of the webhook server.

    host: the address to listen on; empty for all interfaces. cert_dir: the directory of tls.crt and tls.key.
    shutdown_delay: seconds after SIGTERM during which admission reviews are still answered.
    """

    enabled: bool
    host: str
    port: int
    cert_dir: str
    shutdown_delay: float


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """Settings of the Lease in the manager's namespace. Of the three times in seconds, each exceeds the next.

    shards: number of parts into which namespaces are divided, each with its own Lease; 1 for a single Lease.
    """

    enabled: bool
    resource_name: str
    lease_duration: float
    renew_deadline: float
    retry_period: float
    shards: int = 1


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings for clients of the manager. ciphers: OpenSSL's names, TLS 1.2 only; empty for its own."""

    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """Settings of the webhook certificate. internal: whether the manager issues, stores and rotates it."""

    internal: bool
    service_name: str
    secret_name: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the manager.

    namespace: that of the manager, its Lease, its Secret and its Service.
    metrics_bind_address, health_bind_address, debug_bind_address: `host:port`, or None to serve nothing. An
    empty host means all interfaces; debug_bind_address is always on the loopback interface.
    metrics_per_set: whether to report metrics for each set instead of sums over all sets.
    readiness_endpoint, liveness_endpoint: different URL paths that start with a slash.
    client_qps, client_burst: limits of writes to the API server, per second and at once; both above 0.
    gang_provider: the gang scheduler; None for none.
    workload_aware_scheduling: whether to serve `spec.scheduling`.
    policies: those that influence decisions.
    effective: the whole configuration as YAML, for the log.
    """

    namespace: str
    webhook: WebhookSettings
    leader_election: LeaderElectionSettings
    metrics_bind_address: str | None
    metrics_per_set: bool
    health_bind_address: str | None
    debug_bind_address: str | None
    readiness_endpoint: str
    liveness_endpoint: str
    tls: TlsSettings
    certificates: CertificateSettings
    client_qps: float
    client_burst: int
    gang_provider: str | None
    workload_aware_scheduling: bool
    policies: Policies
    effective: str
