"""Parts of the status of a DisaggregatedSet: the state of its roles, slices, revisions and rollouts."""

from __future__ import annotations

from pydantic import Field

from lws_api.meta import Int32, KubeModel, list_map


class RoleCount(KubeModel):
    """Number of groups of one role on one revision in one slice."""

    name: str
    """Name of the role."""
    replicas: Int32 = Field(default_factory=int)
    """Groups that exist."""
    ready_replicas: Int32 = Field(default_factory=int)
    """Groups that are ready."""


class RoleStatus(RoleCount):
    """State of one role, over all slices and revisions."""

    updated_replicas: Int32 = Field(default_factory=int)
    """Groups on the target revision, ready or not."""


class RevisionStatus(KubeModel):
    """State of one revision in one slice."""

    revision: str
    """Key of the revision: value of the label disaggregatedset.x-k8s.io/revision."""
    roles: tuple[RoleCount, ...] = Field(default_factory=tuple, json_schema_extra=list_map("name"))
    """Roles of the revision. Routers can weigh traffic by them."""


class SliceStatus(KubeModel):
    """State of one slice."""

    index: Int32
    """Index: value of the label disaggregatedset.x-k8s.io/slice."""
    revisions: tuple[RevisionStatus, ...] = Field(
        default_factory=tuple, json_schema_extra=list_map("revision")
    )
    """Revisions with groups, the target revision first."""


class SliceRollout(KubeModel):
    """Start of the rollout of one slice."""

    revision: str = Field(default_factory=str)
    """Key of the target revision."""
    initial_replicas: dict[str, Int32] = Field(default_factory=dict)
    """Groups of each LeaderWorkerSet at the start, by name."""
    targets: dict[str, Int32] = Field(default_factory=dict)
    """Desired groups of each role at the start."""
