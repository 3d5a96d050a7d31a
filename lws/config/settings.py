"""What the manager is told to do: every setting, with its unit, checked and complete.

In: a checked Configuration. Out: frozen dataclasses for the parts of the manager.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from lws.kube.nodes import NodeLossPolicy


@dataclass(frozen=True, slots=True)
class Webhook:
    """enabled: serve webhooks at all. host: empty means every interface. cert_dir: has tls.crt, tls.key.
    shutdown_delay: for how many seconds after SIGTERM reviews are still answered.
    """

    enabled: bool
    host: str
    port: int
    cert_dir: str
    shutdown_delay: float


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """The Lease in the manager's namespace; durations in seconds, lease_duration > renew_deadline >
    retry_period. shards: 1, or into how many parts the namespaces are divided, each with a Lease of its own.
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

    minimum_version: ssl.TLSVersion
    ciphers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """internal: the manager makes and rotates the webhook certificate itself, kept in the Secret, for the
    Service.
    """

    internal: bool
    service_name: str
    secret_name: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is configured.

    namespace: where the manager runs, with its Lease, Secret and Service. metrics_bind_address,
    health_bind_address, debug_bind_address: `host:port`, an empty host meaning every interface, that of debug
    on the loopback interface only; None: not served.
    metrics_per_set: metrics show each set by itself, else sums over all sets.
    readiness_endpoint, liveness_endpoint: URL paths that start with a slash and differ. client_qps,
    client_burst: limits of requests to the API server, per second and at once, both above 0. gang_provider:
    who schedules groups as a whole; None: no gang scheduler. node_loss: when a lost node counts as
    holding its pods, and what follows. effective: the whole configuration as YAML, for the log.
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
    node_loss: NodeLossPolicy
    effective: str
