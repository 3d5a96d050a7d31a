"""The configuration file of the manager, as pydantic models with every default. Unknown keys are errors.

`make generate-api` writes the docstrings into docs/reference/configuration.md and the schema of the chart's
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from ssl import TLSVersion
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from lws_api.config.duration import Duration
from lws_api.meta import KubeModel, constrained

API_GROUP = "config.lws.x-k8s.io"
VERSION = "v1alpha1"
API_VERSION = f"{API_GROUP}/{VERSION}"
KIND = "Configuration"

GANG_PROVIDERS = ("volcano", "scheduler-plugins", "kubernetes")
"""Values of `gangSchedulingManagement.schedulerProvider`."""

# Each held shard costs a renewal every retry period.
MOST_SHARDS = 64

TLS_VERSIONS = {"VersionTLS12": TLSVersion.TLSv1_2, "VersionTLS13": TLSVersion.TLSv1_3}
"""Values of `tls.minVersion`."""

WORKLOAD_AWARE_SCHEDULING = "WorkloadAwareScheduling"
"""Key in `featureGates`."""

NO_SERVER = "0"
"""Value of a bind address for which nothing is served."""


class _Section(KubeModel):
    """A part of the file: strict about keys and types.

    A value that is null or an empty string counts as absent, but not an item of a list.
    """

    model_config = ConfigDict(extra="forbid", strict=True, validate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        aliases = {field.alias for field in cls.__pydantic_fields__.values()}
        return {key: item for key, item in value.items() if item not in ("", None) or key not in aliases}


def _default_of(model: type[KubeModel], info: ValidationInfo) -> Any:
    return model.model_fields[str(info.field_name)].default


class Webhook(_Section):
    """The webhook server."""

    port: int = Field(default=9443, ge=0, le=65535)
    """Port of the webhook server; 0 means the default."""
    host: str = ""
    """Address to listen on; if empty, all. The manager's own certificate includes it."""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"
    """Directory of `tls.crt` and `tls.key` from another tool; checked every 10 s."""
    shutdown_delay: Duration = timedelta()
    """How long the webhooks still answer after SIGTERM; shorter than the pod's grace period. The chart sets
    10s. Not in upstream.
    """

    @field_validator("port")
    @classmethod
    def _zero_is_default(cls, value: int, info: ValidationInfo) -> int:
        return value or _default_of(cls, info)


