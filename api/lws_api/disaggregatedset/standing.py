"""How the roles of a DisaggregatedSet stand, as its status says it in parts of its own.

In: what the controller observed. Out: models of these parts.
"""

from __future__ import annotations

from pydantic import Field

from lws_api.meta import Int32, KubeModel, list_map


class RoleStatus(KubeModel):
    """How one role stands, over all slices and revisions."""

    name: str
    """The name of the role."""
    replicas: Int32 = Field(default_factory=int)
    """How many groups of the role exist."""
    ready_replicas: Int32 = Field(default_factory=int)
    """How many of them are ready."""
    updated_replicas: Int32 = Field(default_factory=int)
    """How many of them are on the target revision, ready or not."""


class RoleCount(KubeModel):
    """How many groups one role has on one revision in one slice."""

    name: str
    """The name of the role."""
    replicas: Int32 = Field(default_factory=int)
    """How many groups exist."""
    ready_replicas: Int32 = Field(default_factory=int)
    """How many of them are ready."""


class RevisionStatus(KubeModel):
    """How one revision stands in one slice."""

    revision: str
    """The key of the revision: the value of the label disaggregatedset.x-k8s.io/revision."""
    roles: tuple[RoleCount, ...] = Field(default_factory=tuple, json_schema_extra=list_map("name"))
    """Its roles. A router that keeps requests within one revision may weigh traffic by them."""


class SliceStatus(KubeModel):
    """How one slice stands."""

    index: Int32
    """The index of the slice: the value of the label disaggregatedset.x-k8s.io/slice."""
    revisions: tuple[RevisionStatus, ...] = Field(
        default_factory=tuple, json_schema_extra=list_map("revision")
    )
    """The revisions that run in it, the wanted one first."""


class SliceRollout(KubeModel):
    """Where the rollout of one slice began."""

    revision: str = Field(default_factory=str)
    """The key of the revision that the slice moves to."""
    initial_replicas: dict[str, Int32] = Field(default_factory=dict)
    """How many groups each LeaderWorkerSet had at the start, by its name."""
    targets: dict[str, Int32] = Field(default_factory=dict)
    """How many groups each role was to have then."""
