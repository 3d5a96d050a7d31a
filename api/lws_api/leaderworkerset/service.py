"""The Service of the leaders of a LeaderWorkerSet: `spec.leaderService`.

The docstring of a field is its text in `kubectl explain`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from lws_api.meta import ActsAs, IntOrString, KubeModel, constrained


class LeaderServiceType(StrEnum):
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class LeaderServiceProtocol(StrEnum):
    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class LeaderServicePort(KubeModel):
    """One port of the Service."""

    name: str | None = None
    """A DNS label; required if there are several ports."""
    port: Annotated[int, constrained("integer", format="int32", minimum=1, maximum=65535)]
    """Port of the Service."""
    target_port: IntOrString | None = None
    """Port number or name in leader pods (default: `port`)."""
    protocol: Annotated[LeaderServiceProtocol | None, ActsAs(LeaderServiceProtocol.TCP)] = None
    """Protocol of the port (default TCP)."""


class LeaderService(KubeModel):
    """How clients reach the leaders of a set."""

    type: Annotated[LeaderServiceType | None, ActsAs(LeaderServiceType.CLUSTER_IP)] = None
    """Type of the Service (default ClusterIP)."""
    ports: tuple[LeaderServicePort, ...] | None = None
    """Ports of the Service (default: those of the leader template's containers)."""
