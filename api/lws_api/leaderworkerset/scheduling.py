"""`spec.scheduling`: how the scheduler places the pods of a LeaderWorkerSet (KEP-666).

The docstring of a field is its text in `kubectl explain`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from lws_api.meta import Int32, KubeModel, Positive, list_map

_Empty = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class GangPolicy(KubeModel):
    """Pods are scheduled all together or not at all."""

    min_count: Positive | None = None
    """Pods that must be schedulable at once."""
    min_group_count: Int32 | None = None
    """Groups that must be schedulable at once."""


class SchedulingPolicy(KubeModel):
    """One of `basic` and `gang`."""

    basic: _Empty | None = None
    """Pods are scheduled one by one."""
    gang: GangPolicy | None = None
    """Pods are scheduled all together or not at all."""


class TopologyConstraint(KubeModel):
    """Pods run in one domain of a topology."""

    key: str
    """Node label whose values are the domains."""


class SchedulingConstraints(KubeModel):
    """Where pods run."""

    topology: tuple[TopologyConstraint, ...] | None = Field(default=None, json_schema_extra={"maxItems": 1})
    """At most one topology."""


class DisruptionMode(KubeModel):
    """One of `single` and `all`."""

    single: _Empty | None = None
    """Pods are disrupted one by one."""
    all: _Empty | None = None
    """Pods are disrupted all together."""


class PodGroupResourceClaim(KubeModel):
    """A resource claim that pods share. One of `resourceClaimName` and `resourceClaimTemplateName`."""

    name: str
    """Name of the claim in pod templates."""
    resource_claim_name: str | None = None
    """A ResourceClaim."""
    resource_claim_template_name: str | None = None
    """A ResourceClaimTemplate."""


class SchedulingLevel(KubeModel):
    """How the pods of one level are scheduled."""

    scheduling_policy: SchedulingPolicy | None = None
    """All together or one by one."""
    scheduling_constraints: SchedulingConstraints | None = None
    """Where they run."""
    disruption_mode: DisruptionMode | None = None
    """Disrupted all together or one by one."""


class RoleScheduling(SchedulingLevel):
    """How the leader or the workers of each group are scheduled."""

    resource_claims: tuple[PodGroupResourceClaim, ...] | None = Field(
        default=None, json_schema_extra={"maxItems": 4, **list_map("name")}
    )
    """Resource claims that these pods share."""


class ReplicaScheduling(SchedulingLevel):
    """How each group is scheduled."""

    leader: RoleScheduling | None = None
    """Its leader alone."""
    worker: RoleScheduling | None = None
    """Its workers alone."""


class SetScheduling(SchedulingLevel):
    """How the pods of a set are scheduled. Exactly one level has fields: the set, its groups (`replica`), or
    the roles in them.
    """

    replica: ReplicaScheduling | None = None
    """Each group by itself."""
