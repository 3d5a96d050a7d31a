"""Settings of the manager that plans read directly, as part of every snapshot.

Settings that choose a scheduler reach the snapshots as `scheduler` and `gang`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lws.kube.nodes import NodeLossPolicy
from lws_api.config.v1alpha1 import Configuration


@dataclass(frozen=True, slots=True)
class Policies:
    """Settings that plans read. node_loss: what happens to pods on lost nodes."""

    node_loss: NodeLossPolicy = field(default_factory=NodeLossPolicy)

    @classmethod
    def of(cls, configuration: Configuration) -> Policies:
        """Return the policies in a valid configuration."""
        node_loss = configuration.node_loss
        return cls(node_loss=NodeLossPolicy(node_loss.after, node_loss.force_delete))
