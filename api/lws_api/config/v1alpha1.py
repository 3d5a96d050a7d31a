"""The configuration file of the manager, as pydantic models with every default. Unknown keys are errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from lws_api.config.duration import Duration
from lws_api.meta import KubeModel

GROUP = "config.lws.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "Configuration"

GANG_PROVIDERS = ("volcano", "scheduler-plugins", "kubernetes")
"""Values of `gangSchedulingManagement.schedulerProvider`."""

WORKLOAD_AWARE_SCHEDULING = "WorkloadAwareScheduling"
"""Key in `featureGates`."""


class _Section(KubeModel):
    """A part of the file: strict about keys and types; null and empty text are as good as absent."""

    model_config = ConfigDict(extra="forbid", strict=True, validate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        known = {field.alias for field in cls.__pydantic_fields__.values()}
        return {key: item for key, item in value.items() if item not in ("", None) or key not in known}


def _default_of(model: type[KubeModel], info: ValidationInfo) -> Any:
    return model.model_fields[str(info.field_name)].default


class Webhook(_Section):
    """Where the webhooks are served."""

    port: int = Field(default=9443, ge=0, le=65535)
    """Port; 0 means the default."""
    host: str = ""
    """Address to listen on; empty means all."""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"
    """Directory with `tls.crt` and `tls.key`, read again when they change."""
    shutdown_delay: Duration = timedelta()
    """How long reviews are still answered after SIGTERM, while API servers turn to another manager."""

    @field_validator("port")
    @classmethod
    def _zero_is_default(cls, value: int, info: ValidationInfo) -> int:
        return value or _default_of(cls, info)


class LeaderElection(_Section):
    """Which one of several managers acts."""

    leader_elect: bool = True
    """Act only while holding the Lease."""
    lease_duration: Duration = timedelta(seconds=15)
    """How long others wait for a holder that has fallen silent."""
    renew_deadline: Duration = timedelta(seconds=10)
    """How long a holder that cannot renew goes on acting."""
    retry_period: Duration = timedelta(seconds=2)
    """How often the Lease is tried or renewed."""
    resource_lock: str = "leases"
    """The kind of lock; `leases` is the only one."""
    resource_name: str = "b8b2488c.x-k8s.io"
    """Name of the Lease."""
    resource_namespace: str = ""
    """Read and ignored, as it has always been: the Lease is in the manager's own namespace."""

    @field_validator("lease_duration", "renew_deadline", "retry_period")
    @classmethod
    def _zero_is_default(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        return value or _default_of(cls, info)


class Metrics(_Section):
    """The metrics endpoint."""

    bind_address: str = ":8443"
    """Address to listen on; `"0"` means none."""
    per_set: bool = True
    """Series of each set by itself; `false`: their sums over all sets."""


class Health(_Section):
    """The probes."""

    health_probe_bind_address: str = ":8081"
    """Address to listen on; `"0"` means none."""
    readiness_endpoint_name: str = "/readyz"
    """URL path of the readiness probe."""
    liveness_endpoint_name: str = "/healthz"
    """URL path of the liveness probe."""


class Debug(_Section):
    """What the process is doing: stacks, queue, caches, profiles. For people with a shell in the pod."""

    bind_address: str = "0"
    """Address to listen on, of the loopback interface; `"0"` means none."""


class Tls(_Section):
    """What clients of the webhook and metrics servers must be able to speak."""

    min_version: str = ""
    """VersionTLS12 or VersionTLS13; VersionTLS12 if it is left out."""
    # Not strict: YAML has lists, no tuples.
    cipher_suites: tuple[str, ...] = Field(default=(), strict=False)
    """Names of cipher suites as IANA and Go spell them; they concern TLS 1.2 only."""


class InternalCertManagement(_Section):
    """The manager's own certificates, for clusters without cert-manager."""

    enable: bool = True
    """Make, store, inject and rotate the certificate of the webhooks."""
    webhook_service_name: str = "lws-webhook-service"
    """The Service that the certificate is for."""
    webhook_secret_name: str = "lws-webhook-server-cert"
    """The Secret that it is kept in; it must exist."""


class ClientConnection(_Section):
    """How hard the API server may be pressed."""

    qps: float = Field(default=500.0, allow_inf_nan=False)
    """Requests per second; 0 means the default, a negative number no limit."""
    burst: int = Field(default=500, ge=0, le=2**31 - 1)
    """Requests at once; 0 means the default."""

    @field_validator("qps", "burst")
    @classmethod
    def _zero_is_default(cls, value: float, info: ValidationInfo) -> float:
        return value or _default_of(cls, info)


class GangSchedulingManagement(_Section):
    """Gang scheduling; off where this section is absent."""

    scheduler_provider: str
    """Scheduler of groups as a whole: one of `GANG_PROVIDERS`."""


class NodeLoss(_Section):
    """Pods that wait for ever for the kubelet of a node that does not answer any more."""

    after: Duration = timedelta(minutes=5)
    """How long a node must have been away before its pods count as held."""
    force_delete: bool = False
    """Delete held pods by force. Their containers may still run where only the network is broken."""


class Sharding(_Section):
    """Several managers act side by side, each on namespaces of its own; where this is absent, one acts."""

    shards: int
    """Into how many parts the namespaces are divided, by a hash of their names; the same in every manager."""


class FeatureGates(_Section):
    """Features that are off unless they are switched on, under upstream's names."""

    workload_aware_scheduling: bool = Field(default=False, alias=WORKLOAD_AWARE_SCHEDULING)
    """Serve `spec.scheduling`."""


class Configuration(_Section):
    """The whole file."""

    api_version: Literal["config.lws.x-k8s.io/v1alpha1"]
    kind: Literal["Configuration"]
    webhook: Webhook = Webhook()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    health: Health = Health()
    debug: Debug = Debug()
    tls: Tls = Tls()
    internal_cert_management: InternalCertManagement = InternalCertManagement()
    client_connection: ClientConnection = ClientConnection()
    node_loss: NodeLoss = NodeLoss()
    gang_scheduling_management: GangSchedulingManagement | None = None
    feature_gates: FeatureGates = FeatureGates()
    sharding: Sharding | None = None
