"""All settings of the manager, validated and complete, with their units.

In: a checked Configuration. Out: frozen dataclasses for the parts of the manager.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from lws.policies import Policies


@dataclass(frozen=True, slots=True)
class Webhook:
    """enabled: serve webhooks. host: empty means every interface. cert_dir: contains tls.crt and tls.key.
    shutdown_delay: seconds after SIGTERM during which reviews are still answered.
    """

    enabled: bool
    host: str
    port: int
    cert_dir: str
    shutdown_delay: float


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """The Lease in the manager's namespace; durations in seconds, lease_duration > renew_deadline >
    retry_period. shards: number of parts into which namespaces are divided, each with its own Lease; 1 for a
    single Lease.
    """

    enabled: bool
    resource_name: str
    lease_duration: float
    renew_deadline: float
    retry_period: float
    shards: int = 1


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS for clients. ciphers: OpenSSL names, for TLS 1.2 only; empty means OpenSSL's choice."""

    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """internal: the manager issues and rotates the webhook certificate of the Service, stored
    in the Secret.
    """

    internal: bool
    service_name: str
    secret_name: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings.

    namespace: of the manager, its Lease, Secret and Service. metrics_bind_address, health_bind_address,
    debug_bind_address: `host:port`; an empty host means every interface, debug is on the loopback interface
    only; None: not served. metrics_per_set: metrics for each set instead of sums over all sets.
    readiness_endpoint, liveness_endpoint: different URL paths that start with a slash. client_qps,
    client_burst: limits of writes to the API server, per second and at once, both above 0. gang_provider: the
    gang scheduler; None: none. workload_aware_scheduling: serve `spec.scheduling`. policies: what
    decisions about workloads read. effective: the whole configuration as YAML, for the log.
    """

    namespace: str
    webhook: Webhook
    leader_election: LeaderElection
    metrics_bind_address: str | None
    metrics_per_set: bool
    health_bind_address: str | None
    debug_bind_address: str | None
    readiness_endpoint: str
    liveness_endpoint: str
    tls: Tls
    certificates: CertificateSettings
    client_qps: float
    client_burst: int
    gang_provider: str | None
    workload_aware_scheduling: bool
    policies: Policies
    effective: str
