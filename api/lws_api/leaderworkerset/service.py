"""The Service of the leaders of a LeaderWorkerSet, as users ask for it.

In: `spec.leaderService` as the API server returned it. Out: a frozen view; the docstring of a field is its
text in `kubectl explain`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from lws_api.meta import IntOrString, KubeModel, constrained


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
    """A DNS label; needed where there are several ports."""
    port: Annotated[int, constrained("integer", format="int32", minimum=1, maximum=65535)]
    """The port of the Service."""
    target_port: IntOrString | None = None
    """The port of leader pods, by number or by name. The number of `port` if it is left out."""
    protocol: LeaderServiceProtocol | None = None
    """TCP if it is left out."""


class LeaderService(KubeModel):
    """How clients reach the leaders of a set."""

    type: LeaderServiceType | None = None
    """ClusterIP, NodePort or LoadBalancer, as in Services. ClusterIP if it is left out."""
    ports: tuple[LeaderServicePort, ...] | None = None
    """The ports of the Service. If they are left out: those that the containers of the leader template
    declare.
    """
