"""The settings of the manager that decisions about workloads read."""

from __future__ import annotations

from dataclasses import dataclass, field

from lws.kube.nodes import NodeLossPolicy


@dataclass(frozen=True, slots=True)
class Policies:
    """Carried by every snapshot. node_loss: what happens to pods on lost nodes."""

    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy)