class LeaderElection(_Section):
    """The Lease by which one of several managers reconciles."""

    leader_elect: bool = True
    """Reconcile only while holding the Lease. If `false`, always reconcile; only for a single process."""
    lease_duration: Duration = timedelta(seconds=15)
    """How long other managers wait for a holder that stopped renewing; at least 1s."""
    renew_deadline: Duration = timedelta(seconds=10)
    """How long a holder that cannot renew may still reconcile; shorter than `leaseDuration`."""
    retry_period: Duration = timedelta(seconds=2)
    """Interval between attempts to acquire or renew the Lease; 1.2 times this must be shorter than
    `renewDeadline`.
    """
    resource_lock: str = "leases"
    """`leases` is the only valid value."""
    resource_name: str = "b8b2488c.x-k8s.io"
    """Name of the Lease, and prefix of those of shards (`<name>-0`, …). The chart grants permissions only for
    the default.
    """
    resource_namespace: str = ""
    """Ignored: the Lease is in the manager's own namespace."""

    @field_validator("lease_duration", "renew_deadline", "retry_period")
    @classmethod
    def _zero_is_default(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        return value or _default_of(cls, info)


class Metrics(_Section):
    """The metrics server."""

    bind_address: str = ":8443"
    """`host:port` of the metrics; `"0"` disables them."""
    per_set: bool = True
    """Report series for each set ([metrics](docs/reference/metrics.md#series-of-each-set)). If `false`,
    report sums over all sets. Not in upstream.
    """


class Health(_Section):
    """The server of the probes."""

    health_probe_bind_address: str = ":8081"
    """`host:port` of the probes; `"0"` disables them."""
    readiness_endpoint_name: str = "/readyz"
    """URL path; starts with a slash, is not `/`, and differs from `livenessEndpointName`."""
    liveness_endpoint_name: str = "/healthz"
    """URL path; starts with a slash, is not `/`, and differs from `readinessEndpointName`."""


class Debug(_Section):
    """The debug server, for users with a shell in the pod."""

    bind_address: Annotated[str, constrained("string", pattern="^(0|.*:[0-9]+)$")] = NO_SERVER
    """`host:port` of [/debug](docs/reference/endpoints.md#debug), with a loopback address such as
    `127.0.0.1`; `"0"` disables it. Not in upstream.
    """


class Tls(_Section):
    """TLS of the webhook and metrics servers."""

    min_version: Annotated[str, constrained("string", enum=list(TLS_VERSIONS))] = ""
    """For webhooks and metrics: `VersionTLS12` or `VersionTLS13`; if empty, TLS 1.2."""
    # Not strict: YAML has lists, no tuples.
    cipher_suites: tuple[str, ...] = Field(default=(), strict=False)
    """IANA names; not allowed with `VersionTLS13`. Unknown names are errors; OpenSSL must support at least
    one.
    """


class InternalCertManagement(_Section):
    """The manager's own certificates, for clusters without cert-manager."""

    enable: bool = True
    """Create, store, inject and rotate the webhook certificate. If `false`, another tool must write it to
    `webhook.certDir`.
    """
    webhook_service_name: str = "lws-webhook-service"
    """Service that the certificate is issued for; a DNS-1035 label."""
    webhook_secret_name: str = "lws-webhook-server-cert"
    """Secret that stores the certificate; a DNS-1123 subdomain. It must exist, but may be empty."""


class ClientConnection(_Section):
    """Limits of the manager's own requests to the API server."""

    qps: Annotated[float, constrained("number", maximum=100000)] = Field(default=500.0, allow_inf_nan=False)
    """Writes per second; 0 means the default, a negative number no limit. Reads are not limited; Leases and
    access reviews of scrapers have their own limits.
    """
    burst: Annotated[int, constrained("integer", maximum=100000)] = Field(default=500, ge=0, le=2**31 - 1)
    """Largest burst of writes; 0 means the default."""

    @field_validator("qps", "burst")
    @classmethod
    def _zero_is_default(cls, value: float, info: ValidationInfo) -> float:
        return value or _default_of(cls, info)


class GangSchedulingManagement(_Section):
    """Gang scheduling; disabled if this section is absent."""

    scheduler_provider: str
    """`volcano`, `scheduler-plugins` or `kubernetes`: which PodGroups the manager creates ([gang
    scheduling](docs/tasks/gangs.md)). Required in its section.
    """


class NodeLoss(_Section):
    """Pods on nodes whose kubelet no longer answers."""

    after: Duration = timedelta(minutes=5)
    """How long a node must be lost before its terminating pods are held
    ([node loss](docs/operations/node-loss.md#a-node-is-lost)); with 0s, after their grace period.
    Not in upstream.
    """
    force_delete: bool = False
    """Force-delete held pods; [two pods with the same name](docs/operations/node-loss.md#a-node-is-lost) may
    then run at the same time. Not in upstream.
    """


class Sharding(_Section):
    """Several managers reconcile, each its own namespaces; if this section is absent, only one does."""

    shards: Annotated[int, constrained("integer", minimum=1, maximum=MOST_SHARDS)]
    """1 to 64; above 1, managers share the namespaces ([shards](docs/operations/shards.md)). All managers
    must have the same value. Requires `leaderElect: true`, and a `resourceName` that does not end in a
    number. Not in upstream.
    """


class FeatureGates(_Section):
    """Features that are disabled by default, under upstream's names."""

    workload_aware_scheduling: bool = Field(default=False, alias=WORKLOAD_AWARE_SCHEDULING)
    """Enable `spec.scheduling` ([gangs](docs/tasks/gangs.md#specscheduling))."""


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
