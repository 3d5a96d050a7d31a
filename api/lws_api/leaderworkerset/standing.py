"""How the groups of a set stand, as its status says it in parts of its own.

In: what the controller observed. Out: models of these parts.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from lws_api.meta import Int32, KubeModel


class RolloutPosition(KubeModel):
    """How far a rollout had come when it was last moved."""

    revision: str = Field(default_factory=str)
    """ControllerRevision of groups at or above `partition`."""
    partition: Int32 = Field(default_factory=int)
    """Groups with an index below this number have not moved yet."""


class PrewarmProgress(KubeModel):
    """How far the nodes of a rollout have new images."""

    revision: str = Field(default_factory=str)
    """ControllerRevision that needs the images."""
    partition: Int32 = Field(default_factory=int)
    """Groups below this index are left out."""
    start_time: datetime | None = None
    """`deadlineSeconds` counts from here."""
    completion_time: datetime | None = None
    """When the rollout went on."""
    nodes: Int32 = Field(default_factory=int)
    """Nodes that lack something."""
    ended: Int32 = Field(default_factory=int)
    """Nodes whose Job has ended."""


class UnsettledGroup(KubeModel):
    """A group that is not ready on the revision it should be on."""

    name: str = Field(default_factory=str)
    """Name of the group and of its leader pod."""
    state: str = Field(default_factory=str)
    """One of the keys of `counts`."""
    reason: str = Field(default_factory=str)
    """What the group waits for, or what is wrong with it."""


class GroupSummary(KubeModel):
    """How the groups of a set stand."""

    counts: dict[str, Int32] = Field(default_factory=dict)
    """Groups in each state: Ready, Outdated (ready on another revision), NotReady, Broken (outdated and not
    ready), Terminating, Missing. States without groups are omitted.
    """
    unsettled: tuple[UnsettledGroup, ...] = Field(default_factory=tuple)
    """At most 10 groups that are not ready on the target revision, those with problems first."""
